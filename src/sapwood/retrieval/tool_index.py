"""ToolIndex: the search of a large set of tools.

Laws: a name that is written exactly always comes first, in the order of the request; a pattern is words, never a
regular expression; tools may come, go and gain past requests at any time, one writer at a time beside any readers.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from sapwood.core.names import wire_name
from sapwood.core.ports import Embedder
from sapwood.core.tools import ToolSchema
from sapwood.retrieval.hybrid import HybridIndex, PackedHybrid, SearchSettings, best
from sapwood.retrieval.terms import identifiers, question_terms, split_words, terms
from sapwood.retrieval.text_index import Field

TOOLS = SearchSettings(
    fields={
        "name": Field(2.0, 0.5),
        "text": Field(1.0, 0.5),
        "parameter_names": Field(0.5, 0.5),
        "parameter_texts": Field(0.3, 0.5),
        "group": Field(0.5, 0.5),
        "past": Field(0.5, 0.5),
    }
)
"""How tools are searched; what the weights were set on is told in docs/tool_search.md."""

GROUPS = SearchSettings(fields={"name": Field(2.0, 0.5), "text": Field(1.0, 0.5), "members": Field(0.5, 0.5)})
GROUP_WEIGHT = 0.15

_GROUP = re.compile(r"(.+)(?:\.|/|:|__)([^./:]+)\Z")
_DEEPEST = 4
_MOST_PARAMETERS = 200


class PackedTools(msgspec.Struct, frozen=True):
    """The index of a set of tools as bytes, without its names and past requests."""

    tools: PackedHybrid
    groups: PackedHybrid


class ToolIndex:
    """Tools by their own names.

    embedder: None searches by words alone. groups: what is said of the tools whose names begin with a group's
    name, as `notes` for `notes.list` and `github` for `github/search`.

    >>> index = ToolIndex()
    >>> index.add([ToolSchema("notes.list", "List the notes"), ToolSchema("notes.add", "Add a note")])
    >>> index.search("show me a list of my notes", k=1)
    ['notes.list']
    """

    def __init__(self, *, embedder: Embedder | None = None, groups: Mapping[str, str] | None = None) -> None:
        self._texts = dict(groups or {})
        self._tools = HybridIndex[str](TOOLS, embedder)
        self._groups = HybridIndex[str](GROUPS, embedder)
        self._schemas: dict[str, ToolSchema] = {}
        self._past: dict[str, tuple[str, ...]] = {}
        self._order: dict[str, int] = {}
        self._count = 0
        self._exact: dict[str, dict[str, None]] = {}
        self._group: dict[str, str] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._stale: dict[str, None] = {}

    def __len__(self) -> int:
        return len(self._schemas)

    def add(self, schemas: Iterable[ToolSchema]) -> None:
        """Add tools; one of a name that is here is replaced and keeps its past requests."""
        for schema in schemas:
            if self._schemas.get(schema.name) is not schema:
                self._note(schema)
                self._index(schema)
        self._refresh_groups()

    def remove(self, name: str) -> bool:
        """Remove a tool with its past requests; False where there is none of that name."""
        schema = self._schemas.pop(name, None)
        if schema is None:
            return False
        self._tools.remove(name)
        self._past.pop(name, None)
        del self._order[name]
        for form in _forms(name):
            del self._exact[form][name]
        group = self._group.pop(name, "")
        if group:
            del self._members[group][name]
            self._stale[group] = None
        self._refresh_groups()
        return True

    def set_past(self, name: str, requests: Sequence[str]) -> None:
        """Take these requests as those that the tool has served, in place of the ones before."""
        if name in self._schemas and self._past.get(name, ()) != tuple(requests):
            self._past[name] = tuple(requests)
            self._index(self._schemas[name])

    def search(self, query: str, *, k: int, without: Collection[str] = ()) -> list[str]:
        """Return at most k names, best first."""
        left_out = set(without)
        named = [name for name in self._named(query) if name not in left_out]
        if len(named) >= k:
            return named[:k]
        found = best(self.scores(query), k - len(named), without={*left_out, *named}, order=self._order)
        return [*named, *found]

    def scores(self, query: str) -> dict[str, float]:
        """Return the score of each tool that the query finds; at most about 1."""
        scores = self._tools.scores(query)
        if len(self._groups) > 1:
            groups = self._groups.scores(query)
            most = max(groups.values(), default=0.0)
            for name in scores:
                share = groups.get(self._group.get(name, ""))
                if share:
                    scores[name] += GROUP_WEIGHT * share / most
        return scores

    def prepare(self) -> None:
        """Do now what the first question would wait for."""
        self._tools.prepare()
        self._groups.prepare()

    def packed(self) -> PackedTools:
        """Return the index as bytes. Past requests are not in it: `set_past` adds them to what is loaded."""
        return PackedTools(self._tools.packed(), self._groups.packed())

    def load(self, schemas: Sequence[ToolSchema], packed: PackedTools) -> None:
        """Take the tools with what `packed` returned for them, in place of what is here.

        Raises ValueError where the bytes are not those of an index of so many tools and groups.
        """
        for schema in schemas:
            self._note(schema)
        self._tools.load([schema.name for schema in schemas], packed.tools)
        self._groups.load(list(self._stale), packed.groups)
        self._stale = {}

    def _note(self, schema: ToolSchema) -> None:
        name = schema.name
        self._schemas[name] = schema
        if name not in self._order:
            self._order[name] = self._count = self._count + 1
            for form in _forms(name):
                self._exact.setdefault(form, {})[name] = None
        group = group_of(name)
        if group:
            self._group[name] = group
            self._members.setdefault(group, {})[name] = None
            self._stale[group] = None

    def _index(self, schema: ToolSchema) -> None:
        names, texts = _parameters(schema)
        group = group_of(schema.name)
        own = own_name(schema.name)
        past = self._past.get(schema.name, ())
        document = {
            "name": [*terms(own), *identifiers(schema.name), *identifiers(own)],
            "text": terms(schema.description),
            "parameter_names": terms(" ".join(names)),
            "parameter_texts": terms(" ".join(texts)),
            "group": terms(f"{group} {self._texts.get(group, '')}"),
            "past": [term for request in past for term in question_terms(request)],
        }
        self._tools.add(schema.name, document, [_meanings(schema), past])

    def _refresh_groups(self) -> None:
        """Index the groups anew whose members have changed: once for all tools that came together."""
        for group in self._stale:
            members = self._members[group]
            if not members:
                self._groups.remove(group)
            else:
                said = [f"{own_name(name)} {self._schemas[name].description}" for name in members]
                document = {
                    "name": terms(group),
                    "text": terms(self._texts.get(group, "")),
                    "members": terms(" ".join(said)),
                }
                self._groups.add(group, document, self._meanings_of(group))
        self._stale = {}

    def _meanings_of(self, group: str) -> list[list[str]]:
        names = ", ".join(" ".join(split_words(own_name(name))) for name in self._members.get(group, ()))
        return [[f"{' '.join(split_words(group))}. {self._texts.get(group, '')} {names}"]]

    def _named(self, query: str) -> Iterator[str]:
        for form in dict.fromkeys((query.strip().casefold(), *identifiers(query))):
            yield from tuple(self._exact.get(form, ()))


def group_of(name: str) -> str:
    """Return the group that a tool's name begins with; empty where it has none.

    >>> [group_of(name) for name in ("notes.list", "github/search", "mcp__files__read", "search")]
    ['notes', 'github', 'mcp__files', '']
    """
    found = _GROUP.match(name)
    return found.group(1).strip("./:_") if found else ""


def own_name(name: str) -> str:
    """Return a tool's name without its group.

    >>> own_name("notes.list")
    'list'
    """
    found = _GROUP.match(name)
    return found.group(2) if found else name


def _forms(name: str) -> tuple[str, ...]:
    own, wire = name.strip().casefold(), wire_name(name).casefold()
    return (own,) if own == wire else (own, wire)


def _meanings(schema: ToolSchema) -> list[str]:
    """Return the texts whose vectors make up the tool's: what it does, and that with its parameters."""
    names, texts = _parameters(schema)
    does = f"{' '.join(split_words(schema.name))}. {schema.description}"
    if not names:
        return [does]
    return [does, f"{does} {' '.join(split_words(' '.join(names)))} {' '.join(texts)}"]


def _parameters(schema: ToolSchema) -> tuple[list[str], list[str]]:
    names: list[str] = []
    texts: list[str] = []
    _collect(schema.input_schema, names, texts, 0)
    return names, texts


def _collect(schema: Mapping[str, Any], names: list[str], texts: list[str], depth: int) -> None:
    """Add the names and descriptions of parameters, those inside others too."""
    properties: object = schema.get("properties")
    inner: list[object] = [schema.get("items")] if depth else []
    if isinstance(properties, Mapping):
        for name, value in cast("Mapping[str, object]", properties).items():
            if len(names) >= _MOST_PARAMETERS:
                return
            names.append(name)
            inner.append(value)
    for value in inner:
        if not isinstance(value, Mapping):
            continue
        found = cast("Mapping[str, Any]", value)
        if isinstance(said := found.get("description"), str):
            texts.append(said)
        if depth < _DEEPEST:
            _collect(found, names, texts, depth + 1)
