"""Whose a record is: scopes that only narrow, ids of any kind, and values that cannot be one."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import ConfigError, MemoryScope

IDS = st.none() | st.sampled_from(["", "_", "%", "'", '"', "ann", "ann'--", "安", "a/b"])
SCOPES = st.builds(
    MemoryScope, user=IDS, agent=IDS, conversation=IDS, namespace=st.lists(st.sampled_from("abc")).map(tuple)
)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"user": 3}, "user must be a text, not 3"),
        ({"agent": "\ud800"}, "lone surrogate"),
        ({"conversation": b"c"}, "conversation must be a text"),
        ({"namespace": "team"}, "namespace is a tuple of texts"),
        ({"namespace": ("a", 3)}, "namespace is a tuple of texts"),
        ({"namespace": ("\udfff",)}, "lone surrogate"),
    ],
)
def test_what_is_no_scope_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        MemoryScope(**fields)


@given(SCOPES, IDS, IDS, IDS, st.lists(st.sampled_from("abc")).map(tuple))
def test_a_scope_can_only_be_narrowed(scope: MemoryScope, user: Any, agent: Any, conversation: Any, below: Any) -> None:
    given_ = {"user": user, "agent": agent, "conversation": conversation}
    others = [name for name, value in given_.items() if value is not None and getattr(scope, name) not in (None, value)]
    if others:
        with pytest.raises(ConfigError, match=f"cannot be narrowed to {others[0]}"):
            scope.narrowed(**given_, namespace=below)
        return
    narrow = scope.narrowed(**given_, namespace=below)
    assert scope.covers(narrow)
    assert narrow.covers(scope) == (narrow == scope)


@given(SCOPES, SCOPES)
def test_two_scopes_that_name_different_owners_never_reach_each_other(one: MemoryScope, other: MemoryScope) -> None:
    if one.user is not None and one.user != other.user:
        assert not one.covers(other)
    if one.covers(other) and other.covers(one):
        assert one == other
