"""tool_call: one call, from the model's words to the result it sees.

Laws: whatever goes wrong inside a call is a result, never an exception, but for what ends a program
(KeyboardInterrupt, SystemExit) and what the caller must change (an async tool under a running loop); the
recorded arguments are never handed out, only copies; a call in flight at a crash is not run again unless its
tool says that repeating it does no harm.
"""

import hashlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec

from sapwood.context.offered import OfferedTool
from sapwood.context.source import Loaded
from sapwood.core.decide import RunTools
from sapwood.core.errors import BlockingCallError, RunCancelledError, StepTimeoutError, ToolError
from sapwood.core.events import AgentEvent, ContextUpdated, ToolFinished, ToolRunning, ToolStarted
from sapwood.core.messages import ToolCall
from sapwood.core.ports import Runtime
from sapwood.core.render_result import cap, render_result
from sapwood.core.run import OpenCall, Run
from sapwood.core.safe_text import safe_error_text
from sapwood.core.tools import SEARCH_TOOLS, BoundTool, ToolContext, batches, copy_arguments
from sapwood.core.transcript import INTERRUPTED
from sapwood.loop.spec import LiveTurn

_log = logging.getLogger(__name__)
REFUSED = "Not run: this was the final round and tools were not available."


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


def _finished(item: OpenCall, call: ToolCall, text: str, **more: Any) -> ToolFinished:
    more.setdefault("value", text)
    return ToolFinished(key=item.call.key, tool_call_id=item.public_id, name=call.name, result=text, **more)


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
        problem = self._problem()
        if problem:
            yield _finished(self.item, self.call, problem, is_error=True)
            return
        tool = self.live.offered.find(self.call.name)
        if tool is None:
            yield _finished(self.item, self.call, self._unknown(), is_error=True)
        elif tool.meta:
            async with aclosing(self._meta()) as events:
                async for event in events:
                    yield event
        elif tool.hidden and self.call.name not in self.live.loaded(self.live.run):
            text = f"{self.call.name} is not loaded. Call {SEARCH_TOOLS} first to find it, then call it."
            yield _finished(self.item, self.call, text, is_error=True)
        else:
            async with aclosing(self._run(tool)) as events:
                async for event in events:
                    yield event

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

    async def _run(self, tool: OfferedTool) -> AsyncGenerator[AgentEvent, None]:
        bound = tool.bound
        if self.item.state == "running" and not (bound and (bound.read_only or bound.idempotent)):
            yield _finished(self.item, self.call, INTERRUPTED, is_error=True)
            return
        try:
            arguments = self._checked(bound)
        except Exception as error:  # noqa: BLE001 - the door: a user's validator may raise anything
            text = f"Invalid input for {self.call.name}: {self._error_text(error)}"
            yield _finished(self.item, self.call, self._capped(text, bound), is_error=True)
            return
        if bound is not None and bound.requires_approval:
            # Fails closed: a person would have to be asked, and there is nobody to ask.
            text = f"Denied: {self.call.name} needs a person's approval and no approval is configured; not run."
            yield _finished(self.item, self.call, text, is_error=True)
            return
        yield ToolRunning(key=self.item.call.key, digest=_digest(self.call), attempt=self.item.attempt + 1)
        try:
            value = await self._called(bound, arguments)
            rendered = render_result(value)
        except (BlockingCallError, RunCancelledError):
            raise
        except StepTimeoutError:
            seconds = self._timeout(bound)
            text = f"{self.call.name} timed out after {seconds:g} s; what it did by then is not known."
            yield _finished(self.item, self.call, text, is_error=True)
        except Exception as error:  # noqa: BLE001 - the door
            yield _finished(self.item, self.call, self._capped(self._error_text(error), bound), is_error=True)
        else:
            yield _finished(
                self.item,
                self.call,
                self._capped(rendered.text, bound),
                value=rendered.value,
                content=rendered.parts or None,
            )

    def _checked(self, bound: BoundTool | None) -> Mapping[str, Any]:
        arguments = copy_arguments(self.call.arguments)
        return bound.check(arguments) if bound is not None and bound.check is not None else arguments

    async def _called(self, bound: BoundTool | None, arguments: Mapping[str, Any]) -> Any:
        spec = self.live.spec
        step = f"tool/{self.item.call.key}/{self.call.name}"
        timeout = self._timeout(bound)
        if bound is None:
            if spec.executor is None:
                raise ToolError(f"nothing runs {self.call.name}: give execute= or a tool with a function")
            return await self.rt.call(step, spec.executor, self.call.name, arguments, timeout=timeout, effect=True)
        cancel = spec.cancel
        context = ToolContext(
            run_id=self.run.run_id,
            name=self.call.name,
            tool_call_key=self.item.call.key,
            cancelled=(lambda: cancel.cancelled) if cancel is not None else None,
        )
        # A runtime tells plain from async by the function, and moves plain ones to a thread.
        run = _async_run(bound) if bound.is_async else bound.run
        return await self.rt.call(step, run, arguments, context, timeout=timeout, effect=True)

    def _timeout(self, bound: BoundTool | None) -> float | None:
        own = bound.timeout_seconds if bound is not None else None
        return own if own is not None else self.live.spec.tool_timeout_seconds

    def _error_text(self, error: Exception) -> str:
        spec = self.live.spec
        if not isinstance(error, ToolError):
            _log.error("tool %r failed: %s", self.call.name, type(error).__name__, exc_info=error)
        return safe_error_text(error, expose=spec.expose_errors)

    def _capped(self, text: str, bound: BoundTool | None) -> str:
        own = bound.max_result_tokens if bound is not None else None
        limit = own if own is not None else self.live.spec.tool_result_max_tokens
        return cap(text, limit, self.live.spec.meter.text) if limit is not None else text


def _async_run(bound: BoundTool) -> Callable[[Mapping[str, Any], ToolContext], Awaitable[Any]]:
    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
        return await bound.run(arguments, context)

    return run


def _digest(call: ToolCall) -> str:
    try:
        raw = msgspec.json.encode([call.name, call.arguments], order="deterministic")
    except (UnicodeEncodeError, TypeError):  # half a character, or an object that is no JSON: of a custom provider
        raw = repr((call.name, call.arguments)).encode("utf-8", "backslashreplace")
    return hashlib.sha256(raw).hexdigest()[:16]
