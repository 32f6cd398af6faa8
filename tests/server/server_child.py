"""A server in a process of its own, for tests that kill it: each run has three effects, noted in a file."""

import asyncio
import os
import sys

from sapwood import Agent, SqliteStore, tool
from sapwood.core.model import ModelRequest
from sapwood.core.tools import ToolContext
from sapwood.llm.scripted import ScriptedReply
from sapwood.server import Settings, create_app, serve
from sapwood.testing import call, calls, says, scripted

database, effects, on_restart = sys.argv[1:]


@tool
async def effect(n: int, context: ToolContext) -> str:
    """Do something that must not be done twice."""
    await asyncio.sleep(0.02)
    with open(effects, "a", encoding="utf-8") as file:
        file.write(f"{context.run_id} {n}\n")
        file.flush()
        os.fsync(file.fileno())
    await asyncio.sleep(0.02)
    return f"effect {n}"


def reply(request: ModelRequest) -> ScriptedReply:
    done = sum(bool(message.tool_results) for message in request.transcript)
    return calls(call("effect", {"n": done}), text="Next. ") if done < 3 else says("All three.")


settings = Settings(on_restart=on_restart, max_runs_each=1_000, requests_per_minute=1_000_000)  # type: ignore[arg-type]
with SqliteStore(database) as store:
    agent = Agent(llm=scripted(*[reply] * 10_000)).with_tools([effect])
    app = create_app(agent, store=store, settings=settings)
    serve(app, port=0, started=lambda address: print(address, flush=True))
