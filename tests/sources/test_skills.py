"""Skills as a source: the listing, an activation, and what follows from the transcript."""

from pathlib import Path
from typing import Any

import pytest

from sapwood import Skill, ToolCall, Turn, tool
from sapwood.context.meter import estimate_tokens
from sapwood.core.model import ToolLoading
from sapwood.core.tools import ACTIVATE_SKILL
from sapwood.sources.skills import MENU_TOKENS, SkillSource, discovery_text
from support.skill_folders import skill_folder


@tool(name="charts.draw")
def draw(title: str) -> str:
    """Draw a chart."""
    return title


@tool
def convert(text: str) -> str:
    """Convert."""
    return text


CHARTS = Skill(name="charts", description="Draw\n charts.", instructions="Label the axes.\n", tools=(draw,))
UNITS = Skill(name="units", description="Units.", instructions="Use SI.", tools=(convert,), activation="always")
BARE = Skill(name="bare", description="Nothing else.")


def activate(source: SkillSource, name: Any, **turn: Any) -> Any:
    answer = source.handle(ToolCall(ACTIVATE_SKILL, {"skill_name": name}), Turn(**turn))
    assert answer is not None
    return answer


def test_what_waits_is_listed_and_what_is_always_active_is_there() -> None:
    offered = SkillSource([CHARTS, UNITS, BARE]).contribute(Turn())
    assert offered.system == (
        '<skill name="units">\nUse SI.\n</skill>\n\n'
        "Skills (2) give you instructions and tools for a kind of task. Where one fits the task, call activate_skill "
        "with its name before you begin.\n- charts: Draw charts.\n- bare: Nothing else."
    )
    names = [item.name for item in offered.tools]
    assert (names, [item.name for item in offered.hidden]) == (["activate_skill", "convert"], ["charts.draw"])
    schema: Any = offered.tools[0]
    assert schema.input_schema["properties"]["skill_name"]["enum"] == ["charts", "bare"]
    assert offered.meta_tools == ["activate_skill"]
    assert offered.how_to_load == {"charts.draw": 'Call activate_skill with skill_name "charts" first, then call it.'}


def test_nothing_is_offered_where_nothing_waits() -> None:
    quiet = Skill(name="quiet", description="Says nothing.", activation="always")
    for skills in ([], [quiet]):
        offered = SkillSource(skills).contribute(Turn())
        assert (list(offered.tools), offered.system, list(offered.meta_tools)) == ([], "", [])


def test_call_tool_is_offered_where_tools_are_dispatched() -> None:
    turn = Turn(tool_loading="dispatch")
    assert [item.name for item in SkillSource([CHARTS]).contribute(turn).tools] == ["activate_skill", "call_tool"]
    assert [item.name for item in SkillSource([BARE]).contribute(turn).tools] == ["activate_skill"]
    assert SkillSource([CHARTS], loading="relist").contribute(turn).loading == "relist"
    assert SkillSource([CHARTS], loading="dispatch").contribute(Turn()).loading == "dispatch"


@pytest.mark.parametrize(
    ("loading", "offered", "told"),
    [
        ("relist", "relist", "These tools can be called now: charts_draw."),
        ("inline", "inline", "These tools can be called now."),
        ("dispatch", "dispatch", 'call_tool: {"name": "...", "args": {...}}.'),
        ("deferred", "dispatch", 'call_tool: {"name": "...", "args": {...}}.'),  # instructions cannot hold references
    ],
)
def test_an_activation_says_how_its_tools_are_called(loading: ToolLoading, offered: str, told: str) -> None:
    source, turn = SkillSource([CHARTS]), Turn(tool_loading=loading)
    answer = source.handle(ToolCall("activate_skill", {"skill_name": CHARTS.name}), turn)

    assert source.contribute(turn).loading == offered
    assert answer is not None
    assert told in answer.result
    assert ('"input_schema"' in answer.result) == (loading != "relist")


def test_an_activation_gives_the_instructions_and_loads_the_tools() -> None:
    answer = activate(SkillSource([CHARTS, BARE]), "charts")
    assert (answer.skill, answer.tools, answer.is_error) == ("charts", ("charts.draw",), False)
    assert answer.result == (
        '<skill name="charts">\nLabel the axes.\n</skill>\n\nThese tools can be called now: charts_draw.'
    )
    bare = activate(SkillSource([CHARTS, BARE]), "bare")
    assert (bare.skill, bare.tools) == ("bare", ())
    assert bare.result == '<skill name="bare">\nThis skill is active.\n</skill>'


def test_dispatched_tools_are_told_with_their_schemas() -> None:
    text = activate(SkillSource([CHARTS]), "charts", tool_loading="dispatch").result
    assert '{"name": "charts_draw", "description": "Draw a chart.", "input_schema": {"type": "object"' in text
    assert 'call_tool: {"name": "...", "args": {...}}' in text


def test_instructions_are_said_once_and_a_new_tool_is_loaded() -> None:
    source = SkillSource([CHARTS])
    again = activate(source, "charts", skills=("charts",), loaded=("charts.draw",))
    assert (again.skill, again.tools) == ("", ())
    assert again.result == "The skill charts is active already; its instructions stand above."
    assert activate(source, "charts", skills=("charts",)).tools == ("charts.draw",)


@pytest.mark.parametrize("name", ["../other", "/etc", "Charts", "units", "", None, 5, ["charts"]])
def test_an_unknown_skill_is_an_error_that_names_the_known_ones(name: Any) -> None:
    answer = activate(SkillSource([CHARTS, UNITS, BARE]), name)
    assert (answer.is_error, answer.tools, answer.skill) == (True, (), "")
    assert answer.result == f"There is no skill {name!r} to activate. There are: charts, bare"


def test_other_calls_are_not_its_own() -> None:
    source = SkillSource([CHARTS])
    assert source.handle(ToolCall("search_tools", {"query": "x"}), Turn()) is None
    odd = source.handle(ToolCall("call_tool", {}), Turn())
    assert odd is not None
    assert odd.is_error


def test_an_activation_names_the_files_and_the_scripts(tmp_path: Path) -> None:
    path = skill_folder(
        tmp_path, "charts", files={"references/api.md": "", "scripts/run.py": "", "scripts/sub/x.sh": ""}
    )
    skill = Skill(name="charts", description="Charts.", instructions="See references/api.md.", path=path)
    allowed = activate(SkillSource([skill], runs_scripts=True), "charts").result
    assert allowed == (
        '<skill name="charts">\nSee references/api.md.\n\n'
        "Files of this skill; read one with read_skill_file, by this name:\n- references/api.md\n\n"
        "Scripts of this skill; run one with run_skill_script, by this name:\n- scripts/run.py\n- scripts/sub/x.sh\n"
        "</skill>"
    )
    only_read = activate(SkillSource([skill]), "charts").result
    assert "Scripts of this skill, which may only be read (read_skill_file):\n- scripts/run.py" in only_read
    assert "run_skill_script" not in only_read
    for text in (allowed, only_read):
        assert str(tmp_path) not in text


def many(count: int, size: int = 300) -> list[Skill]:
    return [Skill(name=f"skill-{number}", description="word " * (size // 5)) for number in range(count)]


@pytest.mark.parametrize(
    ("skills", "tokens", "shown"),
    [
        (many(3), 400, "- skill-2: word word"),
        (many(3), 160, "…"),
        (many(12, 30), 160, "- skill-11: word"),
        (many(30), MENU_TOKENS, ": skill-0, skill-1,"),
        (many(500), MENU_TOKENS, " more."),
        (many(500), 10, "before you begin."),
    ],
)
def test_the_listing_keeps_to_its_budget(skills: list[Skill], tokens: int, shown: str) -> None:
    text = discovery_text(skills, tokens)
    assert shown in text
    assert text.startswith(f"Skills ({len(skills)}) give you")
    assert estimate_tokens(text) <= max(tokens, 40)


def test_a_listing_without_a_limit_has_all_of_it() -> None:
    assert discovery_text([], 10) == ""
    assert len(discovery_text(many(50), None).splitlines()) == 51
    assert len(discovery_text(many(50), 1_000, size=len)) <= 1_000
