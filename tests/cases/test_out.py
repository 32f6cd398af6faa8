"""Public cases on structured output (OUT), and those of usage and limits that need one, each by its id."""

import json
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

from sapwood import Agent, OutputMissingError, ToolError
from sapwood.core.events import OutputChecked, TurnFinished
from sapwood.core.model import ModelRequest, NamedTool
from sapwood.core.tools import FINAL_RESULT
from sapwood.core.transcript import repair
from sapwood.core.usage import Usage
from sapwood.llm.scripted import ScriptedReply
from sapwood.sources.toolset import ToolsetSource
from sapwood.testing import call, calls, says, scripted
from support.outputs import (
    INTEGER_N,
    City,
    Kettle,
    Lamp,
    Point,
    Report,
    events_of,
    hands,
    owing,
    requests_of,
    run_of,
)
from support.turns import bound, finishes
from support.wire import chat_wire, wire

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


class A(BaseModel):
    a: int


@RUNTIMES
@pytest.mark.parametrize("text", ['{"a": 1}', "The answer is one."])
def test_out_01_plain_text_instead_of_the_output_call(runtime: str, text: str) -> None:
    agent = owing(A, says(text), hands({"a": 1}))
    events = events_of(agent, runtime)
    assert json.loads(agent.last_output or "") == {"a": 1}
    # Text that is valid JSON is accepted, as the page says; other text is asked for again.
    accepted = any(isinstance(event, OutputChecked) and event.error is None for event in events)
    assert (accepted, len(requests_of(agent))) == ((True, 1) if text.startswith("{") else (False, 2))
    assert run_of(owing(A, says(text), hands({"a": 1})), runtime) == A(a=1)
    with pytest.raises(OutputMissingError):
        run_of(owing(A, says("one"), says("one")), runtime)


@RUNTIMES
def test_out_02_retries_are_bounded(runtime: str) -> None:
    agent = owing(A, *[hands({"a": "x"})] * 9, max_output_retries=2)
    last = events_of(agent, runtime)[-1]
    assert isinstance(last, TurnFinished)
    assert (len(requests_of(agent)), last.stopped_by, last.output) == (3, "output_missing", None)
    history = agent.last_messages[:]
    assert repair(history) == history
    following = Agent(llm=scripted(says("ok")))
    assert "".join(following.chat("go on", messages=history)) == "ok"
    for request in requests_of(following):
        wire(request)
        chat_wire(request)


@RUNTIMES
@pytest.mark.parametrize(("first", "n"), [({"n": 1}, 1), ({"n": "one"}, 2)])
def test_out_03_two_output_calls_in_one_reply(runtime: str, first: dict[str, Any], n: int) -> None:
    ran: list[int] = []

    class Noted(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def note(cls, n: int) -> int:
            ran.append(n)
            return n

    reply = calls(call(FINAL_RESULT, first, id="o1"), call(FINAL_RESULT, {"n": 2}, id="o2"))
    agent = owing(Noted, reply)
    assert run_of(agent, runtime).n == n
    assert ran == [n], "an output is carried out at most once"
    assert len(agent.last_messages[-1].tool_results) == 2


@RUNTIMES
def test_out_04_a_raw_json_schema_as_output_type_is_validated(runtime: str) -> None:
    agent = owing(INTEGER_N, hands({"n": "x"}), hands({"n": 3}))
    first = finishes(events_of(agent, runtime))[0]
    assert (first.is_error, "n: " in first.result) == (True, True)
    assert json.loads(agent.last_output or "") == {"n": 3}
    assert run_of(owing(INTEGER_N, hands({"n": "x"}), hands({"n": 3})), runtime) == {"n": 3}


@RUNTIMES
@pytest.mark.parametrize("piece_size", [0, 3])
def test_out_05_validators_that_raise_streamed_and_not(runtime: str, piece_size: int) -> None:
    class Counted(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def look(cls, n: int) -> int:
            if n == 1:
                raise ToolError("count once more")
            if n == 2:
                raise ValueError("that is too few")
            if n == 3:
                raise KeyError("lost")
            return n

    replies = [hands({"n": n}, piece_size=piece_size) for n in (1, 2, 3, 4)]
    agent = owing(Counted, *replies, max_output_retries=3)
    told = [event.result for event in finishes(events_of(agent, runtime))]
    assert "count once more" in told[0]
    assert "that is too few" in told[1]
    assert "a validator failed" in told[2]
    assert "lost" in told[2]
    assert run_of(owing(Counted, *replies, max_output_retries=3), runtime) == Counted(n=4)


@RUNTIMES
def test_out_06_a_useful_error_when_retries_run_out(runtime: str) -> None:
    agent = owing(A, *[hands({"a": "x"})] * 3, max_output_retries=2)
    with pytest.raises(OutputMissingError) as caught:
        run_of(agent, runtime)
    error = caught.value
    for part in ("A", "3 attempts", "a: "):
        assert part in str(error)
    assert (error.output, error.attempts) == ("A", 3)
    assert "valid integer" in (error.last_error or "")
    assert [message.role for message in error.messages] == ["user", *["assistant", "tool"] * 3]
    assert agent.last_turn is not None
    assert agent.last_turn.output_error == error.last_error


OUT_07 = [
    (Lamp | Kettle, {"value": {"kind": "kettle", "litres": 2}}, Kettle(litres=2)),
    (list[int], {"value": [1, 2]}, [1, 2]),
    (int, {"value": 3}, 3),
    (Literal["a", "b"], {"value": "a"}, "a"),
    (City, {"name": "Ulm", "people": 1}, {"name": "Ulm", "people": 1}),
    (Point, {"x": 1, "y": 2}, Point(1, 2)),
    (None | Lamp, {"value": {"watts": 4}}, Lamp(watts=4)),
    (None | Lamp, {"value": None}, None),
]


@RUNTIMES
@pytest.mark.parametrize(("given", "said", "expected"), OUT_07)
def test_out_07_output_types_that_are_not_objects(runtime: str, given: Any, said: Any, expected: Any) -> None:
    agent = owing(given, hands(said))
    found = run_of(agent, runtime)
    assert found == expected
    assert type(found) is type(expected)
    (request,) = requests_of(agent)
    assert wire(request)["tools"][0]["input_schema"]["type"] == "object"
    assert chat_wire(request)["tools"][0]["function"]["parameters"]["type"] == "object"


@RUNTIMES
@pytest.mark.parametrize("piece_size", [0, 4])
def test_use_04_rejected_structured_answers_cost_tokens_too(runtime: str, piece_size: int) -> None:
    used = Usage(10, 5)
    replies = [hands({"a": said}, usage=used, piece_size=piece_size) for said in ("x", "y", 1)]
    agent = owing(A, *replies, max_output_retries=2)
    assert run_of(agent, runtime) == A(a=1)
    turn = agent.last_turn
    assert turn is not None
    assert (turn.total_prompt_tokens, turn.total_completion_tokens, len(turn.rounds)) == (30, 15, 3)


@RUNTIMES
def test_lim_05_a_forced_tool_choice_is_released(runtime: str) -> None:
    ran: list[str] = []

    def obeys(request: ModelRequest) -> ScriptedReply:
        """Calls what the request forces, and says a word where it forces nothing."""
        match request.tool_choice:
            case NamedTool(name=name):
                return hands({"summary": "as asked", "severity": 1}) if name == FINAL_RESULT else calls(name)
            case "any":
                return calls("look")
            case _:
                return says("done")

    def agent_of() -> Agent:
        look = bound("look", lambda: ran.append("look"))
        return Agent(llm=scripted(*[obeys] * 9), max_rounds=3).with_sources([ToolsetSource([look])])

    # A call of some tool is demanded in each round until the output is there; the one that is named, in the last.
    agent = agent_of().with_output_model(Report)
    assert run_of(agent, runtime).summary == "as asked"
    assert [request.tool_choice for request in requests_of(agent)] == ["any", "any", NamedTool(FINAL_RESULT)]
    assert ran == ["look", "look"]
    # The next turn begins without it, and an agent that owes no output forces nothing.
    assert run_of(agent, runtime).summary == "as asked"
    assert requests_of(agent)[3].tool_choice == "any"
    plain = agent_of()
    events_of(plain, runtime)
    assert [request.tool_choice for request in requests_of(plain)] == [None]
