"""Subagents: their definition, and the making of their turns from the turn that calls them.

Laws: a child inherits what governs its parent (hooks, approval, the pool of limits, time-outs, caps, cancellation)
and may only narrow it; it begins with a conversation of its own, empty but for the task.
Source: guide A, "Usage Limits"; decision "children".
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.events import TurnFinished
from sapwood.core.limits import UsageLimits
from sapwood.core.messages import Message
from sapwood.core.model import LLMProvider
from sapwood.core.require import MOST_SECONDS, require_number, require_series, shown
from sapwood.core.scope import RetrievalScope
from sapwood.core.tool_forms import ToolLike
from sapwood.loop.spec import ChildTurnSpec, LiveTurn, Spawn
from sapwood.sources.subagents import TASK

if TYPE_CHECKING:
    from sapwood.agent.agent import Agent
    from sapwood.core.agent_tool import AgentTool

MAX_DEPTH = 3
"""Agents below agents, by default."""


class SubagentDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An agent that another one may hand a task to.

    name, description: how the calling model knows it. system_prompt: its own. model: None takes the caller's.
    llm: a provider, in place of a model's name. tools: its own; it has none of the caller's.
    output_model: its answer is the JSON of this. max_output_retries: tries after the first.
    max_rounds: model calls in one task. usage_limits: of one task; the caller's pool counts beside them.
    timeout: seconds for one task, without the time that a person takes to answer; None for no limit.
    subagents: agents below it. scope: which documents it may search, of those that the caller may.

    Raises ConfigError for a name that is no tool name or a value that cannot work.

    >>> SubagentDefinition(name="reader", description="Reads long documents.").max_rounds
    6
    """

    name: str
    description: str
    system_prompt: str = ""
    model: str | None = None
    llm: LLMProvider | None = None
    tools: tuple[ToolLike, ...] = ()
    output_model: Any = None
    max_output_retries: int = 1
    max_rounds: int = 6
    usage_limits: UsageLimits | None = None
    timeout: float | None = None
    subagents: "tuple[SubagentDefinition, ...]" = ()
    scope: RetrievalScope | None = None

    def __post_init__(self) -> None:
        _require_known_by("subagent", self.name, self.description, self.timeout)
        limits = self.usage_limits
        if limits is not None and not isinstance(limits, UsageLimits):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"subagent {self.name!r}: usage_limits takes UsageLimits, not {type(limits).__name__}")
        require_series(f"subagent {self.name!r}: tools", self.tools, "tools")
        require_series(f"subagent {self.name!r}: subagents", self.subagents, "SubagentDefinitions")


def _require_known_by(what: str, name: object, description: object, timeout: object) -> None:
    """Raise ConfigError for what a model cannot call or choose by, or what is no time."""
    if not isinstance(name, str) or not name or not all(letter.isalnum() or letter in "_-" for letter in name):
        raise ConfigError(f"the name of a {what} is made of letters, digits, _ and -; not {shown(name)}")
    if not isinstance(description, str) or not description.strip():
        raise ConfigError(f"{what} {name!r} needs a description: the model chooses by it; not {shown(description)}")
    if timeout is not None:
        rule = "is None for no limit, or seconds"
        require_number(f"{what} {name!r}: timeout", timeout, most=MOST_SECONDS, rule=rule)


def require_distinct(names: Iterable[str]) -> None:
    """Raise ConfigError where two subagents have one name."""
    known: set[str] = set()
    for name in names:
        if name in known:
            raise ConfigError(f"two subagents are called {name!r}; rename one of them")
        known.add(name)


def agent_of(definition: SubagentDefinition) -> "Agent":
    """Return the agent that a definition describes, but for its limits."""
    from sapwood.agent.agent import Agent
    from sapwood.agent.config import DEFAULT_MODEL  # it imports this module

    agent = Agent(definition.model or DEFAULT_MODEL, llm=definition.llm, max_rounds=definition.max_rounds)
    if definition.system_prompt:
        agent = agent.with_system_prompt(definition.system_prompt)
    if definition.tools:
        agent = agent.with_tools(definition.tools)
    if definition.subagents:
        agent = agent.with_subagents(definition.subagents)
    if definition.scope is not None:
        agent = agent.with_scope(definition.scope)
    if definition.output_model is not None:
        agent = agent.with_output_model(definition.output_model, max_output_retries=definition.max_output_retries)
    return agent


class Subagent(msgspec.Struct, frozen=True):
    """An agent that runs inside a tool call. inherits_model: it asks the caller's model."""

    name: str
    agent: "Agent"
    timeout: float | None = None
    description: str = ""
    inherits_model: bool = False

    def turn(self, task: str, parent: LiveTurn, path: tuple[str, ...]) -> ChildTurnSpec:
        """Return the turn of one task; raises ToolError where it would be too deep."""
        depth = parent.spec.max_depth
        if len(path) > depth:
            raise ToolError(f"agents may be nested {depth} deep; {self.name} would be deeper. Do the task yourself.")
        spec = self.agent.child_spec(parent, path, self.name, timeout=self.timeout, inherits=self.inherits_model)
        return ChildTurnSpec(self.name, spec, Message.user(task))


def agent_tool(agent: "Agent", name: str, description: str, timeout: float | None) -> "AgentTool":
    """Return the tool by which another agent asks this one."""
    from sapwood.core.agent_tool import AgentTool  # with pydantic, which not every agent needs

    _require_known_by("tool of an agent", name, description, timeout)

    def ask(task: str) -> str:
        *_, ended = agent.stream(task)
        return "" if not isinstance(ended, TurnFinished) else ended.text if ended.output is None else ended.output

    schema = {
        "type": "object",
        "properties": {"task": {"type": "string", "description": "The whole task: nothing else is seen."}},
        "required": ["task"],
    }
    tool = AgentTool(name=name, description=description, input_schema=schema, fn=ask, read_only=True, timeout=timeout)
    return tool.of_agent(agent)


def spawners(definitions: Iterable[Subagent], tools: Mapping[str, Subagent]) -> dict[str, Spawn]:
    """Return what makes the turns of subagents, by the name of the tool that calls them."""
    by_name = {item.name: item for item in definitions}
    made: dict[str, Spawn] = {}
    if by_name:

        def task(arguments: Mapping[str, Any], parent: LiveTurn, path: tuple[str, ...]) -> ChildTurnSpec:
            return by_name[arguments["agent_name"]].turn(arguments["task"], parent, path)

        made[TASK] = task
    for tool_name, subagent in tools.items():
        made[tool_name] = _by_task(subagent)
    return made


def _by_task(subagent: Subagent) -> Spawn:
    def spawn(arguments: Mapping[str, Any], parent: LiveTurn, path: tuple[str, ...]) -> ChildTurnSpec:
        return subagent.turn(arguments["task"], parent, path)

    return spawn
