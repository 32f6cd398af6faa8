"""Calls that are meant, batches that may overlap, and what a tool knows of its call."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.messages import ToolCall
from sapwood.core.tools import CALL_TOOL, BoundTool, ToolContext, ToolSchema, batches, effective


def through(arguments: dict[str, Any], **more: Any) -> ToolCall:
    return ToolCall(CALL_TOOL, arguments, "r0c0", "x", **more)


def meant(name: str, arguments: dict[str, Any] | None = None, **more: Any) -> ToolCall:
    return ToolCall(name, arguments or {}, "r0c0", "x", **more)


DEEP = '{"a":' * 600 + "1" + "}" * 600
TABLE = [
    ("an object", through({"name": "add", "args": {"a": 1}}), meant("add", {"a": 1})),
    ("a string of JSON", through({"name": "add", "args": '{"a": 1}'}), meant("add", {"a": 1})),
    ("no arguments", through({"name": "add"}), meant("add")),
    ("empty text", through({"name": "add", "args": ""}), meant("add")),
    ("white space", through({"name": "add", "args": " \n"}), meant("add")),
    (
        "text that is no JSON",
        through({"name": "add", "args": '{"a"'}),
        meant("add", raw='{"a"', problem="malformed"),
    ),
    ("a list as text", through({"name": "add", "args": "[1]"}), meant("add", raw="[1]", problem="not_an_object")),
    ("null as text", through({"name": "add", "args": "null"}), meant("add", raw="null", problem="not_an_object")),
    ("a list", through({"name": "add", "args": [1]}), meant("add", raw="[1]", problem="not_an_object")),
    ("text nested without end", through({"name": "add", "args": DEEP}), meant("add", raw=DEEP, problem="malformed")),
    ("null", through({"name": "add", "args": None}), meant("add", raw="None", problem="not_an_object")),
]
UNCHANGED = [
    ToolCall("add", {"name": "sub", "args": {}}),
    through({}, raw="{", problem="incomplete"),
    through({"args": {"a": 1}}),
    through({"name": "", "args": {}}),
    through({"name": 3, "args": {}}),
    through({"name": None}),
]


@pytest.mark.parametrize(("call", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_call_tool_becomes_the_call_that_is_meant(call: ToolCall, expected: ToolCall) -> None:
    before = call.replace()
    assert effective(call) == expected
    assert call == before


@pytest.mark.parametrize("call", UNCHANGED)
def test_any_other_call_is_returned_as_it_is(call: ToolCall) -> None:
    assert effective(call) is call


@given(calls=st.lists(st.tuples(st.booleans(), st.integers()), max_size=12))
def test_batches_keep_the_order_and_a_write_stands_alone(calls: list[tuple[bool, int]]) -> None:
    found = [list(batch) for batch in batches(calls, lambda item: item[0])]
    assert [item for batch in found for item in batch] == calls
    for batch in found:
        assert batch
        assert len(batch) == 1 or all(read_only for read_only, _ in batch)
    for first, second in pairwise(found):
        assert not (first[-1][0] and second[0][0]), "two batches of reads could have been one"


def test_a_context_tells_the_call_and_a_key_that_is_the_same_for_each_attempt() -> None:
    stop = False
    context = ToolContext(run_id="r", name="add", tool_call_key="r1c0", path=("c1", "c2"), cancelled=lambda: stop)
    assert (context.run_id, context.name, context.tool_call_key, context.path) == ("r", "add", "r1c0", ("c1", "c2"))
    assert context.idempotency_key == "r/c1/c2/r1c0"
    assert context.cancelled is False
    stop = True
    assert context.cancelled is True
    assert ToolContext().cancelled is False
    assert ToolContext(run_id="r", tool_call_key="r1c0").idempotency_key == "r/r1c0"


def test_a_schema_takes_no_arguments_where_it_says_nothing() -> None:
    first, second = ToolSchema("a"), ToolSchema("b")
    assert first.input_schema == {"type": "object", "properties": {}}
    assert first.input_schema is not second.input_schema
    assert BoundTool(first, lambda values, context: None).name == "a"
