"""evolve, by its table: one row for each event and each way in which it matters."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.diagnostics import ChildTurn, TurnDiagnostics
from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
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
from sapwood.core.evolve import evolve
from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.core.limits import LimitBreach, Tally
from sapwood.core.messages import Image, Message, Recalled, Text, Thinking, ToolCall, ToolResult
from sapwood.core.run import Child, OpenCall, Run
from sapwood.core.usage import RoundUsage, Usage
from sapwood.testing import fold

PROMPT = Message.user("go")
LEDGER = ContextLedger({"system": 5})
LINE, OTHER = LedgerLine("a", "a", "memory", 1), LedgerLine("b", "b", "memory", 2)
ONE, TWO = ToolCall("a", key="r0c0", id="x"), ToolCall("b", key="r0c1", id="x")
NAMELESS = ToolCall("c", key="r0c2")
ASKED = (OpenCall(ONE, "x"), OpenCall(TWO, "r0c1"))
REPLY = Message("assistant", (Text("let me"), ONE, TWO))
USAGE = Usage(10, 5)
IDLE = Run("r", phase="idle", messages=(PROMPT,))
REPLIED = IDLE.replace(phase="replied", messages=(PROMPT, REPLY), calls=ASKED)
FINISHED = ToolFinished(key="r0c1", tool_call_id="r0c1", name="b", result="two", value="two")
TWO_DONE = OpenCall(TWO, "r0c1", "done", result=ToolResult("r0c1", "b", (Text("two"),)))
ENDED = TurnDiagnostics(stopped_by="stop")
ONCE = Tally(USAGE, 1, unpriced=True)
ASKS = ApprovalRequested(key="r0c0", tool_call_id="x", name="a", tool_input={"n": 1}, digest="d")
OUTSIDE = ASKS.replace(kind="external")
YES = ApprovalResolved(key="r0c0", tool_call_id="x", name="a", approved=True, digest="d")
WAITS = REPLIED.replace(calls=(OpenCall(ONE, "x", "waiting", request=ASKS), ASKED[1]))
COST = LimitBreach("cost", 2, 1)
CALLS = LimitBreach("tool_calls", 2, 1, "turn")
CHILD = Run("r/x", phase="paused", stopped_by="limit_ask", asks=True, limits=(COST,), tally=ONCE)
PARENT = REPLIED.replace(calls=(OpenCall(ONE, "x", "running"), ASKED[1]), children={"x": Child("reader", CHILD)})
DIED = CHILD.replace(phase="idle", stopped_by=None, asks=False)
REFUSED = FINISHED.replace(limit=CALLS)
OUTPUT = FINISHED.replace(name="final_result", output="{}")
NO_OUTPUT = OUTPUT.replace(output=None, output_error="no")
REPEATED = REPLIED.replace(calls=(TWO_DONE.replace(fingerprint="rb"),), repeats={"rb": 3, "ra": 2})

FOLDED: list[tuple[str, Run, AgentEvent, Run]] = [
    ("a call waits", REPLIED, ASKS, WAITS),
    (
        "it is answered",
        WAITS,
        YES,
        REPLIED.replace(calls=(OpenCall(ONE, "x", "decided", request=ASKS, decision=YES), ASKED[1])),
    ),
    ("paused among tools", WAITS.replace(phase="paused", stopped_by="approval"), TurnResumed(), WAITS),
    (
        "resumed where somebody can be asked",
        WAITS.replace(phase="paused", children={"y": Child("b", WAITS)}),
        TurnResumed(asks_again=True),
        WAITS.replace(
            calls=(OpenCall(ONE, "x", "started", request=ASKS), ASKED[1]),
            children={"y": Child("b", WAITS.replace(calls=(OpenCall(ONE, "x", "started", request=ASKS), ASKED[1])))},
        ),
    ),
    (
        "what comes from outside is asked of nobody here",
        WAITS.replace(calls=(OpenCall(ONE, "x", "waiting", request=OUTSIDE),)),
        TurnResumed(asks_again=True),
        WAITS.replace(calls=(OpenCall(ONE, "x", "waiting", request=OUTSIDE),)),
    ),
    ("the last round, before its time", IDLE, RoundStarted(round=1, max_rounds=3, wrap_up="stuck"), IDLE.replace(
        phase="calling", wrapping="stuck")),
    ("it is over", IDLE.replace(wrapping="stuck"), RoundFinished(round=0, usage=RoundUsage(0, seconds=2.0)),
        IDLE.replace(wrapping="stuck", wrapped=True, round=1, rounds=(RoundUsage(0, seconds=2.0),),
            tally=Tally(seconds=2.0))),
    ("a child started", PARENT.replace(children={}), TurnStarted(path=("x",), run_id="r/x", agent="reader"),
        PARENT.replace(children={"x": Child("reader", Run("r/x", phase="idle"))})),
    ("a child's child", PARENT, TurnStarted(path=("x", "y"), run_id="r/x/y", agent="deep"),
        PARENT.replace(children={"x": Child("reader", CHILD.replace(
            children={"y": Child("deep", Run("r/x/y", phase="idle"))}))})),
    (
        "a child's call is answered",
        PARENT.replace(children={"x": Child("reader", DIED)}),
        ToolFinished(key="r0c0", tool_call_id="x", name="a", result="it failed", is_error=True),
        PARENT.replace(
            calls=(
                OpenCall(ONE, "x", "done", result=ToolResult("r0c0", "a", (Text("it failed"),), True)),
                ASKED[1],
            ),
            children={},
            child_turns=(ChildTurn("x", "reader", DIED.diagnostics("error", "it failed")),),
            children_tally=ONCE,
            tally=Tally(calls={"a": 1}),
        ),
    ),
    ("a limit reached", IDLE, UsageLimitReached(kind="cost", used=2, limit=1), IDLE.replace(limits=(COST,))),
    ("a limit refused a call", REPLIED, REFUSED, REPLIED.replace(calls=(ASKED[0], TWO_DONE), refused_by=(CALLS,))),
    (
        "a limit raised, for a child that waits for it, too",
        PARENT.replace(limits=(COST, CALLS), refused_by=(CALLS,), declined=("run/cost",), asks=True),
        LimitExtended(kind="cost", amount=3, by="ann"),
        PARENT.replace(
            limits=(CALLS,),
            refused_by=(CALLS,),
            extended={"run/cost": 3},
            children={"x": Child("reader", CHILD.replace(limits=(), extended={"run/cost": 3}, asks=False))},
        ),
    ),
    (
        "a limit of one turn raised again",
        PARENT.replace(limits=(CALLS,), extended={"turn/tool_calls": 1}),
        LimitExtended(kind="tool_calls", amount=2, scope="turn"),
        PARENT.replace(extended={"turn/tool_calls": 3}),
    ),
    (
        "a limit stands",
        IDLE.replace(limits=(COST,), asks=True),
        LimitExtended(kind="cost", amount=0),
        IDLE.replace(limits=(COST,), declined=("run/cost",)),
    ),
    ("output recorded", REPLIED.replace(output_error="a"), OUTPUT, REPLIED.replace(
        calls=(ASKED[0], TWO_DONE.replace(result=ToolResult("r0c1", "b", (Text("two"),)))), output="{}")),
    ("output refused", REPLIED, NO_OUTPUT, REPLIED.replace(
        calls=(ASKED[0], TWO_DONE), output_failures=1, output_error="no", output_read=True)),
    ("another output of the reply refused", REPLIED.replace(output_failures=1, output_read=True), NO_OUTPUT,
        REPLIED.replace(calls=(ASKED[0], TWO_DONE), output_failures=1, output_error="no", output_read=True)),
    ("output refused after it was recorded", REPLIED.replace(output="{}"), NO_OUTPUT, REPLIED.replace(
        calls=(ASKED[0], TWO_DONE), output="{}")),
    ("output read", IDLE.replace(output_error="a"), OutputChecked(output="{}"),
        IDLE.replace(output="{}", output_read=True)),
    ("output not read", IDLE.replace(output_failures=1), OutputChecked(error="no"),
        IDLE.replace(output_failures=2, output_error="no", output_read=True)),
    ("output so far", IDLE, OutputDelta(value={}), IDLE),
    ("asked for output", IDLE.replace(stop_reason="stop"), MessageAdded(message=PROMPT, nudge="output"),
        IDLE.replace(messages=(PROMPT, PROMPT))),
    ("told of what repeats", REPEATED, MessageAdded(message=PROMPT, nudge="stuck"),
        REPEATED.replace(messages=(PROMPT, REPLY, PROMPT), nudged="rb")),
    ("it repeats", REPEATED.replace(nudged="rb"), RoundFinished(round=0, usage=RoundUsage(0)),
        REPEATED.replace(phase="idle", round=1, rounds=(RoundUsage(0),), repeats={"rb": 4}, nudged="rb", stuck=True)),
    ("it repeats no more", REPEATED.replace(nudged="ra"), RoundFinished(round=0, usage=RoundUsage(0)),
        REPEATED.replace(phase="idle", round=1, rounds=(RoundUsage(0),), repeats={"rb": 4})),
]  # fmt: skip

TABLE: list[tuple[str, Run, AgentEvent, Run]] = [
    ("started", Run(), TurnStarted(run_id="r", prompt=PROMPT), IDLE),
    ("started without a prompt", Run(), TurnStarted(run_id="r"), Run("r", phase="idle")),
    ("resumed in a call", IDLE.replace(phase="calling"), TurnResumed(run_id="r"), IDLE),
    ("resumed from a pause", IDLE.replace(phase="paused"), TurnResumed(run_id="r"), IDLE),
    ("resumed among tools", REPLIED, TurnResumed(run_id="r"), REPLIED),
    ("resumed at its end", IDLE.replace(phase="ended"), TurnResumed(), IDLE.replace(phase="ended")),
    (
        "recalled into the system prompt",
        IDLE.replace(recalled=(Recalled("first", "a"),)),
        ContextUpdated(source="memory", op="recalled", text="likes tea", placement="system"),
        IDLE.replace(recalled=(Recalled("first", "a"), Recalled("likes tea", "memory"))),
    ),
    (
        "recalled beside the prompt",
        IDLE.replace(messages=(PROMPT, REPLY)),
        ContextUpdated(source="memory", op="recalled", text="likes tea"),
        IDLE.replace(messages=(Message("user", (Recalled("likes tea", "memory"), Text("go"))), REPLY)),
    ),
    (
        "recalled behind what was recalled before",
        IDLE.replace(messages=(Message("user", (Recalled("1"), Text("go"), Image("aGk="))),)),
        ContextUpdated(source="b", op="recalled", text="2"),
        IDLE.replace(messages=(Message("user", (Recalled("1"), Recalled("2", "b"), Text("go"), Image("aGk="))),)),
    ),
    (
        "recalled without a prompt",
        Run("r", phase="idle"),
        ContextUpdated(source="memory", op="recalled", text="likes tea"),
        Run("r", phase="idle", recalled=(Recalled("likes tea", "memory"),)),
    ),
    ("recalled nothing", IDLE, ContextUpdated(source="memory", op="recalled"), IDLE),
    (
        "loaded, some of it before",
        IDLE.replace(loaded=("a",)),
        ContextUpdated(source="tools", op="loaded", tools=("b", "a", "c")),
        IDLE.replace(loaded=("a", "b", "c")),
    ),
    ("saved", IDLE, ContextUpdated(source="memory", op="saved", text="x"), IDLE),
    ("failed", IDLE, ContextUpdated(source="memory", op="failed", error="OSError"), IDLE),
    (
        "prepared",
        IDLE.replace(lines=(LINE,)),
        ContextPrepared(lines=(OTHER,)),
        IDLE.replace(prepared=True, lines=(LINE, OTHER)),
    ),
    (
        "compacted by dropping",
        IDLE.replace(round=2, past=(PROMPT,)),
        CompactionFinished(upto=3),
        IDLE.replace(round=2, past=(PROMPT,), compacted=2, dropped=3),
    ),
    (
        "compacted by a new past",
        IDLE,
        CompactionFinished(past=(PROMPT,)),
        IDLE.replace(compacted=0, past=(PROMPT,)),
    ),
    ("compacted to nothing", IDLE, CompactionFinished(past=()), IDLE.replace(compacted=0, past=())),
    ("compacting", IDLE, CompactionStarted(), IDLE),
    (
        "round started",
        IDLE,
        RoundStarted(round=0, max_rounds=3, ledger=LEDGER),
        IDLE.replace(phase="calling", ledger=LEDGER),
    ),
    ("text", IDLE, TextDelta(text="a"), IDLE),
    ("thinking", IDLE, ThinkingDelta(text="a"), IDLE),
    ("round restarted", IDLE, RoundRestarted(round=0), IDLE),
    (
        "round restarted, with what it used",
        IDLE.replace(phase="calling"),
        RoundRestarted(round=0, usage=USAGE),
        IDLE.replace(phase="calling", usage=USAGE, broken_off=USAGE, tally=ONCE),
    ),
    (
        "round restarted, as it was too long",
        IDLE.replace(phase="calling", round=2, compacted=2),
        RoundRestarted(round=2, room=500),
        IDLE.replace(round=2, compacted=1, room=500),
    ),
    ("waiting", IDLE, ProviderWaiting(round=0, seconds=1.0, reason="down"), IDLE),
    ("server tool", IDLE, ServerToolStarted(tool_call_id="s", name="web_search"), IDLE),
    ("server tool done", IDLE, ServerToolFinished(tool_call_id="s", name="web_search"), IDLE),
    (
        "interrupted, what it used is kept",
        IDLE.replace(phase="calling"),
        MessageInterrupted(message=Message("assistant", ()), usage=USAGE),
        IDLE.replace(usage=USAGE, broken_off=USAGE, tally=ONCE),
    ),
    (
        "interrupted, its text alone kept",
        IDLE.replace(phase="calling", texts=("so ",)),
        MessageInterrupted(message=Message("assistant", (Thinking("hm"), Text("ha"), ONE), "a/b")),
        IDLE.replace(
            messages=(PROMPT, Message("assistant", (Text("ha"),), "a/b", partial=True)), texts=("so ", "ha")
        ),
    ),
    (
        "interrupted before a word",
        IDLE.replace(phase="calling"),
        MessageInterrupted(message=Message("assistant", (Text(" \n"),))),
        IDLE,
    ),
    (
        "replied with calls",
        IDLE.replace(phase="calling"),
        MessageAdded(message=REPLY, usage=USAGE, stop_reason="tool_use"),
        IDLE.replace(
            phase="replied",
            messages=(PROMPT, REPLY),
            calls=ASKED,
            call_ids=("x", "x"),
            had_calls=True,
            stop_reason="tool_use",
            usage=USAGE,
            last_usage=USAGE,
            texts=("let me",),
            tally=ONCE,
        ),
    ),
    (
        "replied with calls that may not run, an id from an earlier round and one without an id",
        IDLE.replace(phase="calling", call_ids=("x",), usage=USAGE, texts=("a",)),
        MessageAdded(message=Message("assistant", (ONE, NAMELESS)), stop_reason="tool_use", refuse_calls=True),
        IDLE.replace(
            phase="replied",
            messages=(PROMPT, Message("assistant", (ONE, NAMELESS))),
            calls=(OpenCall(ONE, "r0c0", refused=True), OpenCall(NAMELESS, "r0c2", refused=True)),
            call_ids=("x", "x", ""),
            had_calls=True,
            stop_reason="tool_use",
            usage=USAGE,
            last_usage=Usage(),
            texts=("a", ""),
            tally=Tally(requests=1),
        ),
    ),
    (
        "replied without content, after calls",
        REPLIED.replace(phase="calling", had_calls=True, usage=USAGE),
        MessageAdded(message=Message("assistant", ()), usage=USAGE),
        REPLIED.replace(
            calls=(),
            had_calls=False,
            stop_reason="stop",
            usage=Usage(20, 10),
            last_usage=USAGE,
            texts=("",),
            tally=ONCE,
        ),
    ),
    (
        "a word of the loop to the model",
        IDLE.replace(stop_reason="tool_use", had_calls=True),
        MessageAdded(message=Message.user("go on")),
        IDLE.replace(stop_reason="tool_use", had_calls=True, messages=(PROMPT, Message.user("go on"))),
    ),
    (
        "a call started",
        REPLIED,
        ToolStarted(key="r0c0", tool_call_id="x", name="a", tool_input={}),
        REPLIED.replace(calls=(OpenCall(ONE, "x", "started", name="a"), ASKED[1])),
    ),
    (
        "a call running",
        REPLIED,
        ToolRunning(key="r0c1", attempt=2),
        REPLIED.replace(calls=(ASKED[0], OpenCall(TWO, "r0c1", "running", attempt=2))),
    ),
    (
        "the later of two calls done",
        REPLIED,
        FINISHED,
        REPLIED.replace(calls=(ASKED[0], TWO_DONE), tally=Tally(calls={"b": 1})),
    ),
    (
        "the last one done: results in call order",
        REPLIED.replace(calls=(ASKED[0], TWO_DONE)),
        ToolFinished(
            key="r0c0",
            tool_call_id="x",
            name="a",
            result="one",
            is_error=True,
            content=(Image("aGk="),),
            details={"ms": 1},
            loaded=("late",),
        ),
        REPLIED.replace(
            calls=(
                OpenCall(
                    ONE,
                    "x",
                    "done",
                    result=ToolResult("r0c0", "a", (Text("one"), Image("aGk=")), True, ("late",), {"ms": 1}),
                ),
                TWO_DONE,
            ),
            messages=(
                PROMPT,
                REPLY,
                Message(
                    "tool",
                    (
                        ToolResult("r0c0", "a", (Text("one"), Image("aGk=")), True, ("late",), {"ms": 1}),
                        ToolResult("r0c1", "b", (Text("two"),)),
                    ),
                ),
            ),
            tally=Tally(calls={"a": 1}),
        ),
    ),
    *FOLDED,
    (
        "round finished",
        REPLIED.replace(round=1, rounds=(RoundUsage(0),), lines=(LINE,)),
        RoundFinished(round=1, usage=RoundUsage(1)),
        REPLIED.replace(phase="idle", round=2, rounds=(RoundUsage(0), RoundUsage(1))),
    ),
    (
        "turn finished",
        IDLE,
        TurnFinished(text="", diagnostics=ENDED, output="{}"),
        IDLE.replace(phase="ended", stopped_by="stop", output="{}"),
    ),
    *(
        (
            f"turn paused: {cause}",
            IDLE,
            TurnFinished(text="", diagnostics=TurnDiagnostics(stopped_by=cause)),
            IDLE.replace(phase="paused", stopped_by=cause, asks=cause == "limit_ask"),
        )
        for cause in ("approval", "limit_ask")
    ),
]  # fmt: skip


@pytest.mark.parametrize(("before", "event", "after"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_evolve(before: Run, event: AgentEvent, after: Run) -> None:
    kept = before.replace()
    assert evolve(before, event) == after
    assert before == kept


def test_every_event_has_a_row() -> None:
    assert {type(row[2]) for row in TABLE} == set(get_args(AgentEvent))


@given(order=st.permutations(range(4)))
def test_timing_never_changes_what_the_model_sees(order: list[int]) -> None:
    calls = tuple(ToolCall("t", {"n": n}, f"r0c{n}", f"id{n}") for n in range(4))
    start = fold([TurnStarted(prompt=PROMPT), MessageAdded(message=Message("assistant", calls))])
    finishes = [ToolFinished(key=f"r0c{n}", tool_call_id=f"id{n}", name="t", result=str(n)) for n in range(4)]
    run = fold([finishes[n] for n in order], start)
    assert run == fold(finishes, start)
    assert [result.text for result in run.messages[-1].tool_results] == ["0", "1", "2", "3"]


def test_a_run_tells_its_prompt_its_text_and_what_it_would_report() -> None:
    assert Run().prompt is None
    assert Run(messages=(Message.assistant("a"),)).prompt is None
    run = IDLE.replace(texts=("so ", "far"), rounds=(RoundUsage(0),))
    assert (run.prompt, run.text) == (PROMPT, "so far")
    replied = Run(phase="replied", last_usage=USAGE)
    assert replied.diagnostics("error").broken_off == USAGE  # the turn ended while its calls ran
    assert run.diagnostics("error", "Oops: no") == TurnDiagnostics((RoundUsage(0),), "error", error="Oops: no")
