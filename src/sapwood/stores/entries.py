"""Stores of facts under the names of guide A: in this process, and in a file of JSON lines.

Laws: these are faces of the one memory that there is, so what they keep and find is the same; a file is whole at any
moment: it is written beside and put in place, and what it held before stays until then.
"""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sapwood.core.errors import ConfigError, StoreError
from sapwood.core.memory import Origin
from sapwood.core.ports import Embedder
from sapwood.stores.embedding import Embedding
from sapwood.stores.in_process import InProcessMemoryStore
from sapwood.stores.in_process_memory import InProcessMemories
from sapwood.stores.memory import Memory
from sapwood.stores.memory_home import MemoryHome
from sapwood.stores.memory_rows import MemoryRows
from sapwood.stores.memory_values import Time

T = TypeVar("T")
FORMAT = 1
_HEADER = b'{"sapwood_memory":%d}\n' % FORMAT
_SPARE = ".writing"


class InMemoryEntryStore(InProcessMemoryStore):
    """Facts in this process, for a `MemoryManager`; lost when it ends. It belongs to one owner.

    >>> store = InMemoryEntryStore()
    >>> [fact.text for fact in (store.save("Ann likes tea"), *store.search("tea?"))]
    ['Ann likes tea', 'Ann likes tea']
    """

    def forget_all(
        self,
        *,
        kind: str | None = None,
        origin: Origin | None = None,
        before: Time | None = None,
        everything: bool = True,
    ) -> int:
        """Remove all records; there is no other owner to ask for."""
        return super().forget_all(kind=kind, origin=origin, before=before, everything=everything)


class JsonFileMemoryStore(Memory):
    """Facts in a file of JSON lines that people can read, for a `MemoryManager`.

    path: made with the first fact, its folder must be there. embedder: None searches by words alone.

    Every change writes the whole file, so it is for some thousand facts and one process; `SqliteStore(path).memory` is
    for more. Raises StoreError for a file that is no such file, or that another program has changed meanwhile.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "facts.jsonl"
    >>> _ = JsonFileMemoryStore(path).save("Ann likes tea")
    >>> [fact.text for fact in JsonFileMemoryStore(path).search("tea?")]
    ['Ann likes tea']
    """

    def __init__(self, path: str | os.PathLike[str], *, embedder: Embedder | None = None) -> None:
        embedding = Embedding(embedder) if embedder is not None else None
        super().__init__(MemoryHome(_JsonFile(Path(path), embedding), embedding))

    def forget_all(
        self,
        *,
        kind: str | None = None,
        origin: Origin | None = None,
        before: Time | None = None,
        everything: bool = True,
    ) -> int:
        """Remove all records; the file belongs to one owner."""
        return super().forget_all(kind=kind, origin=origin, before=before, everything=everything)


class _JsonFile:
    """Memories in this process that are written to a file with each change."""

    keeps_out = True
    waits = True

    def __init__(self, path: Path, embedding: Embedding | None) -> None:
        self._path = path
        self._embedding = embedding
        self._lock = threading.RLock()
        self._seen: tuple[int, int, int] | None = None
        self._memories = self._read()

    def write_memory(self, change: Callable[[MemoryRows], T]) -> T:
        """Run a transaction, and return its result once the file holds it."""
        with self._lock:
            try:
                result = self._memories.write_memory(change)
                self._write()
            except BaseException:
                self._memories = self._read()  # what is not in the file has not happened
                raise
            return result

    def read_memory(self, look: Callable[[MemoryRows], T]) -> T:
        """Run a transaction that changes nothing."""
        with self._lock:
            return self._memories.read_memory(look)

    def _write(self) -> None:
        lines = (msgspec.json.encode(record) + b"\n" for record in Memory(MemoryHome(self._memories)).export())
        spare = self._path.with_name(self._path.name + _SPARE)
        try:
            if self._stamp() != self._seen:
                raise StoreError(
                    f"{self._path} was changed by another program since it was read; open it anew. For several "
                    "processes there is SqliteStore(path).memory"
                )
            with spare.open("wb") as file:
                file.write(_HEADER)
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())
            spare.replace(self._path)
            _sync_folder(self._path.parent)
            self._seen = self._stamp()
        except OSError as error:
            raise StoreError(f"{self._path} could not be written: {error}. What it held before is intact.") from error

    def _read(self) -> InProcessMemories:
        memories = InProcessMemories()
        try:
            self._seen = self._stamp()
            found = self._path.read_bytes() if self._seen is not None else b""
        except OSError as error:
            raise StoreError(f"{self._path} cannot be read: {error}") from error
        try:
            Memory(MemoryHome(memories, self._embedding)).load(_records(self._path, found))
        except ConfigError as error:
            raise StoreError(f"{self._path} holds a record that cannot be read: {error}") from error
        return memories

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


def _records(path: Path, found: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(found.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            item: Any = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreError(f"line {number} of {path} is no JSON ({error}); nothing is written to it") from None
        if isinstance(item, dict) and "sapwood_memory" in item:
            if item["sapwood_memory"] != FORMAT:
                raise StoreError(f"{path} was written by a newer version of sapwood; update it. Nothing was changed")
            continue
        yield item


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
