"""Skill: instructions, tools and files that belong together, as people write them, checked by pydantic.

Laws: one set of rules, whether a skill is written in code or read from a folder: what cannot work is refused, what
only departs from the public form is warned of; making a skill runs nothing of it.
Source: guide A, "Skill Model"; the public SKILL.md form.
"""

import re
import warnings
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from sapwood.core.skill_folder import files_of
from sapwood.core.tool_forms import to_tool

MAX_NAME = 64
MAX_DESCRIPTION = 1_024
MAX_COMPATIBILITY = 500
SCRIPTS = "scripts"
"""The one folder of a skill from which scripts may run."""
SKILL_FILE = "SKILL.md"
_FORM = re.compile(r"[a-z0-9_]+(-[a-z0-9_]+)*\Z")


class Skill(BaseModel):
    """Instructions and tools that a model gets together, at once or when it asks for them.

    description: what it is for; the model chooses by it. instructions: what to do, shown once it is active.
    tools: callable while it is active; in any form that `with_tools` takes.
    activation: `on_demand` lists the skill and lets the model activate it; `always` has it active from the start.
    tags, license, compatibility, metadata, allowed_tools: for people and programs that read them; none of them grants
    or refuses anything here. An empty `allowed_tools` is the same as none: it says nothing.
    path: the folder that it was read from, whose files it may offer; None for one that was written in code.

    Refused are an empty name or description, or one that is no text, and control characters in a name. A UserWarning
    tells of a name that departs from the public form (small letters, digits and hyphens, `_` too; at most 64; that of
    its folder) and of a text that is too long for it.

    >>> Skill(name="reports", description="Write the weekly report.", instructions="Use the template.").activation
    'on_demand'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    name: str
    description: str
    instructions: str = ""
    tools: tuple[Any, ...] = ()
    activation: Literal["on_demand", "always"] = "on_demand"
    tags: tuple[str, ...] = ()
    license: str = ""
    compatibility: str = ""
    metadata: dict[str, str] = {}
    allowed_tools: tuple[str, ...] = ()
    path: Path | None = None

    @field_validator("name", "description")
    @classmethod
    def _is_text(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must not be empty: the model chooses a skill by its name and its description")
        return value

    @field_validator("name")
    @classmethod
    def _is_line(cls, value: str) -> str:
        if not value.isprintable():
            raise ValueError("must be one line without control characters")
        return value

    @field_validator("tools")
    @classmethod
    def _are_tools(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        for item in value:
            to_tool(item)
        return value

    @model_validator(mode="after")
    def _departures(self) -> "Skill":
        for departure in departures(self):
            warnings.warn(f"{self.place}: {departure}", stacklevel=3)
        return self

    @property
    def place(self) -> str:
        """What a message calls this skill by: its file, or its name."""
        return f"{self.path / SKILL_FILE}" if self.path is not None else f"skill {self.name[:MAX_NAME]!r}"

    def reference_files(self) -> tuple[str, ...]:
        """Return the files of the skill that may be read, scripts left out, as names relative to its folder."""
        return tuple(name for name in self._files if not _is_script(name) and name != SKILL_FILE)

    def script_files(self) -> tuple[str, ...]:
        """Return the scripts of the skill, as names relative to its folder."""
        return tuple(name for name in self._files if _is_script(name))

    @cached_property
    def _files(self) -> tuple[str, ...]:
        """Listed once, so that what a turn says does not depend on what changes meanwhile."""
        return files_of(self.path) if self.path is not None else ()


def _is_script(name: str) -> bool:
    return name.startswith(f"{SCRIPTS}/")


def departures(skill: Skill) -> tuple[str, ...]:
    """Return in which ways a skill departs from the public form, in words.

    >>> departures(Skill(name="reports", description="Write reports."))
    ()
    """
    found: list[str] = []
    for field, most in (("name", MAX_NAME), ("description", MAX_DESCRIPTION), ("compatibility", MAX_COMPATIBILITY)):
        if (size := len(getattr(skill, field))) > most:
            found.append(f"the {field} has {size:,} characters; the public form allows {most:,}")
    name = skill.name[:MAX_NAME]
    if not _FORM.match(name):
        found.append(f"the name {name!r} should be small letters, digits and single hyphens, not at either end")
    if skill.path is not None and skill.path.name != skill.name:
        found.append(f"the name {name!r} should be that of its folder, {skill.path.name!r}")
    return tuple(found)
