"""What the memory tool asks of the place where its files are, and how much may lie there.

Laws: a path is the tuple of its names below `/memories`, already checked, the empty one being the folder itself; a
place does what it is told and judges nothing: what may be done is decided by the commands above it.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from sapwood.core.errors import ConfigError
from sapwood.core.require import shown
from sapwood.core.struct import Data

Names: TypeAlias = tuple[str, ...]
"""A path below `/memories`, as its names; empty for `/memories` itself."""
SPARE = ".sapwood.tmp"
"""The name of what is being written or removed, in its folder; no model may use it."""
EntryKind: TypeAlias = Literal["file", "folder", "other"]


class MemoryEntry(Data, frozen=True, tag="memory_entry"):
    """One thing in the memory: a file, a folder, or what is neither (a link, a device) and is left alone.

    size: bytes of a file, 0 of anything else.

    >>> MemoryEntry("notes.txt", "file", 12).size
    12
    """

    type: ClassVar[Literal["memory_entry"]] = "memory_entry"
    name: str
    kind: EntryKind
    size: int = 0


class MemoryFileLimits(Data, frozen=True, tag="memory_file_limits"):
    """How much the memory tool may keep and show.

    max_files: files and folders together. max_bytes, max_file_bytes: of all files and of one. max_depth: names in a
    path. max_name_bytes: of one name, in UTF-8. max_view_characters: of any answer to the model; the rest is cut off
    with a note.

    Raises ConfigError for what is no whole number above 0.

    >>> MemoryFileLimits(max_files=50).max_bytes
    10000000
    """

    type: ClassVar[Literal["memory_file_limits"]] = "memory_file_limits"
    max_files: int = 1_000
    max_bytes: int = 10_000_000
    max_file_bytes: int = 1_000_000
    max_depth: int = 8
    max_name_bytes: int = 200
    max_view_characters: int = 16_000

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is a whole number above 0, not {shown(value)}")


class MemoryFolder(Protocol):
    """The files of a memory while somebody holds it: nobody else reads or writes them meanwhile.

    Raise OSError (FileNotFoundError, PermissionError, ...) for what cannot be done, or ToolError with a text that
    the model may see. A model sees no more of an OSError than what its number means.
    """

    def find(self, path: Names) -> MemoryEntry | None:
        """Return what is there, None where nothing is; the empty path is a folder that is always there."""
        ...

    def children(self, path: Names) -> Sequence[MemoryEntry]:
        """Return what lies directly in a folder, in any order."""
        ...

    def usage(self, most: int) -> tuple[int, int]:
        """Return how many files and folders there are, and their bytes; it may stop past `most` of them."""
        ...

    def read(self, path: Names, most: int) -> bytes:
        """Return a file's content; of a longer one at least `most` bytes and one more."""
        ...

    def write(self, path: Names, content: bytes) -> None:
        """Write a file, a new one or all of an old one, and make the folders it lies in.

        Whatever happens, the file is afterwards whole: the new one, or the old one.
        """
        ...

    def remove(self, path: Names) -> None:
        """Remove a file, or a folder with all that is in it."""
        ...

    def move(self, old: Names, new: Names) -> None:
        """Give a file or a folder another place, where nothing is, and make the folders it will lie in."""
        ...


@runtime_checkable
class MemoryFiles(Protocol):
    """A place for the memory tool's files: a folder, rows of a database, anything that can be held.

    `Agent.with_memory_tool` takes one in place of a path. `InProcessFiles` is one, `FolderFiles` another.
    """

    def held(self) -> AbstractContextManager[MemoryFolder]:
        """Hold the memory for one command, against all threads and processes that share it.

        A database begins a transaction here, and commits it at the end, or rolls it back after an exception.
        """
        ...
