"""run_agent: guide D's loop, as a generator of parts over the one loop of this library.

Laws: with `context`, the options memory, recall, remember and lazy_toolset are ignored; without it they build
the matching sources, and their failures reach the caller; the messages passed in are not changed.
Source: guide D, "The agent loop".
"""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Required, TypeAlias, TypedDict, Unpack, cast

from sapwood.agent.prompt import History, Prompt, to_history, to_prompt
from sapwood.context.manager import ContextManager
from sapwood.context.meter import Meter
from sapwood.context.source import ContextSource, SourceLike
from sapwood.core.budget import Budget
from sapwood.core.cancel import CancelToken
from sapwood.core.decide import Policy
from sapwood.core.errors import ConfigError
from sapwood.core.events import ServerToolStarted, ToolStarted
from sapwood.core.memory import RecallOptions
from sapwood.core.model import LLMProvider
from sapwood.core.parts import AgentPart, to_part
from sapwood.core.ports import MemoryStore
from sapwood.core.tool_forms import ToolLike
from sapwood.core.tools import MaybeAwaitable
from sapwood.core.transcript import Transcript
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.sources.lazy_tools import LazyToolset, lazy_tool_source
from sapwood.sources.memory import MemorySource, MemorySourceOptions, Remember
from sapwood.sources.system_prompt import SystemPromptSource
from sapwood.sources.toolset import ToolsetSource

DEFAULT_MAX_STEPS = 10
DEFAULT_MAX_TOKENS = 4_096

Execute: TypeAlias = Callable[[str, dict[str, Any]], MaybeAwaitable[Any]]


class RunAgentOptions(TypedDict, total=False):
    """The options of `run_agent`.

    client: one of our providers, or any Anthropic-like client: an object with `messages.stream(**body)`.
    model: the model's name, for a client. tools: in any provider's form; AgentTools run by themselves.
    execute: runs the other tools: (own name, arguments) -> any JSON value, plain or async.
    prompt: the user's message; it follows `messages`. system: the system prompt.
    max_steps: model calls at most (10); the calls of the last step still run. max_tokens: of a reply (4,096).
    signal: stops the turn, from any thread. context: a manager that owns recall, tools and history.
    memory, recall, remember, lazy_toolset: the same on their own, without `context`.
    keep_thinking: False drops all thinking from what is sent back; by default signed thinking is kept.
    tool_timeout: seconds for each tool, None for no limit.
    """

    client: Required[Any]
    model: str
    tools: Iterable[ToolLike]
    execute: Execute
    prompt: Prompt
    messages: History
    system: str
    max_steps: int
    max_tokens: int
    signal: CancelToken
    context: ContextManager
    memory: MemoryStore
    recall: RecallOptions
    remember: Remember
    lazy_toolset: LazyToolset
    keep_thinking: bool
    tool_timeout: float


async def run_agent(**options: Unpack[RunAgentOptions]) -> AsyncGenerator[AgentPart, None]:
    """Run the model-and-tool loop and yield its parts as they come.

    Text comes in deltas, and each tool call is one part. Closing the generator stops the model and the tools.

    Raises whatever the client raises, unchanged; RunCancelledError once `signal` is set; ConfigError for
    options that cannot work, before any call.

    >>> import asyncio
    >>> from sapwood.testing import scripted, says
    >>> async def main() -> str:
    ...     return "".join([part.text async for part in run_agent(client=scripted(says("Hi")), prompt="Hello")])
    >>> asyncio.run(main())
    'Hi'
    """
    unknown = set(options) - set(RunAgentOptions.__annotations__)
    if unknown:
        raise ConfigError(f"run_agent has no option {', '.join(sorted(unknown))}")
    if "client" not in options:
        raise ConfigError("run_agent needs client=: one of our providers, or any Anthropic-like client")
    cancel = options.get("signal")
    if cancel is not None:
        cancel.check()
    provider = _provider(options["client"], options.get("model"))
    history, prompt = _input(options)
    runtime = AsyncioRuntime(cancel=cancel)
    spec = _spec(options, provider, history)
    run = start_run(runtime.new_id())
    arguments: dict[str, dict[str, Any]] = {}
    with_context = options.get("context") is not None
    live = LiveTurn(run, spec)
    async with aclosing(run_turn(run, spec, runtime, prompt=prompt, live=live)) as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                arguments[event.key] = event.tool_input
            elif isinstance(event, ServerToolStarted):
                arguments[event.tool_call_id] = event.tool_input
            part = to_part(event, arguments, with_context=with_context)
            if part is not None:
                yield part


def _provider(client: Any, model: str | None) -> LLMProvider:
    if isinstance(client, LLMProvider):
        return client
    if hasattr(client, "messages"):
        if not model:
            raise ConfigError("give model= beside an Anthropic-like client, for example 'claude-haiku-4-5'")
        from sapwood.llm.anthropic.client import AnthropicClientProvider

        return cast("LLMProvider", AnthropicClientProvider(client, model))
    raise ConfigError(
        f"client must be a provider (create_provider(...)) or have messages.stream(), not {type(client).__name__}"
    )


def _input(options: RunAgentOptions) -> tuple[Transcript, Any]:
    """Return the history and the prompt: the option, or else the user's message that ends `messages`."""
    messages = to_history(options.get("messages", ()))
    prompt = options.get("prompt")
    if prompt is not None and prompt != "":
        return messages, to_prompt(prompt)
    if len(messages) and messages[-1].role == "user":
        return Transcript.of(messages[:-1]), messages[-1]
    return messages, None


def _spec(options: RunAgentOptions, provider: LLMProvider, history: Transcript) -> TurnSpec:
    context = options.get("context")
    given = context.sources if context is not None else _own_sources(options)
    sources: list[ContextSource | SourceLike] = []
    if system := options.get("system"):
        sources.append(SystemPromptSource(system))
    sources.extend(given)
    sources.append(ToolsetSource(options.get("tools", ()), yields_tools=True))
    budget = context.budget if context is not None else None
    manager = ContextManager(
        sources=sources,
        budget=budget,
        compact=context.compactor if context is not None else None,
        count_tools=context.count_tools if context is not None else True,
        on_error=context.on_error if context is not None else "raise",
    )
    count = budget.count if isinstance(budget, Budget) else None
    max_steps = options.get("max_steps", DEFAULT_MAX_STEPS)
    if max_steps < 1:
        raise ConfigError(f"max_steps must be at least 1, not {max_steps}")
    return TurnSpec(
        provider=provider,
        context=manager,
        policy=Policy(
            max_rounds=max_steps,
            final_round=False,
            compact_first=manager.compacts,
            compact_at=manager.compact_at(budget.room if budget is not None else 0),
        ),
        meter=Meter.of(provider.profile, count),
        history=history,
        window=budget.room if budget is not None else 0,
        tool_loading="relist",
        placement="system",
        max_response_tokens=options.get("max_tokens", DEFAULT_MAX_TOKENS),
        executor=options.get("execute"),
        expose_errors=False,
        tool_timeout_seconds=options.get("tool_timeout"),
        tool_result_max_tokens=None,
        cancel=options.get("signal"),
        keep_thinking=options.get("keep_thinking", True),
    )


def _own_sources(options: RunAgentOptions) -> Sequence[ContextSource]:
    sources: list[ContextSource] = []
    memory = options.get("memory")
    if memory is not None:
        settings = MemorySourceOptions(recall=options.get("recall", RecallOptions()), remember=options.get("remember"))
        sources.append(MemorySource(memory, settings))
    lazy = options.get("lazy_toolset")
    if lazy is not None:
        sources.append(lazy_tool_source(lazy))
    return sources
