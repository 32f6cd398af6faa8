"""Guide A's memory tool: its example, section 10 of the peer's behaviour line by line, and fault B26.

Where the peer and the vendor's own tool differ, the vendor's answer is asserted.
"""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sapwood import Agent, FolderFiles, InProcessFiles, MemoryFileLimits
from sapwood.core.events import ToolFinished
from sapwood.core.memory_files import MemoryEntry, MemoryFiles, Names
from sapwood.testing import call, calls, says, scripted
from support.governed import of_type, run

Tool = Callable[..., ToolFinished]
LISTING = "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:"


@pytest.fixture(params=["folder", "in process"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> MemoryFiles:
    return InProcessFiles() if request.param == "in process" else FolderFiles(tmp_path / "memory")


def tool_of(files: Any, **more: Any) -> Tool:
    def told(command: str, path: str | None = None, **given: Any) -> ToolFinished:
        where = {} if path is None else {"path": path}
        model = scripted(calls(call("memory", {"command": command, **where, **given})), says("done"))
        agent = Agent(llm=model, max_tokens=2_000_000, tool_result_max_tokens=None).with_memory_tool(files, **more)
        (answer,) = of_type(run(agent), "tool_finished")
        return answer  # type: ignore[no-any-return]

    return told


@pytest.fixture
def tool(files: MemoryFiles) -> Tool:
    return tool_of(files)


def said(answer: ToolFinished) -> str:
    assert not answer.is_error, answer.result
    return answer.result


def refused(answer: ToolFinished) -> str:
    assert answer.is_error, answer.result
    return answer.result


def test_the_example_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    note = {"command": "create", "path": "/memories/user.md", "file_text": "Likes tea.\n"}
    agent = Agent(llm=scripted(calls(call("memory", note)), says("Noted.")))

    agent.with_memory_tool("./agent-memory")

    assert "".join(agent.chat("I like tea")) == "Noted."
    assert Path("agent-memory/user.md").read_text() == "Likes tea.\n"


def test_the_protocol_is_in_the_system_prompt_and_one_tool_is_offered() -> None:
    model = scripted(says("Hi"))
    list(Agent(llm=model).with_system_prompt("Be brief.").with_memory_tool(InProcessFiles()).chat("Hi"))
    (request,) = model.requests
    assert request.system[0] == "Be brief."
    assert "/memories" in request.system[1]
    (schema,) = request.tools
    assert schema.name == "memory"
    assert schema.input_schema["required"] == ["command"]
    optional = ["path", "view_range", "file_text", "old_str", "new_str", "insert_line", "insert_text"]
    assert list(schema.input_schema["properties"]) == ["command", *optional, "old_path", "new_path"]
    commands = schema.input_schema["properties"]["command"]["enum"]
    assert commands == ["view", "create", "str_replace", "insert", "delete", "rename"]


def test_a_folder_is_shown_two_levels_deep_without_what_is_hidden(tool: Tool) -> None:
    for path in ("b.txt", "a/x.txt", "a/d/y.txt", ".git/c", "node_modules/m", "a/.h"):
        said(tool("create", f"/memories/{path}", file_text="12345"))
    assert said(tool("view", "/memories")).split("\n") == [
        LISTING.format("/memories"),
        *("0B\t/memories", "0B\t/memories/a/", "0B\t/memories/a/d/", "5B\t/memories/a/x.txt", "5B\t/memories/b.txt"),
    ]
    assert said(tool("view", "/memories/a/d")).split("\n") == [
        LISTING.format("/memories/a/d"),
        *("0B\t/memories/a/d", "5B\t/memories/a/d/y.txt"),
    ]
    assert said(tool("view", "/memories/.git")).endswith("\n5B\t/memories/.git/c")


def test_sizes_are_those_that_people_read(tool: Tool) -> None:
    said(tool("create", "/memories/a", file_text="x" * 1536))
    said(tool("create", "/memories/b", file_text="x" * 10_240))
    assert said(tool("view", "/memories")).split("\n")[2:] == ["1.5K\t/memories/a", "10K\t/memories/b"]


def test_a_file_is_shown_with_numbers_of_six_places(tool: Tool) -> None:
    said(tool("create", "/memories/n", file_text="a\nb\x0cc\u2028d\x85e\n"))
    head = "Here's the content of /memories/n with line numbers:\n"
    assert said(tool("view", "/memories/n")) == f"{head}     1\ta\n     2\tb\x0cc\u2028d\x85e\n     3\t"
    said(tool("create", "/memories/empty"))
    assert said(tool("view", "/memories/empty")) == head.replace("/n", "/empty") + "     1\t"


@pytest.mark.parametrize(
    ("view_range", "shown"),
    [([1, 2], "12"), ([2, -1], "234"), ([3, 99], "34"), ([4, 4], "4"), (["2", "3"], "23"), (None, "1234")],
)
def test_a_range_of_lines_is_shown(tool: Tool, view_range: Any, shown: str) -> None:
    said(tool("create", "/memories/n", file_text="1\n2\n3\n4"))
    lines = said(tool("view", "/memories/n", view_range=view_range)).split("\n")[1:]
    assert lines == [f"     {line}\t{line}" for line in shown]


@pytest.mark.parametrize(
    "view_range", [[0, 2], [-1, 2], [5, 6], [3, 2], [1], [1, 2, 3], ["a", "b"], [1.5, 2], "1", [[1]]]
)
def test_a_range_that_is_none_is_an_error_that_says_so(tool: Tool, view_range: Any) -> None:
    said(tool("create", "/memories/n", file_text="1\n2\n3\n4"))
    assert "view_range" in refused(tool("view", "/memories/n", view_range=view_range))


@pytest.mark.parametrize("command", ["view", "str_replace", "insert", "delete"])
def test_a_path_that_is_missing_is_an_error(tool: Tool, command: str) -> None:
    given = {"old_str": "a", "insert_line": 0, "insert_text": "b"}
    wanted = "The path /memories/n does not exist"
    wanted += "" if command == "delete" else ". Please provide a valid path."
    assert refused(tool(command, "/memories/n", **given)) == wanted
    assert (
        refused(tool("rename", old_path="/memories/n", new_path="/memories/m")) == "The path /memories/n does not exist"
    )


def test_create_makes_parents_and_refuses_to_overwrite(tool: Tool) -> None:
    assert said(tool("create", "/memories/a/b/n", file_text="1")) == "File created successfully at: /memories/a/b/n"
    assert refused(tool("create", "/memories/a/b/n", file_text="2")) == "File /memories/a/b/n already exists"
    assert refused(tool("create", "/memories/a", file_text="2")) == "File /memories/a already exists"
    assert said(tool("view", "/memories/a/b/n")).endswith("     1\t1")


def test_str_replace_shows_what_it_changed(tool: Tool) -> None:
    said(tool("create", "/memories/n", file_text="1\n2\n3\n4\n5\n6\n7"))
    answer = said(tool("str_replace", "/memories/n", old_str="4\n", new_str="four\nand\n"))
    head = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    shown = [(2, "2"), (3, "3"), (4, "four"), (5, "and"), (6, "5"), (7, "6"), (8, "7")]
    assert answer.split("\n") == [head, *(f"{number:6d}\t{text}" for number, text in shown)]
    assert said(tool("str_replace", "/memories/n", old_str="four\n")).split("\n")[1:4] == [
        *("     2\t2", "     3\t3", "     4\tand"),
    ]


def test_str_replace_needs_one_place(tool: Tool) -> None:
    said(tool("create", "/memories/n", file_text="a\nb\na\naaa"))
    assert refused(tool("str_replace", "/memories/n", old_str="c", new_str="d")) == (
        "No replacement was performed, old_str `c` did not appear verbatim in /memories/n."
    )
    assert refused(tool("str_replace", "/memories/n", old_str="a", new_str="d")) == (
        "No replacement was performed. Multiple occurrences of old_str `a` in lines: 1, 3, 4. Please ensure it is unique"
    )
    # Places that overlap are several, too.
    assert "lines: 4." in refused(tool("str_replace", "/memories/n", old_str="aa", new_str="d"))
    assert "empty" in refused(tool("str_replace", "/memories/n", old_str="", new_str="d"))
    assert "old_str is required" in refused(tool("str_replace", "/memories/n", new_str="d"))
    said(tool("create", "/memories/m", file_text="a\n" * 500))
    assert "20 and more." in refused(tool("str_replace", "/memories/m", old_str="a", new_str="d"))
    assert len(refused(tool("str_replace", "/memories/n", old_str="c" * 5_000, new_str="d"))) < 400


def test_a_directory_is_no_file(tool: Tool) -> None:
    said(tool("create", "/memories/a/n", file_text="1"))
    for command in ("str_replace", "insert"):
        answer = tool(command, "/memories/a", old_str="a", insert_line=0, insert_text="b")
        assert refused(answer) == "The path /memories/a is not a file."


def test_insert_says_what_it_did_and_what_it_takes(tool: Tool) -> None:
    said(tool("create", "/memories/n", file_text="a\n"))
    assert (
        said(tool("insert", "/memories/n", insert_line=1, insert_text="b\n")) == "The file /memories/n has been edited."
    )
    assert said(tool("view", "/memories/n")).endswith("     1\ta\n     2\tb\n     3\t")
    answer = refused(tool("insert", "/memories/n", insert_line=3, insert_text="b"))
    assert answer.startswith("Invalid `insert_line` parameter: 3. It should be within the range [0, 2]")
    assert "insert_text is required" in refused(tool("insert", "/memories/n", insert_line=0))
    assert "insert_line is required" in refused(tool("insert", "/memories/n", insert_text="b"))
    assert "insert_line" in refused(tool("insert", "/memories/n", insert_line="first", insert_text="b"))


def test_delete_takes_a_folder_with_all_that_is_in_it_but_not_the_root(tool: Tool) -> None:
    said(tool("create", "/memories/a/b/n", file_text="1"))
    said(tool("create", "/memories/ab", file_text="1"))
    assert said(tool("delete", "/memories/a")) == "Successfully deleted /memories/a"
    assert said(tool("view", "/memories")).split("\n")[2:] == ["1B\t/memories/ab"]
    assert refused(tool("delete", "/memories")) == "Cannot delete the /memories directory itself"


def test_rename_makes_parents_and_replaces_nothing(tool: Tool) -> None:
    said(tool("create", "/memories/a/n", file_text="1"))
    said(tool("create", "/memories/m", file_text="2"))
    answer = said(tool("rename", old_path="/memories/a", new_path="/memories/b/c"))
    assert answer == "Successfully renamed /memories/a to /memories/b/c"
    assert said(tool("view", "/memories/b/c/n")).endswith("     1\t1")
    assert refused(tool("rename", old_path="/memories/m", new_path="/memories/b")) == (
        "The destination /memories/b already exists"
    )
    assert refused(tool("rename", old_path="/memories", new_path="/memories/x")) == (
        "Cannot rename the /memories directory itself"
    )
    assert "new_path is required" in refused(tool("rename", old_path="/memories/m"))


def test_an_unknown_command_or_argument_is_an_error_that_lists_what_there_is(tool: Tool) -> None:
    assert "'view', 'create'" in refused(tool("View", "/memories"))
    assert "'view', 'create'" in refused(tool("read", "/memories"))
    assert "file_text" in refused(tool("create", "/memories/n", content="lost"))
    assert "path is required for view" in refused(tool("view"))


def test_a_place_that_fails_tells_no_more_than_the_kind_of_its_failure() -> None:
    class Broken:
        def held(self) -> Any:
            raise PermissionError(13, "Permission denied", "/srv/hidden/place")

    class Nameless:
        def held(self) -> Any:
            raise OSError("/srv/hidden/place")

    assert refused(tool_of(Broken())("view", "/memories")) == "memory view failed: Permission denied."
    assert refused(tool_of(Nameless())("view", "/memories")) == "memory view failed: OSError."


# ---- B26


def test_b26_a_edits_of_four_threads_are_all_there(files: MemoryFiles, tool: Tool) -> None:
    said(tool("create", "/memories/n", file_text="first\n"))

    def insert(name: int) -> None:
        for number in range(20):
            said(tool("insert", "/memories/n", insert_line=1, insert_text=f"{name}-{number}"))

    threads = [threading.Thread(target=insert, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with files.held() as folder:
        assert folder.read(("n",), 10_000).count(b"\n") == 81


@pytest.mark.parametrize(
    ("before", "replaced", "inserted"),
    [
        ("a\r\nb\r\nc", "a\r\nB\r\nc", "X\r\na\r\nB\r\nc"),
        ("a\x0cb\u2028c\x85", "a\x0cB\u2028c\x85", "X\na\x0cB\u2028c\x85"),
        ("\ufeffb", "\ufeffB", "\ufeffX\nB"),
        ("a\rb\n\r\n", "a\rB\n\r\n", "X\na\rB\n\r\n"),
    ],
)
def test_b26_c_an_edit_changes_nothing_else(
    files: MemoryFiles, tool: Tool, before: str, replaced: str, inserted: str
) -> None:
    said(tool("create", "/memories/n", file_text=before))
    said(tool("str_replace", "/memories/n", old_str="b", new_str="B"))
    with files.held() as folder:
        assert folder.read(("n",), 100) == replaced.encode()
    said(tool("insert", "/memories/n", insert_line=0, insert_text="X"))
    with files.held() as folder:
        assert folder.read(("n",), 100) == inserted.encode()


def test_b26_d_a_link_inside_the_folder_is_deleted_and_not_its_target(tmp_path: Path) -> None:
    tool = tool_of(tmp_path / "memory")
    said(tool("create", "/memories/n", file_text="1"))
    (tmp_path / "memory" / "l").symlink_to("n")
    said(tool("delete", "/memories/l"))
    assert os.listdir(tmp_path / "memory") == ["n"]


def test_b26_e_nothing_shows_more_than_it_may(files: MemoryFiles) -> None:
    tool = tool_of(files, limits=MemoryFileLimits(max_view_characters=2_000))
    with files.held() as folder:
        folder.write(("line",), b"x" * 900_000)
    said(tool("create", "/memories/lines", file_text="word\n" * 1_000))
    for number in range(100):
        said(tool("create", f"/memories/d/{'n' * 100}{number}", file_text=""))
    for answer in (
        said(tool("view", "/memories/line")),
        said(tool("view", "/memories/line", view_range=[1, 1])),
        said(tool("view", "/memories/lines")),
        said(tool("view", "/memories/lines", view_range=[300, 900])),
        said(tool("view", "/memories")),
        said(tool("str_replace", "/memories/lines", old_str="word\n" * 1_000, new_str="long " * 10_000)),
    ):
        assert 1_000 < len(answer) <= 2_000
    assert said(tool("view", "/memories")).endswith("[There is more; it is not shown. View one of the directories.]")
    assert said(tool("view", "/memories/line")).endswith("[the line is cut]")


def test_b26_e_what_was_left_out_can_be_asked_for(files: MemoryFiles) -> None:
    tool = tool_of(files, limits=MemoryFileLimits(max_view_characters=2_000))
    said(tool("create", "/memories/n", file_text="\n".join(f"line {n}" for n in range(1, 501))))
    seen: list[str] = []
    asked: Sequence[int] = [1, -1]
    for _ in range(100):
        lines = said(tool("view", "/memories/n", view_range=list(asked))).split("\n")[1:]
        if not lines[-1].startswith("["):
            seen += lines
            break
        seen += lines[:-1]
        asked = [int(word) for word in lines[-1].partition("view_range [")[2].partition("]")[0].split(", ")]
    assert [line.partition("\t")[2] for line in seen] == [f"line {n}" for n in range(1, 501)]


def test_b26_e_there_is_a_quota_for_everything(files: MemoryFiles) -> None:
    limits = MemoryFileLimits(max_files=4, max_bytes=100, max_file_bytes=60, max_depth=3)
    tool = tool_of(files, limits=limits)
    assert "60 at most" in refused(tool("create", "/memories/n", file_text="x" * 61))
    said(tool("create", "/memories/a/b/n", file_text="x" * 60))
    assert "3 at most" in refused(tool("create", "/memories/a/b/c/n", file_text=""))
    assert "100 bytes at most" in refused(tool("create", "/memories/m", file_text="x" * 41))
    said(tool("create", "/memories/m", file_text="x" * 40))
    assert "4 files and folders at most" in refused(tool("create", "/memories/o", file_text=""))
    assert "4 files and folders at most" in refused(tool("rename", old_path="/memories/m", new_path="/memories/z/m"))
    assert "100 bytes at most" in refused(tool("insert", "/memories/m", insert_line=0, insert_text="y"))
    assert "60 at most" in refused(tool("insert", "/memories/a/b/n", insert_line=0, insert_text="y"))
    # What shrinks always fits, and makes room.
    said(tool("str_replace", "/memories/a/b/n", old_str="x" * 60, new_str="short"))
    said(tool("insert", "/memories/m", insert_line=0, insert_text="y"))
    said(tool("rename", old_path="/memories/a/b/n", new_path="/memories/a/n"))
    said(tool("delete", "/memories/m"))
    said(tool("delete", "/memories/a/b"))
    assert "deeper than 3" in refused(tool("rename", old_path="/memories/a", new_path="/memories/b/c/d"))
    said(tool("rename", old_path="/memories/a", new_path="/memories/b/c"))


def test_b26_f_g_every_error_is_one_and_says_what_is_wrong(files: MemoryFiles, tool: Tool) -> None:
    with files.held() as folder:
        folder.write(("binary",), b"\xff\xfe\x00")
        folder.write(("long",), b"x" * 1_000_001)
        folder.write(("lines",), b"\n" * 1_000_000)
    for answer, word in (
        (tool("create", "/memories/binary/x", file_text="1"), "not a directory"),
        (tool("create", "/memories/" + "n" * 300, file_text="1"), "300 bytes long"),
        (tool("create", "/memories/\ud800", file_text="1"), "half characters"),
        (tool("create", "/memories/n", file_text="a\ud800"), "half a character"),
        (tool("insert", "/memories/lines", insert_line=0, insert_text="a\udc00"), "half a character"),
        (tool("view", "/memories/binary"), "not UTF-8"),
        (tool("insert", "/memories/binary", insert_line=0, insert_text="a"), "not UTF-8"),
        (tool("view", "/memories/long"), "too long"),
        (tool("view", "/memories/lines"), "999,999 lines"),
    ):
        assert word in refused(answer)


def test_b26_h_a_listing_looks_no_deeper_than_it_shows() -> None:
    asked: list[Names] = []

    class Watched:
        """A folder with two folders in each folder, without end."""

        def held(self) -> Any:
            return self

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *error: object) -> None:
            pass

        def find(self, path: Names) -> MemoryEntry:
            return MemoryEntry("", "folder")

        def children(self, path: Names) -> list[MemoryEntry]:
            asked.append(path)
            return [MemoryEntry("a", "folder"), MemoryEntry("b", "folder")]

    assert len(said(tool_of(Watched())("view", "/memories")).split("\n")) == 8
    assert asked == [(), ("a",), ("b",)]


def test_b26_i_nothing_of_what_a_link_leads_to_is_shown(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x" * 4321)
    tool = tool_of(tmp_path / "memory")
    said(tool("create", "/memories/n", file_text="1"))
    (tmp_path / "memory" / "l").symlink_to(tmp_path / "outside")
    assert said(tool("view", "/memories")).split("\n")[2:] == ["1B\t/memories/n"]


def test_10_a_line_number_may_be_a_whole_number_in_any_spelling_of_json(tmp_path: Path) -> None:
    tool = tool_of(tmp_path / "memory")
    said(tool("create", "/memories/n", file_text="a\nb\n"))
    said(tool("insert", "/memories/n", insert_line=1.0, insert_text="x\n"))
    assert "x" in said(tool("view", "/memories/n", view_range=[2.0, 2.0]))
