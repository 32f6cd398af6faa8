"""Lazy tools: a large toolset behind `search_tools`, so that its schemas stay out of the context.

Laws: what is loaded is read from the transcript, never from a flag in here; a pattern from the model is words,
never a regular expression; an exact tool name always ranks first.
Source: guide D, "Lazy toolset".
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from sapwood.context.meter import estimate_tokens
from sapwood.context.source import ContextSource, Contribution, Loaded, Turn
from sapwood.core.errors import ConfigError, ToolNameCollision
from sapwood.core.messages import ToolCall
from sapwood.core.model import ToolLoading
from sapwood.core.names import name_map, wire_name
from sapwood.core.tool_forms import ToolLike, schema_of, to_tool
from sapwood.core.tools import CALL_SCHEMA, CALL_TOOL, SEARCH_TOOLS, BoundTool, ToolSchema
from sapwood.core.words import words


class LazyToolsetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a lazy toolset behaves.

    pin: names (own or wire) of tools that are always callable. k: tools that one search loads at most.
    menu_tokens: room for the list of names in the system prompt; what does not fit is counted in it.
    loading: how a found tool becomes callable; None takes what the turn says.
    """

    pin: Sequence[str] = ()
    k: int = 5
    menu_tokens: int = 300
    loading: ToolLoading | None = None


LazyToolSourceOptions = LazyToolsetOptions


class LazyToolset:
    """Tools of which a model sees only a search, a short menu and the pinned ones, until it searches.

    Driven by hand it keeps what it loaded; a source passes `loaded` and keeps nothing here.
    Raises ToolNameCollision where two names become one, ConfigError for an unknown name in `pin`.
    """

    def __init__(self, tools: Iterable[ToolLike], options: LazyToolsetOptions) -> None:
        if options.k < 1:
            raise ConfigError(f"k must be at least 1, not {options.k}")
        self.options = options
        self._tools = {schema_of(tool).name: tool for tool in _checked(tools)}
        self.name_map: Mapping[str, str] = name_map(self._tools)
        self.pinned = tuple(self._pin(name) for name in options.pin)
        self.loaded: dict[str, None] = {}
        self._index = _Index({name: schema_of(tool) for name, tool in self._tools.items()})

    @property
    def tools(self) -> list[ToolSchema]:
        """What may be sent now, under wire names: the search, the pinned and the loaded tools."""
        callable_now = (*self.pinned, *(name for name in self.loaded if name not in self.pinned))
        found = (schema_of(self._tools[name]) for name in callable_now)
        return [SEARCH_SCHEMA, *(schema.replace(name=wire_name(schema.name)) for schema in found)]

    @property
    def menu(self) -> str:
        """The text for the system prompt: how to search, and the names of the tools that are not pinned."""
        rest = [name for name in self._tools if name not in self.pinned]
        return _menu([wire_name(name) for name in rest], self.options.menu_tokens) if rest else ""

    def bound(self, names: Iterable[str]) -> list[ToolSchema | BoundTool]:
        """Return tools by their own names."""
        return [self._tools[name] for name in names]

    @property
    def hidden(self) -> list[str]:
        """Own names of the tools that are not pinned."""
        return [name for name in self._tools if name not in self.pinned]

    def search(self, query: str, *, loaded: Collection[str] | None = None) -> list[ToolSchema]:
        """Return the best tools for a query, at most k; never one that is loaded or pinned already.

        loaded: own names; None takes, and extends, what this object has loaded before.
        """
        known = self.loaded if loaded is None else loaded
        found = self._index.search(query, {*known, *self.pinned}, self.options.k)
        if loaded is None:
            self.loaded.update(dict.fromkeys(schema.name for schema in found))
        return found

    def handle(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """Answer a `search_tools` call by hand; None for any other name."""
        if name != SEARCH_TOOLS:
            return None
        return search_result(self.search(str(arguments.get("query", ""))), with_schemas=False)

    def _pin(self, name: str) -> str:
        original = name if name in self._tools else self.name_map.get(name)
        if original is None:
            raise ConfigError(f"pin names {name!r}, which is not among the tools: {', '.join(self._tools)[:500]}")
        return original


class LazyToolSource(ContextSource):
    """A source named `tools` over a lazy toolset; it owns the tool list."""

    name = "tools"

    def __init__(self, toolset: LazyToolset) -> None:
        self._toolset = toolset

    def contribute(self, turn: Turn) -> Contribution:
        """Return the search, the pinned tools, and everything else as hidden, with the menu."""
        toolset = self._toolset
        sent: list[ToolSchema | BoundTool] = [SEARCH_SCHEMA]
        meta = [SEARCH_TOOLS]
        is_dispatched = self._loading(turn) == "dispatch"
        if is_dispatched:
            sent.append(CALL_SCHEMA)
            meta.append(CALL_TOOL)
        return Contribution(
            tools=[*sent, *toolset.bound(toolset.pinned)],
            hidden=toolset.bound(toolset.hidden),
            system=toolset.menu,
            meta_tools=meta,
            name_map=toolset.name_map,
            is_dispatched=is_dispatched,
        )

    def handle(self, call: ToolCall, turn: Turn) -> Loaded | None:
        """Answer a search: the found tools become callable."""
        if call.name == CALL_TOOL:
            return Loaded(result='call_tool needs {"name": "...", "args": {...}}', is_error=True)
        if call.name != SEARCH_TOOLS:
            return None
        query = call.arguments.get("query")
        if not isinstance(query, str):
            return Loaded(result="search_tools needs a query of words, such as create invoice", is_error=True)
        found = self._toolset.search(query, loaded=turn.loaded)
        result = search_result(found, with_schemas=self._loading(turn) == "dispatch")
        return Loaded(result=result, tools=tuple(schema.name for schema in found))

    def _loading(self, turn: Turn) -> ToolLoading:
        return self._toolset.options.loading or turn.tool_loading


def lazy_toolset(
    tools: Iterable[ToolLike],
    options: LazyToolsetOptions | None = None,
    *,
    pin: Sequence[str] = (),
    k: int = 5,
    menu_tokens: int = 300,
    loading: ToolLoading | None = None,
) -> LazyToolset:
    """Return a toolset whose schemas stay out of the context until they are searched for.

    >>> lazy = lazy_toolset([{"name": "notes.list", "description": "List notes"}])
    >>> [tool.name for tool in lazy.search("list my notes")]
    ['notes.list']
    """
    return LazyToolset(tools, options or LazyToolsetOptions(pin=pin, k=k, menu_tokens=menu_tokens, loading=loading))


def lazy_tool_source(
    tools: Iterable[ToolLike] | LazyToolset,
    options: LazyToolsetOptions | None = None,
    *,
    pin: Sequence[str] = (),
    k: int = 5,
    menu_tokens: int = 300,
    loading: ToolLoading | None = None,
) -> LazyToolSource:
    """Return a source named `tools` that defers a toolset behind `search_tools`.

    >>> lazy_tool_source([{"name": "notes.list"}], k=6).name
    'tools'
    """
    if isinstance(tools, LazyToolset):
        return LazyToolSource(tools)
    return LazyToolSource(lazy_toolset(tools, options, pin=pin, k=k, menu_tokens=menu_tokens, loading=loading))


def search_result(found: Sequence[ToolSchema], *, with_schemas: bool) -> dict[str, Any]:
    """Return what the model is told of a search.

    with_schemas: found tools are called through `call_tool`, so their schemas stand here.
    """
    entries: list[dict[str, Any]] = []
    for schema in found:
        entry: dict[str, Any] = {"name": wire_name(schema.name), "description": schema.description}
        if with_schemas:
            entry["input_schema"] = schema.input_schema
        entries.append(entry)
    if not found:
        note = "No other tool matches; search again with other words."
    elif with_schemas:
        note = f'Run one with {CALL_TOOL}: {{"name": "...", "args": {{...}}}}.'
    else:
        note = "These tools can be called now."
    return {"found": entries, "note": note}


SEARCH_SCHEMA = ToolSchema(
    SEARCH_TOOLS,
    "Find tools by what they do. The best matches become callable.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "words for the job, e.g. create invoice"}},
        "required": ["query"],
    },
)


def _checked(tools: Iterable[ToolLike]) -> list[ToolSchema | BoundTool]:
    checked = [to_tool(item) for item in tools]
    names = [schema_of(tool).name for tool in checked]
    name_map(names)
    for name in names:
        if wire_name(name) in (SEARCH_TOOLS, CALL_TOOL):
            raise ToolNameCollision(f"{name!r} has the name of a meta-tool ({wire_name(name)!r}); rename it")
    return checked


def _menu(names: Sequence[str], tokens: int) -> str:
    head = f"More tools ({len(names)}) can be found with {SEARCH_TOOLS}"
    for shown in _shorter(len(names)):
        more = f" and {len(names) - shown} more" if shown < len(names) else ""
        text = f"{head}: {', '.join(names[:shown])}{more}." if shown else f"{head}."
        if estimate_tokens(text) <= tokens:
            return text
    return f"{head}."


def _shorter(count: int) -> Iterable[int]:
    while count:
        yield count
        count = count * 4 // 5
    yield 0


class _Index:
    """Keyword overlap with name and description; rare words count more, words of the name twice."""

    def __init__(self, schemas: Mapping[str, ToolSchema]) -> None:
        self._schemas = schemas
        self._weights: dict[str, dict[str, float]] = {}
        frequency: dict[str, int] = {}
        for name, schema in schemas.items():
            weights = dict.fromkeys(words(schema.description), 1.0)
            weights.update(dict.fromkeys(words(name), 2.0))
            for word in weights:
                frequency[word] = frequency.get(word, 0) + 1
            self._weights[name] = weights
        total = len(schemas)
        self._rarity = {word: math.log(1 + total / count) for word, count in frequency.items()}

    def search(self, query: str, excluded: Collection[str], k: int) -> list[ToolSchema]:
        asked = dict.fromkeys(words(query))
        exact = {query.strip(), wire_name(query.strip())}
        scored: list[tuple[float, int, str]] = []
        for position, (name, weights) in enumerate(self._weights.items()):
            if name in excluded:
                continue
            score = sum(weights[word] * self._rarity[word] for word in asked if word in weights)
            if name in exact or wire_name(name) in exact:
                score = math.inf
            if score > 0:
                scored.append((-score, position, name))
        return [self._schemas[name] for _, _, name in sorted(scored)[:k]]
