"""Other processes for the tests of the memory tool's folder: `python file_children.py WHAT ARGUMENTS...`."""

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from sapwood import FolderFiles, MemoryFileLimits
from sapwood.memory.file_commands import FileCommands
from sapwood.testing.faults import crash_at


def commands(path: str) -> FileCommands:
    return FileCommands(FolderFiles(path, wait_seconds=100), MemoryFileLimits())


def edit(path: str, name: str, count: str) -> None:
    """Add lines to a file that others add to, and count in another one, in `count` edits."""
    run = commands(path).run
    sys.stdin.readline()
    for number in range(int(count) // 2):
        run({"command": "insert", "path": "/memories/log", "insert_line": 0, "insert_text": f"{name} {number}"})
        old, new = f"<{name} {number}>", f"<{name} {number + 1}>"
        run({"command": "str_replace", "path": "/memories/counts", "old_str": old, "new_str": new})


def swap(path: str, outside: str) -> None:
    """Put a link to outside in place of a folder and of a file, and take it away again, until killed."""
    folder, file = Path(path, "d"), Path(path, "f")
    print("ready", flush=True)
    while True:
        for aside, make in (
            (folder, lambda: os.symlink(outside, folder)),
            (file, lambda: os.symlink(Path(outside, "x"), file)),
            (file, lambda: os.link(Path(outside, "x"), file)),
            (file, lambda: os.mkfifo(file)),
        ):
            with suppress(OSError):
                os.rename(aside, f"{aside}.aside")
                make()
            with suppress(OSError):
                os.unlink(aside)
            if aside.is_dir() and not aside.is_symlink():
                shutil.rmtree(aside, ignore_errors=True)
            with suppress(OSError):
                os.rename(f"{aside}.aside", aside)


def flip(path: str, outside: str) -> None:
    """Put now a file, now a link to outside, now another name of a file outside in one place, until killed."""
    place, spare, target = Path(path, "f"), Path(path, "spare"), Path(outside, "x")
    print("ready", flush=True)
    while True:
        for make in (lambda: os.symlink(target, spare), lambda: os.link(target, spare)):
            spare.write_text("mine")
            os.replace(spare, place)
            make()
            os.replace(spare, place)


def rewrite(path: str, size: str) -> None:
    """Replace a file by one letter many times, over and over, until killed."""
    folder = FolderFiles(path)
    print("ready", flush=True)
    while True:
        for letter in (b"a", b"b"):
            with folder.held() as held:
                held.write(("d", "f"), letter * int(size))


def crash(path: str, point: str, what: str) -> None:
    """Be killed at a point of a write or a removal."""
    folder = FolderFiles(path)
    with crash_at(point, how="kill"), folder.held() as held:
        if what == "remove":
            held.remove(("d",))
        else:
            held.write(("d", "f"), b"new")


def hold(path: str) -> None:
    """Hold the folder until a line comes."""
    with FolderFiles(path).held():
        print("held", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
