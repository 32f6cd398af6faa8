"""One call on its way: whatever goes wrong inside it is a result."""

from typing import Any

import pytest

from sapwood.context.source import ContextSource, Contribution, Loaded, Turn
from sapwood.core.errors import RunCancelledError, StepTimeoutError, ToolError
from sapwood.core.events import AgentEvent, ToolFinished, ToolRunning
from sapwood.core.messages import Image, Message, ToolCall
from sapwood.core.run import Run
from sapwood.core.tools import BoundTool, ToolContext, ToolSchema
from sapwood.testing import call, calls, says, scripted
from support.turns import bound, finishes, folded, spec, turn

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


class Meta(ContextSource):
    """Answers `find`."""

    name = "finder"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def contribute(self, turn: Turn) -> Contribution:
        return Contribution(tools=[ToolSchema("find")], meta_tools=["find"])

    def handle(self, call: ToolCall, turn: Turn) -> Loaded | None:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def asked(source: ContextSource, runtime: str, **more: Any) -> tuple[ToolFinished, str]:
    model = scripted(calls("find"), says("ok"))
    events = turn(spec(model, sources=[source], **more), runtime=runtime)
    (finish,) = finishes(events)
    return finish, events[-1].type


@RUNTIMES
@pytest.mark.parametrize(
    ("answer", "result", "is_error"),
    [
        (Loaded(result={"found": []}), '{"found":[]}', False),
        (Loaded(result="no query", is_error=True), "no query", True),
        (None, "Nothing answers find.", True),
        (ToolError("the index is gone"), "the index is gone", True),
        (OSError("disk"), "Internal error", True),
    ],
)
def test_a_source_answers_a_meta_tool_or_fails_as_a_tool_does(
    answer: Any, result: str, is_error: bool, runtime: str
) -> None:
    finish, last = asked(Meta(answer), runtime)
    assert (finish.result, finish.is_error, last) == (result, is_error, "turn_finished")


@RUNTIMES
def test_a_source_that_answers_is_told_all_that_is_known_of_the_turn(runtime: str) -> None:
    told: list[Turn] = []

    class Asked(Meta):
        def handle(self, call: ToolCall, turn: Turn) -> Loaded | None:
            told.append(turn)
            return super().handle(call, turn)

    history = [Message.user("before"), Message.assistant("yes")]
    asked(Asked(Loaded(result="ok")), runtime, history=history, placement="turn")
    assert [message.text for message in told[0].messages] == ["before", "yes", "go", ""]
    assert [call.name for call in told[0].messages[-1].tool_calls] == ["find"]
    assert (told[0].text, told[0].placement, told[0].tool_loading) == ("go", "turn", "relist")


@RUNTIMES
def test_an_answer_that_cannot_be_shown_is_an_error_result(runtime: str) -> None:
    finish, last = asked(Meta(Loaded(result=iter([1]))), runtime)
    assert finish.is_error
    assert finish.result.startswith("the tool returned a value of type list_iterator, which cannot be shown")
    assert last == "turn_finished"


@RUNTIMES
def test_a_turn_cancelled_while_a_source_answers_ends(runtime: str) -> None:
    with pytest.raises(RunCancelledError):
        asked(Meta(RunCancelledError("stop")), runtime)


@RUNTIMES
def test_a_checker_may_raise_anything(runtime: str) -> None:
    def refuse(arguments: dict[str, Any]) -> Any:
        raise ZeroDivisionError("checker")

    model = scripted(calls("add"), says("ok"))
    tool = bound("add", lambda: pytest.fail("it ran"), check=refuse)
    events = turn(spec(model, [tool], expose_errors=True), runtime=runtime)
    (finish,) = finishes(events)
    assert (finish.result, finish.is_error) == ("Invalid input for add: ZeroDivisionError: checker", True)
    assert not any(isinstance(event, ToolRunning) for event in events)


@RUNTIMES
def test_a_tool_that_nothing_runs_says_so(runtime: str) -> None:
    (finish,) = finishes(turn(spec(scripted(calls("add"), says("ok")), [ToolSchema("add")]), runtime=runtime))
    assert finish.result == "nothing runs add: give execute= or a tool with a function"
    assert finish.is_error


@RUNTIMES
def test_a_number_of_any_size_is_passed_on(runtime: str) -> None:
    model = scripted(calls(call("add", {"a": 10**30})), says("ok"))
    events = turn(spec(model, [bound("add", lambda a: str(a + 1))]), runtime=runtime)
    assert [finish.result for finish in finishes(events)] == [str(10**30 + 1)]


@RUNTIMES
def test_a_digest_tells_the_final_input_and_not_its_order(runtime: str) -> None:
    model = scripted(
        calls(call("add", {"a": 1, "b": 2}), call("add", {"b": 2, "a": 1}), call("add", {"a": 1, "b": 3})), says("ok")
    )
    events = turn(spec(model, [bound("add", lambda a, b: a + b)]), runtime=runtime)
    first, second, third = (event.digest for event in events if isinstance(event, ToolRunning))
    assert first == second != third


@RUNTIMES
def test_a_picture_comes_beside_the_text(runtime: str) -> None:
    model = scripted(calls("draw"), says("ok"))
    picture = Image("aGk=")
    events = turn(spec(model, [bound("draw", lambda: ["done", picture])]), runtime=runtime)
    (finish,) = finishes(events)
    assert finish.content == (picture,)
    result = folded(events).messages[2].tool_results[0]
    assert result.content[1:] == (picture,)


@RUNTIMES
def test_a_tool_is_told_its_call(runtime: str) -> None:
    seen: list[ToolContext] = []

    def run(arguments: Any, context: ToolContext) -> str:
        seen.append(context)
        return "ok"

    model = scripted(calls("add"), says("ok"))
    turn(spec(model, [BoundTool(ToolSchema("add"), run)]), runtime=runtime)
    (context,) = seen
    assert (context.run_id, context.name, context.tool_call_key) == ("run-1", "add", "r0c0")
    assert (context.idempotency_key, context.cancelled, context.path) == ("run-1/r0c0", False, ())


@RUNTIMES
def test_an_attempt_after_a_crash_is_counted(runtime: str) -> None:
    setup = spec(scripted(calls("add"), says("ok")), [bound("add", lambda: "3", read_only=True)])
    events = turn(setup, runtime=runtime)
    place = next(place for place, event in enumerate(events) if isinstance(event, ToolRunning))
    crashed = folded(events[: place + 1], Run("run-1"))
    again: list[AgentEvent] = turn(
        spec(scripted(says("ok")), [bound("add", lambda: "3", read_only=True)]), None, run=crashed, runtime=runtime
    )
    assert [event.attempt for event in again if isinstance(event, ToolRunning)] == [2]


@RUNTIMES
def test_a_time_out_of_something_inside_a_function_is_an_error_of_the_function(runtime: str) -> None:
    def ask() -> None:
        raise StepTimeoutError("no outcome after 3 s")

    events = turn(spec(scripted(calls("ask"), says("ok")), [bound("ask", ask)], expose_errors=True), runtime=runtime)
    (finish,) = finishes(events)
    assert (finish.result, finish.is_error) == ("StepTimeoutError: no outcome after 3 s", True)
