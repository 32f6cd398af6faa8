"""What the statements of a guide are tried with: two tools, and the parts of `run_agent` as a list."""

import asyncio
from typing import Any

from sapwood import run_agent

NOTES = [
    {"name": "notes.list", "description": "List the notes", "input_schema": {"type": "object"}},
    {"name": "notes.add", "description": "Add a note", "input_schema": {"type": "object"}},
]


def parts(**options: Any) -> list[Any]:
    async def main() -> list[Any]:
        return [part async for part in run_agent(**options)]

    return asyncio.run(main())
