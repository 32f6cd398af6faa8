"""Files for the memory tool in this process: a dictionary, for tests and for applications that may forget."""

import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from sapwood.core.memory_files import MemoryEntry, MemoryFolder, Names


class InProcessFiles:
    """Files of a memory tool, kept in this process and lost at its end.

    files: what is there at first, content by path below `/memories`.

    >>> InProcessFiles({"notes/tea.txt": "green"}).files()
    {'notes/tea.txt': b'green'}
    """

    def __init__(self, files: Mapping[str, str | bytes] | None = None) -> None:
        self._lock = threading.Lock()
        self._folder = _Dictionary()
        for path, content in (files or {}).items():
            self._folder.write(tuple(path.split("/")), content.encode() if isinstance(content, str) else content)

    @contextmanager
    def held(self) -> Generator[MemoryFolder]:
        """Hold the files for one command."""
        with self._lock:
            yield self._folder

    def files(self) -> dict[str, bytes]:
        """Return a copy of the content of each file, by its path below `/memories`."""
        with self._lock:
            return {"/".join(names): content for names, content in sorted(self._folder.files.items())}


class _Dictionary:
    """Content by path, and the folders, which stay when they become empty."""

    def __init__(self) -> None:
        self.files: dict[Names, bytes] = {}
        self.folders: set[Names] = {()}

    def find(self, path: Names) -> MemoryEntry | None:
        name = path[-1] if path else ""
        if path in self.folders:
            return MemoryEntry(name, "folder")
        content = self.files.get(path)
        return None if content is None else MemoryEntry(name, "file", len(content))

    def children(self, path: Names) -> Sequence[MemoryEntry]:
        if path not in self.folders:
            raise NotADirectoryError(path)
        inside = {names for names in (*self.files, *self.folders) if names and names[:-1] == path}
        return [entry for names in inside if (entry := self.find(names)) is not None]

    def usage(self, most: int) -> tuple[int, int]:
        return len(self.files) + len(self.folders) - 1, sum(map(len, self.files.values()))

    def read(self, path: Names, most: int) -> bytes:
        return self.files[path]

    def write(self, path: Names, content: bytes) -> None:
        self._make(path[:-1])
        self.files[path] = content

    def remove(self, path: Names) -> None:
        self.files = {names: content for names, content in self.files.items() if names[: len(path)] != path}
        self.folders = {names for names in self.folders if names[: len(path)] != path}

    def move(self, old: Names, new: Names) -> None:
        self._make(new[:-1])
        size = len(old)

        def moved(names: Names) -> Names:
            return new + names[size:] if names[:size] == old else names

        self.files = {moved(names): content for names, content in self.files.items()}
        self.folders = {moved(names) for names in self.folders}

    def _make(self, path: Names) -> None:
        self.folders.update(path[:count] for count in range(len(path) + 1))
