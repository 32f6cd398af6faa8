"""Runs as AG-UI: every stream here is held to the protocol's models and to the order that its client insists on."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel

from sapwood import Agent, ApprovalDecision, ServerError, SubagentDefinition, UsageLimits, tool
from sapwood.core.approval import Answer, ApprovalRequest
from sapwood.core.diagnostics import TurnDiagnostics
from sapwood.core.events import (
    AgentEvent,
    CompactionFinished,
    CompactionStarted,
    ContextPrepared,
    ContextUpdated,
    LimitExtended,
    MessageAdded,
    MessageInterrupted,
    OutputChecked,
    OutputDelta,
    ProviderWaiting,
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
    TurnStarted,
    UsageLimitReached,
)
from sapwood.core.journal import is_journaled
from sapwood.core.ledger import ContextLedger
from sapwood.core.messages import File, Image, Message, Text, Thinking
from sapwood.core.usage import Usage
from sapwood.server.encode.ag_ui import AgUiEncoder
from sapwood.server.encode.ag_ui_input import AgUiRequest
from sapwood.server.encode.ag_ui_interrupts import open_interrupts
from sapwood.testing import call, calls, fails, says, scripted
from support.ag_ui import Client, checked, told

SECRET = "no route to 10.0.0.7"


@tool
def add(a: int, b: int) -> dict[str, int]:
    """Add."""
    return {"sum": a + b}


@tool
def breaks() -> str:
    """Break."""
    raise RuntimeError(SECRET)


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(external=True)
def measure(what: str) -> str:
    """Measure."""
    raise AssertionError("it runs outside")


POSTED = AgUiRequest("t1", "s1", messages=({"id": "m1", "role": "user", "content": "go"},))
ADDS = calls(call("add", {"a": 1, "b": 2}, id="c1"), text="Let me see.", thinking="hm")
PAYS = calls(call("pay", {"cents": 5}, id="c1"))
TASK = calls(call("task", {"agent_name": "helper", "task": "look"}, id="t1"))
HELPER = SubagentDefinition(name="helper", description="Helps.", tools=(add, pay, breaks))


def made(*steps: Any, helper: SubagentDefinition = HELPER) -> Agent:
    agent = Agent(llm=scripted(*steps)).with_tools([add, breaks, pay, measure]).with_subagents([helper])
    return agent.with_approval(defer=True)


def segments(
    agent: Agent, *answers: dict[str, Answer], extend: dict[str, float] | None = None
) -> list[list[AgentEvent]]:
    """A run in its segments."""
    found = [list(agent.stream("go"))]
    first = found[0][0]
    assert isinstance(first, TurnStarted)
    for answer in answers:
        found.append(list(agent.resume(first.run_id, answer, extend=extend)))
    return found


def stream(agent: Agent) -> list[dict[str, Any]]:
    return told(agent.stream("go"), AgUiEncoder("r1", "t1"))


def holding(request: AgUiRequest) -> Client:
    """A client that holds what it posted."""
    client = Client()
    client.messages = list(request.messages)
    return client


def of(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in found if item["type"] == kind]


def kinds(found: list[dict[str, Any]]) -> list[str]:
    return [item["type"] for item in found if item["type"] != "CUSTOM"]


def test_a_run_with_thinking_text_and_a_tool() -> None:
    found = stream(made(ADDS, says("Three.")))
    assert kinds(found) == [
        *("RUN_STARTED", "STEP_STARTED"),
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"),
        *("REASONING_MESSAGE_END", "REASONING_END"),
        *("TEXT_MESSAGE_START", *["TEXT_MESSAGE_CONTENT"] * 3, "TEXT_MESSAGE_END"),
        *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "STEP_FINISHED"),
        *("STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED"),
        "RUN_FINISHED",
    ]
    started, finished = found[0], found[-1]
    assert (started["threadId"], started["runId"], started["protocolVersion"]) == ("t1", "r1", "1.0")
    assert started["timestamp"] == 1000
    assert (finished["outcome"], finished["result"]) == ({"type": "success"}, "Let me see.Three.")
    assert json.loads(of(found, "TOOL_CALL_ARGS")[0]["delta"]) == {"a": 1, "b": 2}
    assert json.loads(of(found, "TOOL_CALL_RESULT")[0]["content"]) == {"sum": 3}
    assert of(found, "TOOL_CALL_START")[0]["parentMessageId"] == of(found, "TEXT_MESSAGE_START")[0]["messageId"]
    assert Client().read(found).texts() == [
        ("reasoning", "hm"),
        ("assistant", "Let me see."),
        ("tool", '{"sum":3}'),
        ("assistant", "Three."),
    ]


@pytest.mark.parametrize(
    "steps",
    [
        (says("hello you"),),
        (ADDS, says("Three.")),
        (calls("breaks"), says("sorry")),
        (says("", content=(Thinking("a"), Text("b"), Thinking("c"), Text("d"))),),
        (
            TASK,
            calls(call("add", {"a": 1, "b": 2}, id="c1"), text="I add."),
            says("three"),
            says("done", thinking="so"),
        ),
    ],
    ids=["text", "tool", "failure", "parts", "subagent"],
)
def test_a_run_that_is_read_again_from_its_journal_shows_the_same(steps: tuple[Any, ...]) -> None:
    events = list(made(*steps).stream("go"))
    live = Client().read(told(events, AgUiEncoder("r1", "t1")))
    again = Client().read(told(filter(is_journaled, events), AgUiEncoder("r1", "t1")))
    assert again.messages == live.messages


def test_a_reply_that_ends_as_something_else_than_was_streamed_is_set_right() -> None:
    agent = made(says("one", "two", content=(Text("three"),)))
    found = told(agent.stream("go"), AgUiEncoder("r1", "t1", request=POSTED))
    assert holding(POSTED).read(found).texts() == [("user", "go"), ("assistant", "three")]


def test_what_a_tools_exception_said_is_told_nowhere() -> None:
    found = stream(made(calls("breaks"), says("sorry")))
    assert SECRET not in json.dumps(found)
    (result,) = of(found, "TOOL_CALL_RESULT")
    assert (result["content"], result["metadata"]) == ("Internal error", {"sapwood": {"isError": True}})


def test_usage_is_told_by_model_and_only_of_this_stream() -> None:
    used = Usage(10, 5, cache_read_tokens=3, thinking_tokens=2)
    first, second = segments(
        made(calls(call("pay", {"cents": 5}, id="c1"), usage=used), says("ok", usage=Usage(1, 1))), YES
    )
    end = told(first, AgUiEncoder("r1", "t1"))[-1]
    assert end["usage"] == [
        {
            "provider": "scripted",
            "model": "scripted",
            "inputTokens": 13,
            "outputTokens": 5,
            "totalTokens": 18,
            "reasoningTokens": 2,
            "cachedInputTokens": 3,
        }
    ]
    end = told(second, AgUiEncoder("r1", "t1"), earlier=first)[-1]
    assert [entry["totalTokens"] for entry in end["usage"]] == [2]


@pytest.mark.parametrize(
    ("event", "name", "value"),
    [
        (
            ContextUpdated(source="memory", op="loaded", tools=("a",)),
            "context",
            {"source": "memory", "op": "loaded", "tools": ["a"]},
        ),
        (CompactionFinished(tokens_before=9, tokens_after=4), "compaction", {"tokensBefore": 9, "tokensAfter": 4}),
        (ProviderWaiting(round=0, seconds=2.0, reason=SECRET), "waiting", {"round": 0, "seconds": 2.0, "attempt": 1}),
        (OutputDelta(value={"a": 1}), "output", {"value": {"a": 1}}),
        (OutputChecked(output='{"a":1}'), "output", {"value": {"a": 1}, "final": True}),
        (
            UsageLimitReached(kind="tool", used=3, limit=2, tool="add"),
            "limit",
            {"kind": "tool", "name": "tool:add", "used": 3.0, "limit": 2.0, "tool": "add"},
        ),
        (
            RoundStarted(round=1, max_rounds=3, ledger=ContextLedger({"prompt": 7}, window=100)),
            "ledger",
            {"round": 1, "maxRounds": 3, "sections": {"prompt": 7}, "window": 100, "estimatedTokens": 7},
        ),
    ],
    ids=lambda item: item.type if hasattr(item, "type") else "",
)
def test_what_the_protocol_has_no_event_for_is_a_custom_one(event: AgentEvent, name: str, value: Any) -> None:
    found = told([event], AgUiEncoder("r1", "t1"))
    assert [(item["name"], item["value"]) for item in of(found, "CUSTOM")] == [(f"sapwood:{name}", value)]
    assert SECRET not in json.dumps(found)


def test_events_of_the_programs_own_are_not_told() -> None:
    silent: list[AgentEvent] = [
        ContextPrepared(),
        CompactionStarted(),
        OutputChecked(error="no"),
        ToolRunning(key="r0c0"),
    ]
    silent += [LimitExtended(kind="cost", amount=1.0), MessageAdded(message=Message.user("go on"))]
    assert kinds(told(silent, AgUiEncoder("r1", "t1"))) == ["RUN_STARTED", "RUN_FINISHED"]


def test_a_structured_output_is_the_result_of_the_run() -> None:
    class Sum(BaseModel):
        total: int

    agent = made(calls(call("final_result", {"total": 3}))).with_output_model(Sum)
    found = stream(agent)
    assert found[-1]["result"] == {"total": 3}
    assert [item["value"] for item in of(found, "CUSTOM") if item["name"] == "sapwood:output"][-1] == {
        "value": {"total": 3},
        "final": True,
    }


def test_a_tool_of_the_provider_is_a_call_with_its_result() -> None:
    events = [
        ServerToolStarted(tool_call_id="s1", name="web_search", tool_input={"query": "x"}),
        ServerToolFinished(tool_call_id="s1", name="web_search", value=[1]),
        ServerToolStarted(tool_call_id="s2", name="web_search"),
        ServerToolFinished(tool_call_id="s2", name="web_search", value={"error": SECRET}, is_error=True),
        ServerToolStarted(tool_call_id="s3", name="web_search"),
        ServerToolFinished(tool_call_id="s3", name="web_search"),
    ]
    found = told(events, AgUiEncoder("r1", "t1"))
    assert [item["content"] for item in of(found, "TOOL_CALL_RESULT")] == ["[1]", "The provider's tool failed.", ""]


def test_pictures_and_files_that_a_tool_returns_are_parts_of_its_result() -> None:
    content = (Text("see"), Image(data="AAAA", media_type="image/gif"), File(url="https://example.org/a.pdf"))
    event = ToolFinished(key="r0c0", tool_call_id="c1", name="draw", result="see", content=content)
    (result,) = of(told([event], AgUiEncoder("r1", "t1")), "TOOL_CALL_RESULT")
    assert result["content"] == [
        {"type": "text", "text": "see"},
        {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/gif"}},
        {
            "type": "document",
            "source": {"type": "url", "value": "https://example.org/a.pdf", "mimeType": "application/pdf"},
        },
    ]


def test_a_result_that_is_too_long_for_a_value_is_the_text_that_the_model_sees() -> None:
    event = ToolFinished(key="r0c0", tool_call_id="c1", name="read", result="long")
    (result,) = of(told([event], AgUiEncoder("r1", "t1")), "TOOL_CALL_RESULT")
    assert result["content"] == "long"


def test_a_call_that_is_told_of_twice_is_shown_once() -> None:
    event = ToolStarted(key="r0c0", tool_call_id="c1", name="add", tool_input={})
    assert len(of(told([event, event], AgUiEncoder("r1", "t1")), "TOOL_CALL_START")) == 1


def test_a_reply_that_was_cut_short_keeps_its_text() -> None:
    events = [TextDelta(text="hel"), MessageInterrupted(message=Message.assistant("hel"), usage=Usage(1, 1))]
    found = told(events, AgUiEncoder("r1", "t1"))
    assert Client().read(found).texts() == [("assistant", "hel")]
    assert found[-1]["usage"] == [{"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}]


# -- a reply that begins anew -------------------------------------------------------------------------

BROKEN: list[AgentEvent] = [
    RoundStarted(round=0, max_rounds=3),
    ThinkingDelta(text="so"),
    TextDelta(text="hel"),
    RoundRestarted(round=0),
]


def test_a_reply_that_begins_anew_leaves_nothing_of_the_old_one() -> None:
    client = Client().read(told([*BROKEN, TextDelta(text="new")], AgUiEncoder("r1", "t1")))
    assert client.texts() == [("reasoning", ""), ("assistant", "new")]
    client = Client().read(told([*BROKEN, ThinkingDelta(text="then"), TextDelta(text="new")], AgUiEncoder("r1", "t1")))
    assert client.texts() == [("reasoning", "then"), ("assistant", "new")]


def test_nothing_is_told_of_a_reply_that_begins_anew_before_a_word_of_it() -> None:
    events: list[AgentEvent] = [RoundStarted(round=0, max_rounds=3), RoundRestarted(round=0)]
    assert "MESSAGES_SNAPSHOT" not in kinds(told(events, AgUiEncoder("r1", "t1")))


def test_a_reply_that_begins_anew_takes_nothing_from_a_reply_beside_it_or_from_a_call() -> None:
    events: list[AgentEvent] = [
        TurnStarted(path=("t1",), agent="helper"),
        ThinkingDelta(text="hm", path=("t1",)),
        TextDelta(text="be", path=("t1",)),
        ThinkingDelta(text="so", path=("t1",)),
        TextDelta(text="hel"),
        ToolStarted(key="r0c0", tool_call_id="c1", name="add", tool_input={}),
        RoundRestarted(round=0),
        TextDelta(text="side", path=("t1",)),
    ]
    client = Client().read(told(events, AgUiEncoder("r1", "t1")))
    assert client.texts() == [("reasoning", "hmso"), ("assistant", "beside"), ("assistant", "")]
    assert [item["id"] for item in client.messages[-1]["toolCalls"]] == ["c1"]


def test_a_reply_that_begins_anew_keeps_what_the_client_has_besides() -> None:
    old = {"id": "m0", "role": "reasoning", "content": "an old thought"}
    request = msgspec.structs.replace(POSTED, messages=(old, *POSTED.messages))
    client = holding(request)
    client.read(told([*BROKEN, TextDelta(text="new")], AgUiEncoder("r1", "t1", request=request)))
    assert client.messages == [*request.messages, {"id": "r1:0", "role": "assistant", "content": "new"}]


def test_a_part_of_a_reply_that_a_crash_cut_off_is_taken_out_of_the_client() -> None:
    request = AgUiRequest("t1", "s1", messages=({"id": "r1:0", "role": "assistant", "content": "hel"},))
    client = holding(request)
    events = [RoundStarted(round=0, max_rounds=3), TextDelta(text="hello")]
    client.read(told(events, AgUiEncoder("r1", "t1", request=request)))
    assert client.texts() == [("assistant", "hello")]


# -- subagents --------------------------------------------------------------------------------------


def test_a_subagent_is_announced_and_closed_and_all_of_it_is_marked() -> None:
    found = stream(
        made(TASK, calls(call("add", {"a": 1, "b": 2}, id="c1"), text="I add."), says("three"), says("done"))
    )
    (started,) = of(found, "SUBAGENT_STARTED")
    (finished,) = of(found, "SUBAGENT_FINISHED")
    assert (started["subagentRunId"], started["name"], started["parentToolCallId"]) == ("t1", "helper", "t1")
    assert (finished["outcome"], finished["result"]) == ({"type": "success"}, "I add.three")
    inside = found[found.index(started) : found.index(finished) + 1]
    assert {item.get("subagentRunId") for item in inside} == {"t1"}
    assert [item["toolCallId"] for item in of(inside, "TOOL_CALL_START")] == ["t1/c1"]
    assert all("subagentRunId" not in item for item in found if item not in inside)


def test_a_subagent_that_raises_is_told_to_have_failed() -> None:
    found = stream(
        made(TASK, calls(call("add", {"a": 1, "b": 2})), fails(ServerError(SECRET, is_transient=False)), says("done"))
    )
    (failed,) = of(found, "SUBAGENT_ERROR")
    assert (failed["subagentRunId"], failed["message"]) == ("t1", "helper failed: Internal error")
    assert SECRET not in json.dumps(found)
    assert found[-1]["outcome"] == {"type": "success"}


def test_a_subagent_that_was_stopped_or_that_nobody_announced() -> None:
    stopped = TurnFinished(text="", diagnostics=TurnDiagnostics(stopped_by="cancelled"), path=("t1",))
    found = told([TurnStarted(path=("t1",), agent="helper"), stopped], AgUiEncoder("r1", "t1"))
    assert [(item["subagentRunId"], item["message"]) for item in of(found, "SUBAGENT_ERROR")] == [("t1", "Stopped.")]
    assert kinds(told([stopped], AgUiEncoder("r1", "t1"))) == ["RUN_STARTED", "RUN_FINISHED"]


def test_a_subagent_of_a_subagent_names_the_one_above_it() -> None:
    events: list[AgentEvent] = [
        TurnStarted(path=("t1",), agent="helper"),
        TurnStarted(path=("t1", "t2"), agent="deeper"),
        ToolFinished(key="r0c0", tool_call_id="t1", name="task", result="it broke", is_error=True),
    ]
    found = told(events, AgUiEncoder("r1", "t1"))
    assert [item.get("parentSubagentRunId") for item in of(found, "SUBAGENT_STARTED")] == [None, "t1"]
    assert [item["subagentRunId"] for item in of(found, "SUBAGENT_ERROR")] == ["t1/t2", "t1"]


def test_a_pause_inside_a_subagent_is_a_pause_of_the_run() -> None:
    agent = made(TASK, PAYS, says("paid"), says("done"))
    first, second = segments(agent, {"t1/c1": ApprovalDecision(approved=True)})
    found = told(first, AgUiEncoder("r1", "t1"))
    (interrupt,) = found[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["toolCallId"], interrupt["subagentRunId"]) == ("t1/c1", "t1/c1", "t1")
    assert of(found, "SUBAGENT_FINISHED")[0]["outcome"] == {"type": "suspended", "interruptIds": ["t1/c1"]}
    after = told(second, AgUiEncoder("r1", "t1", segment="s2"), earlier=first)
    assert [(item["subagentRunId"], item["name"]) for item in of(after, "SUBAGENT_STARTED")] == [("t1", "helper")]
    assert not of(after, "TOOL_CALL_START")
    assert [item["toolCallId"] for item in of(after, "TOOL_CALL_RESULT")] == ["t1/c1", "t1"]
    assert of(after, "SUBAGENT_FINISHED")[0]["outcome"] == {"type": "success"}


# -- the end ------------------------------------------------------------------------------------------


def test_a_stream_that_is_closed_without_an_end_was_stopped_and_closes_what_is_open() -> None:
    events = list(made(TASK, says("one two three"), says("done")).stream("go"))
    for count in range(len(events)):
        found = told(events[:count], AgUiEncoder("r1", "t1"))
        assert found[-1]["outcome"] == {"type": "cancelled"}


def test_a_failure_says_what_the_caller_says_and_ends_the_stream() -> None:
    encoder = AgUiEncoder("r1", "t1")
    texts = [*encoder.encode(TextDelta(text="hel"), 1.0), *encoder.fail("Something went wrong (q1).")]
    assert checked(texts)[-1] == {
        "type": "RUN_ERROR",
        "message": "Something went wrong (q1).",
        "code": "internal",
        "timestamp": 1000,
    }
    assert (encoder.close(), encoder.fail("again")) == ([], [])


def test_a_request_that_cannot_begin_is_told_by_one_event() -> None:
    (found,) = checked(AgUiEncoder("r1", "t1").fail("the thread waits", "waiting"))
    assert (found["type"], found["message"], found["code"]) == ("RUN_ERROR", "the thread waits", "waiting")


# -- the interrupt rules --------------------------------------------------------------------------------

YES: dict[str, Answer] = {"c1": ApprovalDecision(approved=True)}


def test_state_and_messages_are_told_before_the_interrupt() -> None:
    (first,) = segments(made(PAYS))
    request = msgspec.structs.replace(POSTED, state={"theirs": 1})
    found = told(first, AgUiEncoder("r1", "t1", segment="s1", request=request))
    assert kinds(found)[-3:] == ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    own = {"runId": "r1", "status": "waiting", "waiting": ["c1"]}
    assert of(found, "STATE_SNAPSHOT")[0]["snapshot"] == {"theirs": 1, "sapwood": own}
    assert of(found, "MESSAGES_SNAPSHOT")[0]["messages"] == [
        *POSTED.messages,
        {
            "id": "r1:0",
            "role": "assistant",
            "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "pay", "arguments": '{"cents":5}'}}],
        },
    ]


def test_an_interrupt_says_what_is_asked_and_how_to_answer() -> None:
    (first,) = segments(made(PAYS))
    end = told(first, AgUiEncoder("r1", "t1", segment="s1"))[-1]
    assert end["runId"] == "s1"
    assert "result" not in end
    (interrupt,) = end["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["reason"], interrupt["toolCallId"]) == ("c1", "tool_call", "c1")
    assert interrupt["message"] == "Run pay?"
    assert interrupt["metadata"]["sapwood"] == {"kind": "approval", "name": "pay", "input": {"cents": 5}}
    assert set(interrupt["responseSchema"]["properties"]) == {"approved", "reason", "editedArgs"}


def test_a_resumed_stream_never_repeats_the_start_or_the_arguments_of_a_call() -> None:
    first, second = segments(made(PAYS, says("done")), YES)
    before = told(first, AgUiEncoder("r1", "t1", segment="s1", request=POSTED))
    after = told(second, AgUiEncoder("r1", "t1", segment="s2", request=POSTED), earlier=first)
    assert [item["toolCallId"] for item in of(before, "TOOL_CALL_START")] == ["c1"]
    assert not of(before, "TOOL_CALL_RESULT")
    assert kinds(after) == [
        *("RUN_STARTED", "STEP_STARTED", "TOOL_CALL_RESULT", "STEP_FINISHED"),
        *("STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "STEP_FINISHED"),
        "RUN_FINISHED",
    ]
    assert of(after, "TOOL_CALL_RESULT")[0]["toolCallId"] == "c1"
    assert holding(POSTED).read([*before, *after]).texts() == [
        ("user", "go"),
        ("assistant", ""),
        ("tool", "paid 5"),
        ("assistant", "done"),
    ]


def test_a_state_that_says_waiting_is_set_right_once_the_run_is_over() -> None:
    first, second = segments(made(PAYS, says("done")), YES)
    request = AgUiRequest("t1", "s2", state={"theirs": 1, "sapwood": {"status": "waiting"}})
    found = told(second, AgUiEncoder("r1", "t1", segment="s2", request=request), earlier=first)
    assert Client().read(found).state == {"theirs": 1, "sapwood": {"runId": "r1", "status": "ended", "waiting": []}}


def test_a_tool_that_runs_outside_asks_for_its_result() -> None:
    (first,) = segments(made(calls(call("measure", {"what": "desk"}, id="c1"))))
    (interrupt,) = told(first, AgUiEncoder("r1", "t1"))[-1]["outcome"]["interrupts"]
    assert (interrupt["reason"], interrupt["responseSchema"]["required"]) == ("input_required", ["result"])


def test_a_limit_that_a_person_may_raise_is_an_interrupt_of_its_own() -> None:
    agent = made(calls(call("add", {"a": 1, "b": 2}), call("add", {"a": 2, "b": 2})), says("done"))
    agent.with_usage_limits(UsageLimits(tool_calls_limit=1, on_limit="ask"))
    first, second = segments(agent, {}, extend={"tool_calls": 5})
    found = told(first, AgUiEncoder("r1", "t1"))
    (interrupt,) = found[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["reason"]) == ("sapwood:limit:tool_calls:1", "sapwood:limit")
    assert interrupt["metadata"]["sapwood"]["name"] == "tool_calls"
    assert "toolCallId" not in interrupt
    assert told(second, AgUiEncoder("r1", "t1"), earlier=first)[-1]["outcome"] == {"type": "success"}


def test_a_request_with_an_end_in_time_tells_it() -> None:
    (item,) = open_interrupts([ApprovalRequest("c1", "pay", {}, expires_at=datetime(2026, 1, 2, tzinfo=UTC))])
    assert datetime.fromisoformat(item.wire()["expiresAt"]) == datetime(2026, 1, 2, tzinfo=UTC)


def test_a_word_on_an_outcome_that_a_crash_hid_is_a_confirmation_with_an_id_of_its_own() -> None:
    asked = ApprovalRequest("c1", "pay", {}, kind="unknown", reason="it was cut off")
    (item,) = open_interrupts([asked])
    assert (item.id, item.reason, item.wire()["toolCallId"]) == ("sapwood:unknown:c1", "confirmation", "c1")
    assert "it was cut off" in item.wire()["message"]
