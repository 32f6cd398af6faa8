"""AgentConfig: everything that an Agent was told, frozen; each `with_*` replaces one field."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from sapwood.agent.durable import Keeping
from sapwood.agent.output import Output
from sapwood.agent.skills import Scope
from sapwood.agent.subagents import MAX_DEPTH, Subagent
from sapwood.context.pipeline import ContextPipeline
from sapwood.context.source import ContextSource, SourceLike
from sapwood.context.tokenizer import Tokenizer, counter_of
from sapwood.core.budget import TokenBudget
from sapwood.core.errors import ConfigError
from sapwood.core.limits import UsageLimits
from sapwood.core.model import CacheTtl, LLMProvider
from sapwood.core.require import MOST_SECONDS, require_number, shown
from sapwood.core.scope import RetrievalScope
from sapwood.core.tools import BoundTool, ToolSchema
from sapwood.loop.gate import Approve, PostHook, PreHook
from sapwood.loop.spec import Inspector
from sapwood.sources.compaction import CompactionOptions
from sapwood.sources.memory_tool import MemoryToolSource

if TYPE_CHECKING:
    from sapwood.agent.memory_manager import MemoryManager
    from sapwood.core.skill import Skill

DEFAULT_MODEL = "claude-haiku-4-5-20251001"
DEFAULT_RESPONSE_TOKENS = 1_024


class AgentConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What an Agent was told. See `Agent` for the meaning of each field."""

    model: str = DEFAULT_MODEL
    api_key: str | None = None
    base_url: str | None = None
    llm: LLMProvider | None = None
    fallbacks: tuple[str | LLMProvider, ...] = ()
    max_tokens: int = 16_384
    max_response_tokens: int = DEFAULT_RESPONSE_TOKENS
    max_rounds: int = 10
    allow_skill_scripts: bool = False
    tool_timeout: float | None = None
    tool_result_max_tokens: int | None = 10_000
    tokenizer: Tokenizer | None = None
    expose_errors: bool = True
    max_retries: int = 2
    system_prompt: str | None = None
    tools: tuple[ToolSchema | BoundTool, ...] = ()
    sources: tuple[ContextSource | SourceLike, ...] = ()
    budget: TokenBudget | None = None
    cache: CacheTtl | None = "5m"
    usage_limits: UsageLimits | None = None
    turn_limits: UsageLimits | None = None
    remaining_budget: bool = False
    pre_hooks: tuple[PreHook, ...] = ()
    post_hooks: tuple[PostHook, ...] = ()
    approve: Approve | None = None
    defers: bool = False
    expires_seconds: float | None = None
    asks_unknown: bool = False
    output: Output | None = None
    max_output_retries: int = 1
    subagents: tuple[Subagent, ...] = ()
    max_depth: int = MAX_DEPTH
    keeping: Keeping = Keeping()
    compaction: CompactionOptions | None = None
    compacts_itself: bool = False
    skills: "tuple[Skill, ...]" = ()
    skill_scopes: dict[str, Scope] = {}
    skill_sources: tuple[ContextSource, ...] = ()
    skill_tools: tuple[ToolSchema | BoundTool, ...] = ()
    memory_tool: MemoryToolSource | None = None
    pipeline: ContextPipeline = msgspec.field(default_factory=ContextPipeline)
    retrieval_scope: RetrievalScope | None = None
    context_edits: tuple[dict[str, Any], ...] = ()
    memory: "MemoryManager | None" = None
    inspectors: tuple[Inspector, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_tokens", "max_response_tokens", "max_rounds"):
            _require(name, getattr(self, name), "must be a whole number above 0")
        if self.tool_timeout is not None:
            require_number(
                "tool_timeout", self.tool_timeout, most=MOST_SECONDS, rule="is None for no limit, or seconds"
            )
        if self.tool_result_max_tokens is not None:
            rule = "must be above 0, or None for no limit"
            _require("tool_result_max_tokens", self.tool_result_max_tokens, rule)
        if self.llm is not None and not hasattr(self.llm, "stream"):
            raise ConfigError(f"llm must be a provider (create_provider(...)), not {type(self.llm).__name__}")
        if self.tokenizer is not None and not callable(self.count):
            raise ConfigError(
                "tokenizer must be a function of a text, or have count_tokens(text), "
                f"not {type(self.tokenizer).__name__}"
            )
        if self.max_response_tokens >= self.max_tokens:
            raise ConfigError(
                f"max_response_tokens ({self.max_response_tokens}) is kept free for the reply out of max_tokens "
                f"({self.max_tokens}), so it must be smaller"
            )

    def changed(self, **changes: Any) -> "AgentConfig":
        """Return a copy with some fields changed."""
        return msgspec.structs.replace(self, **changes)

    @property
    def all_tools(self) -> tuple[ToolSchema | BoundTool, ...]:
        """The tools of the agent and of its skills."""
        return (*self.tools, *self.skill_tools)

    @property
    def count(self) -> Callable[[str], int] | None:
        """The exact counter, None to estimate."""
        return counter_of(self.tokenizer)


def _require(name: str, value: object, rule: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise ConfigError(f"{name} {rule}, not {shown(value)}")
