"""A real folder for the memory tool's files, which nothing leads out of.

Laws: every step is taken from the handle of the folder before it and follows no link, so nothing that is swapped
meanwhile leads outside; nothing is opened that is no plain file with one name; a file is replaced whole or not at all;
one command at a time holds the folder, of all threads and processes. Linux and macOS only (decision 25).
"""

import errno
import os
import shutil
import stat
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from sapwood.core import fault
from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.memory_files import SPARE, MemoryEntry, MemoryFolder, Names

_NO_FOLDER = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))
_SECONDS_BETWEEN = 0.002


class FolderFiles:
    """A folder of this machine as the place of a memory tool's files.

    path: made where it is missing, readable by its owner only. A link on the way to it is followed, once, now; inside
    it none ever is. wait_seconds: how long a command waits for others that hold the folder.

    Raises ConfigError on Windows, and for what is no folder or cannot be used.

    >>> import tempfile
    >>> with FolderFiles(tempfile.mkdtemp()).held() as folder:
    ...     folder.write(("notes", "tea.txt"), b"green")
    ...     folder.usage(100)
    (2, 5)
    """

    def __init__(self, path: str | os.PathLike[str], *, wait_seconds: float = 30.0) -> None:
        require_handles(os.name)
        try:
            given = Path(path).expanduser()
            given.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path = given.resolve(strict=True)
            os.close(self._opened())
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"{path!r} cannot be the folder of a memory tool: {error}") from error
        self._wait_seconds = wait_seconds

    @contextmanager
    def held(self) -> Generator[MemoryFolder]:
        """Hold the folder for one command; raises ToolError where others hold it for too long."""
        import fcntl

        handle = self._locked()
        try:
            yield _Handles(handle)
        finally:
            # Closing would do, but not where a fork of this process still has the handle.
            fcntl.flock(handle, fcntl.LOCK_UN)
            os.close(handle)

    def _locked(self) -> int:
        """Return a handle of the folder that nobody else holds."""
        deadline = time.monotonic() + self._wait_seconds
        while True:
            handle = self._opened()
            try:
                if _takes(handle) and self._is_there(handle):
                    return handle
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)
            if time.monotonic() > deadline:
                raise ToolError("The memory is in use by others; try again later.")
            time.sleep(_SECONDS_BETWEEN)

    def _opened(self) -> int:
        return os.open(self._path, _FOLDER)

    def _is_there(self, handle: int) -> bool:
        """Tell whether the folder is still the one at its path: it may have been removed and made anew."""
        try:
            return os.path.samestat(os.fstat(handle), os.lstat(self._path))
        except FileNotFoundError:
            return False


def _takes(handle: int) -> bool:
    """Hold a folder, and tell whether nobody else does."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def require_handles(system: str) -> None:
    """Raise ConfigError on a system that cannot open a file from the handle of its folder.

    system: `os.name`.

    >>> require_handles("nt")
    Traceback (most recent call last):
    sapwood.core.errors.ConfigError: a folder needs Linux or macOS; give InProcessFiles() or a MemoryFiles of yours
    """
    if system != "posix":
        raise ConfigError("a folder needs Linux or macOS; give InProcessFiles() or a MemoryFiles of yours")


_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


class _Handles:
    """The files below one open folder."""

    def __init__(self, root: int) -> None:
        self._root = root

    def find(self, path: Names) -> MemoryEntry | None:
        if not path:
            return MemoryEntry("", "folder")
        try:
            with self._folder(path[:-1]) as parent:
                return _entry(path[-1], os.lstat(path[-1], dir_fd=parent))
        except OSError as error:
            if error.errno in _NO_FOLDER:
                return None
            raise

    def children(self, path: Names) -> Sequence[MemoryEntry]:
        with self._folder(path) as folder:
            return list(_inside(folder))

    def usage(self, most: int) -> tuple[int, int]:
        count = size = 0
        waiting: list[Names] = [()]
        while waiting and count <= most:
            path = waiting.pop()
            for entry in self._counted(path):
                count, size = count + 1, size + entry.size
                if entry.kind == "folder":
                    waiting.append((*path, entry.name))
        return count, size

    def _counted(self, path: Names) -> Sequence[MemoryEntry]:
        """Return what lies in a folder, nothing where somebody who does not hold the memory took it away."""
        try:
            return self.children(path)
        except OSError as error:
            if error.errno in _NO_FOLDER:
                return ()
            raise

    def read(self, path: Names, most: int) -> bytes:
        with self._folder(path[:-1]) as parent:
            found = os.lstat(path[-1], dir_fd=parent)
            _require(_is_plain(found))  # opening a device may already do something
            handle = os.open(path[-1], _READ, dir_fd=parent)
            with open(handle, "rb") as file:
                # A second name of a file outside, put here and taken away again, may have one name by now: but it is
                # another file than the one that was looked at, before or after it was opened.
                opened, now = os.fstat(handle), os.lstat(path[-1], dir_fd=parent)
                for seen in (opened, now):
                    _require(_is_plain(seen) and os.path.samestat(seen, found))
                return file.read(most + 1)

    def write(self, path: Names, content: bytes) -> None:
        with self._folder(path[:-1], makes=True) as parent:
            _clear(parent)
            handle = os.open(SPARE, _NEW, 0o600, dir_fd=parent)
            try:
                with open(handle, "wb") as file:
                    fault.point("files.opened")
                    if (mode := _mode(path[-1], parent)) is not None:
                        os.fchmod(handle, mode)
                    file.write(content)
                    file.flush()
                    os.fsync(handle)
                fault.point("files.written")
                os.replace(SPARE, path[-1], src_dir_fd=parent, dst_dir_fd=parent)
                fault.point("files.replaced")
            except BaseException:
                with suppress(OSError):
                    os.unlink(SPARE, dir_fd=parent)
                raise
            _sync(parent)

    def remove(self, path: Names) -> None:
        with self._folder(path[:-1]) as parent:
            if not stat.S_ISDIR(os.lstat(path[-1], dir_fd=parent).st_mode):
                os.unlink(path[-1], dir_fd=parent)
            else:
                # Gone in one step; what it held is then removed where nobody sees it.
                _clear(parent)
                os.rename(path[-1], SPARE, src_dir_fd=parent, dst_dir_fd=parent)
                _clear_or_restore(parent, path[-1])
            _sync(parent)

    def move(self, old: Names, new: Names) -> None:
        with self._folder(old[:-1]) as start, self._folder(new[:-1], makes=True) as end:
            os.rename(old[-1], new[-1], src_dir_fd=start, dst_dir_fd=end)
            _sync(end)
            _sync(start)

    @contextmanager
    def _folder(self, path: Names, *, makes: bool = False) -> Generator[int]:
        """Open a folder, one name after the other, each from the handle of the one before. makes: those missing."""
        with ExitStack() as stack:
            handle = self._root
            for name in path:
                try:
                    inner = os.open(name, _FOLDER, dir_fd=handle)
                except FileNotFoundError:
                    if not makes:
                        raise
                    os.mkdir(name, 0o700, dir_fd=handle)
                    _sync(handle)
                    inner = os.open(name, _FOLDER, dir_fd=handle)
                stack.callback(os.close, inner)
                handle = inner
            yield handle


def _inside(folder: int) -> Iterator[MemoryEntry]:
    for name in os.listdir(folder):
        if name == SPARE:
            continue
        try:
            yield _entry(name, os.lstat(name, dir_fd=folder))
        except FileNotFoundError:
            continue  # removed meanwhile by somebody who does not hold the folder


def _entry(name: str, found: os.stat_result) -> MemoryEntry:
    if stat.S_ISDIR(found.st_mode):
        return MemoryEntry(name, "folder")
    if _is_plain(found):
        return MemoryEntry(name, "file", found.st_size)
    return MemoryEntry(name, "other")


def _is_plain(found: os.stat_result) -> bool:
    """Tell whether it is a file with one name; by another one it may lie outside."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink <= 1


def _require(is_right: bool) -> None:
    if not is_right:
        raise ToolError("The file was replaced meanwhile by what is no regular file.")


def _mode(name: str, parent: int) -> int | None:
    """Return the rights of the file that is replaced, None where there is none."""
    try:
        found = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return None
    return found.st_mode & 0o777 if stat.S_ISREG(found.st_mode) else None


def _clear(parent: int) -> None:
    """Remove what a process that died left of a write or a removal."""
    try:
        found = os.lstat(SPARE, dir_fd=parent)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode):
        shutil.rmtree(SPARE, dir_fd=parent)
    else:
        os.unlink(SPARE, dir_fd=parent)


def _clear_or_restore(parent: int, name: str) -> None:
    """Remove what was set aside; put back what is left of it where that cannot be done."""
    try:
        fault.point("files.set_aside")
        _sync(parent)
        _clear(parent)
    except OSError:
        with suppress(OSError):
            os.rename(SPARE, name, src_dir_fd=parent, dst_dir_fd=parent)
        raise


def _sync(folder: int) -> None:
    """Bring a folder's names to the disk; some file systems know no such thing for folders."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
