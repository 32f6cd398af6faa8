"""assemble: AgentConfig -> TurnSpec; the only place that knows every source."""

import warnings
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from sapwood.agent.config import DEFAULT_RESPONSE_TOKENS, AgentConfig
from sapwood.agent.context_management import ladder_options, native_edits
from sapwood.agent.subagents import Subagent, spawners
from sapwood.context.manager import ContextManager
from sapwood.context.meter import Calibration, Meter
from sapwood.context.source import ContextSource, SourceLike
from sapwood.context.steps import narrowed
from sapwood.context.summarise import ModelSummariser
from sapwood.core.budget import TokenBudget
from sapwood.core.cancel import CancelToken
from sapwood.core.decide import Policy
from sapwood.core.errors import ConfigError
from sapwood.core.limits import UsageLimits
from sapwood.core.model import LLMProvider, ModelProfile, OutputMode, ToolLoading
from sapwood.core.tool_forms import schema_of
from sapwood.core.tools import BoundTool
from sapwood.core.transcript import Transcript
from sapwood.core.usage import Usage
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.forced_choice import can_force
from sapwood.llm.pricing import cost_of
from sapwood.llm.retry import RetryPolicy
from sapwood.loop.cache_watch import CacheWatch
from sapwood.loop.gate import Gate, Grants
from sapwood.loop.pool import UsagePool
from sapwood.loop.spec import LiveTurn, TurnSpec
from sapwood.sources.compaction import CompactionSource
from sapwood.sources.memory_tool import MEMORY
from sapwood.sources.output import OutputSource
from sapwood.sources.subagents import SubagentSource
from sapwood.sources.system_prompt import SystemPromptSource
from sapwood.sources.toolset import ToolsetSource

N = TypeVar("N", int, float)


def assemble(
    config: AgentConfig,
    provider: LLMProvider,
    history: Transcript,
    *,
    calibration: Calibration,
    watch: CacheWatch | None = None,
    cancel: CancelToken | None = None,
    grants: Grants | None = None,
    scope: str = "",
) -> TurnSpec:
    """Return what a turn of this agent needs."""
    profile = provider.profile
    window = _window(config, profile, calibration)
    reserve = _reserve(config, window, provider)
    room = window - reserve
    _check(config, provider)
    output_mode, is_forced = _output_mode(config, provider), can_force(provider)
    edits = native_edits(config.context_edits, (item.profile for item in _chain(provider)), room=room)
    inherited = tuple(_compaction(config, provider, edits, room))
    sources = [*_sources(config), *inherited]
    if config.output is not None and output_mode is not None:
        sources.append(OutputSource(config.output.type, mode=output_mode, is_forced=is_forced))
    context = ContextManager(sources=sources, budget=config.budget or TokenBudget(window, reserve), trim_history=True)
    _warn_of_unknown_allocations(context)
    policy = _policy(config, context, room, output_mode, forces=is_forced)
    return TurnSpec(
        provider=provider,
        context=context,
        policy=policy,
        meter=Meter.of(profile, config.count, calibration=calibration),
        history=history,
        window=room,
        tool_loading=_loading(provider),
        max_response_tokens=reserve,
        expose_errors=config.expose_errors,
        tool_timeout_seconds=config.tool_timeout,
        tool_result_max_tokens=config.tool_result_max_tokens,
        retry=RetryPolicy(max_retries=config.max_retries),
        cancel=cancel,
        cache=config.cache,
        watch=watch or CacheWatch(),
        gate=_gate(config, grants or Grants(), scope),
        pool=UsagePool(config.usage_limits),
        children=spawners(config.subagents, agent_tools(config)),
        output=config.output,
        tells_budget=config.remaining_budget,
        max_depth=config.max_depth,
        inherited=inherited,
        retrieval_scope=config.retrieval_scope,
        inspectors=config.inspectors,
        context_edits=edits,
    )


def _policy(
    config: AgentConfig, context: ContextManager, room: int, output: OutputMode | None, *, forces: bool
) -> Policy:
    return Policy(
        max_rounds=config.max_rounds,
        final_round=True,
        window=room,
        limits=config.turn_limits,
        notices_stuck=True,
        output=output,
        max_output_retries=config.max_output_retries,
        forces_output=forces,
        compact_at=context.compact_at(room),
    )


def _compaction(
    config: AgentConfig, provider: LLMProvider, native: tuple[dict[str, Any], ...], room: int
) -> Iterable[ContextSource]:
    origin = provider.profile.origin
    options = ladder_options(config.context_edits, native, config.compaction, room=room, origin=origin)
    if options is None:
        return
    if not config.compacts_itself and options.summarise is not None:  # the agent's own model writes the summary
        options = msgspec.structs.replace(options, summarise=ModelSummariser(provider))
    yield CompactionSource(options)


def without_summariser(config: AgentConfig) -> AgentConfig:
    """Return a config whose compaction asks no model and no function, to look at a request that is not sent."""
    options = config.compaction
    if options is not None and options.summarise is not None:
        options = msgspec.structs.replace(options, summarise="checklist")
    return config.changed(compaction=options, compacts_itself=True)


def _warn_of_unknown_allocations(context: ContextManager) -> None:
    for name in context.unknown_allocations(("memory", "retrieval")):  # those of the default budgets
        known = ", ".join(sorted({"history", *(source.name for source in context.sources)}))
        warnings.warn(f"the budget has a share for {name!r}, which is no source here; known: {known}", stacklevel=2)


def _check(config: AgentConfig, provider: LLMProvider) -> None:
    require_prices(config.usage_limits, provider)
    _warn_of_unknown_tools(config)


def _warn_of_unknown_tools(config: AgentConfig) -> None:
    """Warn of a limit on a tool that nobody can call; sources, and agents below, may bring tools that are not known."""
    if config.sources or config.subagents or config.skills or agent_tools(config):
        return
    known = {schema_of(item).name for item in config.tools}
    if config.memory_tool is not None:
        known.add(MEMORY)
    for limits in (config.usage_limits, config.turn_limits):
        for name in sorted(set(limits.tool_limits) - known if limits is not None else ()):
            has = ", ".join(sorted(known)) or "none"
            warnings.warn(f"tool_limits names {name!r}, which is no tool of this agent; it has: {has}", stacklevel=2)


def _gate(config: AgentConfig, grants: Grants, scope: str) -> Gate:
    return Gate(
        config.pre_hooks,
        config.post_hooks,
        config.approve,
        defers=config.defers,
        expires_seconds=config.expires_seconds,
        grants=grants,
        scope=scope,
        asks_unknown=config.asks_unknown,
    )


def below(
    spec: TurnSpec,
    parent: LiveTurn,
    path: tuple[str, ...],
    name: str,
    *,
    timeout: float | None,
    inherits: bool = False,
) -> TurnSpec:
    """Return the spec of an agent as the subagent of a turn: what governs that turn governs it, too.

    It may only narrow: its hooks come after the parent's, of two limits the smaller counts, and its own limits stand
    beside the pool of the tree. timeout: seconds for the task. inherits: it asks the caller's model, in the same way.
    """
    above = parent.spec
    spec = _with_inherited(spec, above)
    limits = spec.policy.limits
    if timeout is not None:
        limits = (limits or UsageLimits()).narrowed(UsageLimits(seconds_limit=timeout))
    gate = msgspec.structs.replace(
        above.gate,
        pre=(*above.gate.pre, *spec.gate.pre),
        post=(*spec.gate.post, *above.gate.post),
        approve=above.gate.approve or (None if above.gate.defers else spec.gate.approve),
        defers=above.gate.defers or (above.gate.approve is None and spec.gate.defers),
        expires_seconds=_smaller(above.gate.expires_seconds, spec.gate.expires_seconds),
        asks_unknown=above.gate.asks_unknown or spec.gate.asks_unknown,
    )
    asking: dict[str, Any] = {"retry": above.retry, "cache": above.cache} if inherits else {}
    if inherits and not spec.context_edits:
        asking["context_edits"] = above.context_edits
    return msgspec.structs.replace(
        spec,
        **asking,
        policy=spec.policy.replace(limits=limits),
        gate=gate,
        pool=above.pool,
        agent=name,
        path=path,
        root_id=parent.root_id,
        max_depth=min(above.max_depth, len(path) + spec.max_depth),
        cancel=above.cancel,
        expose_errors=above.expose_errors and spec.expose_errors,
        tool_timeout_seconds=_smaller(above.tool_timeout_seconds, spec.tool_timeout_seconds),
        tool_result_max_tokens=_smaller(above.tool_result_max_tokens, spec.tool_result_max_tokens),
        tells_budget=above.tells_budget or spec.tells_budget,
        retrieval_scope=narrowed(above.retrieval_scope, spec.retrieval_scope),
    )


def _with_inherited(spec: TurnSpec, above: TurnSpec) -> TurnSpec:
    """Return the spec with the sources that come from above, where it has none of that name."""
    own = {source.name for source in spec.context.sources}
    more = tuple(source for source in above.inherited if source.name not in own)
    if not more:
        return spec
    context = spec.context.with_sources(more)
    policy = spec.policy.replace(compact_at=context.compact_at(spec.window))
    return msgspec.structs.replace(spec, context=context, policy=policy, inherited=(*spec.inherited, *more))


def require_prices(limits: UsageLimits | None, provider: LLMProvider) -> None:
    """Raise ConfigError where `strict_cost` is asked for and a model of the chain has no known price."""
    if limits is None or limits.cost_limit is None or not limits.strict_cost:
        return
    for origin in unpriced(provider):
        raise ConfigError(
            f"the price of {origin} is not known, so cost_limit could not be kept; name it in MODEL_PRICING, "
            "set another limit, or leave strict_cost out"
        )


def unpriced(provider: LLMProvider) -> tuple[str, ...]:
    """Return the models of a provider, or of a chain of them, whose price is not known."""
    origins = (item.profile.origin for item in _chain(provider))
    return tuple(origin for origin in origins if cost_of(Usage(1, 1), *_halves(origin)) is None)


def _halves(origin: str) -> tuple[str, str]:
    provider, _, model = origin.partition("/")
    return provider, model


def _smaller(first: N | None, second: N | None) -> N | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)


def _output_mode(config: AgentConfig, provider: LLMProvider) -> OutputMode | None:
    """Return how the output is asked for: `native` only where every model of the chain takes such a schema."""
    if config.output is None or config.output.mode != "native":
        return config.output.mode if config.output is not None else None
    brings = (config.tools, config.subagents, config.skills, config.sources, config.memory_tool)
    has_tools = any(brings)  # a source may bring some
    takes = all(_takes_schema(item.profile, has_tools=has_tools) for item in _chain(provider))
    return "native" if takes and config.output.type.strict_schema is not None else "tool"


def _takes_schema(profile: ModelProfile, *, has_tools: bool) -> bool:
    return profile.structured_output == "native" and (profile.schema_beside_tools or not has_tools)


def _chain(provider: LLMProvider) -> tuple[LLMProvider, ...]:
    return provider.providers if isinstance(provider, FallbackProvider) else (provider,)


def agent_tools(config: AgentConfig) -> dict[str, Subagent]:
    """Return the tools that are agents (`as_tool`), by name."""
    found = (item for item in config.all_tools if isinstance(item, BoundTool) and item.agent is not None)
    return {item.name: Subagent(item.name, item.agent, item.timeout_seconds) for item in found}


def _sources(config: AgentConfig) -> Iterable[ContextSource | SourceLike]:
    if config.system_prompt is not None:
        yield SystemPromptSource(config.system_prompt)
    if config.tools:
        yield ToolsetSource(config.tools)
    yield from config.skill_sources
    if config.subagents:
        yield SubagentSource({item.name: item.description for item in config.subagents})
    if config.memory_tool is not None:
        yield config.memory_tool
    if config.memory is not None:
        yield from config.memory.sources()
    if not config.pipeline.is_empty:
        yield config.pipeline.as_source()
    yield from config.sources


def _window(config: AgentConfig, profile: ModelProfile, calibration: Calibration) -> int:
    """Return the window to plan for: the smallest of what was asked, what the model has, and what it said it takes."""
    asked = config.budget.total_tokens if config.budget else config.max_tokens
    told = calibration.limit(profile.origin)
    return min(size for size in (asked, profile.context_window, told) if size)


def _reserve(config: AgentConfig, window: int, provider: LLMProvider) -> int:
    """Return what is kept for the reply, which is its cap too, so that both always fit the window.

    A budget's own reserve counts before the agent's; in a window that is too small for it, half is kept.
    """
    first = _chain(provider)[0]
    asked = config.max_response_tokens
    if asked == DEFAULT_RESPONSE_TOKENS:
        asked = getattr(first, "max_tokens", None) or asked
    if config.budget is not None and config.budget.reserve_tokens:
        asked = config.budget.reserve_tokens
    return min(asked, max(1, window // 2))


def _loading(provider: LLMProvider) -> ToolLoading:
    """Return how found tools become callable: as the model does it, or where models of a chain differ, as all can."""
    modes = {item.profile.tool_loading for item in _chain(provider)}
    first = provider.profile.tool_loading
    return first if len(modes) == 1 or first == "relist" else "dispatch"
