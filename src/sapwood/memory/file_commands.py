"""The six commands of the memory tool: view, create, str_replace, insert, delete, rename.

Laws: each command holds the memory for its whole time; all is checked before anything is changed, and a command changes
one thing; no answer is longer than the limits say; nothing of the place below but `/memories/...` is ever shown.
Shapes are those of guide A, section 10, and where its two columns differ those of the vendor's own tool.
"""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sapwood.core.errors import ToolError
from sapwood.core.memory_files import MemoryEntry, MemoryFileLimits, MemoryFiles, MemoryFolder, Names
from sapwood.memory.file_edits import Edited, decoded, encoded, insert_lines, replace_text, shown_lines
from sapwood.memory.file_paths import ROOT, can_be_named, names_of, path_of

_log = logging.getLogger(__name__)
MAX_LINES = 999_999
"""Lines of a file that can be shown, as in the vendor's tool: numbers have six digits."""
_LEVELS = 2
_AROUND = 2  # lines that are shown before and after a change


class FileCommands:
    """Runs commands on a memory.

    >>> from sapwood.stores.in_process_files import InProcessFiles
    >>> commands = FileCommands(InProcessFiles(), MemoryFileLimits())
    >>> commands.run({"command": "create", "path": "/memories/a.txt", "file_text": "tea"})
    'File created successfully at: /memories/a.txt'
    """

    def __init__(self, files: MemoryFiles, limits: MemoryFileLimits) -> None:
        self._files = files
        self._limits = limits
        self._commands: dict[str, Callable[[MemoryFolder, Mapping[str, Any]], str]] = {
            "view": self._view,
            "create": self._create,
            "str_replace": self._str_replace,
            "insert": self._insert,
            "delete": self._delete,
            "rename": self._rename,
        }

    def run(self, given: Mapping[str, Any]) -> str:
        """Run one command and return what the model is told; raises ToolError with what it is told else.

        given: `command` and its arguments, of the right types.
        """
        command = given["command"]
        try:
            with self._files.held() as folder:
                return self._capped(self._commands[command](folder, given))
        except OSError as error:
            # An OSError names the file of the host, so only its number is told.
            _log.warning("memory %s failed: %s", command, type(error).__name__, exc_info=error)
            reason = os.strerror(error.errno) if error.errno else type(error).__name__
            raise ToolError(f"memory {command} failed: {reason}.") from None

    # -- commands --------------------------------------------------------------------------------

    def _view(self, folder: MemoryFolder, given: Mapping[str, Any]) -> str:
        path, entry = self._existing(folder, given)
        if entry.kind == "folder":
            return self._listing(folder, path)
        return self._numbered(self._text(folder, path, entry), path, given.get("view_range"))

    def _create(self, folder: MemoryFolder, given: Mapping[str, Any]) -> str:
        path = self._path(given, "path")
        content = encoded(given.get("file_text") or "", "file_text")
        if folder.find(path) is not None:
            raise ToolError(f"File {path_of(path)} already exists")
        self._require_folders(folder, path)
        self._require_room(folder, path, 0, len(content), is_new=True)
        folder.write(path, content)
        return f"File created successfully at: {path_of(path)}"

    def _str_replace(self, folder: MemoryFolder, given: Mapping[str, Any]) -> str:
        path, entry = self._existing(folder, given)
        text = self._text(folder, path, entry)
        edited = replace_text(text, _needed(given, "old_str"), given.get("new_str") or "", path_of(path))
        self._rewrite(folder, path, text, edited, "new_str")
        heading = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
        lines = shown_lines(edited.text)
        first, last = max(0, edited.first - _AROUND), edited.last + _AROUND + 1
        return "\n".join((heading, *_numbers(lines[first:last], first + 1)))

    def _insert(self, folder: MemoryFolder, given: Mapping[str, Any]) -> str:
        path, entry = self._existing(folder, given)
        text = self._text(folder, path, entry)
        edited = insert_lines(text, int(_needed(given, "insert_line")), _needed(given, "insert_text"))
        self._rewrite(folder, path, text, edited, "insert_text")
        return f"The file {path_of(path)} has been edited."

    def _delete(self, folder: MemoryFolder, given: Mapping[str, Any]) -> str:
        path = self._path(given, "path")
        if not path:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")
        if folder.find(path) is None:
            raise ToolError(f"The path {path_of(path)} does not exist")
        folder.remove(path)
        return f"Successfully deleted {path_of(path)}"

    def _rename(self, folder: MemoryFolder, given: Mapping[str, Any]) -> str:
        old, new = self._path(given, "old_path"), self._path(given, "new_path")
        if not old:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")
        entry = folder.find(old)
        if entry is None:
            raise ToolError(f"The path {path_of(old)} does not exist")
        if entry.kind == "other":
            raise ToolError(_no_file(old))
        if folder.find(new) is not None:
            raise ToolError(f"The destination {path_of(new)} already exists")
        if new[: len(old)] == old:
            raise ToolError(f"Cannot move {path_of(old)} into itself")
        self._require_folders(folder, new)
        below = _depth(folder, old, self._limits.max_depth) if entry.kind == "folder" else 0
        if len(new) + below > self._limits.max_depth:
            raise ToolError(
                f"Cannot move {path_of(old)} to {path_of(new)}: what is in it would lie deeper than "
                f"{self._limits.max_depth} names below {ROOT}."
            )
        self._require_folder_room(folder, new)
        folder.move(old, new)
        return f"Successfully renamed {path_of(old)} to {path_of(new)}"

    # -- what they need --------------------------------------------------------------------------

    def _path(self, given: Mapping[str, Any], name: str) -> Names:
        return names_of(_needed(given, name), self._limits)

    def _existing(self, folder: MemoryFolder, given: Mapping[str, Any]) -> tuple[Names, MemoryEntry]:
        path = self._path(given, "path")
        entry = folder.find(path)
        if entry is None:
            raise ToolError(f"The path {path_of(path)} does not exist. Please provide a valid path.")
        return path, entry

    def _text(self, folder: MemoryFolder, path: Names, entry: MemoryEntry) -> str:
        """Return the text of a file; raises ToolError for what is none, is too long, or is no text."""
        if entry.kind != "file":
            raise ToolError(_no_file(path) if entry.kind == "other" else f"The path {path_of(path)} is not a file.")
        most = self._limits.max_file_bytes
        content = folder.read(path, most) if entry.size <= most else b""
        if max(entry.size, len(content)) > most:
            raise ToolError(f"The file {path_of(path)} is too long to be read: {most:,} bytes at most.")
        return decoded(content, path_of(path))

    def _rewrite(self, folder: MemoryFolder, path: Names, text: str, edited: Edited, name: str) -> None:
        content = encoded(edited.text, name)
        self._require_room(folder, path, len(text.encode()), len(content), is_new=False)
        folder.write(path, content)

    def _require_folders(self, folder: MemoryFolder, path: Names) -> None:
        """Raise ToolError where a file stands in the way of the folders that a path needs."""
        for count in range(1, len(path)):
            entry = folder.find(path[:count])
            if entry is None:
                return
            if entry.kind != "folder":
                raise ToolError(f"The path {path_of(path[:count])} is not a directory, so nothing can be put into it.")

    def _require_room(self, folder: MemoryFolder, path: Names, before: int, after: int, *, is_new: bool) -> None:
        """Raise ToolError where a write would go past what may be kept; a file that does not grow always fits."""
        limits = self._limits
        if not is_new and after <= before:
            return
        if after > limits.max_file_bytes:
            raise ToolError(
                f"The file {path_of(path)} would be {after:,} bytes long, {limits.max_file_bytes:,} at most. Split it."
            )
        count, size = folder.usage(limits.max_files)
        added = (1 + _missing(folder, path)) if is_new else 0
        if added and count + added > limits.max_files:
            raise ToolError(_full(limits))
        if size - before + after > limits.max_bytes:
            raise ToolError(f"The memory is full: {limits.max_bytes:,} bytes at most. Delete what is not needed first.")

    def _require_folder_room(self, folder: MemoryFolder, new: Names) -> None:
        if (added := _missing(folder, new)) and folder.usage(self._limits.max_files)[
            0
        ] + added > self._limits.max_files:
            raise ToolError(_full(self._limits))

    # -- what is shown ---------------------------------------------------------------------------

    def _listing(self, folder: MemoryFolder, path: Names) -> str:
        """Return a folder with what is in it, two levels deep; nothing below that is looked at."""
        lines = [f"Here're the files and directories up to {_LEVELS} levels deep in {path_of(path)}, excluding hidden "]
        lines[0] += "items and node_modules:"
        lines.append(f"0B\t{path_of(path)}")
        room = self._limits.max_view_characters - len(lines[0]) - len(lines[1]) - 200
        for names, entry in _below(folder, path, _LEVELS):
            line = f"{_size(entry.size)}\t{path_of(names)}{'/' if entry.kind == 'folder' else ''}"
            room -= len(line) + 1
            if room < 0:
                lines.append("[There is more; it is not shown. View one of the directories.]")
                break
            lines.append(line)
        return "\n".join(lines)

    def _numbered(self, text: str, path: Names, view_range: list[int] | None) -> str:
        """Return a file's lines with their numbers: all, or those of a range, as many as may be shown."""
        lines = shown_lines(text)
        if len(lines) > MAX_LINES:
            raise ToolError(f"File {path_of(path)} exceeds maximum line limit of {MAX_LINES:,} lines.")
        first, last = _range(view_range, len(lines))
        shown = [f"Here's the content of {path_of(path)} with line numbers:"]
        room = self._limits.max_view_characters - len(shown[0]) - 200
        for number, line in zip(range(first, last + 1), _numbers(lines[first - 1 : last], first), strict=True):
            if len(line) + 1 > room and number > first:
                shown.append(f"[Lines {first} to {number - 1} of {len(lines)} are shown. ")
                shown[-1] += f"Use view_range [{number}, {last}] for the rest.]"
                break
            shown.append(line if len(line) < room else f"{line[: max(0, room)]}… [the line is cut]")
            room -= len(line) + 1
        return "\n".join(shown)

    def _capped(self, text: str) -> str:
        most = self._limits.max_view_characters
        return text if len(text) <= most else f"{text[: max(0, most - 20)]}… [cut]"


def _needed(given: Mapping[str, Any], name: str) -> Any:
    """Return an argument; raises ToolError where it is not given."""
    value = given.get(name)
    if value is None:
        raise ToolError(f"{name} is required for {given['command']}.")
    return value


def _range(view_range: list[int] | None, count: int) -> tuple[int, int]:
    """Return the first and the last line of a view_range; raises ToolError where it is none."""
    if view_range is None:
        return 1, count
    if len(view_range) != 2:
        raise ToolError(f"Invalid `view_range`: two line numbers, [first, last], not {len(view_range)}.")
    first, last = map(int, view_range)  # 2.0 is a whole number in JSON Schema
    if not 1 <= first <= count:
        raise ToolError(f"Invalid `view_range`: its first line, {first}, must be within the range [1, {count}].")
    if last != -1 and last < first:
        raise ToolError(
            f"Invalid `view_range`: its last line, {last}, comes before its first, {first}; -1 is the end of the file."
        )
    return first, count if last == -1 else min(last, count)


def _numbers(lines: Iterable[str], first: int) -> Iterable[str]:
    return (f"{number:6d}\t{line}" for number, line in enumerate(lines, first))


def _below(folder: MemoryFolder, path: Names, levels: int) -> Iterable[tuple[Names, MemoryEntry]]:
    """Yield what is shown of a folder, in order: no links and devices, nothing hidden."""
    for entry in sorted(folder.children(path), key=lambda entry: entry.name):
        is_hidden = entry.name.startswith(".") or entry.name == "node_modules"
        if entry.kind == "other" or is_hidden or not can_be_named(entry.name):
            continue
        yield (*path, entry.name), entry
        if entry.kind == "folder" and levels > 1:
            yield from _below(folder, (*path, entry.name), levels - 1)


def _depth(folder: MemoryFolder, path: Names, most: int) -> int:
    """Return how many levels lie below a folder, at most one more than may be."""
    if most <= 0:
        return 1
    inside = folder.children(path)
    deeper = (_depth(folder, (*path, entry.name), most - 1) for entry in inside if entry.kind == "folder")
    return 1 + max(deeper, default=0) if inside else 0


def _missing(folder: MemoryFolder, path: Names) -> int:
    """Return how many of the folders that a path needs are not there yet."""
    there = 0
    while there < len(path) - 1 and folder.find(path[: there + 1]) is not None:
        there += 1
    return max(0, len(path) - 1 - there)


def _no_file(path: Names) -> str:
    return f"The path {path_of(path)} is not a regular file, so it can only be deleted."


def _full(limits: MemoryFileLimits) -> str:
    return f"The memory is full: {limits.max_files:,} files and folders at most. Delete what is not needed first."


def _size(size: int) -> str:
    """Return a size as people write it.

    >>> _size(0), _size(300), _size(1536), _size(2 * 1024**2)
    ('0B', '300B', '1.5K', '2M')
    """
    value, units = float(size), iter("BKMG")
    unit = next(units)
    while value >= 1024 and unit != "G":
        value, unit = value / 1024, next(units)
    return f"{value:.0f}{unit}" if value == int(value) else f"{value:.1f}{unit}"
