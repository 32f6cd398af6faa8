"""What is left when a program ends: nothing, and no complaint."""

import subprocess
import sys

PROGRAM = """
import asyncio
from sapwood import Agent, tool
from sapwood.testing import calls, says, scripted

@tool
async def ping() -> str:
    "Answer."
    async def endless():
        while True:
            yield 1
    held.append(endless())
    await anext(held[-1])
    return "pong"

held = []
agent = Agent(llm=scripted(calls("ping"), says("done"))).with_tools([ping])
print("".join(agent.chat("go")))
"""


def test_the_private_loop_is_closed_when_the_program_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", PROGRAM], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
