"""The gate before a tool's function: hooks, and the approval of a person.

Laws: it fails closed: a hook or a callback that raises or answers with something else means no; what a person is
shown is what the function gets; a yes is bound to that input and to the tool's definition, and used once;
hooks and people get copies, so the record of what the model asked never changes.
Source: guide A, "Approval (Human-in-the-Loop)".
"""

import hashlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from sapwood.core.approval import ApprovalDecision, ApprovalGrant, ApprovalRequest, HookResult, WaitKind
from sapwood.core.errors import BlockingCallError, RunCancelledError, ToolError
from sapwood.core.events import ApprovalRequested, ApprovalResolved
from sapwood.core.own_cancel import as_tool_error
from sapwood.core.ports import Runtime
from sapwood.core.render_result import RenderedResult, json_of, render_result
from sapwood.core.run import OpenCall
from sapwood.core.safe_text import safe_error_text
from sapwood.core.tools import BoundTool, MaybeAwaitable, copy_arguments

_log = logging.getLogger(__name__)
WITHHELD = "The result is withheld: what a hook put in its place cannot be shown."

PreHook: TypeAlias = Callable[[str, dict[str, Any]], MaybeAwaitable[HookResult | None]]
"""Called with a tool's name and its arguments, before approval and before the function."""
PostHook: TypeAlias = Callable[[str, dict[str, Any], str], MaybeAwaitable[HookResult | None]]
"""Called with a tool's name, its arguments and the text of its result or error, before the model sees that."""
Approve: TypeAlias = Callable[[ApprovalRequest], MaybeAwaitable[ApprovalDecision]]
"""Asks a person about one call."""


class Grants:
    """The answers that an Agent remembers: see `ApprovalDecision.remember`. List them, or take them back."""

    def __init__(self) -> None:
        self._grants: dict[str, ApprovalGrant] = {}

    def list(self) -> tuple[ApprovalGrant, ...]:
        """Return what is remembered, oldest first."""
        return tuple(self._grants.values())

    def revoke(self, id: str) -> bool:
        """Forget one answer, by the id of its grant; False where there was none."""
        return self._grants.pop(id, None) is not None

    def clear(self) -> None:
        """Forget all of them."""
        self._grants.clear()

    def add(self, grant: ApprovalGrant) -> None:
        """Remember an answer."""
        self._grants[grant.id] = grant

    def find(
        self, tool: str, arguments: Mapping[str, Any], scope: str, *, tool_version: str = ""
    ) -> ApprovalGrant | None:
        """Return what answers this call; a no counts before a yes."""
        grants = self._grants.values()
        found = [grant for grant in grants if grant.matches(tool, arguments, scope, tool_version=tool_version)]
        return min(found, key=lambda grant: grant.approved, default=None)


class Gate(msgspec.Struct, frozen=True):
    """Who must let a call pass.

    pre, post: hooks, in the order in which they are asked. approve: asks a person. defers: there is nobody to ask
    here; the turn pauses. expires_seconds: how long a paused call may wait. grants: remembered answers, for
    scope. asks_unknown: a call whose outcome a crash hid is put before a person.
    """

    pre: tuple[PreHook, ...] = ()
    post: tuple[PostHook, ...] = ()
    approve: Approve | None = None
    defers: bool = False
    expires_seconds: float | None = None
    grants: Grants = msgspec.field(default_factory=Grants)
    scope: str = ""
    asks_unknown: bool = False


class Checked(msgspec.Struct, frozen=True):
    """Arguments on their way to a function: raw is what they are made of, values what the function gets."""

    raw: dict[str, Any]
    values: Mapping[str, Any]

    def digest(self, name: str) -> str:
        """Return what an answer, and a call that runs, is bound to."""
        return digest(name, self.shown())

    def shown(self) -> dict[str, Any]:
        """Return what the function gets, as JSON: what a person is shown, and an answer is bound to."""
        try:
            shown: dict[str, Any] = json_of(dict(self.values))
        except ToolError:  # something that has no JSON form; what it is made of has one
            return copy_arguments(self.raw)
        return shown


def check(bound: BoundTool | None, raw: dict[str, Any]) -> Checked:
    """Return the arguments, checked and converted; raises what the tool's check raises."""
    raw = copy_arguments(raw)
    if bound is None or bound.check is None:
        return Checked(raw, raw)
    with as_tool_error("the check of the input"):
        return Checked(raw, bound.check(copy_arguments(raw)))


def digest(name: str, arguments: object) -> str:
    """Return a short digest of a tool's name and arguments."""
    try:
        encoded = msgspec.json.encode([name, arguments], order="deterministic")
    except (UnicodeEncodeError, TypeError):  # half a character, or an object that is no JSON: of a custom provider
        encoded = repr((name, arguments)).encode("utf-8", "backslashreplace")
    return hashlib.sha256(encoded).hexdigest()[:16]


def version_of(bound: BoundTool) -> str:
    """Return a digest of a tool's definition: an approval holds only while that stays the same."""
    return digest(bound.name, [bound.schema.description, bound.schema.input_schema])


class Denied(Exception):
    """A hook or a person said no; the message is the reason. shown: what a user interface may show of it."""

    def __init__(self, reason: str, shown: str | None = None) -> None:
        super().__init__(reason)
        self.shown = shown


async def ask_hooks(
    hooks: Sequence[PreHook],
    name: str,
    key: str,
    checked: Checked,
    bound: BoundTool | None,
    rt: Runtime,
    *,
    expose: bool = False,
) -> tuple[Checked, str | None]:
    """Return the arguments after all hooks, and the reason to ask a person, None where no hook wants that.

    Each hook sees what the one before it made of the arguments, which are checked again each time.
    expose: the model is told what a hook raised. Raises Denied, and what the tool's check raises.
    """
    ask: str | None = None
    untyped: Sequence[Callable[..., Any]] = hooks  # what people answer is what is found here
    for hook in untyped:
        try:
            answer = await rt.call(f"hook/{key}/{name}", hook, name, copy_arguments(checked.raw))
        except (BlockingCallError, RunCancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the door: it fails closed
            _log.error("a hook of %r failed: %s", name, type(error).__name__, exc_info=error)
            told = f"a hook failed ({safe_error_text(error, expose=expose)})"
            raise Denied(told, f"a hook failed ({safe_error_text(error, expose=False)})") from None
        if answer is None:
            continue
        if not isinstance(answer, HookResult):
            raise Denied(f"a hook answered {type(answer).__name__} in place of a HookResult")
        if answer.decision == "deny":
            raise Denied(answer.reason or "a hook does not allow it")
        if answer.updated_input is not None:
            checked = check(bound, answer.updated_input)
        if answer.decision == "ask" and ask is None:
            ask = answer.reason or ""
    return checked, ask


async def tell_hooks(
    hooks: Sequence[PostHook], name: str, key: str, arguments: dict[str, Any], text: str, rt: Runtime
) -> RenderedResult | None:
    """Return what the hooks put in place of a result or an error, the last one counting; None where none did.

    A hook that raises is passed over; one that answers with what cannot be shown withholds the result.
    """
    changed: RenderedResult | None = None
    untyped: Sequence[Callable[..., Any]] = hooks
    for hook in untyped:
        try:
            seen = text if changed is None else changed.text
            answer = await rt.call(f"hook/{key}/{name}", hook, name, copy_arguments(arguments), seen)
        except (BlockingCallError, RunCancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the door: the tool has run, its result counts
            _log.error("a post-hook of %r failed: %s", name, type(error).__name__, exc_info=error)
            continue
        if isinstance(answer, HookResult) and answer.updated_output is not None:
            changed = _shown(answer.updated_output)
        elif answer is not None and not isinstance(answer, HookResult):
            _log.error("a post-hook of %r answered %s in place of a HookResult", name, type(answer).__name__)
    return changed


def _shown(output: object) -> RenderedResult:
    try:
        return render_result(output)
    except ToolError:
        _log.error("a post-hook answered with a value of type %s, which cannot be shown", type(output).__name__)
        # It was to replace the result, perhaps for what that holds; so the result is not shown either.
        return RenderedResult(WITHHELD, (), WITHHELD)


def requested(
    item: OpenCall,
    name: str,
    checked: Checked,
    bound: BoundTool | None,
    *,
    kind: WaitKind,
    reason: str | None = None,
    expires_at: datetime | None = None,
) -> ApprovalRequested:
    """Return the event that tells of a call that waits."""
    shown = checked.shown()
    return ApprovalRequested(
        key=item.call.key,
        tool_call_id=item.public_id,
        name=name,
        tool_input=shown,
        raw_input=None if checked.raw == shown else checked.raw,
        digest=digest(name, shown),
        tool_version=version_of(bound) if bound is not None else "",
        kind=kind,
        reason=reason or None,
        expires_at=expires_at,
    )


async def ask_person(
    gate: Gate,
    request: ApprovalRequested,
    path: tuple[str, ...],
    run_id: str,
    rt: Runtime,
    *,
    pauses: bool,
    expose: bool = False,
) -> AsyncGenerator[ApprovalRequested | ApprovalResolved, None]:
    """Yield the request and, unless the turn is to pause for it, the answer: remembered, or of the person asked.

    pauses: where there is nobody to be asked, the turn does; otherwise the answer is no. expose: the model is told
    what the callback raised.
    """
    version = request.tool_version
    grant = gate.grants.find(request.name, request.tool_input, gate.scope, tool_version=version)
    if grant is not None:
        yield answered(request, ApprovalDecision(grant.approved, grant.reason, by=f"remembered {grant.id}"))
        return
    if gate.approve is None and not pauses:
        decision = ApprovalDecision(False, "it needs a person's approval, and nobody is there to be asked")
        yield answered(request, decision)
        return
    # A copy made before anybody has seen the event, as its dictionaries are not frozen.
    shown = request.replace(path=path, tool_input=copy_arguments(request.tool_input)).request(run_id)
    yield request
    if gate.approve is None:
        return
    approve: Callable[..., Any] = gate.approve  # what people answer is what is found here
    try:
        answer: Any = await rt.call(f"approval/{request.key}", approve, shown, waits=True)
    except (BlockingCallError, RunCancelledError):
        raise
    except Exception as error:  # noqa: BLE001 - the door: it fails closed
        _log.error("the approval callback failed: %s", type(error).__name__, exc_info=error)
        answer = ApprovalDecision(False, f"the approval failed ({safe_error_text(error, expose=expose)})")
    if not isinstance(answer, ApprovalDecision):
        kind = type(answer).__name__
        answer = ApprovalDecision(False, f"the approval answered {kind} in place of an ApprovalDecision")
    remember(gate, request, answer, rt.new_id())
    yield answered(request, answer)


def answered(request: ApprovalRequested, answer: ApprovalDecision) -> ApprovalResolved:
    """Return the event of an answer to this request."""
    return ApprovalResolved(
        key=request.key,
        tool_call_id=request.tool_call_id,
        name=request.name,
        approved=answer.approved,
        reason=answer.reason,
        updated_input=answer.updated_input,
        digest=request.digest,
        by=answer.by,
    )


def remember(gate: Gate, request: ApprovalRequested, answer: ApprovalDecision, id: str) -> None:
    """Keep an answer that is to be remembered."""
    if answer.remember is None or request.kind != "approval":
        return
    patterns = {name: pattern for name, pattern in answer.remember.items() if name in request.tool_input}
    if unknown := sorted(answer.remember.keys() - patterns.keys()):
        _log.warning("%s has no argument %s, so remember= could not use it", request.name, ", ".join(unknown))
    gate.grants.add(
        ApprovalGrant(
            id,
            request.name,
            {**request.tool_input, **patterns},
            answer.approved,
            gate.scope,
            answer.reason,
            tuple(patterns),
            request.tool_version,
        )
    )


def expiry(gate: Gate, now: datetime) -> datetime | None:
    """Return when a request that is made now expires."""
    return now + timedelta(seconds=gate.expires_seconds) if gate.expires_seconds is not None else None
