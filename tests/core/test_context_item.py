"""Items of context, and the question with what is known beside its words."""

import copy
import json
import pickle
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from sapwood import ConfigError, ContextItem, Message, QueryBundle, SourceType, ToolResult, conversation_items
from sapwood.core.messages import Text


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"content": 5}, "the content of an item is a text, not 5"),
        ({"source": "web"}, "source is one of retrieval, memory, system, user, tool, conversation, not 'web'"),
        ({"source": 5}, "source is one of"),
        ({"priority": 0}, "from 1 to 10, not 0"),
        ({"priority": 11}, "from 1 to 10, not 11"),
        ({"priority": True}, "from 1 to 10, not True"),
        ({"priority": 2.5}, "from 1 to 10, not 2.5"),
        ({"score": float("nan")}, "score is a finite number, not nan"),
        ({"score": True}, "score is a finite number, not True"),
        ({"score": "high"}, "score is a finite number, not 'high'"),
    ],
)
def test_an_item_that_could_not_be_ranked_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        ContextItem(**{"content": "x", **fields})


def test_an_item_with_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError, match="prioritty"):
        ContextItem(content="x", prioritty=9)  # type: ignore[call-arg]


def test_an_item_is_filled_in_where_it_is_made() -> None:
    item = ContextItem(content="x", source="memory", namespace="law/", created_at=datetime(2030, 1, 1))  # type: ignore[arg-type]
    assert (item.source, item.namespace) == (SourceType.MEMORY, "/law")
    assert item.created_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert item.id == ContextItem(content="x", source=SourceType.MEMORY, namespace="/law").id
    assert item.id != ContextItem(content="y", source=SourceType.MEMORY, namespace="/law").id
    assert ContextItem(content="half \ud800", id="mine").id == "mine"
    assert ContextItem(content="half \ud800").id


def test_an_item_survives_json_and_is_copied_with_changes() -> None:
    item = ContextItem(content="x", source=SourceType.TOOL, score=0.5, metadata={"title": "t"})
    assert msgspec.json.decode(msgspec.json.encode(item), type=ContextItem) == item
    assert item.model_copy(update={"score": 0.9}) == item.replace(score=0.9)
    assert item.model_copy() == item


def test_a_question_is_a_text_that_carries_more() -> None:
    query = QueryBundle("What?", embedding=[0.5], metadata={"k": 1}, chat_history=[Message.user("hi")])
    assert (query, query.query_str, f"{query}", json.dumps(query)) == ("What?", "What?", "What?", '"What?"')
    assert type(query.query_str) is str
    for twin in (pickle.loads(pickle.dumps(query)), copy.copy(query), copy.deepcopy(query)):
        assert (twin, twin.embedding, twin.metadata, list(twin.chat_history)) == (
            "What?",
            [0.5],
            {"k": 1},
            [Message.user("hi")],
        )


def test_a_question_does_not_change_and_another_one_takes_over_what_is_not_given() -> None:
    query = QueryBundle("What?", embedding=[0.5], metadata={"k": 1})
    with pytest.raises(AttributeError, match=r"changed\(embedding=\.\.\.\)"):
        query.embedding = [1.0]
    other = query.changed("Why?")
    assert (other, other.embedding, other.metadata) == ("Why?", [0.5], {"k": 1})
    again = query.changed(embedding=[1.0], metadata={})
    assert (again, again.embedding, again.metadata) == ("What?", [1.0], {})
    with pytest.raises(ConfigError, match="a question is a text or a QueryBundle, not 5"):
        QueryBundle(5)  # type: ignore[arg-type]


def test_a_conversation_becomes_items_by_recency_without_results_of_tools() -> None:
    messages = [
        Message.user("one"),
        Message.assistant("two"),
        Message("tool", (ToolResult("k", "t", (Text("result"),)),)),
        Message.user("three"),
    ]
    items = conversation_items(messages)
    assert [(item.content, item.score, item.priority, item.metadata["role"]) for item in items] == [
        ("one", 0.5, 7, "user"),
        ("two", 0.75, 7, "assistant"),
        ("three", 1.0, 7, "user"),
    ]
    assert [item.score for item in conversation_items(messages[:1])] == [1.0]
    assert conversation_items([]) == []
