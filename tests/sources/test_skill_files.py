"""Skills in folders: how they are read, found, and what of them may be read and run."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from sapwood import ConfigError, Skill, ToolContext, ToolError, Turn, tool
from sapwood.core.errors import ToolInputError
from sapwood.core.tools import BoundTool
from sapwood.sources import skill_files
from sapwood.sources.skill_files import SkillFileSource, load_skill, load_skills
from support.skill_folders import skill_folder


@tool
def look() -> str:
    """Look."""
    return "here"


def tools_of(source: SkillFileSource) -> dict[str, BoundTool]:
    return {item.name: item for item in source.contribute(Turn()).tools if isinstance(item, BoundTool)}


def use(bound: BoundTool, **arguments: Any) -> Any:
    assert bound.check is not None
    return bound.run(bound.check(arguments), ToolContext())


# ---- reading


def test_a_folder_becomes_a_skill(tmp_path: Path) -> None:
    text = (
        "---\nname: pdf\ndescription: Work with PDF files.\nlicense: MIT\ncompatibility: Needs Python.\n"
        "allowed-tools: read grep\ntags: [documents, pdf]\nactivation: always\n"
        "metadata:\n  author: me\n  version: 1.0\n  draft: false\n  empty:\n---\n# PDF\n"
    )
    path = skill_folder(tmp_path, "pdf", text=text)
    expected = Skill(
        name="pdf",
        description="Work with PDF files.",
        instructions="# PDF",
        tools=(look,),
        activation="always",
        tags=("documents", "pdf"),
        license="MIT",
        compatibility="Needs Python.",
        metadata={"author": "me", "version": "1.0", "draft": "false", "empty": ""},
        allowed_tools=("read", "grep"),
        path=path.resolve(),
    )
    assert load_skill(path, tools=[look]) == expected
    assert load_skill(path / "SKILL.md", tools=[look]) == expected
    assert load_skill(str(path), tools=[look]) == expected


def test_activation_and_tags_may_be_written_in_other_ways(tmp_path: Path) -> None:
    text = "---\nname: a\ndescription: A.\ntags: one two, three\nmetadata:\n  activation: always\n---\n"
    skill = load_skill(skill_folder(tmp_path, "a", text=text))
    assert (skill.activation, skill.tags) == ("always", ("one two", "three"))


def test_a_small_name_of_the_file_is_taken(tmp_path: Path) -> None:
    path = skill_folder(tmp_path, "a")
    (path / "SKILL.md").rename(path / "skill.md")
    assert load_skill(path).name == "a"
    assert [skill.name for skill in load_skills(tmp_path)] == ["a"]


BAD = [
    ("", "must begin with front matter"),
    ("no front matter", "must begin with front matter"),
    ("---\nname: a\n---\n", "description: Field required"),
    ("---\ndescription: A.\n---\n", "name: Field required"),
    ("---\nname: a\ndescription:\n---\n", "description: .*must not be empty"),
    ("---\nname: a\ndescription: 42\n---\n", "description: .*valid string"),
    ("---\nname: a\ndescription: [x]\n---\n", "description: .*valid string"),
    ("---\nname: ''\ndescription: A.\n---\n", "name: .*must not be empty"),
    ("---\nname: a\ndescription: A.\nmetadata: text\n---\n", "metadata must be a list of"),
    ("---\nname: a\ndescription: A.\ntags:\n  x: y\n---\n", "tags must be a list or a text"),
    ("---\nname: a\ndescription: A.\nactivation: later\n---\n", "activation: .*on_demand"),
]


@pytest.mark.parametrize(("text", "told"), BAD)
def test_what_is_no_skill_is_told_of_with_its_file_and_its_neighbours_are_read(
    text: str, told: str, tmp_path: Path
) -> None:
    path = skill_folder(tmp_path, "a", text=text)
    with pytest.raises(ConfigError, match=told) as caught:
        load_skill(path)
    assert str(path.resolve() / "SKILL.md") in str(caught.value)
    skill_folder(tmp_path, "b")
    with pytest.warns(UserWarning, match=told) as warned:
        assert [skill.name for skill in load_skills(tmp_path)] == ["b"]
    assert str(warned[0].message).startswith(f"skipped: {path.resolve()}")


def test_other_ways_to_be_no_skill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="holds no skill"):
        load_skill(tmp_path)
    with pytest.raises(ConfigError, match="there is no folder"):
        load_skills(tmp_path / "missing")
    path = skill_folder(tmp_path, "a")
    (path / "SKILL.md").write_bytes(b"---\nname: a\xff\n---\n")
    with pytest.raises(ConfigError, match="must be UTF-8; byte 11 is not"):
        load_skill(path)
    skill_folder(tmp_path, "a", body="x" * skill_files.MAX_SKILL_BYTES)
    with pytest.raises(ConfigError, match="over 1,000,000 bytes"):
        load_skill(path)


def test_a_skill_whose_file_is_a_link_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("---\nname: a\ndescription: Secret.\n---\nsecret")
    (tmp_path / "skills" / "a").mkdir(parents=True)
    (tmp_path / "skills" / "a" / "SKILL.md").symlink_to(secret)
    with pytest.warns(UserWarning, match="holds no skill"):
        assert load_skills(tmp_path / "skills") == ()


def test_what_is_not_used_is_told_of(tmp_path: Path) -> None:
    path = skill_folder(tmp_path, "a", text="---\nname: a\ndescription: A.\ncolour: red\nodd\n---\n")
    with pytest.warns(UserWarning, match="SKILL.md: ") as caught:
        load_skill(path)
    told = sorted(str(item.message).rpartition("SKILL.md: ")[2] for item in caught)
    assert told == [
        "'colour' is no field of a skill and is not used; put it under metadata",
        "line 5: 'odd' is no `key: value`",
    ]


# ---- finding


def test_skills_are_found_below_a_folder_in_order(tmp_path: Path) -> None:
    for name in ("b", "a"):
        skill_folder(tmp_path / "group", name)
    skill_folder(tmp_path, "z", files={"inner/SKILL.md": "---\nname: inner\ndescription: Not looked at.\n---\n"})
    for hidden in (".git", "node_modules", "__pycache__"):
        skill_folder(tmp_path / hidden, "hidden")
    skill_folder(tmp_path / "1/2/3/4/5", "too-deep")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [skill.name for skill in load_skills(tmp_path)] == ["a", "b", "z"]
    skill_folder(tmp_path / "1/2/3/4", "deep")
    assert "deep" in [skill.name for skill in load_skills(tmp_path)]


def test_the_first_of_two_with_one_name_is_kept_and_both_are_named(tmp_path: Path) -> None:
    first, second = skill_folder(tmp_path / "1", "a"), skill_folder(tmp_path / "2", "a")
    with pytest.warns(UserWarning, match="has the name of") as caught:
        (kept,) = load_skills(tmp_path)
    assert kept.path == first.resolve()
    assert str(second.resolve()) in str(caught[0].message)
    assert str(first.resolve()) in str(caught[0].message)


def test_links_are_not_followed_and_a_circle_has_an_end(tmp_path: Path) -> None:
    skill_folder(tmp_path / "elsewhere", "a")
    root = tmp_path / "skills"
    root.mkdir()
    (root / "linked").symlink_to(tmp_path / "elsewhere" / "a")
    (root / "circle").symlink_to(root)
    (root / "broken").symlink_to(root / "nowhere")
    with pytest.warns(UserWarning, match="is a link, which is not followed") as caught:
        assert load_skills(root) == ()
    assert len(caught) == 2


def test_the_walk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill_files, "MAX_FOLDERS", 4)
    for number in range(6):
        skill_folder(tmp_path, f"s{number}")
    with pytest.warns(UserWarning, match="only the first 4 folders were looked through"):
        assert [skill.name for skill in load_skills(tmp_path)] == ["s0", "s1", "s2"]


def test_a_folder_that_may_not_be_read_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs as root may read everything, so the refusal is made here."""
    skill_folder(tmp_path, "a")
    closed = (tmp_path / "closed").resolve()
    closed.mkdir()
    scandir = os.scandir

    def refusing(path: Any) -> Any:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    with pytest.warns(UserWarning, match="closed cannot be read: Permission denied"):
        assert [skill.name for skill in load_skills(tmp_path)] == ["a"]


def test_no_code_of_a_skill_runs_when_it_is_read(tmp_path: Path) -> None:
    trap = "import pathlib; pathlib.Path(__file__).with_name('ran').write_text('')"
    files = {"tools.py": trap, "__init__.py": trap, "scripts/run.py": trap, "conftest.py": trap}
    path = skill_folder(tmp_path, "a", files=files)
    (skill,) = load_skills(tmp_path)
    tools_of(SkillFileSource([skill], allow_scripts=True))
    assert skill.tools == ()
    assert [*tmp_path.rglob("ran")] == []
    assert "tools" not in sys.modules
    assert path.exists()


# ---- files


@pytest.fixture
def skill(tmp_path: Path) -> Skill:
    files = {
        "references/api.md": "the api",
        "long.txt": "x" * skill_files.MAX_READ + "rest",
        "empty.md": "",
        "scripts/run.py": "import sys; print(sys.argv[1:])",
        "scripts/fail.sh": "echo bad >&2; exit 7",
        "scripts/notes.txt": "no program",
        "other/run.py": "print('ran')",
    }
    path = skill_folder(tmp_path / "skills", "kit", files=files)
    (path / "blob.bin").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "x.txt").write_text("outside")
    (path / "scripts" / "away.py").symlink_to(tmp_path / "x.txt")
    program = path / "scripts" / "program"
    program.write_text("#!/bin/sh\necho program $1\n")
    program.chmod(0o755)
    return load_skill(path)


def test_files_are_read_as_text_in_pieces(skill: Skill) -> None:
    read = tools_of(SkillFileSource([skill]))["read_skill_file"]
    assert read.read_only
    assert use(read, skill_name="kit", file_path="references/api.md") == "the api"
    assert use(read, skill_name="kit", file_path="./references//api.md", offset=4) == "api"
    assert use(read, skill_name="kit", file_path="empty.md") == "(the file is empty)"
    assert use(read, skill_name="kit", file_path="SKILL.md").startswith("---\nname: kit")
    long = use(read, skill_name="kit", file_path="long.txt")
    assert long.endswith("x\n[4 more characters; go on with offset=50000]")
    assert use(read, skill_name="kit", file_path="long.txt", offset=50_000) == "rest"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("../../x.txt", "is no file of this skill"),
        ("/etc/passwd", "is no file of this skill"),
        ("scripts/away.py", "There is no file"),
        ("references", "no file that can be read"),
        ("blob.bin", "is no text; it has 3 bytes"),
    ],
)
def test_what_is_not_a_text_of_the_skill_is_an_error(skill: Skill, name: str, told: str) -> None:
    read = tools_of(SkillFileSource([skill]))["read_skill_file"]
    with pytest.raises(ToolError, match=told):
        use(read, skill_name="kit", file_path=name)


def test_sizes_and_offsets_have_ends(skill: Skill, monkeypatch: pytest.MonkeyPatch) -> None:
    read = tools_of(SkillFileSource([skill]))["read_skill_file"]
    with pytest.raises(ToolError, match="so none after 7"):
        use(read, skill_name="kit", file_path="references/api.md", offset=7)
    with pytest.raises(ToolInputError, match="offset"):
        use(read, skill_name="kit", file_path="references/api.md", offset=-1)
    with pytest.raises(ToolInputError, match="skill_name"):
        use(read, skill_name="other", file_path="references/api.md")
    monkeypatch.setattr(skill_files, "MAX_READ_BYTES", 3)
    with pytest.raises(ToolError, match="too large to be read: over 3 bytes"):
        use(read, skill_name="kit", file_path="references/api.md")


def test_nothing_is_offered_for_skills_without_files(tmp_path: Path) -> None:
    bare = Skill(name="bare", description="Bare.")
    alone = load_skill(skill_folder(tmp_path, "alone"))
    assert tools_of(SkillFileSource([bare, alone], allow_scripts=True)) == {}


# ---- scripts


def test_scripts_are_offered_only_where_they_are_allowed(skill: Skill) -> None:
    assert list(tools_of(SkillFileSource([skill]))) == ["read_skill_file"]
    allowed = tools_of(SkillFileSource([skill], allow_scripts=True))
    assert list(allowed) == ["read_skill_file", "run_skill_script"]
    assert not allowed["run_skill_script"].read_only
    assert not allowed["run_skill_script"].idempotent


def test_a_script_gets_its_arguments_as_they_are(skill: Skill) -> None:
    run = tools_of(SkillFileSource([skill], allow_scripts=True))["run_skill_script"]
    out = use(run, skill_name="kit", script_path="scripts/run.py", args=["a b", "'c'", "$HOME; x"])
    assert out == "exit code 0\nstdout:\n" + repr(["a b", "'c'", "$HOME; x"])
    assert use(run, skill_name="kit", script_path="scripts/run.py") == "exit code 0\nstdout:\n[]"
    # A text is taken as a command line would be, without a shell.
    line = use(run, skill_name="kit", script_path="scripts/run.py", args="one 'two three' $HOME")
    assert line == "exit code 0\nstdout:\n['one', 'two three', '$HOME']"
    assert use(run, skill_name="kit", script_path="scripts/program", args=["x"]) == "exit code 0\nstdout:\nprogram x"


@pytest.mark.parametrize(
    ("script", "args", "told"),
    [
        ("scripts/fail.sh", [], "ended with exit code 7.\nstderr:\nbad"),
        ("scripts/notes.txt", [], "neither Python nor shell"),
        ("other/run.py", [], r"only files in scripts/ may be run"),
        ("scripts", [], r"only files in scripts/ may be run"),
        ("scripts/../other/run.py", [], "is no file of this skill"),
        ("scripts/away.py", [], "There is no file"),
        ("scripts/missing.py", [], "There is no file"),
        ("/bin/sh", [], "is no file of this skill"),
        ("scripts/run.py", "'open", "No closing quotation"),
        ("scripts/run.py", ["a\0b"], "could not be started"),
    ],
)
def test_what_is_no_script_or_fails_is_an_error(skill: Skill, script: str, args: Any, told: str) -> None:
    run = tools_of(SkillFileSource([skill], allow_scripts=True))["run_skill_script"]
    with pytest.raises(ToolError, match=told):
        use(run, skill_name="kit", script_path=script, args=args)


def test_a_script_stops_with_the_turn(skill: Skill) -> None:
    assert skill.path is not None
    (skill.path / "scripts" / "run.py").write_text("import time; print('begun', flush=True); time.sleep(600)")
    run = tools_of(SkillFileSource([skill], allow_scripts=True))["run_skill_script"]
    assert run.check is not None
    arguments = run.check({"skill_name": "kit", "script_path": "scripts/run.py"})
    with pytest.raises(ToolError, match="was stopped: the turn was cancelled"):
        run.run(arguments, ToolContext(cancelled=lambda: True))
