"""Tool arguments as models write them."""

import json
from typing import Any

import pytest

from sapwood import Agent, lazy_tool_source, tool
from sapwood.core.json_object import MAX_DEPTH
from sapwood.core.messages import ToolCall
from sapwood.llm.arguments import read_call
from sapwood.testing import call, calls, says, scripted


def nested(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def lists(levels: int) -> str:
    return '{"a":' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


@pytest.mark.parametrize("make", [nested, lists])
def test_arguments_are_read_up_to_a_depth(make: Any) -> None:
    deepest, beyond = make(MAX_DEPTH), make(MAX_DEPTH + 1)
    assert read_call("t", deepest, id="x") == ToolCall("t", json.loads(deepest), id="x")
    assert read_call("t", json.loads(deepest), id="x") == ToolCall("t", json.loads(deepest), id="x")
    assert read_call("t", beyond, id="x") == ToolCall("t", id="x", raw=beyond, problem="malformed")
    assert read_call("t", json.loads(beyond), id="x") == ToolCall("t", id="x", problem="malformed")


@pytest.mark.parametrize("given", [{"a": "half \ud800"}, {"a": object}, {"a": {1, 2}, "b": print}])
def test_an_object_that_json_cannot_say_is_no_call(given: Any) -> None:
    assert read_call("t", given, id="x") == ToolCall("t", id="x", problem="malformed")


@pytest.mark.parametrize("levels", [600, 900, 5_000])
@pytest.mark.parametrize("through_call_tool", [False, True])
def test_a_call_nested_without_end_is_an_error_result_and_the_turn_goes_on(
    levels: int, through_call_tool: bool
) -> None:
    ran: list[object] = []

    @tool
    def keep(a: object = None) -> str:
        ran.append(a)
        return "kept"

    raw = nested(levels)
    asked = call("call_tool", {"name": "keep", "args": raw}) if through_call_tool else call("keep", raw=raw)
    agent = Agent(llm=scripted(calls(asked), says("sorry"))).with_sources([lazy_tool_source([keep], pin=["keep"])])
    events = list(agent.stream("go"))
    (finish,) = (event for event in events if event.type == "tool_finished")
    assert (finish.is_error, ran) == (True, [])
    assert finish.result == "The arguments for keep were malformed JSON; the tool was not run."
    assert events[-1].type == "turn_finished"
