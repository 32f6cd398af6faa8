"""Turns that end with a value: every kind of type, every way of asking, each way in which it can go wrong."""

import copy
import json
import pickle
from typing import Any, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel

from sapwood import Agent, OutputMissingError
from sapwood.core.errors import ToolNameCollision
from sapwood.core.events import OutputChecked, TurnFinished
from sapwood.core.limits import UsageLimits
from sapwood.core.model import ModelProfile
from sapwood.core.tools import FINAL_RESULT, ToolSchema
from sapwood.core.transcript import Transcript, repair
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.profiles import profile_of
from sapwood.sources.lazy_tools import lazy_tool_source
from sapwood.sources.toolset import ToolsetSource
from sapwood.testing import call, calls, fold, says, scripted
from support.outputs import (
    DISK,
    INTEGER_N,
    NATIVE,
    UNFORCED,
    WRONG,
    City,
    Kettle,
    Lamp,
    Node,
    Point,
    Report,
    events_of,
    hands,
    owing,
    requests_of,
    run_of,
    writes,
)
from support.turns import bound

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
MODES: Any = pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    items: list[T]


TYPES: list[tuple[Any, Any, Any]] = [
    (Report, DISK, Report(summary="Disk full", severity=4)),
    (Point, {"x": 1, "y": 2}, Point(1, 2)),
    (City, {"name": "Ulm", "people": 5}, {"name": "Ulm", "people": 5}),
    (list[Report], {"value": [DISK]}, [Report(summary="Disk full", severity=4)]),
    (Lamp | Kettle, {"value": {"kind": "kettle", "litres": 1.5}}, Kettle(litres=1.5)),
    (None | Lamp, {"value": None}, None),
    (Literal["a", "b"], {"value": "b"}, "b"),
    (int, {"value": 3}, 3),
    (str, {"value": "three"}, "three"),
    (bool, {"value": False}, False),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (INTEGER_N, {"n": 3}, {"n": 3}),
    (Page[int], {"items": [1, 2]}, Page[int](items=[1, 2])),
    (Node, {"name": "a", "below": [{"name": "b", "below": []}]}, Node(name="a", below=[Node(name="b")])),
]


@RUNTIMES
@MODES
@pytest.mark.parametrize(("given", "said", "expected"), TYPES, ids=[str(row[0]) for row in TYPES])
def test_each_kind_of_type_comes_back_in_each_mode(
    runtime: str, mode: Any, given: Any, said: Any, expected: Any
) -> None:
    is_call = mode == "tool" or (mode == "native" and given == dict[str, int])  # which has no strict form
    agent = owing(given, hands(said, piece_size=3) if is_call else writes(said), mode=mode, profile=NATIVE)

    found = run_of(agent, runtime)

    assert found == expected
    assert type(found) is type(expected)
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "stop"
    told = said["value"] if set(said) == {"value"} else said
    assert json.loads(agent.last_output or "") == told


@RUNTIMES
def test_tool_mode_demands_a_call_of_some_tool_and_offers_final_result_beside_the_others(runtime: str) -> None:
    look = bound("look", lambda: "a full disk", read_only=True)
    agent = owing(Report, calls("look"), hands(DISK))
    agent = agent.with_sources([ToolsetSource([look])])

    assert run_of(agent, runtime) == Report(summary="Disk full", severity=4)
    first, second = requests_of(agent)
    assert {schema.name for schema in first.tools} == {"look", FINAL_RESULT}
    assert (first.tool_choice, second.tool_choice) == ("any", "any")
    assert first.output_schema is None


def test_native_mode_sends_the_schema_and_no_tool() -> None:
    agent = owing(Report, writes(DISK), mode="native", profile=NATIVE)
    agent.run("Assess it.")
    (request,) = requests_of(agent)
    assert (request.tools, request.tool_choice) == ((), None)
    assert request.output_schema is not None
    assert request.output_schema["properties"].keys() == {"summary", "severity"}


@RUNTIMES
def test_native_mode_works_beside_tools(runtime: str) -> None:
    agent = owing(Report, calls("look"), writes(DISK), mode="native", profile=NATIVE)
    agent = agent.with_sources([ToolsetSource([bound("look", lambda: "a full disk")])])
    assert run_of(agent, runtime).severity == 4
    assert [schema.name for schema in requests_of(agent)[0].tools] == ["look"]
    assert all(request.output_schema is not None for request in requests_of(agent))


def test_native_mode_in_a_small_window_keeps_the_task_and_the_schema() -> None:
    past: list[Any] = []
    for number in range(40):
        past += [{"role": "user", "content": f"q{number} " + "word " * 40}, {"role": "assistant", "content": "a " * 40}]
    model = scripted(writes(WRONG), writes(DISK), profile=NATIVE)
    agent = Agent(llm=model, max_tokens=2_000, max_response_tokens=200).with_output_model(Report, mode="native")
    assert agent.run("Assess it.", messages=past).severity == 4
    for request in model.requests:
        assert request.output_schema is not None
        assert any(message.text == "Assess it." for message in request.transcript)
        assert len(request.transcript) < len(past)


@pytest.mark.parametrize(
    ("given", "profile"),
    [(Report, None), (dict[str, int], NATIVE), (Report, UNFORCED)],
    ids=["the model takes no schema", "the schema has no strict form", "nor a forced call"],
)
def test_native_falls_back_to_the_tool(given: Any, profile: ModelProfile | None) -> None:
    agent = owing(given, hands(DISK if given is Report else {"a": 1}), mode="native", profile=profile)
    assert agent.run("go") is not None
    (request,) = requests_of(agent)
    assert (request.output_schema, [tool.name for tool in request.tools]) == (None, [FINAL_RESULT])


@pytest.mark.parametrize("has_tools", [True, False])
def test_a_server_whose_schema_shuts_out_tools_is_asked_by_the_tool_where_there_are_some(has_tools: bool) -> None:
    profile = NATIVE.replace(schema_beside_tools=False)
    agent = owing(Report, hands(DISK) if has_tools else writes(DISK), mode="native", profile=profile)
    if has_tools:
        agent = agent.with_tools([ToolSchema("look")])
    assert agent.run("go").severity == 4
    assert (requests_of(agent)[0].output_schema is None) is has_tools


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ollama/qwen3", False),
        ("llamacpp/some", False),
        ("groq/openai/gpt-oss-20b", False),
        ("anthropic/claude-haiku-4-5", True),
        ("openai/gpt-5", True),
        ("gemini/gemini-3-flash-preview", True),
    ],
)
def test_which_servers_take_a_schema_beside_tools(name: str, expected: bool) -> None:
    provider, _, model = name.partition("/")
    profile = profile_of(provider, model)
    assert (profile.structured_output, profile.schema_beside_tools) == ("native", expected)


def test_a_chain_is_asked_natively_only_where_all_of_it_takes_schemas() -> None:
    for second, tools in ((NATIVE, []), (UNFORCED, [FINAL_RESULT])):
        first = scripted(hands(DISK) if tools else writes(DISK), profile=NATIVE)
        chain = FallbackProvider([first, scripted(profile=second)])
        assert Agent(llm=chain).with_output_model(Report, mode="native").run("go").severity == 4
        assert [tool.name for tool in first.requests[0].tools] == tools


def test_prompted_mode_asks_in_the_system_text_alone() -> None:
    agent = owing(Report, says("Here you are:\n```json\n" + json.dumps(DISK) + "\n```"), mode="prompted")
    assert agent.with_system_prompt("Be brief.").run("Assess it.").severity == 4
    (request,) = requests_of(agent)
    assert (request.tools, request.output_schema) == ((), None)
    assert request.system[0] == "Be brief."
    assert "<output_schema>" in request.system[1]
    assert [message.text for message in request.transcript] == ["Assess it."]


@RUNTIMES
@MODES
def test_a_refused_output_is_tried_again_in_the_same_conversation(runtime: str, mode: Any) -> None:
    say = hands if mode == "tool" else writes
    agent = owing(Report, say(WRONG), say(DISK), mode=mode, profile=NATIVE)
    assert run_of(agent, runtime).severity == 4

    _, again = requests_of(agent)
    assert again.transcript[0].text == "Assess it."
    told = again.transcript[-1]
    error = told.tool_results[0].text if mode == "tool" else told.text
    assert "severity: Input should be less than or equal to 5" in error
    assert repair(again.transcript[:]) == again.transcript[:]


@RUNTIMES
@MODES
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_retries_are_counted_and_end_in_an_error_that_tells_all(runtime: str, mode: Any, retries: int) -> None:
    say = hands if mode == "tool" else writes
    replies = [say({**WRONG, "summary": str(number)}) for number in range(retries + 1)]
    agent = owing(Report, *replies, mode=mode, profile=NATIVE, max_output_retries=retries)

    with pytest.raises(OutputMissingError, match="without a valid Report") as caught:
        run_of(agent, runtime)

    error = caught.value
    assert len(requests_of(agent)) == retries + 1
    assert (error.output, error.attempts, error.stopped_by) == ("Report", retries + 1, "output_missing")
    assert "severity" in (error.last_error or "")
    assert error.messages[0].text == "Assess it."
    assert agent.last_output is None
    for made in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
        assert (str(made), made.__dict__) == (str(error), error.__dict__)


@RUNTIMES
def test_plain_text_is_answered_with_a_word_about_the_tool(runtime: str) -> None:
    agent = owing(Report, says("The disk is full."), hands(DISK))
    assert run_of(agent, runtime).severity == 4
    history = requests_of(agent)[1].transcript
    assert [message.role for message in history] == ["user", "assistant", "user"]
    assert FINAL_RESULT in history[-1].text


@RUNTIMES
def test_json_as_text_counts_in_tool_mode_where_it_fits(runtime: str) -> None:
    events = events_of(owing(Report, writes(DISK)), runtime)
    assert isinstance(events[-1], TurnFinished)
    assert json.loads(events[-1].output or "") == DISK
    assert [event.output is not None for event in events if isinstance(event, OutputChecked)] == [True]


@RUNTIMES
@MODES
def test_an_empty_reply_is_a_try(runtime: str, mode: Any) -> None:
    good = hands(DISK) if mode == "tool" else writes(DISK)
    agent = owing(Report, says(), says(), good, mode=mode, profile=NATIVE)
    # The first is asked for once more silently, as nothing at all is no answer to anybody.
    assert run_of(agent, runtime).severity == 4
    roles = [message.role for message in requests_of(agent)[-1].transcript]
    assert roles == ["user", "user"]


@RUNTIMES
def test_a_reply_of_thinking_alone_is_a_try_and_thinking_beside_the_call_is_none(runtime: str) -> None:
    agent = owing(Report, says(thinking="hmm, hmm"), hands(DISK, thinking="so then"))
    assert run_of(agent, runtime).severity == 4
    prompted = owing(Report, writes(DISK, thinking='{"summary": "no'), mode="prompted")
    assert run_of(prompted, runtime).severity == 4


@RUNTIMES
def test_text_and_a_call_in_one_reply_is_the_call(runtime: str) -> None:
    other = json.dumps({"summary": "no", "severity": 1})
    agent = owing(Report, hands(DISK, text=f"It is {other}"))
    assert run_of(agent, runtime).severity == 4


# -- several calls -----------------------------------------------------------------------------------------------


@RUNTIMES
@pytest.mark.parametrize(("first", "n"), [({"n": 1}, 1), ({"n": "x"}, 2)])
def test_the_first_valid_output_of_a_reply_counts(runtime: str, first: dict[str, Any], n: int) -> None:
    agent = owing(INTEGER_N, calls(call(FINAL_RESULT, first), call(FINAL_RESULT, {"n": 2})), max_output_retries=0)
    assert run_of(agent, runtime) == {"n": n}
    results = fold_of(agent)[-1].tool_results
    assert [result.is_error for result in results] == ([False, True] if n == 1 else [True, False])


def fold_of(agent: Agent) -> Transcript:
    history = agent.last_messages
    assert repair(history[:]) == history[:]
    return history


@RUNTIMES
def test_several_refused_outputs_of_one_reply_are_one_try(runtime: str) -> None:
    twice = calls(call(FINAL_RESULT, {"n": "x"}), call(FINAL_RESULT, {"n": "y"}))
    agent = owing(INTEGER_N, twice, hands({"n": 3}))
    assert run_of(agent, runtime) == {"n": 3}


@RUNTIMES
def test_other_tools_of_the_reply_still_run(runtime: str) -> None:
    ran: list[str] = []
    note = bound("note", lambda: ran.append("note"))
    reply = calls(call("note"), call(FINAL_RESULT, DISK), call("note"))
    agent = owing(Report, reply).with_sources([ToolsetSource([note])])
    assert run_of(agent, runtime).severity == 4
    assert ran == ["note", "note"]
    assert len(requests_of(agent)) == 1


# -- calls that cannot be read -----------------------------------------------------------------------------------


@RUNTIMES
@pytest.mark.parametrize("raw", ['{"n": 1', "[1]", "nonsense"])
def test_arguments_that_cannot_be_read_are_tries(runtime: str, raw: str) -> None:
    agent = owing(INTEGER_N, hands(raw=raw), hands(raw=raw), max_output_retries=1)
    with pytest.raises(OutputMissingError) as caught:
        run_of(agent, runtime)
    assert caught.value.attempts == 2
    assert caught.value.stopped_by == "output_missing"


@RUNTIMES
def test_a_call_that_the_cap_cut_is_asked_for_again(runtime: str) -> None:
    agent = owing(INTEGER_N, hands(raw='{"n": 1', stop_reason="max_tokens"), hands({"n": 12}))
    assert run_of(agent, runtime) == {"n": 12}
    assert "was not run" in requests_of(agent)[1].transcript[-1].tool_results[0].text


@RUNTIMES
@pytest.mark.parametrize(
    ("given", "text", "expected"),
    [
        (Report, json.dumps(DISK), Report(summary="Disk full", severity=4)),  # and then it went on with white space
        (Report, json.dumps(DISK)[:-3], None),
        (int, "12", None),  # it may have been 123
        (int, '{"value": 12}', 12),
        (list[int], "[1, 2]", [1, 2]),
    ],
)
def test_a_text_that_the_cap_cut_counts_only_where_it_is_whole(
    runtime: str, given: Any, text: str, expected: Any
) -> None:
    agent = owing(given, says(text, stop_reason="max_tokens"), mode="prompted")
    if expected is not None:
        assert run_of(agent, runtime) == expected
        return
    with pytest.raises(OutputMissingError, match="cut off") as caught:
        run_of(agent, runtime)
    assert (caught.value.stopped_by, caught.value.attempts) == ("max_tokens", 1)


@RUNTIMES
@MODES
@pytest.mark.parametrize("reason", ["refusal", "content_filter"])
def test_a_refusal_ends_the_turn_and_is_never_read_as_an_output(runtime: str, mode: Any, reason: Any) -> None:
    agent = owing(Report, says(json.dumps(DISK), stop_reason=reason), mode=mode, profile=NATIVE)
    with pytest.raises(OutputMissingError, match="refusal") as caught:
        run_of(agent, runtime)
    assert (caught.value.attempts, caught.value.stopped_by) == (0, "refusal")


# -- the tool's name ---------------------------------------------------------------------------------------------


@MODES
@pytest.mark.parametrize("first", [True, False])
def test_a_tool_of_the_users_called_final_result_is_refused_in_either_order(mode: Any, first: bool) -> None:
    own = [ToolSchema("final.result")]
    with pytest.raises(ToolNameCollision, match="final_result"):
        if first:
            Agent(llm=scripted()).with_tools(own).with_output_model(Report, mode=mode)
        else:
            Agent(llm=scripted()).with_output_model(Report, mode=mode).with_tools(own)


def test_a_sources_tool_of_that_name_is_a_tool_where_no_call_hands_over_the_output() -> None:
    own = bound(FINAL_RESULT, lambda n: f"got {n}")
    model = scripted(calls(call(FINAL_RESULT, {"n": 1})), writes(DISK))
    agent = Agent(llm=model).with_sources([ToolsetSource([own])]).with_usage_limits(UsageLimits(tool_calls_limit=5))
    assert agent.with_output_model(Report, mode="prompted").run("go").severity == 4
    assert model.requests[1].transcript[-1].tool_results[0].text == "got 1"
    with pytest.raises(ToolNameCollision):
        agent.with_output_model(Report).run("go")


def test_a_tool_called_final_result_counts_as_a_call_where_no_output_is_owed() -> None:
    own = bound(FINAL_RESULT, lambda: "got it")
    agent = Agent(llm=scripted(calls(FINAL_RESULT), says("ok"))).with_sources([ToolsetSource([own])])
    assert fold(events_of(agent)).tally.calls == {FINAL_RESULT: 1}


@RUNTIMES
def test_an_output_that_is_named_like_a_tool_is_no_clash(runtime: str) -> None:
    class Look(BaseModel):
        """Not the tool."""

        n: int

    agent = owing(Look, calls("look"), hands({"n": 1})).with_sources([ToolsetSource([bound("look", lambda: "seen")])])
    assert run_of(agent, runtime) == Look(n=1)


@RUNTIMES
@pytest.mark.parametrize("last_round", [False, True])
def test_a_call_through_call_tool_is_a_call(runtime: str, last_round: bool) -> None:
    carried = calls(call("call_tool", {"name": FINAL_RESULT, "args": DISK}))
    tools = [{"name": f"notes.{name}", "description": name} for name in ("list", "add")]
    model = scripted(*([] if last_round else [calls(call("search_tools", {"query": "list"}))]), carried)
    agent = Agent(llm=model, max_rounds=1 if last_round else 10)
    agent = agent.with_sources([lazy_tool_source(tools, loading="dispatch")]).with_output_model(Report)
    assert run_of(agent, runtime).severity == 4


def test_the_schema_that_goes_to_the_provider_counts_for_the_window() -> None:
    plain = Agent(llm=scripted(profile=NATIVE)).count_tokens("Assess it.")
    owes = Agent(llm=scripted(profile=NATIVE)).with_output_model(Report, mode="native").count_tokens("Assess it.")
    assert owes > plain + 20
