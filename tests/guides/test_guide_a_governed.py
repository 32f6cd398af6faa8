"""Guide A's peer, sections 4 to 8 and 12, on a governed turn: each test has the number of its statement.

Where DESIGN differs from the peer, the docstring says so and the test asserts what is ours.
"""

import asyncio
import threading
import warnings
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    BlockingCallError,
    ConfigError,
    HookResult,
    ServerError,
    SubagentDefinition,
    ToolNameCollision,
    Usage,
    UsageLimitReached,
    UsageLimits,
    tool,
)
from sapwood.core.model import ModelProfile
from sapwood.llm.scripted import ScriptedReply
from sapwood.testing import call, calls, fails, says, scripted
from support.governed import of_type, run
from support.turns import finishes, kinds

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
PRICED = ModelProfile("anthropic", "claude-haiku-4-5", context_window=200_000, max_output_tokens=8_192)


@tool
def look(place: str = "here") -> str:
    """Look."""
    return f"{place}: {next(_seen)}"


_seen = iter(range(10**6))  # never the same, so that nobody is stuck


@tool(read_only=True)
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def used(prompt: int, completion: int = 0) -> Usage:
    return Usage(prompt, completion)


def looks(*places: str, usage: Usage | None = None, text: str = "") -> ScriptedReply:
    return calls(*(call("look", {"place": place}) for place in places), usage=usage, text=text)


def limited(model: Any, limits: UsageLimits | None = None, **more: Any) -> Agent:
    return Agent(llm=model, **more).with_tools([look, add]).with_usage_limits(limits)


def reached(events: list[Any]) -> list[tuple[str, float, float, str]]:
    return [(e.kind, e.used, e.limit, e.scope) for e in of_type(events, "usage_limit_reached")]


# ---- 4, 5: the turn, its end and the last round


@RUNTIMES
def test_4_order_the_limit_is_told_of_after_the_round_and_before_the_last_one(runtime: str) -> None:
    model = scripted(looks("a", usage=used(9_000, 2_000)), says("done"))
    events = run(limited(model, UsageLimits(total_tokens_limit=10_000)), runtime)
    shown = [kind for kind in kinds(events) if kind in ("round_started", "round_finished", "usage_limit_reached")]
    assert shown == ["round_started", "round_finished", "usage_limit_reached", "round_started", "round_finished"]


@RUNTIMES
def test_4_2_the_diagnostics_of_the_end_are_those_of_last_turn(runtime: str) -> None:
    agent = limited(scripted(looks("a"), says("done")), UsageLimits(tool_calls_limit=0))
    events = run(agent, runtime)
    assert events[-1].diagnostics == agent.last_turn  # type: ignore[union-attr]
    assert agent.last_turn is not None
    assert agent.last_turn.limits[0].kind == "tool_calls"


@RUNTIMES
def test_5_a_limit_grants_no_round_beyond_max_rounds(runtime: str) -> None:
    """The peer runs it; guide A: "Rounds themselves are capped by max_rounds"."""
    model = scripted(looks("a"), looks("b", usage=used(50_000)))
    events = run(limited(model, UsageLimits(total_tokens_limit=40_000), max_rounds=2), runtime)
    assert len(model.requests) == 2
    assert (events[-1].stopped_by, [k for k, *_ in reached(events)]) == ("usage_limit", ["total_tokens"])  # type: ignore[union-attr]


@RUNTIMES
def test_5_the_last_round_has_its_notice_and_no_tool_choice(runtime: str) -> None:
    model = scripted(looks("a", usage=used(50_000)), calls("look", text="I know enough."))
    events = run(limited(model, UsageLimits(total_tokens_limit=40_000)), runtime)
    notice = model.requests[1].notice
    assert notice is not None
    assert notice.startswith("[system] Final round: the usage budget is used up.")
    assert model.requests[1].tool_choice == "none"
    assert model.requests[1].tools == model.requests[0].tools, "the schemas stay, for the cache"
    assert finishes(events)[-1].result.startswith("Not run: this was the final round")
    assert events[-1].text == "I know enough."  # type: ignore[union-attr]


@RUNTIMES
def test_5_stuck_four_equal_results_are_told_of_and_the_same_once_more_ends_the_turn(runtime: str) -> None:
    same = calls(call("add", {"a": 1}))
    model = scripted(same, same, same, same, same, says("it is 2"))
    events = run(Agent(llm=model).with_tools([add]), runtime)
    assert events[-1].stopped_by == "stuck"  # type: ignore[union-attr]
    (nudge,) = [e for e in of_type(events, "message_added") if e.nudge]
    assert "add in 4 rounds" in nudge.message.text
    assert "again and again" in (model.requests[5].notice or "")
    assert events[-1].text == "it is 2"  # type: ignore[union-attr]


@RUNTIMES
def test_5_stuck_three_equal_errors_are_enough(runtime: str) -> None:
    same = calls("nothing")
    model = scripted(same, same, same, says("ok"))
    events = run(Agent(llm=model).with_tools([add]), runtime)
    assert [e.nudge for e in of_type(events, "message_added") if e.nudge] == ["stuck"]
    assert events[-1].stopped_by == "stop", "the model did something else"  # type: ignore[union-attr]


@RUNTIMES
def test_5_stuck_a_changing_result_never_counts_and_another_round_resets(runtime: str) -> None:
    same, other = calls(call("add", {"a": 1})), calls(call("add", {"a": 2}))
    model = scripted(*[looks("a")] * 6, same, same, same, other, same, same, same, says("ok"))
    events = run(Agent(llm=model, max_rounds=20).with_tools([add, look]), runtime)
    assert not [e for e in of_type(events, "message_added") if e.nudge]


# ---- 6: limits


@RUNTIMES
def test_6_1_one_pool_for_the_tree_and_a_fresh_one_for_each_turn(runtime: str) -> None:
    model = scripted(
        *[calls(call("task", {"agent_name": "helper", "task": "look"})), looks("x"), says("seen"), says("all")] * 2
    )
    helper = SubagentDefinition(name="helper", description="Helps.", tools=(look,))
    agent = Agent(llm=model).with_subagents([helper]).with_usage_limits(UsageLimits(tool_calls_limit=2))
    for _ in range(2):
        events = run(agent, runtime)
        assert events[-1].stopped_by == "stop", "the task and the look are two, in each turn"  # type: ignore[union-attr]


@RUNTIMES
def test_6_1_an_agents_own_limits_as_a_subagent_are_of_its_turn_alone(runtime: str) -> None:
    model = scripted(
        calls(call("task", {"agent_name": "helper", "task": "look"})),
        looks("x"),
        looks("y"),
        says("seen x"),
        says("all"),
    )
    own = UsageLimits(tool_calls_limit=1)
    helper = SubagentDefinition(name="helper", description="Helps.", tools=(look,), usage_limits=own)
    events = run(Agent(llm=model).with_subagents([helper]), runtime)
    assert [(e.scope, len(e.path)) for e in of_type(events, "usage_limit_reached")] == [("turn", 1)]
    assert events[-1].diagnostics.limits == ()  # type: ignore[union-attr]
    assert events[-1].diagnostics.children[0].diagnostics.limits[0].scope == "turn"  # type: ignore[union-attr]


@RUNTIMES
def test_6_2_a_limit_is_crossed_by_more_than_it_allows(runtime: str) -> None:
    for tokens, cause in ((4_000, "stop"), (4_001, "usage_limit")):
        # Of output, as one round that ends the turn has it: what a next call would use is another question.
        model = scripted(says("x", usage=used(0, tokens)))
        agent = limited(model, UsageLimits(output_tokens_limit=4_000))
        events = run(agent, runtime)
        assert [kind for kind, *_ in reached(events)] == ["output_tokens"] * (cause == "usage_limit")
    exact = run(limited(scripted(looks("a"), says("x")), UsageLimits(tool_calls_limit=1)), runtime)
    assert (exact[-1].stopped_by, reached(exact)) == ("stop", [])  # type: ignore[union-attr]


@RUNTIMES
def test_6_2_no_call_runs_with_a_limit_of_none(runtime: str) -> None:
    """The peer runs the first batch; DESIGN decision 17: checked before each call."""
    model = scripted(looks("a", "b"), says("I may not look"))
    events = run(limited(model, UsageLimits(tool_calls_limit=0)), runtime)
    assert not of_type(events, "tool_running")
    texts = {finish.result for finish in finishes(events)}
    assert texts == {"Not run: the limit of 0 tool calls (1 used) is reached."}
    assert events[-1].stopped_by == "usage_limit"  # type: ignore[union-attr]


@RUNTIMES
def test_6_3_every_limit_that_was_crossed_is_told_of_the_agents_own_first(runtime: str) -> None:
    """The peer tells of one; ours of each, in the same order."""
    model = scripted(looks("a", "b", usage=used(50_000, 5_000)), says("x"))
    agent = (
        Agent(llm=model)
        .with_tools([look])
        .with_usage_limits(
            UsageLimits(total_tokens_limit=30_000, output_tokens_limit=2_000),
            turn=UsageLimits(input_tokens_limit=40_000),
        )
    )
    events = run(agent, runtime)
    found = [(kind, scope) for kind, _, _, scope in reached(events)]
    assert found == [("input_tokens", "turn"), ("total_tokens", "run"), ("output_tokens", "run")]


@RUNTIMES
def test_6_4_one_round_more_and_only_one_whatever_it_brings(runtime: str) -> None:
    model = scripted(looks("a", usage=used(50_000)), looks("b", text="so far a.", usage=used(90_000)))
    events = run(limited(model, UsageLimits(total_tokens_limit=40_000)), runtime)
    assert len(model.requests) == 2
    assert (events[-1].text, events[-1].stopped_by) == ("so far a.", "usage_limit")  # type: ignore[union-attr]
    assert len(reached(events)) == 1, "it is told of once"


@RUNTIMES
def test_6_4_a_breach_in_the_last_round_is_told_of_too(runtime: str) -> None:
    """B29: a turn that ends by itself tells of the limit it crossed, and why it ended stays."""
    agent = limited(scripted(says("done", usage=used(50_000))), UsageLimits(total_tokens_limit=40_000))
    events = run(agent, runtime)
    assert reached(events) == [("total_tokens", 50_000, 40_000, "run")]
    assert (events[-1].stopped_by, agent.last_turn.limits[0].used) == ("stop", 50_000)  # type: ignore[union-attr]


@RUNTIMES
def test_6_5_a_limit_counts_before_being_stuck(runtime: str) -> None:
    same = calls(call("add", {"a": 1}))
    model = scripted(same, same, same, same, calls(call("add", {"a": 1}), usage=used(90_000)), says("2"))
    events = run(limited(model, UsageLimits(total_tokens_limit=80_000)), runtime)
    assert events[-1].stopped_by == "usage_limit"  # type: ignore[union-attr]


@RUNTIMES
def test_6_6_a_child_that_starts_on_an_exhausted_pool_has_one_last_round(runtime: str) -> None:
    """The peer's child tells of nothing; ours says why, under its path."""
    model = scripted(
        calls(call("task", {"agent_name": "helper", "task": "look"}), usage=used(5_000)),
        says("I could not."),
        says("no"),
    )
    helper = SubagentDefinition(name="helper", description="Helps.", tools=(look,))
    agent = Agent(llm=model).with_subagents([helper]).with_usage_limits(UsageLimits(total_tokens_limit=4_000))
    events = run(agent, runtime)
    (child,) = events[-1].diagnostics.children  # type: ignore[union-attr]
    assert (child.diagnostics.stopped_by, len(child.diagnostics.rounds)) == ("usage_limit", 1)
    assert finishes(events)[-1].result.startswith("I could not.\n\n[partial result]")
    assert [len(e.path) for e in of_type(events, "usage_limit_reached")] == [1, 0]


@RUNTIMES
def test_6_7_a_child_whose_one_round_crosses_the_pool_is_flagged(runtime: str) -> None:
    """B29: it ended by itself, so its text is whole; the breach stands in its diagnostics and the parent's."""
    model = scripted(
        calls(call("task", {"agent_name": "helper", "task": "look"})), says("whole", usage=used(5_000)), says("end")
    )
    helper = SubagentDefinition(name="helper", description="Helps.")
    agent = Agent(llm=model).with_subagents([helper]).with_usage_limits(UsageLimits(total_tokens_limit=4_000))
    events = run(agent, runtime)
    diagnostics = events[-1].diagnostics  # type: ignore[union-attr]
    assert [finish.result for finish in finishes(events)] == ["whole"]
    assert diagnostics.children[0].diagnostics.stopped_by == "stop"
    assert diagnostics.children[0].diagnostics.limits[0].kind == "total_tokens"
    assert diagnostics.stopped_by == "usage_limit"


@RUNTIMES
def test_6_8_every_call_that_was_answered_counts_but_not_a_refused_one(runtime: str) -> None:
    """Unknown and denied ones count; DESIGN decision 17: one that a limit refused does not."""
    model = scripted(calls("nothing", call("add", {"a": 1}), call("add", {"a": 2}), call("add", {"a": 3})), says("x"))
    hook = lambda name, given: HookResult(decision="deny") if given.get("a") == 1 else None  # noqa: E731
    agent = limited(model, UsageLimits(tool_calls_limit=3)).with_hooks(pre_tool_use=hook)
    events = run(agent, runtime)
    assert [finish.result.partition(":")[0] for finish in sorted(finishes(events), key=lambda f: f.key)] == [
        "Unknown tool",
        "Denied",
        "3",
        "Not run",
    ]
    assert reached(events) == [("tool_calls", 4, 3, "run")]


@RUNTIMES
def test_6_9_the_cost_of_each_round_is_billed_or_of_the_table(runtime: str) -> None:
    billed = Usage(10, 5, cost_usd=2.0)
    model = scripted(looks("a", usage=billed), says("x", usage=Usage(1_000_000, 0)), profile=PRICED)
    agent = limited(model, UsageLimits(cost_limit=2.5), max_tokens=2_000_000)
    events = run(agent, runtime)
    costs = [round_.cost_usd for round_ in events[-1].diagnostics.rounds]  # type: ignore[union-attr]
    assert costs[0] == 2.0
    assert costs[1] == pytest.approx(1.0)
    assert reached(events) == [("cost", pytest.approx(3.0), 2.5, "run")]


def test_6_10_a_model_without_a_price_gives_a_warning_and_strictly_an_error() -> None:
    with pytest.warns(UserWarning, match="scripted/scripted is not known, so cost_limit does not count"):
        limited(scripted(), UsageLimits(cost_limit=1.0))
    with pytest.raises(ConfigError, match="strict_cost"):
        limited(scripted(), UsageLimits(cost_limit=1.0, strict_cost=True))
    with pytest.warns(UserWarning, match="is not known"):
        Agent(llm=scripted()).with_usage_limits(turn=UsageLimits(cost_limit=1.0))
    limited(scripted(profile=PRICED), UsageLimits(cost_limit=1.0, strict_cost=True))
    limited(scripted(), UsageLimits(total_tokens_limit=5, strict_cost=True))


def test_6_10_the_models_of_subagents_are_looked_at_too_in_either_order() -> None:
    other = SubagentDefinition(name="other", description="Other.", llm=scripted())
    same = SubagentDefinition(name="same", description="Same.")
    strict = UsageLimits(cost_limit=1.0, strict_cost=True)
    priced = Agent(llm=scripted(profile=PRICED))
    priced.with_usage_limits(strict).with_subagents([same])
    with pytest.raises(ConfigError, match="scripted/scripted"):
        Agent(llm=scripted(profile=PRICED)).with_usage_limits(strict).with_subagents([other])
    with pytest.raises(ConfigError, match="scripted/scripted"):
        Agent(llm=scripted(profile=PRICED)).with_subagents([other]).with_usage_limits(strict)
    with pytest.raises(ConfigError, match="scripted/scripted"):
        Agent(llm=scripted()).with_subagents([SubagentDefinition(name="s", description="S.", usage_limits=strict)])
    inner = Agent(llm=scripted()).as_tool("inner", "Inner.")
    with pytest.raises(ConfigError, match="scripted/scripted"):
        Agent(llm=scripted(profile=PRICED)).with_usage_limits(strict).with_tools([inner])


# ---- 7: one call


@RUNTIMES
def test_7_order_of_one_call(runtime: str) -> None:
    seen: list[str] = []

    @tool(requires_approval=True)
    def act(n: int) -> str:
        """Act."""
        seen.append("run")
        return "acted"

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        seen.append("approval")
        return ApprovalDecision(True)

    agent = Agent(llm=scripted(calls(call("act", {"n": "x"}), call("act", {"n": 1})), says("ok"))).with_tools([act])
    agent.with_approval(approve).with_hooks(
        pre_tool_use=lambda name, given: seen.append("pre"), post_tool_use=lambda *given: seen.append("post")
    )
    events = run(agent, runtime)
    assert seen == ["post", "pre", "approval", "run", "post"], "bad input reaches no pre-hook and no person"
    assert kinds(events)[4:].count("approval_requested") == 1
    order = [kind for kind in kinds(events) if kind.startswith(("tool_", "approval_"))]
    assert order == [
        *("tool_started", "tool_finished"),
        *("tool_started", "approval_requested", "approval_resolved", "tool_running", "tool_finished"),
    ]


# ---- 8: hooks and approval


def arguments_seen(agent: Agent, runtime: str) -> list[Any]:
    return [finish.result for finish in finishes(run(agent, runtime))]


@RUNTIMES
def test_8_1_hooks_are_asked_in_order_and_each_sees_what_the_one_before_made(runtime: str) -> None:
    seen: list[tuple[str, Any]] = []

    def first(name: str, given: dict[str, Any]) -> HookResult:
        seen.append(("first", given["a"]))
        return HookResult(updated_input={**given, "a": given["a"] + 1})

    async def second(name: str, given: dict[str, Any]) -> HookResult:
        seen.append(("second", given["a"]))
        return HookResult(updated_input={**given, "a": given["a"] * 10})

    agent = Agent(llm=scripted(calls(call("add", {"a": 1})), says("ok"))).with_tools([add])
    agent.with_hooks(pre_tool_use=[first]).with_hooks(pre_tool_use=second)
    assert arguments_seen(agent, runtime) == ["21"]
    assert seen == [("first", 1), ("second", 2)]


@RUNTIMES
@pytest.mark.parametrize(
    ("answers", "result"),
    [
        (["ask", "deny"], "Denied: no"),
        (["deny", "boom"], "Denied: no"),
        (["allow"], "Denied: asked"),  # allow does not lift requires_approval
        (["ask"], "Denied: asked"),
        ([None], "Denied: asked"),
    ],
)
def test_8_1_deny_beats_ask_and_allow_lifts_nothing(answers: list[str | None], result: str, runtime: str) -> None:
    @tool(requires_approval=True)
    def act() -> str:
        """Act."""
        return "acted"

    def hook(word: str | None) -> Any:
        if word == "boom":
            return lambda *given: pytest.fail("a hook after a no was asked")
        reason = "no" if word == "deny" else None
        return lambda *given: HookResult(decision=word, reason=reason) if word else None  # type: ignore[arg-type]

    agent = Agent(llm=scripted(calls("act"), says("ok"))).with_tools([act])
    agent.with_approval(lambda request: ApprovalDecision(False, "asked"))
    agent.with_hooks(pre_tool_use=[hook(word) for word in answers])
    assert arguments_seen(agent, runtime) == [result]


@RUNTIMES
def test_8_2_a_hook_that_raises_or_answers_something_else_denies(runtime: str) -> None:
    """B3, B35: a dict, False or a coroutine is no answer; an async hook is one."""

    def raises(name: str, given: Any) -> Any:
        raise OSError("api_key=sk-12345678901234567890")

    for hook, said in [
        (raises, "Denied: a hook failed (OSError: api_key=***)"),
        (lambda *given: {"decision": "allow"}, "Denied: a hook answered dict in place of a HookResult"),
        (lambda *given: False, "Denied: a hook answered bool in place of a HookResult"),
        (lambda *given: HookResult(decison="deny"), "Denied: a hook failed (TypeError"),  # type: ignore[call-arg]
    ]:
        agent = Agent(llm=scripted(calls(call("add", {"a": 1})), says("ok"))).with_tools([add])
        (result,) = arguments_seen(agent.with_hooks(pre_tool_use=hook), runtime)  # type: ignore[arg-type]
        assert result.startswith(said)
    hidden = Agent(llm=scripted(calls(call("add", {"a": 1})), says("ok")), expose_errors=False).with_tools([add])
    assert arguments_seen(hidden.with_hooks(pre_tool_use=raises), runtime) == ["Denied: a hook failed (Internal error)"]
    no_reason = Agent(llm=scripted(calls(call("add", {"a": 1})), says("ok"))).with_tools([add])
    no_reason.with_hooks(pre_tool_use=lambda *given: HookResult(decision="deny"))
    assert arguments_seen(no_reason, runtime) == ["Denied: a hook does not allow it"]


@RUNTIMES
def test_8_3_post_hooks_see_errors_too_and_what_they_say_is_what_the_model_sees(runtime: str) -> None:
    """The peer's see results only, so they can redact no error (B35)."""

    @tool
    def boom() -> str:
        """Boom."""
        raise ValueError("the password of ann is 1234")

    def redact(name: str, given: dict[str, Any], text: str) -> HookResult | None:
        return HookResult(updated_output=text.replace("ann", "…")) if "ann" in text else None

    async def mark(name: str, given: dict[str, Any], text: str) -> HookResult:
        return HookResult(updated_output={"text": text})

    def broken(*given: Any) -> HookResult:
        raise RuntimeError("no")

    script = calls("boom", call("add", {"a": "ann"}), call("add", {"a": 1}))
    model = scripted(script, says("ok"))
    agent = Agent(llm=model).with_tools([boom, add])
    agent.with_hooks(post_tool_use=[redact, broken, lambda *given: "what", mark])  # type: ignore[list-item,return-value]
    events = run(agent, runtime)
    by_key = {finish.key: finish for finish in finishes(events)}
    assert "ann" not in by_key["r0c0"].result
    assert by_key["r0c0"].is_error
    assert "ann" not in by_key["r0c1"].result, "also of input that a check refused"
    assert (by_key["r0c2"].result, by_key["r0c2"].value) == ('{"text":"2"}', {"text": "2"})
    assert "ann" not in str(model.requests[1].transcript[-1])


@RUNTIMES
def test_8_3_a_post_hook_that_answers_with_what_cannot_be_shown_withholds_the_result(runtime: str) -> None:
    agent = Agent(llm=scripted(calls(call("add", {"a": 1})), says("ok"))).with_tools([add])
    agent.with_hooks(post_tool_use=lambda *given: HookResult(updated_output=object()))
    (result,) = arguments_seen(agent, runtime)
    assert result == "The result is withheld: what a hook put in its place cannot be shown."


@RUNTIMES
def test_8_4_rewritten_input_is_checked_again_by_hook_and_by_person(runtime: str) -> None:
    """The peer checks neither (B35)."""
    bad = HookResult(updated_input={"a": "many"})
    agent = Agent(llm=scripted(calls(call("add", {"a": 1})), says("ok"))).with_tools([add])
    (result,) = arguments_seen(agent.with_hooks(pre_tool_use=lambda *given: bad), runtime)
    assert result.startswith("Invalid input for add: a: ")

    converted = HookResult(updated_input={"a": "41"})
    agent = Agent(llm=scripted(calls(call("add", {"a": 1})), says("ok"))).with_tools([add])
    assert arguments_seen(agent.with_hooks(pre_tool_use=lambda *given: converted), runtime) == ["42"]


@RUNTIMES
def test_8_4_originals_are_never_changed_not_even_deep_inside(runtime: str) -> None:
    @tool
    def store(items: list[dict[str, int]]) -> int:
        """Store."""
        return items[0]["n"]

    def spoil(name: str, given: dict[str, Any], *text: str) -> None:
        given["items"][0]["n"] = 99
        given["more"] = 1

    seen: list[Any] = []

    def approve(request: ApprovalRequest) -> ApprovalDecision:
        seen.append(request.tool_input["items"][0]["n"])
        request.tool_input["items"][0]["n"] = 98
        return ApprovalDecision(True)

    model = scripted(calls(call("store", {"items": [{"n": 1}]})), says("ok"))
    agent = Agent(llm=model).with_tools([store]).with_approval(approve)
    agent.with_hooks(pre_tool_use=[spoil, lambda *given: HookResult(decision="ask")], post_tool_use=spoil)
    events = run(agent, runtime)
    assert seen == [1]
    assert finishes(events)[0].result == "1"
    assert model.requests[1].transcript[-2].tool_calls[0].arguments == {"items": [{"n": 1}]}


@RUNTIMES
@pytest.mark.parametrize(
    ("callback", "said"),
    [
        (None, "it needs a person's approval, and nobody is there to be asked"),
        (lambda request: True, "the approval answered bool in place of an ApprovalDecision"),
        (lambda request: None, "the approval answered NoneType in place of an ApprovalDecision"),
        (lambda request: ApprovalDecision("yes"), "the approval failed (ConfigError"),  # type: ignore[arg-type]
        (lambda request: 1 / 0, "the approval failed (ZeroDivisionError: division by zero)"),
        (lambda request: ApprovalDecision(False), "the person who was asked said no"),
    ],
)
def test_8_6_approval_fails_closed(callback: Any, said: str, runtime: str) -> None:
    @tool(requires_approval=True)
    def act() -> str:
        """Act."""
        pytest.fail("it ran")

    agent = Agent(llm=scripted(calls("act"), says("ok"))).with_tools([act])
    agent = agent.with_approval(callback) if callback is not None else agent
    events = run(agent, runtime)
    (finish,) = finishes(events)
    assert finish.result.startswith(f"Denied: {said}")
    assert finish.is_error
    (resolved,) = of_type(events, "approval_resolved")
    assert not resolved.approved


@RUNTIMES
def test_8_6_a_rule_that_fails_asks(runtime: str) -> None:
    def rule(given: dict[str, Any]) -> bool:
        return bool(given["missing"])

    async def later(given: dict[str, Any]) -> bool:
        return int(given["n"]) > 5

    @tool(requires_approval=rule)
    def first(n: int) -> str:
        """First."""
        return "ran"

    @tool(requires_approval=later)
    def second(n: int) -> str:
        """Second."""
        return "ran"

    script = calls(call("first", {"n": 1}), call("second", {"n": 1}), call("second", {"n": 9}))
    events = run(Agent(llm=scripted(script, says("ok"))).with_tools([first, second]), runtime)
    results = [finish.result.partition(":")[0] for finish in sorted(finishes(events), key=lambda f: f.key)]
    assert results == ["Denied", "ran", "Denied"]


def test_8_7_approval_is_asked_outside_the_slots_for_all_at_once() -> None:
    barrier = threading.Barrier(15, timeout=5)
    waiting = 0

    @tool(read_only=True, requires_approval=True)
    async def act(n: int) -> int:
        """Act."""
        return n

    def plain(request: ApprovalRequest) -> ApprovalDecision:
        barrier.wait()  # all fifteen are asked at once, though only ten may run
        return ApprovalDecision(True)

    async def later(request: ApprovalRequest) -> ApprovalDecision:
        nonlocal waiting
        waiting += 1
        while waiting < 15:
            await asyncio.sleep(0)
        return ApprovalDecision(True)

    for callback in (plain, later):
        script = calls(*(call("act", {"n": n}) for n in range(15)))
        agent = Agent(llm=scripted(script, says("ok"))).with_tools([act]).with_approval(callback)
        events = run(agent, "asyncio")
        assert {finish.result for finish in finishes(events)} == {str(n) for n in range(15)}


def test_8_8_an_async_callback_under_stream_works_but_for_a_running_loop() -> None:
    """The peer raises TypeError always; ours has a loop of its own, and raises where one runs in the thread."""

    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        await asyncio.sleep(0)
        return ApprovalDecision(True)

    @tool(requires_approval=True)
    def act() -> str:
        """Act."""
        return "ran"

    def agent() -> Agent:
        return Agent(llm=scripted(calls("act"), says("ok"))).with_tools([act]).with_approval(approve)

    assert arguments_seen(agent(), "blocking") == ["ran"]

    async def main() -> None:
        with pytest.raises(TypeError) as caught:
            list(agent().stream("go"))
        assert isinstance(caught.value, BlockingCallError)

    asyncio.run(main())


@RUNTIMES
def test_8_11_a_call_that_waits_is_told_of(runtime: str) -> None:
    """The peer has no event for it."""

    @tool(requires_approval=True)
    def act(n: int = 3) -> str:
        """Act."""
        return "ran"

    agent = Agent(llm=scripted(calls(call("act", id="c1")), says("ok"))).with_tools([act])
    events = run(agent.with_approval(lambda request: ApprovalDecision(True, by="ann")), runtime)
    (asked,), (answered,) = of_type(events, "approval_requested"), of_type(events, "approval_resolved")
    assert (asked.tool_call_id, asked.key, asked.name, asked.tool_input) == ("c1", "r0c0", "act", {"n": 3})
    assert (answered.approved, answered.by, answered.digest) == (True, "ann", asked.digest)


# ---- 12: subagents


def parent(*script: Any, **more: Any) -> Agent:
    helper = SubagentDefinition(name="helper", description="Helps.\nAnd more.", tools=(add,), **more)
    return Agent(llm=scripted(*script)).with_subagents([helper])


def hand(task: str = "x", name: str = "helper", id: str = "") -> Any:
    return call("task", {"agent_name": name, "task": task}, id=id)


@RUNTIMES
def test_12_1_one_tool_and_a_listing_and_a_conversation_of_its_own(runtime: str) -> None:
    agent = parent(
        calls(hand("add 1")), calls(call("add", {"a": 1})), says("it is 2"), says("2"), system_prompt="You add."
    )
    run(agent, runtime, "please")
    first, child, _, last = agent._llm().requests  # type: ignore[attr-defined]
    assert [schema.name for schema in first.tools] == ["task"]
    assert "- helper: Helps. And more." in first.system[0]
    assert [schema.name for schema in child.tools] == ["add"]
    assert child.system == ("You add.",)
    assert [message.text for message in child.transcript] == ["add 1"], "nothing of the caller's conversation"
    assert last.transcript[-1].tool_results[0].text == "it is 2"


@RUNTIMES
def test_12_2_events_are_flat_with_the_path_and_ids_of_children_may_be_equal(runtime: str) -> None:
    agent = parent(calls(hand(id="c1")), calls(call("add", {"a": 1}, id="c1")), says("two"), says("done"))
    events = run(agent, runtime)
    below = [event for event in events if event.path]
    assert {event.path for event in below} == {("c1",)}
    assert {event.parent_tool_call_id for event in below} == {"c1"}
    assert below[0].type == "turn_started"
    assert below[0].agent == "helper"  # type: ignore[union-attr]
    assert below[-1].type == "turn_finished"
    assert "".join(agent_text(events)) == "done"


def agent_text(events: list[Any]) -> list[str]:
    return [event.text for event in events if event.type == "text_delta" and not event.path]


@RUNTIMES
def test_12_3_the_result_is_the_whole_text_and_partial_where_it_was_cut(runtime: str) -> None:
    agent = parent(
        calls(hand()),
        calls(call("add", {"a": 1}), text="let me. "),
        says("it is"),
        says("done"),
        max_rounds=2,
    )
    assert finishes(run(agent, runtime))[-1].result == "let me. it is"
    cut = parent(
        calls(hand()),
        calls(call("add", {"a": 1}), text="one."),
        calls(call("add", {"a": 2})),
        says("done"),
        max_rounds=2,
    )
    (result,) = [finish.result for finish in finishes(run(cut, runtime)) if not finish.path]
    assert result == "one.\n\n[partial result] the subagent used up its rounds."


@RUNTIMES
def test_12_4_a_failing_child_is_an_error_result_and_is_accounted_for(runtime: str) -> None:
    agent = parent(
        calls(hand()),
        calls(call("add", {"a": 1}), usage=used(100)),
        fails(ServerError("gone", is_transient=False)),
        says("sorry"),
    )
    events = run(agent, runtime)
    (finish,) = [finish for finish in finishes(events) if not finish.path]
    assert (finish.result, finish.is_error) == ("helper failed: ServerError: gone", True)
    (child,) = events[-1].diagnostics.children  # type: ignore[union-attr]
    assert (child.name, child.diagnostics.stopped_by, child.diagnostics.error) == ("helper", "error", finish.result)
    assert (child.diagnostics.total_tokens, child.diagnostics.total_tool_calls) == (100, 1)
    assert events[-1].diagnostics.run_total_tool_calls == 2  # type: ignore[union-attr]


def test_12_5_names_that_clash_are_refused_when_configured_in_either_order() -> None:
    """The peer refuses nesting too; ours nests three deep."""

    @tool
    def task(x: str) -> str:
        """Mine."""
        return x

    helper = SubagentDefinition(name="helper", description="Helps.")
    with pytest.raises(ToolNameCollision, match="'task' is the tool by which subagents are asked"):
        Agent(llm=scripted()).with_tools([task]).with_subagents([helper])
    with pytest.raises(ToolNameCollision, match="rename yours"):
        Agent(llm=scripted()).with_subagents([helper]).with_tools([task])
    with pytest.raises(ConfigError, match="two subagents are called 'helper'"):
        Agent(llm=scripted()).with_subagents([helper]).with_subagents([helper])
    with pytest.raises(ConfigError, match="takes SubagentDefinitions, not str"):
        Agent(llm=scripted()).with_subagents(["helper"])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="max_depth must be a whole number of at least 1, not 0"):
        Agent(llm=scripted()).with_subagents([helper], max_depth=0)
    for bad in ({"name": "a b"}, {"description": " "}, {"timeout": 0}):
        with pytest.raises(ConfigError):
            SubagentDefinition(**{"name": "a", "description": "b", **bad})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tool"):
        SubagentDefinition(name="a", description="b", tool=())  # type: ignore[call-arg]
    events = run(Agent(llm=scripted(calls(call("task", {"x": "a tool of mine"})), says("ok"))).with_tools([task]))
    assert finishes(events)[0].result == "a tool of mine"


def test_12_6_calls_to_one_child_overlap() -> None:
    """The peer makes them wait for each other."""
    running = most = 0

    @tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(20):
            await asyncio.sleep(0)
        running -= 1
        return "ok"

    def answer(request: Any) -> ScriptedReply:
        last = request.transcript[-1]
        if last.role == "tool":
            return says("done")
        return calls("wait") if last.text != "go" else calls(*[hand(str(n)) for n in range(4)])

    helper = SubagentDefinition(name="helper", description="Helps.", tools=(wait,))
    events = run(Agent(llm=scripted(*[answer] * 20)).with_subagents([helper]), "asyncio")
    assert most == 4
    assert len(events[-1].diagnostics.children) == 4  # type: ignore[union-attr]


@RUNTIMES
def test_12_7_an_unknown_agent_is_an_error_result_that_lists_the_names(runtime: str) -> None:
    """The peer's result is no error."""
    events = run(parent(calls(hand(name="hepler")), says("ok")), runtime)
    (finish,) = finishes(events)
    assert finish.is_error
    assert "helper" in finish.result
    assert finish.result.startswith("Invalid input for task: agent_name")


@RUNTIMES
def test_12_8_as_tool_children_keep_nothing_between_tasks(runtime: str) -> None:
    """The peer's keep what was loaded; ours begin anew."""
    inner = Agent(llm=scripted(says("one"), says("two"))).with_system_prompt("Inner.")
    ask = call("ask", {"task": "t"})
    model = scripted(calls(ask), calls(ask), says("done"))
    events = run(Agent(llm=model).with_tools([inner.as_tool("ask", "Asks.")]), runtime)
    assert [finish.result for finish in finishes(events)] == ["one", "two"]
    assert [len(request.transcript) for request in inner._llm().requests] == [1, 1]  # type: ignore[attr-defined]
    assert inner.last_turn is None, "a turn inside another one is no turn of this face"


# ---- the guide itself, as printed


def test_guide_usage_limits_as_printed() -> None:
    agent = Agent(llm=scripted(says("hi"), profile=PRICED))
    agent.with_usage_limits(UsageLimits(
        total_tokens_limit=50_000,   # prompt+completion+cache, all rounds
        tool_calls_limit=20,
        cost_limit=2.50,             # USD (optional)
    ))  # fmt: skip
    assert isinstance(run(agent)[0], object)
    assert UsageLimitReached(kind="cost", used=1, limit=1).scope == "run"


def test_guide_approval_as_printed() -> None:
    async def show_dialog(name: str, tool_input: dict[str, Any]) -> bool:
        return tool_input["table"] == "old"

    @tool(requires_approval=True)
    def delete_records(table: str) -> str:
        """Delete all records from a table."""
        return f"deleted {table}"

    async def approve(request: ApprovalRequest) -> ApprovalDecision:
        ok = await show_dialog(request.name, request.tool_input)
        return ApprovalDecision(
            approved=ok, reason=None if ok else "user declined — suggest a dry run",
        )  # fmt: skip

    script = calls(call("delete_records", {"table": "old"}), call("delete_records", {"table": "users"}))
    agent = Agent(llm=scripted(script, says("ok")))
    agent.with_tools([delete_records]).with_approval(approve)
    assert arguments_seen(agent, "asyncio") == ["deleted old", "Denied: user declined — suggest a dry run"]


def test_6_10_a_model_without_a_price_is_warned_of_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent = limited(scripted(), UsageLimits(cost_limit=1.0))
        agent.with_tools([look.model_copy(update={"name": "look_again"})])
        agent.with_subagents([SubagentDefinition(name="s", description="S.")])
    assert len(caught) == 1
