"""tool_call: one call, from the model's words to the result it sees.

Laws: whatever goes wrong inside a call is a result, never an exception, but for what ends a program
(KeyboardInterrupt, SystemExit) and what the caller must change (an async tool under a running loop); the
recorded arguments are never handed out, only copies; a call in flight at a crash is not run again unless its
tool says that repeating it does no harm; an outcome is noted before it is handed on.
Order of one call: look up, check, hooks, approval, run, hooks, cap. Source: guide A.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

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
)
from sapwood.core.ports import Runtime
from sapwood.core.render_result import cap, render_result
from sapwood.core.run import OpenCall
from sapwood.core.safe_text import GENERIC, safe_error_text
from sapwood.core.tools import FINAL_RESULT, SEARCH_TOOLS, BoundTool, ToolContext, batches
from sapwood.core.transcript import INTERRUPTED
from sapwood.loop.call_events import Outcome, fingerprint, finished, started
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
from sapwood.loop.spec import LiveTurn, OutputReader
from sapwood.loop.words import problem_with, unknown_tool

_log = logging.getLogger(__name__)
REFUSED = "Not run: this was the final round and tools were not available."
RECORDED = "The result is recorded. Nothing more needs to be done."
RECORDED_BEFORE = "Not recorded: this turn has its result already, from an earlier call."


async def run_tools(action: RunTools, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    """Answer every call: the refused ones with a no, the others in batches that may overlap."""
    for item in action.refused:
        call = live.offered.meant(item.call)
        if item.state == "asked":
            yield started(item, call)
        yield finished(item, call, REFUSED, is_error=True)

    def overlaps(item: OpenCall) -> bool:
        tool = live.offered.find(live.offered.meant(item.call).name)
        return tool is not None and tool.bound is not None and tool.bound.read_only

    for batch in batches(action.allowed, overlaps):
        flows = [_Call(item, live, rt).events() for item in batch]
        async with aclosing(rt.merge(flows)) as events:
            async for event in events:
                yield event


class _Call:
    """One call on its way. `call` is what is meant, a `call_tool` unwrapped; `item.call` what was said.

    tool: what is called, None where there is no such thing. answer: what a person said to it.
    """

    def __init__(self, item: OpenCall, live: LiveTurn, rt: Runtime) -> None:
        self.item = item
        self.call = live.offered.meant(item.call)
        self.tool = live.offered.find(self.call.name)
        self.bound = self.tool.bound if self.tool is not None else None
        self.answer = item.decision
        self.asked_digest = digest(self.call.name, self.call.arguments)
        self.live = live
        self.rt = rt
        self._reader = live.spec.output if live.spec.is_output(self.call.name) else None

    async def events(self) -> AsyncGenerator[AgentEvent, None]:
        if self.item.state == "asked":
            yield started(self.item, self.call)
        async with aclosing(self._answered()) as events:
            async for event in events:
                yield event

    def _answered(self) -> AsyncGenerator[AgentEvent, None]:
        live, call, tool = self.live, self.call, self.tool
        if not self.item.has_passed_limits and (breach := live.reserve_call(self.item.call.key, call.name)):
            text = f"Not run: {breach} is reached."
            return _one(finished(self.item, call, text, is_error=True, limit=breach))
        if problem := problem_with(call):
            return _one(self._refused(problem))
        if tool is None:
            known = [tool.schema.name for tool in live.offered.by_wire.values() if not tool.hidden]
            return _one(finished(self.item, call, unknown_tool(call.name, known), is_error=True))
        if self._reader is not None and (live.run.output is not None or live.has_output):
            return _one(self._refused(RECORDED_BEFORE))
        if not tool.meta and tool.hidden and call.name not in live.loaded(live.run):
            how = tool.how_to_load or f"Call {SEARCH_TOOLS} first to find it, then call it."
            text = f"{call.name} is not loaded. {how}"
            return _one(finished(self.item, call, text, is_error=True))
        return self._run()

    def _refused(self, text: str) -> ToolFinished:
        error = text if self._reader is not None else None
        return finished(self.item, self.call, text, is_error=True, output_error=error)

    async def _meta(self, checked: Checked) -> AsyncGenerator[AgentEvent, None]:
        """Ask the sources; what they load is callable from the next model call on."""
        live, call = self.live, self.call.replace(arguments=checked.raw)
        try:
            answer: Loaded | None = await live.spec.context.handle(call, live.turn(live.run), leaf=self.rt.call)
            rendered = render_result(answer.result if answer is not None else None)
        except (BlockingCallError, RunCancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the door
            yield await self._end(self._failed(error), checked)
            return
        if answer is None:
            yield await self._end(Outcome(f"Nothing answers {call.name}.", is_error=True), checked)
            return
        loaded, skill = answer.tools, answer.skill
        if loaded or skill:
            yield ContextUpdated(source=answer.source, op="loaded", tools=loaded, skill=skill)
        is_error = answer.is_error
        outcome = Outcome(rendered.text, is_error=is_error, rendered=rendered, cuts=False, loaded=loaded, skill=skill)
        yield await self._end(outcome, checked)

    async def _run(self) -> AsyncGenerator[AgentEvent, None]:
        """Let the call through the gate, run it, and answer it."""
        item = self.item
        checked: Checked | None = None
        try:
            checked = self._input()
            if item.state != "running" and not self._is_decided() and self._is_gated():
                async with aclosing(self._gate(checked)) as steps:
                    async for step in steps:
                        if not isinstance(step, Checked):
                            yield step
                            checked = None  # it waits, until an answer follows
                            continue
                        checked = step
                if checked is None:
                    return
        except Denied as denied:
            shown = None if denied.shown is None else f"Denied: {denied.shown}"
            yield await self._end(Outcome(f"Denied: {denied}", is_error=True, shown=shown), checked)
            return
        except (BlockingCallError, RunCancelledError):
            raise
        except Exception as error:  # noqa: BLE001 - the door: a user's validator may raise anything
            yield await self._end(self._failed(error, f"Invalid input for {self.call.name}: "), None)
            return
        # What was changed on the way is noted, so that a call that is run again after a crash is the same call.
        changed = None if checked.raw == self.call.arguments else checked.raw
        is_lost = item.state == "running" and not self._may_run_again()
        if is_lost or not self._is_plain():
            if self._reader is not None:
                flow = self._recorded(self._reader, checked)
            elif is_lost:
                flow = self._interrupted(checked)
            else:
                flow = self._performed(checked, changed)
            async with aclosing(flow) as events:
                async for event in events:
                    yield event
            return
        yield self._running(checked, changed)
        fault.point("tool.before")
        outcome = await self._called(checked)
        fault.point("tool.after")
        yield await self._end(outcome, checked)

    def _is_gated(self) -> bool:
        """Tell whether anybody is to be asked about the call."""
        bound = self.bound
        needs = bound is not None and (bound.external or bound.requires_approval is not False)
        return needs or bool(self.live.spec.gate.pre)

    def _is_plain(self) -> bool:
        """Tell whether the call is one of a function."""
        is_meta = self.tool is not None and self.tool.meta
        is_external = self.bound is not None and self.bound.external
        is_child = self.call.name in self.live.spec.children
        return not (is_meta or is_external or is_child or self._reader is not None)

    def _running(self, checked: Checked, changed: dict[str, Any] | None) -> ToolRunning:
        """Return the event of a call that begins; raises RunCancelledError where it may not."""
        if (cancel := self.live.spec.cancel) is not None:
            cancel.check()  # a call that is noted as running must have begun
        # Where somebody was asked, it is what was shown: what runs must be what they agreed to.
        was_shown = changed is not None or self.item.request is not None or self._is_gated()
        mark = checked.digest(self.call.name) if was_shown else self.asked_digest
        # An answer to a call that hangs in the air counts as one more attempt.
        return ToolRunning(key=self.item.call.key, digest=mark, attempt=self.item.attempt + 1, changed_input=changed)

    def _is_decided(self) -> bool:
        """Tell whether somebody was asked about the call and has answered; a remembered answer is looked up anew."""
        return self.item.request is not None and self.item.decision is not None

    def _input(self) -> Checked:
        """Return what the call is to be run with; raises Denied, and what the tool's check raises."""
        item = self.item
        if self._is_decided():
            return self._decided()
        return check(self.bound, self.call.arguments if item.changed_input is None else item.changed_input)

    async def _recorded(self, reader: OutputReader, checked: Checked) -> AsyncGenerator[AgentEvent, None]:
        """Record the structured output, where it is valid; the first one of a turn counts."""
        read = partial(reader.read, checked.raw, expose_errors=self.live.spec.expose_errors)
        try:
            instance, text = await self.rt.call(f"output/{self.item.call.key}", read)
        except ToolError as error:
            outcome = Outcome(f"Invalid {FINAL_RESULT}: {error}", is_error=True)
        else:
            self.live.take_output(instance)
            outcome = Outcome(RECORDED, is_error=False, output=text)
        yield await self._end(outcome, checked)

    async def _gate(self, checked: Checked) -> AsyncGenerator[AgentEvent | Checked, None]:
        """Yield what hooks and people bring about, and last the arguments that may be used; none if it waits.

        Raises Denied.
        """
        gate, item, name, bound = self.live.spec.gate, self.item, self.call.name, self.bound
        expose = self.live.spec.expose_errors
        checked, ask = await ask_hooks(gate.pre, name, item.call.key, checked, bound, self.rt, expose=expose)
        expires_at = expiry(gate, self.rt.now()) if gate.defers else None
        if bound is not None and bound.external:
            yield requested(item, name, checked, bound, kind="external", reason=ask, expires_at=expires_at)
            return
        if ask is None and not (bound is not None and await self._needs_approval(bound, checked)):
            yield checked
            return
        request = requested(item, name, checked, bound, kind="approval", reason=ask, expires_at=expires_at)
        answer: ApprovalResolved | None = None
        # A hook that asks wants a person; a tool that only needs one fails closed where none was ever named.
        pauses = gate.defers or ask is not None
        steps = ask_person(gate, request, self.live.spec.path, self.live.root_id, self.rt, pauses=pauses, expose=expose)
        self.live.waits(self.rt.monotonic())
        try:
            async with aclosing(steps) as asked:
                async for step in asked:
                    yield step
                    answer = step if isinstance(step, ApprovalResolved) else None
        finally:
            self.live.goes_on(self.rt.monotonic())
        if answer is not None:
            self.answer = answer
            yield self._approved(answer, checked)

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

    def _approved(self, answer: ApprovalResolved, checked: Checked) -> Checked:
        """Return the arguments that a person let pass; raises Denied, and what the tool's check raises."""
        if not answer.approved:
            raise Denied(answer.reason or "the person who was asked said no")
        return checked if answer.updated_input is None else check(self.bound, answer.updated_input)

    def _decided(self) -> Checked:
        """Return the arguments of a call that was answered while the turn was paused; raises Denied."""
        request, decision, bound = self.item.request, self.item.decision, self.bound
        assert request is not None  # it is decided
        assert decision is not None
        if request.kind == "unknown" and not decision.approved:
            raise Denied(f"{decision.reason or 'it is not to be run again'}. {INTERRUPTED}")
        if bound is not None and request.tool_version not in ("", version_of(bound)):
            raise Denied(f"{self.call.name} was changed since it was asked for; ask again")
        checked = check(bound, request.tool_input if request.raw_input is None else request.raw_input)
        if checked.digest(self.call.name) != request.digest:
            raise Denied(f"the input of {self.call.name} is not what was shown; ask again")
        return self._approved(decision, checked)

    def _may_run_again(self) -> bool:
        """Tell whether a call that was in flight may be run; a yes to an earlier attempt is used up."""
        bound = self.bound
        return self.call.name in self.live.spec.children or (
            bound is not None and (bound.read_only or bound.idempotent)
        )

    async def _interrupted(self, checked: Checked) -> AsyncGenerator[AgentEvent, None]:
        """A call was in flight when the process died: put it before a person, or say that its outcome is unknown."""
        gate = self.live.spec.gate
        if not gate.asks_unknown:
            yield await self._end(Outcome(INTERRUPTED, is_error=True), checked)
            return
        yield requested(self.item, self.call.name, checked, self.bound, kind="unknown", reason=INTERRUPTED)

    async def _performed(self, checked: Checked, changed: dict[str, Any] | None) -> AsyncGenerator[AgentEvent, None]:
        """Run a subagent, ask the sources or show what came from outside, and answer the call."""
        spawn, decision = self.live.spec.children.get(self.call.name), self.item.decision
        if self.tool is not None and self.tool.meta:
            async with aclosing(self._meta(checked)) as answering:
                async for step in answering:
                    yield step
            return
        if spawn is None:
            if decision is not None:
                yield await self._end(self._outside(decision), checked)
            return
        yield self._running(checked, changed)
        fault.point("tool.before")
        outcome: Outcome | None = None
        async with aclosing(self._child(spawn, checked)) as events:
            async for event in events:
                if isinstance(event, Outcome):
                    outcome = event
                else:
                    yield event
        if outcome is None:
            return  # it waits for a person, and the call with it
        fault.point("tool.after")
        yield await self._end(outcome, checked)

    def _outside(self, decision: ApprovalResolved) -> Outcome:
        try:
            rendered = render_result(decision.value)
        except ToolError as error:
            return Outcome(str(error), is_error=True)
        return Outcome(rendered.text, is_error=decision.is_error, rendered=rendered)

    async def _child(self, spawn: Any, checked: Checked) -> AsyncGenerator[AgentEvent | Outcome, None]:
        try:
            child = spawn(checked.values, self.live, (*self.live.spec.path, self.item.public_id))
        except Exception as error:  # noqa: BLE001 - the door: a model of its own may not be made
            yield self._failed(error)
            return
        turn = ChildTurn(child, self.live, self.item.public_id, self.rt)
        async with aclosing(turn.events()) as events:
            async for event in events:
                yield event
        if turn.is_paused and turn.error is None:
            return
        if turn.error is not None:
            yield self._failed(turn.error, f"{turn.name} failed: ")
            return
        text, is_error = turn.result()
        yield Outcome(text, is_error=is_error, cuts=False)

    async def _called(self, checked: Checked) -> Outcome:
        timeout = self._timeout()
        try:
            rendered = render_result(await self._value(checked.values, timeout))
        except (BlockingCallError, RunCancelledError):
            raise
        except StepTimeoutError as error:
            if timeout is None:  # it is of something that the function itself waited for
                return self._failed(error)
            text = f"{self.call.name} timed out after {timeout:.3g} s; what it did by then is not known."
            return Outcome(text, is_error=True)
        except Exception as error:  # noqa: BLE001 - the door
            return self._failed(error)
        return Outcome(rendered.text, is_error=False, rendered=rendered)

    async def _value(self, arguments: Mapping[str, Any], timeout: float | None) -> Any:
        spec, bound = self.live.spec, self.bound
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
            scope=spec.retrieval_scope,
            cancelled=(lambda: cancel.cancelled) if cancel is not None else None,
        )
        # A runtime tells plain from async by the function, and moves plain ones to a thread.
        run = _async_run(bound) if bound.is_async else bound.run
        return await self.rt.call(step, run, arguments, context, timeout=timeout, effect=True)

    async def _end(self, outcome: Outcome, checked: Checked | None) -> ToolFinished:
        """Return the answer to the call, as hooks and the cap leave it, once it is noted.

        checked: None where the arguments did not fit; hooks see those that were asked for.
        """
        text, rendered, shown = outcome.text, outcome.rendered, outcome.shown
        if hooks := self.live.spec.gate.post:
            arguments = checked.raw if checked is not None else self.call.arguments
            changed = await tell_hooks(hooks, self.call.name, self.item.call.key, arguments, text, self.rt)
            if changed is not None:
                text, rendered, shown = changed.text, changed, None
        mark = fingerprint(self.asked_digest, text, is_error=outcome.is_error)
        if outcome.cuts:
            text = self._capped(text)
        if (decision := self.answer) is not None and decision.updated_input is not None and not outcome.is_error:
            text += f"\n[The input was changed before it ran: {render_result(decision.updated_input).text}]"
        answer = ToolFinished(
            key=self.item.call.key,
            tool_call_id=self.item.public_id,
            name=self.call.name,
            result=text,
            is_error=outcome.is_error,
            value=rendered.value if rendered is not None else text,
            content=(rendered.parts or None) if rendered is not None else None,
            fingerprint=mark,
            loaded=outcome.loaded,
            skill=outcome.skill,
            output=outcome.output,
            output_error=outcome.text if outcome.is_error and self._reader is not None else None,
            shown=shown,
        )
        await self.rt.settle(answer)
        return answer

    def _timeout(self) -> float | None:
        """Return the seconds that the function may take: its own limit, or what is left of the turn's time."""
        own = self.bound.timeout_seconds if self.bound is not None else None
        own = own if own is not None else self.live.spec.tool_timeout_seconds
        left = self.live.seconds_left(self.rt.monotonic())
        return own if left is None else left if own is None else min(own, left)

    def _failed(self, error: Exception, before: str = "") -> Outcome:
        """Return what an exception came to; a user interface shows only of a ToolError what it says."""
        text = before + safe_error_text(error, expose=self.live.spec.expose_errors)
        if isinstance(error, ToolError):
            return Outcome(text, is_error=True)
        _log.error("tool %r failed: %s", self.call.name, type(error).__name__, exc_info=error)
        return Outcome(text, is_error=True, shown=before + GENERIC)

    def _capped(self, text: str) -> str:
        own = self.bound.max_result_tokens if self.bound is not None else None
        limit = own if own is not None else self.live.spec.tool_result_max_tokens
        return cap(text, limit, self.live.spec.meter.text) if limit is not None else text


async def _one(event: AgentEvent) -> AsyncGenerator[AgentEvent, None]:
    yield event


def _async_run(bound: BoundTool) -> Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return await bound.run(arguments, context)

    return run
