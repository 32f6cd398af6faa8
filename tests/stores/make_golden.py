"""Make the golden journals of this version: `python tests/stores/make_golden.py FOLDER` (real turns of a scripted model)."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

sys.path.insert(0, str(Path(__file__).parent.parent))

from sapwood import Agent, ApprovalDecision, ExternalResult, SubagentDefinition, UsageLimits, tool
from sapwood.agent.answers import Answers
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
from sapwood.testing.faults import Crash, crash_at
from support.turns import bound, long_history, spec

Segments: TypeAlias = Iterator[tuple[Agent, Answers | None]]
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


@tool(requires_approval=True)
def guarded(what: str) -> str:
    """Write, if a person agrees."""
    return f"wrote {what}"


@tool(external=True)
def outside(what: str) -> str:
    """Done by somebody outside."""
    raise AssertionError("it is not run here")


class Invoice(TypedDict):
    """A structured output."""

    customer: str
    total: float


def governed(*replies: Any, **more: Any) -> Agent:
    helper = SubagentDefinition(name="helper", description="Helps.", tools=(guarded,), **more)
    agent = Agent(llm=scripted(*replies)).with_tools([guarded, outside]).with_subagents([helper])
    return agent.with_approval(defer=True, expires_seconds=600)


ASKED = calls(call("guarded", {"what": "a"}), call("guarded", {"what": "b"}, id="b"), usage=USAGE)
TASK = calls(call("task", {"agent_name": "helper", "task": "Write c"}), usage=USAGE)
YES, NO = ApprovalDecision(approved=True, by="ann"), ApprovalDecision(approved=False, reason="too much")
OTHER = ApprovalDecision(approved=True, updated_input={"what": "d"})


def waits_for_approval() -> Segments:
    yield governed(ASKED), None


def approved() -> Segments:
    yield governed(ASKED), None
    yield governed(says("Done.", usage=USAGE)), Answers({"r0c0": OTHER, "b": NO})


def child_waits() -> Segments:
    yield governed(TASK, calls(call("guarded", {"what": "c"}))), None


def child() -> Segments:
    yield governed(TASK, calls(call("guarded", {"what": "c"}))), None
    yield governed(says("It is written."), says("Done.", usage=USAGE)), Answers({"r0c0/r0c0": YES})


def from_outside() -> Segments:
    yield governed(calls(call("outside", {"what": "a"}))), None
    yield governed(says("Seen.")), Answers({"r0c0": ExternalResult({"rows": [1, None]}, by="robot")})


def at_limit() -> Segments:
    limits = UsageLimits(tool_calls_limit=1, on_limit="ask")
    many = [call("task", {"agent_name": "nobody", "task": "x"}), call("task", {"agent_name": "nobody", "task": "y"})]
    yield governed(calls(*many)).with_usage_limits(limits), None
    yield governed(says("Done.")).with_usage_limits(limits), Answers(extend={"tool_calls": 2}, by="ann")


def limit_ends() -> Segments:
    many = [call("nothing"), call("nothing"), call("nothing")]
    yield governed(calls(*many), says("That is all.")).with_usage_limits(UsageLimits(tool_calls_limit=2)), None


def output() -> Segments:
    wrong = calls(call("final_result", {"customer": "ACME"}))
    right = calls(call("final_result", {"customer": "ACME", "total": 2.5}))
    yield governed(says("Let me see."), wrong, right).with_output_model(Invoice, max_output_retries=3), None


def in_flight() -> Segments:
    yield governed(ASKED, says("?")), None
    yield governed(says("I do not know.")), Answers({"r0c0": YES, "b": YES})


GOVERNED: dict[str, Callable[[], Segments]] = {
    case.__name__: case
    for case in (
        *(waits_for_approval, approved, child_waits, child, from_outside),
        *(at_limit, limit_ends, output, in_flight),
    )
}
CRASHES = {"in_flight": ("tool.after", 2)}
"""Where a case dies, and at which visit; it is resumed once more after that."""


def journal(name: str) -> list[str]:
    """Return the lines of a case."""
    store = InProcessStore()
    if name in GOVERNED:
        return lines(_segments(store, name), store.reopened())
    saving = SavingRuntime(BlockingRuntime(), store.runs, run_id=name, conversation_id="c1", base_seq=0)
    try:
        list(iterate(run_turn(start_run(name), CASES[name](), saving, prompt=Message.user("Do I like tea?"))))
    except KeyboardInterrupt:
        print(f"{name} was interrupted, as it is to be")
    return lines(name, store)


def lines(run_id: str, store: InProcessStore) -> list[str]:
    """Return what a turn became, and its events."""
    run = store.runs.load(run_id)
    return [json.dumps(end_of(run)), *(to_json(event).decode() for event in store.runs.events(run_id))]


def _segments(store: InProcessStore, name: str) -> str:
    """Run the segments of a case, each in a process of its own, and return the id of its run."""
    point, visit = CRASHES.get(name, ("", 0))
    for agent, answers in GOVERNED[name]():
        agent.with_conversation(store, "c1")
        waiting = store.runs.waiting()
        turn = (
            agent.resume(waiting[0].run_id, answers.decisions, extend=answers.extend) if waiting and answers else None
        )
        try:
            with crash_at(point, visit=visit) if point else nullcontext():
                list(turn or agent.stream("Do I like tea?"))
        except Crash:
            store = store.reopened()
            list(governed(says("I do not know.")).with_conversation(store, "c1").resume(waiting[0].run_id))
    return store.runs.list()[0].run_id


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
    for case in (*CASES, *GOVERNED):
        (folder / f"{case}.jsonl").write_text("\n".join(journal(case)) + "\n", encoding="utf-8")
