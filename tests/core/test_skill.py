"""Skill: what is refused, what is warned of, what its folder holds."""

import os
import warnings
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sapwood import Skill, ToolError, tool
from sapwood.core.skill_folder import MAX_FILES, files_of, open_inside, read_inside, steps_of
from support.skill_folders import skill_folder


@tool
def look() -> str:
    """Look."""
    return "here"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": ""}, "must not be empty"),
        ({"name": "  "}, "must not be empty"),
        ({"description": ""}, "must not be empty"),
        ({"name": "a\nb"}, "one line without control characters"),
        ({"description": 5}, "valid string"),
        ({"description": ["a"]}, "valid string"),
        ({"activation": "sometimes"}, "on_demand"),
        ({"tools": (5,)}, "5 is no tool"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_what_cannot_work_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        Skill(**{"name": "reports", "description": "Write reports.", **fields})


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"name": "My Skill"}, "skill 'My Skill': the name 'My Skill' should be small letters"),
        ({"name": "a--b"}, "should be small letters"),
        ({"name": "-a"}, "not at either end"),
        ({"name": "a" * 65}, "the name has 65 characters; the public form allows 64"),
        ({"description": "d" * 1_500}, "the description has 1,500 characters; the public form allows 1,024"),
        ({"compatibility": "c" * 501}, "the compatibility has 501 characters"),
        ({"path": Path("/somewhere/else")}, "else/SKILL.md: the name 'reports' should be that of its folder, 'else'"),
    ],
)
def test_what_departs_from_the_public_form_is_warned_of(fields: dict[str, Any], told: str) -> None:
    with pytest.warns(UserWarning, match=told) as caught:
        made = Skill(**{"name": "reports", "description": "Write reports.", **fields})
    assert made.name
    assert [Path(item.filename).name for item in caught] == ["test_skill.py"]


@pytest.mark.parametrize("name", ["reports", "data_analysis", "a", "pdf-2", "a" * 64])
def test_a_good_skill_says_nothing(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        skill = Skill(name=name, description="Write reports.", tools=[look])
    assert (skill.tools, skill.activation, skill.reference_files(), skill.script_files()) == (
        (look,),
        "on_demand",
        (),
        (),
    )
    with pytest.raises(ValidationError):
        skill.name = "other"


def test_the_files_of_a_skill_are_listed_by_relative_names(tmp_path: Path) -> None:
    files = {
        "references/api.md": "",
        "references/deep/er/x.md": "",
        "scripts/run.py": "",
        "scripts/lib/a.py": "",
        ".hidden": "",
        ".git/config": "",
        "scripts/__pycache__/run.pyc": "",
        "LICENSE": "",
    }
    folder = skill_folder(tmp_path, files=files)
    (folder / "link.md").symlink_to(folder / "LICENSE")
    (folder / "away").symlink_to(tmp_path)
    (folder / "a\nb").write_text("")
    os.mkfifo(folder / "pipe")
    skill = Skill(name="reports", description="Write reports.", path=folder)
    assert skill.reference_files() == ("LICENSE", "references/api.md", "references/deep/er/x.md")
    assert skill.script_files() == ("scripts/lib/a.py", "scripts/run.py")
    (folder / "new.md").write_text("")
    assert "new.md" not in skill.reference_files()
    assert skill == Skill(name="reports", description="Write reports.", path=folder)


def test_a_listing_has_an_end(tmp_path: Path) -> None:
    for number in range(MAX_FILES + 5):
        (tmp_path / f"{number:04}.md").write_text("")
    assert len(files_of(tmp_path)) == MAX_FILES
    deep = tmp_path / "d"
    for _ in range(9):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "x").write_text("")
    assert not any(name.endswith("/x") for name in files_of(tmp_path / "d"))
    assert files_of(tmp_path / "missing") == ()


BAD_NAMES = [
    "", ".", "/", "/etc/passwd", "../x", "a/../b", "..", "a/..", "~/../x/..", ".hidden", "a/.git/config", "a\\b",
    "a\0b", "a\nb", "C:\\x", "\\\\host\\x", "..\\x", "./../x",
]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_leads_outside_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="is no file of this skill"):
        steps_of(name)
    with pytest.raises(ToolError, match="is no file of this skill"):
        open_inside(tmp_path, name)


def test_a_file_is_read_and_no_link_is_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside / "sub", outside):
        folder.mkdir(parents=True)
        (folder / "x.md").write_text("text")
    (inside / "link.md").symlink_to(outside / "x.md")
    (inside / "away").symlink_to(outside)
    (inside / "near.md").symlink_to(inside / "sub" / "x.md")
    os.mkfifo(inside / "pipe")
    assert read_inside(inside, "sub/x.md", most=100) == b"text"
    assert read_inside(inside, "./sub//x.md", most=2) == b"te"
    for name in ("link.md", "away/x.md", "near.md", "missing", "sub/x.md/y", "missing/x"):
        with pytest.raises(ToolError, match="There is no file"):
            read_inside(inside, name, most=100)
    for name in ("pipe", "sub"):
        with pytest.raises(ToolError, match="no file that can be read"):
            read_inside(inside, name, most=100)
    # Whoever sets a skill up may reach its folder through a link.
    (tmp_path / "door").symlink_to(inside)
    assert read_inside(tmp_path / "door", "sub/x.md", most=100) == b"text"


@pytest.mark.parametrize("name", ["x.md", "/etc/hostname", "../outside/x.md"])
def test_no_message_names_a_place_on_this_machine(name: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        read_inside(tmp_path, name, most=10)
    assert str(tmp_path) not in str(caught.value)
