"""Skills of an agent: from configuration to the transcript, on both runtimes, over turns, children and processes."""

import warnings
from pathlib import Path
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ConfigError,
    HookResult,
    Message,
    Skill,
    SkillRegistry,
    SubagentDefinition,
    ToolNameCollision,
    create_memory_store,
    lazy_tool_source,
    memory_source,
    tool,
)
from sapwood.core.model import ModelProfile
from sapwood.core.transcript import active_skills
from sapwood.testing import assert_prefix_kept, call, calls, says, scripted
from support.governed import Process, answer, of_type, run
from support.governed import requests_of as waiting_in
from support.outputs import requests_of
from support.skill_folders import skill_folder
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
RELIST = ModelProfile(tool_loading="relist")
DISPATCH = ModelProfile(tool_loading="dispatch")


@tool(name="charts.draw")
def draw(title: str) -> str:
    """Draw a chart."""
    return f"drew {title}"


@tool
def convert(text: str = "") -> str:
    """Convert."""
    return f"converted {text}"


@tool(requires_approval=True)
def publish(text: str = "") -> str:
    """Publish."""
    return f"published {text}"


CHARTS = Skill(name="charts", description="Draw charts.", instructions="Label the axes.", tools=(draw, publish))
UNITS = Skill(name="units", description="Units.", instructions="Use SI.", tools=(convert,), activation="always")
ACTIVATE = call("activate_skill", {"skill_name": "charts"})


def sent(agent: Agent) -> list[list[str]]:
    return [[schema.name for schema in request.tools] for request in requests_of(agent)]


@RUNTIMES
def test_activation_makes_the_tools_callable_and_says_so_with_the_event_of_lazy_tools(runtime: str) -> None:
    replies = (calls(ACTIVATE), calls(call("charts_draw", {"title": "x"})), says("done"))
    agent = Agent(llm=scripted(*replies, profile=RELIST)).with_skills([CHARTS, UNITS])
    events = run(agent, runtime)
    (loaded,) = of_type(events, "context_updated")
    assert (loaded.source, loaded.op, loaded.tools, loaded.skill) == (
        "skills",
        "loaded",
        ("charts.draw", "publish"),
        "charts",
    )
    assert [item.result for item in finishes(events)][1:] == ["drew x"]
    first = ["activate_skill", "convert"]
    assert sent(agent) == [first, [*first, "charts.draw", "publish"], [*first, "charts.draw", "publish"]]
    assert active_skills(agent.last_messages) == ("charts",)


@RUNTIMES
def test_the_prefix_stays_where_tools_are_dispatched(runtime: str) -> None:
    replies = (
        calls(ACTIVATE),
        calls(call("call_tool", {"name": "charts_draw", "args": {"title": "x"}})),
        says("done"),
    )
    agent = Agent(llm=scripted(*replies, profile=DISPATCH)).with_skills([CHARTS, UNITS])
    events = run(agent, runtime)
    assert [item.name for item in finishes(events)] == ["activate_skill", "charts.draw"]
    assert sent(agent) == [["activate_skill", "call_tool", "convert"]] * 3
    assert_prefix_kept(requests_of(agent))


def test_skills_and_lazy_tools_share_one_way_of_calling() -> None:
    @tool
    def invoice() -> str:
        """Make an invoice."""
        return "invoiced"

    replies = (
        calls(ACTIVATE, call("search_tools", {"query": "invoice"})),
        calls(
            call("call_tool", {"name": "charts_draw", "args": {"title": "x"}}), call("call_tool", {"name": "invoice"})
        ),
        calls(call("call_tool", {})),
        says("done"),
    )
    agent = (
        Agent(llm=scripted(*replies, profile=DISPATCH)).with_skill(CHARTS).with_sources([lazy_tool_source([invoice])])
    )
    events = run(agent)
    assert sorted(sent(agent)[0]) == ["activate_skill", "call_tool", "search_tools"]
    results = [item.result for item in finishes(events)]
    assert results[2:4] == ["drew x", "invoiced"]
    assert results[4].startswith("call_tool needs")


def test_a_tool_called_too_early_is_answered_with_the_way_to_it() -> None:
    agent = Agent(llm=scripted(calls(call("charts_draw", {"title": "x"})), says("ok"))).with_skill(CHARTS)
    (early,) = finishes(run(agent))
    assert early.is_error
    assert (
        early.result == 'charts.draw is not loaded. Call activate_skill with skill_name "charts" first, then call it.'
    )


@RUNTIMES
def test_two_activations_in_one_reply_are_answered_once(runtime: str) -> None:
    agent = Agent(llm=scripted(calls(ACTIVATE, ACTIVATE), calls(ACTIVATE), says("ok"))).with_skill(CHARTS)
    results = [item.result for item in finishes(run(agent, runtime))]
    assert ["Label the axes." in result for result in results] == [True, False, False]
    assert results[1] == results[2] == "The skill charts is active already; its instructions stand above."


def test_what_is_active_belongs_to_the_conversation_and_not_to_the_agent() -> None:
    replies = (calls(ACTIVATE), says("one"), calls(call("charts_draw", {"title": "x"})), says("two"))
    agent = Agent(llm=scripted(*replies, calls(call("charts_draw", {"title": "y"})), says("three"), profile=RELIST))
    agent.with_skill(CHARTS)
    run(agent)
    history = agent.last_messages
    other = finishes(run(agent, prompt="another conversation"))
    assert other[0].is_error
    later = finishes(run(agent, messages=history))
    assert later[0].result == "drew y"
    assert sent(agent)[-1] == ["activate_skill", "charts.draw", "publish"]


def test_a_conversation_that_lost_the_instructions_may_have_them_again() -> None:
    agent = Agent(llm=scripted(calls(ACTIVATE), says("one"), calls(ACTIVATE), says("two"))).with_skill(CHARTS)
    run(agent)
    kept = [message for message in agent.last_messages if not message.tool_results and not message.tool_calls]
    (again,) = finishes(run(agent, messages=kept))
    assert again.skill == "charts"
    assert "Label the axes." in again.result


@RUNTIMES
def test_activation_leaks_neither_to_children_nor_back(runtime: str) -> None:
    """The child has the same skill; it begins without it, and what it activates is not active above."""
    child_model = scripted(
        calls(call("charts_draw", {"title": "early"})),
        calls(call("activate_skill", {"skill_name": "charts"})),
        calls(call("charts_draw", {"title": "late"})),
        says("done"),
        *[calls(call("charts_draw", {"title": "second task"})), says("done")],
        profile=RELIST,
    )
    child = Agent(llm=child_model).with_skill(CHARTS)
    model = scripted(
        calls(call("ask", {"task": "draw"})),
        calls(call("charts_draw", {"title": "above"})),
        calls(call("ask", {"task": "draw again"})),
        says("done"),
        profile=RELIST,
    )
    agent = Agent(llm=model).with_skill(CHARTS).with_tools([child.as_tool("ask", "Asks.")])
    events = run(agent, runtime)
    drawn = [(len(item.path), item.is_error) for item in finishes(events) if item.name == "charts.draw"]
    assert drawn == [(1, True), (1, False), (0, True), (1, True)]


@RUNTIMES
def test_an_active_skill_outlives_a_pause_and_the_process(runtime: str) -> None:
    def agent(*replies: Any) -> Agent:
        return Agent(llm=scripted(*replies, profile=RELIST)).with_skill(CHARTS).with_approval(defer=True)

    first = Process(agent(calls(ACTIVATE), calls(call("publish", {"text": "a"}))), runtime=runtime)
    assert first.end.stopped_by == "approval"
    assert first.run.skills == ("charts",)
    resumed = agent(calls(ACTIVATE, call("charts_draw", {"title": "x"})), says("done"))
    second = Process(resumed, first.stored, [answer(waiting_in(first.run)[0])], runtime=runtime)
    results = [item.result for item in finishes(second.events)]
    assert results == ["published a", "The skill charts is active already; its instructions stand above.", "drew x"]


def test_hooks_and_people_see_the_calls_of_a_skill(tmp_path: Path) -> None:
    path = skill_folder(tmp_path, "kit", files={"scripts/run.py": "print('ran')"})
    script = call("run_skill_script", {"skill_name": "kit", "script_path": "scripts/run.py"})
    asked: list[str] = []

    def hook(name: str, arguments: dict[str, Any]) -> HookResult | None:
        asked.append(name)
        return HookResult("ask") if name == "run_skill_script" else None

    model = scripted(calls(call("activate_skill", {"skill_name": "kit"})), calls(script), calls(script), says("ok"))
    answers = iter([ApprovalDecision(approved=True), ApprovalDecision(approved=False, reason="no")])
    agent = Agent(llm=model, allow_skill_scripts=True).with_skill_from_path(path)
    agent.with_hooks(pre_tool_use=hook).with_approval(lambda request: next(answers))
    results = [item.result for item in finishes(run(agent))]
    assert "run one with run_skill_script" in results[0]
    assert results[1:] == ["exit code 0\nstdout:\nran", "Denied: no"]
    assert asked == ["activate_skill", "run_skill_script", "run_skill_script"]


@RUNTIMES
def test_scripts_do_not_exist_where_they_are_not_allowed(runtime: str, tmp_path: Path) -> None:
    path = skill_folder(tmp_path, "kit", files={"scripts/run.py": "print('ran')", "a.md": "text of a"})
    script = call("run_skill_script", {"skill_name": "kit", "script_path": "scripts/run.py"})
    read = call("read_skill_file", {"skill_name": "kit", "file_path": "a.md"})
    agent = Agent(llm=scripted(calls(script, read), says("ok"))).with_skill_from_path(path)
    refused, shown = finishes(run(agent, runtime))
    assert refused.is_error
    assert "run_skill_script" in refused.result
    assert shown.result == "text of a"


def test_the_ledger_has_a_section_for_skills() -> None:
    agent = Agent(llm=scripted(says("ok"))).with_system_prompt("Be brief.").with_skill(CHARTS)
    (started,) = of_type(run(agent), "round_started")
    assert started.ledger.sections["skills"] > 20
    bare = Agent(llm=scripted(says("ok"))).with_system_prompt("Be brief.")
    (plain,) = of_type(run(bare), "round_started")
    assert "skills" not in plain.ledger.sections
    assert plain.ledger.sections["system"] == started.ledger.sections["system"]


def test_the_room_for_the_listing_grows_with_the_window() -> None:
    skills = [Skill(name=f"skill-{number}", description="words " * 20) for number in range(40)]
    texts: list[str] = []
    for size in (16_384, 1_000_000):
        agent = Agent(llm=scripted(says("ok")), max_tokens=size).with_skills(skills)
        run(agent)
        texts.append(requests_of(agent)[0].system[0])
    assert "words" not in texts[0]
    assert texts[1].count("words") == 800


def test_instructions_that_would_fill_the_window_are_warned_of_once() -> None:
    long = Skill(name="long", description="Long.", instructions="word " * 6_000)
    with pytest.warns(UserWarning, match=r"skill 'long': its instructions take about .* tokens of a window of 16,384"):
        agent = Agent(llm=scripted()).with_skill(long)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        agent.with_skill(CHARTS)


# ---- configuration


CLASHES: list[tuple[Any, str]] = [
    (lambda a: a.with_skills([CHARTS, CHARTS]), "two skills are called 'charts': skill 'charts' and skill 'charts'"),
    (lambda a: a.with_skill(CHARTS).with_skill(CHARTS), "two skills are called 'charts'"),
    (lambda a: a.with_skill("charts"), "a skill is a Skill"),
    (lambda a: a.with_skills(CHARTS), None),
    (lambda a: a.with_skills("charts"), "takes a list of Skills"),
    (lambda a: a.with_skills_directory("/no/such/folder"), "there is no folder"),
    (lambda a: a.with_skills_directory("/", scope="other"), 'scope is "project" or "user"'),
    (lambda a: a.with_skill_from_path("/no/such/folder"), "holds no skill"),
]


@pytest.mark.parametrize(("configure", "told"), CLASHES)
def test_what_is_wrong_is_refused_when_it_is_configured(configure: Any, told: str | None) -> None:
    with pytest.raises(ConfigError, match=told):
        configure(Agent(llm=scripted()))


@tool(name="charts_draw")
def other_draw() -> str:
    """Draw otherwise."""
    return ""


@tool(name="activate_skill")
def own_activate() -> str:
    """Not ours."""
    return ""


@tool(name="call_tool")
def own_call() -> str:
    """Not ours."""
    return ""


NAMES: list[tuple[Any, str]] = [
    (lambda a: a.with_skill(CHARTS).with_tools([other_draw]), "'charts_draw'.*'charts.draw' .of the skill 'charts'"),
    (lambda a: a.with_tools([other_draw]).with_skill(CHARTS), "'charts_draw' .a tool of the agent. and 'charts.draw'"),
    (
        lambda a: a.with_skills([CHARTS, Skill(name="b", description="B.", tools=(other_draw,))]),
        "of the skill 'charts'.*of the skill 'b'",
    ),
    (lambda a: a.with_skill(CHARTS).with_tools([own_activate]), "'activate_skill'.*bring with them"),
    (lambda a: a.with_skill(CHARTS).with_tools([own_call]), "'call_tool'.*bring with them"),
    (
        lambda a: a.with_skill(Skill(name="t", description="T.", tools=({"name": "task"},))).with_subagents(
            [SubagentDefinition(name="x", description="X.")]
        ),
        "is the tool by which subagents are asked",
    ),
    (
        lambda a: a.with_output_model(int).with_skill(
            Skill(name="t", description="T.", tools=({"name": "final_result"},))
        ),
        "final_result",
    ),
]


@pytest.mark.parametrize(("configure", "told"), NAMES)
def test_two_tools_of_one_name_are_refused_whoever_brings_them(configure: Any, told: str) -> None:
    with pytest.raises(ToolNameCollision, match=told):
        configure(Agent(llm=scripted()))


def test_skills_from_disk_against_tools_of_the_agent(tmp_path: Path) -> None:
    skill_folder(tmp_path, "kit", files={"scripts/run.py": ""})

    @tool
    def read_skill_file() -> str:
        """Not ours."""
        return ""

    @tool
    def run_skill_script() -> str:
        """Not ours."""
        return ""

    with pytest.raises(ToolNameCollision, match="read_skill_file"):
        Agent(llm=scripted()).with_tools([read_skill_file]).with_skills_directory(tmp_path)
    Agent(llm=scripted()).with_tools([run_skill_script]).with_skills_directory(tmp_path)
    with pytest.raises(ToolNameCollision, match="run_skill_script"):
        Agent(llm=scripted(), allow_skill_scripts=True).with_skills_directory(tmp_path).with_tools([run_skill_script])


def test_a_tool_of_a_skill_may_be_an_agent_and_its_limits_are_known() -> None:
    child = Agent(llm=scripted(says("from below")))
    skill = Skill(name="help", description="Help.", tools=(child.as_tool("ask", "Asks."),), activation="always")
    agent = Agent(llm=scripted(calls(call("ask", {"task": "x"})), says("ok"))).with_skill(skill)
    assert finishes(run(agent))[-1].result == "from below"
    assert agent.tool_called("ask") is not None


# ---- folders and scopes


def names(agent: Agent) -> list[tuple[str, str]]:
    return [(skill.name, str(skill.path.parent.name) if skill.path else "") for skill in agent._config.skills]


@pytest.mark.parametrize("project_first", [True, False])
def test_a_skill_of_the_project_stands_before_one_of_the_user_with_a_warning(
    project_first: bool, tmp_path: Path
) -> None:
    for scope in ("project", "user"):
        skill_folder(tmp_path / scope, "shared")
        skill_folder(tmp_path / scope, f"only-{scope}")
    agent = Agent(llm=scripted())
    first, second = ("project", "user") if project_first else ("user", "project")
    agent.with_skills_directory(tmp_path / first, scope=first)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match=r"user/shared/SKILL.md is not used: .*project/shared/SKILL.md") as caught:
        agent.with_skills_directory(tmp_path / second, scope=second)  # type: ignore[arg-type]
    assert len(caught) == 1
    assert sorted(names(agent)) == [("only-project", "project"), ("only-user", "user"), ("shared", "project")]


def test_of_two_folders_of_one_scope_the_first_counts_and_code_is_never_shadowed(tmp_path: Path) -> None:
    for place in ("1", "2"):
        skill_folder(tmp_path / place, "shared")
    agent = Agent(llm=scripted()).with_skills_directory(tmp_path / "1")
    with pytest.warns(UserWarning, match="2/shared/SKILL.md is not used"):
        agent.with_skills_directory(tmp_path / "2")
    assert names(agent) == [("shared", "1")]
    own = Agent(llm=scripted()).with_skill(Skill(name="shared", description="In code."))
    with pytest.raises(ConfigError, match=r"two skills are called 'shared': skill 'shared' and .*SKILL.md"):
        own.with_skills_directory(tmp_path / "1")


def test_the_standard_places_are_read_and_a_project_only_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    skill_folder(home / ".agents/skills", "one")
    skill_folder(home / ".sapwood/skills", "two")
    skill_folder(home / ".claude/skills", "three")
    skill_folder(project / ".agents/skills", "four")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)

    def found(**options: Any) -> list[str]:
        return [name for name, _ in names(Agent(llm=scripted()).with_standard_skills(**options))]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert found() == ["one", "two"]
        assert found(claude=True) == ["one", "two", "three"]
        assert found(project=project) == ["four", "one", "two"]
        assert found(project=".", user=False) == ["four"]
        assert found(user=False) == []


def test_an_empty_folder_adds_nothing(tmp_path: Path) -> None:
    agent = Agent(llm=scripted(says("ok"))).with_skills_directory(tmp_path)
    run(agent)
    assert (sent(agent), requests_of(agent)[0].system) == ([[]], ())


def test_a_skill_from_a_folder_may_get_tools(tmp_path: Path) -> None:
    path = skill_folder(tmp_path, "kit")
    replies = (calls(call("activate_skill", {"skill_name": "kit"})), calls(call("convert", {"text": "x"})), says("ok"))
    agent = Agent(llm=scripted(*replies, profile=RELIST)).with_skill_from_path(path, tools=[convert])
    assert finishes(run(agent))[-1].result == "converted x"


# ---- the registry


def test_the_registry_keeps_skills_and_what_is_active_by_hand(tmp_path: Path) -> None:
    registry = SkillRegistry([CHARTS])
    registry.register(UNITS)
    assert (registry.is_active("charts"), registry.is_active("units")) == (False, True)
    assert registry.active_tools() == (convert,)
    assert registry.activate("charts") is CHARTS
    assert registry.active_tools() == (draw, publish, convert)
    registry.deactivate("charts")
    registry.deactivate("units")
    assert (registry.is_active("charts"), registry.is_active("units")) == (False, True)
    registry.activate("charts")
    registry.reset()
    assert registry.active_tools() == (convert,)
    assert (registry.all_skills(), registry.on_demand_skills(), registry.always_skills()) == (
        (CHARTS, UNITS),
        (CHARTS,),
        (UNITS,),
    )
    assert registry.always_instructions() == "## units\n\nUse SI."
    assert registry.skill_discovery_prompt().endswith("- charts: Draw charts.")
    assert len(registry.skill_discovery_prompt(150)) <= 150
    assert (registry.get("charts"), list(registry), len(registry)) == (CHARTS, [CHARTS, UNITS], 2)
    for method in (registry.get, registry.activate, registry.deactivate, registry.is_active):
        with pytest.raises(KeyError, match="there is no skill 'other'; there are: charts, units"):
            method("other")
    skill_folder(tmp_path, "kit")
    assert registry.load_from_path(tmp_path / "kit", tools=[other_tool]).tools == (other_tool,)
    skill_folder(tmp_path / "more", "more")
    assert [skill.name for skill in registry.load_from_directory(tmp_path / "more")] == ["more"]
    assert [skill.name for skill in registry] == ["charts", "units", "kit", "more"]


@tool
def other_tool() -> str:
    """Another."""
    return ""


def test_the_registry_refuses_two_of_one_name_and_stays_as_it_was() -> None:
    registry = SkillRegistry([CHARTS])
    with pytest.raises(ConfigError, match="two skills are called 'charts'"):
        registry.register(CHARTS)
    with pytest.raises(ToolNameCollision, match="charts_draw"):
        registry.register(Skill(name="b", description="B.", tools=(other_draw,)))
    assert registry.all_skills() == (CHARTS,)


def test_an_agent_takes_the_skills_of_a_registry() -> None:
    agent = Agent(llm=scripted(says("ok"))).with_skills(SkillRegistry([CHARTS, UNITS]))
    assert [skill.name for skill in agent._config.skills] == ["charts", "units"]


def test_skills_stand_beside_other_sources_and_messages() -> None:
    store = create_memory_store()
    store.save("The user draws charts.")
    agent = Agent(llm=scripted(calls(ACTIVATE), says("ok"))).with_skill(CHARTS).with_sources([memory_source(store)])
    events = run(agent, prompt="charts", messages=[Message.user("hi"), Message.assistant("hello")])
    assert [(item.source, item.op) for item in of_type(events, "context_updated")] == [
        ("memory", "recalled"),
        ("skills", "loaded"),
    ]
