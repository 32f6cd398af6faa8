"""Draw the types of the wire, as TypeScript, for `packages/react`, or check (`--check`) that they are current.

Each type is a Struct of `sapwood.server.encode.chunks` or of `sapwood.core.parts`, as msgspec describes it in JSON
Schema; its comment is the Struct's docstring. A field that has a default may be absent on the wire, and is optional.
"""

import inspect
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec

from sapwood.core import memory, parts
from sapwood.server.encode import chunks

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "packages" / "react" / "src" / "wire.ts"
HEAD = "// Drawn by scripts/draw_types.py from the Python side; do not edit. A test checks that it is current.\n"
UNIONS = {
    "AnyChunk": (chunks.AnyChunk, "A line of the stream."),
    "AgentPart": (parts.AgentPart, "A part of a turn, as `run_agent` and an agent's parts give it."),
}
# Names that mean something else in a browser, or that would hide ours.
RENAMED = {"Error": "ErrorChunk", "FilePart": "FileChunk"}
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def drawn() -> str:
    """Return the whole file."""
    roots = [union for union, _ in UNIONS.values()]
    _, components = msgspec.json.schema_components(roots, ref_template="{name}")
    blocks = [_union(name, union, said) for name, (union, said) in UNIONS.items()]
    blocks += [_interface(name, schema) for name, schema in sorted(components.items())]
    return HEAD + "\n" + "\n\n".join(blocks) + "\n"


def _union(name: str, union: Any, said: str) -> str:
    members = "\n".join(f"  | {_name(member.__name__)}" for member in typing.get_args(union))
    return f"/** {said} */\nexport type {name} =\n{members};"


def _interface(name: str, schema: dict[str, Any]) -> str:
    required = set(schema["required"])
    fields = [
        f"  readonly {field}{'' if field in required else '?'}: {_type(value, without_null=field not in required)};"
        for field, value in schema["properties"].items()
    ]
    return "\n".join([_comment(name), f"export interface {_name(name)} {{", *fields, "}"])


def _comment(name: str) -> str:
    owner = next(module for module in (chunks, parts, memory) if hasattr(module, name))
    lines = (inspect.getdoc(getattr(owner, name)) or "").partition("\n\n>>>")[0].splitlines()
    if len(lines) == 1:
        return f"/** {lines[0]} */"
    return "\n".join(["/**", *(f" * {line}".rstrip() for line in lines), " */"])


def _type(schema: dict[str, Any], *, without_null: bool = False) -> str:
    match schema:
        case {"$ref": str(name)}:
            return _name(name)
        case {"anyOf": members}:
            names = [_type(member) for member in members]
            if set(names) == _chunk_names():
                return "AnyChunk"
            # What is None in Python is absent on the wire, where it is its default.
            return " | ".join(item for item in names if not (without_null and item == "null"))
        case {"enum": values}:
            return " | ".join(msgspec.json.encode(value).decode() for value in values)
        case {"type": "array"}:
            item = _type(schema.get("items", {}))
            return f"readonly ({item})[]" if " " in item else f"readonly {item}[]"
        case {"type": "object", "additionalProperties": dict(value)}:
            return f"Readonly<Record<string, {_type(value)}>>"
        case {"type": "object"}:
            return "Readonly<Record<string, unknown>>"
        case {"type": str(kind)}:
            return PLAIN[kind]
        case _:
            return "unknown"


def _chunk_names() -> set[str]:
    return {_name(member.__name__) for member in typing.get_args(chunks.AnyChunk)}


def _name(name: str) -> str:
    return RENAMED.get(name, name)


def main(arguments: list[str]) -> int:
    fresh = drawn()
    if "--check" not in arguments:
        PAGE.write_text(fresh, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == fresh:
        return 0
    print(f"{PAGE.relative_to(ROOT)} is not current; run `python scripts/draw_types.py`", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
