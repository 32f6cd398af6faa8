"""Told: what an Agent was told, read back, and the model that follows from it.

Law: the provider is made at the first need of it, and is one for all copies that are made after that.
"""

from copy import copy
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from sapwood.agent.config import AgentConfig
from sapwood.agent.durable import Keeping
from sapwood.agent.models import create
from sapwood.context.pipeline import ContextPipeline
from sapwood.core.errors import ConfigError
from sapwood.core.model import LLMProvider
from sapwood.core.tools import BoundTool
from sapwood.llm.fallback import FallbackProvider
from sapwood.sources.memory import MemorySource

if TYPE_CHECKING:
    from sapwood.agent.memory_manager import MemoryManager


class Told:
    """The half of `Agent` that answers what it is."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._provider: LLMProvider | None = None

    def for_user(self, user: str) -> Self:
        """Return a copy of this agent for one of its users: it recalls what this user said, and keeps it as theirs.

        So do the agents below it, which are its subagents or its tools. Other tools, documents and sources of your own
        stay as they are, and so do the connections to the provider. Raises ConfigError for a memory that cannot be kept
        apart: one that knows no users or belongs to another one, or the folder of the memory tool.

        >>> from sapwood import Agent, create_memory_store
        >>> from sapwood.testing import scripted
        >>> store = create_memory_store()
        >>> ann = Agent(llm=scripted()).with_memory(store).for_user("ann")
        >>> ann.memory.add_fact("Ann lives in Bergen").scope.user
        'ann'
        """
        return self._for_user(user, {})

    @property
    def model(self) -> str:
        """`provider/model` of the model that is asked first.

        >>> from sapwood import Agent
        >>> Agent("openai/gpt-5-mini", api_key="k").model
        'openai/gpt-5-mini'
        """
        return self._llm().profile.origin

    @property
    def window(self) -> int:
        """Tokens that are planned for: those that were given, or the model's own where that has fewer."""
        own = self._llm().profile.context_window
        return min(self._config.max_tokens, own) if own else self._config.max_tokens

    @property
    def memory(self) -> "MemoryManager | None":
        """The manager of `with_memory`, None without one."""
        return self._config.memory

    @property
    def pipeline(self) -> ContextPipeline:
        """The pipeline of this agent: that of `with_pipeline`, or one of its own, to add steps to."""
        return self._config.pipeline

    @property
    def can_ask(self) -> bool:
        """It was told what to do about calls that need a person: `with_approval` was called."""
        return self._config.approve is not None or self._config.defers

    @property
    def keeping(self) -> Keeping:
        """Where this agent keeps its turns."""
        config = self._config
        return config.keeping if config.memory is None else config.memory.keeping(config.keeping)

    def tool_called(self, name: str) -> BoundTool | None:
        """Return the tool of this agent, not of its sources, that runs under this name; None where there is none."""
        own = self._config.memory_tool
        bound = [item for item in self._config.all_tools if isinstance(item, BoundTool)] + ([own.tool] if own else [])
        return next((item for item in bound if item.name == name), None)

    # -- inside ----------------------------------------------------------------------------------

    def _for_user(self, user: str, made: dict[int, Any]) -> Self:
        """made: the copies so far, by the agent they are of; agents may ask each other in a circle."""
        if id(self) in made:
            known: Self = made[id(self)]
            return known
        config = self._config
        if config.memory_tool is not None:
            raise ConfigError("the folder of with_memory_tool is one for all users; make an agent for each user")
        if any(isinstance(tool, BoundTool) and tool.agent is not None for tool in config.skill_tools):
            raise ConfigError("a tool of a skill is an agent, which is one for all users; make an agent for each user")
        self._llm()  # made now, all copies share its connections
        own = made[id(self)] = copy(self)
        sources = tuple(item.scoped(user) if isinstance(item, MemorySource) else item for item in config.sources)
        memory = config.memory.scoped(user) if config.memory is not None else None
        below = tuple(replace(item, agent=item.agent._for_user(user, made)) for item in config.subagents)
        tools = tuple(
            replace(tool, agent=tool.agent._for_user(user, made))
            if isinstance(tool, BoundTool) and tool.agent is not None
            else tool
            for tool in config.tools
        )
        return own._set(sources=sources, memory=memory, subagents=below, tools=tools)

    def _set(self, **changes: Any) -> Self:
        self._config = self._config.changed(**changes)
        return self

    def _llm(self) -> LLMProvider:
        if self._provider is None:
            config = self._config
            self._provider = config.llm or create(config.model, config.api_key, config.base_url)
            if config.fallbacks:
                others = [
                    create(item, self._key_for(item), None) if isinstance(item, str) else item
                    for item in config.fallbacks
                ]
                self._provider = FallbackProvider([self._provider, *others])
        return self._provider

    def _key_for(self, model: str) -> str | None:
        """Return the key that was passed where this model is of the same provider; it goes to nobody else."""
        from sapwood.llm.registry import provider_of

        config = self._config
        return config.api_key if provider_of(model) == provider_of(config.model) else None
