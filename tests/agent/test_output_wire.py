"""An output over each protocol: what is asked for on the wire, and what comes back from recorded servers."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from sapwood import Agent, create_provider, tool
from sapwood.core.events import OutputDelta
from sapwood.core.model import LLMProvider
from sapwood.core.tools import FINAL_RESULT
from sapwood.llm.ollama import OllamaProvider
from sapwood.testing.strict import (
    check_anthropic_body,
    check_chat_body,
    check_gemini_body,
    check_ollama_body,
    check_responses_body,
)
from support.outputs import DISK, WRONG, Report, events_of, run_of, shown
from support.replay_server import ReplayServer
from support.wire_script import Script, provider_for

WIRE = Path(__file__).parents[1] / "llm" / "wire"
RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
CHECKS: dict[str, Any] = {
    "anthropic": check_anthropic_body,
    "chat": check_chat_body,
    "responses": check_responses_body,
    "gemini": check_gemini_body,
}
PROTOCOLS = pytest.mark.parametrize("protocol", list(CHECKS))


class CityLocation(BaseModel):
    """A city and its country."""

    city: str
    country: str


class Person(BaseModel):
    model_config = ConfigDict(title="Person")
    name: str
    age: int


class Dog(BaseModel):
    name: str
    age: int
    bio: str


@tool
def get_user_country() -> str:
    """Return the user's country."""
    return "Mexico"


def schema_of(protocol: str, body: dict[str, Any]) -> Any:
    """The schema of the answer in a request's body; None where there is none."""
    match protocol:
        case "anthropic":
            return body.get("output_config", {}).get("format", {}).get("schema")
        case "chat":
            return body.get("response_format", {}).get("json_schema", {}).get("schema")
        case "responses":
            return body.get("text", {}).get("format", {}).get("schema")
        case _:
            return body.get("generationConfig", {}).get("responseJsonSchema")


def tools_of(protocol: str, body: dict[str, Any]) -> list[str]:
    tools = body.get("tools", [])
    if protocol == "gemini":
        return [item["name"] for group in tools for item in group["functionDeclarations"]]
    return [item["function"]["name"] if "function" in item else item["name"] for item in tools]


def bodies_of(protocol: str, script: Script) -> list[dict[str, Any]]:
    bodies = [json.loads(body) for body in script.bodies]
    for body in bodies:
        CHECKS[protocol](body)
    return bodies


# -- what is asked for -------------------------------------------------------------------------------------------


@RUNTIMES
@PROTOCOLS
def test_tool_mode_over_each_protocol_with_a_retry_and_a_next_turn(protocol: str, runtime: str) -> None:
    script = Script(protocol, [[(FINAL_RESULT, WRONG)], "It is full.", [(FINAL_RESULT, DISK)], [(FINAL_RESULT, DISK)]])
    agent = Agent(llm=provider_for(protocol, script)).with_output_model(Report, max_output_retries=2)

    assert run_of(agent, runtime) == Report(summary="Disk full", severity=4)
    assert agent.run("and now?", messages=agent.last_messages).severity == 4

    bodies = bodies_of(protocol, script)
    assert len(bodies) == 4
    for body in bodies:
        assert tools_of(protocol, body) == [FINAL_RESULT]
        assert schema_of(protocol, body) is None
    demanded = {
        "anthropic": {"type": "any"},
        "chat": "required",
        "responses": "required",
        "gemini": {"functionCallingConfig": {"mode": "ANY"}},
    }
    assert bodies[0].get("tool_choice", bodies[0].get("toolConfig")) == demanded[protocol]


@RUNTIMES
@PROTOCOLS
@pytest.mark.parametrize("mode", ["native", "prompted"])
def test_text_modes_over_each_protocol_with_a_retry_and_a_next_turn(protocol: str, runtime: str, mode: Any) -> None:
    script = Script(protocol, [json.dumps(WRONG), "", json.dumps(DISK), json.dumps(DISK)])
    agent = Agent(llm=provider_for(protocol, script)).with_output_model(Report, mode=mode, max_output_retries=2)

    assert run_of(agent, runtime) == Report(summary="Disk full", severity=4)
    assert agent.run("and now?", messages=agent.last_messages).severity == 4

    for body in bodies_of(protocol, script):
        assert tools_of(protocol, body) == []
        schema = schema_of(protocol, body)
        assert (schema is not None) is (mode == "native")
        if schema is not None:
            assert schema["properties"].keys() == {"summary", "severity"}
        assert ("<output_schema>" in json.dumps(body)) is (mode == "prompted")


@PROTOCOLS
def test_the_last_round_names_the_tool_where_the_protocol_can(protocol: str) -> None:
    script = Script(protocol, [[(FINAL_RESULT, DISK)]])
    assert Agent(llm=provider_for(protocol, script), max_rounds=1).with_output_model(Report).run("go").severity == 4
    (body,) = bodies_of(protocol, script)
    assert (
        body.get("tool_choice", body.get("toolConfig"))
        == {
            "anthropic": {"type": "tool", "name": FINAL_RESULT},
            "chat": {"type": "function", "function": {"name": FINAL_RESULT}},
            "responses": {"type": "function", "name": FINAL_RESULT},
            "gemini": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [FINAL_RESULT]}},
        }[protocol]
    )


def test_a_model_that_thinks_on_a_budget_is_asked_in_words() -> None:
    script = Script("anthropic", ["Let me see.", [(FINAL_RESULT, DISK)]])
    agent = Agent(llm=provider_for("anthropic", script, thinking=2_000)).with_output_model(Report)
    assert agent.run("go").severity == 4
    for body in bodies_of("anthropic", script):
        assert body.get("tool_choice") in (None, {"type": "auto"})
        assert FINAL_RESULT in json.dumps(body["system"])


@pytest.mark.parametrize("mode", ["tool", "native", "prompted"])
def test_ollama_is_asked_in_its_own_way(mode: Any) -> None:
    provider = OllamaProvider("qwen3", transport=_Ollama(mode))  # type: ignore[arg-type]
    agent = Agent(llm=provider).with_output_model(Report, mode=mode)
    assert agent.run("go").severity == 4
    body = json.loads(provider_bodies(provider)[0])
    check_ollama_body(body)
    assert ("format" in body, "tools" in body) == {"tool": (False, True), "native": (True, False)}.get(
        mode, (False, False)
    )


class _Ollama:
    def __init__(self, mode: str) -> None:
        self.bodies: list[bytes] = []
        call = {"function": {"name": FINAL_RESULT, "arguments": DISK}}
        said = {"content": "", "tool_calls": [call]} if mode == "tool" else {"content": json.dumps(DISK)}
        self.lines = [
            {"model": "qwen3", "message": {"role": "assistant", **said}, "done": False},
            {"model": "qwen3", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
        ]

    def send(self, call: Any) -> Any:
        from support.wire_script import Played

        self.bodies.append(call.body)
        played = Played([json.dumps(line).encode() + b"\n" for line in self.lines])
        played.headers = {"content-type": "application/x-ndjson"}
        return played


def provider_bodies(provider: Any) -> list[bytes]:
    found: list[bytes] = provider._transport.bodies
    return found


# -- what comes back ---------------------------------------------------------------------------------------------


def recorded(name: str, number: int = 0) -> dict[str, Any]:
    document = json.loads((WIRE / f"{name}.json").read_text("utf-8"))
    found: dict[str, Any] = document["exchanges"][number]["request"]["body"]
    return found


def without_titles(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: without_titles(item) for key, item in schema.items() if key != "title"}
    return schema


def asked(name: str, protocol: str, provider: LLMProvider, server: ReplayServer, agent: Agent) -> Any:
    """Run the agent against the recording; its request must ask for the answer as the recorded one did."""
    value = agent.run("go")
    bodies = [
        json.loads(request["body"]) if isinstance(request["body"], str) else request["body"]
        for request in server.requests
    ]
    for number, body in enumerate(bodies):
        CHECKS[protocol](body)
        ours = schema_of(protocol, body)
        theirs = without_titles(schema_of(protocol, recorded(name, number)))
        assert ours["properties"] == theirs["properties"]
        assert ours["required"] == theirs["required"]
    return value


JOHN = {"name": "John", "age": 30}
MEXICO = {"city": "Mexico City", "country": "Mexico"}


@pytest.mark.parametrize(
    ("name", "protocol", "model", "given", "expected"),
    [
        ("anthropic-messages-structured", "anthropic", "anthropic/claude-haiku-4-5", Person, JOHN),
        ("anthropic-messages-structured-stream", "anthropic", "anthropic/claude-sonnet-4-5", Dog, {"name": "Luna"}),
        ("openai-responses-structured", "responses", "openai-responses/gpt-5-nano", Person, JOHN),
        ("openai-chat-structured-tools", "chat", "openai/gpt-4o", CityLocation, MEXICO),
        ("google-structured-tools-stream", "gemini", "gemini/gemini-3-flash-preview", CityLocation, MEXICO),
    ],
)
def test_native_outputs_of_recorded_servers(name: str, protocol: str, model: str, given: Any, expected: Any) -> None:
    with ReplayServer(WIRE / f"{name}.json") as server:
        provider = create_provider(model, api_key="k", base_url=server.url)
        agent = Agent(llm=provider)
        if "tools" in name:
            agent = agent.with_tools([get_user_country])
        agent = agent.with_output_model(given, mode="native")
        value = asked(name, protocol, provider, server, agent)
    assert isinstance(value, given)
    assert value.model_dump() | expected == value.model_dump()


@RUNTIMES
@pytest.mark.parametrize("split", ["event", "random", "byte"])
def test_a_recorded_stream_shows_the_output_as_it_grows(runtime: str, split: str) -> None:
    from support.replay_server import Faults

    with ReplayServer(WIRE / "anthropic-messages-structured-stream.json", faults=Faults(split=split)) as server:
        provider = create_provider("anthropic/claude-sonnet-4-5", api_key="k", base_url=server.url)
        events = events_of(Agent(llm=provider).with_output_model(Dog, mode="native"), runtime)
    values = shown(events)
    final = values[-1]
    assert final["name"] == "Luna"
    assert len(values) > 4
    assert all(final["bio"].startswith(value.get("bio", "")) for value in values)
    assert all(value.get("name") in (None, "Luna") or "Luna".startswith(value["name"]) for value in values)
    assert not [event for event in events if isinstance(event, OutputDelta) and event.path]
