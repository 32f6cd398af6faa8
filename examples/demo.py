"""The main job in four turns, on the best model there is: remember a fact, find a tool among 527, call it, recall.

Run it with `make demo`. It needs no key, asks nothing and ends by itself. It prints what the model really chose,
says plainly where that was wrong, and shows after each turn what the model was sent.
"""

import ast
import gzip
import json
import operator
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rich.console import Console
from rich.text import Text

from sapwood import (
    Agent,
    AgentTool,
    CancelToken,
    LLMError,
    ModelRequest,
    RunCancelledError,
    SqliteStore,
    ToolError,
    Turn,
    create_memory_store,
    lazy_tool_source,
    memory_source,
)
from sapwood.cli.first_model import choose_model
from sapwood.cli.view import TurnView, ledger_table
from sapwood.core.events import AgentEvent, TextDelta, ToolStarted
from sapwood.llm.scripted import ScriptedReply
from sapwood.testing import call, calls, says, scripted

CORPUS = "data/livemcp/corpus.jsonl.gz"
HERE = Path(__file__).parent
SYSTEM = "You are a helpful assistant."
MAX_SECONDS = 240.0
KEPT = Path("demo.db")
# A thread of whoever opens the page on this machine.
THREAD = "local/demo"
# What the user says, and the tool that a good answer calls (after a search).
TURNS = (
    ("Hello! I am Ada, from Lisbon.", None),
    ("Search for a current time tool, then tell me what time it is in Tokyo.", "time.get_current_time"),
    ("Search for a calculator tool, then calculate 1234 * 56.", "calculator.calculate"),
    ("What is my name, and where do I live?", None),
)
EXPECTED_WORDS = {2: "69104", 3: "Lisbon"}


def tools() -> list[AgentTool]:
    """Return the 527 tools: the calculator and the clock work here, the others say that they are not connected."""
    shared = HERE.parent.parent / "shared" / CORPUS
    path = shared if shared.exists() else HERE / "data" / "livemcp_tools.jsonl.gz"
    found: list[AgentTool] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            name = entry["id"].replace("/", ".")
            run = WORKING.get(name, not_connected(name))
            schema = {**entry["input_schema"], "type": "object"}
            schema.pop("$schema", None)
            found.append(AgentTool(name=name, description=entry["text"] or name, input_schema=schema, fn=run))
    return found


def calculate(expression: str) -> str:
    """Evaluate arithmetic; nothing else is run."""
    try:
        return str(_value(ast.parse(expression, mode="eval").body))
    except (SyntaxError, KeyError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise ToolError(f"cannot calculate {expression!r}: {error}") from error


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case _:
            raise TypeError("only numbers and + - * / // % are understood")


OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def current_time(timezone: str) -> str:
    """Return the time in a time zone."""
    try:
        return datetime.now(ZoneInfo(timezone)).strftime("%Y-%m-%d %H:%M (%Z)")
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise ToolError(f"there is no time zone {timezone!r}; use a name such as Europe/Lisbon") from error


def not_connected(name: str) -> Callable[..., str]:
    """Return what stands for a tool that this demonstration does not connect."""

    def run(**arguments: Any) -> str:
        raise ToolError(f"{name} is not connected in this demonstration")

    return run


WORKING: dict[str, Callable[..., str]] = {"calculator.calculate": calculate, "time.get_current_time": current_time}


def remember(turn: Turn) -> list[str]:
    """Keep what the user says of themselves."""
    return [f"The user said: {turn.text}"] if " i am " in turn.text.lower() else []


def script() -> list[Callable[[ModelRequest], ScriptedReply]]:
    """Return what the script says where no model can be had."""
    replies = [
        says("Hello Ada, nice to meet you."),
        calls(call("search_tools", {"query": "current time in a timezone"})),
        calls(call("time_get_current_time", {"timezone": "Asia/Tokyo"})),
        says("That is the time in Tokyo now."),
        calls(call("search_tools", {"query": "calculate an expression"})),
        calls(call("calculator_calculate", {"expression": "1234 * 56"})),
        says("It is 69104."),
        says("You are Ada, from Lisbon."),
    ]
    return [lambda request, reply=reply: reply for reply in replies]  # type: ignore[misc]


def judge(number: int, called: list[str], text: str) -> tuple[bool, str]:
    """Return whether the model chose well, and what it chose, in words."""
    wanted = TURNS[number][1]
    made = ", then ".join(called) or "no tool"
    if wanted is None:
        good = not called
        said = "as it should" if good else "where none was needed"
        if number in EXPECTED_WORDS and EXPECTED_WORDS[number] not in text:
            return False, f"it called {made}, but the answer does not say {EXPECTED_WORDS[number]!r}"
        return good, f"it called {made}, {said}"
    if wanted not in called:
        return False, f"it called {made}; the right tool was {wanted}"
    if number in EXPECTED_WORDS and EXPECTED_WORDS[number] not in text.replace(",", ""):
        return False, f"it called {made}, but the answer does not say {EXPECTED_WORDS[number]}"
    return True, f"it called {made}"


def main() -> int:
    """Hold the conversation."""
    began = time.monotonic()
    console = Console(highlight=False)
    chosen = choose_model(local_options={"temperature": 0})
    provider = chosen.provider if chosen.is_real else scripted(*script())
    console.print(
        Text(f"Model: {chosen.label}" if chosen.is_real else "No model could be had: a script speaks.", style="bold")
    )
    toolset = tools()
    store = SqliteStore(fresh(KEPT))
    agent = (
        Agent(llm=provider, max_tokens=8_192, max_response_tokens=128, max_rounds=4)
        .with_system_prompt(SYSTEM)
        .with_sources(
            [
                memory_source(create_memory_store(), remember=remember),
                lazy_tool_source(toolset, k=3, menu_tokens=300, loading="relist"),
            ]
        )
        .with_conversation(store, THREAD)
    )
    good = 0
    for number, (prompt, _) in enumerate(TURNS):
        console.print(Text(f"\n› {prompt}", style="bold cyan"))
        called: list[str] = []
        text = ""
        token = CancelToken()
        # A small model may talk for ever; the whole ends in time whatever it does.
        timer = threading.Timer(max(5.0, MAX_SECONDS - (time.monotonic() - began)), token.cancel)
        timer.start()
        try:
            with TurnView(console) as view:
                for event in agent.stream(prompt, cancel=token):
                    view.show(event)
                    called, text = noted(event, called, text)
        except RunCancelledError:
            console.print(Text(f"Stopped: {MAX_SECONDS:.0f} s are over.", style="yellow"))
        except LLMError as error:
            console.print(Text(f"The model did not answer: {error}", style="red"))
        timer.cancel()
        is_good, words = judge(number, called, text)
        good += is_good
        console.print(Text(f"{'✓' if is_good else '✗ chosen wrongly:'} {words}", style="green" if is_good else "red"))
        last = agent.last_turn
        console.print(ledger_table(last.rounds[-1].ledger if last and last.rounds else None))
    chosen.close()
    store.close()
    seconds = time.monotonic() - began
    console.print(
        Text(f"\n{good} of {len(TURNS)} turns as they should be, {len(toolset)} tools, {seconds:.0f} s.", style="bold")
    )
    console.print(
        "See this conversation in the page, and what the model saw of it: make serve, then http://127.0.0.1:8000"
    )
    return 0


def fresh(path: Path) -> Path:
    """Return the path of a store, once what an earlier run has left there is gone."""
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()
    return path


def noted(event: AgentEvent, called: list[str], text: str) -> tuple[list[str], str]:
    """Return the tools called and the text said, with this event."""
    match event:
        case ToolStarted(name=name):
            return [*called, name], ""
        case TextDelta(text=more):
            return called, text + more
        case _:
            return called, text


if __name__ == "__main__":
    raise SystemExit(main())
