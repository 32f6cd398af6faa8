"""Properties of a turn that owes an output, over random scripts: crashes, copies, both runtimes, any mode."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from sapwood.agent.assemble import assemble
from sapwood.agent.config import AgentConfig
from sapwood.agent.output import output_of
from sapwood.context.meter import Calibration
from sapwood.core.codec import dump_run, event_from_json, load_run, to_json
from sapwood.core.decide import Policy
from sapwood.core.errors import ServerError
from sapwood.core.events import OutputDelta, TextDelta
from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest, OutputMode
from sapwood.core.run import Run
from sapwood.core.tools import FINAL_RESULT
from sapwood.core.transcript import Transcript, pending_calls, repair
from sapwood.llm.scripted import ScriptedReply
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.sources.toolset import ToolsetSource
from sapwood.testing import assert_prefix_kept, call, calls, fails, says, scripted
from support.examples import examples
from support.outputs import DISK, NATIVE, WRONG, Report, hands, writes
from support.turns import bound, folded, spec, turn

_kinds = st.sampled_from(
    ["right", "bad", "broken", "two", "beside", "look", "prose", "json", "bad json", "nothing", "cut", "refused"]
)
SCRIPTS = st.lists(_kinds, min_size=1, max_size=5)
MODES = st.sampled_from(["tool", "native", "prompted"])


def reply(kind: str) -> ScriptedReply:
    match kind:
        case "right":
            return hands(DISK, piece_size=5)
        case "bad":
            return hands(WRONG, piece_size=5)
        case "broken":
            return hands(raw='{"summary": "Di')
        case "two":
            return calls(call(FINAL_RESULT, WRONG, id="a"), call(FINAL_RESULT, DISK, id="a"), call(FINAL_RESULT, DISK))
        case "beside":
            return calls(call("look"), call(FINAL_RESULT, DISK), call("look"), text="both")
        case "look":
            return calls("look", "look")
        case "prose":
            return says("The disk is full.")
        case "json":
            return writes(DISK)
        case "bad json":
            return writes(WRONG)
        case "cut":
            return writes('{"summary": "Di', stop_reason="max_tokens")
        case "refused":
            return says("No.", stop_reason="refusal")
        case _:
            return says(thinking="hm")


def model(script: list[str]) -> Any:
    """A model whose reply depends on the request alone, so that a resumed turn meets the same one."""

    def answer(request: ModelRequest) -> ScriptedReply:
        # Each reply but one of nothing is in the transcript; that one is told by the word that follows it.
        number = sum(message.role == "assistant" for message in request.transcript)
        empty = sum(
            first.role == second.role == "user"
            for first, second in zip(request.transcript, request.transcript[1:], strict=False)
        )
        place = number + empty
        return reply(script[place]) if place < len(script) else hands(DISK)

    return scripted(*[answer] * 60, profile=NATIVE)


def given_spec(script: list[str], mode: OutputMode, retries: int) -> TurnSpec:
    config = AgentConfig(
        max_rounds=6,
        output=output_of(Report, mode),
        max_output_retries=retries,
        sources=(ToolsetSource([bound("look", lambda: "seen", read_only=True)]),),
        max_retries=0,
    )
    return assemble(config, model(script), Transcript(), calibration=Calibration())


@examples(80, deadline=None)
@given(script=SCRIPTS, mode=MODES, retries=st.integers(0, 2))
def test_a_turn_has_an_output_or_says_why_not(script: list[str], mode: OutputMode, retries: int) -> None:
    ends: list[Run] = []
    for runtime in ("blocking", "asyncio"):
        setup = given_spec(script, mode, retries)
        live = LiveTurn(start_run("run-1"), setup)
        events = turn(setup, runtime=runtime, live=live)
        run = folded(events)
        assert_prefix_kept(setup.provider.requests)  # type: ignore[attr-defined]
        assert repair(run.messages) == run.messages
        assert pending_calls(run.messages) == ()
        assert run.phase == "ended"
        assert (run.output is not None) == live.has_output
        if run.output is None:
            assert run.stopped_by in ("output_missing", "max_rounds", "max_tokens", "refusal", "stuck")
            assert run.output_error is not None or run.stopped_by in ("max_rounds", "refusal", "stuck")
        else:
            assert live.output == Report(summary="Disk full", severity=4)
        assert run.output_failures <= retries + 1
        assert [event_from_json(to_json(event)) for event in events] == events
        ends.append(run)
    assert ends[0].messages == ends[1].messages
    assert (ends[0].output, ends[0].stopped_by) == (ends[1].output, ends[1].stopped_by)


@examples(50, deadline=None)
@given(script=SCRIPTS, mode=MODES, retries=st.integers(0, 2))
def test_a_json_copy_of_the_run_after_any_event_reaches_the_same_output(
    script: list[str], mode: OutputMode, retries: int
) -> None:
    events = turn(given_spec(script, mode, retries))
    whole = folded(events)
    run = Run("run-1")
    for event in events:
        run = folded([event], run)
        if isinstance(event, TextDelta | OutputDelta):
            continue
        copy = load_run(dump_run(run))
        assert copy == run
        end = folded(turn(given_spec(script, mode, retries), None, run=copy), copy)
        assert end.messages == whole.messages
        assert (end.output, end.stopped_by, end.output_failures) == (
            whole.output,
            whole.stopped_by,
            whole.output_failures,
        )


@examples(40, deadline=None)
@given(script=SCRIPTS, mode=MODES, broken=st.integers(0, 3))
def test_a_provider_that_dies_in_any_round_leaves_a_turn_that_can_go_on(
    script: list[str], mode: OutputMode, broken: int
) -> None:
    asked = 0

    def answer(request: ModelRequest) -> ScriptedReply:
        nonlocal asked
        asked += 1
        if asked == broken + 1:
            return fails(ServerError("gone", is_transient=False), after='{"summary": "Di')
        number = sum(message.role == "assistant" for message in request.transcript)
        return reply(script[number]) if number < len(script) else hands(DISK)

    setup = msgspec.structs.replace(given_spec(script, mode, 2), provider=scripted(*[answer] * 60, profile=NATIVE))
    live = LiveTurn(start_run("run-1"), setup)
    try:
        list(iterate(run_turn(live.run, setup, BlockingRuntime(), prompt=Message.user("go"), live=live)))
    except ServerError:
        assert live.run.phase == "idle"
        again = folded(turn(setup, None, run=load_run(dump_run(live.run))), live.run)
        assert again.phase == "ended"
        assert repair(again.messages) == again.messages
        assert again.stopped_by in ("stop", "output_missing", "max_rounds", "max_tokens", "refusal", "stuck")


def test_a_policy_that_owes_an_output_which_nothing_can_read_ends_the_turn() -> None:
    setup = spec(scripted(says("{}")), policy=Policy(output="prompted", max_output_retries=0))
    run = folded(turn(setup))
    assert (run.stopped_by, run.output_error) == ("output_missing", "there is nothing that reads an output")
