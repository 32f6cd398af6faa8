"""Retrieving: one retriever, or several by name, asked as one.

Laws: a retriever may be plain or async, and gets what it takes by name; what it returns is held to `top_k` and to the
scope, whatever it was told; hits of several retrievers are merged by their places, as their scores do not compare.
Source: guide A, `rag_skill`; the list of faults, "rag_skill".
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, cast

from sapwood.context.steps import Items, Retriever, options_for, parameters_of, within
from sapwood.core.context_item import QueryBundle
from sapwood.core.errors import ConfigError
from sapwood.core.maybe import then
from sapwood.core.require import shown
from sapwood.core.scope import RetrievalScope
from sapwood.core.tools import MaybeAwaitable

VAULT = "vault"
"""The key of an item's metadata that says which of several retrievers found it."""


class Retrieving:
    """Retrievers as one. names: those of several; empty for a single one.

    who: whose argument it is, for errors. Raises ConfigError for what is no retriever.

    >>> both = Retrieving("demo", {"law": lambda query: ["Tax."], "art": lambda query: ["Clay.", "Oil."]})
    >>> [item.content for item in both.search(QueryBundle("?"), 5, None)]
    ['Tax.', 'Clay.', 'Oil.']
    """

    def __init__(self, who: str, retriever: Retriever | Mapping[str, Retriever]) -> None:
        given: object = retriever
        several = isinstance(given, Mapping)
        mounted = cast("Mapping[object, object]", given) if several else {"": given}
        if not mounted:
            raise ConfigError(f"{who} takes a retriever, or several by name; this dictionary of them is empty")
        self._retrieve: dict[str, Callable[..., Any]] = {}
        for name, each in mounted.items():
            if several and not (isinstance(name, str) and name.strip()):
                raise ConfigError(f"{who}: the name of a retriever is a text, not {shown(name)}")
            self._retrieve[str(name)] = _function(who, each)
        self.names = tuple(self._retrieve) if several else ()
        self.waits = any(getattr(each, "waits", False) for each in mounted.values())
        """One of them waits for a disk or a network, as ContextSource has it."""

    def search(
        self, query: QueryBundle, top_k: int, scope: RetrievalScope | None, *, only: str | None = None
    ) -> MaybeAwaitable[Items]:
        """Return the hits as items, best first; only: the name of the one to ask, None for all."""
        asked = list(self._retrieve) if only is None else [only]
        return self._rest(asked, query, top_k, scope, [])

    def _rest(
        self, asked: Sequence[str], query: QueryBundle, top_k: int, scope: RetrievalScope | None, found: list[Items]
    ) -> MaybeAwaitable[Items]:
        if not asked:
            return _merged(found)[:top_k]
        name, *others = asked
        retrieve = self._retrieve[name]
        options = options_for(parameters_of(retrieve), top_k=top_k, embedding=query.embedding, scope=scope)

        def go_on(hits: Any) -> MaybeAwaitable[Items]:
            items = within(hits or (), top_k, scope)
            if self.names:
                items = [item.replace(metadata={**item.metadata, VAULT: name}) for item in items]
            return self._rest(others, query, top_k, scope, [*found, items])

        return then(retrieve(query, **options), go_on)


def _merged(found: Sequence[Items]) -> Items:
    """Return the first of each, then the second of each, and so on; the same text once."""
    kept: dict[str, Any] = {}
    for level in zip_longest(*found):
        for item in level:
            if item is not None:
                kept.setdefault(item.content, item)
    return list(kept.values()) if len(found) > 1 else [item for items in found for item in items]


def _function(who: str, given: object) -> Callable[..., Any]:
    found: Any = getattr(given, "retrieve", given)
    if not callable(found):
        raise ConfigError(f"{who} takes a function or an object with retrieve(), not {shown(given)}")
    return cast("Callable[..., Any]", found)
