"""Run: the whole state of a turn. `evolve` (core/evolve.py) is the only function that changes it.

Laws: a Run survives JSON at any point and a turn goes on from the copy; it keeps this turn's messages and
never the past ones; results enter the transcript in call order, so that timing never changes what a model
sees. What decide needs is a field kept here, never found by walking the transcript.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, TypeAlias

from sapwood.core.approval import ApprovalRequest
from sapwood.core.diagnostics import Cause, ChildTurn, TurnDiagnostics
from sapwood.core.events import ApprovalRequested, ApprovalResolved
from sapwood.core.ledger import ContextLedger, LedgerLine
from sapwood.core.limits import LimitBreach, LimitScope, Tally
from sapwood.core.messages import Message, Recalled, ToolCall, ToolResult
from sapwood.core.model import StopReason
from sapwood.core.struct import Data
from sapwood.core.usage import RoundUsage, Usage

Phase: TypeAlias = Literal["new", "idle", "calling", "replied", "paused", "ended"]
CallState: TypeAlias = Literal["asked", "started", "waiting", "decided", "running", "done"]


class OpenCall(Data, frozen=True, tag="open_call"):
    """A call of the last reply and how far it has come.

    public_id: what events call it: the provider's id where that is unique in the run, else the key.
    refused: it may not run (the final round). attempt: how often its function was begun.
    request, decision: what a person was asked, and answered. fingerprint: of its answer, see ToolFinished.
    changed_input: what its function was begun with, where that is not what the model asked for.
    name: of the tool that is meant, known once the call has begun.
    """

    type: ClassVar[Literal["open_call"]] = "open_call"
    call: ToolCall
    public_id: str = ""
    state: CallState = "asked"
    refused: bool = False
    attempt: int = 0
    result: ToolResult | None = None
    request: ApprovalRequested | None = None
    decision: ApprovalResolved | None = None
    fingerprint: str = ""
    changed_input: dict[str, Any] | None = None
    name: str = ""

    @property
    def has_passed_limits(self) -> bool:
        """It was set aside against the limits in an earlier segment, and is not answered yet."""
        return self.state in ("waiting", "decided", "running")


class Child(Data, frozen=True, tag="child"):
    """The turn of a subagent, while the call that began it has no answer."""

    type: ClassVar[Literal["child"]] = "child"
    name: str
    run: "Run"


class Run(Data, frozen=True, tag="run"):
    """The state of one turn.

    messages: this turn's, the prompt first. phase: where in a round it is.
    round: rounds finished so far, and so the number of the one that is running or next.
    calls: the calls of the last reply, until all are answered.
    recalled: text for the system prompt of this turn. dropped: past messages, from the first, left out.
    past: past messages that replace the ones of the conversation, None where they stand.
    room: tokens that a request may take since the provider found one too long; 0 before that.
    origin: `provider/model` that answered last. broken_off: what replies used that never became complete.
    tally: what this turn used; children_tally: what the subagents used whose calls are answered.
    children: subagents by the id of their call, until it is answered; child_turns: what they reported.
    limits: the limits that were reached; refused_by: those that refused a call. extended: by how much a person
    raised them, by `scope/kind`; declined: those that a person let stand. asks: it paused for a limit.
    wrapping: why the last round was decided early; wrapped: it is over. repeats: calls with equal answers in the
    rounds just before, by fingerprint; nudged: the one that the model was told of; stuck: it was made again.
    output_failures: tries at the output that failed; output_error: why the last did; output_read: the last reply
    was looked at for it.
    edits: how often a compaction changed this turn's messages; size_after: tokens of a request after the last one.
    skills: those that were activated in this turn.
    """

    type: ClassVar[Literal["run"]] = "run"
    run_id: str = ""
    conversation_id: str | None = None
    base_seq: int = 0
    phase: Phase = "new"
    messages: tuple[Message, ...] = ()
    round: int = 0
    calls: tuple[OpenCall, ...] = ()
    stop_reason: StopReason | None = None
    had_calls: bool = False
    call_ids: tuple[str, ...] = ()
    prepared: bool = False
    recalled: tuple[Recalled, ...] = ()
    loaded: tuple[str, ...] = ()
    compacted: int = -1
    dropped: int = 0
    past: tuple[Message, ...] | None = None
    lines: tuple[LedgerLine, ...] = ()
    ledger: ContextLedger | None = None
    usage: Usage = Usage()
    last_usage: Usage | None = None
    rounds: tuple[RoundUsage, ...] = ()
    texts: tuple[str, ...] = ()
    stopped_by: Cause | None = None
    output: str | None = None
    room: int = 0
    origin: str = ""
    broken_off: Usage = Usage()
    tally: Tally = Tally()
    children: dict[str, Child] = {}
    child_turns: tuple[ChildTurn, ...] = ()
    children_tally: Tally = Tally()
    limits: tuple[LimitBreach, ...] = ()
    extended: dict[str, float] = {}
    declined: tuple[str, ...] = ()
    asks: bool = False
    wrapping: Cause | None = None
    wrapped: bool = False
    refused_by: tuple[LimitBreach, ...] = ()
    repeats: dict[str, int] = {}
    nudged: str = ""
    stuck: bool = False
    output_failures: int = 0
    output_error: str | None = None
    output_read: bool = False
    edits: int = 0
    size_after: int = 0
    skills: tuple[str, ...] = ()

    @property
    def prompt(self) -> Message | None:
        """The user's message that began the turn."""
        return self.messages[0] if self.messages and self.messages[0].role == "user" else None

    @property
    def text(self) -> str:
        """The text of all replies so far, joined."""
        return "".join(self.texts)

    def diagnostics(
        self, cause: Cause, error: str | None = None, *, path: tuple[str, ...] = (), run_id: str = ""
    ) -> TurnDiagnostics:
        """Return what the turn would report if it ended now for this cause.

        path, run_id: the calls that lead to it, and the run at the top; empty there.
        """
        # A reply whose round was never closed: the turn ended, or paused, while its calls ran.
        has_open = any(item.state != "done" for item in self.calls)
        is_open = self.phase == "replied" or (self.phase == "paused" and has_open)
        open_reply = self.last_usage if is_open and self.last_usage is not None else Usage()
        below: Cause = cause if cause in ("error", "cancelled") else "error"
        top = run_id or self.run_id
        open_children = (
            ChildTurn(
                id,
                child.name,
                child.run.diagnostics(child.run.stopped_by or below, path=(*path, id), run_id=top),
            )
            for id, child in self.children.items()
        )
        return TurnDiagnostics(
            self.rounds,
            cause,
            (*self.child_turns, *open_children),
            error,
            self.broken_off + open_reply,
            self.limits,
            self.waiting(path, top) if cause == "approval" else (),
            self.output_error if self.output is None else None,
        )

    def waiting(self, path: tuple[str, ...] = (), run_id: str = "") -> tuple[ApprovalRequest, ...]:
        """Return the calls that wait for an answer, here and in the subagents, in their order."""
        return tuple(
            request.replace(path=path).request(run_id or self.run_id)
            for path, item in self.open_calls(path)
            if item.state == "waiting" and (request := item.request) is not None
        )

    def open_calls(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], OpenCall]]:
        """Yield the calls without an answer, here and in the subagents, with the path that leads to them."""
        for item in self.calls:
            if item.state == "done":
                continue
            yield path, item
            child = self.children.get(item.public_id)
            if child is not None:
                yield from child.run.open_calls((*path, item.public_id))

    def is_held(self, item: OpenCall) -> bool:
        """Tell whether a call can only go on once a person has answered."""
        child = self.children.get(item.public_id) if self.children else None
        if child is not None and child.run.phase == "paused":
            return not child.run.can_go_on()
        return item.state == "waiting"

    def can_go_on(self) -> bool:
        """Tell whether a paused run was answered, at least in a part."""
        open_calls = [item for item in self.calls if item.state != "done"]
        if not open_calls:
            return not self.asks
        return any(not self.is_held(item) for item in open_calls)

    def whole_tally(self) -> Tally:
        """Return what this turn and all below it used."""
        total = self.tally + self.children_tally
        for child in self.children.values():
            total = total + child.run.whole_tally()
        return total

    def extra(self, scope: LimitScope) -> dict[str, float]:
        """Return by how much the limits of this scope were raised, by kind."""
        start = f"{scope}/"
        return {name.removeprefix(start): by for name, by in self.extended.items() if name.startswith(start)}


def most_repeated(run: Run) -> tuple[str, int]:
    """Return the fingerprint of the call that repeats itself most, and in how many rounds; errors count more."""
    ranked = sorted(run.repeats.items(), key=lambda item: (item[1] + item[0].startswith("e"), item[0]))
    return ranked[-1] if ranked else ("", 0)
