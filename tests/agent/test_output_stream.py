"""An output while it streams: from calls and from text, whole, broken off, begun anew, huge, secret."""

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr, create_model

from sapwood import Agent
from sapwood.core.errors import OutputMissingError, ServerError
from sapwood.core.events import AgentEvent, MessageAdded, OutputDelta, RoundRestarted, RoundStarted, TextDelta
from sapwood.core.messages import Text, ToolCall
from sapwood.core.model import ModelProfile, ModelRequest, Reply, RestartChunk, StreamChunk, TextChunk, ToolDeltaChunk
from sapwood.core.tools import FINAL_RESULT
from sapwood.core.usage import Usage
from sapwood.llm.fallback import FallbackProvider
from sapwood.loop.output_stream import OutputStream
from sapwood.testing import call, calls, fails, scripted
from support.examples import examples
from support.outputs import (
    DISK,
    INTEGER_N,
    NATIVE,
    WRONG,
    Kettle,
    Lamp,
    Node,
    Report,
    events_of,
    hands,
    owing,
    requests_of,
    shown,
    writes,
)

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
MODES: Any = pytest.mark.parametrize("mode", ["tool", "native", "prompted"])


def saying(value: Any, mode: str, **more: Any) -> Any:
    return hands(value, piece_size=3, **more) if mode == "tool" else writes(value, **more)


@RUNTIMES
@MODES
def test_the_output_grows_in_each_mode(runtime: str, mode: Any) -> None:
    events = events_of(owing(Report, saying(DISK, mode), mode=mode, profile=NATIVE), runtime)
    values = shown(events)
    assert values[-1] == DISK
    assert len(values) > 3
    assert any(0 < len(value.get("summary", "")) < len("Disk full") for value in values)
    assert not [value for value in values if "severity" in value and value["severity"] != 4]
    added = next(place for place, event in enumerate(events) if isinstance(event, MessageAdded))
    assert max(place for place, event in enumerate(events) if isinstance(event, OutputDelta)) < added


@RUNTIMES
@MODES
def test_what_does_not_fit_is_never_shown(runtime: str, mode: Any) -> None:
    agent = owing(Report, saying(WRONG, mode), mode=mode, profile=NATIVE, max_output_retries=0)
    assert all("severity" not in value for value in shown(events_of(agent, runtime)))


@RUNTIMES
def test_a_call_that_comes_whole_is_shown_once(runtime: str) -> None:
    assert shown(events_of(owing(Report, hands(DISK)), runtime)) == [DISK]
    assert shown(events_of(owing(list[int], hands({"value": [1, 2]})), runtime)) == [[1, 2]]
    carried = calls(call("call_tool", {"name": FINAL_RESULT, "args": DISK}))
    from sapwood.sources.lazy_tools import lazy_tool_source

    lazy = lazy_tool_source([{"name": "x", "description": "x"}], loading="dispatch")
    agent = Agent(llm=scripted(carried)).with_sources([lazy]).with_output_model(Report)
    assert shown(events_of(agent, runtime)) == [DISK]


@RUNTIMES
def test_of_several_calls_the_first_is_shown(runtime: str) -> None:
    reply = calls(call("look"), call(FINAL_RESULT, {"n": 1}), call(FINAL_RESULT, {"n": 2}), piece_size=2)
    assert shown(events_of(owing(INTEGER_N, reply), runtime)) == [{"n": 1}]


@RUNTIMES
def test_each_try_begins_anew(runtime: str) -> None:
    events = events_of(
        owing(
            Report,
            hands(WRONG, piece_size=30),
            hands(WRONG, piece_size=30),
            hands(DISK, piece_size=30),
            max_output_retries=2,
        ),
        runtime,
    )
    rounds = [place for place, event in enumerate(events) if isinstance(event, RoundStarted)]
    for start in rounds:
        first = next(event for event in events[start:] if isinstance(event, OutputDelta))
        assert "severity" not in first.value


@RUNTIMES
def test_prose_around_the_json_is_passed_over(runtime: str) -> None:
    text = f"Here it is:\n```json\n{json.dumps(DISK)}\n```\nAnything else?"
    events = events_of(owing(Report, writes(text), mode="prompted"), runtime)
    assert shown(events)[-1] == DISK
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text


def test_text_in_tool_mode_is_text_until_it_counts() -> None:
    events = events_of(owing(Report, writes(DISK)))
    assert shown(events) == []
    assert events[-1].type == "turn_finished"


@RUNTIMES
@MODES
def test_a_fallback_in_mid_stream_begins_the_output_anew(runtime: str, mode: Any) -> None:
    broken = {"summary": "Disk is broken", "severity": 2}
    error = ServerError("reset")
    lost = (
        calls(call(FINAL_RESULT, broken), piece_size=4, error=error)
        if mode == "tool"
        else fails(error, after=json.dumps(broken))
    )
    profiles = [NATIVE.replace(model=name) for name in ("a", "b")]
    chain = FallbackProvider([scripted(lost, profile=profiles[0]), scripted(saying(DISK, mode), profile=profiles[1])])
    events = events_of(Agent(llm=chain).with_output_model(Report, mode=mode), runtime)

    place = next(place for place, event in enumerate(events) if isinstance(event, RoundRestarted))
    assert shown(events[:place])[-1] == broken
    after = shown(events[place:])
    assert after[-1] == DISK
    assert not [value for value in after if str(value.get("summary", "")).startswith("Disk is")]


class Streams:
    """Yields these chunks."""

    def __init__(self, *chunks: StreamChunk, profile: ModelProfile | None = None) -> None:
        self.profile = profile or ModelProfile("a", "m")
        self._chunks = chunks

    def stream(self, request: ModelRequest) -> Any:
        return _Both(self._chunks)


class _Both:
    def __init__(self, chunks: Sequence[StreamChunk]) -> None:
        self._chunks = chunks

    def __iter__(self) -> Any:
        return iter(self._chunks)

    async def __aiter__(self) -> Any:
        for chunk in self._chunks:
            yield chunk


@RUNTIMES
def test_a_restart_inside_a_provider_forgets_what_was_shown(runtime: str) -> None:
    whole = ToolCall(FINAL_RESULT, {"n": 2})
    chunks = (ToolDeltaChunk(0, FINAL_RESULT), ToolDeltaChunk(0, "", '{"n": 1}'), RestartChunk("ServerError", "b/m"))
    more = (ToolDeltaChunk(0, FINAL_RESULT), ToolDeltaChunk(0, "", '{"n": 2}'))
    events = events_of(Agent(llm=Streams(*chunks, *more, Reply((whole,)))).with_output_model(INTEGER_N), runtime)
    assert shown(events) == [{"n": 1}, {"n": 2}]

    text = (TextChunk('{"n": 1'), RestartChunk("ServerError", "b/m"), TextChunk('{"n": 2}'), Reply((Text('{"n": 2}'),)))
    events = events_of(Agent(llm=Streams(*text)).with_output_model(INTEGER_N, mode="prompted"), runtime)
    assert shown(events) == [{"n": 2}]


@RUNTIMES
def test_a_stream_that_dies_with_nothing_of_the_output_shown_is_tried_again_silently(runtime: str) -> None:
    error = ServerError("reset", retry_after_seconds=0.0)
    lost = calls(call(FINAL_RESULT, {}), piece_size=1, error=error)  # no field yet
    agent = owing(Report, lost, hands(DISK))
    begun = [event for event in events_of(agent, runtime) if isinstance(event, RoundRestarted)]
    assert begun == []
    assert len(requests_of(agent)) == 2


def test_a_stream_that_dies_with_the_output_half_shown_is_raised() -> None:
    agent = owing(Report, calls(call(FINAL_RESULT, DISK), piece_size=8, error=ServerError("reset")), hands(DISK))
    with pytest.raises(ServerError):
        agent.run("go")
    assert agent.last_output is None
    assert [message.role for message in agent.last_messages] == ["user"]


@RUNTIMES
@MODES
def test_leaving_in_the_middle_of_an_output_leaves_a_history_that_can_go_on(runtime: str, mode: Any) -> None:
    agent = owing(Report, saying(DISK, mode, usage=Usage(5, 5)), saying(DISK, mode), mode=mode, profile=NATIVE)

    async def leave() -> None:
        events = agent.astream("go")
        async for event in events:
            if isinstance(event, OutputDelta) and event.value.get("summary", "").startswith("Disk"):
                break
        await events.aclose()
        assert len(asyncio.all_tasks()) == 1

    if runtime == "asyncio":
        asyncio.run(leave())
    else:
        events = agent.stream("go")
        for event in events:
            if isinstance(event, OutputDelta):
                break
        events.close()
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "cancelled"
    assert agent.last_output is None
    assert agent.run("again", messages=agent.last_messages).severity == 4


def test_a_cancelled_token_ends_run_with_its_error() -> None:
    from sapwood import CancelToken, RunCancelledError

    token = CancelToken()
    agent = owing(Report, hands(DISK, piece_size=2))
    events = agent.stream("go", cancel=token)
    with pytest.raises(RunCancelledError):
        for event in events:
            if isinstance(event, OutputDelta):
                token.cancel()


# -- what is hard to show ----------------------------------------------------------------------------------------


class Account(BaseModel):
    user: str
    token: SecretStr
    more: list[SecretStr] = []
    spare: SecretStr | None = None


@RUNTIMES
@MODES
@pytest.mark.parametrize("nested", [False, True])
def test_a_secret_is_not_shown_while_it_streams(runtime: str, mode: Any, nested: bool) -> None:
    class Holder(BaseModel):
        name: str
        inner: Account

    said: dict[str, Any] = {"user": "ada", "token": "s3cret-a", "more": ["s3cret-b"], "spare": "s3cret-c"}
    given: Any = Holder if nested else Account
    said = {"name": "x", "inner": said} if nested else said
    events = events_of(owing(given, saying(said, mode), mode=mode, profile=NATIVE), runtime)
    values = shown(events)
    assert "s3cret" not in json.dumps(values)
    inner = values[-1]["inner"] if nested else values[-1]
    assert inner["user"] == "ada"
    assert "s3cret" not in (getattr(events[-1], "output", "") or "")


@RUNTIMES
def test_of_a_union_only_what_is_still_open_is_shown(runtime: str) -> None:
    agent = owing(Lamp | Kettle, hands({"value": {"kind": "kettle", "litres": 1.5, "watts": 5}}, piece_size=1))
    values = shown(events_of(agent, runtime))
    assert all("watts" not in value for value in values if "kind" in value)
    assert values[-1] == {"kind": "kettle", "litres": 1.5}


def test_a_huge_output_costs_what_it_is_long() -> None:
    items = [{"summary": f"number {number} " + "x" * 80, "severity": 1 + number % 5} for number in range(2_000)]
    agent = owing(list[Report], hands({"value": items}, piece_size=12))
    began = time.process_time()
    events = events_of(agent)
    assert time.process_time() - began < 12
    assert shown(events)[-1] == items
    assert len(json.loads(agent.last_output or "")) == 2_000


def test_a_deep_output_is_shown_as_far_as_it_can_be_and_refused_where_it_is_too_deep() -> None:
    deep: dict[str, Any] = {"name": "leaf", "below": []}
    for number in range(60):
        deep = {"name": str(number), "below": [deep]}
    agent = owing(Node, hands(deep, piece_size=7))
    assert shown(events_of(agent))[-1]["name"] == "59"
    assert json.loads(agent.last_output or "")["name"] == "59"

    endless = '{"name": "x", "below": [' * 5_000
    hostile = owing(Node, hands(raw=endless, piece_size=999), max_output_retries=0)
    with pytest.raises(OutputMissingError):
        hostile.run("go")


def test_an_output_without_fields_is_shown_at_its_end() -> None:
    for reply in (hands({}, piece_size=1), hands({})):
        assert shown(events_of(owing(dict[str, int], reply))) == [{}]
    assert shown(events_of(owing(list[int], writes("[]"), mode="prompted"))) == [[]]


def test_nothing_is_shown_where_no_output_is_owed_or_a_call_is_no_json() -> None:
    stream = OutputStream(None, None)
    assert stream.take_text("{}") is None
    assert stream.take_call(0, FINAL_RESULT, "{}") is None
    assert stream.finish([ToolCall(FINAL_RESULT, {"n": 1})]) is None
    events = events_of(owing(INTEGER_N, hands(raw="nonsense", piece_size=3), hands({"n": 1})))
    assert shown(events) == [{"n": 1}]


# -- for any output ----------------------------------------------------------------------------------------------

_WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
_VALUES = st.fixed_dictionaries(
    {"title": _WORDS, "count": st.integers(-(10**6), 10**6), "tags": st.lists(_WORDS, max_size=4)},
    optional={"note": st.none() | _WORDS, "share": st.floats(-1e6, 1e6)},
)
Any_report = create_model(
    "Any_report", title=(str, ...), count=(int, ...), tags=(list[str], ...), note=(str | None, None), share=(float, 0.0)
)


def is_begun(shown_so_far: Any, final: Any) -> bool:
    """Tell whether a value is a beginning of the final one: texts begin it, lists too, fields are equal or a beginning."""
    if isinstance(final, dict) and isinstance(shown_so_far, dict):
        return all(key in final and is_begun(item, final[key]) for key, item in shown_so_far.items())
    if isinstance(final, list) and isinstance(shown_so_far, list):
        return len(shown_so_far) <= len(final) and all(map(is_begun, shown_so_far, final))
    if isinstance(final, str) and isinstance(shown_so_far, str):
        return final.startswith(shown_so_far)
    return type(shown_so_far) is type(final) and shown_so_far == final


@examples(80, deadline=None)
@given(value=_VALUES, size=st.integers(1, 20), mode=st.sampled_from(["tool", "native", "prompted"]))
def test_what_is_shown_is_always_a_beginning_of_what_is_returned(value: dict[str, Any], size: int, mode: Any) -> None:
    text = json.dumps(value)
    reply: Any = hands(value, piece_size=size) if mode == "tool" else writes(text)
    agent = owing(Any_report, reply, mode=mode, profile=NATIVE)
    values = shown(events_of(agent))
    assert all(is_begun(item, value) for item in values)
    assert values[-1] == value
    assert all(is_begun(earlier, later) for earlier, later in pairwise(values))


def test_the_events_of_an_output_survive_json() -> None:
    from sapwood.core.codec import event_from_json, to_json

    events: list[AgentEvent] = events_of(owing(Report, hands(WRONG, piece_size=9), writes(DISK)))
    assert [event_from_json(to_json(event)) for event in events] == events
