"""with_context_management: made by the provider where it can, over HTTP; else by our ladder; else refused by name."""

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from sapwood import Agent, ConfigError, SubagentDefinition, tool
from sapwood.agent.context_management import checked_edits, ladder_options
from sapwood.core.context_edits import CLEAR_THINKING, CLEAR_TOOL_USES, COMPACT, MADE, made_edits
from sapwood.core.events import AgentEvent, CompactionFinished, RoundFinished
from sapwood.core.messages import Message, Opaque, Text
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.openai import OpenAIChatProvider
from sapwood.llm.openai.responses import OpenAIResponsesProvider
from sapwood.llm.registry import create_provider
from sapwood.sources.compaction import CompactionOptions
from sapwood.testing import call, calls, says, scripted
from support.recordings import recording
from support.replay_server import ReplayServer
from support.turns import long_history

CLEARS = "anthropic-messages-clear-tool-uses-stream"
COMPACTS = "anthropic-messages-compaction-stream-cache"
CLEAR = {"type": CLEAR_TOOL_USES, "trigger": {"type": "input_tokens", "value": 30_000}}
SUMMARISE = {"type": COMPACT, "trigger": {"type": "input_tokens", "value": 50_000}}
PAGE = "lorem ipsum dolor " * 120


@tool(read_only=True)
def look(n: int) -> str:
    """Look at a page."""
    return f"page {n}: {PAGE}"


@tool(read_only=True)
def keep_me(n: int) -> str:
    """Look at a page that stays."""
    return f"kept {n}: {PAGE}"


def edits(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"edits": list(items)}


def claude(server: ReplayServer, **more: Any) -> AnthropicProvider:
    return AnthropicProvider("claude-sonnet-4-6", base_url=server.url, api_key="k", **more)


def agent(model: Any, **more: Any) -> Agent:
    return Agent(llm=model, **{"max_tokens": 200_000, "max_rounds": 80, **more})


def rounds(count: int) -> list[Any]:
    return [*(calls(call("look", {"n": number})) for number in range(count)), says("done")]


def shown(request: ModelRequest) -> str:
    return "\n".join(result.text for message in request.transcript for result in message.tool_results)


def finished(events: list[AgentEvent]) -> list[CompactionFinished]:
    return [event for event in events if isinstance(event, CompactionFinished)]


# -- by the provider -----------------------------------------------------------------------------


def test_edits_go_with_each_request_and_name_their_beta_features() -> None:
    with ReplayServer(recording(CLEARS), on_exhausted="repeat") as server:
        own = agent(claude(server, betas=["files-api-2025-04-14"])).with_context_management(edits(CLEAR, SUMMARISE))
        list(own.chat("Hi"))
        list(own.chat("Hi again", messages=own.last_messages))
        sent = [(request["body"]["context_management"], request["headers"]) for request in server.requests]
    assert [body for body, _ in sent] == [edits(CLEAR, SUMMARISE)] * 2
    named = {name.lower(): value for name, value in sent[0][1].items()}["anthropic-beta"]
    assert named == "files-api-2025-04-14,context-management-2025-06-27,compact-2026-01-12"
    assert not any(isinstance(part, Opaque) for message in own.last_messages for part in message.content)


def test_a_body_of_ones_own_replaces_them() -> None:
    with ReplayServer(recording(CLEARS)) as server:
        own = agent(claude(server, extra_body={"context_management": None})).with_context_management(edits(CLEAR))
        list(own.chat("Hi"))
        assert "context_management" not in server.requests[0]["body"]


def test_a_summary_of_the_provider_is_kept_sent_back_told_of_and_taught_by_nobody() -> None:
    with ReplayServer(recording(COMPACTS), on_exhausted="repeat") as server:
        own = agent(claude(server)).with_context_management(edits(SUMMARISE))
        events = list(own.stream("Remember this. " + "The quick brown fox. " * 200))
        first = own.last_messages
        list(own.chat("What did I say?", messages=first))
        bodies = [request["body"] for request in server.requests]
    (block,) = [part for part in first[-1].content if isinstance(part, Opaque) and part.kind == "compaction"]
    assert block.provider_data["anthropic"] in bodies[1]["messages"][1]["content"]
    assert [message["role"] for message in bodies[1]["messages"]] == ["user", "assistant", "user"]
    (ended,) = [event for event in events if isinstance(event, RoundFinished)]
    assert ended.usage.ledger is not None
    assert [(line.source, line.verdict) for line in ended.usage.ledger.of("summarised")] == [
        ("anthropic", "summarised")
    ]
    # 55,196 tokens were read for the summary; the request had a fraction of that by our count.
    assert own._calibration.ratio("anthropic/claude-sonnet-4-6", 1.0) == 1.0


def applied(document: dict[str, Any], *made: Mapping[str, Any]) -> dict[str, Any]:
    text = document["exchanges"][0]["response"]["text"]
    told = json.dumps({"applied_edits": list(made)})
    document["exchanges"][0]["response"]["text"] = re.sub(r'\{"applied_edits":\s*\[\]\}', told, text)
    return document


def test_what_the_provider_cleared_stands_in_the_ledger_of_the_round_and_is_not_sent_back() -> None:
    made = (
        {"type": CLEAR_TOOL_USES, "cleared_tool_uses": 3, "cleared_input_tokens": 9_000},
        {"type": CLEAR_THINKING, "cleared_thinking_turns": 2, "cleared_input_tokens": 500},
    )
    with ReplayServer(applied(recording(CLEARS), *made), on_exhausted="repeat") as server:
        own = agent(claude(server)).with_context_management(edits(CLEAR))
        list(own.chat("Hi"))
        list(own.chat("Hi again", messages=own.last_messages))
        again = server.requests[1]["body"]["messages"]
    assert own.last_turn is not None
    ledger = own.last_turn.rounds[0].ledger
    assert ledger is not None
    found = [(line.label, line.tokens, line.source) for line in ledger.of("cleared")]
    assert found == [("3 tool results", 9_000, "anthropic"), ("thinking of 2 turns", 500, "anthropic")]
    assert "applied_edits" not in json.dumps(again)
    assert own._calibration.ratio("anthropic/claude-sonnet-4-6", 1.0) == 1.0  # 859 tokens were not what was sent


def test_edits_of_a_kind_to_come_are_told_too() -> None:
    made = {"applied_edits": [{"type": "fold_20300101", "cleared_input_tokens": 7}]}
    (line,) = made_edits(Message("assistant", (Text("Hi"), Opaque(MADE, {"anthropic": made}))))
    assert (line.label, line.tokens, line.verdict) == ("fold_20300101", 7, "cleared")
    assert made_edits(Message("assistant", (Opaque(MADE, {"anthropic": {"applied_edits": "?"}}),))) == ()
    assert made_edits(Message("assistant", (Opaque(MADE, {"anthropic": "?"}),))) == ()


def test_a_summary_of_the_provider_outlasts_the_messages_around_it() -> None:
    summary = Opaque("compaction", {"anthropic": {"type": "compaction", "content": "They met."}}, "They met.")
    past = [Message.user("Hello"), Message("assistant", (summary, Text("Hi.")), "anthropic/m"), *long_history()]
    model = scripted(says("ok"))
    list(agent(model, max_tokens=2_000, max_response_tokens=200).chat("go", messages=past))
    kept = list(model.requests[0].transcript)
    assert any(summary in message.content for message in kept)
    assert len(kept) < 60


def test_openai_is_told_in_its_own_form_and_its_item_goes_back() -> None:
    document = recording("openai-responses-compaction")
    item = json.loads(document["exchanges"][2]["response"]["text"])["output"][-1]
    reply = json.loads(document["exchanges"][1]["response"]["text"])
    reply["output"] = [item, *reply["output"]]
    exchange = document["exchanges"][1]
    exchange["response"]["text"] = json.dumps(reply)
    document["exchanges"] = [exchange]
    with ReplayServer(document, on_exhausted="repeat") as server:
        profile = create_provider("openai/gpt-5", api_key="k").profile
        model = OpenAIResponsesProvider("gpt-5", base_url=server.url, api_key="k", profile=profile)
        own = agent(model).with_context_management(edits(SUMMARISE))
        list(own.chat("And 3+3?"))
        list(own.chat("And 4+4?", messages=own.last_messages))
        bodies = [request["body"] for request in server.requests]
    assert [body["context_management"] for body in bodies] == [
        [{"type": "compaction", "compact_threshold": 50_000}]
    ] * 2
    assert item in bodies[1]["input"]


def test_facts_say_who_takes_what() -> None:
    def known(name: str) -> set[str]:
        return {kind for kind, _ in create_provider(name, api_key="k").profile.context_edits}

    assert known("anthropic/claude-haiku-4-5") == {CLEAR_TOOL_USES, CLEAR_THINKING}
    assert known("anthropic/claude-sonnet-4-6") == {CLEAR_TOOL_USES, CLEAR_THINKING, COMPACT}
    assert known("openai/gpt-5") == {COMPACT}
    for name in ("openai-chat/gpt-5", "azure/gpt-5", "openrouter/anthropic/claude-sonnet-4.6", "gemini/gemini-3-pro"):
        assert known(name) == set()
    assert OpenAIChatProvider("gpt-5").profile.context_edits == ()


# -- by our ladder -------------------------------------------------------------------------------


def test_another_provider_has_old_results_cleared_here_and_nothing_else() -> None:
    model = scripted(*rounds(30))
    keep = {"keep": {"type": "tool_uses", "value": 5}, "trigger": {"type": "input_tokens", "value": 8_000}}
    own = agent(model).with_tools([look]).with_context_management(edits({"type": CLEAR_TOOL_USES, **keep}))
    ends = finished(list(own.stream("Read all.")))
    assert ends
    assert {line.verdict for end in ends for line in end.lines} == {"cleared"}
    assert all(f"page {number}: lorem" in shown(model.requests[-1]) for number in range(25, 30))
    assert "page 0: lorem" not in shown(model.requests[-1])
    assert all(request.context_edits == () for request in model.requests)


def test_tools_that_are_excluded_keep_their_results() -> None:
    script = [calls(call("keep_me", {"n": 0})), *rounds(20)]
    model = scripted(*script)
    edit = {**CLEAR, "trigger": {"type": "input_tokens", "value": 6_000}, "exclude_tools": ["keep_me"]}
    own = agent(model).with_tools([look, keep_me]).with_context_management(edits(edit))
    list(own.chat("Read all."))
    assert "kept 0: lorem" in shown(model.requests[-1])
    assert "page 0: lorem" not in shown(model.requests[-1])


def test_a_summary_is_made_here_by_the_model_of_the_agent() -> None:
    asked: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Any:
        asked.append(request)
        return says("Summary: they count." if not request.tools else "So it is. " * 40)

    model = scripted(*[answer] * 60)
    edit = {"type": COMPACT, "trigger": {"type": "input_tokens", "value": 3_000}}
    own = agent(model).with_tools([look]).with_context_management(edits(edit))
    history: Any = []
    ends: list[CompactionFinished] = []
    for number in range(40):
        ends += finished(list(own.stream(f"Question {number}: " + "what then? " * 20, messages=history)))
        history = own.last_messages
    assert "summarised" in {line.verdict for end in ends for line in end.lines}


def test_a_trigger_that_no_request_reaches_is_left_to_the_ladder() -> None:
    with ReplayServer(recording(CLEARS)) as server:
        own = agent(claude(server), max_tokens=16_384).with_context_management(edits(CLEAR))
        list(own.chat("Hi"))
        assert "context_management" not in server.requests[0]["body"]
    spec = own._config
    assert spec.context_edits == (CLEAR,)


def test_one_source_does_both_where_compaction_is_asked_for_too() -> None:
    model = scripted(*rounds(60))
    edit = {"type": CLEAR_TOOL_USES, "trigger": {"type": "input_tokens", "value": 5_000}}
    own = agent(model, max_tokens=12_000, max_response_tokens=1_000).with_tools([look])
    own.with_compaction(0.9, compact_fn="checklist").with_context_management(edits(edit))
    events = list(own.stream("Read all pages. Never skip one."))
    ends = finished(events)
    assert {line.verdict for line in ends[0].lines} == {"cleared"}
    assert ends[0].tokens_before < 6_500  # the smaller trigger counts for clearing alone
    names = [schema.name for schema in model.requests[0].tools]
    assert names.count("read_result") == 1


def test_what_the_provider_summarises_is_not_summarised_here() -> None:
    asked = CompactionOptions(at=0.5)
    both = ladder_options([SUMMARISE], [SUMMARISE], asked, room=100_000, origin="a/m")
    assert both == CompactionOptions(at=0.5, summarise=None)
    assert ladder_options([CLEAR], [CLEAR], None, room=100_000, origin="a/m") is None
    merged = ladder_options([CLEAR, SUMMARISE], [], asked, room=200_000, origin="a/m")
    assert merged == CompactionOptions(at=50_000.0, clear_at=30_000.0)
    late = ladder_options([CLEAR], [], CompactionOptions(at=20_000), room=200_000, origin="a/m")
    assert late == CompactionOptions(at=20_000)


def test_subagents_on_the_same_model_are_edited_alike() -> None:
    profile = ModelProfile(provider="a", model="m", context_edits=((CLEAR_TOOL_USES, "b"),))
    model = scripted(
        calls(call("task", {"agent_name": "child", "task": "Go."})), says("4"), says("done"), profile=profile
    )
    own = agent(model).with_subagents([SubagentDefinition(name="child", description="Adds.")])
    list(own.with_context_management(edits(CLEAR)).chat("Go."))
    assert [request.context_edits for request in model.requests] == [(CLEAR,)] * 3


# -- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "word"),
    [
        ({"type": CLEAR_THINKING}, CLEAR_THINKING),
        ({**CLEAR, "clear_at_least": {"type": "input_tokens", "value": 5_000}}, "clear_at_least"),
        ({**CLEAR, "clear_tool_inputs": True}, "clear_tool_inputs"),
        ({"type": CLEAR_TOOL_USES, "trigger": {"type": "tool_uses", "value": 9}}, "tool_uses"),
        ({**SUMMARISE, "instructions": "Be brief."}, "compact_fn"),
    ],
)
def test_what_neither_can_do_is_named(edit: Mapping[str, Any], word: str) -> None:
    own = agent(scripted(says("hi"))).with_context_management(edits(edit))
    with pytest.raises(ConfigError, match=word):
        list(own.chat("Hi"))


def test_a_chain_has_the_provider_do_only_what_every_model_of_it_does() -> None:
    does = ModelProfile(provider="a", model="m", context_edits=((CLEAR_TOOL_USES, "x"),))
    first = scripted(says("hi"), profile=does)
    own = agent(FallbackProvider([first, scripted(says("hi"))])).with_context_management(edits(CLEAR))
    list(own.chat("Hi"))
    assert first.requests[0].context_edits == ()


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ("clear", "edits"),
        ({}, "edits"),
        ({"edits": []}, "edits"),
        ({"edits": [{"type": COMPACT}], "more": 1}, "more"),
        (edits({"type": "clear_all"}), "clear_all"),
        ({"edits": ["clear"]}, "clear"),
        (edits({"type": CLEAR_TOOL_USES}, {"type": CLEAR_TOOL_USES}), "2 times"),
        (edits({"type": COMPACT, "keep": 3}), "has no 'keep'"),
        (edits({**SUMMARISE, "trigger": {"type": "tool_uses", "value": 3}}), "input_tokens"),
        (edits({**SUMMARISE, "trigger": {"type": "input_tokens", "value": 0}}), "at least 1"),
        (edits({**CLEAR, "trigger": {"type": "input_tokens", "value": True}}), "whole number"),
        (edits({**CLEAR, "keep": {"type": "tool_uses", "value": -1}}), "at least 0"),
        (edits({**CLEAR, "keep": 3}), "tool_uses"),
        (edits({**CLEAR, "exclude_tools": "look"}), "list of names"),
        (edits({**CLEAR, "clear_tool_inputs": 1}), "True, False or"),
        (edits({"type": CLEAR_THINKING, "keep": {"type": "thinking_turns", "value": 0}}), "all"),
        (edits({**SUMMARISE, "instructions": " "}), "a text"),
        (edits({**SUMMARISE, "pause_after_compaction": True}), "leave it out"),
    ],
)
def test_an_invalid_config_is_refused_with_the_value_and_the_way_out(config: Any, word: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(word)):
        agent(scripted()).with_context_management(config)


def test_valid_configs_are_kept_as_they_are_without_what_is_none() -> None:
    given = edits(
        {"type": CLEAR_THINKING, "keep": "all"},
        {**CLEAR, "clear_tool_inputs": ["look"], "exclude_tools": [], "clear_at_least": None},
        {**SUMMARISE, "pause_after_compaction": False},
    )
    assert checked_edits(given) == (
        {"type": CLEAR_THINKING, "keep": "all"},
        {**CLEAR, "clear_tool_inputs": ["look"], "exclude_tools": []},
        {**SUMMARISE, "pause_after_compaction": False},
    )
    assert checked_edits(edits({"type": CLEAR_THINKING, "keep": {"type": "thinking_turns", "value": 2}}))
