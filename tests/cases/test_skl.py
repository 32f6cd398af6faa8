"""Public cases on skills (SKL), each by its id."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pydantic import ValidationError

from sapwood import Agent, ConfigError, Skill
from sapwood.sources.skill_files import load_skill, load_skills
from sapwood.testing import call, calls, says, scripted
from support.governed import run
from support.skill_folders import skill_folder
from support.turns import finishes

T = TypeVar("T")
RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
PLAIN = "---\nname: a\ndescription: Does a.\n---\n\n# Title\n\nSome text.\n\n---\n\nMore text.\n"


def test_skl_01_colon_in_an_unquoted_description(tmp_path: Path) -> None:
    skill_folder(tmp_path, "a", description="Use for reports: weekly and monthly")
    (skill,) = load_skills(tmp_path)
    assert skill.description == "Use for reports: weekly and monthly"


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + PLAIN,
        PLAIN.replace("\n", "\r\n"),
        "\ufeff" + PLAIN.replace("\n", "\r\n"),
        PLAIN.replace("---\nname", "---   \nname").replace("a.\n---\n", "a.\n---  \n"),
        PLAIN.replace("---\n\n# Title", "---\n# Title"),
        PLAIN.rstrip("\n"),
    ],
    ids=["bom", "crlf", "both", "blanks behind markers", "no blank line", "no final line end"],
)
def test_skl_02_bom_crlf_and_loose_markers(text: str, tmp_path: Path) -> None:
    skill = load_skill(skill_folder(tmp_path, "a", text=text))
    assert (skill.name, skill.description) == ("a", "Does a.")
    assert skill.instructions == "# Title\n\nSome text.\n\n---\n\nMore text."


RULES: list[tuple[str, dict[str, Any], bool, str]] = [
    ("name: My Skill\ndescription: A.", {"name": "My Skill", "description": "A."}, True, "small letters"),
    ("name: a--b\ndescription: A.", {"name": "a--b", "description": "A."}, True, "single hyphens"),
    ("name: -a\ndescription: A.", {"name": "-a", "description": "A."}, True, "not at either end"),
    (f"name: {'a' * 65}\ndescription: A.", {"name": "a" * 65, "description": "A."}, True, "the name has 65 characters"),
    ("name: other\ndescription: A.", {"name": "other", "description": "A."}, True, "should be that of its folder"),
    (
        f"name: here\ndescription: {'d' * 1500}",
        {"name": "here", "description": "d" * 1500},
        True,
        "has 1,500 characters",
    ),
    ("name: ''\ndescription: A.", {"name": "", "description": "A."}, False, "name: .*must not be empty"),
    ("name:\ndescription: A.", {"name": "", "description": "A."}, False, "name: .*must not be empty"),
    ("name: here", {"name": "here"}, False, "description: .*[Ff]ield required"),
    ("name: here\ndescription: ''", {"name": "here", "description": ""}, False, "description: .*must not be empty"),
    ("name: here\ndescription: 5", {"name": "here", "description": 5}, False, "description: .*valid string"),
    ("name: here\ndescription: [a]", {"name": "here", "description": ["a"]}, False, "description: .*valid string"),
]


@pytest.mark.parametrize(("front", "fields", "is_taken", "rule"), RULES)
def test_skl_03_name_and_description_rules(
    front: str, fields: dict[str, Any], is_taken: bool, rule: str, tmp_path: Path
) -> None:
    """What only departs from the public form is warned of, what cannot work is refused; in code as in a folder."""
    path = skill_folder(tmp_path, "here", text=f"---\n{front}\n---\nBody")
    skill_folder(tmp_path, "neighbour")
    place = str(path.resolve() / "SKILL.md")
    found, told = warned(lambda: [skill.name for skill in load_skills(tmp_path)])
    assert found == ([fields["name"], "neighbour"] if is_taken else ["neighbour"])
    assert all(place in text for text in told)
    assert any(re.search(rule, text) for text in told)
    in_code = {**fields, "path": path.resolve()}
    if is_taken:
        assert warned(lambda: Skill(**in_code).name) == (fields["name"], told)
    else:
        with pytest.raises(ValidationError, match=r"(?s)name|description"):
            Skill(**in_code)


def warned(action: Callable[[], T]) -> tuple[T, list[str]]:
    """What an action returns, and the warnings that it gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        return action(), [str(item.message) for item in caught]


@RUNTIMES
@pytest.mark.parametrize(
    "asked",
    [
        call("activate_skill", {"skill_name": "../other"}),
        call("activate_skill", {"skill_name": "OUTSIDE"}),
        call("read_skill_file", {"skill_name": "kit", "file_path": "../../x.txt"}),
        call("read_skill_file", {"skill_name": "kit", "file_path": "OUTSIDE/x.txt"}),
        call("read_skill_file", {"skill_name": "../other", "file_path": "SKILL.md"}),
        call("read_skill_file", {"skill_name": "kit", "file_path": "link.txt"}),
        call("read_skill_file", {"skill_name": "kit", "file_path": "up/x.txt"}),
        call("run_skill_script", {"skill_name": "kit", "script_path": "scripts/../../other/scripts/x.py"}),
    ],
    ids=lambda item: str(sorted(item.arguments.values())),
)
def test_skl_04_leaving_the_skill_folder(runtime: str, asked: Any, tmp_path: Path) -> None:
    path = skill_folder(tmp_path / "skills", "kit", files={"a.md": "", "scripts/run.py": ""})
    skill_folder(tmp_path, "other", body="secret", files={"scripts/x.py": "print('secret')"})
    (tmp_path / "x.txt").write_text("secret")
    (path / "link.txt").symlink_to(tmp_path / "x.txt")
    (path / "up").symlink_to(tmp_path)
    asked = asked.replace(
        arguments={key: value.replace("OUTSIDE", str(tmp_path)) for key, value in asked.arguments.items()}
    )
    model = scripted(calls(asked), says("ok"))
    agent = Agent(llm=model, allow_skill_scripts=True).with_skills_directory(tmp_path / "skills")
    (finished,) = finishes(run(agent, runtime))
    assert finished.is_error
    assert "secret" not in finished.result


@RUNTIMES
def test_skl_05_resources_can_be_found(runtime: str, tmp_path: Path) -> None:
    files = {"references/api.md": "the api", "references/deep/more.md": "deeper", "scripts/run.py": "print('ran')"}
    skill_folder(tmp_path, "kit", body="See references/api.md and run scripts/run.py.", files=files)
    replies = (
        calls(call("activate_skill", {"skill_name": "kit"})),
        calls(
            call("read_skill_file", {"skill_name": "kit", "file_path": "references/api.md"}),
            call("read_skill_file", {"skill_name": "kit", "file_path": "references/deep/more.md"}),
            call("run_skill_script", {"skill_name": "kit", "script_path": "scripts/run.py"}),
        ),
        says("ok"),
    )
    agent = Agent(llm=scripted(*replies), allow_skill_scripts=True).with_skills_directory(tmp_path)
    activated, *used = [item.result for item in sorted(finishes(run(agent, runtime)), key=lambda item: item.key)]
    for name in files:
        assert f"- {name}" in activated
    assert "read_skill_file" in activated
    assert "run_skill_script" in activated
    assert str(tmp_path) not in activated
    assert used == ["the api", "deeper", "exit code 0\nstdout:\nran"]


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("allowed-tools: read grep\n", ("read", "grep")),
        ("allowed-tools: [read, grep]\n", ("read", "grep")),
        ("allowed-tools:\n  - read\n  - grep\n", ("read", "grep")),
        ("allowed-tools: read, grep\n", ("read", "grep")),
        ("allowed_tools: read grep\n", ("read", "grep")),
        ("", ()),
        ("allowed-tools:\n", ()),
        ("allowed-tools: ''\n", ()),
        ("allowed-tools: []\n", ()),
    ],
)
def test_skl_06_list_or_text_for_allowed_tools(line: str, tools: tuple[str, ...], tmp_path: Path) -> None:
    """An empty list is the same as none, as the page says: it restricts nothing."""
    path = skill_folder(tmp_path, "a", text=f"---\nname: a\ndescription: A.\n{line}---\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_skill(path).allowed_tools == tools
    with pytest.raises(ConfigError, match="allowed-tools must be a list or a text"):
        load_skill(skill_folder(tmp_path, "a", text="---\nname: a\ndescription: A.\nallowed-tools: {a: b}\n---\n"))
