"""A conversation of fifty turns with tools, lazy tools, memory and one compaction, over any of the protocols."""

from typing import Any, NamedTuple

from sapwood import Agent, AgentTool, MemoryRecord, create_memory_store, lazy_tool_source, memory_source, tool
from sapwood.core.events import CompactionFinished, ContextUpdated, ToolFinished
from sapwood.testing import prefix_shares
from support.wire_script import Said, Script, provider_for

TURNS = 50
WINDOW = 14_000
HOUSE = "You keep the books of a small harbour. Answer in one sentence. " * 60
FACTS = (
    "the harbour is called Larvik",
    "boat 7 is called Hope",
    "the crane is out of order",
    "fees are paid on Friday",
)


@tool
def berth_price(berth: int) -> str:
    """Return the price of a berth."""
    return f"berth {berth} costs {berth * 3} crowns a night, " + "with water and electricity included, " * 6


@tool
def list_boats(berth: int) -> str:
    """List the boats at a berth."""
    return f"boat {berth}: Hope; " * 20


WORDS = ("tax", "fee", "fine", "fuel", "crane", "berth", "crew", "cargo", "pilot", "tug", "waste", "light")


def lazy_tools() -> list[AgentTool]:
    """Twelve tools that the model has to search for."""

    def change(amount: int) -> str:
        return f"changed by {amount}"

    make = [(f"ledger_{word}", f"Change the {word} in the ledger of the harbour.") for word in WORDS]
    return [tool(change, name=name, description=text) for name, text in make]


class Conversation(NamedTuple):
    """What was sent and seen.

    bodies: as sent. shares: of each body but the first, how much of the one before is its beginning.

    moved: numbers of bodies whose history had been shortened. recalled, searched: turns with a block of memory beside
    them, and tools found.
    """

    bodies: list[bytes]
    shares: list[float]
    moved: list[int]
    recalled: int
    results: list[str]
    tokens: list[tuple[int, int]]


def replies(number: int) -> list[Said]:
    """What the model says in a turn."""
    said: list[Said] = []
    if number % 10 == 3:
        word = WORDS[number // 10 % len(WORDS)]
        said.append([("search_tools", {"query": f"change the {word} in the ledger"})])
        said.append([("call_tool", {"name": f"ledger_{word}", "args": {"amount": number}})])
    if number % 2:
        said.append([("berth_price", {"berth": number}), ("list_boats", {"berth": number})])
    said.append(f"Berth {number} is fine. " + "It is near the crane and costs little. " * 5)
    return said


def converse(protocol: str, *, turns: int = TURNS, window: int = WINDOW, **options: Any) -> Conversation:
    """Run the conversation and return what was sent."""
    script = Script(protocol, [said for number in range(turns) for said in replies(number)])
    store = create_memory_store([MemoryRecord(f"f{place}", text, place) for place, text in enumerate(FACTS)])
    agent = (
        Agent(llm=provider_for(protocol, script), max_tokens=window, **options)
        .with_system_prompt(HOUSE)
        .with_tools([berth_price, list_boats])
        .with_sources([lazy_tool_source(lazy_tools()), memory_source(store)])
    )
    history: Any = []
    moved: list[int] = []
    recalled, results = 0, list[str]()
    tokens: list[tuple[int, int]] = []
    for number in range(turns):
        for event in agent.stream(f"What of boat {number % 9} and the crane at berth {number}?", messages=history):
            if isinstance(event, CompactionFinished):
                moved.append(len(script.bodies))
            elif isinstance(event, ContextUpdated) and event.op == "recalled":
                recalled += 1
            elif isinstance(event, ToolFinished) and not event.is_error:
                results.append(str(event.value))
        history = agent.last_messages
        rounds = agent.last_turn.rounds if agent.last_turn else ()
        for used in (item.ledger for item in rounds if item.ledger):
            tokens.append((used.estimated_tokens, used.sections["system"] + used.sections["tools"]))
    return Conversation(script.bodies, prefix_shares(script.bodies), moved, recalled, results, tokens)
