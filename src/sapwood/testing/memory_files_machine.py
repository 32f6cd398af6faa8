"""Any sequence of the memory tool's commands, against a model of a dictionary and a set. Needs hypothesis.

Laws: what the model says is what every place does; the model does its edits letter by letter, not as the tool does.
"""

from collections.abc import Iterator

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sapwood.core.errors import ToolError
from sapwood.core.memory_files import MemoryFileLimits, MemoryFiles, MemoryFolder, Names
from sapwood.memory.file_commands import FileCommands
from sapwood.memory.file_paths import path_of

__all__ = ["MemoryFilesMachine"]
LIMITS = MemoryFileLimits(max_files=7, max_bytes=80, max_file_bytes=40, max_depth=3)
_PATHS = st.lists(st.sampled_from(["a", "b", "é.txt"]), min_size=1, max_size=4).map(tuple)
_TEXTS = st.lists(st.sampled_from(["a", "b", "\n", "\r\n", "\r", "\f", "\u2028", "日"]), max_size=12).map("".join)
_FILES = st.lists(st.sampled_from(["a", "b", "a\n", "b\r\n", "\r\n"]), max_size=8).map("".join)


class MemoryFilesMachine(RuleBasedStateMachine):
    """Commands to a place and to the model. Subclass it, and give its `TestCase` to your runner."""

    def __init__(self) -> None:
        super().__init__()
        self.place = self.opened()
        self.commands = FileCommands(self.place, LIMITS)
        self.files: dict[Names, str] = {}
        self.folders: set[Names] = {()}

    def opened(self) -> MemoryFiles:
        """Return a new and empty place."""
        raise NotImplementedError

    def told(self, expected: bool, command: str, path: Names, **given: object) -> str:
        """Run a command that must succeed or must be refused, and return what the model is told."""
        where = {} if command == "rename" else {"path": path_of(path)}
        try:
            text, succeeds = self.commands.run({"command": command, **where, **given}), True
        except ToolError as error:
            text, succeeds = str(error), False
        assert succeeds == expected, f"{command} {path} {given}: {text}"
        return text

    @rule(path=_PATHS, text=_TEXTS | _FILES, mark=st.sampled_from(["", "", "", "\ufeff"]))
    def create(self, path: Names, text: str, mark: str) -> None:
        """Make a file; it must be new, and there must be room."""
        text = mark + text
        above = [path[:count] for count in range(1, len(path))]
        added = 1 + sum(item not in self.folders for item in above)
        fits = self._fits(text, 0) and len(self.files) + len(self.folders) - 1 + added <= LIMITS.max_files
        is_free = not self._is_there(path) and not any(item in self.files for item in above)
        can = len(path) <= LIMITS.max_depth and is_free and fits
        self.told(can, "create", path, file_text=text)
        if can:
            self.folders.update(above)
            self.files[path] = text

    @rule(path=_PATHS, old=_TEXTS | _FILES, new=_TEXTS)
    def replace(self, path: Names, old: str, new: str) -> None:
        """Replace a text that stands in a file once."""
        made = _replaced(self.files.get(path, ""), old, new) if old else None
        can = made is not None and self._fits(made, len(self.files[path].encode()))
        self.told(can, "str_replace", path, old_str=old, new_str=new)
        if made is not None and can:
            self.files[path] = made

    @rule(number=st.integers(0, 6), start=st.integers(0, 30), size=st.integers(1, 5), new=_TEXTS)
    def replace_a_part(self, number: int, start: int, size: int, new: str) -> None:
        """Replace a text that does stand in a file, as the model sees it: with plain line ends."""
        if self.files:
            path = sorted(self.files)[number % len(self.files)]
            seen = self.files[path].replace("\r\n", "\n")
            self.replace(path, seen[start % max(1, len(seen)) :][:size], new)

    @rule(path=_PATHS, line=st.integers(-1, 9), text=_TEXTS)
    def insert(self, path: Names, line: int, text: str) -> None:
        """Put lines into a file."""
        made = _inserted(self.files[path], line, text) if path in self.files else None
        can = made is not None and self._fits(made, len(self.files[path].encode()))
        self.told(can, "insert", path, insert_line=line, insert_text=text)
        if made is not None and can:
            self.files[path] = made

    @rule(path=_PATHS | st.just(()))
    def delete(self, path: Names) -> None:
        """Remove a file, or a folder with all that is in it."""
        can = path != () and self._is_there(path)
        self.told(can, "delete", path)
        if can:
            self.files = {names: text for names, text in self.files.items() if names[: len(path)] != path}
            self.folders = {names for names in self.folders if names[: len(path)] != path}

    @rule(old=_PATHS | st.just(()), new=_PATHS)
    def rename(self, old: Names, new: Names) -> None:
        """Give a file or a folder another place."""
        above = [new[:count] for count in range(1, len(new))]
        added = sum(item not in self.folders for item in above)
        inside = [names for names in (*self.files, *self.folders) if old and names[: len(old)] == old]
        deepest = max((len(names) - len(old) for names in inside), default=0) + len(new)
        is_free = not self._is_there(new) and not any(item in self.files for item in above) and new[: len(old)] != old
        has_room = not added or len(self.files) + len(self.folders) - 1 + added <= LIMITS.max_files
        can = bool(inside) and is_free and has_room and deepest <= LIMITS.max_depth
        self.told(can, "rename", (), old_path=path_of(old), new_path=path_of(new))
        if can:
            self.files = {_moved(names, old, new): text for names, text in self.files.items()}
            self.folders = {_moved(names, old, new) for names in self.folders} | set(above)

    @rule(path=_PATHS | st.just(()))
    def view(self, path: Names) -> None:
        """Look at a file or a folder."""
        text = self.told(self._is_there(path), "view", path)
        if path in self.files:
            lines = [line.partition("\t")[2] for line in text.split("\n")[1:]]
            assert lines == self.files[path].removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
        elif path in self.folders:
            below = [names for names in (*self.files, *self.folders) if 0 < len(names) - len(path) <= 2]
            inside = sorted(names for names in below if names[: len(path)] == path)
            shown = [path_of(names) + ("/" if names in self.folders else "") for names in inside]
            assert [line.partition("\t")[2] for line in text.split("\n")[2:]] == shown

    @invariant()
    def it_holds_what_the_model_holds(self) -> None:
        """Every file has its bytes, and there is nothing else."""
        with self.place.held() as folder:
            found = dict(_all(folder, ()))
            count = len(self.files) + len(self.folders) - 1
            assert folder.usage(100) == (count, sum(len(text.encode()) for text in self.files.values()))
        assert found == {path: text.encode() for path, text in self.files.items()}

    def _is_there(self, path: Names) -> bool:
        return path in self.files or path in self.folders

    def _fits(self, text: str, before: int) -> bool:
        size = len(text.encode())
        total = sum(len(other.encode()) for other in self.files.values()) - before + size
        grows = before == 0 or size > before
        return not grows or (size <= LIMITS.max_file_bytes and total <= LIMITS.max_bytes)


def _all(folder: MemoryFolder, path: Names) -> Iterator[tuple[Names, bytes]]:
    for entry in folder.children(path):
        inner = (*path, entry.name)
        if entry.kind == "folder":
            yield from _all(folder, inner)
        else:
            yield inner, folder.read(inner, 1_000)


def _moved(names: Names, old: Names, new: Names) -> Names:
    return new + names[len(old) :] if names[: len(old)] == old else names


def _letters(text: str) -> list[str]:
    """Return the letters of a text, each line end of Windows as one."""
    letters: list[str] = []
    for letter in text:
        if letter == "\n" and letters and letters[-1] == "\r":
            letters[-1] = "\r\n"
        else:
            letters.append(letter)
    return letters


def _plain(letters: list[str]) -> list[str]:
    return ["\n" if letter == "\r\n" else letter for letter in letters]


def _as_in(letters: list[str], ends: set[str]) -> list[str]:
    """Return letters with the line ends of a place, where that has those of Windows only."""
    return ["\r\n" if letter == "\n" else letter for letter in letters] if ends == {"\r\n"} else letters


def _ends(letters: list[str]) -> set[str]:
    return {letter for letter in letters if letter in ("\n", "\r\n")}


def _replaced(text: str, old: str, new: str) -> str | None:
    """Return a text with one place replaced, None unless there is exactly one."""
    letters, wanted = _letters(text), _plain(_letters(old))
    size = len(wanted)
    places = [at for at in range(len(letters) - size + 1) if _plain(letters[at : at + size]) == wanted]
    if len(places) != 1:
        return None
    (at,) = places
    put = _as_in(_letters(new), _ends(letters[at : at + size]) or _ends(letters))
    return "".join(letters[:at] + put + letters[at + size :])


def _inserted(text: str, line: int, added: str) -> str | None:
    """Return a text with lines put in, None where there is no such line."""
    mark, letters = text[: text.startswith("\ufeff")], _letters(text.removeprefix("\ufeff"))
    lines: list[list[str]] = [[]]
    for letter in letters:
        lines[-1].append(letter)
        if letter in ("\n", "\r\n"):
            lines.append([])
    if not lines[-1]:
        lines.pop()
    if not 0 <= line <= len(lines):
        return None
    near = [item[-1] for item in (*reversed(lines[:line]), *lines[line:]) if item[-1] in ("\n", "\r\n")]
    end = near[0] if near else "\n"
    new = _as_in(_letters(added), {end})
    new = new[:-1] if new and new[-1] in ("\n", "\r\n") else new
    is_open = line == len(lines) and bool(lines) and lines[-1][-1] not in ("\n", "\r\n")
    lines.insert(line, [end, *new] if is_open else [*new, end])
    return mark + "".join(letter for item in lines for letter in item)
