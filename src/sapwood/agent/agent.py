"""Agent: the fluent face. Each `with_*` replaces one field of a frozen config; each turn is a `run_turn`.

Laws: no state of a turn lives here, so any number of turns may overlap on one Agent; `last_turn`,
`last_result`, `last_output` and `last_messages` are written once, together, when a turn ends.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import aclosing, closing
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from sapwood.agent.answers import Answers
from sapwood.agent.assemble import assemble, below, require_prices, without_summariser
from sapwood.agent.config import DEFAULT_MODEL, DEFAULT_RESPONSE_TOKENS, AgentConfig
from sapwood.agent.durable import history_of, resumed_turn, stored_turn
from sapwood.agent.fluent import Configured
from sapwood.agent.models import models_of, ttl_of
from sapwood.agent.output import Output, value_of
from sapwood.agent.paused import PausedRuns
from sapwood.agent.prompt import History, Prompt, to_history, to_prompt
from sapwood.agent.subagents import agent_tool
from sapwood.context.meter import Calibration
from sapwood.context.result import ContextResult
from sapwood.context.tokenizer import Tokenizer
from sapwood.core.approval import Answer
from sapwood.core.cancel import CancelToken
from sapwood.core.diagnostics import Cause, TurnDiagnostics
from sapwood.core.errors import ConfigError, RunCancelledError
from sapwood.core.events import AgentEvent, TextDelta
from sapwood.core.ledger import ContextLedger
from sapwood.core.model import CacheTtl, LLMProvider, ModelRequest
from sapwood.core.ports import Runtime
from sapwood.core.transcript import Transcript
from sapwood.llm.fallback import FallbackProvider
from sapwood.loop.cache_watch import CacheWatch
from sapwood.loop.gate import Grants
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.start import finished_transcript, start_run
from sapwood.loop.turn import first_request, run_turn
from sapwood.runtime.blocking import BlockingRuntime, iterate

if TYPE_CHECKING:
    from sapwood.core.agent_tool import AgentTool
    from sapwood.runtime.private_loop import PrivateLoops

T = TypeVar("T")


class _Last(msgspec.Struct, frozen=True):
    diagnostics: TurnDiagnostics
    result: ContextResult
    live: LiveTurn


class Agent(Configured):
    """A model with tools, memory and a context that always fits.

    model: `provider/model`; without a provider it is Anthropic's. api_key, base_url: None reads the provider's
    usual environment variables at the first call. llm: a provider to use in place of all these.
    fallbacks: models to try, in order, where this one does not answer: names, or providers with keys and options
    of their own. cache: how long the provider keeps the prompt's stable beginning, "5m" or "1h"; True is "5m",
    False says nothing of caching.
    max_tokens: the window to plan for; the model's own where that is smaller. max_response_tokens: kept free
    in it for the reply, and the cap on the reply; left at 1,024, the `max_tokens` that a provider object was given
    stands in its place. A model that thinks gets room for that on top.
    max_rounds: model calls in a turn.
    tool_timeout: seconds for a tool that says none itself, None for no limit.
    tool_result_max_tokens: a longer result is cut in its middle; None for no limit.
    tokenizer: an exact counter; None estimates and learns from what the provider reports.
    expose_errors: a tool's exception shows the model its type and message, paths and secrets masked.
    max_retries: tries after the first for a failure that may pass.

    Raises ConfigError for a value that cannot work.

    >>> from sapwood.testing import scripted, says
    >>> agent = Agent(llm=scripted(says("Hello!"))).with_system_prompt("Be brief.")
    >>> "".join(agent.chat("Hi"))
    'Hello!'
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        *,
        api_key: str | None = None,
        llm: LLMProvider | None = None,
        fallbacks: Sequence[str | LLMProvider] | None = None,
        max_tokens: int = 16_384,
        max_response_tokens: int = DEFAULT_RESPONSE_TOKENS,
        max_rounds: int = 10,
        allow_skill_scripts: bool = False,
        tool_timeout: float | None = None,
        tool_result_max_tokens: int | None = 10_000,
        tokenizer: Tokenizer | None = None,
        base_url: str | None = None,
        expose_errors: bool = True,
        max_retries: int = 2,
        cache: bool | CacheTtl = True,
    ) -> None:
        config = AgentConfig(
            model=model,
            api_key=api_key,
            base_url=base_url,
            llm=llm,
            fallbacks=models_of(fallbacks),
            max_tokens=max_tokens,
            max_response_tokens=max_response_tokens,
            max_rounds=max_rounds,
            allow_skill_scripts=allow_skill_scripts,
            tool_timeout=tool_timeout,
            tool_result_max_tokens=tool_result_max_tokens,
            tokenizer=tokenizer,
            expose_errors=expose_errors,
            max_retries=max_retries,
            cache=ttl_of(cache),
        )
        super().__init__(config)
        self._calibration = Calibration()
        self._watch = CacheWatch()
        self._loops: PrivateLoops | None = None
        self._last: _Last | None = None
        self._grants = Grants()
        self._paused = PausedRuns()

    # -- turns -----------------------------------------------------------------------------------

    def chat(
        self, prompt: Prompt, *, messages: History = (), cancel: CancelToken | None = None
    ) -> Generator[str, None, None]:
        """Yield the answer's text as it arrives; tools run in this thread.

        prompt: a text, or a list of texts, images and files. messages: the history, which is not changed;
        pass `last_messages` to go on. cancel: stops the turn from another thread.

        Raises LLMError where the model does not answer, TypeError where something async is met while an
        event loop runs in this thread.
        """
        with closing(self.stream(prompt, messages=messages, cancel=cancel)) as events:
            for event in events:
                if type(event) is TextDelta and not event.path:
                    yield event.text

    async def achat(
        self, prompt: Prompt, *, messages: History = (), cancel: CancelToken | None = None
    ) -> AsyncGenerator[str, None]:
        """Yield the answer's text as it arrives; as `chat`, on the running event loop."""
        async with aclosing(self.astream(prompt, messages=messages, cancel=cancel)) as events:
            async for event in events:
                if type(event) is TextDelta and not event.path:
                    yield event.text

    def stream(
        self,
        prompt: Prompt,
        *,
        messages: History = (),
        cancel: CancelToken | None = None,
        run_id: str | None = None,
    ) -> Generator[AgentEvent, None, None]:
        """Yield the events of a turn; see `chat`. It works inside a running event loop with plain tools.

        run_id: names the run. A run store takes each once and raises ConflictError for the second, so that a prompt
        that is sent again after a failure of the network does not run twice. None makes a new one.
        """
        runtime = BlockingRuntime(loops=self._private_loops, cancel=cancel)
        events = self._events(prompt, messages, cancel, runtime, run_id=run_id)
        return cast("Generator[AgentEvent, None, None]", iterate(events))  # iterate is a generator function

    def astream(
        self,
        prompt: Prompt,
        *,
        messages: History = (),
        cancel: CancelToken | None = None,
        run_id: str | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield the events of a turn on the running event loop; read-only tools of one reply overlap.

        run_id: see `stream`.
        """
        from sapwood.runtime.aio import AsyncioRuntime

        return self._events(prompt, messages, cancel, AsyncioRuntime(cancel=cancel), run_id=run_id)

    def run(self, prompt: Prompt, *, messages: History = (), cancel: CancelToken | None = None) -> Any:
        """Run a turn to its end and return its structured output: the validated instance itself.

        Raises ConfigError without `with_output_model`, OutputMissingError where the turn ends without a valid output,
        RunPausedError where it waits for a person.
        """
        output, ended = self._output(), list[LiveTurn]()
        runtime = BlockingRuntime(loops=self._private_loops, cancel=cancel)
        for _ in iterate(self._events(prompt, messages, cancel, runtime, ended.append)):
            pass
        return value_of(ended[-1], output)

    async def arun(self, prompt: Prompt, *, messages: History = (), cancel: CancelToken | None = None) -> Any:
        """Run a turn to its end and return its structured output, as `run` does, on the running event loop."""
        from sapwood.runtime.aio import AsyncioRuntime

        output, ended = self._output(), list[LiveTurn]()
        turn = self._events(prompt, messages, cancel, AsyncioRuntime(cancel=cancel), ended.append)
        async with aclosing(turn) as events:
            async for _ in events:
                pass
        return value_of(ended[-1], output)

    def resume(
        self,
        run_id: str,
        decisions: Mapping[str, Answer] | None = None,
        *,
        extend: Mapping[str, float] | None = None,
        by: str | None = None,
        cancel: CancelToken | None = None,
    ) -> Generator[AgentEvent, None, None]:
        """Yield the events of a turn that goes on: after a pause, a crash or an error, in any process.

        decisions: an ApprovalDecision (or, for a tool that runs outside, an ExternalResult) by the `id` of the request
        in `last_turn.waiting`. Calls without one keep waiting, and the turn pauses again. extend: for a turn that
        paused at a limit, how much more is allowed, by kind (`{"total_tokens": 20_000}`); `{}` lets the limits stand,
        and the turn wraps up. by: who answers, for the record.

        A run that is not in this Agent's memory comes from its run store (`with_run_store`, `with_conversation`).
        Raises ConfigError for an answer to what was never asked or of the wrong kind, RunPausedError where nothing was
        answered, ConflictError where somebody else goes on with the run, or was first: it is answered, or has ended.
        """
        runtime = BlockingRuntime(loops=self._private_loops, cancel=cancel)
        events = self._resumed(run_id, Answers(decisions or {}, extend, by), cancel, runtime)
        return cast("Generator[AgentEvent, None, None]", iterate(events))  # iterate is a generator function

    def aresume(
        self,
        run_id: str,
        decisions: Mapping[str, Answer] | None = None,
        *,
        extend: Mapping[str, float] | None = None,
        by: str | None = None,
        cancel: CancelToken | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        """Yield the events of a turn that goes on, as `resume` does, on the running event loop."""
        from sapwood.runtime.aio import AsyncioRuntime

        return self._resumed(run_id, Answers(decisions or {}, extend, by), cancel, AsyncioRuntime(cancel=cancel))

    def count_tokens(self, prompt: Prompt, *, messages: History = (), exact: bool = False) -> int:
        """Return the tokens of the first request that `chat` would send: system text, tools, history and prompt.

        exact: ask the provider, which takes a request of its own; else the estimate, corrected by what the model
        has reported so far. Memory is searched, nothing is saved.

        Raises ConfigError where the provider has no endpoint that counts, LLMError where it does not answer.

        >>> from sapwood.testing import scripted
        >>> Agent(llm=scripted()).with_system_prompt("Be brief.").count_tokens("How much is this?")
        10
        """
        runtime = BlockingRuntime(loops=self._private_loops)
        steps = iterate(_alone(self._request(prompt, messages, runtime)))
        request, ledger = next(steps)
        return cast("int", self._counter("count_tokens")(request)) if exact else ledger.estimated_tokens

    async def acount_tokens(self, prompt: Prompt, *, messages: History = (), exact: bool = False) -> int:
        """Return the tokens of the first request, as `count_tokens` does, on the running event loop."""
        from sapwood.runtime.aio import AsyncioRuntime

        request, ledger = await self._request(prompt, messages, AsyncioRuntime())
        return cast("int", await self._counter("acount_tokens")(request)) if exact else ledger.estimated_tokens

    def preview(self, prompt: Prompt, *, messages: History = ()) -> ContextResult:
        """Return the context that the first model call of this turn would get, with its ledger; no model is asked.

        Memory is searched, nothing is saved. A summary that would be due is a checklist here. Where the request could
        not be sent, its ledger is over its window.

        >>> from sapwood.testing import scripted
        >>> Agent(llm=scripted()).with_system_prompt("Be brief.").preview("Hello?").ledger.sections["system"]
        2
        """
        steps = iterate(_alone(self._request(prompt, messages, BlockingRuntime(loops=self._private_loops))))
        return _shown(*next(steps))

    async def apreview(self, prompt: Prompt, *, messages: History = ()) -> ContextResult:
        """Return the context of the first model call, as `preview` does, on the running event loop."""
        from sapwood.runtime.aio import AsyncioRuntime

        return _shown(*await self._request(prompt, messages, AsyncioRuntime()))

    def close(self) -> None:
        """Close the private event loop on which `chat` runs async tools; a later turn opens a new one."""
        if self._loops is not None:
            self._loops.close()

    # -- the last turn ---------------------------------------------------------------------------

    @property
    def last_turn(self) -> TurnDiagnostics | None:
        """What the turn that ended last reports; None before the first."""
        return self._last.diagnostics if self._last else None

    @property
    def last_result(self) -> ContextResult | None:
        """The context of the turn that ended last; None before the first."""
        return self._last.result if self._last else None

    @property
    def last_output(self) -> str | None:
        """The JSON text of the structured output of the turn that ended last; None where there is none."""
        return self._last.live.run.output if self._last else None

    @property
    def last_messages(self) -> Transcript:
        """The history with the messages of the turn that ended last: pass it as `messages=` to go on."""
        if self._last is None:
            return Transcript()
        live = self._last.live
        if live.run.phase == "ended":
            return live.transcript(live.run)
        return finished_transcript(live.spec.history, live.run)

    @property
    def approvals(self) -> Grants:
        """The answers that are remembered (`ApprovalDecision.remember`): list them, or take them back."""
        return self._grants

    def as_tool(
        self,
        name: str,
        description: str,
        *,
        output_model: Any = None,
        max_output_retries: int = 1,
        timeout: float | None = None,
    ) -> "AgentTool":
        """Return this agent as a tool `name(task)` for another agent; see `with_subagents` for what it inherits.

        Each call is a turn of its own, with this agent's model, tools and output model. output_model: the answer is
        the JSON of this; for the tool alone. timeout: seconds for one, without the time that a person takes to answer.
        Called as a plain function, it returns the text.
        """
        agent = self
        if output_model is not None:
            agent = copy(self).with_output_model(output_model, max_output_retries=max_output_retries)
        return agent_tool(agent, name, description, timeout)

    # -- inside ----------------------------------------------------------------------------------

    def child_spec(
        self, parent: LiveTurn, path: tuple[str, ...], name: str, *, timeout: float | None, inherits: bool
    ) -> TurnSpec:
        """Return what a turn of this agent needs as a subagent of another turn.

        inherits: it asks the caller's model.
        """
        provider = parent.spec.provider if inherits else self._llm()
        config = self._config.changed(
            turn_limits=self._config.turn_limits.narrowed(self._config.usage_limits)
            if self._config.turn_limits is not None
            else self._config.usage_limits
        )
        require_prices(parent.spec.pool.limits, provider)
        spec = assemble(config, provider, Transcript(), calibration=self._calibration, watch=self._watch)
        return below(spec, parent, path, name, timeout=timeout, inherits=inherits)

    def _events(
        self,
        prompt: Prompt,
        messages: History,
        cancel: CancelToken | None,
        runtime: Runtime,
        tell: Callable[[LiveTurn], None] | None = None,
        run_id: str | None = None,
    ) -> AsyncGenerator[AgentEvent, None]:
        def ended(live: LiveTurn) -> None:
            self._ended(live)
            if tell is not None:
                tell(live)

        message = to_prompt(prompt)
        history = to_history(messages)
        make, keeping = self._maker(cancel), self.keeping
        if keeping.runs is not None or keeping.conversations is not None:
            return stored_turn(
                keeping, make, message, history, runtime, on_end=ended, paused=self._paused, run_id=run_id
            )
        spec = make(history)
        run = start_run(run_id or runtime.new_id())
        live = LiveTurn(run, spec, on_end=ended)
        return run_turn(run, spec, runtime, prompt=message, live=live)

    def _resumed(
        self, run_id: str, answers: Answers, cancel: CancelToken | None, runtime: Runtime
    ) -> AsyncGenerator[AgentEvent, None]:
        make = self._maker(cancel)
        if run_id in self._paused:
            return self._paused.resumed(make, run_id, answers, runtime, on_end=self._ended)
        return resumed_turn(self.keeping, make, run_id, answers, runtime, on_end=self._ended)

    def _output(self) -> Output:
        if self._config.output is None:
            raise ConfigError("run() returns a structured output; say which with with_output_model(...)")
        return self._config.output

    def _maker(self, cancel: CancelToken | None) -> Callable[[Transcript], TurnSpec]:
        """Return what makes the spec of a turn from its history; the configuration is that of now."""
        config, provider, scope = self._config, self._llm(), self.keeping.conversation_id or ""

        def make(history: Transcript) -> TurnSpec:
            return assemble(
                config,
                provider,
                history,
                calibration=self._calibration,
                watch=self._watch,
                cancel=cancel,
                grants=self._grants,
                scope=scope,
            )

        return make

    async def _request(self, prompt: Prompt, messages: History, runtime: Runtime) -> tuple[ModelRequest, ContextLedger]:
        history = to_history(messages)
        if not len(history):
            history = await history_of(self.keeping, runtime)
        spec = assemble(without_summariser(self._config), self._llm(), history, calibration=self._calibration)
        return await first_request(start_run(runtime.new_id()), spec, runtime, prompt=to_prompt(prompt))

    def _counter(self, name: str) -> Callable[[ModelRequest], Any]:
        provider = self._llm()
        first = provider.providers[0] if isinstance(provider, FallbackProvider) else provider
        counter: Callable[[ModelRequest], Any] | None = getattr(first, name, None)
        if counter is None:
            raise ConfigError(f"{first.profile.origin} cannot count tokens; leave exact= out for an estimate")
        return counter

    def _private_loops(self) -> "PrivateLoops":
        if self._loops is None:
            from sapwood.runtime.private_loop import PrivateLoops

            self._loops = PrivateLoops()
        return self._loops

    def _ended(self, live: LiveTurn) -> None:
        run = live.run
        if run.phase == "paused" and self.keeping.runs is None:
            self._paused.keep(run, live.spec.history, self.keeping)
        cause: Cause = run.stopped_by or _cause(live.error)
        error = f"{type(live.error).__name__}: {live.error}" if isinstance(live.error, Exception) else None
        first = run.rounds[0].ledger if run.rounds else run.ledger
        result = ContextResult(system=live.offered.system_texts, messages=live.messages(run), ledger=first)
        self._last = _Last(run.diagnostics(cause, error), result, live)


def _shown(request: ModelRequest, ledger: ContextLedger) -> ContextResult:
    return ContextResult(system=request.system, messages=request.transcript, ledger=ledger)


async def _alone(value: Coroutine[Any, Any, T]) -> AsyncGenerator[T, None]:
    yield await value


def _cause(error: BaseException | None) -> Cause:
    """Return why a turn ended that did not finish: closing and cancelling are no `Exception`."""
    if isinstance(error, Exception) and not isinstance(error, RunCancelledError):
        return "error"
    return "cancelled"
