"""Skills of an agent: the registry that holds them, the places that they are read from, the sources they become.

Laws: two skills of one name are refused, but for one of the project that stands before one of the user, of which a
warning tells; a tool of a skill and one of the agent may not share a name.
Source: guide A, "SkillRegistry".
"""

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sapwood.context.meter import estimate_tokens
from sapwood.context.source import ContextSource
from sapwood.core.errors import ConfigError, ToolNameCollision
from sapwood.core.names import wire_name
from sapwood.core.tool_forms import schema_of, to_tool
from sapwood.core.tools import ACTIVATE_SKILL, CALL_TOOL, READ_SKILL_FILE, RUN_SKILL_SCRIPT, BoundTool, ToolSchema
from sapwood.sources.skill_files import SkillFileSource, load_skill, load_skills
from sapwood.sources.skills import SkillSource, discovery_text

if TYPE_CHECKING:
    from sapwood.core.skill import Skill

Scope: TypeAlias = Literal["project", "user"]
"""Whose folder a skill was read from; a skill of the project stands before one of the user."""
FOLDERS = (".agents/skills", ".sapwood/skills")
CLAUDE_FOLDER = ".claude/skills"


class SkillRegistry:
    """Skills by name, and which of them are active, for a loop of your own.

    An Agent keeps no such state: what is active there is read from each conversation (`with_skills`).

    Raises ConfigError where two skills, and ToolNameCollision where two tools of them, have one name.

    >>> from sapwood import Skill
    >>> registry = SkillRegistry()
    >>> registry.register(Skill(name="reports", description="Write the weekly report."))
    >>> registry.is_active("reports"), registry.activate("reports").name, registry.is_active("reports")
    (False, 'reports', True)
    """

    def __init__(self, skills: "Iterable[Skill]" = ()) -> None:
        self._skills: tuple[Skill, ...] = ()
        self._active: dict[str, None] = {}
        for skill in skills:
            self.register(skill)

    def register(self, skill: "Skill") -> None:
        """Add a skill; one that is `always` active is so at once."""
        skills = joined(self._skills, [skill])
        require_distinct_tools((), skills, allow_scripts=True)
        self._skills = skills

    def load_from_path(self, path: str | os.PathLike[str], *, tools: Sequence[Any] = ()) -> "Skill":
        """Add the skill in a folder and return it. tools: those that belong to it."""
        skill = load_skill(path, tools=tools)
        self.register(skill)
        return skill

    def load_from_directory(self, path: str | os.PathLike[str]) -> "tuple[Skill, ...]":
        """Add all skills below a folder and return them; what is no skill is left out with a warning."""
        skills = load_skills(path)
        for skill in skills:
            self.register(skill)
        return skills

    def get(self, name: str) -> "Skill":
        """Return a skill; raises KeyError for an unknown name."""
        for skill in self._skills:
            if skill.name == name:
                return skill
        raise KeyError(f"there is no skill {name!r}; there are: {', '.join(skill.name for skill in self._skills)}")

    def activate(self, name: str) -> "Skill":
        """Make a skill active and return it; raises KeyError for an unknown name."""
        skill = self.get(name)
        self._active[name] = None
        return skill

    def deactivate(self, name: str) -> None:
        """Make a skill wait again; one that is `always` active stays so. Raises KeyError for an unknown name."""
        self._active.pop(self.get(name).name, None)

    def reset(self) -> None:
        """Make all skills wait again that were activated."""
        self._active.clear()

    def is_active(self, name: str) -> bool:
        """Tell whether a skill is active; raises KeyError for an unknown name."""
        return self.get(name).activation == "always" or name in self._active

    def active_tools(self) -> tuple[Any, ...]:
        """Return the tools of all active skills, as they were given."""
        return tuple(tool for skill in self._skills if self.is_active(skill.name) for tool in skill.tools)

    def all_skills(self) -> "tuple[Skill, ...]":
        """All skills, in the order of their registration."""
        return self._skills

    def on_demand_skills(self) -> "tuple[Skill, ...]":
        """The skills that wait to be activated, and those that were."""
        return tuple(skill for skill in self._skills if skill.activation == "on_demand")

    def always_skills(self) -> "tuple[Skill, ...]":
        """The skills that are active from the start."""
        return tuple(skill for skill in self._skills if skill.activation == "always")

    def always_instructions(self) -> str:
        """The instructions of the skills that are active from the start, each under its name."""
        told = (skill for skill in self.always_skills() if skill.instructions.strip())
        return "\n\n".join(f"## {skill.name}\n\n{skill.instructions.strip()}" for skill in told)

    def skill_discovery_prompt(self, max_chars: int | None = None) -> str:
        """Return the text that lists the skills to be activated; "" where there are none.

        max_chars: characters that it may take; None for as many as all names and descriptions need.
        """
        return discovery_text(self.on_demand_skills(), max_chars, size=len)

    def __iter__(self) -> "Iterator[Skill]":
        return iter(self._skills)

    def __len__(self) -> int:
        return len(self._skills)


def joined(known: "Sequence[Skill]", added: "Iterable[Skill]") -> "tuple[Skill, ...]":
    """Return skills with others added; raises ConfigError for what is no skill, and where two have one name."""
    from sapwood.core.skill import Skill

    by_name = {skill.name: skill for skill in known}
    for skill in added:
        if not isinstance(skill, Skill):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"a skill is a Skill(...), not {type(skill).__name__}")
        if (first := by_name.get(skill.name)) is not None:
            raise ConfigError(f"two skills are called {skill.name!r}: {first.place} and {skill.place}; rename one")
        by_name[skill.name] = skill
    return tuple(by_name.values())


def in_scope(
    known: "Sequence[Skill]", scopes: Mapping[str, Scope], added: "Iterable[Skill]", scope: Scope
) -> "tuple[tuple[Skill, ...], dict[str, Scope]]":
    """Return skills with those of a folder added, and the scope of each that came from one, by name.

    Of two with one name that of the project counts, else the one that was read first; a warning tells of the other.
    """
    by_name = {skill.name: skill for skill in known}
    found: dict[str, Scope] = dict(scopes)
    taken: list[Skill] = []
    for skill in added:
        other, first = scopes.get(skill.name), by_name.get(skill.name)
        if other is None or first is None:
            found[skill.name] = scope  # one that was added in code is refused where they are joined
            taken.append(skill)
            continue
        wins = scope == "project" and other == "user"
        kept, left = (skill, first) if wins else (first, skill)
        warnings.warn(f"{left.place} is not used: {kept.place} has the same name, {skill.name!r}", stacklevel=3)
        if wins:
            del by_name[skill.name]
            found[skill.name] = scope
            taken.append(skill)
    return joined(tuple(by_name.values()), taken), found


def standard_folders(root: Path, *, claude: bool) -> tuple[Path, ...]:
    """Return the folders below a place that hold skills by convention, those that are there."""
    names = (*FOLDERS, CLAUDE_FOLDER) if claude else FOLDERS
    return tuple(path for name in names if (path := root / name).is_dir())


def skill_sources(skills: "Sequence[Skill]", *, menu_tokens: int, allow_scripts: bool) -> tuple[ContextSource, ...]:
    """Return the sources that skills become; none for none."""
    if not skills:
        return ()
    source = SkillSource(skills, menu_tokens=menu_tokens, runs_scripts=allow_scripts)
    return (source, SkillFileSource(skills, allow_scripts=allow_scripts))


def warn_of_length(skills: "Iterable[Skill]", window: int) -> None:
    """Warn of instructions that take more than a third of the window of tokens: there, little else would fit."""
    for skill in skills:
        if (size := estimate_tokens(skill.instructions)) * 3 > window:
            warnings.warn(
                f"{skill.place}: its instructions take about {size:,} tokens of a window of {window:,}; move what is "
                "not always needed to files of its own",
                stacklevel=4,
            )


def tools_of(skills: "Iterable[Skill]") -> tuple[ToolSchema | BoundTool, ...]:
    """Return the tools that come with skills."""
    return tuple(to_tool(item) for skill in skills for item in skill.tools)


def require_distinct_tools(
    tools: Iterable[ToolSchema | BoundTool], skills: "Sequence[Skill]", *, allow_scripts: bool
) -> None:
    """Raise ToolNameCollision where a tool of a skill, or one that skills bring about, has the name of another."""
    owners: dict[str, tuple[str, str]] = {}
    for name, owner in _named(tools, skills, allow_scripts=allow_scripts):
        wire = wire_name(name)
        if (first := owners.get(wire)) is not None:
            raise ToolNameCollision(
                f"{first[0]!r} ({first[1]}) and {name!r} ({owner}) both become {wire!r} for the model; "
                "rename one of them"
            )
        owners[wire] = (name, owner)


def _named(
    tools: Iterable[ToolSchema | BoundTool], skills: "Sequence[Skill]", *, allow_scripts: bool
) -> Iterator[tuple[str, str]]:
    waiting = [skill for skill in skills if skill.activation == "on_demand"]
    brought = {
        ACTIVATE_SKILL: bool(waiting),
        CALL_TOOL: any(skill.tools for skill in waiting),
        READ_SKILL_FILE: any(skill.path is not None for skill in skills),
        RUN_SKILL_SCRIPT: allow_scripts and any(skill.path is not None for skill in skills),
    }
    yield from ((name, "which skills bring with them") for name, is_there in brought.items() if is_there)
    yield from ((schema_of(tool).name, "a tool of the agent") for tool in tools)
    for skill in skills:
        yield from ((schema_of(to_tool(item)).name, f"of the skill {skill.name!r}") for item in skill.tools)
