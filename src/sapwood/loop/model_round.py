"""model_round: one model call. It streams, retries before the first chunk, and owns the only draft.

Laws: a stream that ends without its Reply has broken off and is an error; nothing is retried once something
was shown; the text of a reply cut short is kept, marked partial.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sapwood.context.plan import require_fit
from sapwood.context.render import ledger, measure, render
from sapwood.core.decide import CallModel
from sapwood.core.errors import LLMError, ServerError
from sapwood.core.events import (
    AgentEvent,
    MessageAdded,
    MessageInterrupted,
    RoundStarted,
    TextDelta,
    ThinkingDelta,
)
from sapwood.core.messages import Message, Part, Text, Thinking, ToolCall
from sapwood.core.model import ModelRequest, Reply, TextChunk, ThinkingChunk
from sapwood.core.ports import Runtime
from sapwood.core.render_result import clean
from sapwood.core.run import Run
from sapwood.core.usage import Usage
from sapwood.llm.retry import retry_delay
from sapwood.loop.spec import LiveTurn


async def model_round(action: CallModel, run: Run, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    """Yield RoundStarted, the deltas, and at last the reply as MessageAdded.

    Raises ContextOverflowError before anything is sent where the request cannot fit, and whatever the
    provider raises; MessageInterrupted comes before that where text had been shown.
    """
    spec = live.spec
    past, _ = live.totals(run)
    request = render(
        action,
        run,
        live.fixed,
        live.transcript(run),
        loaded=live.loaded(run),
        max_tokens=spec.max_response_tokens,
    )
    sections = measure(request, run, live.fixed, spec.meter, past=past, prompt=live.prompt_totals(run))
    # Where nothing may shorten the history (guide D's manager), it is the caller's and goes out as it is.
    fixed = ("system", "tools", "memory", "prompt")
    require_fit(
        {str(name): size for name, size in sections.items() if spec.context.trim_history or name in fixed},
        spec.window,
    )
    sent = ledger(sections, run.lines, window=spec.window)
    yield RoundStarted(round=action.round, max_rounds=spec.policy.max_rounds, ledger=sent)
    attempt, began = 0, rt.monotonic()
    while True:
        try:
            async with aclosing(_streamed(request, live, rt)) as events:
                async for event in events:
                    if isinstance(event, Reply):
                        yield _added(event, action, sent.estimated_tokens, live)
                    else:
                        yield event
            return
        except LLMError as error:
            shown = bool(live.draft)
            delay = None if shown else _wait(error, attempt, began, live, rt)
            if delay is None:
                interrupted = _interrupted(live, type(error).__name__)
                if interrupted is not None:
                    error.partial = interrupted.message
                    yield interrupted
                raise
        attempt += 1
        await rt.sleep(delay)


def _wait(error: LLMError, attempt: int, began: float, live: LiveTurn, rt: Runtime) -> float | None:
    return retry_delay(error, attempt, rt.random(), policy=live.spec.retry, elapsed_seconds=rt.monotonic() - began)


async def _streamed(
    request: ModelRequest, live: LiveTurn, rt: Runtime
) -> AsyncGenerator[TextDelta | ThinkingDelta | Reply, None]:
    provider = live.spec.provider
    draft = live.draft
    draft.clear()
    complete = False
    try:
        async with aclosing(rt.stream("model", provider.stream, request)) as chunks:
            async for chunk in chunks:
                if type(chunk) is TextChunk:
                    draft.append(chunk.text)
                    yield TextDelta(text=chunk.text)
                elif type(chunk) is ThinkingChunk:
                    draft.append("")
                    yield ThinkingDelta(text=chunk.text)
                elif type(chunk) is Reply:
                    complete = True
                    yield chunk
        if not complete:
            raise ServerError(
                "the stream ended early, before the reply was complete",
                provider=provider.profile.provider,
                model=provider.profile.model,
            )
    except LLMError:
        raise
    except BaseException as error:
        # Closed, cancelled or broken: no yield is possible now, so run_turn folds this in its `finally`.
        if not complete:
            live.interrupted = _interrupted(live, type(error).__name__)
        raise


def _interrupted(live: LiveTurn, reason: str) -> MessageInterrupted | None:
    text = "".join(live.draft)
    live.draft.clear()
    if not text:
        return None
    origin = live.spec.provider.profile.origin
    return MessageInterrupted(message=Message("assistant", (Text(text),), origin, partial=True), reason=reason)


def _added(reply: Reply, action: CallModel, sent_tokens: int, live: LiveTurn) -> MessageAdded:
    spec = live.spec
    live.draft.clear()
    profile = spec.provider.profile
    parts: list[Part] = []
    calls = 0
    for part in reply.content:
        if isinstance(part, ToolCall):
            name = live.offered.original(part.name)
            parts.append(part.replace(key=f"r{action.round}c{calls}", name=name))
            calls += 1
        elif isinstance(part, Text):
            parts.append(part if part.text.isascii() else part.replace(text=clean(part.text)))
        elif not isinstance(part, Thinking) or spec.keep_thinking:
            parts.append(part)
    usage = reply.usage or _estimated(reply, sent_tokens, live)
    if reply.usage is not None:
        _learn(reply.usage, sent_tokens, live)
    message = Message("assistant", tuple(parts), reply.origin or profile.origin)
    return MessageAdded(message=message, usage=usage, stop_reason=reply.stop_reason, refuse_calls=action.final)


def _estimated(reply: Reply, sent_tokens: int, live: LiveTurn) -> Usage:
    meter = live.spec.meter
    size = meter.raw_message(Message("assistant", reply.content))
    return Usage(sent_tokens, meter.scaled(size.messages), estimated=True)


def _learn(usage: Usage, sent_tokens: int, live: LiveTurn) -> None:
    meter = live.spec.meter
    meter.learn(estimated=round(sent_tokens / meter.ratio), reported=usage.input_tokens)
