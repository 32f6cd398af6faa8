"""Facts by a model: what it is shown, and what is made of its answer, good or bad."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sapwood import ConfigError, LLMError, MemoryRecord, NewFact, TurnText, model_consolidator, model_extractor
from sapwood.core.memory import MemoryRecord as Record
from sapwood.core.model import ModelRequest
from sapwood.memory.consolidate import Decision
from sapwood.testing import says, scripted

KNOWN = [Record("a1", "Noor lives in Porto", 0, "fact"), Record("b2", "Noor likes tea", 0, "fact")]
TURNS = [TurnText("r1", "I moved to Turin.", "Noted."), TurnText("r2", "And I like rain.", "Good.")]


class AsyncOnly:
    """A provider whose streams can only be awaited."""

    def __init__(self, *replies: Any) -> None:
        self.inner = scripted(*replies)
        self.profile = self.inner.profile

    def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        chunks = self.inner.stream(request)

        async def later() -> AsyncIterator[Any]:
            for chunk in chunks:
                yield chunk

        return later()


def test_the_facts_of_an_answer_are_taken_with_what_surrounds_them() -> None:
    answer = (
        'Here they are:\n{"facts": [{"text": "Noor lives in Turin", "importance": 7}, {"text": "Noor likes rain"}]} ok'
    )
    model = scripted(says(answer))
    found: Any = model_extractor(model, instructions="Look for places.")(TURNS)
    assert [(fact.text, fact.importance, fact.kind) for fact in found] == [
        ("Noor lives in Turin", 1.0, "fact"),
        ("Noor likes rain", 0.5, "fact"),
    ]
    request = model.requests[0]
    assert "Look for places." in request.system[0]
    assert "User: I moved to Turin.\nAssistant: Noted.\nUser: And I like rain." in request.transcript[0].text


def test_at_most_so_many_facts_are_taken_and_of_a_long_record_the_newest_part() -> None:
    model = scripted(says('{"facts": [{"text": "a"}, {"text": "b", "kind": "taste"}]}'))
    found: Any = model_extractor(model, max_facts=1, kind="note")([TurnText("r", "x" * 50_000, "the end")])
    assert [(fact.text, fact.kind) for fact in found] == [("a", "note")]
    text = model.requests[0].transcript[0].text
    assert len(text) < 25_000
    assert "the end" in text


@pytest.mark.parametrize("answer", ["", "no facts", '{"facts": [}', '{"facts": [{"text": 3}]}', "\ud800{"])
def test_an_answer_that_cannot_be_read_is_an_error_that_shows_it(answer: str) -> None:
    with pytest.raises(LLMError, match="not the JSON that was asked for"):
        model_extractor(scripted(says(answer)))(TURNS)


def test_a_number_of_facts_that_cannot_work_is_refused() -> None:
    for number in (0, 21):
        with pytest.raises(ConfigError, match="from 1 to 20"):
            model_extractor(scripted(), max_facts=number)


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        ('{"op": "add", "why": "new"}', Decision("add", None, None, "new")),
        ('{"op": "supersede", "number": 1, "why": "moved"}', Decision("supersede", "a1", None, "moved")),
        (
            '{"op": "update", "number": 2, "text": "Noor likes tea and rain"}',
            Decision("update", "b2", "Noor likes tea and rain"),
        ),
        ('{"op": "ignore", "number": 2}', Decision("ignore", "b2")),
        ('{"op": "ignore", "number": 9}', Decision("add", why="the model named no known fact to ignore")),
        ('{"op": "update"}', Decision("add", why="the model named no known fact to update")),
        ('{"op": "erase all"}', Decision("add", why="the answer of the model could not be read")),
        ("I would keep it.", Decision("add", why="the answer of the model could not be read")),
    ],
)
def test_a_decision_names_a_known_fact_by_its_number(answer: str, decision: Decision) -> None:
    model = scripted(says(answer))
    assert model_consolidator(model)(NewFact(text="Noor lives in Turin"), KNOWN) == decision
    assert "1. Noor lives in Porto\n2. Noor likes tea" in model.requests[0].transcript[0].text
    assert "a1" not in model.requests[0].transcript[0].text


def test_a_fact_that_nothing_is_like_asks_no_model() -> None:
    model = scripted()
    assert model_consolidator(model)(NewFact(text="x"), []) == Decision("add", why="nothing like it is known")
    assert model.requests == []


def test_a_provider_that_is_async_is_awaited() -> None:
    async def main() -> None:
        provider: Any = AsyncOnly(says('{"facts": [{"text": "a"}]}'), says('{"op": "ignore", "number": 1}'))
        found: Any = await model_extractor(provider)(TURNS)  # type: ignore[misc]
        assert [fact.text for fact in found] == ["a"]
        decided: Any = await model_consolidator(provider)(found[0], [MemoryRecord("k", "a", 0)])  # type: ignore[misc]
        assert decided.op == "ignore"

    asyncio.run(main())
