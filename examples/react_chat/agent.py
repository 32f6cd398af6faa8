"""The agent behind this page: `sapwood serve examples.react_chat.agent:agent`, from the root of the repository.

`MODEL=anthropic/claude-haiku-4-5` (any model with a key) answers for real. Without it a script does, which knows three
things: `refund 25` asks for an approval, `brew 5` takes so many seconds, and anything else is answered in words.
"""

import asyncio
import os
import re

from sapwood import Agent, ModelRequest, ToolResult, tool
from sapwood.llm.scripted import ScriptedReply
from sapwood.testing import call, calls, says, scripted


@tool(requires_approval=True)
def refund(order: int, amount: float) -> str:
    """Pay money back to a customer."""
    return f"{amount:g} euros went back for order {order}"


@tool
async def brew(seconds: float) -> str:
    """Brew tea, which takes its time."""
    await asyncio.sleep(seconds)
    return f"tea after {seconds:g} seconds"


def answer(request: ModelRequest) -> ScriptedReply:
    """Return what the script says to the newest message."""
    last = request.transcript[-1]
    results = [part for part in last.content if isinstance(part, ToolResult)]
    if results:
        return says(f"It is done: {results[-1].text.splitlines()[0]}.")
    wanted = re.match(r"(refund|brew) (\d+)", last.text.lower())
    match wanted.groups() if wanted else None:
        case ("refund", amount):
            return calls(call("refund", {"order": 7, "amount": int(amount)}), text="Let me see.")
        case ("brew", seconds):
            return calls(call("brew", {"seconds": int(seconds)}))
        case _:
            return says("I can refund an order and brew tea. Say: refund 25, or: brew 5.", thinking="They are curious.")


model = os.environ.get("MODEL")
agent = (Agent(model) if model else Agent(llm=scripted(*[answer] * 10_000))).with_tools([refund, brew])
