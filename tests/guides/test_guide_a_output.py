"""Guide A, "Structured Output": its example as printed, its sentences, and the numbered behaviours of its package.

Each test has the number of its statement. Where the design decided otherwise, the test says so.
"""

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from sapwood import Agent, ConfigError, OutputMissingError, tool
from sapwood.core.approval import ApprovalDecision, HookResult
from sapwood.core.errors import ToolNameCollision
from sapwood.core.events import TurnFinished
from sapwood.core.limits import UsageLimits
from sapwood.core.tools import FINAL_RESULT
from sapwood.core.transcript import repair
from sapwood.core.usage import Usage
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, says, scripted
from support.outputs import Kettle, Lamp, Node, events_of, hands, owing, requests_of, run_of
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


class Report(BaseModel):
    summary: str
    severity: int


GOOD = {"summary": "Disk full", "severity": 4}
BAD = {"summary": "Disk full"}


def test_the_example_as_printed() -> None:
    agent = Agent(llm=scripted(hands(GOOD)))

    report = agent.with_output_model(Report).run("Assess the incident.")

    assert report == Report(summary="Disk full", severity=4)


@RUNTIMES
def test_the_model_cannot_stop_in_plain_text_and_real_tools_run_in_the_same_turn(runtime: str) -> None:
    ran: list[str] = []

    @tool
    def look() -> str:
        """Look."""
        ran.append("look")
        return "full"

    agent = owing(Report, calls("look"), calls(call("look"), call(FINAL_RESULT, GOOD)), tools=[look])
    assert run_of(agent, runtime).severity == 4
    assert ran == ["look", "look"]
    assert [request.tool_choice for request in requests_of(agent)] == ["any", "any"]


@RUNTIMES
def test_the_schema_of_the_tool_is_the_models_own(runtime: str) -> None:
    agent = owing(Report, hands(GOOD))
    run_of(agent, runtime)
    (offered,) = requests_of(agent)[0].tools
    own = Report.model_json_schema()
    assert offered.name == FINAL_RESULT
    # Titles, which say nothing to a model, are left out.
    assert offered.input_schema["properties"].keys() == own["properties"].keys()
    assert offered.input_schema["required"] == own["required"]


@RUNTIMES
def test_the_json_is_in_turn_finished_and_in_last_output(runtime: str) -> None:
    agent = owing(Report, hands(GOOD))
    last = events_of(agent, runtime)[-1]
    assert isinstance(last, TurnFinished)
    assert last.output == agent.last_output
    assert json.loads(last.output or "") == GOOD


@RUNTIMES
@pytest.mark.parametrize("retries", [0, 1, 2])
def test_1_invalid_arguments_are_an_error_result_each_and_more_than_the_retries_end_the_turn(
    runtime: str, retries: int
) -> None:
    agent = owing(Report, *[hands(BAD)] * 5, max_output_retries=retries)
    events = events_of(agent, runtime)
    assert [finish.is_error for finish in finishes(events)] == [True] * (retries + 1)
    assert isinstance(events[-1], TurnFinished)
    assert (events[-1].stopped_by, events[-1].output) == ("output_missing", None)
    with pytest.raises(OutputMissingError):
        run_of(owing(Report, *[hands(BAD)] * 5, max_output_retries=retries), runtime)


@RUNTIMES
@pytest.mark.parametrize("how", ["hook", "approval", "text"])
def test_1_a_deny_a_failed_approval_and_plain_text_count_one_failure_each(runtime: str, how: str) -> None:
    def hook(name: str, arguments: dict[str, Any]) -> HookResult:
        return HookResult(decision="deny" if how == "hook" else "ask", reason="not yet")

    agent = owing(Report, *[says("done") if how == "text" else hands(GOOD)] * 3, max_output_retries=1)
    if how != "text":
        agent = agent.with_hooks(pre_tool_use=hook).with_approval(lambda request: ApprovalDecision(False, "not yet"))
    with pytest.raises(OutputMissingError) as caught:
        run_of(agent, runtime)
    assert (caught.value.attempts, len(requests_of(agent))) == (2, 2)


@RUNTIMES
def test_2_plain_text_and_a_message_that_asks_for_the_tool_are_appended(runtime: str) -> None:
    agent = owing(Report, says("The disk is full."), hands(GOOD))
    assert run_of(agent, runtime).severity == 4
    task, text, asks = requests_of(agent)[1].transcript
    assert (task.text, text.text, asks.role) == ("Assess it.", "The disk is full.", "user")
    assert FINAL_RESULT in asks.text


@RUNTIMES
def test_3_of_two_calls_in_one_round_the_first_valid_one_counts(runtime: str) -> None:
    # The package runs neither; OUT-03 of the public cases asks for the first valid one. Two that fail are one failure.
    both = calls(call(FINAL_RESULT, BAD), call(FINAL_RESULT, GOOD))
    assert run_of(owing(Report, both, max_output_retries=0), runtime).severity == 4
    neither = calls(call(FINAL_RESULT, BAD), call(FINAL_RESULT, BAD))
    assert run_of(owing(Report, neither, hands(GOOD), max_output_retries=1), runtime).severity == 4


@RUNTIMES
def test_4_run_raises_a_value_error_where_nothing_was_recorded_and_where_there_is_no_model(runtime: str) -> None:
    with pytest.raises(ValueError, match="without a valid Report"):
        run_of(owing(Report, says("no"), says("no")), runtime)
    with pytest.raises(ConfigError, match="with_output_model"):
        run_of(Agent(llm=scripted()), runtime)


@pytest.mark.parametrize("first", [True, False])
def test_4_an_unknown_mode_and_a_tool_of_that_name_are_refused_when_configured(first: bool) -> None:
    @tool
    def final_result() -> str:
        """Mine."""
        return ""

    with pytest.raises(ConfigError, match="magic"):
        Agent(llm=scripted()).with_output_model(Report, mode="magic")  # type: ignore[arg-type]
    with pytest.raises(ToolNameCollision):
        if first:
            Agent(llm=scripted()).with_tools([final_result]).with_output_model(Report)
        else:
            Agent(llm=scripted()).with_output_model(Report).with_tools([final_result])


@RUNTIMES
def test_5_a_wrap_up_that_records_an_output_keeps_usage_limit_and_run_returns_it(runtime: str) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "full"

    agent = owing(Report, calls("look", usage=Usage(500, 500)), hands(GOOD, usage=Usage(1, 1)), tools=[look])
    agent = agent.with_usage_limits(UsageLimits(total_tokens_limit=900))
    assert run_of(agent, runtime).severity == 4
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "usage_limit"


@RUNTIMES
def test_6_run_returns_what_was_validated(runtime: str) -> None:
    # The package validates the dumped JSON once more; see B6 of the faults that must not be ours.
    made: list[Any] = []

    class Noted(BaseModel):
        n: int

        def model_post_init(self, context: Any) -> None:
            made.append(self)

    found = run_of(owing(Noted, hands({"n": 1})), runtime)
    assert [item is found for item in made] == [True]


class Numbers(RootModel[list[int]]):
    """Some numbers."""


@RUNTIMES
@pytest.mark.parametrize(
    ("given", "said", "expected"),
    [
        (list[Lamp], {"value": [{"watts": 4}]}, [Lamp(watts=4)]),
        (Lamp | Kettle, {"value": {"kind": "lamp", "watts": 4}}, Lamp(watts=4)),
        (Numbers, {"value": [1, 2]}, Numbers([1, 2])),
        (Node, {"name": "a", "below": [{"name": "b"}]}, Node(name="a", below=[Node(name="b")])),
    ],
)
def test_7_what_the_package_does_not_take_is_taken(runtime: str, given: Any, said: Any, expected: Any) -> None:
    agent = owing(given, hands(said))
    assert run_of(agent, runtime) == expected
    assert requests_of(agent)[0].tools[0].input_schema["type"] == "object"


@RUNTIMES
def test_prompted_mode_holds_in_run_chat_and_stream_and_keeps_the_task(runtime: str) -> None:
    # In the package only run() sees it, and a retry loses the task.
    text = f"```json\n{json.dumps(GOOD)}\n```"
    for ways in ("run", "chat", "stream"):
        agent = owing(Report, says(json.dumps(BAD)), says(text), mode="prompted")
        if ways == "run":
            assert run_of(agent, runtime).severity == 4
        elif ways == "chat":
            assert "".join(agent.chat("Assess it.")).endswith(text)
        else:
            events_of(agent, runtime)
        assert json.loads(agent.last_output or "") == GOOD
        _, retry = requests_of(agent)
        assert retry.transcript[0].text == "Assess it."
        assert "severity: is required" in retry.transcript[-1].text
        assert retry.tools == ()


@RUNTIMES
def test_prompted_mode_works_with_a_conversation_whose_history_stays_valid(runtime: str) -> None:
    # The guide refuses it there: the schema would be stored. It is in the system text, so only the words are.
    store = SqliteStore(":memory:")
    agent = owing(Report, says("hm"), says(json.dumps(GOOD)), says(json.dumps(GOOD)), mode="prompted")
    agent = agent.with_conversation(store, "c1")
    assert run_of(agent, runtime).severity == 4
    kept = store.conversations.load("c1").messages
    assert [message.role for message in kept] == ["user", "assistant", "user", "assistant"]
    assert repair(kept) == kept
    assert "output_schema" not in str(kept)
    assert run_of(agent, runtime, "Once more.").severity == 4


def test_a_structured_child_is_told_apart_by_its_diagnostics() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "full"

    child = scripted(calls("look", usage=Usage(900, 200)), hands(GOOD, usage=Usage(1, 1)))
    inner = Agent(llm=child).with_tools([look]).with_usage_limits(UsageLimits(total_tokens_limit=1_000))
    asked = inner.as_tool("assess", "Assesses.", output_model=Report)
    outer = Agent(llm=scripted(calls(call("assess", {"task": "x"})), says("ok"))).with_tools([asked])
    result = next(event for event in finishes(events_of(outer)) if not event.path)
    assert json.loads(result.result) == GOOD, "a mark would spoil the JSON"
    assert outer.last_turn is not None
    (below,) = outer.last_turn.children
    assert below.diagnostics.stopped_by == "usage_limit"


def test_outputs_of_overlapping_turns_are_each_their_own() -> None:
    def answer(request: Any) -> Any:
        return hands({"summary": request.transcript[0].text, "severity": 1})

    agent = owing(Report, *[answer] * 8)

    async def main() -> list[str]:
        return [report.summary for report in await asyncio.gather(*(agent.arun(name) for name in "abcdefgh"))]

    assert asyncio.run(main()) == list("abcdefgh")
