"""tool_call: one call, from the model's words to the result it sees.

Laws: whatever goes wrong inside a call is a result, never an exception, but for what ends a program
(KeyboardInterrupt, SystemExit) and what the caller must change (an async tool under a running loop); the
recorded arguments are never handed out, only copies; a call in flight at a crash is not run again unless its
tool says that repeating it does no harm; an outcome is noted before it is handed on.
Order of one call: look up, check, hooks, approval, run, hooks, cap. Source: guide A.
"""

import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

from sapwood.context.offered import OfferedTool
from sapwood.context.source import Loaded
from sapwood.core import fault
from sapwood.core.decide import RunTools
from sapwood.core.errors import BlockingCallError, RunCancelledError, StepTimeoutError, ToolError
from sapwood.core.events import (
    AgentEvent,
    ApprovalResolved,
    ContextUpdated,
    ToolFinished,
    ToolRunning,
    ToolStarted,
)
from sapwood.core.messages import ToolCall
from sapwood.core.ports import Runtime
from sapwood.core.render_result import RenderedResult, cap, render_result
from sapwood.core.run import OpenCall, Run
from sapwood.core.safe_text import safe_error_text
from sapwood.core.tools import FINAL_RESULT, SEARCH_TOOLS, BoundTool, ToolContext, batches, copy_arguments
from sapwood.core.transcript import INTERRUPTED
from sapwood.loop.child import ChildTurn
from sapwood.loop.gate import (
    Checked,
    Denied,
    ask_hooks,
    ask_person,
    check,
    digest,
    expiry,
    requested,
    tell_hooks,
    version_of,
)
from sapwood.loop.spec import LiveTurn

_log = logging.getLogger(__name__)
REFUSED = "Not run: this was the final round and tools were not available."
RECORDED = "The result is recorded. Nothing more needs to be done."
RECORDED_BEFORE = "Not recorded: this turn has its result already, from an earlier call."


async def run_tools(action: RunTools, run: Run, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    """Answer every call: the refused ones with a no, the others in batches that may overlap."""
    for item in action.refused:
        call = live.offered.meant(item.call)
        if item.state == "asked":
            yield _started(item, call)
        yield _finished(item, call, REFUSED, is_error=True)

    def overlaps(item: OpenCall) -> bool:
        tool = live.offered.find(live.offered.meant(item.call).name)
        return tool is not None and tool.bound is not None and tool.bound.read_only

    for batch in batches(action.allowed, overlaps):
        flows = [_Call(item, run, live, rt).events() for item in batch]
        async with aclosing(rt.merge(flows)) as events:
            async for event in events:
                yield event


def _started(item: OpenCall, call: ToolCall) -> ToolStarted:
    return ToolStarted(
        key=item.call.key,
        tool_call_id=item.public_id,
        name=call.name,
        tool_input=copy_arguments(call.arguments),
    )


def _finished(item: OpenCall, call: ToolCall, text: str, *, is_error: bool = False, **more: Any) -> ToolFinished:
    more.setdefault("value", text)
    return ToolFinished(
        key=item.call.key,
        tool_call_id=item.public_id,
        name=call.name,
        result=text,
        is_error=is_error,
        fingerprint=_fingerprint(call, text, is_error=is_error),
        **more,
    )


class _Outcome:
    """What the function, the subagent or a refusal came to, before hooks and the cap have seen it."""

    def __init__(self, text: str, *, is_error: bool, rendered: RenderedResult | None = None, cuts: bool = True) -> None:
        self.text = text
        self.is_error = is_error
        self.rendered = rendered
        self.cuts = cuts


class _Call:
    """One call on its way. `call` is what is meant, a `call_tool` unwrapped; `item.call` what was said."""

    def __init__(self, item: OpenCall, run: Run, live: LiveTurn, rt: Runtime) -> None:
        self.item = item
        self.call = live.offered.meant(item.call)
        self.run = run
        self.live = live
        self.rt = rt

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        if self.item.state == "asked":
            yield _started(self.item, self.call)
        async with aclosing(self._answered()) as events:
            async for event in events:
                yield event

    def _answered(self) -> AsyncGenerator[AgentEvent, None]:
        live, call = self.live, self.call
        if breach := live.reserve_call(self.item.call.key, call.name):
            text = f"Not run: {breach} is reached."
            return _one(_finished(self.item, call, text, is_error=True, limit=breach))
        if problem := self._problem():
            return _one(_finished(self.item, call, problem, is_error=True))
        tool = live.offered.find(call.name)
        if tool is None:
            return _one(_finished(self.item, call, self._unknown(), is_error=True))
        if call.name == FINAL_RESULT and live.spec.output is not None:
            return self._output(tool)
        if tool.meta:
            return self._meta()
        if tool.hidden and call.name not in live.loaded(live.run):
            text = f"{call.name} is not loaded. Call {SEARCH_TOOLS} first to find it, then call it."
            return _one(_finished(self.item, call, text, is_error=True))
        return self._run(tool.bound)

    def _problem(self) -> str:
        name = self.call.name
        match self.call.problem:
            case None:
                return ""
            case "incomplete":
                return f"The arguments for {name} were incomplete (the reply was cut off); the tool was not run."
            case "malformed":
                return f"The arguments for {name} were malformed JSON; the tool was not run."
            case "not_an_object":
                return f"The arguments for {name} must be a JSON object; the tool was not run."

    def _unknown(self) -> str:
        names = [tool.schema.name for tool in self.live.offered.by_wire.values() if not tool.hidden]
        known = ", ".join(names[:40]) or "none"
        return f"Unknown tool: {self.call.name}. Available tools: {known}."

    async def _meta(self) -> AsyncGenerator[AgentEvent, None]:
        """Ask the sources; what they load is callable from the next model call on."""
        live = self.live
        try:
            answer: Loaded | None = await live.spec.context.handle(self.call, live.turn(live.run), leaf=self.rt.call)
            rendered = render_result(answer.result if answer is not None else None)
        except (BlockingCallError, RunCancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the door
            yield _finished(self.item, self.call, self._error_text(error), is_error=True)
            return
        if answer is None:
            yield _finished(self.item, self.call, f"Nothing answers {self.call.name}.", is_error=True)
            return
        if answer.tools:
            yield ContextUpdated(source=answer.source, op="loaded", tools=answer.tools)
        yield _finished(
            self.item, self.call, rendered.text, value=rendered.value, is_error=answer.is_error, loaded=answer.tools
        )

    async def _output(self, tool: OfferedTool) -> AsyncGenerator[AgentEvent, None]:
        """Take the structured output; the first one that is valid counts."""
        live, item, call = self.live, self.item, self.call
        reader = live.spec.output
        if live.run.output is not None or live.has_output or reader is None:
            yield _finished(item, call, RECORDED_BEFORE, is_error=True)
            return
        try:
            checked, _ = await ask_hooks(
                live.spec.gate.pre, call.name, item.call.key, check(None, call.arguments), None, self.rt
            )
            read = partial(reader.read, checked.raw, expose_errors=live.spec.expose_errors)
            instance, text = await self.rt.call(f"output/{item.call.key}", read)
        except Denied as denied:
            reason = f"Denied: {denied}"
        except ToolError as error:
            reason = f"Invalid {FINAL_RESULT}: {error}"
        else:
            live.take_output(instance)
            yield _finished(item, call, RECORDED, output=text)
            return
        yield _finished(item, call, reason, is_error=True, output_error=reason)

    async def _run(self, bound: BoundTool | None) -> AsyncGenerator[AgentEvent, None]:
        """Let the call through the gate, run it, and answer it."""
        item = self.item
        checked: Checked | None = None
        try:
            if item.state == "decided":
                checked = self._decided(bound)
            else:
                checked = check(bound, self.call.arguments if item.tool_input is None else item.tool_input)
            if item.state not in ("decided", "running"):
                async with aclosing(self._gate(checked, bound)) as steps:
                    async for step in steps:
                        if not isinstance(step, Checked):
                            yield step
                            checked = None  # it waits, until an answer follows
                            continue
                        checked = step
                if checked is None:
                    return
        except Denied as denied:
            yield await self._end(_Outcome(f"Denied: {denied}", is_error=True), checked, bound)
            return
        except (BlockingCallError, RunCancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the door: a user's validator may raise anything
            text = f"Invalid input for {self.call.name}: {self._error_text(error)}"
            yield await self._end(_Outcome(text, is_error=True), None, bound)
            return
        is_lost = item.state == "running" and not self._may_run_again(bound)
        flow = self._interrupted(checked, bound) if is_lost else self._performed(checked, bound)
        async with aclosing(flow) as events:
            async for event in events:
                yield event

    async def _gate(self, checked: Checked, bound: BoundTool | None) -> AsyncGenerator[AgentEvent | Checked, None]:
        """Yield what hooks and people bring about, and last the arguments that may be used; none if it waits.

        Raises Denied.
        """
        gate, item, name = self.live.spec.gate, self.item, self.call.name
        checked, ask = await ask_hooks(gate.pre, name, item.call.key, checked, bound, self.rt)
        expires_at = expiry(gate, self.rt.now()) if gate.defers else None
        if bound is not None and bound.external:
            yield requested(item, name, checked, bound, kind="external", reason=ask, expires_at=expires_at)
            return
        if ask is None and not (bound is not None and await self._needs_approval(bound, checked)):
            yield checked
            return
        request = requested(item, name, checked, bound, kind="approval", reason=ask, expires_at=expires_at)
        answer: ApprovalResolved | None = None
        steps = ask_person(gate, request, self.live.spec.path, self.live.root_id, self.rt)
        self.live.waits(self.rt.monotonic())
        try:
            async with aclosing(steps) as asked:
                async for step in asked:
                    yield step
                    answer = step if isinstance(step, ApprovalResolved) else None
        finally:
            self.live.goes_on(self.rt.monotonic())
        if answer is not None:
            yield self._approved(answer, checked, bound)

    async def _needs_approval(self, bound: BoundTool, checked: Checked) -> bool:
        rule = bound.requires_approval
        if isinstance(rule, bool):
            return rule
        try:
            return bool(await self.rt.call(f"approval/{self.item.call.key}/rule", rule, checked.shown()))
        except (BlockingCallError, RunCancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the door: it fails closed
            _log.error("the approval rule of %r failed: %s", bound.name, type(error).__name__, exc_info=error)
            return True

    def _approved(self, answer: ApprovalResolved, checked: Checked, bound: BoundTool | None) -> Checked:
        """Return the arguments that a person let pass; raises Denied, and what the tool's check raises."""
        if not answer.approved:
            raise Denied(answer.reason or "the person who was asked said no")
        return checked if answer.updated_input is None else check(bound, answer.updated_input)

    def _decided(self, bound: BoundTool | None) -> Checked:
        """Return the arguments of a call that was answered while the turn was paused; raises Denied."""
        request, decision = self.item.request, self.item.decision
        if request is None or decision is None:  # it was answered without being asked: by a remembered answer
            return check(bound, self.call.arguments)
        if bound is not None and request.tool_version not in ("", version_of(bound)):
            raise Denied(f"{self.call.name} was changed since it was asked for; ask again")
        if request.kind == "unknown" and not decision.approved:
            raise Denied(decision.reason or f"{INTERRUPTED} It is not to be run again.")
        checked = check(bound, request.raw_input or request.tool_input)
        if checked.digest(self.call.name) != request.digest:
            raise Denied(f"the input of {self.call.name} is not what was shown; ask again")
        return self._approved(decision, checked, bound)

    def _may_run_again(self, bound: BoundTool | None) -> bool:
        """Tell whether a call that was in flight may simply be run again: it does no harm, or goes on where it was."""
        if self.call.name in self.live.spec.children:
            return True
        return bound is not None and (bound.read_only or bound.idempotent)

    async def _interrupted(self, checked: Checked, bound: BoundTool | None) -> AsyncGenerator[AgentEvent, None]:
        """A call was in flight when the process died: put it before a person, or say that its outcome is unknown."""
        gate = self.live.spec.gate
        if not gate.asks_unknown:
            yield await self._end(_Outcome(INTERRUPTED, is_error=True), checked, bound)
            return
        yield requested(self.item, self.call.name, checked, bound, kind="unknown", reason=INTERRUPTED)

    async def _performed(self, checked: Checked, bound: BoundTool | None) -> AsyncGenerator[AgentEvent, None]:
        """Run the function or the subagent, and answer the call; a result from outside is only shown."""
        item, decision = self.item, self.item.decision
        if item.request is not None and item.request.kind == "external" and decision is not None:
            yield await self._end(self._outside(decision), checked, bound)
            return
        yield ToolRunning(
            key=item.call.key,
            digest=checked.digest(self.call.name),
            attempt=item.attempt + 1,
            tool_input=None if checked.raw == self.call.arguments else checked.raw,
        )
        fault.point("tool.before")
        spawn = self.live.spec.children.get(self.call.name)
        if spawn is not None:
            outcome: _Outcome | None = None
            async with aclosing(self._child(spawn, checked)) as events:
                async for event in events:
                    if isinstance(event, _Outcome):
                        outcome = event
                    else:
                        yield event
            if outcome is None:
                return  # it waits for a person, and the call with it
        else:
            outcome = await self._called(bound, checked)
        fault.point("tool.after")
        yield await self._end(outcome, checked, bound)

    def _outside(self, decision: ApprovalResolved) -> _Outcome:
        rendered = render_result(decision.value)
        return _Outcome(rendered.text, is_error=decision.is_error, rendered=rendered)

    async def _child(self, spawn: Any, checked: Checked) -> AsyncGenerator[AgentEvent | _Outcome, None]:
        try:
            child = spawn(checked.values, self.live, (*self.live.spec.path, self.item.public_id))
        except ToolError as error:
            yield _Outcome(str(error), is_error=True)
            return
        turn = ChildTurn(child, self.live, self.item.public_id, self.rt)
        async with aclosing(turn.events()) as events:
            async for event in events:
                yield event
        if turn.is_paused and turn.error is None:
            return
        if turn.error is not None:
            text = f"{turn.name} failed: {self._error_text(turn.error)}"
            yield _Outcome(text, is_error=True)
            return
        text, is_error = turn.result()
        yield _Outcome(text, is_error=is_error, cuts=False)

    async def _called(self, bound: BoundTool | None, checked: Checked) -> _Outcome:
        timeout = self._timeout(bound)
        try:
            rendered = render_result(await self._value(bound, checked.values, timeout))
        except (BlockingCallError, RunCancelledError):
            raise
        except StepTimeoutError as error:
            if timeout is None:  # it is of something that the function itself waited for
                return _Outcome(self._error_text(error), is_error=True)
            text = f"{self.call.name} timed out after {timeout:.3g} s; what it did by then is not known."
            return _Outcome(text, is_error=True)
        except Exception as error:  # noqa: BLE001 - the door
            return _Outcome(self._error_text(error), is_error=True)
        return _Outcome(rendered.text, is_error=False, rendered=rendered)

    async def _value(self, bound: BoundTool | None, arguments: Mapping[str, Any], timeout: float | None) -> Any:
        spec = self.live.spec
        step = f"tool/{self.item.call.key}/{self.call.name}"
        if bound is None:
            if spec.executor is None:
                raise ToolError(f"nothing runs {self.call.name}: give execute= or a tool with a function")
            return await self.rt.call(step, spec.executor, self.call.name, arguments, timeout=timeout, effect=True)
        cancel = spec.cancel
        context = ToolContext(
            run_id=self.live.root_id,
            name=self.call.name,
            tool_call_key=self.item.call.key,
            path=spec.path,
            cancelled=(lambda: cancel.cancelled) if cancel is not None else None,
        )
        # A runtime tells plain from async by the function, and moves plain ones to a thread.
        run = _async_run(bound) if bound.is_async else bound.run
        return await self.rt.call(step, run, arguments, context, timeout=timeout, effect=True)

    async def _end(self, outcome: _Outcome, checked: Checked | None, bound: BoundTool | None) -> ToolFinished:
        """Return the answer to the call, as hooks and the cap leave it, once it is noted."""
        text, rendered = outcome.text, outcome.rendered
        hooks = self.live.spec.gate.post
        if hooks and checked is not None:
            changed = await tell_hooks(hooks, self.call.name, self.item.call.key, checked.raw, text, self.rt)
            if changed is not None:
                rendered = render_result(changed)
                text = rendered.text
        mark = _fingerprint(self.call, text, is_error=outcome.is_error)
        if outcome.cuts:
            text = self._capped(text, bound)
        decision = self.item.decision or self.live.decision(self.item.call.key)
        if decision is not None and decision.updated_input is not None and not outcome.is_error:
            text += f"\n[The input was changed before it ran: {render_result(decision.updated_input).text}]"
        finished = ToolFinished(
            key=self.item.call.key,
            tool_call_id=self.item.public_id,
            name=self.call.name,
            result=text,
            is_error=outcome.is_error,
            value=rendered.value if rendered is not None else text,
            content=(rendered.parts or None) if rendered is not None else None,
            fingerprint=mark,
        )
        await self.rt.settle(finished)
        return finished

    def _timeout(self, bound: BoundTool | None) -> float | None:
        """Return the seconds that the function may take: its own limit, or what is left of the turn's time."""
        own = bound.timeout_seconds if bound is not None else None
        own = own if own is not None else self.live.spec.tool_timeout_seconds
        left = self.live.seconds_left(self.rt.monotonic())
        return own if left is None else left if own is None else min(own, left)

    def _error_text(self, error: Exception) -> str:
        spec = self.live.spec
        if not isinstance(error, ToolError):
            _log.error("tool %r failed: %s", self.call.name, type(error).__name__, exc_info=error)
        return safe_error_text(error, expose=spec.expose_errors)

    def _capped(self, text: str, bound: BoundTool | None) -> str:
        own = bound.max_result_tokens if bound is not None else None
        limit = own if own is not None else self.live.spec.tool_result_max_tokens
        return cap(text, limit, self.live.spec.meter.text) if limit is not None else text


async def _one(event: AgentEvent) -> AsyncGenerator[AgentEvent, None]:
    yield event


def _async_run(bound: BoundTool) -> Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return await bound.run(arguments, context)

    return run


def _fingerprint(call: ToolCall, text: str, *, is_error: bool) -> str:
    """Return what tells a call with its whole answer from others; it begins with `e` for an error."""
    shown = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{'e' if is_error else 'r'}{digest(call.name, call.arguments)}{shown}"
