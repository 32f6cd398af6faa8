"""The memory tool of an Agent: native on the wire where the model was taught it, and governed as any other tool."""

import json
from pathlib import Path
from typing import Any

import pytest

from sapwood import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    ConfigError,
    ContextManager,
    FolderFiles,
    HookResult,
    InProcessFiles,
    MemoryFileLimits,
    ToolNameCollision,
    UsageLimits,
    create_provider,
    memory_tool_source,
    run_agent,
    tool,
)
from sapwood.context.meter import Meter
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.profiles import profile_of
from sapwood.sources.memory_tool import MEMORY_SCHEMA
from sapwood.testing import call, calls, says, scripted
from support.governed import Process, answer, of_type, requests_of, run
from support.recordings import recording
from support.replay_server import ReplayServer

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
NATIVE = [{"type": "memory_20250818", "name": "memory"}]


def memory(command: str, path: str = "/memories/n", **given: Any) -> Any:
    return call("memory", {"command": command, "path": path, **given})


@RUNTIMES
def test_the_recorded_conversation_is_had_again_on_the_wire(runtime: str) -> None:
    document = recording("anthropic-messages-memory-tool")
    recorded = [exchange["request"]["body"] for exchange in document["exchanges"]]
    files = InProcessFiles({"home.txt": "The user lives in Mexico City."})
    with ReplayServer(document) as server:
        provider = create_provider("anthropic/claude-sonnet-4-5", base_url=server.url, api_key="k")
        agent = Agent(llm=provider, cache=False).with_memory_tool(files)
        events = run(agent, runtime, "Where do I live?")
        sent = [request["body"] for request in server.requests]
    assert "".join(event.text for event in of_type(events, "text_delta")).endswith("you live in **Mexico City**.")
    assert [body["tools"] for body in sent] == [body["tools"] for body in recorded] == [NATIVE, NATIVE]
    assert "/memories" in sent[0]["system"][0]["text"]
    # The call goes back as it came, and its result is ours.
    own, theirs = sent[1]["messages"], recorded[1]["messages"]
    assert own[:2] == theirs[:2]
    (result,) = own[2]["content"]
    (wanted,) = theirs[2]["content"]
    assert (result["type"], result["tool_use_id"]) == (wanted["type"], wanted["tool_use_id"])
    assert result["content"].endswith("\n30B\t/memories/home.txt")


def test_what_the_native_tool_adds_is_counted_as_it_was_reported() -> None:
    document = recording("anthropic-messages-memory-tool")
    reported = json.loads(document["exchanges"][0]["response"]["text"])["usage"]["input_tokens"]
    profile = profile_of("anthropic", "claude-sonnet-4-5")
    meter = Meter.of(profile)
    counted = meter.overhead + profile.tool_overhead_tokens + meter.scaled(meter.schema(MEMORY_SCHEMA))
    assert 0 <= reported - counted < 20  # the five words that were asked
    assert Meter.of(ModelProfile()).schema(MEMORY_SCHEMA) < 500


@pytest.mark.parametrize(
    ("model", "is_native"),
    [
        ("anthropic/claude-haiku-4-5", True),
        ("anthropic/claude-opus-4-1-20250805", True),
        ("anthropic/claude-sonnet-5-5", True),
        ("anthropic/claude-3-5-haiku-20241022", False),
        ("bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", False),
        ("vertex/claude-sonnet-4-5@20250929", False),
        ("openrouter/anthropic/claude-sonnet-4.5", False),
        ("openai/gpt-5", False),
        ("gemini/gemini-3.8-flash", False),
        ("ollama/qwen3", False),
    ],
)
def test_a_profile_says_where_the_tool_is_native(model: str, is_native: bool) -> None:
    provider, _, name = model.partition("/")
    assert (profile_of(provider, name).native_tokens(MEMORY_SCHEMA) is not None) is is_native


@pytest.mark.parametrize(
    ("model", "tools_of"),
    [
        ("anthropic/claude-3-5-haiku-20241022", lambda body: body["tools"]),
        ("openai-chat/gpt-4.1", lambda body: [item["function"] for item in body["tools"]]),
        ("openai-responses/gpt-5", lambda body: body["tools"]),
        ("gemini/gemini-3.8-flash", lambda body: body["tools"][0]["functionDeclarations"]),
        ("ollama/qwen3", lambda body: [item["function"] for item in body["tools"]]),
    ],
)
def test_everywhere_else_it_is_sent_with_its_schema(model: str, tools_of: Any) -> None:
    provider: Any = create_provider(model, base_url="http://127.0.0.1:1", api_key="k")
    request = ModelRequest(Transcript(), tools=(MEMORY_SCHEMA,))
    sending = provider._codec.encode(request, provider.profile, base_url="http://127.0.0.1:1", api_key="k")
    body = json.loads(sending.body)
    (sent,) = tools_of(body)
    assert sent["name"] == "memory"
    assert "rename" in sent["description"]
    assert "insert_line" in json.dumps(sent)
    assert "memory_20250818" not in json.dumps(body)


def test_a_tool_of_ones_own_may_be_native_where_the_profile_has_it() -> None:
    known = ModelProfile(native_tools=(("bash_20250124", 245),))
    assert known.native_tokens(ToolSchema("bash", native="bash_20250124")) == 245
    assert known.native_tokens(ToolSchema("bash", native="bash_20990101")) is None
    assert known.native_tokens(ToolSchema("bash")) is None


@RUNTIMES
def test_notes_outlast_a_conversation_and_are_shared_by_agents(tmp_path: Path, runtime: str) -> None:
    first = Agent(llm=scripted(calls(memory("create", file_text="Likes tea.")), says("Noted.")))
    run(first.with_memory_tool(tmp_path / "notes"), runtime)
    second = Agent(llm=scripted(calls(memory("view")), says("Tea, as always?")))
    (shown,) = of_type(run(second.with_memory_tool(str(tmp_path / "notes")), runtime), "tool_finished")
    assert shown.result.endswith("     1\tLikes tea.")


@RUNTIMES
def test_calls_of_one_reply_run_alone_and_in_their_order(runtime: str) -> None:
    files = InProcessFiles()
    lines = [memory("insert", insert_line=number, insert_text=str(number)) for number in range(8)]
    model = scripted(calls(memory("create", file_text=""), *lines, memory("view")), says("done"))
    events = run(Agent(llm=model).with_memory_tool(files), runtime)
    assert files.files() == {"n": b"0\n1\n2\n3\n4\n5\n6\n7\n"}
    order = [event.type for event in events if event.type in ("tool_started", "tool_finished")]
    assert order == ["tool_started", "tool_finished"] * 10


@RUNTIMES
def test_hooks_see_its_calls_and_may_change_and_refuse_them(runtime: str) -> None:
    files = InProcessFiles({"n": "1"})
    seen: list[str] = []

    def before(name: str, given: dict[str, Any]) -> HookResult | None:
        seen.append(f"{name} {given['command']}")
        if given["command"] == "delete":
            return HookResult(decision="deny", reason="keep it")
        if given["command"] == "create":
            return HookResult(updated_input={**given, "path": "/memories/../escaped"})
        return None

    model = scripted(
        calls(memory("delete"), memory("create", "/memories/m", file_text="2"), memory("view")), says("ok")
    )
    agent = Agent(llm=model).with_memory_tool(files).with_hooks(pre_tool_use=before)
    finished = of_type(run(agent, runtime), "tool_finished")
    assert [item.is_error for item in finished] == [True, True, False]
    assert "keep it" in finished[0].result
    assert "'..'" in finished[1].result  # what a hook made of it is held to the same rules
    assert seen == ["memory delete", "memory create", "memory view"]
    assert files.files() == {"n": b"1"}


@RUNTIMES
def test_a_person_may_be_asked_about_some_of_its_commands(runtime: str) -> None:
    files = InProcessFiles({"n": "1"})
    asked: list[str] = []

    def ask(request: ApprovalRequest) -> ApprovalDecision:
        asked.append(request.tool_input["command"])
        return ApprovalDecision(False, reason="not that")

    model = scripted(calls(memory("view"), memory("delete")), says("ok"))
    agent = Agent(llm=model).with_approval(ask)
    agent.with_memory_tool(files, requires_approval=lambda given: given["command"] == "delete")
    finished = of_type(run(agent, runtime), "tool_finished")
    assert [item.result for item in finished if item.is_error] == ["Denied: not that"]
    assert asked == ["delete"]
    assert files.files() == {"n": b"1"}


@RUNTIMES
def test_a_call_may_wait_for_a_person_and_be_run_by_another_process(runtime: str) -> None:
    files = InProcessFiles({"n": "1"})

    def agent() -> Agent:
        model = scripted(calls(memory("delete")), says("gone"))
        return Agent(llm=model).with_approval(defer=True).with_memory_tool(files, requires_approval=True)

    first = Process(agent(), runtime=runtime)
    (request,) = requests_of(first.run)
    assert files.files() == {"n": b"1"}
    Process(agent(), first.stored, [answer(request)], runtime=runtime)
    assert files.files() == {}


def test_it_may_be_limited_by_its_name() -> None:
    model = scripted(calls(memory("view", "/memories"), memory("view", "/memories")), says("ok"))
    agent = Agent(llm=model).with_memory_tool(InProcessFiles())
    agent.with_usage_limits(UsageLimits(tool_limits={"memory": 1}))
    assert [item.is_error for item in of_type(run(agent), "tool_finished")] == [False, True]


def test_a_subagent_has_notes_of_its_own() -> None:
    files = InProcessFiles()
    helper = Agent(llm=scripted(calls(memory("create", file_text="1")), says("kept"))).with_memory_tool(files)
    model = scripted(calls(call("helper", {"task": "keep 1"})), says("done"))
    run(Agent(llm=model).with_tools([helper.as_tool("helper", "Keeps notes.")]))
    assert files.files() == {"n": b"1"}


@tool(name="memory")
def other() -> str:
    """Not ours."""
    return "other"


def test_a_tool_of_the_same_name_is_refused_in_either_order() -> None:
    with pytest.raises(ToolNameCollision, match=r"'memory' is the tool of with_memory_tool"):
        Agent(llm=scripted()).with_tools([other]).with_memory_tool(InProcessFiles())
    with pytest.raises(ToolNameCollision, match=r"'memory' is the tool of with_memory_tool"):
        Agent(llm=scripted()).with_memory_tool(InProcessFiles()).with_tools([other])


def test_the_last_place_counts_and_the_tool_is_found_by_its_name() -> None:
    first, second = InProcessFiles(), InProcessFiles()
    model = scripted(calls(memory("create", file_text="1")), says("ok"))
    agent = Agent(llm=model).with_memory_tool(first).with_memory_tool(second)
    run(agent)
    assert (first.files(), second.files()) == ({}, {"n": b"1"})
    found = agent.tool_called("memory")
    assert found is not None
    assert not found.read_only
    assert Agent(llm=scripted()).tool_called("memory") is None


@pytest.mark.parametrize("files", [None, 7, "", object(), [], {"n": "1"}])
def test_what_can_hold_no_files_is_refused(files: Any) -> None:
    with pytest.raises(ConfigError, match=r"InProcessFiles"):
        Agent(llm=scripted()).with_memory_tool(files)


@pytest.mark.parametrize("limits", [{"max_files": 0}, {"max_bytes": -1}, {"max_depth": True}, {"max_file_bytes": 1.5}])
def test_limits_that_mean_nothing_are_refused(limits: Any) -> None:
    with pytest.raises(ConfigError, match="whole number above 0"):
        MemoryFileLimits(**limits)


def test_a_folder_that_cannot_be_used_is_refused_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("1")
    with pytest.raises(ConfigError, match="cannot be the folder"):
        Agent(llm=scripted()).with_memory_tool(tmp_path / "file")


def test_the_source_works_without_an_agent(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        model = scripted(calls(memory("create", file_text="1")), says("ok"))
        context = ContextManager(sources=[memory_tool_source(FolderFiles(tmp_path / "m"))])
        return [part async for part in run_agent(client=model, prompt="keep 1", context=context)]

    import asyncio

    asyncio.run(main())
    assert (tmp_path / "m" / "n").read_text() == "1"
