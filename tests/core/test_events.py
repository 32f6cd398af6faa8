"""Every core type through JSON, through pydantic, and against its own JSON Schema."""

import importlib
import json
import pkgutil
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, get_args, get_type_hints

import msgspec
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

import sapwood.core
from sapwood.core.approval import ApprovalDecision, ApprovalGrant, ApprovalRequest, ExternalResult, HookResult
from sapwood.core.budget import Allocation, TokenBudget
from sapwood.core.check_schema import check_schema
from sapwood.core.codec import event_from_json, from_json, json_schema, to_json
from sapwood.core.context_item import ContextItem, SourceType
from sapwood.core.decide import (
    CallModel,
    CheckOutput,
    CloseRound,
    Compact,
    Finish,
    Nudge,
    Pause,
    Policy,
    Prepare,
    Raise,
    ReportLimits,
    RunTools,
    Spent,
)
from sapwood.core.diagnostics import ChildTurn, TurnDiagnostics
from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    CompactionFinished,
    CompactionStarted,
    ContextPrepared,
    ContextUpdated,
    Event,
    LimitExtended,
    MessageAdded,
    MessageInterrupted,
    OutputChecked,
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
from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.core.limits import LimitBreach, Tally, UsageLimits
from sapwood.core.memory import MemoryRecord, MemoryScope, RecallOptions
from sapwood.core.memory_files import MemoryEntry, MemoryFileLimits
from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.model import (
    CachePlan,
    ModelProfile,
    NamedTool,
    Reply,
    RestartChunk,
    ServerCallChunk,
    ServerResultChunk,
    TextChunk,
    ThinkingChunk,
    ToolDeltaChunk,
    UsageChunk,
)
from sapwood.core.parts import AgentContextPart, AgentMemoryPart, AgentTextPart, AgentToolPart
from sapwood.core.past_request import PastRequest
from sapwood.core.run import Child, OpenCall, Run
from sapwood.core.scope import RetrievalScope
from sapwood.core.stored import Compacted, Conversation, ConversationSummary, RunSummary, StoredRun
from sapwood.core.struct import Data
from sapwood.core.tools import ToolSchema
from sapwood.core.usage import RoundUsage, Usage

SCOPE = MemoryScope(user="ann", namespace=("team", "nord"))
RECORD = MemoryRecord("m1", "likes tea", 1_700_000_000_000, "fact", {"from": "chat"}, 0.5, SCOPE, "tool")
LINE = LedgerLine("memory", "2 memories", "memory", 40, "skipped", "40 tokens do not fit the 3 that are left")
LEDGER = ContextLedger({"system": 5}, (LINE,), 1_000, 44, 4, 0.01)
USAGE = Usage(10, 5, 3, 2, 1, 0.01, True)
ROUND = RoundUsage(0, 10, 5, 7, 6, 3, 2, 1, 0.01, True, LEDGER)
CALL = ToolCall("add", {"a": 1, "deep": [None, {"b": 2.5}]}, "r0c0", "c1", "{", "malformed", {"openai": {"i": 1}})
RESULT = ToolResult("r0c0", "add", (Text("3"), Image("aGk=")), True, ("late",), {"ms": 2})
REPLY = Message("assistant", (Thinking("hm", {"anthropic": {"signature": "s"}}), Text("so"), CALL), "a/b", True)
ENDED = TurnDiagnostics((ROUND,), "error", (ChildTurn("c1", "helper", TurnDiagnostics((ROUND,))),), "Oops: no")
OPEN = OpenCall(CALL, "c1", "done", True, 2, RESULT)
PATH = ("c1", "c2")
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
BREACH = LimitBreach("tool", 3, 2, "turn", "add")
LIMITS = UsageLimits(total_tokens_limit=10, cost_limit=0.5, tool_limits={"add": 2}, policies={"cost": "ask"})
TALLY = Tally(USAGE, 2, {"add": 1}, 0.5, True, 1.5)
ASKS = ApprovalRequested(
    path=PATH,
    key="r0c0",
    tool_call_id="c1",
    name="add",
    tool_input={"a": 1},
    raw_input={"a": "1"},
    digest="d",
    tool_version="v",
    kind="unknown",
    reason="big",
    expires_at=NOW,
)

EVENTS: list[Event] = [
    TurnStarted(path=PATH, run_id="r", prompt=Message.user("hi", Image(url="https://x/y.png"))),
    TurnResumed(path=PATH, run_id="r"),
    ContextUpdated(
        path=PATH,
        source="memory",
        op="failed",
        records=(RECORD,),
        tools=("late",),
        text="t",
        placement="system",
        error="OSError",
    ),
    ContextPrepared(path=PATH, lines=(LINE,)),
    CompactionStarted(path=PATH),
    CompactionFinished(path=PATH, tokens_before=9, tokens_after=4, upto=2, past=(Message.user("a"),)),
    RoundStarted(path=PATH, round=1, max_rounds=10, ledger=LEDGER),
    TextDelta(path=PATH, text="雪 and 🦊"),
    ThinkingDelta(path=PATH, text="hm"),
    RoundRestarted(path=PATH, round=1, reason="overloaded", model="a/b", usage=USAGE, room=5),
    ProviderWaiting(path=PATH, round=1, seconds=2.5, reason="overloaded", model="a/b", attempt=2),
    ServerToolStarted(path=PATH, tool_call_id="s1", name="web_search", tool_input={"query": "a"}),
    ServerToolFinished(path=PATH, tool_call_id="s1", name="web_search", value=["b"], is_error=True),
    MessageInterrupted(path=PATH, message=Message("assistant", (Text("ha"),), "a/b", True), reason="ServerError"),
    MessageAdded(path=PATH, message=REPLY, usage=USAGE, stop_reason="tool_use", refuse_calls=True),
    ToolStarted(path=PATH, key="r0c0", tool_call_id="c1", name="add", tool_input={"a": [1, None, {"b": ""}]}),
    ASKS,
    ApprovalResolved(
        path=PATH,
        key="r0c0",
        tool_call_id="c1",
        name="add",
        approved=False,
        reason="no",
        updated_input={"a": 2},
        digest="d",
        by="ann",
        value=[1],
        is_error=True,
    ),
    ToolRunning(path=PATH, key="r0c0", digest="abc", attempt=2),
    ToolFinished(
        path=PATH,
        key="r0c0",
        tool_call_id="c1",
        name="add",
        result="3",
        is_error=True,
        value={"sum": 3},
        content=(Image("aGk="), File(url="https://x/y.pdf")),
        details=[1],
        loaded=("late",),
        fingerprint="rab",
        limit=BREACH,
        output="{}",
        output_error="no",
    ),
    OutputDelta(path=PATH, value={"a": [1]}),
    OutputChecked(path=PATH, output="{}", error="no"),
    UsageLimitReached(path=PATH, kind="tool", used=3, limit=2, scope="turn", tool="add"),
    LimitExtended(path=PATH, kind="cost", amount=1.5, scope="turn", by="ann"),
    RoundFinished(path=PATH, round=1, usage=ROUND),
    TurnFinished(path=PATH, text="so", diagnostics=ENDED, output="{}"),
]
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
OTHERS: list[Data] = [
    Text("a", {"x": {"y": 1}}),
    Thinking("a"),
    Image("aGk=", "image/gif"),
    File(url="https://x/y.pdf", name="y"),
    Recalled("a", "memory"),
    CALL,
    RESULT,
    Summary("a", ("late",), {"x": {"y": 1}}),
    Opaque("kind", {"anthropic": {"id": 1}}),
    REPLY,
    RECORD,
    SCOPE,
    PastRequest("invoices.create", "bill ACME", "run-1"),
    RecallOptions(3, "fact", 0.2),
    MemoryEntry("a", "file", 3),
    MemoryFileLimits(max_files=5),
    LINE,
    LEDGER,
    USAGE,
    ROUND,
    ENDED,
    ENDED.children[0],
    OPEN,
    BREACH,
    LIMITS,
    TALLY,
    ApprovalRequest("c1", "add", {"a": 1}, PATH, "r0c0", "external", "big", NOW, "r"),
    ApprovalDecision(True, "fine", {"a": 2}, None, "ann"),
    ApprovalDecision(True, "fine", None, {"a": "*"}, "ann"),
    ExternalResult([1], True, "ann"),
    HookResult("ask", "big", {"a": 2}, "out"),
    ApprovalGrant("g1", "add", {"a": "*"}, False, "c", "no", ("a",), "v"),
    Child("reader", Run("r/c1", phase="paused")),
    Run("r", tally=TALLY, children_tally=TALLY, children={"c1": Child("reader", Run("r/c1"))}, limits=(BREACH,), extended={"run/cost": 1.0}),
    Run(
        "r", "c", 3, "paused", (Message.user("a"), REPLY), 2, (OPEN,), "tool_use", True, ("c1",), True,
        (Recalled("a"),), ("late",), 1, 2, (Message.user("p"),), (LINE,), LEDGER, USAGE, USAGE, (ROUND,),
        ("so",), "approval", "{}",
    ),
    ToolSchema("add", "Add.", {"type": "object"}, ({"a": 1},), True),
    ModelProfile("a", "b", 200_000, 8_000, "relist", False, True, "max_completion_tokens", "developer", False),
    TextChunk("a"),
    ThinkingChunk("a"),
    ToolDeltaChunk(1, "add", "{"),
    NamedTool("add"),
    ServerCallChunk("s1", "web_search", {"query": "a"}),
    ServerResultChunk("s1", "web_search", [{"url": "b"}], is_error=True),
    UsageChunk(USAGE),
    RestartChunk("ServerError", "a/b"),
    CachePlan("1h", prefix=False, messages=False, key="k"),
    Reply((Text("a"),), "max_tokens", USAGE, "b", "req"),
    Allocation("memory", 100, "truncate"),
    TokenBudget(1_000, 100, (Allocation("memory", 100),)),
    ContextItem(content="Bees like lavender.", source=SourceType.RETRIEVAL, score=0.5, metadata={"title": "garden"}),
    RetrievalScope(include=("/law",), exclude=("/law/drafts",)),
    AgentTextPart("a"),
    AgentToolPart("add", {"a": 1}, {"sum": 3}, True, "ap1"),
    AgentMemoryPart("recalled", (RECORD,)),
    AgentContextPart("tools", "loaded", tools=("late",)),
    Policy(3, False, False, 100, True, LIMITS, True, "native", 2, False),
    Spent(TALLY, TALLY, LIMITS, 10, TALLY),
    CheckOutput("{}"),
    Nudge("stuck", "add", 4),
    ReportLimits((BREACH,)),
    Raise(BREACH),
    Prepare(),
    Compact(),
    CallModel(1, True, NamedTool("add")),
    RunTools((OPEN,), (OPEN,)),
    CloseRound(1),
    Finish("stuck", True),
    Pause("limit_ask"),
    Conversation("c", (Message.user("a"),), 2),
    ConversationSummary("c", 2, NOON, NOON, "r"),
    Compacted(3, (Message.user("a"),)),
    StoredRun(Run("r"), 4, 2, "c", (Message.user("a"),)),
    RunSummary("r", "c", "paused", "approval", "hello", NOON, NOON, 4, "host:1", "it broke"),
]  # fmt: skip
ALL: list[Data] = [*EVENTS, *OTHERS]
BY_NAME = pytest.mark.parametrize("value", ALL, ids=lambda value: type(value).__name__)


def _concrete(kind: type) -> set[type]:
    return {kind}.union(*(_concrete(child) for child in kind.__subclasses__())) - {Data, Event}


def test_the_tables_hold_every_core_type_and_every_event() -> None:
    for module in pkgutil.iter_modules(sapwood.core.__path__):
        importlib.import_module(f"sapwood.core.{module.name}")
    # What a front end holds is never stored; the cases of tests/agent/test_assistant_session.py hold its form.
    ours = {
        kind
        for kind in _concrete(Data)
        if kind.__module__.startswith("sapwood.core.") and not kind.__module__.startswith("sapwood.core.assistant")
    }
    assert {type(value) for value in ALL} == ours
    assert [type(event) for event in EVENTS] == list(get_args(AgentEvent))
    tags = [kind.type for kind in ours]  # type: ignore[attr-defined]
    assert len(set(tags)) == len(tags) - 1  # a text part of the loop and one of a message


@BY_NAME
def test_a_value_survives_json_and_says_its_class(value: Data) -> None:
    source = to_json(value)
    assert from_json(source, type(value)) == value
    assert from_json(source.decode(), type(value)) == value
    assert json.loads(source)["type"] == value.type  # type: ignore[attr-defined]


@BY_NAME
def test_the_tag_is_stated_once_more_for_type_checkers(value: Data) -> None:
    tag = msgspec.inspect.type_info(type(value)).tag  # type: ignore[union-attr]
    assert get_type_hints(type(value))["type"] == ClassVar[Literal[tag]]
    assert value.type == tag  # type: ignore[attr-defined]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_an_event_is_found_again_by_its_type(event: Event) -> None:
    assert event_from_json(to_json(event)) == event  # type: ignore[arg-type]
    assert event.parent_tool_call_id == "c2"
    assert event.replace(path=()).parent_tool_call_id is None


@BY_NAME
def test_defaults_are_left_out_of_json_and_come_back(value: Data) -> None:
    fields = msgspec.structs.fields(type(value))
    needed = {field.name: getattr(value, field.name) for field in fields if field.required}
    least = type(value)(**needed)
    names = {field.encode_name for field in fields if field.required}
    made_by_a_function = {"input_schema", "id"} - names  # so it cannot be told from another value
    assert set(json.loads(to_json(least))) - made_by_a_function == {"type", *names}
    assert from_json(to_json(least), type(value)) == least


@BY_NAME
def test_an_unknown_keyword_is_refused(value: Data) -> None:
    known = {field.name: getattr(value, field.name) for field in msgspec.structs.fields(type(value))}
    with pytest.raises(TypeError, match="misspelt"):
        type(value)(**known, misspelt=1)
    with pytest.raises(TypeError, match="misspelt"):
        value.replace(misspelt=1)


@BY_NAME
def test_a_value_may_sit_in_a_pydantic_model(value: Data) -> None:
    class Holder(BaseModel):
        held: type(value)  # type: ignore[valid-type]

    plain = json.loads(to_json(value))
    for given in (value, plain):
        assert Holder(held=given).held == value
    assert Holder(held=value).held is value
    dumped = Holder(held=value).model_dump_json()
    assert Holder.model_validate_json(dumped).held == value
    assert json.loads(dumped)["held"] == json.loads(json.dumps(Holder(held=value).model_dump()["held"])) == plain
    with pytest.raises(ValidationError, match="held"):
        Holder(held={"type": "nothing_of_ours"})  # type: ignore[arg-type]


@BY_NAME
def test_its_schema_describes_it_here_and_inside_pydantic(value: Data) -> None:
    class Holder(BaseModel):
        held: type(value)  # type: ignore[valid-type]

    plain = json.loads(to_json(value))
    own = json_schema(type(value))
    inside: Any = Holder.model_json_schema()["properties"]["held"]
    assert "$ref" not in json.dumps(inside)
    for schema in (own, inside):
        assert check_schema(plain, schema) == []
        assert check_schema({**plain, "type": "nothing_of_ours"}, schema) != []
        assert check_schema("text", schema) != []


def test_a_pydantic_field_may_hold_any_event() -> None:
    adapter = TypeAdapter[AgentEvent](AgentEvent)
    for event in EVENTS:
        assert adapter.validate_json(adapter.dump_json(event)) == event  # type: ignore[arg-type]
    union = json_schema(AgentEvent)
    assert all(check_schema(json.loads(to_json(event)), union) == [] for event in EVENTS)
    with pytest.raises(ValidationError):
        adapter.validate_python({"type": "text_delta", "text": 5})


def test_what_an_event_says_of_its_parts() -> None:
    assert RoundFinished(round=0, usage=ROUND).ledger is LEDGER
    assert TurnFinished(text="", diagnostics=ENDED).stopped_by == "error"
