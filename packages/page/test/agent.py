"""An agent without a model, for the tests of the page against the real server: its prompt tells it what to do."""

import time
from typing import Any

from sapwood import Agent, ModelRequest, SubagentDefinition, UsageLimits, create_memory_store, tool
from sapwood.llm.scripted import ScriptedReply
from sapwood.testing import call, calls, says, scripted


@tool
def get_weather(city: str) -> dict[str, Any]:
    """Tell the weather of a city."""
    if city == "Atlantis":
        raise ValueError("no such city")
    return {"city": city, "celsius": 21, "sky": "clear"}


@tool(requires_approval=True)
def refund_order(order: str, amount: int) -> dict[str, Any]:
    """Give money back."""
    return {"refunded": amount, "order": order}


@tool(external=True)
def read_thermometer(room: str) -> str:
    """Read the thermometer of a room."""
    raise NotImplementedError


@tool
def wait_a_little(seconds: float) -> str:
    """Take some time."""
    time.sleep(seconds)
    return "waited"


FIRST = {
    "weather": lambda: calls(
        call("get_weather", {"city": "Lisbon"}), call("get_weather", {"city": "Atlantis"}), thinking="Two cities."
    ),
    "refund": lambda: calls(call("refund_order", {"order": "A-1042", "amount": 80}), text="That needs your word."),
    "external": lambda: calls(call("read_thermometer", {"room": "attic"})),
    "research": lambda: calls(call("task", {"agent_name": "reader", "task": "read the log"})),
    "deep": lambda: calls(call("task", {"agent_name": "reader", "task": "give it: refund"})),
    "slow": lambda: calls(call("wait_a_little", {"seconds": 2.5})),
    "limit": lambda: calls(*[call("get_weather", {"city": "Lisbon"})] * 7),
}


def answer(request: ModelRequest) -> ScriptedReply:
    """Call what the prompt names; with results at hand, tell of them."""
    messages = request.transcript[:]
    last = messages[-1]
    if results := last.tool_results:
        return says(f"It is **done**: `{results[-1].text[:200]}`.")
    for word, reply in FIRST.items():
        if word in last.text:
            return reply()
    return says(f"You said: {last.text[-200:]}")


reader = SubagentDefinition(name="reader", description="Reads long documents.", tools=(refund_order,))
agent = (
    Agent(llm=scripted(*[answer] * 1000))
    .with_system_prompt("You are the assistant of a small shop.")
    .with_tools([get_weather, refund_order, read_thermometer, wait_a_little])
    .with_approval(defer=True)
    .with_subagents([reader])
    .with_memory(create_memory_store())
    .with_usage_limits(UsageLimits(tool_calls_limit=5, policies={"tool_calls": "ask"}))
)
