"""Events as the AI SDK's chunks: each kind, whatever cut the deltas, streamed or read again, checked by `ai` itself."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import Agent, SqliteStore, tool
from sapwood.core.diagnostics import TurnDiagnostics
from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    CompactionFinished,
    ContextPrepared,
    ContextUpdated,
    MessageAdded,
    MessageInterrupted,
    OutputDelta,
    ProviderWaiting,
    RoundFinished,
    RoundRestarted,
    RoundStarted,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolRunning,
    ToolStarted,
    TurnFinished,
    TurnResumed,
    TurnStarted,
    UsageLimitReached,
)
from sapwood.core.journal import is_journaled
from sapwood.core.ledger import ContextLedger
from sapwood.core.memory import MemoryRecord
from sapwood.core.messages import Message, Opaque, Text, Thinking
from sapwood.core.usage import RoundUsage, Usage
from sapwood.server.encode import chunks as wire
from sapwood.server.encode.ai_sdk import AiSdkEncoder
from sapwood.server.encode.ui_message import MessageBuilder
from sapwood.server.journal_events import as_streamed
from sapwood.testing import call, calls, says, scripted
from support.examples import examples
from support.web import node

LEDGER = ContextLedger({"system": 5, "history": 0, "prompt": 3}, window=100)
ASKED = ApprovalRequested(key="r0c0", tool_call_id="c1", name="pay", tool_input={"cents": 5}, reason="much")
RECORD = MemoryRecord("m1", "likes tea", 1)
V7_ONLY = {"tool-approval-response", "custom", "reasoning-file", "steering-message", "reset-step"}

EVENTS: list[AgentEvent] = [
    TurnStarted(run_id="r1", prompt=Message.user("go")),
    ContextUpdated(source="memory", op="recalled", records=(RECORD,), text="likes tea"),
    ContextUpdated(source="tools", op="loaded", tools=("pay",), skill="money"),
    ContextUpdated(source="memory", op="failed", error="password=x"),
    ContextPrepared(),
    CompactionFinished(tokens_before=9, tokens_after=4),
    RoundStarted(round=0, max_rounds=10, ledger=LEDGER),
    ProviderWaiting(round=0, seconds=1.5, reason="key=abc refused", attempt=2),
    ThinkingDelta(text="hm"),
    TextDelta(text="old "),
    RoundRestarted(round=0, reason="ServerError"),
    TextDelta(text="I "),
    TextDelta(text="pay."),
    ServerToolStarted(tool_call_id="s1", name="web_search", tool_input={"query": "x"}),
    ServerToolFinished(tool_call_id="s1", name="web_search", value=[1]),
    ServerToolStarted(tool_call_id="s2", name="web_search"),
    ServerToolFinished(tool_call_id="s2", name="web_search", value={"error": "key=abc"}, is_error=True),
    MessageAdded(message=Message.assistant("I pay."), usage=Usage(1, 1)),
    ToolStarted(key="r0c0", tool_call_id="c1", name="pay", tool_input={"cents": 5}),
    ASKED,
    ApprovalResolved(key="r0c0", tool_call_id="c1", name="pay", approved=False),
    ToolFinished(key="r0c0", tool_call_id="c1", name="pay", result="Denied: no", is_error=True),
    ToolStarted(key="r0c1", tool_call_id="c2", name="add", tool_input={}),
    ToolRunning(key="r0c1"),
    ToolFinished(key="r0c1", tool_call_id="c2", name="add", result="3", value=3),
    ToolStarted(key="r0c2", tool_call_id="c3", name="task", tool_input={}),
    TurnStarted(path=("c3",), run_id="r1", agent="helper"),
    RoundStarted(path=("c3",), round=0, max_rounds=3, ledger=LEDGER),
    TextDelta(path=("c3",), text="below"),
    ToolStarted(path=("c3",), key="r0c0", tool_call_id="d1", name="pay", tool_input={"cents": 7}),
    ASKED.replace(path=("c3",), tool_call_id="d1"),
    ToolFinished(path=("c3",), key="r0c0", tool_call_id="d1", name="pay", result="paid", value="paid"),
    TurnFinished(path=("c3",), text="below", diagnostics=TurnDiagnostics()),
    ToolFinished(key="r0c2", tool_call_id="c3", name="task", result="at /etc", is_error=True, shown="Internal error"),
    OutputDelta(value={"a": 1}),
    UsageLimitReached(kind="total_tokens", used=12, limit=10),
    RoundFinished(round=0, usage=RoundUsage(0, 4, 2, ledger=LEDGER.replace(reported_tokens=8, cost_usd=0.001))),
    TurnFinished(
        text="I pay.",
        output='{"a":1}',
        diagnostics=TurnDiagnostics((RoundUsage(0, 4, 2, cache_read_tokens=1, cost_usd=0.001),)),
    ),
]


def told(events: Iterable[AgentEvent], encoder: AiSdkEncoder | None = None, at: float = 0.0) -> list[dict[str, Any]]:
    encoder = encoder or AiSdkEncoder("r1", "t1")
    found = [text for event in events for text in encoder.encode(event, at)]
    return [json.loads(text) for text in (*found, *encoder.close())]


def kinds(found: Sequence[dict[str, Any]]) -> list[str]:
    return [item["type"] for item in found]


def test_every_kind_of_event_is_a_chunk_that_the_ai_sdk_takes() -> None:
    found = told(EVENTS, at=1.0)
    done = node("check_chunks.mjs", stdin="\n".join(json.dumps(item) for item in found))
    assert (done["problems"], done["checked"]) == ([], len(found))
    assert not V7_ONLY & set(kinds(found))
    assert not [item for item in found if None in item.values()]
    made = set(kinds(found))
    known = {item.__struct_config__.tag for item in wire.AnyChunk.__args__}
    assert known - made == {"error", "abort", "file"}
    assert "key=abc" not in str(found)
    assert "password" not in str(found)
    assert "/etc" not in str(found)


def test_a_call_is_told_with_its_flags_and_a_denied_one_is_no_error() -> None:
    found = told(EVENTS)
    inputs = {item["toolCallId"]: item for item in found if item["type"] == "tool-input-available"}
    assert set(inputs) == {"s1", "s2", "c1", "c2", "c3", "c3/d1"}
    assert all(item["dynamic"] and item["providerExecuted"] for item in inputs.values())
    assert [item["toolCallId"] for item in found if item["type"] == "tool-output-denied"] == ["c1"]
    errors = {item["toolCallId"]: item["errorText"] for item in found if item["type"] == "tool-output-error"}
    assert errors == {"s2": "The provider's tool failed.", "c3": "Internal error"}
    outputs = {item["toolCallId"]: item["output"] for item in found if item["type"] == "tool-output-available"}
    assert outputs == {"s1": [1], "c2": 3, "c3/d1": "paid"}


def test_what_began_anew_is_named_and_taken_out_of_the_message() -> None:
    found = told(EVENTS)
    void = next(item for item in found if item["type"] == "data-void")
    assert void["data"]["ids"] == ["t1", "t2"]
    builder = MessageBuilder()
    encoder = AiSdkEncoder("r1", "t1")
    for event in EVENTS:
        builder.add(encoder.chunks(event, 0.0))
    builder.add(encoder.last_chunks())
    assert [part["text"] for part in builder.parts if part["type"] in ("text", "reasoning")] == ["I pay."]
    assert "old" not in str(builder.parts)


def test_the_end_says_why_and_what_was_used() -> None:
    finish = told(EVENTS)[-1]
    assert finish["finishReason"] == "stop"
    assert finish["messageMetadata"]["usage"] == {
        "inputTokens": 5,
        "outputTokens": 2,
        "cachedTokens": 1,
        "costUsd": 0.001,
    }
    for cause, reason in [("max_tokens", "length"), ("refusal", "content-filter"), ("stuck", "other")]:
        ended = TurnFinished(text="", diagnostics=TurnDiagnostics(stopped_by=cause))  # type: ignore[arg-type]
        assert told([EVENTS[0], ended])[-1]["finishReason"] == reason
    stopped = TurnFinished(text="", diagnostics=TurnDiagnostics(stopped_by="cancelled"))
    assert told([EVENTS[0], stopped])[-1] == {"type": "abort", "reason": "stopped"}
    assert told([EVENTS[0]])[-1]["finishReason"] == "other"


def test_a_failure_closes_what_is_open_and_says_only_what_it_was_given() -> None:
    encoder = AiSdkEncoder("r1", "t1")
    for event in EVENTS[:9]:
        encoder.encode(event, 0.0)
    assert kinds([json.loads(item) for item in encoder.fail("It failed. (request x)")]) == [
        "reasoning-end",
        "finish-step",
        "error",
    ]
    assert [json.loads(item)["type"] for item in AiSdkEncoder("r1", "t1").fail("x")] == ["start", "error"]


def test_a_later_segment_says_nothing_twice_and_keeps_the_id() -> None:
    paused = TurnFinished(text="", diagnostics=TurnDiagnostics(stopped_by="approval"))
    first = [*EVENTS[:8], EVENTS[17], EVENTS[18], ASKED, paused]
    approved = ApprovalResolved(key="r0c0", tool_call_id="c1", name="pay", approved=True)
    second: list[AgentEvent] = [
        TurnResumed(run_id="r1"),
        approved,
        ToolRunning(key="r0c0"),
        ToolFinished(key="r0c0", tool_call_id="c1", name="pay", result="paid", value="paid"),
        RoundStarted(round=1, max_rounds=10),
        TextDelta(text="Paid."),
        TurnFinished(text="Paid.", diagnostics=TurnDiagnostics()),
    ]
    encoder = AiSdkEncoder("r1", "t1")
    for event in first:
        encoder.skip(event, 0.0)
    found = told(second, encoder)
    assert kinds(found) == [
        "start",
        "tool-output-available",
        "start-step",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish",
    ]
    assert found[0]["messageId"] == "r1"
    whole = told([*first, *second])
    assert kinds(whole).count("start") == kinds(whole).count("finish") == 1


def test_times_are_told_where_they_are_known() -> None:
    encoder = AiSdkEncoder("r1", "t1")
    at = 1_700_000_000.0
    texts = [text for number, event in enumerate(EVENTS) for text in encoder.encode(event, at + number)]
    times = [item["data"] for item in map(json.loads, texts) if item["type"] == "data-tool-time"]
    assert {item["toolCallId"]: item["ms"] for item in times} == {
        "s1": 1000,
        "s2": 1000,
        "c1": 3000,
        "c2": 2000,
        "c3": 8000,
    }
    assert not [item for item in told(EVENTS) if item["type"] == "data-tool-time"]


def test_what_is_too_large_is_left_out_and_named() -> None:
    big = "x" * 2_000
    encoder = AiSdkEncoder("r1", "t1", max_bytes=1_000)
    events = [
        EVENTS[0],
        ContextUpdated(source="memory", op="recalled", records=(MemoryRecord("m", big, 1),)),
        ToolStarted(key="k", tool_call_id="c1", name="f", tool_input={}),
        ToolFinished(key="k", tool_call_id="c1", name="f", result=big),
        TurnStarted(path=("c2",), run_id="r1", agent="helper"),
        MessageAdded(path=("c2",), message=Message.assistant(big)),
        TextDelta(path=("c2",), text=big),
        TurnFinished(path=("c2",), text=big, diagnostics=TurnDiagnostics()),
        ASKED.replace(tool_input={"note": big}),
    ]
    found = told(events, encoder)
    assert "data-context" not in kinds(found)
    output = next(item["output"] for item in found if item["type"] == "tool-output-available")
    assert output.endswith("bytes, too large to be sent here]")
    assert next(item for item in found if item["type"] == "data-subagent")["data"] == {
        "path": ["c2"],
        "agent": "helper",
    }
    asked = next(item for item in found if item["type"] == "data-approval")
    assert asked["data"]["input"] == {"note": big}, "a person sees all of what runs"


def test_an_end_in_time_and_a_tool_that_runs_outside_are_told() -> None:
    until = datetime(2030, 1, 1, tzinfo=UTC)
    outside = ASKED.replace(kind="external", expires_at=until)
    found = told([EVENTS[0], EVENTS[18], outside])
    available = next(item for item in found if item["type"] == "tool-input-available")
    assert "providerExecuted" not in available
    assert "tool-approval-request" not in kinds(found)
    note = next(item for item in found if item["type"] == "data-approval")["data"]
    assert (note["kind"], note["expiresAt"]) == ("external", 1_893_456_000_000)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


replies = st.lists(
    st.one_of(
        st.builds(lambda text, thought: says(text, thinking=thought), st.text(min_size=1), st.text()),
        st.builds(
            lambda text, numbers: calls(*[call("add", {"a": n, "b": 1}) for n in numbers], text=text),
            st.text(),
            st.lists(st.integers(0, 9), min_size=1, max_size=3),
        ),
    ),
    min_size=1,
    max_size=3,
)


@given(replies=replies, cuts=st.randoms(use_true_random=False))
@examples(60, deadline=None)
def test_a_run_that_is_read_again_is_the_message_that_was_streamed(replies: list[Any], cuts: Any) -> None:
    agent = Agent(llm=scripted(*replies, says("end"))).with_tools([add])
    events = list(agent.stream("go"))
    live = parts_of([(event, 0.0) for event in events])
    merged: list[AgentEvent] = []
    for event in events:  # as a slow reader has them
        last = merged[-1] if merged else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta) and cuts.random() < 0.7:
            merged[-1] = TextDelta(text=last.text + event.text)
        else:
            merged.append(event)
    assert parts_of([(event, 0.0) for event in merged]) == live
    stored = [(event, 0.0) for event in events if is_journaled(event)]
    assert parts_of(as_streamed(stored)) == live


def parts_of(events: Iterable[tuple[AgentEvent, float]]) -> list[Any]:
    encoder, builder = AiSdkEncoder("r1", "t1"), MessageBuilder()
    for event, at in events:
        builder.add(encoder.chunks(event, at))
    builder.add(encoder.last_chunks())
    return builder.parts


def test_the_providers_own_tools_stand_where_they_stood_in_a_reply_that_is_read_again() -> None:
    content = (
        Thinking("hm"),
        Text("Let me search."),
        Opaque("server_tool_use", {}),
        Opaque("result", {}),
        Text("Found."),
    )
    stored: list[AgentEvent] = [
        ServerToolStarted(tool_call_id="s1", name="web_search"),
        ServerToolFinished(tool_call_id="s1", name="web_search", value=1),
        MessageAdded(message=Message("assistant", content)),
        MessageInterrupted(message=Message.assistant("half")),
        ServerToolStarted(tool_call_id="s2", name="web_search"),
        RoundRestarted(round=0),
        ServerToolStarted(tool_call_id="s3", name="web_search"),
    ]
    assert [event.type for event, _ in as_streamed((event, 0.0) for event in stored)] == [
        "thinking_delta",
        "text_delta",
        "server_tool_started",
        "server_tool_finished",
        "text_delta",
        "message_added",
        "text_delta",
        "message_interrupted",
        "server_tool_started",
        "round_restarted",
        "server_tool_started",
    ]


def test_pictures_and_files_of_a_prompt_are_parts_of_the_users_message(tmp_path: Any) -> None:
    from sapwood import File, Image
    from sapwood.server.encode.ui_message import user_message

    message = Message.user("Look", Image("aGk=", "image/png"), File(url="https://x/y.pdf", name="y.pdf"))
    parts = user_message(message, "m1", {})["parts"]
    assert parts == [
        {"type": "text", "text": "Look"},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="},
        {"type": "file", "mediaType": "application/pdf", "url": "https://x/y.pdf", "filename": "y.pdf"},
    ]


@pytest.mark.parametrize("chunk", [wire.FilePart(url="https://x", media_type="image/png")])
def test_a_file_is_a_part_as_it_came(chunk: wire.AnyChunk) -> None:
    builder = MessageBuilder()
    builder.add([chunk])
    assert builder.parts == [msgspec.to_builtins(chunk)]


def test_times_of_events_come_from_the_store(tmp_path: Any) -> None:
    with SqliteStore(tmp_path / "a.db") as store:
        agent = Agent(llm=scripted(says("Hello."))).with_conversation(store, "c1")
        first = next(iter(list(agent.stream("Hi"))))
        assert isinstance(first, TurnStarted)
        times = store.runs.times(first.run_id)
        assert len(times) == len(store.runs.events(first.run_id))
        assert times == sorted(times)
