"""The memory tool's folder: nothing leads out of it, many processes lose nothing, and a kill leaves whole files."""

import errno
import os
import random
import signal
import socket
import stat
import subprocess
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sapwood import ConfigError, FolderFiles, InProcessFiles, MemoryFileLimits, ToolError
from sapwood.core import fault
from sapwood.core.memory_files import SPARE
from sapwood.memory.file_commands import FileCommands
from sapwood.stores.folder_files import _sync, require_handles
from support.child_process import child_of, line

CHILDREN = Path(__file__).parent / "file_children.py"


child = partial(child_of, CHILDREN)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "inside" / "memory"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    path = tmp_path / "outside"
    path.mkdir()
    (path / "x").write_text("secret")
    return path


def run(root: Path, command: str, path: str = "", **given: Any) -> str:
    """Run one command, and return what the model is told, also of a failure."""
    where = {"path": path} if path else {}
    try:
        return FileCommands(FolderFiles(root), MemoryFileLimits()).run({"command": command, **where, **given})
    except ToolError as error:
        return f"refused: {error}"


def edits(root: Path, path: str) -> list[str]:
    """What each command but `delete` is told of a path."""
    return [
        run(root, "view", path),
        run(root, "create", path, file_text="mine"),
        run(root, "str_replace", path, old_str="secret", new_str="mine"),
        run(root, "insert", path, insert_line=0, insert_text="mine"),
        run(root, "rename", old_path=path, new_path="/memories/elsewhere"),
        run(root, "rename", old_path="/memories/n", new_path=path),
    ]


def test_a_link_to_a_file_outside_is_never_followed_and_only_deleted_itself(root: Path, outside: Path) -> None:
    FolderFiles(root)
    (root / "n").write_text("note")
    (root / "l").symlink_to(outside / "x")
    for answer in edits(root, "/memories/l"):
        assert answer.startswith("refused: ")
        assert "secret" not in answer
    assert "l" not in run(root, "view", "/memories").split("memories/")[1:]
    assert run(root, "delete", "/memories/l") == "Successfully deleted /memories/l"
    assert (outside / "x").read_text() == "secret"
    assert os.listdir(root) == ["n"]


def test_a_link_to_a_folder_outside_is_never_entered(root: Path, outside: Path) -> None:
    FolderFiles(root)
    (root / "n").write_text("note")
    (root / "l").symlink_to(outside)
    for path in ("/memories/l", "/memories/l/x", "/memories/l/new", "/memories/l/d/new"):
        for answer in edits(root, path):
            assert answer.startswith("refused: "), answer
            assert "secret" not in answer
        if path != "/memories/l":
            assert run(root, "delete", path).startswith("refused: ")
    assert run(root, "delete", "/memories/l") == "Successfully deleted /memories/l"
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("x", "secret")]


def test_a_link_inside_the_folder_is_not_followed_either_and_its_target_stays(root: Path) -> None:
    FolderFiles(root)
    (root / "n").write_text("note")
    (root / "l").symlink_to("n")
    (root / "loop").symlink_to("loop")
    for path in ("/memories/l", "/memories/loop", "/memories/loop/x"):
        assert run(root, "view", path).startswith("refused: ")
    assert run(root, "delete", "/memories/l") == "Successfully deleted /memories/l"
    assert (root / "n").read_text() == "note"


def test_a_folder_with_links_in_it_is_deleted_without_their_targets(root: Path, outside: Path) -> None:
    FolderFiles(root)
    (root / "d").mkdir()
    (root / "d" / "l").symlink_to(outside)
    (root / "d" / "m").symlink_to(outside / "x")
    assert run(root, "delete", "/memories/d") == "Successfully deleted /memories/d"
    assert os.listdir(root) == []
    assert (outside / "x").read_text() == "secret"


def test_a_second_name_of_a_file_outside_is_neither_read_nor_written(root: Path, outside: Path) -> None:
    FolderFiles(root)
    (root / "n").write_text("note")
    os.link(outside / "x", root / "h")
    for answer in edits(root, "/memories/h"):
        assert answer.startswith("refused: ")
        assert "secret" not in answer
    with FolderFiles(root).held() as folder, pytest.raises(ToolError, match="no regular file"):
        folder.read(("h",), 100)
    assert run(root, "delete", "/memories/h") == "Successfully deleted /memories/h"
    assert (outside / "x").read_text() == "secret"


def test_pipes_and_sockets_are_not_opened_so_nothing_hangs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FolderFiles(root)
    monkeypatch.chdir(root)  # the address of a socket must be short
    os.mkfifo("pipe")
    (root / "n").write_text("note")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        for name in ("pipe", "socket"):
            for answer in edits(root, f"/memories/{name}"):
                assert answer.startswith("refused: ")
            with FolderFiles(root).held() as folder, pytest.raises(ToolError, match="no regular file"):
                folder.read((name,), 100)
    shown = run(root, "view", "/memories")
    assert [name for name in ("pipe", "socket") if name in shown] == []


def test_a_process_that_swaps_in_links_gets_nothing_read_or_written_outside(root: Path, outside: Path) -> None:
    FolderFiles(root)
    (root / "d").mkdir()
    (root / "d" / "x").write_text("mine")
    (root / "f").write_text("mine")
    answers: list[str] = []
    with child("swap", root, outside) as process:
        assert line(process) == "ready"
        for number in range(80):
            for path in ("/memories/d/x", "/memories/f", f"/memories/d/{number}", "/memories/d/e/f"):
                answers += edits(root, path)
                answers.append(run(root, "delete", path))
            answers.append(run(root, "view", "/memories/d"))
            answers.append(run(root, "delete", "/memories/d"))
            with suppress(OSError):
                (root / "d").mkdir()
        assert process.poll() is None
    assert not [answer for answer in answers if "secret" in answer.replace("old_str `secret`", "")]
    assert not [answer for answer in answers if str(root.parent) in answer]
    assert [(path.name, path.read_text()) for path in outside.iterdir()] == [("x", "secret")]
    assert (outside / "x").stat().st_nlink <= 2


def test_a_file_that_turns_into_a_link_between_two_steps_of_a_read_is_not_read(root: Path, outside: Path) -> None:
    files = FolderFiles(root)
    read: set[bytes] = set()
    with child("flip", root, outside) as process:
        assert line(process) == "ready"
        with files.held() as folder:
            for _ in range(10_000):
                with suppress(OSError, ToolError):
                    read.add(folder.read(("f",), 100))
        assert process.poll() is None
    assert read <= {b"mine", b""}  # empty while it is being written, which nobody who holds the folder would see


def finished(processes: list[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=100)
        assert process.returncode == 0


def add_from_many(root: Path, count: int, edits: int) -> None:
    names = [f"p{number}" for number in range(count)]
    folder = FolderFiles(root)
    with folder.held() as held:
        held.write(("log",), b"end\n")
        held.write(("counts",), "\n".join(f"<{name} 0>" for name in names).encode())
    opened = [child("edit", root, name, edits) for name in names]
    processes = [one.__enter__() for one in opened]
    try:
        finished(processes)
    finally:
        for one in opened:
            one.__exit__(None, None, None)
    lines = (root / "log").read_text().splitlines()
    assert sorted(lines) == sorted(["end", *(f"{name} {n}" for name in names for n in range(edits // 2))])
    assert (root / "counts").read_text() == "\n".join(f"<{name} {edits // 2}>" for name in names)


def test_edits_of_several_processes_are_all_there(root: Path) -> None:
    add_from_many(root, 4, 40)


@pytest.mark.soak
def test_two_hundred_edits_of_each_of_eight_processes_are_all_there(root: Path) -> None:
    add_from_many(root, 8, 200)


def test_edits_of_several_threads_are_all_there(root: Path) -> None:
    run(root, "create", "/memories/log", file_text="")

    def work(name: int) -> None:
        for number in range(20):
            run(root, "insert", "/memories/log", insert_line=0, insert_text=f"{name} {number}")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (root / "log").read_text().splitlines()
    assert sorted(lines) == sorted(f"{name} {number}" for name in range(4) for number in range(20))


@pytest.mark.parametrize("point", ["files.opened", "files.written", "files.replaced"])
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_kill_inside_a_write_leaves_the_old_file_or_the_new_one(root: Path, point: str, old: bytes | None) -> None:
    with FolderFiles(root).held() as folder:
        folder.write(("d", "g"), b"other")
        if old is not None:
            folder.write(("d", "f"), old)
    with child("crash", root, point, "write") as process:
        assert process.wait(60) == -signal.SIGKILL
    with FolderFiles(root).held() as folder:
        there = folder.find(("d", "f"))
        found = folder.read(("d", "f"), 100) if there else None
        assert found == (b"new" if point == "files.replaced" else old)
        # What the dead one left is not seen, not counted and gone with the next write.
        assert {entry.name for entry in folder.children(("d",))} == {"g", *(["f"] if found else [])}
        assert folder.usage(10)[0] == 2 + bool(found)
        folder.write(("d", "g"), b"again")
    assert SPARE not in os.listdir(root / "d")


def test_a_kill_inside_a_removal_leaves_no_half_of_a_folder(root: Path) -> None:
    with FolderFiles(root).held() as folder:
        for name in ("a", "b"):
            folder.write(("d", name), b"1")
    with child("crash", root, "files.set_aside", "remove") as process:
        assert process.wait(60) == -signal.SIGKILL
    with FolderFiles(root).held() as folder:
        assert folder.find(("d",)) is None
        assert folder.usage(10) == (0, 0)
        folder.write(("n",), b"1")
    assert os.listdir(root) == ["n"]


def test_a_writer_that_is_killed_at_any_instant_leaves_a_whole_file(root: Path) -> None:
    size = 200_000
    with FolderFiles(root).held() as folder:
        folder.write(("d", "f"), b"a" * size)
    rng = random.Random(7)
    for _ in range(6):
        with child("rewrite", root, size) as process:
            assert line(process) == "ready"
            time.sleep(rng.random() * 0.05)
        with FolderFiles(root).held() as folder:
            assert folder.read(("d", "f"), size) in (b"a" * size, b"b" * size)


def test_a_holder_that_dies_lets_go(root: Path) -> None:
    with child("hold", root) as process:
        assert line(process) == "held"
        with pytest.raises(ToolError, match="in use by others"), FolderFiles(root, wait_seconds=0.01).held():
            pass
        process.kill()
        process.wait(60)
        with FolderFiles(root, wait_seconds=60).held() as folder:
            assert folder.usage(1) == (0, 0)


def test_a_folder_that_was_made_anew_meanwhile_is_the_one_that_is_held(root: Path) -> None:
    files = FolderFiles(root)
    os.rename(root, root.with_name("old"))
    root.mkdir()
    with files.held() as folder:
        folder.write(("n",), b"1")
    assert os.listdir(root) == ["n"]
    assert os.listdir(root.with_name("old")) == []


def test_a_handle_of_a_folder_that_was_replaced_or_removed_is_no_longer_the_one(root: Path) -> None:
    files = FolderFiles(root)
    handle = files._opened()
    try:
        assert files._is_there(handle)
        os.rename(root, root.with_name("old"))
        assert not files._is_there(handle)
        root.mkdir()
        assert not files._is_there(handle)
    finally:
        os.close(handle)


def test_a_waiting_holder_of_a_folder_that_is_gone_is_told(root: Path) -> None:
    files = FolderFiles(root)
    root.rmdir()
    answer = FileCommands(files, MemoryFileLimits())
    with pytest.raises(ToolError, match=r"^memory view failed: No such file or directory\.$"):
        answer.run({"command": "view", "path": "/memories"})


def test_new_files_are_their_owners_only_and_old_ones_keep_their_rights(root: Path) -> None:
    run(root, "create", "/memories/d/n", file_text="a")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (root, root / "d", root / "d" / "n")] == [0o700, 0o700, 0o600]
    (root / "d" / "n").chmod(0o640)
    run(root, "insert", "/memories/d/n", insert_line=0, insert_text="b")
    assert stat.S_IMODE((root / "d" / "n").stat().st_mode) == 0o640
    assert (root / "d" / "n").read_text() == "b\na"


def test_a_name_that_no_model_can_say_is_counted_and_not_shown(root: Path) -> None:
    FolderFiles(root)
    (root / "a\nb").write_text("1")
    with suppress(OSError):  # not every file system takes it
        (root / os.fsdecode(b"\xff")).write_text("1")
    (root / "n").write_text("1")
    assert run(root, "view", "/memories").split("\n")[2:] == ["1B\t/memories/n"]
    with FolderFiles(root).held() as folder:
        assert folder.usage(10)[0] == len(os.listdir(root))


def test_what_lies_in_the_way_of_a_write_is_cleared_and_a_failed_write_leaves_nothing(root: Path) -> None:
    FolderFiles(root)
    (root / SPARE).mkdir()
    (root / SPARE / "x").write_text("1")  # a folder in the way of the file that is written is cleared, too
    assert run(root, "create", "/memories/n", file_text="a") == "File created successfully at: /memories/n"
    (root / "n").unlink()
    (root / "n").mkdir()
    with FolderFiles(root).held() as folder, pytest.raises(OSError):
        folder.write(("n",), b"1")
    assert os.listdir(root) == ["n"]


def test_a_folder_that_cannot_be_removed_is_put_back(root: Path) -> None:
    def fails(point: str) -> None:
        if point == "files.set_aside":
            raise OSError(errno.EIO, "the disk fails", str(root))

    run(root, "create", "/memories/d/n", file_text="1")
    before = fault.watch(fails)
    try:
        assert run(root, "delete", "/memories/d") == "refused: memory delete failed: Input/output error."
    finally:
        fault.watch(before)
    assert run(root, "view", "/memories/d/n").endswith("     1\t1")
    assert os.listdir(root) == ["d"]


def test_what_the_system_refuses_is_told_without_the_place(root: Path) -> None:
    limits = MemoryFileLimits(max_name_bytes=1_000)
    with pytest.raises(ToolError, match=r"^memory view failed: File name too long\.$"):
        FileCommands(FolderFiles(root), limits).run({"command": "view", "path": "/memories/" + "n" * 300})


def test_a_folder_that_lies_too_deep_already_is_not_moved(root: Path) -> None:
    FolderFiles(root)
    (root / Path(*"abcdefghijkl")).mkdir(parents=True)
    assert "deeper than 8" in run(root, "rename", old_path="/memories/a/b", new_path="/memories/z")


@pytest.mark.parametrize("name", [SPARE, SPARE.upper()])
def test_the_name_of_what_is_being_written_is_nobodys(root: Path, name: str) -> None:
    for answer in edits(root, f"/memories/{name}"):
        assert answer.startswith("refused: ")
    assert os.listdir(root) == []


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file system here that cannot sync a folder")
def test_a_file_system_that_cannot_sync_a_folder_is_no_error() -> None:
    handle = os.open("/proc", os.O_RDONLY)
    try:
        _sync(handle)
    finally:
        os.close(handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        _sync(1_000_000_000)


def test_what_is_no_folder_has_no_children(root: Path) -> None:
    for files in (FolderFiles(root), InProcessFiles()):
        with files.held() as folder:
            folder.write(("n",), b"1")
            with pytest.raises(NotADirectoryError):
                folder.children(("n",))


@pytest.mark.parametrize("path", [b"bytes", "a\0b"])
def test_a_path_that_is_none_is_refused(path: Any) -> None:
    with pytest.raises(ConfigError, match="cannot be the folder of a memory tool"):
        FolderFiles(path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("1")
    with pytest.raises(ConfigError, match="cannot be the folder of a memory tool"):
        FolderFiles(tmp_path / "f")


def test_a_link_to_the_folder_is_followed_when_it_is_made_and_not_later(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("real")
    files = FolderFiles(tmp_path / "link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("other")
    with files.held() as folder:
        folder.write(("n",), b"1")
    assert os.listdir(tmp_path / "real") == ["n"]


def test_windows_is_told_what_to_use_instead() -> None:
    with pytest.raises(ConfigError, match="InProcessFiles"):
        require_handles("nt")
