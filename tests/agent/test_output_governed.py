"""Outputs under hooks, approval and limits, in subagents, in conversations; what validators do; two turns at once."""

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field, field_validator

from sapwood import Agent, ConfigError, OutputMissingError, RunPausedError, ToolError
from sapwood.agent.subagents import SubagentDefinition
from sapwood.core.approval import ApprovalDecision, ApprovalRequest, HookResult
from sapwood.core.events import MessageAdded, RoundStarted, ToolFinished, TurnFinished
from sapwood.core.limits import UsageLimits
from sapwood.core.model import NamedTool
from sapwood.core.tools import FINAL_RESULT
from sapwood.core.transcript import repair
from sapwood.core.usage import Usage
from sapwood.sources.toolset import ToolsetSource
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, says, scripted
from support.outputs import (
    DISK,
    INTEGER_N,
    NATIVE,
    UNFORCED,
    WRONG,
    Report,
    events_of,
    hands,
    owing,
    requests_of,
    run_of,
    shown,
    writes,
)
from support.turns import bound, finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
MODES: Any = pytest.mark.parametrize("mode", ["tool", "native", "prompted"])


# -- governed ----------------------------------------------------------------------------------------------------


@RUNTIMES
def test_a_hook_that_denies_is_a_refused_try(runtime: str) -> None:
    def deny(name: str, arguments: dict[str, Any]) -> HookResult | None:
        too_low = name == FINAL_RESULT and arguments["severity"] < 4
        return HookResult(decision="deny", reason="look again") if too_low else None

    agent = owing(Report, hands({**DISK, "severity": 1}), hands(DISK)).with_hooks(pre_tool_use=deny)
    assert run_of(agent, runtime).severity == 4
    assert "Denied: look again" in requests_of(agent)[1].transcript[-1].tool_results[0].text

    never = owing(Report, hands({**DISK, "severity": 1}), max_output_retries=0).with_hooks(pre_tool_use=deny)
    with pytest.raises(OutputMissingError, match="look again"):
        run_of(never, runtime)


@RUNTIMES
def test_hooks_see_the_output_and_may_change_what_is_validated(runtime: str) -> None:
    seen: list[Any] = []

    def before(name: str, arguments: dict[str, Any]) -> HookResult:
        return HookResult(updated_input={**arguments, "severity": 5})

    def after(name: str, arguments: dict[str, Any], text: str) -> None:
        seen.append((name, arguments["severity"], text))

    agent = owing(Report, hands(WRONG)).with_hooks(pre_tool_use=before, post_tool_use=after)
    assert run_of(agent, runtime).severity == 5
    assert [row[:2] for row in seen] == [(FINAL_RESULT, 5)]
    assert "recorded" in seen[0][2]


def ask_about_the_output(name: str, arguments: dict[str, Any]) -> HookResult | None:
    return HookResult(decision="ask", reason="a person looks at it") if name == FINAL_RESULT else None


@RUNTIMES
def test_a_person_may_be_asked_about_the_output(runtime: str) -> None:
    asked: list[ApprovalRequest] = []

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request)
        return ApprovalDecision(request.tool_input["severity"] == 4, "too low")

    agent = owing(Report, hands({**DISK, "severity": 1}), hands(DISK))
    agent = agent.with_hooks(pre_tool_use=ask_about_the_output).with_approval(approve)
    assert run_of(agent, runtime).severity == 4
    assert [request.tool_input["severity"] for request in asked] == [1, 4]

    nobody = owing(Report, hands(DISK), max_output_retries=0).with_hooks(pre_tool_use=ask_about_the_output)
    with pytest.raises(RunPausedError, match="waits for r0c0"):
        run_of(nobody, runtime)


@RUNTIMES
def test_a_turn_that_waits_for_a_person_with_its_output_goes_on_from_there(runtime: str) -> None:
    agent = owing(Report, hands(DISK)).with_hooks(pre_tool_use=ask_about_the_output).with_approval(defer=True)
    with pytest.raises(RunPausedError, match="final_result"):
        run_of(agent, runtime)
    assert agent.last_turn is not None
    (request,) = agent.last_turn.waiting
    assert agent.last_output is None
    events = list(agent.resume(request.run_id, {request.id: ApprovalDecision(True)}))
    assert isinstance(events[-1], TurnFinished)
    assert json.loads(agent.last_output or "") == DISK


@RUNTIMES
def test_a_person_may_change_the_output_before_it_counts(runtime: str) -> None:
    changed = ApprovalDecision(True, updated_input={"summary": "Disk nearly full", "severity": 2})
    agent = owing(Report, hands(WRONG)).with_hooks(pre_tool_use=ask_about_the_output)
    assert run_of(agent.with_approval(lambda request: changed), runtime).severity == 2


def test_the_output_of_a_subagent_may_wait_for_a_person_in_another_process() -> None:
    store = SqliteStore(":memory:")

    def ask(name: str, arguments: dict[str, Any]) -> HookResult | None:
        return HookResult(decision="ask") if "summary" in arguments else None

    def agent_of(*replies: Any, child: Any = ()) -> Agent:
        one = SubagentDefinition(name="assess", description="Assesses.", llm=scripted(*child), output_model=Report)
        agent = Agent(llm=scripted(*replies)).with_subagents([one]).with_output_model(INTEGER_N)
        return agent.with_hooks(pre_tool_use=ask).with_approval(defer=True).with_run_store(store)

    task = calls(call("task", {"agent_name": "assess", "task": "the disk"}))
    first = agent_of(task, child=[hands(DISK)])
    with pytest.raises(RunPausedError, match="final_result"):
        first.run("go")
    assert first.last_turn is not None
    (request,) = first.last_turn.waiting

    second = agent_of(hands({"n": 1}))
    events = list(second.resume(request.run_id, {request.id: ApprovalDecision(True)}))
    results = [event for event in finishes(events) if not event.path]
    assert json.loads(results[0].result) == DISK
    assert json.loads(second.last_output or "") == {"n": 1}


def test_an_output_that_was_recorded_stays_with_a_run_that_another_prompt_closes() -> None:
    store = SqliteStore(":memory:")
    events = owing(Report, hands(DISK)).with_conversation(store, "c1").stream("go")
    for event in events:
        if isinstance(event, ToolFinished):
            break
    events.close()
    again = owing(Report, hands({**DISK, "severity": 5})).with_conversation(store, "c1")
    assert again.run("again").severity == 5
    closed = next(run for run in store.runs.list() if run.stopped_by == "cancelled")
    assert json.loads(store.runs.load(closed.run_id).output or "") == DISK


def test_a_cap_on_results_leaves_the_output_whole() -> None:
    model = scripted(hands({"value": "x" * 100_000}))
    assert len(Agent(llm=model, tool_result_max_tokens=20).with_output_model(str).run("go")) == 100_000


def test_run_names_a_limit_that_it_waits_at() -> None:
    limits = UsageLimits(requests_limit=1, on_limit="ask")
    agent = owing(Report, calls("look"), hands(DISK)).with_sources([ToolsetSource([bound("look", lambda: "x")])])
    with pytest.raises(RunPausedError, match="a limit"):
        agent.with_usage_limits(limits).run("go")


@RUNTIMES
@pytest.mark.parametrize("profile", [None, UNFORCED])
def test_a_wrap_up_for_a_limit_forces_the_output_and_keeps_its_cause(runtime: str, profile: Any) -> None:
    look = bound("look", lambda: "x")
    agent = owing(Report, calls("look", usage=Usage(900, 200)), hands(DISK, usage=Usage(1, 1)), profile=profile)
    agent = agent.with_sources([ToolsetSource([look])]).with_usage_limits(UsageLimits(total_tokens_limit=1_000))
    assert run_of(agent, runtime).severity == 4
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "usage_limit"
    last = requests_of(agent)[-1]
    assert last.tool_choice == (NamedTool(FINAL_RESULT) if profile is None else None)
    assert "final_result" in (last.notice or "")


@RUNTIMES
def test_a_wrap_up_that_fails_keeps_the_limit_as_its_cause(runtime: str) -> None:
    agent = owing(Report, calls("look", usage=Usage(900, 200)), hands(WRONG, usage=Usage(1, 1)))
    agent = agent.with_sources([ToolsetSource([bound("look", lambda: "x")])])
    with pytest.raises(OutputMissingError) as caught:
        run_of(agent.with_usage_limits(UsageLimits(total_tokens_limit=1_000)), runtime)
    assert caught.value.stopped_by == "usage_limit"


@RUNTIMES
def test_the_last_round_forces_the_output_and_runs_no_other_tool(runtime: str) -> None:
    ran: list[str] = []
    model = scripted(calls("look"), calls(call("look"), call(FINAL_RESULT, DISK)))
    agent = Agent(llm=model, max_rounds=2).with_sources([ToolsetSource([bound("look", lambda: ran.append("x"))])])
    assert run_of(agent.with_output_model(Report), runtime).severity == 4
    assert [request.tool_choice for request in model.requests] == ["any", NamedTool(FINAL_RESULT)]
    assert ran == ["x"]


@RUNTIMES
@pytest.mark.parametrize(("reply", "cause"), [(hands(WRONG), "max_rounds"), (says("no"), "output_missing")])
def test_no_round_is_left_for_another_try(runtime: str, reply: Any, cause: str) -> None:
    agent = Agent(llm=scripted(reply), max_rounds=1).with_output_model(Report, max_output_retries=5)
    with pytest.raises(OutputMissingError) as caught:
        run_of(agent, runtime)
    assert caught.value.stopped_by == cause


@RUNTIMES
def test_where_no_call_can_be_demanded_it_is_asked_for_in_words(runtime: str) -> None:
    agent = owing(Report, says("It is full."), hands(DISK), profile=UNFORCED)
    assert run_of(agent, runtime).severity == 4
    first, second = requests_of(agent)
    assert (first.tool_choice, second.tool_choice) == (None, None)
    assert any(FINAL_RESULT in text for text in first.system)
    assert FINAL_RESULT in second.transcript[-1].text


def test_the_output_counts_as_no_tool_call_for_a_limit() -> None:
    agent = owing(Report, hands(WRONG), hands(DISK)).with_usage_limits(UsageLimits(tool_calls_limit=1))
    assert agent.run("go").severity == 4
    assert agent.last_turn is not None
    assert agent.last_turn.stopped_by == "stop"


# -- children ----------------------------------------------------------------------------------------------------


@RUNTIMES
def test_a_subagent_answers_with_its_output(runtime: str) -> None:
    child = scripted(says("hm"), hands(DISK, piece_size=4))
    one = SubagentDefinition(name="assess", description="Assesses.", llm=child, output_model=Report)
    model = scripted(calls(call("task", {"agent_name": "assess", "task": "the disk"})), says("done"))
    events = events_of(Agent(llm=model).with_subagents([one]), runtime)
    (result,) = [event for event in events if isinstance(event, ToolFinished) and not event.path]
    assert json.loads(result.result) == DISK
    assert shown([event for event in events if event.path])[-1] == DISK
    assert shown([event for event in events if not event.path]) == []


@RUNTIMES
def test_an_agent_as_a_tool_has_an_output_of_its_own_there(runtime: str) -> None:
    inner = Agent(llm=scripted(hands(DISK), hands(DISK), says("plain"))).with_system_prompt("Assess.")
    asked = inner.as_tool("assess", "Assesses.", output_model=Report)
    outer = Agent(llm=scripted(calls(call("assess", {"task": "the disk"})), hands({"n": 3}))).with_tools([asked])
    assert run_of(outer.with_output_model(INTEGER_N), runtime) == {"n": 3}
    assert json.loads(asked("the disk")) == DISK
    assert "".join(inner.chat("and you?")) == "plain"
    with pytest.raises(ConfigError, match="with_output_model"):
        inner.run("x")


@RUNTIMES
def test_a_subagent_without_a_valid_output_is_an_error_result(runtime: str) -> None:
    inner = Agent(llm=scripted(hands(WRONG))).with_output_model(Report, max_output_retries=0)
    model = scripted(calls(call("assess", {"task": "x"})), says("so be it"))
    events = events_of(Agent(llm=model).with_tools([inner.as_tool("assess", "Assesses.")]), runtime)
    (result,) = [event for event in finishes(events) if not event.path]
    assert result.is_error
    assert "no valid output" in result.result
    assert "severity" in result.result


# -- validators --------------------------------------------------------------------------------------------------


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    token: SecretStr
    name: str = Field(alias="Name")
    hidden: int = Field(default=0, exclude=True)

    @computed_field
    def length(self) -> int:
        return len(self.name)


@RUNTIMES
@MODES
def test_the_instance_is_the_one_that_was_validated(runtime: str, mode: Any) -> None:
    said = {"token": "s3cret", "Name": "Ada", "hidden": 7}
    agent = owing(Strict, hands(said) if mode == "tool" else writes(said), mode=mode, profile=NATIVE)
    found = run_of(agent, runtime)
    assert (found.token.get_secret_value(), found.name, found.hidden, found.length) == ("s3cret", "Ada", 7, 3)
    assert json.loads(agent.last_output or "") == {"token": "**********", "Name": "Ada", "length": 3}


@RUNTIMES
def test_a_validator_runs_once_for_each_answer(runtime: str) -> None:
    ran: list[int] = []

    class Doubled(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def double(cls, n: int) -> int:
            ran.append(n)
            return n * 2

    agent = owing(Doubled, hands({"n": 3}, piece_size=1))
    assert run_of(agent, runtime).n == 6
    assert ran == [3]


@RUNTIMES
@pytest.mark.parametrize("expose", [True, False])
def test_what_a_validator_raises_is_told_as_far_as_errors_may_be_shown(runtime: str, expose: bool) -> None:
    class Odd(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def look(cls, n: int) -> int:
            if n == 1:
                raise KeyError("the-key")
            return n

    model = scripted(hands({"n": 1}), hands({"n": 2}))
    agent = Agent(llm=model, expose_errors=expose).with_output_model(Odd)
    assert run_of(agent, runtime).n == 2
    told = model.requests[1].transcript[-1].tool_results[0].text
    assert ("the-key" in told) is expose


@RUNTIMES
def test_an_optional_field_may_be_null(runtime: str) -> None:
    class Loose(BaseModel):
        n: int
        note: str = "none"
        more: str | None = None

    found = run_of(owing(Loose, hands({"n": 1, "note": None, "more": None})), runtime)
    assert (found.note, found.more) == ("none", None)


# -- turns beside each other, and histories ----------------------------------------------------------------------


def test_two_turns_at_once_return_their_own_outputs() -> None:
    def answer(request: Any) -> Any:
        return hands({"n": int(request.transcript[0].text)})

    agent = owing(INTEGER_N, *[answer] * 20)

    async def main() -> list[Any]:
        return await asyncio.gather(*(agent.arun(str(number)) for number in range(20)))

    assert asyncio.run(main()) == [{"n": number} for number in range(20)]


@MODES
@pytest.mark.parametrize("kept", ["conversation", "messages"])
def test_the_next_turn_goes_on_with_a_valid_history(mode: Any, kept: str) -> None:
    say = hands if mode == "tool" else writes
    agent = owing(Report, say(WRONG), say(DISK), say(DISK), mode=mode, profile=NATIVE)
    if kept == "conversation":
        agent = agent.with_conversation(SqliteStore(":memory:"), "c1")
    assert agent.run("first").severity == 4
    assert agent.run("second", messages=agent.last_messages if kept == "messages" else ()).severity == 4
    last = requests_of(agent)[-1].transcript[:]
    assert next(message.text for message in last if message.role == "user") == "first"
    assert last[-1].text == "second"
    assert repair(last) == last


def test_an_output_that_a_crash_left_behind_is_reached_by_the_resumed_turn() -> None:
    store = SqliteStore(":memory:")
    agent = owing(Report, hands(DISK)).with_run_store(store)
    events = agent.stream("go")
    for event in events:
        if isinstance(event, ToolFinished):
            break
    events.close()
    again = owing(Report).with_run_store(store)
    (summary,) = store.runs.waiting()
    assert [event.type for event in again.resume(summary.run_id)][-1] == "turn_finished"
    assert json.loads(again.last_output or "") == DISK


# -- set-up ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "magic"}, "mode is one of tool, native, prompted"),
        ({"max_output_retries": -1}, "must be 0 or more"),
        ({"max_output_retries": True}, "must be 0 or more"),
        ({"max_output_retries": "2"}, "must be 0 or more"),
        ({"model": None}, "says nothing of its form"),
        ({"model": Report(summary="x", severity=1)}, "give Report itself"),
    ],
)
def test_what_cannot_work_is_refused_at_once(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Agent(llm=scripted()).with_output_model(**{"model": Report, **options})


def test_a_turn_whose_agent_lost_its_output_model_says_so() -> None:
    store = SqliteStore(":memory:")
    events = owing(Report, writes(DISK), mode="prompted").with_run_store(store).stream("go")
    for event in events:
        if isinstance(event, MessageAdded):
            break
    events.close()
    (summary,) = store.runs.waiting()
    plain = Agent(llm=scripted()).with_run_store(store)
    assert [event.type for event in plain.resume(summary.run_id)][-1] == "turn_finished"
    assert plain.last_output is None


def test_run_without_an_output_model_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="with_output_model"):
        Agent(llm=scripted()).run("go")
    with pytest.raises(ConfigError, match="with_output_model"):
        asyncio.run(Agent(llm=scripted()).arun("go"))


def test_a_tool_error_in_a_validator_is_told_in_its_words() -> None:
    class Picky(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def look(cls, n: int) -> int:
            if n < 2:
                raise ToolError("count again, please")
            return n

    agent = owing(Picky, hands({"n": 1}), hands({"n": 2}))
    assert agent.run("go").n == 2
    assert requests_of(agent)[1].transcript[-1].tool_results[0].text.endswith("count again, please")


def test_a_round_is_a_round_for_the_output_too() -> None:
    events = events_of(owing(Report, says("no"), hands(WRONG), hands(DISK), max_output_retries=2))
    assert [event.round for event in events if isinstance(event, RoundStarted)] == [0, 1, 2]
