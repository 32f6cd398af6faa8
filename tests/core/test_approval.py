"""What hooks and people may answer, and what is remembered of it."""

from typing import Any

import pytest

from sapwood.core.approval import ApprovalDecision, ApprovalGrant, ApprovalRequest, ExternalResult, HookResult
from sapwood.core.errors import ConfigError


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (HookResult, {"decison": "deny"}),
        (ApprovalDecision, {"approved": True, "update_input": {}}),
        (ExternalResult, {"result": 1}),
        (ApprovalRequest, {"tool_call_id": "c", "name": "a", "tool_input": {}, "inputs": {}}),
    ],
)
def test_b12_a_misspelt_keyword_is_refused(kind: Any, given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="Unexpected keyword"):
        kind(**given)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: HookResult(decision="no"), "decision is allow, deny or ask, not 'no'"),  # type: ignore[arg-type]
        (lambda: HookResult(updated_input=[1]), "a dict of arguments, not list"),  # type: ignore[arg-type]
        (lambda: ApprovalDecision(approved="yes"), "approved is True or False, not 'yes'"),  # type: ignore[arg-type]
        (lambda: ApprovalDecision(True, updated_input="x"), "a dict of arguments, not str"),  # type: ignore[arg-type]
        (lambda: ApprovalDecision(True, updated_input={}, remember={}), "cannot be remembered"),
        (lambda: ApprovalDecision(True, by=7), "by is a text or None, not 7"),  # type: ignore[arg-type]
        (lambda: ApprovalDecision(True, reason=5), "reason is a text or None, not 5"),  # type: ignore[arg-type]
        (lambda: ApprovalDecision(True, by="\ud800"), "by holds half a character"),
        (lambda: ApprovalDecision(True, remember="all"), "remember is a dict of arguments, not str"),  # type: ignore[arg-type]
        (lambda: ApprovalDecision(True, remember=[]), "remember is a dict of arguments, not list"),  # type: ignore[arg-type]
        (lambda: ApprovalDecision(True, remember=True), "remember is a dict of arguments, not bool"),  # type: ignore[arg-type]
        (lambda: ApprovalDecision(True, remember={1: "*"}), "by the names of arguments; 1 is no name"),  # type: ignore[dict-item]
        (lambda: ApprovalDecision(True, updated_input={"a": object()}), "updated_input holds what JSON cannot carry"),
        (lambda: ApprovalDecision(True, updated_input={"a": [float("nan")]}), "updated_input holds nan"),
        (lambda: HookResult(decision="ask", reason=5), "reason is a text or None, not 5"),  # type: ignore[arg-type]
        (lambda: HookResult(updated_input={"a": "\ud800"}), "updated_input holds what JSON cannot carry"),
        (lambda: ExternalResult(float("nan")), "value holds nan, which is no number in JSON"),
        (lambda: ExternalResult({"a": (1, float("inf"))}), "value holds inf"),
        (lambda: ExternalResult(object()), "value cannot be shown: .* of type object"),
        (lambda: ExternalResult(1, is_error="no"), "is_error is True or False, not 'no'"),  # type: ignore[arg-type]
        (lambda: ExternalResult(1, by=7), "by is a text or None, not 7"),  # type: ignore[arg-type]
        (lambda: ApprovalGrant(1, "a", {}), "id is a text or None, not 1"),  # type: ignore[arg-type]
        (lambda: ApprovalGrant("g", None, {}), "tool of a grant is a text, not None"),  # type: ignore[arg-type]
        (lambda: ApprovalGrant("g", "a", None), "arguments of a grant is a dict"),  # type: ignore[arg-type]
        (lambda: ApprovalGrant("g", "a", [1]), "a dict of arguments, not list"),  # type: ignore[arg-type]
        (lambda: ApprovalGrant("g", "a", {}, approved="yes"), "approved is True or False"),  # type: ignore[arg-type]
        (lambda: ApprovalGrant("g", "a", {}, reason=5), "reason is a text or None"),  # type: ignore[arg-type]
    ],
)
def test_an_answer_that_cannot_be_meant_is_refused_when_it_is_made(make: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make()


def test_a_request_is_named_by_all_calls_that_lead_to_it() -> None:
    assert ApprovalRequest("c3", "add", {}, path=("c1", "c2")).id == "c1/c2/c3"


SAME: list[tuple[dict[str, Any], dict[str, Any], tuple[str, ...], bool]] = [
    ({"a": 1}, {"a": 1}, (), True),
    ({"a": 1}, {"a": 2}, (), False),
    ({"a": 1}, {"a": True}, (), False),
    ({"a": 1}, {"a": 1.0}, (), False),
    ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, (), True),
    ({"a": [1]}, {"a": [True]}, (), False),
    ({"a": 1}, {"a": 1, "b": 2}, (), False),
    ({"a": 1, "b": 2}, {"a": 1}, (), False),
    ({"a": "rm *"}, {"a": "rm *"}, (), True),
    ({"a": "rm *"}, {"a": "rm -rf /"}, (), False),
    ({"a": "rm *"}, {"a": "rm -rf build"}, ("a",), True),
    ({"a": "/memories/*"}, {"a": "/memories/x.txt"}, ("a",), True),
    ({"a": "/memories/*"}, {"a": "/memories/../settings"}, ("a",), False),
    ({"a": "/memories/*"}, {"a": "/memories/..\\settings"}, ("a",), False),
    ({"a": "/memories/*"}, {"a": "/memories/%2E%2e%2fsettings"}, ("a",), False),
    ({"a": "/memories/*"}, {"a": "/memories/a..b"}, ("a",), True),
    ({"a": "x[1]*"}, {"a": "x[1]y"}, ("a",), True),
    ({"a": "x[1]*"}, {"a": "x1y"}, ("a",), False),
    ({"a": "x?*"}, {"a": "xyz"}, ("a",), False),
    ({"a": "*"}, {"a": 5}, ("a",), True),
    ({"a": 5}, {"a": 5}, ("a",), True),
]


@pytest.mark.parametrize(("pattern", "call", "patterns", "matches"), SAME)
def test_a_grant_answers_the_calls_that_it_names_and_no_others(
    pattern: dict[str, Any], call: dict[str, Any], patterns: tuple[str, ...], matches: bool
) -> None:
    grant = ApprovalGrant("g", "add", pattern, patterns=patterns)
    assert grant.matches("add", call, "") is matches
    assert not grant.matches("other", call, "")
    assert not grant.matches("add", call, "conversation-2")


def test_a_grant_holds_for_the_definition_that_was_shown() -> None:
    grant = ApprovalGrant("g", "add", {}, tool_version="v1")
    assert grant.matches("add", {}, "", tool_version="v1")
    assert not grant.matches("add", {}, "", tool_version="v2")
    assert ApprovalGrant("g", "add", {}).matches("add", {}, "", tool_version="v2")


@pytest.mark.parametrize(
    ("pattern", "value", "matches"),
    [
        ("*", 500, True),
        ("*", None, True),
        ("5*", 500, True),
        ("5*", 600, False),
        ("500", 500, False),
        ("*", ["a", "b"], True),
        ("*", ["..", "etc"], False),
        ('{"path":"/notes/*"}', {"path": "/notes/a"}, True),
        ('{"path":"/notes/*"}', {"path": "/notes/../etc"}, False),
    ],
)
def test_a_star_stands_for_a_value_that_is_no_text_by_its_json(pattern: str, value: Any, matches: bool) -> None:
    grant = ApprovalGrant("g1", "refund", {"cents": pattern}, patterns=("cents",))

    assert grant.matches("refund", {"cents": value}, "") is matches


def test_a_list_that_holds_itself_is_looked_at_once() -> None:
    itself: list[Any] = [1]
    itself.append(itself)

    assert ExternalResult(itself).value is itself
