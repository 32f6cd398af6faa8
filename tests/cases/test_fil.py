"""Public cases on the memory tool's files (FIL), by id, over a real folder and over one in this process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sapwood import Agent, FolderFiles, InProcessFiles
from sapwood.core.events import ToolFinished
from sapwood.core.memory_files import MemoryFiles
from sapwood.testing import call, calls, says, scripted
from support.governed import of_type, run

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
Tool = Callable[..., ToolFinished]


@pytest.fixture(params=["folder", "in process"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryFiles:
    return InProcessFiles() if request.param == "in process" else FolderFiles(tmp_path / "inside" / "memory")


@pytest.fixture
def tool(files: MemoryFiles) -> Tool:
    """Runs one command in a turn of an agent, and returns what came of it."""

    def told(command: Any, *, runtime: str = "blocking", **given: Any) -> ToolFinished:
        model = scripted(calls(call("memory", {"command": command, **given})), says("done"))
        events = run(Agent(llm=model).with_memory_tool(files), runtime)
        assert events[-1].stopped_by == "stop"  # type: ignore[union-attr]
        (answer,) = of_type(events, "tool_finished")
        return answer  # type: ignore[no-any-return]

    return told


def content(files: MemoryFiles) -> dict[str, bytes]:
    """All files by path."""
    if isinstance(files, InProcessFiles):
        return files.files()
    assert isinstance(files, FolderFiles)
    root = files._path
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def everything(path: Path) -> dict[str, bytes | None]:
    return {str(item): item.read_bytes() if item.is_file() else None for item in path.rglob("*")}


def every_command(path: Any) -> list[dict[str, Any]]:
    """Each command on a path; rename with it on either side."""
    return [
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "a", "new_str": "b"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/new.txt"},
        {"command": "rename", "old_path": "/memories/n.txt", "new_path": path},
    ]


LEAVING = [
    *(
        "/memories/..",
        "/memories/../x.txt",
        "/memories/a/..",
        "/memories/a/../../x.txt",
        "../x",
        "/memories/./../x.txt",
    ),
    *("/memories/../memories/n.txt", "/memories/a/../n.txt", "/memories/..%2fx.txt", "/memories/%2e%2e/x.txt"),
    *("/memories/%2E%2e/x.txt", "/memories/.%2e/x.txt", "/memories/%252e%252e/x.txt", "/memories/..%5cx.txt"),
    *("/memories/..\\x.txt", "/memories/a%2f..%2f..%2fx.txt", "/memories/a%5C..%5Cx", "/memories/a%00b"),
]


@pytest.mark.parametrize("path", LEAVING)
def test_fil_01_parent_segments_are_refused_in_every_position(
    tool: Tool, files: MemoryFiles, tmp_path: Path, path: str
) -> None:
    (tmp_path / "inside").mkdir(exist_ok=True)
    (tmp_path / "inside" / "x.txt").write_text("outside: a")
    tool("create", path="/memories/n.txt", file_text="a")
    before, inside = everything(tmp_path), content(files)
    for given in every_command(path):
        answer = tool(**given)
        assert answer.is_error, (given, answer.result)
        assert "outside" not in answer.result
    assert everything(tmp_path) == before
    assert content(files) == inside == {"n.txt": b"a"}


@pytest.mark.parametrize("path", ["/memories/．．/x.txt", "/memories/‥/x.txt", "/memories/․․/x.txt", "/memories/.../x"])
def test_fil_01_what_only_looks_like_a_parent_is_a_plain_name(tool: Tool, files: MemoryFiles, path: str) -> None:
    assert not tool("create", path=path, file_text="a").is_error
    assert content(files) == {path.removeprefix("/memories/"): b"a"}


@pytest.mark.parametrize("path", ["/memories_backup/x.txt", "/memoriesx", "/Memories/x.txt", "memories/x.txt", "/", ""])
def test_fil_02_a_path_that_only_shares_the_prefix_is_refused(tool: Tool, files: MemoryFiles, path: str) -> None:
    tool("create", path="/memories/n.txt", file_text="a")
    for given in every_command(path):
        assert tool(**given).is_error
    assert content(files) == {"n.txt": b"a"}


def test_fil_03_one_file_has_one_name_however_it_is_spelt(tool: Tool, files: MemoryFiles) -> None:
    tool("create", path="/memories/n.txt", file_text="tea")
    shown = tool("view", path="/memories/n.txt").result
    for path in ("/memories//n.txt", "/memories/./n.txt", "/memories/n.txt/"):
        assert tool("view", path=path).result == shown
        assert tool("create", path=path, file_text="other").is_error
    assert tool("view", path="/memories/d/../n.txt").is_error
    assert tool("view", path="/memories").result.split("\n")[2:] == ["3B\t/memories/n.txt"]
    assert content(files) == {"n.txt": b"tea"}


def test_fil_04_the_root_stays_and_no_error_shows_where_it_is(tool: Tool, files: MemoryFiles, tmp_path: Path) -> None:
    tool("create", path="/memories/n.txt", file_text="a")
    tool("create", path="/memories/d/e.txt", file_text="a")
    answers = [
        tool("delete", path="/memories"),
        tool("delete", path="/memories/"),
        tool("rename", old_path="/memories", new_path="/memories/x"),
        tool("rename", old_path="/memories/d", new_path="/memories/d/f"),
        tool("rename", old_path="/memories/d", new_path="/memories"),
        tool("create", path="/memories/n.txt/x", file_text="a"),
        tool("view", path="/memories/n.txt/x"),
        tool("rename", old_path="/memories/d", new_path="/memories/n.txt/d"),
        tool("view", path="/memories/missing.txt"),
        tool("str_replace", path="/memories/d", old_str="a", new_str="b"),
        tool("create", path="/memories/" + "n" * 300, file_text="a"),
        tool("create", path="/memories/" + "日" * 90, file_text="a"),
        tool("create", path="/memories/" + "/".join("a" * 30), file_text="a"),
    ]
    for answer in answers:
        assert answer.is_error
        assert answer.result.count("/memories") >= 1
        assert str(tmp_path) not in answer.result
        assert "inside" not in answer.result
    assert not tool("view", path="/memories").is_error
    assert content(files) == {"d/e.txt": b"a", "n.txt": b"a"}


INSERTS = [
    ("a\nb\nc\n", 0, "X\na\nb\nc\n"),
    ("a\nb\nc\n", 1, "a\nX\nb\nc\n"),
    ("a\nb\nc\n", 3, "a\nb\nc\nX\n"),
    ("a\nb\nc", 0, "X\na\nb\nc"),
    ("a\nb\nc", 3, "a\nb\nc\nX"),
    ("", 0, "X\n"),
    ("\n", 1, "\nX\n"),
]


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize(("before", "line", "after"), INSERTS)
def test_fil_05_a_line_goes_where_it_was_told_to(
    tool: Tool, files: MemoryFiles, before: str, line: int, after: str, end: str
) -> None:
    tool("create", path="/memories/n.txt", file_text=before)
    assert not tool("insert", path="/memories/n.txt", insert_line=line, insert_text=f"X{end}").is_error
    assert content(files) == {"n.txt": after.encode()}


@pytest.mark.parametrize(
    ("before", "line", "most"), [("a\nb\nc\n", -1, 3), ("a\nb\nc\n", 4, 3), ("a\nb\nc", 4, 3), ("", 1, 0)]
)
def test_fil_05_a_line_that_is_not_there_is_refused_with_the_range(
    tool: Tool, files: MemoryFiles, before: str, line: int, most: int
) -> None:
    tool("create", path="/memories/n.txt", file_text=before)
    answer = tool("insert", path="/memories/n.txt", insert_line=line, insert_text="X")
    assert answer.is_error
    assert f"[0, {most}]" in answer.result
    assert content(files) == {"n.txt": before.encode()}


def test_fil_06_windows_line_ends_stay(tool: Tool, files: MemoryFiles) -> None:
    tool("create", path="/memories/n.txt", file_text="a\r\nb\r\nc\r\nd\r\n")
    assert not tool("str_replace", path="/memories/n.txt", old_str="b\nc", new_str="B\nC").is_error
    assert content(files) == {"n.txt": b"a\r\nB\r\nC\r\nd\r\n"}
    assert not tool("insert", path="/memories/n.txt", insert_line=2, insert_text="X\nY\n").is_error
    assert content(files) == {"n.txt": b"a\r\nB\r\nX\r\nY\r\nC\r\nd\r\n"}
    assert "\r" not in tool("view", path="/memories/n.txt").result
    assert not tool("str_replace", path="/memories/n.txt", old_str="X", new_str="1\n2").is_error
    assert content(files) == {"n.txt": b"a\r\nB\r\n1\r\n2\r\nY\r\nC\r\nd\r\n"}


ABSOLUTE = ["/notes.txt", "/outside/abs.txt", "C:\\x.txt", "C:/x.txt", "~/x", "~", "//memories/n.txt", "/etc/passwd"]


@pytest.mark.parametrize("path", [*ABSOLUTE, "file:///memories/n.txt"])
def test_fil_07_an_absolute_path_outside_is_refused(tool: Tool, files: MemoryFiles, tmp_path: Path, path: str) -> None:
    tool("create", path="/memories/n.txt", file_text="a")
    before = everything(tmp_path)
    for given in every_command(path):
        assert tool(**given).is_error
    assert everything(tmp_path) == before
    assert content(files) == {"n.txt": b"a"}
    assert not Path("/notes.txt").exists()
    assert not Path("/outside").exists()


@RUNTIMES
@pytest.mark.parametrize(
    "path", [7, None, "", "/memories/a\0b", ["/memories"], {}, True, "/memories/\ud800", "/memories/a\nb"]
)
def test_fil_08_a_bad_path_is_a_result(tool: Tool, files: MemoryFiles, path: Any, runtime: str) -> None:
    tool("create", path="/memories/n.txt", file_text="a")
    for given in every_command(path):
        answer = tool(**given, runtime=runtime)
        assert answer.is_error
        assert len(answer.result) < 1_600
    assert content(files) == {"n.txt": b"a"}
