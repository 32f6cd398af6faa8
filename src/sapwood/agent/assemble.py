"""assemble: AgentConfig -> TurnSpec; the only place that knows every source."""

from collections.abc import Iterable

from sapwood.agent.config import DEFAULT_RESPONSE_TOKENS, AgentConfig
from sapwood.context.manager import ContextManager
from sapwood.context.meter import Calibration, Meter
from sapwood.context.source import ContextSource, SourceLike
from sapwood.core.budget import TokenBudget
from sapwood.core.cancel import CancelToken
from sapwood.core.decide import Policy
from sapwood.core.model import LLMProvider, ModelProfile, ToolLoading
from sapwood.core.transcript import Transcript
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.retry import RetryPolicy
from sapwood.loop.cache_watch import CacheWatch
from sapwood.loop.spec import TurnSpec
from sapwood.sources.system_prompt import SystemPromptSource
from sapwood.sources.toolset import ToolsetSource


def assemble(
    config: AgentConfig,
    provider: LLMProvider,
    history: Transcript,
    *,
    calibration: Calibration,
    watch: CacheWatch | None = None,
    cancel: CancelToken | None = None,
) -> TurnSpec:
    """Return what a turn of this agent needs."""
    profile = provider.profile
    window = _window(config, profile)
    reserve = _reserve(config, window, provider)
    budget = config.budget or TokenBudget(window, reserve)
    room = window - reserve
    return TurnSpec(
        provider=provider,
        context=ContextManager(sources=list(_sources(config)), budget=budget, trim_history=True),
        policy=Policy(max_rounds=config.max_rounds, final_round=True, window=room),
        meter=Meter.of(profile, config.count, calibration=calibration),
        history=history,
        window=room,
        tool_loading=_loading(profile),
        max_response_tokens=reserve,
        expose_errors=config.expose_errors,
        tool_timeout_seconds=config.tool_timeout,
        tool_result_max_tokens=config.tool_result_max_tokens,
        retry=RetryPolicy(max_retries=config.max_retries),
        cancel=cancel,
        cache=config.cache,
        watch=watch or CacheWatch(),
    )


def _sources(config: AgentConfig) -> Iterable[ContextSource | SourceLike]:
    if config.system_prompt is not None:
        yield SystemPromptSource(config.system_prompt)
    if config.tools:
        yield ToolsetSource(config.tools)
    yield from config.sources


def _window(config: AgentConfig, profile: ModelProfile) -> int:
    """Return the window to plan for: the smaller of what was asked and what the model has."""
    asked = config.budget.total_tokens if config.budget else config.max_tokens
    return min(asked, profile.context_window) if profile.context_window else asked


def _reserve(config: AgentConfig, window: int, provider: LLMProvider) -> int:
    """Return what is kept for the reply, which is its cap too, so that both always fit the window.

    A budget's own reserve counts before the agent's; in a window that is too small for it, half is kept.
    """
    first = provider.providers[0] if isinstance(provider, FallbackProvider) else provider
    asked = config.max_response_tokens
    if asked == DEFAULT_RESPONSE_TOKENS:
        asked = getattr(first, "max_tokens", None) or asked
    if config.budget is not None and config.budget.reserve_tokens:
        asked = config.budget.reserve_tokens
    return min(asked, max(1, window // 2))


def _loading(profile: ModelProfile) -> ToolLoading:
    """Return how found tools become callable; `deferred` and `inline` fall back to `dispatch`."""
    return "relist" if profile.tool_loading == "relist" else "dispatch"
