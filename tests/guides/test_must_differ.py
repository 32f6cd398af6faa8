"""Faults of a peer that must not be ours: each test has the number of its fault and asserts what is right."""

import asyncio
import enum
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field, field_validator

from sapwood import (
    Agent,
    AuthenticationError,
    BaseLLMProvider,
    LLMError,
    Message,
    ModelNotFoundError,
    RateLimitError,
    ServerError,
    create_memory_store,
    create_provider,
    lazy_toolset,
    memory_source,
    tool,
)
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk
from sapwood.core.names import wire_name
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicCodec, AnthropicProvider
from sapwood.llm.anthropic.decode import AnthropicDecoder
from sapwood.llm.failures import error_of
from sapwood.llm.openai import ChatCodec
from sapwood.llm.retry import RetryPolicy, retry_delay
from sapwood.testing import call, calls, fails, says, scripted
from support.replay_server import Faults, ReplayServer
from support.turns import bound, finishes, spec, turn

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
PROFILE = ModelProfile(provider="p", model="m")


def run(agent: Agent, runtime: str = "blocking", prompt: str = "go") -> list[Any]:
    async def main() -> list[Any]:
        return [event async for event in agent.astream(prompt)]

    return list(agent.stream(prompt)) if runtime == "blocking" else asyncio.run(main())


@RUNTIMES
def test_b1_malformed_arguments_never_run_the_tool(runtime: str) -> None:
    wiped: list[str] = []

    @tool
    def wipe(path: str = "/") -> str:
        """Wipe."""
        wiped.append(path)
        return f"wiped {path}"

    for raw in ('{"path":"/data/x', "[1]"):
        events = run(Agent(llm=scripted(calls(call("wipe", raw=raw)), says("ok"))).with_tools([wipe]), runtime)
        message = next(event.message for event in events if event.type == "message_added")
        assert finishes(events)[0].is_error
        assert message.tool_calls[0].raw == raw
    assert wiped == []


@RUNTIMES
@pytest.mark.parametrize(
    ("value", "text"), [(None, None), (5, "5"), (True, "true"), ({"a": [1]}, '{"a":[1]}'), ([], "[]")]
)
def test_b2_any_result_is_a_result_on_both_paths(runtime: str, value: Any, text: str | None) -> None:
    events = turn(spec(scripted(calls("give"), says("ok")), [bound("give", lambda: value)]), runtime=runtime)
    (finish,) = finishes(events)
    assert not finish.is_error
    assert finish.result.strip()
    if text is not None:
        assert finish.result == text
    generator = turn(
        spec(scripted(calls("g"), says("ok")), [bound("g", lambda: (n for n in range(3)))]), runtime=runtime
    )
    assert finishes(generator)[0].is_error


@RUNTIMES
def test_b3_a_list_valued_type_in_a_schema_is_understood(runtime: str) -> None:
    from sapwood import AgentTool

    schema = {"type": "object", "properties": {"x": {"type": ["string", "null"]}}, "required": ["x"]}
    odd = AgentTool(name="odd", description="Odd.", input_schema=schema, fn=lambda x: f"got {x}")
    model = scripted(calls(call("odd", {"x": None}), call("odd", {"x": 5})), says("ok"))
    first, second = finishes(run(Agent(llm=model).with_tools([odd]), runtime))
    assert (first.result, first.is_error) == ("got None", False)
    assert second.is_error


@RUNTIMES
def test_b4_the_function_gets_the_validated_values(runtime: str) -> None:
    seen: list[Any] = []

    class Level(enum.Enum):
        LOW = 1

    @tool
    def take(n: int, level: Level, flag: bool = False) -> str:
        """Take."""
        seen.extend((n, level, flag))
        return "ok"

    run(
        Agent(llm=scripted(calls(call("take", {"n": "5", "level": 1, "flag": "yes"})), says("ok"))).with_tools([take]),
        runtime,
    )
    assert seen == [5, Level.LOW, True]


@RUNTIMES
def test_b9_text_that_looks_like_a_special_token_is_text(runtime: str) -> None:
    special = "<|endoftext|>"

    @tool
    def read() -> str:
        """Read."""
        return special

    store = create_memory_store()
    store.save(f"the user likes {special}")
    model = scripted(calls("read"), says(special))
    agent = Agent(llm=model).with_system_prompt(special).with_tools([read]).with_sources([memory_source(store)])
    events = run(agent, runtime, f"what do I like? {special}")
    assert events[-1].text == special
    sent = model.requests[-1]
    assert (sent.system, finishes(events)[0].result) == ((special,), special)
    assert sent.transcript[0].text.endswith(special)
    assert special in sent.transcript[0].content[0].text  # type: ignore[union-attr]


def test_b11_schemas_keep_definitions_and_constraints() -> None:
    class Level(enum.Enum):
        LOW = 1

    @tool
    def rate(stars: Annotated[int, Field(ge=1, le=5, description="how many")], level: Level) -> str:
        """Rate."""
        return "ok"

    properties = rate.input_schema["properties"]
    assert (properties["stars"]["minimum"], properties["stars"]["maximum"], properties["stars"]["description"]) == (
        1,
        5,
        "how many",
    )
    assert str(rate.input_schema).count("#/$defs/") <= len(rate.input_schema.get("$defs", {}))
    assert not rate.validate_input({"stars": 9, "level": 1})[0]


def test_b14_a_cut_connection_is_no_answer() -> None:
    decoder = AnthropicCodec().decoder(PROFILE)
    decoder.feed(b"message_start", b'{"type":"message_start","message":{"id":"m","usage":{"input_tokens":1}}}')
    decoder.feed(
        b"content_block_start", b'{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}'
    )
    decoder.feed(
        b"content_block_delta", b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half"}}'
    )
    with pytest.raises(ServerError) as caught:
        decoder.finish()
    assert caught.value.is_transient


@RUNTIMES
def test_b15_calls_are_run_whatever_the_stop_reason(runtime: str) -> None:
    events = turn(
        spec(scripted(calls("ping", stop_reason="stop"), says("ok")), [bound("ping", lambda: "pong")]), runtime=runtime
    )
    assert [finish.result for finish in finishes(events)] == ["pong"]


def test_b16_two_calls_that_share_an_index_stay_two() -> None:
    decoder = ChatCodec().decoder(PROFILE)
    for id, arguments in (("a", '{\\"p\\":1}'), ("b", '{\\"p\\":2}')):
        made = f'{{"index":0,"id":"{id}","function":{{"name":"read","arguments":"{arguments}"}}}}'
        decoder.feed(b"", f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{made}]}}}}]}}'.encode())
    decoder.feed(b"", b'{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}')
    found = [(part.id, part.arguments) for part in decoder.finish().content if part.type == "tool_call"]
    assert found == [("a", {"p": 1}), ("b", {"p": 2})]


def test_b18_an_async_turn_is_over_when_aclose_returns() -> None:
    model = scripted(says("a b c d"))
    agent = Agent(llm=model)

    async def main() -> None:
        for open_turn in (agent.achat("go"),):
            await anext(open_turn)
            await open_turn.aclose()
            assert model.streams[0].closed
            assert agent.last_turn is not None
            assert agent.last_messages[-1].text == "a"

    asyncio.run(main())


def test_b19_a_pattern_of_the_models_is_words_and_never_run() -> None:
    lazy = lazy_toolset([{"name": "x", "description": "a" * 28 + "!"}])
    began = time.process_time()
    assert lazy.search("(a+)+$") == []
    assert time.process_time() - began < 1


def test_b30_plain_read_only_tools_overlap_and_limits_hold_for_them() -> None:
    tools = [
        bound("nap", lambda: time.sleep(0.1), read_only=True),
        bound("long", lambda: time.sleep(1), timeout_seconds=0.05),
    ]
    began = time.monotonic()
    events = turn(spec(scripted(calls(*["nap"] * 5), calls("long"), says("ok")), tools), runtime="asyncio")
    assert time.monotonic() - began < 0.9
    assert [finish.is_error for finish in finishes(events)] == [False] * 5 + [True]


def test_b33_no_tokenizer_is_needed_and_none_is_downloaded() -> None:
    code = "import sys; from sapwood import Agent; from sapwood.testing import says, scripted\nprint(''.join(Agent(llm=scripted(says('ok'))).chat('hi')), 'tiktoken' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ok", "False"]


def test_b40_the_decorator_takes_what_python_takes_and_leaves_it_callable() -> None:
    from functools import partial
    from typing import TypedDict

    class Point(TypedDict):
        x: int

    @tool
    def move(to: Point, _fast: bool = False, model_config: str = "", *, steps: int | None = None) -> str:
        """Move."""
        return f"{to['x']} {_fast} {model_config} {steps}"

    assert set(move.input_schema["properties"]) == {"to", "_fast", "model_config", "steps"}
    assert move({"x": 1}) == "1 False  None"
    assert tool(partial(move.fn, steps=3)).name == "move"
    for options in ({"timeout": 1.0}, {"defer_loading": True}, {"input_examples": [{"to": {"x": 1}}]}):
        assert tool(**options)(move.fn).name == "move"  # type: ignore[call-overload]


def test_b41_one_protocol_takes_plain_and_async_streams() -> None:
    class Plain:
        profile = PROFILE

        def stream(self, request: ModelRequest) -> Any:
            yield TextChunk("hi")
            yield Reply((says("hi").chunks().__next__() and _text("hi"),))

    class Async:
        profile = PROFILE

        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
            yield TextChunk("hi")
            yield Reply((_text("hi"),))

    class Returns:  # a coroutine that returns a stream
        profile = PROFILE

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def stream(self, request: ModelRequest) -> Any:
            return self.inner.stream(request)

    for model in (Plain(), Async(), Returns(Plain()), Returns(Async())):
        for runtime in ("blocking", "asyncio"):
            assert run(Agent(llm=model), runtime)[-1].text == "hi"  # type: ignore[arg-type]
    assert BaseLLMProvider is not None


def test_b23_retries_are_one_layer_that_reads_the_header() -> None:
    from pathlib import Path

    wire = Path(__file__).parents[1] / "llm" / "wire" / "anthropic-messages-text-stream.json"
    faults = Faults(fail_first=99, fail_status=[429], retry_after="0.01")
    with ReplayServer(wire, faults=faults) as server:
        agent = Agent(llm=AnthropicProvider("some", base_url=server.url))
        with pytest.raises(RateLimitError) as caught:
            list(agent.chat("hi"))
        assert len(server.requests) == 3
    assert caught.value.retry_after_seconds == 0.01
    error = ServerError("down")
    assert retry_delay(error, 0, 0.0) != retry_delay(error, 0, 1.0)  # jitter
    late = RetryPolicy(deadline_seconds=1.0)
    assert retry_delay(error, 0, 0.0, policy=late, elapsed_seconds=0.9) is None


@pytest.mark.parametrize(
    ("kind", "transient"),
    [("overloaded_error", True), ("api_error", True), ("rate_limit_error", True), ("invalid_request_error", False)],
)
def test_b24_an_error_event_is_what_it_says(kind: str, transient: bool) -> None:
    decoder = AnthropicDecoder(PROFILE)
    event = msgspec.json.encode({"type": "error", "error": {"type": kind, "message": "no"}})
    with pytest.raises(LLMError) as caught:
        decoder.feed(b"error", event)
    assert caught.value.is_transient == transient


def test_b24_statuses_keys_stop_reasons_and_raw_network_errors() -> None:
    assert all(error_of(b"{}", status=status).is_transient for status in (408, 409))
    with pytest.raises(AuthenticationError, match="ANTHROPIC_API_KEY"):
        list(Agent("anthropic/m", max_retries=0).chat("hi"))
    for reason, cause in (("refusal", "refusal"), ("context_window", "max_tokens"), ("content_filter", "refusal")):
        agent = Agent(llm=scripted(says("no", stop_reason=reason)))  # type: ignore[arg-type]
        list(agent.chat("hi"))
        assert agent.last_turn is not None
        assert agent.last_turn.stopped_by == cause
    assert retry_delay(ConnectionResetError(), 0, 0.0) == 0.5


def test_b25_a_fallback_answers_for_keys_models_and_networks_and_is_the_one_reported() -> None:
    for error in (AuthenticationError("bad"), ModelNotFoundError("gone"), ConnectionResetError("peer")):
        second = scripted(says("ok"), profile=ModelProfile("second", "m"))
        agent = Agent(llm=scripted(fails(error)), fallbacks=[second], max_retries=0)
        assert "".join(agent.chat("hi")) == "ok"
        assert agent.last_turn is not None
        assert agent.last_turn.rounds[0].model == agent.last_messages[-1].origin == "second/m"


def test_b25_an_empty_stream_is_no_answer() -> None:
    class Silent:
        profile = PROFILE

        def stream(self, request: ModelRequest) -> Any:
            return iter(())

    agent = Agent(llm=Silent(), fallbacks=[scripted(says("ok"))], max_retries=0)
    assert "".join(agent.chat("hi")) == "ok"


def test_b25_an_entry_has_a_key_and_options_of_its_own() -> None:
    entry = create_provider("openai/gpt-4o", api_key="own", temperature=0.5)
    agent = Agent("anthropic/m", api_key="first", fallbacks=[entry, "anthropic/n"])
    chain: Any = agent._llm()
    assert [provider._secret() for provider in chain.providers] == ["first", "own", "first"]


def test_b44_the_cap_has_the_name_that_the_model_wants() -> None:
    for name, field in (("openai-chat/o3", "max_completion_tokens"), ("groq/m", "max_tokens")):
        provider: Any = create_provider(name, api_key="k", max_tokens=50)
        sent = msgspec.json.decode(provider._call(ModelRequest(Transcript.of([Message.user("hi")]))).body)
        assert sent[field] == 50
        assert len({"max_tokens", "max_completion_tokens"} & set(sent)) == 1


def _text(text: str) -> Any:
    from sapwood import Text

    return Text(text)


def test_b42_importing_costs_next_to_nothing() -> None:
    code = "import sys; before = len(sys.modules); import sapwood; print(len(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 5


@pytest.mark.parametrize("name", ["notes.list", "with blanks", "naïve名", "n" * 200])
def test_b46_names_are_made_valid_for_the_wire(name: str) -> None:
    import re

    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire_name(name))
    events = turn(spec(scripted(calls(wire_name(name)), says("ok")), [bound(name, lambda: "ran")]))
    assert [(finish.name, finish.result) for finish in finishes(events)] == [(name, "ran")]


class _Kept(BaseModel):
    token: SecretStr
    user: str = Field(alias="User")
    hidden: int = Field(default=0, exclude=True)


class _Doubled(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def double(cls, n: int) -> int:
        return n * 2


class _Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n: int

    @computed_field
    def square(self) -> int:
        return self.n**2


class _Endless(BaseModel):
    share: float


_B6: list[tuple[type[BaseModel], dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    (
        _Kept,
        {"token": "s3cret", "User": "ada", "hidden": 7},
        {"user": "ada", "hidden": 7},
        {"token": "*" * 10, "User": "ada"},
    ),
    (_Doubled, {"n": 3}, {"n": 6}, {"n": 6}),
    (_Computed, {"n": 3}, {"n": 3, "square": 9}, {"n": 3, "square": 9}),
    (_Endless, {"share": "Infinity"}, {"share": float("inf")}, {"share": None}),
]


@RUNTIMES
@pytest.mark.parametrize(("kind", "said", "fields", "shown"), _B6)
def test_b6_the_output_is_the_instance_that_was_validated_and_dumped_once_for_display(
    runtime: str, kind: Any, said: dict[str, Any], fields: dict[str, Any], shown: dict[str, Any]
) -> None:
    # Six examples: a secret, an alias and an excluded field; a validator that doubles; a computed field; infinity.
    agent = Agent(llm=scripted(calls(call("final_result", said)))).with_output_model(kind)
    found = agent.run("go") if runtime == "blocking" else asyncio.run(agent.arun("go"))
    assert type(found) is kind
    assert {name: getattr(found, name) for name in fields} == fields
    if kind is _Kept:
        assert found.token.get_secret_value() == "s3cret"
    assert msgspec.json.decode(agent.last_output or "") == shown


def test_b17_two_turns_on_one_agent_return_their_own_outputs() -> None:
    store = create_memory_store()

    async def main() -> list[Any]:
        def answer(request: ModelRequest) -> Any:
            return calls(call("final_result", {"value": request.transcript[0].text}))

        agent = Agent(llm=scripted(*[answer] * 10)).with_sources(
            [memory_source(store, remember=lambda turn: [turn.text])]
        )
        agent = agent.with_output_model(str)
        return await asyncio.gather(*(agent.arun(name) for name in "ABCDEFGHIJ"))

    assert asyncio.run(main()) == list("ABCDEFGHIJ")


@RUNTIMES
def test_b45_a_prompted_retry_keeps_the_task_and_the_schema_is_there_for_every_call(runtime: str) -> None:
    model = scripted(says("It is three."), says('{"n": 3}'))
    agent = Agent(llm=model).with_output_model(
        {"type": "object", "properties": {"n": {"type": "integer"}}}, mode="prompted"
    )
    text = "".join(event.text for event in run(agent, runtime, "How many?") if event.type == "text_delta")
    assert text == 'It is three.{"n": 3}'
    first, second = model.requests
    assert "<output_schema>" in first.system[0]
    assert second.system == first.system
    said = [message.text for message in second.transcript]
    assert said[:2] == ["How many?", "It is three."]
    assert agent.last_output == '{"n":3}'
