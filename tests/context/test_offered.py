"""What the sources contribute, merged: one list of tools, one system text, no two names alike."""

from dataclasses import dataclass
from typing import Any

import pytest

from sapwood.context.offered import Offered, OfferedTool, offer
from sapwood.context.source import Contribution
from sapwood.core.errors import ToolNameCollision
from sapwood.core.messages import ToolCall
from sapwood.core.tools import CALL_TOOL, BoundTool, ToolSchema


@dataclass
class Source:
    name: str
    yields_tools: bool = False


A, B, C, D = (ToolSchema(name) for name in ("a.b", "b", "c", "d"))
BOUND = BoundTool(C, lambda values, context: None)


def test_tools_and_texts_stand_in_the_order_of_the_sources() -> None:
    offered = offer(
        [
            (Source("first"), Contribution(tools=[A], hidden=[D], system="one", meta_tools=["a.b"])),
            (Source("empty"), Contribution(system=" \n")),
            (Source("second"), Contribution(tools=[BOUND, B], system="two", name_map={"x_y": "x.y"})),
        ]
    )
    assert offered == Offered(
        {
            "a_b": OfferedTool(A, meta=True),
            "d": OfferedTool(D, hidden=True),
            "c": OfferedTool(C, BOUND),
            "b": OfferedTool(B),
        },
        (A, C, B),
        (("first", "one"), ("second", "two")),
        {"x_y": "x.y"},
    )
    assert offered.system_texts == ("one", "two")


@pytest.mark.parametrize("second", [ToolSchema("a b"), ToolSchema("a.b")])
@pytest.mark.parametrize("hidden", [False, True])
def test_two_that_become_one_are_refused_naming_both_and_their_sources(second: ToolSchema, hidden: bool) -> None:
    other = Contribution(hidden=[second]) if hidden else Contribution(tools=[second])
    with pytest.raises(ToolNameCollision) as caught:
        offer([(Source("first"), Contribution(tools=[A])), (Source("second"), other)])
    assert str(caught.value) == (
        f"'a.b' (source 'first') and {second.name!r} (source 'second') both become 'a_b' for the model; "
        "rename one of them"
    )


def test_tools_of_the_caller_give_way_to_a_source_that_offers_some_and_can_still_be_run() -> None:
    own = (Source("own", yields_tools=True), Contribution(tools=[B, BOUND]))
    alone = offer([own, (Source("text"), Contribution(system="only text", hidden=[D]))])
    assert alone.sent == (B, C)
    owned = offer([(Source("tools"), Contribution(tools=[A, B])), own])
    assert owned.sent == (A, B)
    assert owned.by_wire["c"] == OfferedTool(C, BOUND, hidden=True)
    assert owned.by_wire["b"] == OfferedTool(B)


OFFERED = offer(
    [(Source("tools"), Contribution(tools=[A, ToolSchema(CALL_TOOL)], hidden=[B, BOUND], meta_tools=[CALL_TOOL]))]
)


@pytest.mark.parametrize(
    ("name", "found"),
    [("a.b", A), ("a_b", A), ("b", B), ("a b", None), ("zz", None), ("", None)],
)
def test_a_tool_is_found_by_its_own_name_or_its_wire_name(name: str, found: ToolSchema | None) -> None:
    tool = OFFERED.find(name)
    assert (tool.schema if tool else None) == found


def test_the_name_that_the_model_used_leads_to_the_tools_own() -> None:
    renamed = offer([(Source("mcp"), Contribution(tools=[A], name_map={"srv_list": "srv/list"}))])
    assert [renamed.original(name) for name in ("a_b", "srv_list", "unknown")] == ["a.b", "srv/list", "unknown"]


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (ToolCall("b", {"n": 1}), ToolCall("b", {"n": 1})),
        (ToolCall(CALL_TOOL, {"name": "a_b", "args": {"n": 1}}, "k"), ToolCall("a.b", {"n": 1}, "k")),
        (ToolCall(CALL_TOOL, {"name": "zz"}), ToolCall("zz")),
        (ToolCall(CALL_TOOL, {}), ToolCall(CALL_TOOL, {})),
    ],
)
def test_a_call_through_call_tool_is_one_of_the_tool_it_names(call: ToolCall, meant: ToolCall) -> None:
    assert OFFERED.meant(call) == meant


@pytest.mark.parametrize("tools", [[A], [A, ToolSchema(CALL_TOOL)]])
def test_a_users_own_call_tool_is_just_a_tool(tools: list[Any]) -> None:
    call = ToolCall(CALL_TOOL, {"name": "a_b", "args": {}})
    assert offer([(Source("own"), Contribution(tools=tools))]).meant(call) is call


def test_loaded_tools_are_appended_once_unless_they_are_dispatched() -> None:
    assert OFFERED.with_loaded(["c", "a.b", "zz", "b"]) == (*OFFERED.sent, C, B)
    assert OFFERED.with_loaded([]) == OFFERED.sent
    dispatched = offer([(Source("tools"), Contribution(tools=[A], hidden=[B], loading="dispatch"))])
    assert dispatched.by_wire == {"a_b": OfferedTool(A), "b": OfferedTool(B, hidden=True, loading="dispatch")}
    assert dispatched.with_loaded(["b"]) == (A,)
