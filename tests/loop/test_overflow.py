"""What becomes of a request that the provider finds too long: it is shortened by what was told, once, then raised."""

from typing import Any

import pytest

from sapwood import Agent
from sapwood.context.manager import ContextManager
from sapwood.context.meter import Calibration, Meter, estimate_tokens
from sapwood.context.source import History
from sapwood.core.decide import Policy
from sapwood.core.errors import ContextOverflowError, ModelNotFoundError
from sapwood.core.events import CompactionFinished, RoundRestarted, RoundStarted
from sapwood.core.messages import Message
from sapwood.core.model import ModelProfile
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.openai import OpenAIChatProvider
from sapwood.llm.openai.responses import OpenAIResponsesProvider
from sapwood.loop.spec import TurnSpec
from sapwood.sources.compaction import compaction_source
from sapwood.sources.toolset import ToolsetSource
from sapwood.testing import call, calls, fails, fold, says, scripted
from support.recordings import recording
from support.replay_server import ReplayServer
from support.turns import bound, long_history, spec, turn

ORIGIN = "a/m"
PROFILE = ModelProfile(provider="a", model="m")


def too_long(requested: int | None = None, limit: int | None = None) -> Any:
    return fails(ContextOverflowError("prompt is too long", requested_tokens=requested, limit_tokens=limit))


def model(*replies: Any) -> Any:
    return scripted(*replies, profile=PROFILE)


def calibrated(given: Any, **more: Any) -> tuple[TurnSpec, Calibration]:
    calibration = Calibration()
    meter = Meter(calibration=calibration, origin=ORIGIN)
    return spec(given, history=long_history(), window=100_000, meter=meter, **more), calibration


def size(given: TurnSpec) -> int:
    """Return the tokens of the whole request, as the meter counts it now."""
    meter = given.meter
    messages = meter.transcript(given.history).total + meter.raw_message(Message.user("go")).total
    return meter.scaled(messages) + meter.overhead


def restart(events: Any) -> RoundRestarted:
    (found,) = [event for event in events if isinstance(event, RoundRestarted)]
    return found


def sent(events: Any) -> list[int]:
    return [event.ledger.estimated_tokens for event in events if isinstance(event, RoundStarted)]


def test_a_named_size_corrects_the_meter_and_a_named_limit_is_what_the_history_comes_down_to() -> None:
    provider = model(too_long(7_000, 3_000), says("ok"))
    given, calibration = calibrated(provider, max_response_tokens=500)
    events = turn(given)

    before, after = sent(events)
    assert calibration.ratio(ORIGIN) > 1.2  # the provider counted far more than we did
    assert calibration.limit(ORIGIN) == 3_000
    told = restart(events).room
    # By the provider's count, 2,500 of 7,000 may stay; after the correction the meter counts nearly as it does.
    assert told == pytest.approx(size(given) * 2_500 / 7_000, rel=0.01)
    assert after <= told < before
    assert fold(events).text == "ok"


@pytest.mark.parametrize(
    ("requested", "limit", "share"),
    [
        (None, None, 0.5),  # nothing named: half of it
        (None, 2_000, None),  # what may pass
        (None, 50_000, 0.5),  # more than we count: of no help
        (9_000, None, 0.5),
    ],
)
def test_the_blind_half_is_kept_where_no_limit_is_named(
    requested: int | None, limit: int | None, share: float | None
) -> None:
    given, _ = calibrated(model(too_long(requested, limit), says("ok")), max_response_tokens=500)
    events = turn(given)
    room = restart(events).room
    assert room == pytest.approx(1_500 if share is None else size(given) * share, rel=0.01)
    assert fold(events).text == "ok"


def test_a_second_refusal_is_raised_with_every_section_and_what_was_told() -> None:
    provider = model(too_long(7_000, 3_000), too_long(3_500, 3_000))
    given, _ = calibrated(provider)
    with pytest.raises(ContextOverflowError) as caught:
        turn(given)
    assert len(provider.requests) == 2
    assert caught.value.sizes["history"] > 0
    assert caught.value.sizes["prompt"] > 0
    assert (caught.value.requested_tokens, caught.value.limit_tokens) == (3_500, 3_000)


def test_a_source_that_shortens_is_asked_before_anything_is_left_out() -> None:
    rooms: list[int] = []
    source = compaction_source()

    class Watched(type(source)):  # type: ignore[misc]
        def compact(self, history: History, room: int) -> Any:
            rooms.append(room)
            return super().compact(history, room)

    watched = Watched(source._options)
    given, _ = calibrated(model(too_long(7_000, 3_000), says("ok")), sources=[watched])
    events = turn(given)
    assert rooms == [restart(events).room]
    (end,) = [event for event in events if isinstance(event, CompactionFinished)]
    assert [line.verdict for line in end.lines] == ["summarised"]


@pytest.mark.parametrize("trims", [True, False])
def test_results_of_this_turn_are_shortened_where_there_is_no_history(trims: bool) -> None:
    tools = [bound("look", lambda: "lorem ipsum " * 400)]
    provider = model(calls(call("look")), calls(call("look")), too_long(), says("done"))
    sources = [ToolsetSource(tools), compaction_source(keep_results=0, read_tokens=0)]
    context = ContextManager(sources=sources, trim_history=trims)
    given = spec(provider, window=100_000, context=context)
    events = turn(given)
    assert fold(events).text == "done"
    before, after = (list(request.transcript) for request in provider.requests[2:])
    assert Meter().raw_message(after[2]).total < Meter().raw_message(before[2]).total


def test_nothing_is_learnt_from_a_fallback_of_another_name_and_an_exact_counter_stays() -> None:
    other = scripted(too_long(7_000, 3_000), says("ok"), profile=ModelProfile(provider="b", model="m"))
    given, calibration = calibrated(FallbackProvider([model(fails(ModelNotFoundError("gone"))), other]))
    turn(given)
    assert calibration.limit(ORIGIN) is None
    assert calibration.ratio(ORIGIN) == 1.0

    exact, learnt = Calibration(), Meter(estimate_tokens)
    meter = Meter(estimate_tokens, calibration=exact, origin=ORIGIN)
    turn(spec(model(too_long(9_000, 3_000), says("ok")), history=long_history(), window=100_000, meter=meter))
    assert (meter.ratio, meter.overhead) == (learnt.ratio, learnt.overhead)


def test_the_next_turn_plans_for_the_limit_that_was_named() -> None:
    history = long_history()
    provider = model(too_long(6_000, 3_000), says("ok"), says("again"))
    agent = Agent(llm=provider, max_tokens=50_000, max_response_tokens=500)
    events = list(agent.stream("go", messages=history))
    assert fold(events).text == "ok"
    later = list(agent.stream("go", messages=history))
    (begun,) = [event for event in later if isinstance(event, RoundStarted)]
    assert begun.ledger is not None
    assert begun.ledger.window == 2_500
    assert begun.ledger.estimated_tokens <= 2_500
    assert len(provider.requests) == 3


ERRORS = {
    "anthropic-messages-error-400-context-length": (AnthropicProvider, 3_333_404, 200_000),
    "openai-responses-error-400-context-length": (OpenAIResponsesProvider, None, None),
    "llamacpp-chat-error-400-context": (OpenAIChatProvider, 4_390, 4_096),
    "openrouter-chat-error-400-context": (OpenAIChatProvider, 2_500_021, 200_000),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_recorded_refusal_is_learnt_from_then_raised(name: str) -> None:
    kind, requested, limit = ERRORS[name]
    with ReplayServer(recording(name), on_exhausted="repeat") as server:
        provider = kind("m", base_url=server.url, api_key="k")
        agent = Agent(llm=provider, max_tokens=20_000, max_response_tokens=1_000, max_retries=0)
        with pytest.raises(ContextOverflowError) as caught:
            list(agent.chat("go", messages=long_history()))
        bodies = [len(str(request["body"])) for request in server.requests]
    assert len(bodies) == 2
    assert bodies[1] < bodies[0]
    assert (caught.value.requested_tokens, caught.value.limit_tokens) == (requested, limit)
    assert caught.value.sizes["prompt"] > 0


def test_a_policy_without_a_window_shortens_too() -> None:
    given = spec(model(too_long(), says("ok")), history=long_history(), policy=Policy())
    assert fold(turn(given)).text == "ok"
