"""Skills as context: a listing under a budget of tokens, `activate_skill`, and the tools that come with a skill.

Laws: what is active is read from the transcript, never from a flag in here, so it belongs to one conversation and no
child; what the model is told of all skills does not change when one is activated; an activation is answered once.
Source: guide A, "Skills System".
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from sapwood.context.meter import estimate_tokens
from sapwood.context.source import ContextSource, Contribution, Loaded, Turn
from sapwood.core.messages import ToolCall
from sapwood.core.model import ToolLoading
from sapwood.core.names import wire_name
from sapwood.core.tool_forms import schema_of, to_tool, told
from sapwood.core.tools import (
    ACTIVATE_SKILL,
    CALL_TOOL,
    READ_SKILL_FILE,
    RUN_SKILL_SCRIPT,
    BoundTool,
    ToolSchema,
    call_form,
    call_schema,
)

if TYPE_CHECKING:
    from sapwood.core.skill import Skill

MENU_TOKENS = 300
_CUTS = (1_024, 400, 200, 100, 50)


class SkillSource(ContextSource):
    """Lists the skills that wait, and gives those that are always active from the start.

    menu_tokens: room for the listing in the system prompt; descriptions are shortened to fit it, then left out.
    loading: how the tools of an activated skill become callable; None takes what the turn says.
    runs_scripts: an activation names the scripts that may be run.
    """

    name = "skills"

    def __init__(
        self,
        skills: "Sequence[Skill]",
        *,
        menu_tokens: int = MENU_TOKENS,
        loading: ToolLoading | None = None,
        runs_scripts: bool = False,
    ) -> None:
        self._skills = {skill.name: skill for skill in skills}
        self._tools = {skill.name: tuple(to_tool(item) for item in skill.tools) for skill in skills}
        self._loading: ToolLoading | None = loading
        self._runs_scripts = runs_scripts
        waiting = [skill for skill in skills if skill.activation == "on_demand"]
        self._always = [skill for skill in skills if skill.activation == "always"]
        self._waiting = {skill.name: self._tools[skill.name] for skill in waiting}
        self._schema = _activation(list(self._waiting))
        parts = (*(self._shown(skill) for skill in self._always), discovery_text(waiting, menu_tokens))
        self._system = "\n\n".join(part for part in parts if part)

    def contribute(self, turn: Turn) -> Contribution:
        """Return the listing, `activate_skill`, and the tools, hidden until their skill is active."""
        hidden = [tool for tools in self._waiting.values() for tool in tools]
        loading = self._mode(turn)
        meta = [self._schema] if self._waiting else []
        if loading == "dispatch" and hidden:
            meta.append(call_schema(free_objects=turn.free_objects))
        always = [tool for skill in self._always for tool in self._tools[skill.name]]
        return Contribution(
            tools=[*meta, *always],
            hidden=hidden,
            system=self._system,
            meta_tools=[schema.name for schema in meta],
            loading=loading,
            how_to_load={
                schema_of(tool).name: f'Call {ACTIVATE_SKILL} with skill_name "{name}" first, then call it.'
                for name, tools in self._waiting.items()
                for tool in tools
            },
        )

    def handle(self, call: ToolCall, turn: Turn) -> Loaded | None:
        """Answer an activation with the skill's instructions; its tools become callable."""
        if call.name == CALL_TOOL:
            return Loaded(result=f"{CALL_TOOL} needs {call_form(free_objects=turn.free_objects)}", is_error=True)
        if call.name != ACTIVATE_SKILL:
            return None
        name = call.arguments.get("skill_name")
        if not isinstance(name, str) or name not in self._waiting:
            known = ", ".join(self._waiting)
            return Loaded(result=f"There is no skill {name!r} to activate. There are: {known}", is_error=True)
        tools = self._waiting[name]
        names = tuple(schema_of(tool).name for tool in tools)
        if name in turn.skills:
            # Where the skill got a tool since, the tool is loaded now; the instructions are not said twice.
            told = f"The skill {name} is active already; its instructions stand above."
            return Loaded(result=told, tools=tuple(tool for tool in names if tool not in turn.loaded))
        parts = (self._shown(self._skills[name]), self._tools_told(tools, turn))
        return Loaded(result="\n\n".join(part for part in parts if part), tools=names, skill=name)

    def _mode(self, turn: Turn) -> ToolLoading:
        """Return how the tools become callable; references cannot stand beside instructions, so none are deferred."""
        mode = self._loading or turn.tool_loading
        return "dispatch" if mode == "deferred" else mode

    def _shown(self, skill: "Skill") -> str:
        """Return what the model is told of an active skill."""
        parts = [skill.instructions.strip()]
        if files := skill.reference_files():
            parts.append(_listed(f"Files of this skill; read one with {READ_SKILL_FILE}, by this name:", files))
        if (scripts := skill.script_files()) and self._runs_scripts:
            parts.append(_listed(f"Scripts of this skill; run one with {RUN_SKILL_SCRIPT}, by this name:", scripts))
        elif scripts:
            parts.append(_listed(f"Scripts of this skill, which may only be read ({READ_SKILL_FILE}):", scripts))
        inside = "\n\n".join(part for part in parts if part)
        if not inside and skill.activation == "always":
            return ""
        return f'<skill name="{skill.name}">\n{inside or "This skill is active."}\n</skill>'

    def _tools_told(self, tools: Sequence[ToolSchema | BoundTool], turn: Turn) -> str:
        if not tools:
            return ""
        mode, schemas = self._mode(turn), [schema_of(tool) for tool in tools]
        if mode == "relist":
            return f"These tools can be called now: {', '.join(wire_name(schema.name) for schema in schemas)}."
        head = "These tools can be called now."
        if mode == "dispatch":
            form = call_form(free_objects=turn.free_objects)
            head = f"These tools can be run now with {CALL_TOOL}: {form}."
        return "\n".join([head, *map(told, schemas)])


def discovery_text(skills: "Sequence[Skill]", most: int | None, *, size: Callable[[str], int] = estimate_tokens) -> str:
    """Return the listing of skills that can be activated; "" where there are none.

    Descriptions are shortened until all skills fit, then left out, and then names; the schema of `activate_skill`
    holds all of them. most: what the text may measure, None for any size. size: how it is measured.
    """
    text = ""
    for text in _listings(skills):
        if most is None or size(text) <= most:
            break
    return text


def _listings(skills: "Sequence[Skill]") -> Iterator[str]:
    """Yield the listing, each time a shorter one; the last is its first line alone."""
    if not skills:
        return
    head = (
        f"Skills ({len(skills)}) give you instructions and tools for a kind of task. Where one fits the task, call "
        f"{ACTIVATE_SKILL} with its name before you begin"
    )
    for cut in _CUTS:
        lines = (f"- {skill.name}: {_line(skill.description, cut)}" for skill in skills)
        yield "\n".join([f"{head}.", *lines])
    shown = len(skills)
    while shown:
        more = f" and {len(skills) - shown} more" if shown < len(skills) else ""
        yield f"{head}: {', '.join(skill.name for skill in skills[:shown])}{more}."
        shown = shown * 4 // 5
    yield f"{head}."


def _line(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def _listed(head: str, names: Sequence[str]) -> str:
    return "\n".join([head, *(f"- {name}" for name in names)])


def _activation(names: list[str]) -> ToolSchema:
    return ToolSchema(
        ACTIVATE_SKILL,
        "Get the instructions of a skill, and make its tools callable. Once for each skill is enough.",
        {
            "type": "object",
            "properties": {"skill_name": {"type": "string", "enum": names}},
            "required": ["skill_name"],
        },
    )
