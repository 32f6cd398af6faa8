"""Cases RES, PAIR and MSG: odd results, orphans, and the shape of messages. Each test is named by its case."""

import asyncio
import dataclasses
import enum
import json
import uuid
from copy import deepcopy
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pydantic
import pytest

from sapwood import (
    Agent,
    Budget,
    ContextSource,
    HistoryOptions,
    Message,
    Selection,
    ToolError,
    create_context_manager,
    run_agent,
    tool,
)
from sapwood.core.messages import Recalled, Summary, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelProfile
from sapwood.testing import call, calls, says, scripted
from support.turns import bound, finishes, folded, spec, turn
from support.wire import chat_wire, wire

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


def result_of(value: Any, runtime: str = "blocking", **more: Any) -> Any:
    model = scripted(calls("give"), says("ok"))
    events = turn(spec(model, [bound("give", lambda: value)], **more), runtime=runtime)
    assert events[-1].text == "ok"  # type: ignore[union-attr]
    wire(model.requests[1])
    chat_wire(model.requests[1])
    return finishes(events)[0]


@RUNTIMES
def test_res_01_values_that_json_does_not_know(runtime: str) -> None:
    value = {
        "u": {1, 2},
        "t": datetime(2024, 5, 6, 7, 8),
        "d": Decimal("1.50"),
        "b": b"\xff\x00",
        "p": Path("x"),
        "i": uuid.UUID(int=5),
    }
    finish = result_of(value, runtime)
    assert not finish.is_error
    seen = json.loads(finish.result)
    assert sorted(seen["u"]) == [1, 2]
    assert seen["t"].startswith("2024-05-06T07:08")
    assert seen["d"] in ("1.50", 1.5)
    assert "1.50" in finish.result
    assert seen["i"] == str(uuid.UUID(int=5))
    assert seen["p"] == "x"
    assert seen["b"]


@RUNTIMES
def test_res_02_nan_and_infinity(runtime: str) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    finish = result_of({"score": float("nan"), "top": float("inf")}, runtime)
    assert json.loads(finish.result, parse_constant=refuse).keys() == {"score", "top"}
    json.dumps(finish.value, allow_nan=False)


@RUNTIMES
def test_res_03_nothing_to_return(runtime: str) -> None:
    texts = [result_of(value, runtime).result for value in (None, [], "", {})]
    assert all(text.strip() for text in texts)
    assert texts[0] != texts[1]


@RUNTIMES
def test_res_04_models_dataclasses_and_dictionaries_become_json(runtime: str) -> None:
    class Kind(enum.Enum):
        ONE = "one"

    class Model(pydantic.BaseModel):
        id: uuid.UUID
        at: datetime
        kind: Kind
        tags: set[str]

    @dataclasses.dataclass
    class Data:
        a: int
        kind: Kind

    model = Model(id=uuid.UUID(int=1), at=datetime(2024, 1, 2), kind=Kind.ONE, tags={"x"})
    assert json.loads(result_of(model, runtime).result) == {
        "id": str(uuid.UUID(int=1)),
        "at": "2024-01-02T00:00:00",
        "kind": "one",
        "tags": ["x"],
    }
    assert json.loads(result_of(Data(1, Kind.ONE), runtime).result) == {"a": 1, "kind": "one"}
    assert json.loads(result_of({"a": True, "b": None}, runtime).result) == {"a": True, "b": None}


@RUNTIMES
@pytest.mark.parametrize("expose", [False, True])
def test_res_05_error_text_is_safe(runtime: str, expose: bool, caplog: pytest.LogCaptureFixture) -> None:
    def disk() -> None:
        raise OSError("cannot open /srv/app/secrets/db.sqlite")

    def secret() -> None:
        raise RuntimeError("token=abc123")

    def known() -> None:
        raise ToolError("no such customer")

    model = scripted(calls("disk", "secret", "known"), says("ok"))
    tools = [bound("disk", disk), bound("secret", secret), bound("known", known)]
    events = turn(spec(model, tools, expose_errors=expose), runtime=runtime)
    texts = [finish.result for finish in finishes(events)]
    if not expose:
        assert texts[:2] == ["Internal error", "Internal error"]
    assert texts[2] == "no such customer"
    shown = json.dumps(wire(model.requests[1])) + repr(events)
    for forbidden in ("/srv/app", "abc123", "Traceback"):
        assert forbidden not in shown
    assert "db.sqlite" in caplog.text


@RUNTIMES
@pytest.mark.parametrize("as_error", [False, True])
def test_res_06_a_very_large_result_is_capped_with_a_note(runtime: str, as_error: bool) -> None:
    value = "ab🦊 " * 500_000

    def give() -> str:
        if as_error:
            raise ToolError(value)
        return value

    model = scripted(calls("give"), says("ok"))
    events = turn(spec(model, [bound("give", give)], tool_result_max_tokens=500), runtime=runtime)
    (finish,) = finishes(events)
    assert finish.is_error == as_error
    assert len(finish.result) < 10_000
    assert any(size in finish.result.replace(",", "") for size in (str(len(value)), str(len(value) // 1000)))
    assert "\ufffd" not in finish.result
    finish.result.encode()


HISTORY = [
    Message.user("first"),
    Message.assistant(ToolCall("t", {}, key="k1", id="c1")),
    Message("tool", (ToolResult("k1", "t", (Text("r1 " * 30),)),)),
    Message.assistant("thinking aloud", ToolCall("t", {}, key="k2", id="c2"), ToolCall("t", {}, key="k3", id="c3")),
    Message("tool", (ToolResult("k2", "t", (Text("r2 " * 30),)), ToolResult("k3", "t", (Text("r3 " * 30),)))),
    Message.assistant("answer"),
]


@pytest.mark.parametrize("window", range(20, 400, 7))
def test_pair_01_every_cut_gives_a_valid_history(window: int) -> None:
    model = scripted(says("ok"))
    given = spec(model, history=HISTORY, window=window)
    turn(given, "last")
    body = wire(model.requests[0])
    assert body["messages"][-1]["role"] == "user"
    assert "last" in json.dumps(body["messages"][-1])
    chat_wire(model.requests[0])


@pytest.mark.parametrize("keep", range(1, len(HISTORY) + 2))
def test_pair_01_every_cut_by_a_history_option_gives_a_valid_history(keep: int) -> None:
    context = create_context_manager(
        budget=Budget(10_000), history=HistoryOptions(compact=lambda messages, budget: messages[-keep:])
    )
    model = scripted(says("ok"))

    async def main() -> None:
        async for _ in run_agent(client=model, messages=HISTORY, prompt="last", context=context):
            pass

    asyncio.run(main())
    body = wire(model.requests[0])
    assert "last" in json.dumps(body["messages"][-1])


@RUNTIMES
def test_pair_02_resume_after_a_crash_between_call_and_result(runtime: str) -> None:
    ran: list[str] = []
    history = [
        Message.user("go"),
        Message.assistant(ToolCall("t", {}, key="k1", id="c1"), ToolCall("t", {}, key="k2", id="c2")),
        Message("tool", (ToolResult("k1", "t", (Text("done"),)),)),
    ]
    model = scripted(says("ok"))
    turn(spec(model, [bound("t", lambda: ran.append("t"))], history=history), "and now?", runtime=runtime)
    body = wire(model.requests[0])
    first, second = body["messages"][2]["content"][:2]
    assert (first["tool_use_id"], first.get("is_error", False)) == ("c1", False)
    assert (second["tool_use_id"], second["is_error"]) == ("c2", True)
    assert "nterrupted" in json.dumps(second)
    assert "and now?" in json.dumps(body["messages"][2]["content"][2:])
    assert ran == []


@RUNTIMES
def test_pair_03_no_compaction_in_the_middle_of_a_tool_round(runtime: str) -> None:
    model = scripted(calls("big", text="working " * 50), says("done"))
    history = [
        message for n in range(10) for message in (Message.user(f"q{n} " * 20), Message.assistant(f"a{n} " * 20))
    ]
    given = spec(model, [bound("big", lambda: "word " * 120)], history=history, window=470)
    events = turn(given, "go", runtime=runtime)
    kinds = [event.type for event in events]
    inside = False
    for kind in kinds:
        inside = kind == "round_started" or (inside and kind != "round_finished")
        assert not (inside and kind.startswith("compaction"))
    assert kinds.count("compaction_finished") >= 1
    for request in model.requests:
        wire(request)
    assert events[-1].text.endswith("done")  # type: ignore[union-attr]


def test_pair_04_the_summarising_request_is_given_a_valid_history() -> None:
    seen: list[list[Message]] = []

    async def summarise(messages: list[Message], budget: Budget) -> list[Message]:
        seen.append(messages)
        return [Message("user", (Summary("they talked about t"),)), messages[-1]]

    context = create_context_manager(budget=Budget(10_000), history=HistoryOptions(compact=summarise))
    model = scripted(says("ok"))

    async def main() -> None:
        async for _ in run_agent(client=model, messages=HISTORY, prompt="last", context=context):
            pass

    asyncio.run(main())
    assert len(seen) == 1
    request = model.requests[0]
    check = scripted(says("x"))
    turn(spec(check, history=seen[0][:-1]), "summarise")
    wire(check.requests[0])
    assert [part.type for message in request.transcript for part in message.content] == ["summary", "text"]
    wire(request)


@RUNTIMES
def test_msg_01_signed_thinking_is_sent_unchanged_or_not_at_all(runtime: str) -> None:
    signed = Thinking("deep é thoughts \n", {"anthropic": {"signature": "S=="}})
    origin = "anthropic/claude-haiku-4-5"
    reply = Message("assistant", (signed, Text("so"), ToolCall("t", {}, key="k1", id="c1")), origin)
    history = [Message.user("a"), reply, Message("tool", (ToolResult("k1", "t", (Text("r"),)),))]
    model = scripted(says("ok"), says("ok"))
    for window in (0, 60):
        turn(spec(model, history=history, window=window), "go on", runtime=runtime)
    for request in model.requests:
        for message in wire(request)["messages"]:
            for block in message["content"]:
                if block["type"] == "thinking":
                    assert block == {"type": "thinking", "thinking": "deep é thoughts \n", "signature": "S=="}
    kinds = [block["type"] for block in wire(model.requests[0])["messages"][1]["content"]]
    assert kinds == ["thinking", "text", "tool_use"]
    other = wire(model.requests[0], model="claude-opus-4-8")
    assert [block["type"] for block in other["messages"][1]["content"]] == ["text", "tool_use"]


@RUNTIMES
def test_msg_02_an_empty_reply_is_no_message(runtime: str) -> None:
    @tool
    def save() -> str:
        """Save."""
        return "saved"

    model = scripted(calls(call("save", {}, id="c1")), says(), says("second"))
    agent = Agent(llm=model).with_tools([save])

    async def achat(prompt: str, **more: Any) -> list[str]:
        return [text async for text in agent.achat(prompt, **more)]

    first = list(agent.chat("one")) if runtime == "blocking" else asyncio.run(achat("one"))
    assert first == []
    list(agent.chat("two", messages=agent.last_messages))
    body = wire(model.requests[-1])
    assert all(message["content"] for message in body["messages"])
    assert body["messages"][1]["content"][0]["id"] == "c1"
    assert body["messages"][2]["content"][0]["tool_use_id"] == "c1"


def test_msg_03_a_blank_text_block_next_to_a_call_is_left_out() -> None:
    model = scripted(calls(call("t", id="c1"), text="\n\n"), says("ok"))
    turn(spec(model, [bound("t", lambda: "r")]))
    assert [block["type"] for block in wire(model.requests[1])["messages"][1]["content"]] == ["tool_use"]


def test_msg_04_trailing_white_space_of_a_final_reply_is_kept_from_the_wire_only() -> None:
    from sapwood.core.model import ModelRequest
    from sapwood.core.transcript import Transcript

    stored = Message.assistant("Answer: \n")
    transcript = Transcript.of([Message.user("q"), stored])
    body = wire(ModelRequest(transcript))
    assert body["messages"][-1]["content"][-1]["text"] == "Answer:"
    assert transcript[-1] == stored


@pytest.mark.parametrize("before", ["assistant", "user", None])
@pytest.mark.parametrize("after", ["user", "assistant"])
def test_msg_05_the_neighbours_of_a_summary_alternate(before: str | None, after: str) -> None:
    summary = Message("user", (Summary("earlier: they met"),))
    first = [Message("assistant" if before == "assistant" else "user", (Text("before"),))] if before else []
    if before == "assistant":
        first = [Message.user("start"), *first]
    kept = [Message("assistant" if after == "assistant" else "user", (Text("kept"),))]
    model = scripted(says("ok"))
    turn(spec(model, history=[*first, summary, *kept]), "now")
    body = wire(model.requests[0])
    shown = json.dumps(body)
    for text in ("earlier: they met", "kept", "now", *(["before"] if before else [])):
        assert text in shown
    blocks = [block["text"] for message in body["messages"] for block in message["content"]]
    (summarised,) = [text for text in blocks if "earlier: they met" in text]
    assert summarised != "earlier: they met"


def test_msg_06_ids_of_another_provider_are_made_valid_and_stay_paired() -> None:
    ids = ["fn.plan:0", "c1|x2", "y" * 90]
    calls_made = tuple(ToolCall("t", {}, key=f"k{n}", id=id) for n, id in enumerate(ids))
    results = tuple(ToolResult(f"k{n}", "t", (Text(f"r{n}"),)) for n in range(3))
    history = [Message.user("a"), Message("assistant", calls_made), Message("tool", results)]
    model = scripted(says("ok"), says("ok"))
    given = spec(model, history=history)
    turn(given, "go")
    turn(given, "go")
    bodies = [wire(request) for request in model.requests]
    assert bodies[0] == bodies[1]
    used = [block["id"] for block in bodies[0]["messages"][1]["content"]]
    assert len(set(used)) == 3
    assert [block["tool_use_id"] for block in bodies[0]["messages"][2]["content"][:3]] == used
    assert [call.id for call in model.requests[0].transcript[1].tool_calls] == ids


@pytest.mark.parametrize("braces", ["{city}", "{{x}}", "${expr}", "{}", "{0}"])
def test_msg_07_braces_are_just_text(braces: str) -> None:
    class Fact(ContextSource):
        name = "fact"

        def select(self, turn: Any, room: int) -> Selection:
            return Selection(text=f"fact {braces}")

    model = scripted(says("ok"))
    agent = Agent(llm=model).with_system_prompt(f"system {braces}").with_sources([Fact()])
    agent.with_tools([{"name": "t", "description": f"tool {braces}"}])
    list(agent.chat(f"prompt {braces}"))
    request = model.requests[0]
    assert request.system == (f"system {braces}", f"fact {braces}")
    assert request.tools[0].description == f"tool {braces}"
    assert request.transcript[0].text == f"prompt {braces}"
    shown = json.dumps(wire(request))
    for text in ("system", "fact", "tool", "prompt"):
        assert f"{text} {braces}" in shown


@RUNTIMES
def test_msg_08_the_callers_objects_are_not_changed(runtime: str) -> None:
    def change(items: list[int]) -> str:
        items.append(99)
        return "changed"

    messages = [Message.user("a"), Message.assistant("b")]
    tools = [bound("change", change)]
    before = deepcopy(messages), list(tools)
    model = scripted(calls(call("change", {"items": [1]})), calls(call("change", {"items": [2]})), says("ok"))
    events = turn(spec(model, tools, history=messages), runtime=runtime)
    assert (messages, tools) == before
    recorded = [made.arguments for message in folded(events).messages for made in message.tool_calls]
    assert recorded == [{"items": [1]}, {"items": [2]}]
    assert wire(model.requests[2])["messages"][3]["content"][0]["input"] == {"items": [1]}


def test_a_block_beside_the_prompt_comes_before_it() -> None:
    class Fact(ContextSource):
        name = "fact"

        def select(self, turn: Any, room: int) -> Selection:
            return Selection(text="likes tea", placement="turn")

    model = scripted(says("ok"), profile=ModelProfile(provider="x", model="y"))
    turn(spec(model, sources=[Fact()]), "hello")
    assert model.requests[0].transcript[0].content == (Recalled("likes tea", "fact"), Text("hello"))
    wire(model.requests[0])
