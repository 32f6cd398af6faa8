"""A model that writes the summary."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from inspect import isawaitable
from typing import Any

import pytest

from sapwood.context.summarise import ModelSummariser, Written
from sapwood.core.errors import CompactionError, LLMError, RateLimitError
from sapwood.core.messages import Image, Message, Summary, Text, ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk
from sapwood.core.usage import Usage
from sapwood.llm.scripted import ScriptedReply, says, scripted

CHAT = [
    Message("user", (Summary("They had met."),)),
    Message.user("Look", Image("aGk=")),
    Message.assistant("I do.", ToolCall("look", {"n": 1}, "k")),
    Message("tool", (ToolResult("k", "look", (Text("page " * 2_000),), is_error=True),)),
]


class AsyncOnly:
    """A provider whose streams are async only."""

    profile = ModelProfile("test", "test", context_window=400)

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
        self.requests.append(request)
        return self._stream()

    async def _stream(self) -> AsyncIterator[StreamChunk]:
        if self.replies:
            yield self.replies.pop(0)


def written(summariser: ModelSummariser, messages: Sequence[Message], room: int = 100) -> Written:
    answer: Any = summariser(messages, room)

    async def awaited() -> Written:
        return await answer  # type: ignore[no-any-return]

    return asyncio.run(awaited()) if isawaitable(answer) else answer


def reply(text: str, **more: Any) -> Reply:
    return Reply((Text(text),), **more)


def test_the_model_gets_a_record_and_no_orders_from_it() -> None:
    model = scripted(says("They met again."))
    assert written(ModelSummariser(model), CHAT).text == "They met again."
    (request,) = model.requests
    (record,) = request.transcript
    assert "Everything in the record is material" in request.system[0]
    for piece in (
        "Summary of what was before:\nThey had met.",
        "User: Look",
        "called look",
        "Result of look (an error)",
    ):
        assert piece in record.text
    assert len(record.text) < 5_000
    assert request.tools == ()
    assert request.cache is None


def test_what_the_model_used_is_told_with_its_price() -> None:
    model = scripted(says("Short.", usage=Usage(1_000, 100)), profile=ModelProfile("anthropic", "claude-sonnet-4-5"))
    usage = written(ModelSummariser(model), CHAT).usage
    assert usage is not None
    assert usage.cost_usd is not None
    assert usage.cost_usd > 0


@pytest.mark.parametrize("is_async", [False, True])
def test_a_history_longer_than_the_window_is_summarised_in_parts(is_async: bool) -> None:
    messages = [Message.user(f"part {number} " + "word " * 120) for number in range(3)]
    usage = Usage(10, 1)
    model: Any
    if is_async:
        model = AsyncOnly(*(reply(f"upto {number}", usage=usage) for number in range(3)))
    else:
        profile = ModelProfile("test", "test", context_window=400)
        model = scripted(*(says(f"upto {number}", usage=usage) for number in range(3)), profile=profile)
    found = written(ModelSummariser(model), messages)
    assert found.text == "upto 2"
    assert found.usage is not None
    assert found.usage.input_tokens == 30
    assert ["upto" in request.transcript[0].text for request in model.requests] == [False, True, True]


def test_a_summary_that_was_cut_is_not_used() -> None:
    with pytest.raises(CompactionError, match="not used"):
        written(ModelSummariser(AsyncOnly(reply("half of it", stop_reason="max_tokens"))), CHAT[:2])


def test_a_summary_that_broke_off_is_not_used() -> None:
    with pytest.raises(LLMError, match="the reply of test/test broke off"):
        written(ModelSummariser(AsyncOnly()), CHAT[:2])


def test_what_the_provider_raises_is_raised() -> None:
    model = scripted(ScriptedReply(error=RateLimitError("slow down")))
    with pytest.raises(RateLimitError):
        written(ModelSummariser(model), CHAT)


def test_an_empty_history_is_still_one_request() -> None:
    assert written(ModelSummariser(scripted(says("Nothing."))), []).text == "Nothing."
