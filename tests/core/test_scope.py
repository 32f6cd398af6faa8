"""Which documents may be searched: namespaces as paths, exclusion first, narrowing only."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import ConfigError, RetrievalScope


@pytest.mark.parametrize(
    ("namespace", "found"),
    [
        ("/", False),
        ("/law", True),
        ("law", True),
        ("/law/", True),
        ("/lawyers", False),
        ("/law/tax", True),
        ("/law/drafts", False),
        ("/law/drafts/7", False),
        ("/law/drafts2", True),
    ],
)
def test_a_namespace_covers_what_is_below_it_and_exclusion_wins(namespace: str, found: bool) -> None:
    assert RetrievalScope(include=("/law",), exclude=("/law/drafts",)).matches(namespace) is found


def test_an_empty_scope_allows_everything_and_the_root_excludes_everything() -> None:
    assert RetrievalScope().matches("/x")
    assert not RetrievalScope(exclude=("/",)).matches("/x")


@pytest.mark.parametrize(
    ("given_scope", "told"),
    [
        ({"include": "/law"}, "include is a list of namespaces"),
        ({"exclude": 5}, "exclude is a list of namespaces"),
        ({"include": ("/law", 5)}, "include holds 5, which is no namespace"),
    ],
)
def test_what_is_no_scope_is_refused(given_scope: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        RetrievalScope(**given_scope)


def test_scopes_that_share_nothing_allow_nothing() -> None:
    nothing = RetrievalScope(include=("/a",)).intersect(RetrievalScope(include=("/b",)))
    assert not any(nothing.matches(path) for path in ("/", "/a", "/b", "/c"))


PATHS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3).map(lambda parts: "/" + "/".join(parts))
SCOPES = st.builds(
    lambda include, exclude: RetrievalScope(tuple(include), tuple(exclude)),
    st.lists(PATHS, max_size=3),
    st.lists(PATHS, max_size=3),
)


@given(outer=SCOPES, inner=SCOPES, path=PATHS)
def test_what_both_allow_is_what_each_of_them_allows(outer: RetrievalScope, inner: RetrievalScope, path: str) -> None:
    assert outer.intersect(inner).matches(path) == (outer.matches(path) and inner.matches(path))
