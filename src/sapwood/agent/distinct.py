"""What a model may call has names that it can tell apart, whoever brought the tool."""

from sapwood.agent.config import AgentConfig
from sapwood.agent.skills import require_distinct_tools
from sapwood.core.errors import ToolNameCollision
from sapwood.core.names import name_map
from sapwood.core.tool_forms import schema_of
from sapwood.core.tools import FINAL_RESULT
from sapwood.sources.memory_tool import MEMORY
from sapwood.sources.subagents import TASK


def require_distinct_names(config: AgentConfig) -> None:
    """Raise ToolNameCollision where two names become one for the model."""
    own = (FINAL_RESULT,) if config.output is not None else ()
    names = name_map((*own, *(schema_of(item).name for item in config.tools)))
    if config.skills:
        require_distinct_tools(config.tools, config.skills, allow_scripts=config.allow_skill_scripts)
        names = {**name_map((*own, *(schema_of(item).name for item in config.all_tools)))}
    ours = {TASK: "by which subagents are asked"} if config.subagents else {}
    ours |= {MEMORY: "of with_memory_tool"} if config.memory_tool is not None else {}
    for name, what in ours.items():
        if name in names:
            raise ToolNameCollision(f"{names[name]!r} is the tool {what} ({name!r} for the model); rename yours")
