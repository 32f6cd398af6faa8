"""Any history becomes a request that a strict provider takes, and growing it never rewrites what was sent."""

import json
import threading
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.model import ModelProfile, ModelRequest
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic.encode import encode_body as encode_messages
from sapwood.llm.openai.chat_encode import encode_body as encode_chat
from sapwood.llm.openai.responses_encode import encode_body as encode_responses
from sapwood.llm.options import ModelOptions
from sapwood.testing.strict import check_anthropic_body, check_chat_body, check_responses_body
from support.examples import examples

CLAUDE = ModelProfile("anthropic", "some", cache_marks=True)
CHAT = ModelProfile("openai", "some")

words = st.sampled_from(["", " ", "\n\n", "hi", "雪🦊", "Answer: \n", '"quoted\\', "\ud83d"])
ids = st.sampled_from(["", "call_0", "fn.plan:0", "c1|x2", "x" * 90, "toolu_1", "a-b"])
beside = [None, None, {"openai": {"phase": "commentary"}}, {"openai": {"refusal": True}}]
beside += [{"openai": {"continues": True, "annotations": [{"type": "url_citation", "url": "u"}]}}]
texts = st.builds(Text, words, st.sampled_from(beside))
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [], "status": "completed"}
SEALED = {**REASONING, "encrypted_content": "gAAA"}
RAW = {**REASONING, "content": [{"type": "reasoning_text", "text": "so"}]}
thinking = st.builds(
    Thinking,
    words,
    st.sampled_from(
        [None, {"anthropic": {"signature": "s"}}, *({"openai": own} for own in ({"signature": "s"}, SEALED, RAW))]
    ),
)
calls = st.builds(
    ToolCall,
    st.sampled_from(["read", "notes.list"]),
    st.sampled_from([{}, {"a": 1}]),
    st.sampled_from(["", "r0c0", "r0c1", "r1c0"]),
    ids,
    problem=st.sampled_from([None, "malformed"]),
)
search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_c", "name": "sql", "input": "SELECT"}
opaque = st.sampled_from(
    [
        Opaque("server_tool_use", {"anthropic": {"type": "server_tool_use", "id": "srv", "input": {}}}),
        Opaque("web_search_call", {"openai": search}, "searched"),
        Opaque("custom_tool_call", {"openai": custom}),
    ]
)
files = st.sampled_from([Image("aGk="), File("aGk="), File("aGk=", "text/plain")])
user = st.lists(st.one_of(texts, files, words.map(Recalled), words.map(Summary)), min_size=1, max_size=3)
assistant = st.lists(st.one_of(texts, thinking, calls, opaque), max_size=4)
results = st.lists(
    st.builds(
        ToolResult,
        st.sampled_from(["", "r0c0", "r0c1", "r1c0", "call_0"]),
        st.just("read"),
        st.tuples(st.one_of(texts, files)),
        st.booleans(),
    ),
    max_size=3,
)
origins = st.sampled_from([None, "anthropic/some", "anthropic/other", "openai/some"])
messages = st.one_of(
    user.map(lambda parts: Message("user", tuple(parts))),
    st.builds(lambda parts, origin: Message("assistant", tuple(parts), origin), assistant, origins),
    results.map(lambda parts: Message("tool", tuple(parts))),
)


def claude(transcript: Transcript, notice: str | None = None) -> dict[str, Any]:
    request = ModelRequest(transcript, ("be brief", " "), notice=notice)
    body: dict[str, Any] = json.loads(encode_messages(request, CLAUDE, ModelOptions()))
    return body


def chat(transcript: Transcript, notice: str | None = None) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(encode_chat(ModelRequest(transcript, notice=notice), CHAT, ModelOptions()))
    return body


SENT_RAW = {key: value for key, value in RAW.items() if key != "status"}


def responses(transcript: Transcript, notice: str | None = None) -> dict[str, Any]:
    request = ModelRequest(transcript, (" ",), notice=notice)
    body: dict[str, Any] = json.loads(encode_responses(request, CHAT, ModelOptions()))
    return body


@examples(300)
@given(st.lists(messages, max_size=8), st.sampled_from([None, "last round"]))
def test_any_history_is_taken_by_a_strict_provider(history: list[Message], notice: str | None) -> None:
    transcript = Transcript.of(history)

    body = claude(transcript, notice)
    check_anthropic_body(body)
    check_chat_body(chat(transcript, notice))
    answer = responses(transcript, notice)
    if answer["input"]:  # a history that shows nothing is refused by all
        check_responses_body(answer)
    for item in answer["input"]:
        if item["type"] == "reasoning":  # only to the model that made it, as it was
            assert item in ({"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}, SENT_RAW)
            assert any(message.origin == CHAT.origin for message in history)
    assert json.dumps(body).count("cache_control") <= 3  # four are allowed
    signed = [p for m in history for p in m.content if isinstance(p, Thinking) and m.origin == CLAUDE.origin]
    texts = {part.text.encode("utf-8", "replace").decode() for part in signed}
    for message in body["messages"]:
        for block in message["content"]:
            if block["type"] == "thinking":  # V7: as it was, or not at all
                assert block["thinking"] in texts


def unmarked(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of all messages with their role, without marks."""
    flat: list[dict[str, Any]] = []
    for message in body["messages"]:
        content = message["content"]
        for block in content if isinstance(content, list) else [{"text": content}]:
            flat.append({"role": message["role"], **{k: v for k, v in block.items() if k != "cache_control"}})
    return flat


@examples(200)
@given(st.lists(messages, max_size=8), st.data())
def test_what_is_kept_is_what_encoding_anew_gives(history: list[Message], data: st.DataObject) -> None:
    whole = Transcript.of(history)
    branch = Transcript()
    seen: list[tuple[Transcript, bytes, bytes, bytes]] = []
    for message in whole:
        branch = branch.extend([message])
        if data.draw(st.booleans()):
            request = ModelRequest(branch)
            seen.append(
                (
                    branch,
                    encode_messages(request, CLAUDE, ModelOptions()),
                    encode_chat(request, CHAT, ModelOptions()),
                    encode_responses(request, CHAT, ModelOptions()),
                )
            )

    for transcript, first, second, third in seen:  # the shorter ones again, after more was kept
        fresh = ModelRequest(Transcript().extend(list(transcript)))
        again = ModelRequest(transcript)
        assert encode_messages(fresh, CLAUDE, ModelOptions()) == first
        assert encode_messages(again, CLAUDE, ModelOptions()) == first
        assert encode_chat(fresh, CHAT, ModelOptions()) == second
        assert encode_chat(again, CHAT, ModelOptions()) == second
        assert encode_responses(fresh, CHAT, ModelOptions()) == third
        assert encode_responses(again, CHAT, ModelOptions()) == third


def conversation(turns: int) -> list[Message]:
    history: list[Message] = []
    for turn in range(turns):
        key = f"r{turn}c0"
        history += [
            Message.user(f"question {turn}"),
            Message("assistant", (Text("let me see"), ToolCall("read", {"n": turn}, key, "call_0")), CLAUDE.origin),
            Message("tool", (ToolResult(key, "read", (Text("found"),)),)),
            Message("assistant", (Text("done"),), CLAUDE.origin),
        ]
    return history


def test_a_longer_request_starts_with_the_shorter_one() -> None:
    history = conversation(6)
    blocks: list[dict[str, Any]] = []
    items: list[dict[str, Any]] = []
    branch = Transcript()

    for message in history:
        branch = branch.extend([message])
        if message.role == "assistant" and message.tool_calls:
            continue  # no request is made before its calls are answered
        found, more = unmarked(claude(branch)), responses(branch)["input"]
        assert found[: len(blocks)] == blocks
        assert more[: len(items)] == items
        blocks, items = found, more


def test_each_message_is_encoded_once() -> None:
    encoded: list[int] = []

    from sapwood.llm.encoded import EncodedHistory, Fragment, Shape

    shape = Shape(b"[", b",", b"]")

    def encode(message: Message, ids: object, ends: bool) -> Fragment:
        encoded.append(len(message.text))
        return Fragment(shape, b"x")

    history = EncodedHistory(encode)
    branch = Transcript()
    for number in range(50):
        branch = branch.extend([Message.user("x" * number)])
        history.pieces(branch)
    assert encoded == list(range(50))


def test_two_threads_may_fill_one_history() -> None:
    for _ in range(20):
        branch = Transcript.of(conversation(30))
        expected = encode_messages(ModelRequest(Transcript.of(conversation(30))), CLAUDE, ModelOptions())
        found: list[bytes] = []
        barrier = threading.Barrier(4)

        def work(branch: Transcript = branch, found: list[bytes] = found, barrier: Any = barrier) -> None:
            barrier.wait()
            found.append(encode_messages(ModelRequest(branch), CLAUDE, ModelOptions()))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [expected] * 4


def parts_of(body: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for message in body["messages"] for block in message["content"] if block["type"] == kind]


def test_marks_end_the_system_text_and_the_last_message() -> None:
    marked: Part = Thinking("so", {"anthropic": {"signature": "s"}})
    body = claude(Transcript.of([Message.user("hi"), Message("assistant", (Text("a"), marked), CLAUDE.origin)]))

    mark = {"type": "ephemeral"}
    assert body["system"] == [{"type": "text", "text": "be brief", "cache_control": mark}]
    assert parts_of(body, "text") == [
        {"type": "text", "text": "hi"},
        {"type": "text", "text": "a", "cache_control": mark},
    ]
    assert parts_of(body, "thinking") == [{"type": "thinking", "thinking": "so", "signature": "s"}]


def test_a_round_of_many_calls_leaves_a_mark_where_the_last_request_ended() -> None:
    calls = tuple(ToolCall("read", {"n": number}, f"r0c{number}", f"t{number}") for number in range(12))
    answers = tuple(ToolResult(f"r0c{number}", "read", (Text("ok"),)) for number in range(12))
    body = claude(Transcript.of([Message.user("hi"), Message("assistant", calls), Message("tool", answers)]))

    marks = [["cache_control" in block for block in message["content"]] for message in body["messages"]]
    assert marks == [[True], [False] * 11 + [True], [False] * 11 + [True]]


def test_the_notice_is_a_last_word_and_not_kept() -> None:
    transcript = Transcript.of(conversation(1)[:3])

    noticed, plain = claude(transcript, "this is the last round"), claude(transcript)
    assert noticed["messages"][-1]["content"][-1] == {"type": "text", "text": "this is the last round"}
    assert [block["type"] for block in noticed["messages"][-1]["content"]] == ["tool_result", "text"]
    assert noticed["messages"][-1]["content"][:-1] == plain["messages"][-1]["content"]
    assert chat(transcript, "last")["messages"][-1] == {"role": "user", "content": "last"}
    last = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "last"}]}
    assert responses(transcript, "last")["input"] == [*responses(transcript)["input"], last]
