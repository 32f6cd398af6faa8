"""Turns and calls for the contract of stores."""

from collections.abc import Callable, Sequence
from inspect import isawaitable
from threading import Barrier, Thread
from typing import Any, Protocol, TypeVar

from sapwood.core.diagnostics import Cause, TurnDiagnostics
from sapwood.core.events import (
    AgentEvent,
    MessageAdded,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from sapwood.core.messages import File, Image, Message, Recalled, Text, Thinking, ToolCall, ToolResult
from sapwood.core.ports import ConversationStore, RunStore
from sapwood.core.stored import RunSummary
from sapwood.core.usage import Usage
from sapwood.runtime.private_loop import PrivateLoops

T = TypeVar("T")


class Stores(Protocol):
    """What is tested: a run store and a conversation store that know each other."""

    @property
    def runs(self) -> RunStore:
        """The run store."""
        ...

    @property
    def conversations(self) -> ConversationStore:
        """The conversation store."""
        ...

    def close(self) -> None:
        """Close both."""
        ...


PROMPT = Message.user("What is 2 and 3?")
_CALL = ToolCall("add", {"a": 2, "b": 3}, key="r0c0", id="t1")
_loops = PrivateLoops()


def done(outcome: Any) -> Any:
    """Return what a method of a store returned, waiting for it where it is async."""
    return _loops.run(outcome, "store") if isawaitable(outcome) else outcome


def refused(error: type[Exception], method: Any, *args: Any, **options: Any) -> str:
    """Call a method of a store that must raise this error; return its message."""
    try:
        outcome = done(method(*args, **options))
    except error as raised:
        return str(raised)
    raise AssertionError(f"it must raise {error.__name__}, and returned {outcome!r}")


def started(run_id: str = "r1") -> list[AgentEvent]:
    """Return the first event of a turn."""
    return [TurnStarted(run_id=run_id, prompt=PROMPT)]


def called(text: str = "") -> list[AgentEvent]:
    """Return a reply with one call, and its beginning."""
    reply = Message("assistant", (Text(text), _CALL) if text else (_CALL,))
    return [
        MessageAdded(message=reply, usage=Usage(prompt_tokens=10, completion_tokens=2), stop_reason="tool_use"),
        ToolStarted(key="r0c0", tool_call_id="t1", name="add", tool_input={"a": 2, "b": 3}),
    ]


def running(digest: str = "d1", attempt: int = 1) -> AgentEvent:
    """Return the event before the function is called."""
    return ToolRunning(key="r0c0", digest=digest, attempt=attempt)


def finished(result: str = "5") -> AgentEvent:
    """Return the outcome of the call."""
    return ToolFinished(key="r0c0", tool_call_id="t1", name="add", result=result, value=int(result))


def ended(cause: Cause = "stop", text: str = "Five.") -> list[AgentEvent]:
    """Return the last event of a segment."""
    return [TurnFinished(text=text, diagnostics=TurnDiagnostics((), cause))]


def one_turn(number: int) -> list[Message]:
    """Return a question and its answer."""
    return [Message.user(f"question {number}"), Message.assistant(f"answer {number}")]


def added(
    store: Stores, messages: Sequence[Message], *, after: int, run_id: str, conversation_id: str = "c1", **more: Any
) -> int:
    """Append to a conversation; return the version reached."""
    options: dict[str, Any] = {"fence": 0, **more}
    reached = done(store.conversations.append(conversation_id, messages, after=after, run_id=run_id, **options))
    assert isinstance(reached, int)
    return reached


def ids_of(summaries: Sequence[RunSummary]) -> list[str]:
    """Return the ids of runs."""
    return [item.run_id for item in summaries]


def every_part() -> list[Message]:
    """Return messages with every kind of part."""
    signature = {"some": {"signature": "s\u2028g"}}
    return [
        Message(
            "user", (Recalled("likes tea", "memory"), Text("Hi \U0001f642"), Image("aGk="), File(url="https://a.b"))
        ),
        Message("assistant", (Thinking("Hm.", signature), Text("Well"), _CALL), origin="some/model"),
        Message("tool", (ToolResult("r0c0", "add", (Text("5"),), details={"raw": [1, None, 2.5]}),)),
        Message("assistant", (Text("Fi"),), partial=True),
    ]


def at_once(work: Callable[[int], T], count: int) -> list[T]:
    """Return what the work returns in as many threads, all of which start together; raise what one of them raises."""
    gate, outcomes, failures = Barrier(count), list[T](), list[BaseException]()

    def one(number: int) -> None:
        gate.wait()
        try:
            outcomes.append(work(number))
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    threads = [Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for failure in failures:
        raise failure
    return outcomes
