"""Skills in folders: read from SKILL.md, their files offered to be read, their scripts to be run where that is allowed.

Laws: reading a skill runs nothing of it; what cannot be used is told of with its file and left out, and its
neighbours are read; no file outside of a skill's folder is ever read, and no link is followed; a script runs only
where that was allowed, only from `scripts/`, and as a tool like any other, so that hooks and people see it.
Source: guide A, "Skills"; the public SKILL.md form.
"""

import os
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sapwood.context.source import ContextSource, Contribution, Turn
from sapwood.core.check_schema import check_schema
from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.front_matter import FrontMatter, Value, read_front_matter
from sapwood.core.input_problems import input_error
from sapwood.core.skill_folder import open_inside, read_inside, steps_of
from sapwood.core.tools import READ_SKILL_FILE, RUN_SKILL_SCRIPT, BoundTool, JsonObject, ToolContext, ToolSchema

if TYPE_CHECKING:
    from sapwood.core.skill import Skill

MAX_SKILL_BYTES = 1_000_000
MAX_READ = 50_000
"""Characters that one reading shows."""
MAX_READ_BYTES = 10_000_000
MAX_OUTPUT = 50_000
SCRIPT_SECONDS = 60.0
MAX_DEPTH = 5
MAX_FOLDERS = 2_000
_FILES = ("SKILL.md", "skill.md")
_NOT_SKILLS = frozenset({"node_modules", "__pycache__", "venv"})
_KNOWN = ("name", "description", "license", "compatibility", "metadata", "allowed-tools", "activation", "tags")


def load_skill(folder: str | os.PathLike[str], *, tools: Sequence[Any] = ()) -> "Skill":
    """Return the skill in a folder, or in the SKILL.md that is named.

    tools: those that belong to it; a file brings none. Raises ConfigError, with the file and the rule, for what is no
    skill; warns of what only departs from the public form.
    """
    path = Path(folder).expanduser()
    path = (path.parent if path.name in _FILES else path).resolve()
    for name in _FILES:
        try:
            content = read_inside(path, name, most=MAX_SKILL_BYTES + 1)
        except ToolError:
            continue
        return _skill(path, content, tools)
    raise ConfigError(f"{path} holds no skill: it has no file SKILL.md that can be read")


def _skill(path: Path, content: bytes, tools: Sequence[Any]) -> "Skill":
    from pydantic import ValidationError

    from sapwood.core.skill import SKILL_FILE, Skill

    file = path / SKILL_FILE
    if len(content) > MAX_SKILL_BYTES:
        raise ConfigError(f"{file}: over {MAX_SKILL_BYTES:,} bytes; move what is not always needed to other files")
    try:
        found = read_front_matter(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: must be UTF-8; byte {error.start} is not") from None
    if found is None:
        raise ConfigError(f"{file}: must begin with front matter, which is set between two lines of ---")
    for problem in found.problems:
        warnings.warn(f"{file}: {problem}", stacklevel=3)
    fields = _fields(file, found)
    try:
        return Skill(**fields, instructions=found.body, tools=tuple(tools), path=path)
    except ValidationError as error:
        told = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise ConfigError(f"{file}: {told}") from None


def _fields(file: Path, found: FrontMatter) -> dict[str, Any]:
    given = {key.replace("_", "-").lower(): value for key, value in found.fields.items()}
    for key in sorted(given.keys() - set(_KNOWN)):
        warnings.warn(f"{file}: {key!r} is no field of a skill and is not used; put it under metadata", stacklevel=4)
    metadata = given.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ConfigError(f"{file}: metadata must be a list of `key: value`, not {metadata!r}")
    fields: dict[str, Any] = {
        "metadata": {key: _plain(value) for key, value in metadata.items()},
        "allowed_tools": _words(file, "allowed-tools", given.get("allowed-tools")),
        "tags": _words(file, "tags", given.get("tags"), blanks=False),
    }
    activation = given.get("activation", metadata.get("activation"))
    fields.update({} if activation is None else {"activation": activation})
    fields.update({key: _plain(given[key]) for key in ("license", "compatibility") if given.get(key) is not None})
    # A missing one is told of as a missing one, and an empty one as empty.
    fields.update({key: "" if given[key] is None else given[key] for key in ("name", "description") if key in given})
    return fields


def _plain(value: Value) -> str:
    """Return a value as the text that was written, as far as it is still known."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).lower()
    return value if isinstance(value, str) else str(value)


def _words(file: Path, name: str, value: Value, *, blanks: bool = True) -> tuple[str, ...]:
    """Return names from a list, or from a text with commas; blanks: they part names, too."""
    if value is None or isinstance(value, list):
        return tuple(_plain(item).strip() for item in value or () if _plain(item).strip())
    if isinstance(value, dict):
        raise ConfigError(f"{file}: {name} must be a list or a text, not {value!r}")
    parts = _plain(value).split(",")
    parts = [word for part in parts for word in part.split()] if blanks else parts
    return tuple(part.strip() for part in parts if part.strip())


def load_skills(folder: str | os.PathLike[str]) -> "tuple[Skill, ...]":
    """Return the skills below a folder, by the order of their places.

    What is no skill is left out with a warning; so is the second of two with one name. Links are not followed, hidden
    folders not looked into; five folders deep, 2,000 folders at most. Raises ConfigError where there is no such folder.
    """
    root = Path(folder).expanduser()
    if not root.is_dir():
        raise ConfigError(f"there is no folder {str(root)!r} with skills")
    found: dict[str, Skill] = {}
    for path in _skill_folders(root.resolve()):
        try:
            skill = load_skill(path)
        except ConfigError as error:
            warnings.warn(f"skipped: {error}", stacklevel=2)
            continue
        if (first := found.get(skill.name)) is not None:
            warnings.warn(f"skipped: {skill.place} has the name of {first.place}, {skill.name!r}", stacklevel=2)
            continue
        found[skill.name] = skill
    return tuple(found.values())


def _skill_folders(root: Path) -> Iterator[Path]:
    """Yield the folders below that hold a SKILL.md; nothing inside of one is looked at."""
    waiting, seen = [(root, 0)], 0
    while waiting:
        folder, depth = waiting.pop()
        seen += 1
        if seen > MAX_FOLDERS:
            warnings.warn(f"{root}: only the first {MAX_FOLDERS:,} folders were looked through", stacklevel=4)
            return
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            warnings.warn(f"skipped: {folder} cannot be read: {error.strerror}", stacklevel=4)
            continue
        if any(entry.name in _FILES for entry in inside):
            yield folder
            continue
        below: list[tuple[Path, int]] = []
        for entry in inside:
            if entry.name.startswith(".") or entry.name in _NOT_SKILLS:
                continue
            if entry.is_symlink() and entry.is_dir():
                told = "is a link, which is not followed; name the folder that it leads to"
                warnings.warn(f"skipped: {entry.path} {told}", stacklevel=4)
            elif entry.is_dir(follow_symlinks=False) and depth < MAX_DEPTH:
                below.append((Path(entry.path), depth + 1))
        waiting.extend(reversed(below))


class SkillFileSource(ContextSource):
    """Offers to read the files of skills, and to run their scripts where that is allowed.

    The tools are named in the answer to an activation. Nothing is offered where no skill has a folder.
    """

    name = "skill_files"

    def __init__(self, skills: "Sequence[Skill]", *, allow_scripts: bool = False) -> None:
        folders = {skill.name: skill.path for skill in skills if skill.path is not None}
        tools = [_reader(folders)] if any(skill.reference_files() or skill.script_files() for skill in skills) else []
        with_scripts = {skill.name: folders[skill.name] for skill in skills if skill.path and skill.script_files()}
        if allow_scripts and with_scripts:
            tools.append(_runner(with_scripts))
        self._tools = tuple(tools)

    def contribute(self, turn: Turn) -> Contribution:
        """Return the tools."""
        return Contribution(tools=self._tools)


def _reader(folders: Mapping[str, Path]) -> BoundTool:
    properties: JsonObject = {
        "skill_name": {"type": "string", "enum": list(folders)},
        "file_path": {"type": "string", "description": "relative to the skill, e.g. references/api.md"},
        "offset": {"type": "integer", "minimum": 0, "description": "characters to leave out at the beginning"},
    }
    schema = _object(properties, "skill_name", "file_path")

    def run(arguments: Mapping[str, Any], context: ToolContext) -> str:
        return _shown(folders[arguments["skill_name"]], arguments["file_path"], int(arguments.get("offset") or 0))

    told = ToolSchema(READ_SKILL_FILE, "Read a file that comes with a skill.", schema)
    return BoundTool(told, run, partial(_checked, schema), read_only=True)


def _shown(folder: Path, name: str, offset: int) -> str:
    content = read_inside(folder, name, most=MAX_READ_BYTES + 1)
    if len(content) > MAX_READ_BYTES:
        raise ToolError(f"{name} is too large to be read: over {MAX_READ_BYTES:,} bytes.")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError(f"{name} is no text; it has {len(content):,} bytes of another kind.") from None
    if offset and offset >= len(text):
        raise ToolError(f"{name} has {len(text):,} characters, so none after {offset:,}.")
    end = offset + MAX_READ
    rest = f"\n[{len(text) - end:,} more characters; go on with offset={end}]" if end < len(text) else ""
    return (text[offset:end] or "(the file is empty)") + rest


def _runner(folders: Mapping[str, Path]) -> BoundTool:
    properties: JsonObject = {
        "skill_name": {"type": "string", "enum": list(folders)},
        "script_path": {"type": "string", "description": "relative to the skill, e.g. scripts/run.py"},
        "args": {"type": "array", "items": {"type": "string"}, "description": "one text for each argument"},
    }
    schema = _object(properties, "skill_name", "script_path")

    def check(raw: JsonObject) -> Mapping[str, Any]:
        return _checked(schema, {**raw, "args": _listed(raw.get("args"))})

    def run(arguments: Mapping[str, Any], context: ToolContext) -> str:
        from sapwood.runtime.processes import run_process  # few agents run scripts

        folder, name = folders[arguments["skill_name"]], arguments["script_path"]
        command = _command(folder, name)
        ended = run_process(
            [*command, *arguments["args"]],
            folder=folder,
            seconds=SCRIPT_SECONDS,
            most=MAX_OUTPUT,
            stopped=lambda: context.cancelled,
        )
        if ended.code is None:
            raise ToolError(f"{name} was stopped: {ended.why}. What it had done by then is not known.\n{ended.shown}")
        if ended.code != 0:
            raise ToolError(f"{name} ended with exit code {ended.code}.\n{ended.shown}")
        return f"exit code 0\n{ended.shown}"

    told = ToolSchema(RUN_SKILL_SCRIPT, "Run a script that comes with a skill, in the skill's folder.", schema)
    return BoundTool(told, run, check)


def _command(folder: Path, name: str) -> list[str]:
    """Return what runs a script; raises ToolError for what is none."""
    from sapwood.core.skill import SCRIPTS

    steps = steps_of(name)
    if steps[0] != SCRIPTS or len(steps) < 2:
        raise ToolError(f"{name!r} is no script: only files in {SCRIPTS}/ may be run.")
    os.close(open_inside(folder, name))  # it is there, a plain file, and no step leads through a link
    path = os.fspath(folder.joinpath(*steps))
    if (program := _programs().get(Path(path).suffix)) is not None:
        return [program, path]
    if os.access(path, os.X_OK):
        return [path]
    raise ToolError(f"{name} cannot be run: it is neither Python nor shell, and its file is not executable.")


def _programs() -> dict[str, str]:
    import sys

    return {".py": sys.executable, ".sh": "/bin/sh", ".bash": "bash"}


def _listed(args: Any) -> Any:
    """Return the arguments as a list; a text is taken as a command line would be."""
    if not isinstance(args, str):
        return [] if args is None else args
    try:
        return shlex.split(args)
    except ValueError as error:
        raise ToolError(f"args: {error}; give a list with one text for each argument") from None


def _object(properties: JsonObject, *required: str) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _checked(schema: JsonObject, raw: JsonObject) -> Mapping[str, Any]:
    if problems := check_schema(raw, schema):
        raise input_error(problems)
    return raw
