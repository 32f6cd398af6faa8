"""model_round: one model call. It streams, waits and tries again, hands over to a fallback, and owns the only draft.

Laws: a stream that ends without its Reply has broken off and is an error; the same model is asked again only
before something was shown; another one only where the round starts again and says so; the text of a reply cut
short is kept, marked partial.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from sapwood.context.plan import require_fit
from sapwood.context.render import ledger, measure, place_marks, render
from sapwood.core.context_edits import is_edited, is_summarised
from sapwood.core.decide import CallModel
from sapwood.core.errors import ConfigError, ContextOverflowError, LLMError, ServerError
from sapwood.core.events import (
    AgentEvent,
    MessageAdded,
    MessageInterrupted,
    ProviderWaiting,
    RoundRestarted,
    RoundStarted,
    ServerToolFinished,
    ServerToolStarted,
    TextDelta,
    ThinkingDelta,
)
from sapwood.core.ledger import ContextLedger, Section
from sapwood.core.messages import Message, Part, Text, Thinking, ToolCall
from sapwood.core.model import (
    LLMProvider,
    ModelRequest,
    Reply,
    RestartChunk,
    ServerCallChunk,
    ServerResultChunk,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
    ToolDeltaChunk,
    UsageChunk,
)
from sapwood.core.ports import Runtime
from sapwood.core.render_result import clean, small_value
from sapwood.core.run import Run
from sapwood.core.usage import Usage
from sapwood.llm.pricing import cost_of, price_of
from sapwood.llm.retry import retry_delay
from sapwood.loop.output_stream import OutputStream
from sapwood.loop.spec import LiveTurn
from sapwood.loop.words import final_notice

OVERFLOW_SHARE = 0.5
"""The share of a request that the provider found too long to which the next one is shortened."""


class _Asking:
    """How far the asking of one round has come: what is asked, how often, and what failed before.

    lost: what replies used that held nothing. failed: the errors so far, the oldest first.
    """

    def __init__(self, request: ModelRequest, sent: ContextLedger, rt: Runtime) -> None:
        self.request = request
        self.sent = sent
        self.attempt = 0
        self.began = rt.monotonic()
        self.lost = Usage()
        self.was_empty = False
        self.void = ""  # why what was shown is void
        self.failed: list[BaseException] = []


def model_round(action: CallModel, run: Run, live: LiveTurn, rt: Runtime) -> AsyncGenerator[AgentEvent, None]:
    """Return the events of a round: RoundStarted, the deltas, and at last the reply as MessageAdded.

    Raises ContextOverflowError before anything is sent where the request cannot fit; the events raise whatever the
    provider raises, and MessageInterrupted comes before that where text had been shown.
    """
    note = live.budget_note(run, rt.monotonic()) if live.spec.tells_budget else ""
    request, sections = compose(action, run, live, note=note)
    # Where nothing may shorten the history (guide D's manager), it is the caller's and goes out as it is.
    fixed = ("system", "skills", "tools", "memory", "prompt")
    trims = live.spec.context.trim_history
    require_fit({str(name): size for name, size in sections.items() if trims or name in fixed}, live.spec.window)
    sent = ledger(sections, run.lines, window=live.spec.window)
    return _asked(request, sent, action, run, live, rt)


async def _asked(
    request: ModelRequest, sent: ContextLedger, action: CallModel, run: Run, live: LiveTurn, rt: Runtime
) -> AsyncGenerator[AgentEvent, None]:
    """Ask until there is a reply, or nothing more to be done about an error."""
    asking = _Asking(request, sent, rt)
    for inspect in live.spec.inspectors:
        inspect(request, sent)
    with live.reserved(sent.estimated_tokens) as held:
        yield RoundStarted(
            round=action.round, max_rounds=live.spec.policy.max_rounds, ledger=sent, wrap_up=action.wrap_up
        )
        while True:
            try:
                async with aclosing(_streamed(request, action, live, rt)) as events:
                    async for event in events:
                        if not isinstance(event, Reply):
                            yield event
                        elif not _is_asked_again(event, request, asking, live):
                            _watch(event, request, run, live, rt)
                            held.give_back()
                            yield _added(event, request, action, sent.estimated_tokens, asking, live)
                            return
                continue
            except (LLMError, ConfigError, ConnectionError, TimeoutError) as error:
                outcome = _after(error, action.round, run, asking, live, rt)
                if outcome is None:
                    if (interrupted := _interrupted(live, type(error).__name__)) is not None:
                        if isinstance(error, LLMError):
                            error.partial = interrupted.message if interrupted.message.text else None
                        held.give_back()
                        yield interrupted
                    raise
            if isinstance(outcome, ProviderWaiting):
                yield outcome
                await rt.sleep(outcome.seconds)
            elif outcome.reason:
                yield outcome
                if outcome.room:
                    return


def compose(action: CallModel, run: Run, live: LiveTurn, *, note: str = "") -> tuple[ModelRequest, dict[Section, int]]:
    """Return the request of a model call, and its estimated tokens by section. note: a word to end with."""
    spec = live.spec
    words = [final_notice(action)] if action.final and (action.tool_choice or spec.output is not None) else []
    past, _ = live.totals(run)
    request = render(
        action,
        run,
        live.fixed,
        live.transcript(run),
        loaded=live.loaded(run),
        bare=live.bare(run),
        max_tokens=spec.max_response_tokens,
        notice="\n".join([*words, note] if note else words) or None,
        output_schema=spec.output_schema(action.output),
        context_edits=spec.context_edits,
    )
    sections = measure(request, run, live.fixed, spec.meter, past=past, prompt=live.prompt_totals(run))
    return place_marks(request, sections, live.provider.profile, spec.cache, fixed=live.fixed), sections


def _after(
    error: Exception, round: int, run: Run, asking: _Asking, live: LiveTurn, rt: Runtime
) -> ProviderWaiting | RoundRestarted | None:
    """Return what is done about an error: wait, start again with another model or a shorter history; None to raise.

    A restart without a reason is one that nobody needs to be told of: nothing had been shown.
    """
    shown, origin = bool(live.draft), live.provider.profile.origin
    if isinstance(error, ConfigError):
        return _passed_over(error, round, asking, live)
    asking.failed.append(error)
    if isinstance(error, ContextOverflowError):
        _learn_of(error, asking, live)
    if not shown:
        elapsed = rt.monotonic() - asking.began
        delay = retry_delay(error, asking.attempt, rt.random(), policy=live.spec.retry, elapsed_seconds=elapsed)
        if delay is not None:
            asking.attempt += 1
            return ProviderWaiting(round=round, seconds=delay, reason=str(error), model=origin, attempt=asking.attempt)
    usage = _draft_usage(live) if shown else None
    if live.hand_over(error):
        asking.attempt = 0
        reason = asking.void = type(error).__name__ if shown else ""
        live.draft_usage = None
        live.draft.clear()
        return RoundRestarted(round=round, reason=reason, model=live.provider.profile.origin, usage=usage)
    if isinstance(error, ContextOverflowError) and not shown and live.can_shorten(run):
        return RoundRestarted(round=round, reason=type(error).__name__, room=_shorter_room(error, run, live))
    for earlier in asking.failed[:-1]:
        if str(earlier) != str(error):
            error.add_note(f"before it: {earlier}")
    return None


def _learn_of(error: ContextOverflowError, asking: _Asking, live: LiveTurn) -> None:
    """Correct the meter by what a provider told of a request that it found too long, and tell our sizes of it."""
    error.sizes = error.sizes or dict(asking.sent.sections)
    if live.provider.profile.origin != live.spec.provider.profile.origin:
        return
    if error.requested_tokens is not None:
        live.fixed.learn(asking.request, error.requested_tokens)
    if error.limit_tokens is not None:
        live.spec.meter.learn_limit(error.limit_tokens)


def _shorter_room(error: ContextOverflowError, run: Run, live: LiveTurn) -> int:
    """Return the tokens, as the meter counts them, to which a request that was found too long is shortened.

    That is what the provider named, less the reserve for the reply; half of the request where it named nothing, or
    where what it named is not less than the request seems to have.
    """
    estimate = live.next_call_estimate(run)
    half = max(1, int(estimate * OVERFLOW_SHARE))
    limit, requested = error.limit_tokens, error.requested_tokens
    if limit is None:
        return half
    goal = max(limit - (live.spec.max_response_tokens or 0), limit // 2)
    size = estimate if requested is None else requested
    return max(1, goal * estimate // size) if goal < size else half


def _passed_over(error: ConfigError, round: int, asking: _Asking, live: LiveTurn) -> RoundRestarted | None:
    """Return the next step where a fallback cannot take this request at all, such as one with pictures."""
    if not asking.failed:
        return None
    last = asking.failed[-1]
    last.add_note(f"its fallback {live.provider.profile.origin} could not take over: {error}")
    if live.hand_over(last):
        return RoundRestarted(round=round, reason=asking.void, model=live.provider.profile.origin)
    raise last


async def _streamed(
    request: ModelRequest, action: CallModel, live: LiveTurn, rt: Runtime
) -> AsyncGenerator[AgentEvent | Reply, None]:
    provider = live.provider
    draft = live.draft
    draft.clear()
    live.draft_usage = None
    output = OutputStream(live.spec.output, action.output)
    complete = False
    try:
        async with aclosing(rt.stream("model", provider.stream, request)) as chunks:
            async for chunk in chunks:
                if type(chunk) is TextChunk:
                    draft.append(chunk.text)
                    yield TextDelta(text=chunk.text)
                    if (so_far := output.take_text(chunk.text)) is not None:
                        yield so_far
                elif type(chunk) is ThinkingChunk:
                    draft.append("")
                    yield ThinkingDelta(text=chunk.text)
                elif type(chunk) is Reply:
                    complete = True
                    calls = [live.offered.meant(part) for part in chunk.content if isinstance(part, ToolCall)]
                    if (so_far := output.finish(calls)) is not None:
                        yield so_far
                    yield chunk
                elif (event := _other(chunk, action.round, output, live)) is not None:
                    yield event
        if not complete:
            raise _broke_off(provider)
    except (LLMError, ConfigError, ConnectionError, TimeoutError):
        raise
    except BaseException as error:
        # Closed, cancelled or broken: no yield is possible now, so run_turn folds this in its `finally`.
        if not complete:
            live.interrupted = _interrupted(live, type(error).__name__)
        raise


def _other(chunk: StreamChunk, round: int, output: OutputStream, live: LiveTurn) -> AgentEvent | None:
    """Return the event of one of the rarer chunks."""
    match chunk:
        case ToolDeltaChunk(index=index, name=name, text=text):
            so_far = output.take_call(index, name, text)
            if so_far is not None:
                live.draft.append("")  # something was shown, so a new attempt has to be told of
            return so_far
        case UsageChunk(usage=usage):
            live.draft_usage = usage
            return None
        case ServerCallChunk(id=id, name=name, arguments=arguments):
            live.draft.append("")
            return ServerToolStarted(tool_call_id=id, name=name, tool_input=arguments)
        case ServerResultChunk(id=id, name=name, result=result, is_error=is_error):
            return ServerToolFinished(tool_call_id=id, name=name, value=small_value(result), is_error=is_error)
        case RestartChunk(reason=reason, origin=origin):
            used = _draft_usage(live)
            live.draft_usage = None
            live.draft.clear()
            output.restart()
            return RoundRestarted(round=round, reason=reason, model=origin, usage=used)
        case _:
            return None


def _draft_usage(live: LiveTurn) -> Usage | None:
    """Return what the reply that streams has used so far, with its cost; None where the provider told nothing."""
    return None if live.draft_usage is None else _priced(live.draft_usage, live.provider.profile.origin)


def _broke_off(provider: LLMProvider) -> ServerError:
    return ServerError(
        "the stream ended early, before the reply was complete",
        provider=provider.profile.provider,
        model=provider.profile.model,
    )


def _watch(reply: Reply, request: ModelRequest, run: Run, live: LiveTurn, rt: Runtime) -> None:
    if reply.usage is not None and not is_edited(Message("assistant", reply.content)):
        origin = reply.origin or live.provider.profile.origin
        live.spec.watch.note(origin, request, reply.usage, now=rt.monotonic(), run_id=run.run_id)


def _is_asked_again(reply: Reply, request: ModelRequest, asking: _Asking, live: LiveTurn) -> bool:
    """Tell whether nothing at all, in answer to the user, is asked for once more; the second time it is the answer.

    After tool results a model may well have nothing to add.
    """
    is_empty = not reply.content and reply.stop_reason == "stop" and not live.draft
    is_first = len(request.transcript) > 0 and request.transcript[-1].role == "user"
    if not is_empty or not is_first or asking.was_empty or not live.spec.retry.max_retries:
        return False
    asking.was_empty = True
    asking.lost = asking.lost + _priced(
        reply.usage or Usage(), reply.origin or live.provider.profile.origin, reply.model
    )
    return True


def _interrupted(live: LiveTurn, reason: str) -> MessageInterrupted | None:
    text, usage = "".join(live.draft), _draft_usage(live)
    live.draft.clear()
    live.draft_usage = None
    if not text and usage is None:
        return None
    origin = live.provider.profile.origin
    message = Message("assistant", (Text(text),) if text else (), origin, partial=True)
    return MessageInterrupted(message=message, reason=reason, usage=usage)


def _added(
    reply: Reply, request: ModelRequest, action: CallModel, sent_tokens: int, asking: _Asking, live: LiveTurn
) -> MessageAdded:
    spec = live.spec
    live.draft.clear()
    live.draft_usage = None
    origin = reply.origin or live.provider.profile.origin
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
    usage = _priced(reply.usage or _estimated(reply, sent_tokens, live), origin, reply.model)
    message = Message("assistant", tuple(parts), origin)
    if reply.usage is not None and origin == spec.provider.profile.origin and not _is_edited(request, message):
        live.fixed.learn(request, reply.usage.input_tokens)
    return MessageAdded(
        message=message,
        usage=asking.lost + usage,
        stop_reason=reply.stop_reason,
        refuse_calls=action.final,
        takes_output=action.output == "tool",
    )


def _is_edited(request: ModelRequest, reply: Message) -> bool:
    """Tell whether the provider counted less than was sent: it edited the context now, or summarised it before."""
    return is_edited(reply) or (bool(request.context_edits) and any(map(is_summarised, request.transcript)))


def _priced(usage: Usage, origin: str, answered: str = "") -> Usage:
    """Return the usage with its cost: as billed, or by the price of the model that was asked or that answered."""
    if usage.cost_usd is not None:
        return usage
    provider, _, model = origin.partition("/")
    if answered and price_of(provider, model) is None and price_of(provider, answered) is not None:
        model = answered
    return usage.replace(cost_usd=cost_of(usage, provider, model))


def _estimated(reply: Reply, sent_tokens: int, live: LiveTurn) -> Usage:
    meter = live.spec.meter
    size = meter.raw_message(Message("assistant", reply.content))
    return Usage(sent_tokens, meter.scaled(size.messages), estimated=True)
