"""Make the golden journals of this version: `python tests/stores/make_golden.py FOLDER` (real turns of a scripted model)."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from sapwood.core.codec import to_json
from sapwood.core.errors import ToolError
from sapwood.core.memory import MemoryRecord
from sapwood.core.messages import Message
from sapwood.core.run import Run
from sapwood.core.usage import Usage
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.runtime.saving import SavingRuntime
from sapwood.sources.memory import memory_source
from sapwood.stores.in_process import create_memory_store
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted
from support.turns import bound, long_history, spec

USAGE = Usage(prompt_tokens=120, completion_tokens=12)


def fail() -> None:
    raise ToolError("no such customer")


def stop() -> None:
    raise KeyboardInterrupt


TOOLS = [
    bound("add", lambda a, b: a + b, read_only=True),
    bound("fail", fail),
    bound("stop", stop),
    bound("table", lambda: {"rows": [1, None, "ü\u2028"], "share": 0.25}),
]


def plain() -> Any:
    return spec(scripted(says("Hello.", thinking="A greeting.", usage=USAGE)))


def tools() -> Any:
    asked = calls(call("add", {"a": 2, "b": 3}), call("fail"), call("table"), call("nothing"), text="Let me see.")
    return spec(scripted(asked, calls(call("add", raw='{"a": ')), says("Done.", usage=USAGE)), TOOLS)


def recalled() -> Any:
    store = create_memory_store([MemoryRecord("m1", "The user likes tea", 1_700_000_000_000, "fact", {"by": "chat"})])
    return spec(scripted(says("Tea, then.")), sources=[memory_source(store)])


def shortened() -> Any:
    return spec(scripted(says("Short now.")), history=long_history(), window=2_000)


def interrupted() -> Any:
    return spec(scripted(calls(call("add", {"a": 1, "b": 1}), call("stop"))), TOOLS)


def last_round() -> Any:
    many = [calls(call("add", {"a": number, "b": 1})) for number in range(10)]
    return spec(scripted(*many), TOOLS)


CASES: dict[str, Callable[[], Any]] = {
    case.__name__: case for case in (plain, tools, recalled, shortened, interrupted, last_round)
}


def journal(name: str) -> list[str]:
    """Return the lines of a case."""
    store = InProcessStore()
    saving = SavingRuntime(BlockingRuntime(), store.runs, run_id=name, conversation_id="c1", base_seq=0)
    try:
        list(iterate(run_turn(start_run(name), CASES[name](), saving, prompt=Message.user("Do I like tea?"))))
    except KeyboardInterrupt:
        print(f"{name} was interrupted, as it is to be")
    run = store.runs.load(name)
    return [json.dumps(end_of(run)), *(to_json(event).decode() for event in store.runs.events(name))]


def end_of(run: Run) -> dict[str, Any]:
    """Return what a turn became, in words that no later version changes."""
    return {
        "run_id": run.run_id,
        "conversation_id": run.conversation_id,
        "phase": run.phase,
        "round": run.round,
        "text": run.text,
        "roles": [message.role for message in run.messages],
        "results": [result.text for message in run.messages for result in message.tool_results],
        "open": [item.call.name for item in run.calls if item.state != "done"],
        "tokens": run.usage.total_tokens,
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for case in CASES:
        (folder / f"{case}.jsonl").write_text("\n".join(journal(case)) + "\n", encoding="utf-8")
