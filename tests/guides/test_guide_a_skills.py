"""Guide A on skills: its examples as printed, and its peer's section 13, each with the number of the statement.

Where DESIGN or the list of faults differs from the peer, the docstring says so and the test asserts what is ours.
"""

import sys
from pathlib import Path
from typing import Any

import pytest

from sapwood import (
    Agent,
    ConfigError,
    Skill,
    SkillRegistry,
    ToolNameCollision,
    create_memory_store,
    lazy_tool_source,
    memory_skill,
    rag_skill,
    tool,
)
from sapwood.core.model import ModelProfile
from sapwood.core.tools import ToolContext
from sapwood.sources.skill_files import SkillFileSource, load_skill
from sapwood.testing import call, calls, says, scripted
from support.governed import run
from support.outputs import requests_of
from support.skill_folders import skill_folder
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
RELIST = ModelProfile(tool_loading="relist")


@tool
def analyze_tool(data: str) -> str:
    """Analyze data."""
    return f"analyzed {data}"


@tool
def summarize_tool(data: str) -> str:
    """Summarize data."""
    return f"summary of {data}"


@tool
def calc_tool(expression: str) -> str:
    """Calculate."""
    return expression


@tool
def faceted_search_tool(query: str) -> str:
    """Search by facets."""
    return f"found {query}"


@tool
def filter_tool(query: str) -> str:
    """Filter."""
    return query


my_skill = Skill(
    name="data_analysis",
    description="Tools for analyzing datasets",
    instructions="Use these tools when the user asks about data trends.",
    tools=(analyze_tool, summarize_tool),
    activation="on_demand",  # or "always"
    tags=("analytics",),
)


def asked(agent: Agent) -> list[list[str]]:
    return [[schema.name for schema in request.tools] for request in requests_of(agent)]


def test_example_15_the_registry() -> None:
    registry = SkillRegistry()
    registry.register(my_skill)
    assert registry.is_active("data_analysis") is False
    skill = registry.activate("data_analysis")
    assert skill == my_skill
    assert list(registry.active_tools()) == [analyze_tool, summarize_tool]


@RUNTIMES
def test_example_16_always_and_on_demand_skills_through_an_agent(runtime: str) -> None:
    model = scripted(
        calls(call("calc_tool", {"expression": "1+1"}), call("activate_skill", {"skill_name": "advanced_search"})),
        calls(call("faceted_search_tool", {"query": "bees"})),
        says("done"),
        profile=RELIST,
    )
    agent = Agent(llm=model)
    agent.with_skill(
        Skill(
            name="utils",
            description="Utility tools",
            tools=(calc_tool,),
            activation="always",
        )
    )
    agent.with_skill(
        Skill(
            name="advanced_search",
            description="Advanced search with filters and facets",
            tools=(faceted_search_tool, filter_tool),
            activation="on_demand",
        )
    )
    results = [item.result for item in finishes(run(agent, runtime))]
    assert (results[0], results[2]) == ("1+1", "found bees")
    first = ["activate_skill", "calc_tool"]
    assert asked(agent) == [first, *[[*first, "faceted_search_tool", "filter_tool"]] * 2]


def test_example_17_the_memory_skill_over_a_store() -> None:
    """The guide hands over a MemoryManager; the skill takes the store that one is made of."""
    memory = create_memory_store()
    agent = Agent(llm=scripted(calls(call("save_fact", {"fact": "likes blue"})), says("ok"))).with_skill(
        memory_skill(memory)
    )
    (saved,) = finishes(run(agent))
    (record,) = memory.all()
    assert saved.result == f"Saved: likes blue (id: {record.id})"


def test_example_18_the_rag_skill() -> None:
    def my_retriever(query: str, embedding: Any = None) -> list[str]:
        return [f"{query} {embedding}"]

    def my_embed_fn(text: str) -> list[float]:
        return [float(len(text))]

    model = scripted(
        calls(call("activate_skill", {"skill_name": "rag"})),
        calls(call("search_docs", {"query": "bees"})),
        says("ok"),
        profile=RELIST,
    )
    agent = Agent(llm=model).with_skill(rag_skill(retriever=my_retriever, embed_fn=my_embed_fn))
    assert finishes(run(agent))[1].result == "bees [4.0]"


@RUNTIMES
def test_13_1_an_activation_confirms_instructs_and_lists(runtime: str, tmp_path: Path) -> None:
    """Ours differ: an unknown name is an error result, and what is active belongs to the conversation (B36)."""
    path = skill_folder(tmp_path, "kit", body="Do it well.", files={"notes.md": "", "scripts/run.sh": ""})
    model = scripted(
        calls(call("activate_skill", {"skill_name": "nope"}), call("activate_skill", {"skill_name": "kit"})),
        says("ok"),
        profile=RELIST,
    )
    agent = Agent(llm=model, allow_skill_scripts=True).with_skill_from_path(path, tools=[calc_tool])
    unknown, activated = finishes(run(agent, runtime))
    assert (unknown.is_error, unknown.result) == (True, "There is no skill 'nope' to activate. There are: kit")
    for piece in ("Do it well.", "calc_tool", "notes.md", "scripts/run.sh"):
        assert piece in activated.result


def test_13_2_and_3_the_system_text_does_not_depend_on_activation() -> None:
    always = Skill(name="rules", description="Rules.", instructions="Be kind.", activation="always")
    model = scripted(calls(call("activate_skill", {"skill_name": "data_analysis"})), says("ok"))
    agent = Agent(llm=model).with_system_prompt("Help.").with_skills([always, my_skill])
    run(agent)
    first, second = (request.system for request in requests_of(agent))
    assert first == second
    assert "Be kind." in "\n".join(first)
    assert "- data_analysis: Tools for analyzing datasets" in "\n".join(first)


def test_13_4_two_of_one_name_are_refused_and_an_unknown_one_is_a_key_error() -> None:
    """ConfigError is a ValueError, too. The collision with a tool of the agent is looked for on every way (B13)."""
    registry = SkillRegistry([my_skill])
    with pytest.raises(ValueError, match="data_analysis"):
        registry.register(my_skill)
    with pytest.raises(ConfigError, match="analyze_tool"):
        registry.register(Skill(name="other", description="Other.", tools=(analyze_tool,)))
    with pytest.raises(KeyError, match="nope"):
        registry.activate("nope")


def test_13_5_the_fields_of_a_skill_file(tmp_path: Path) -> None:
    text = (
        "---\nname: kit\ndescription: A kit.\ncompatibility: any\nmetadata:\n  activation: always\n  n: 1\n"
        "tags: a, b\nallowed-tools: x y\ncolour: red\n---\nBody"
    )
    with pytest.warns(UserWarning, match="'colour' is no field of a skill"):
        skill = load_skill(skill_folder(tmp_path, "kit", text=text))
    assert (skill.activation, skill.tags, skill.allowed_tools) == ("always", ("a", "b"), ("x", "y"))
    assert skill.metadata == {"activation": "always", "n": "1"}


@RUNTIMES
def test_13_6_files_are_read_before_activation_too_and_scripts_stay_in_their_folder(
    runtime: str, tmp_path: Path
) -> None:
    """Ours differ: a script lies in `scripts/`, and its arguments are a list (B36)."""
    path = skill_folder(
        tmp_path, "kit", files={"a.md": "x" * 60_000, "scripts/a.py": "import sys; print(sys.argv[1:])"}
    )
    model = scripted(
        calls(
            call("read_skill_file", {"skill_name": "kit", "file_path": "a.md"}),
            call("run_skill_script", {"skill_name": "kit", "script_path": "scripts/a.py", "args": ["a b", "c"]}),
        ),
        says("ok"),
    )
    agent = Agent(llm=model, allow_skill_scripts=True, tool_result_max_tokens=None).with_skill_from_path(path)
    read, ran = finishes(run(agent, runtime))
    assert read.result == "x" * 50_000 + "\n[10,000 more characters; go on with offset=50000]"
    assert ran.result == "exit code 0\nstdout:\n['a b', 'c']"


# ---- faults of the peer that must not be ours


def test_b13_two_tools_of_one_name_are_refused_on_every_way(tmp_path: Path) -> None:
    skill = Skill(name="a", description="A.", tools=(calc_tool,))
    ways: list[Any] = [
        lambda a: a.with_tools([calc_tool, calc_tool]),
        lambda a: a.with_skill(skill).with_tools([calc_tool]),
        lambda a: a.with_tools([calc_tool]).with_skill(skill),
        lambda a: a.with_tools([calc_tool]).with_skill_from_path(skill_folder(tmp_path, "kit"), tools=[calc_tool]),
    ]
    for way in ways:
        with pytest.raises(ToolNameCollision, match="calc_tool"):
            way(Agent(llm=scripted()))


def test_b36_nothing_of_a_skill_runs_at_load_and_only_scripts_ever_do(tmp_path: Path) -> None:
    trap = "import pathlib; pathlib.Path(__file__).with_name('ran').touch()\n"
    files = {"tools.py": trap, "scripts/run.py": trap, "other.py": trap}
    path = skill_folder(tmp_path, "kit", text="\ufeff---\nname: kit\ndescription: A kit.\n---\n", files=files)
    for allowed in (False, True):
        Agent(llm=scripted(), allow_skill_scripts=allowed).with_skills_directory(tmp_path)
    assert [*tmp_path.rglob("ran")] == []
    assert not any(
        "tools.py" in str(getattr(module, "__file__", "")) for name, module in sys.modules.items() if name == "tools"
    )
    source: Any = SkillFileSource([load_skill(path)], allow_scripts=True)
    run_script = source._tools[1]
    for outside in ("tools.py", "other.py"):
        with pytest.raises(Exception, match="only files in scripts/ may be run"):
            run_script.run({"skill_name": "kit", "script_path": outside, "args": []}, ToolContext())
    assert [*tmp_path.rglob("ran")] == []


@RUNTIMES
def test_b36_activation_does_not_leak_between_the_tasks_of_a_subagent(runtime: str) -> None:
    model = scripted(
        *[calls(call("activate_skill", {"skill_name": "data_analysis"})), says("done")],
        *[calls(call("analyze_tool", {"data": "x"})), says("done")],
        profile=RELIST,
    )
    child = Agent(llm=model).with_skill(my_skill)
    above = scripted(calls(call("ask", {"task": "one"})), calls(call("ask", {"task": "two"})), says("ok"))
    events = run(Agent(llm=above).with_tools([child.as_tool("ask", "Asks.")]), runtime)
    (early,) = [item for item in finishes(events) if item.name == "analyze_tool"]
    assert early.is_error
    assert early.result.startswith("analyze_tool is not loaded. Call activate_skill")


@RUNTIMES
def test_b39_what_was_never_loaded_does_not_run(runtime: str) -> None:
    ran: list[str] = []

    @tool
    def effect(word: str = "") -> str:
        """Have an effect."""
        ran.append(word)
        return "ran"

    calls_early = calls(call("effect", {"word": "x"}))
    for agent in (
        Agent(llm=scripted(calls_early, says("ok"))).with_skill(Skill(name="a", description="A.", tools=(effect,))),
        Agent(llm=scripted(calls_early, says("ok"))).with_sources([lazy_tool_source([effect])]),
    ):
        (refused,) = finishes(run(agent, runtime))
        assert refused.is_error
        assert "is not loaded" in refused.result
    assert ran == []


@RUNTIMES
def test_b47_search_docs_keeps_to_its_hits_and_takes_async_retrievers_and_plain_dictionaries(runtime: str) -> None:
    async def nine(query: str) -> list[dict[str, str]]:
        return [{"text": f"hit {number}"} for number in range(9)]

    model = scripted(
        calls(call("activate_skill", {"skill_name": "rag"})),
        calls(call("search_docs", {"query": "x"})),
        says("ok"),
        profile=RELIST,
    )
    found = finishes(run(Agent(llm=model).with_skill(rag_skill(nine)), runtime))[1]
    assert found.result == "\n---\n".join(f"hit {number}" for number in range(5))
