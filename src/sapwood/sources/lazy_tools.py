"""Lazy tools: a large toolset behind `search_tools`, so that its schemas stay out of the context.

Laws: what is loaded is read from the transcript, never from a flag in here; a pattern from the model is words,
never a regular expression; an exact tool name always ranks first; a turn is learnt from once, and only when asked.
Source: guide D, "Lazy toolset".
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, get_args

import msgspec

from sapwood.context.meter import estimate_tokens
from sapwood.context.source import ContextSource, Contribution, Loaded, Selection, Turn
from sapwood.core.errors import ConfigError, ToolNameCollision
from sapwood.core.messages import Message, ToolCall
from sapwood.core.model import ToolLoading
from sapwood.core.names import name_map, wire_name
from sapwood.core.ports import IndexCache, PastRequestStore, Vectors
from sapwood.core.tool_forms import ToolLike, schema_of, to_tool, told
from sapwood.core.tools import (
    CALL_TOOL,
    SEARCH_TOOLS,
    BoundTool,
    ToolSchema,
    call_form,
    call_schema,
    effective,
)


class LazyToolsetOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a lazy toolset behaves.

    pin: names (own or wire) of tools that are always callable. k: tools that one search loads at most.
    menu_tokens: room for the list of names in the system prompt; what does not fit is counted in it.
    loading: how a found tool becomes callable; None takes what the turn says.
    vectors: search by meaning too: `auto` where the extra `vectors` is installed, True, False, or an embedder.
    groups: what is said of the tools whose names begin with a group's name, `notes` for `notes.list`.
    learn: the user's words of a turn in which a found tool ran without an error find that tool from then on.
    store: where what was learnt outlives the process. cache: a file for the index, or its bytes.
    preload: tools that are offered with each prompt, without a search: the best matches for its text.
    """

    pin: Sequence[str] = ()
    k: int = 5
    menu_tokens: int = 300
    loading: ToolLoading | None = None
    vectors: Vectors = "auto"
    groups: Mapping[str, str] = {}
    learn: bool = False
    store: PastRequestStore | None = None
    cache: IndexCache | None = None
    preload: int = 0


LazyToolSourceOptions = LazyToolsetOptions


class LazyToolset:
    """Tools of which a model sees only a search, a short menu and the pinned ones, until it searches.

    Driven by hand it keeps what it loaded; a source passes `loaded` and keeps nothing here.
    Raises ToolNameCollision where two names become one, ConfigError for an unknown name in `pin`.
    """

    def __init__(self, tools: Iterable[ToolLike], options: LazyToolsetOptions) -> None:
        from sapwood.retrieval.tool_search import ToolSearch  # on first use: run_agent imports this file

        if options.k < 1:
            raise ConfigError(f"k must be at least 1, not {options.k}")
        if options.loading is not None and options.loading not in get_args(ToolLoading):
            known = ", ".join(get_args(ToolLoading))
            raise ConfigError(f"loading is one of {known}, or None for the model's, not {options.loading!r}")
        if options.preload < 0:
            raise ConfigError(f"preload must be 0 (none) or more, not {options.preload}")
        if options.store is not None and not options.learn:
            raise ConfigError("a store of past requests is given, but learn is False; set learn=True to use it")
        self.options = options
        self._tools = {schema_of(tool).name: tool for tool in _checked(tools)}
        self.name_map: Mapping[str, str] = name_map(self._tools)
        self.pinned = tuple(self._pin(name) for name in options.pin)
        self.loaded: dict[str, None] = {}
        self._search = ToolSearch(
            lambda: [schema_of(tool) for tool in self._tools.values()],
            vectors=options.vectors,
            groups=options.groups,
            cache=options.cache,
            store=options.store,
        )

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
        found = self._best(query, self.options.k, known)
        if loaded is None:
            self.loaded.update(dict.fromkeys(schema.name for schema in found))
        return found

    def matches(self, request: str, *, loaded: Collection[str]) -> list[ToolSchema]:
        """Return the best tools for a user's request, at most `preload`; never one that is loaded or pinned already.

        loaded: own names.
        """
        return self._best(request, self.options.preload, loaded) if self.options.preload and request.strip() else []

    def _best(self, query: str, k: int, known: Collection[str]) -> list[ToolSchema]:
        names = self._search.search(query, k=k, without={*known, *self.pinned})
        return [schema_of(self._tools[name]) for name in names if name in self._tools]

    def handle(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        """Answer a `search_tools` call by hand; None for any other name."""
        if name != SEARCH_TOOLS:
            return None
        return search_result(self.search(str(arguments.get("query", ""))), with_schemas=False)

    def scores(self, query: str) -> dict[str, float]:
        """Return own names of the tools that a query finds, with their scores: about 0 to 1, higher is better."""
        return self._search.scores(query)

    def add(self, tools: Iterable[ToolLike]) -> None:
        """Add tools, as when a server has new ones; one of a name that is here is replaced. The index follows.

        Raises ToolNameCollision where two names become one.
        """
        added = {schema_of(tool).name: tool for tool in _checked(tools)}
        merged = {**self._tools, **added}
        self.name_map, self._tools = name_map(merged), merged
        self._search.add(schema_of(tool) for tool in added.values())

    def remove(self, name: str) -> bool:
        """Remove a tool that is not pinned, by its own or wire name; False where there is none.

        Raises ConfigError for a pinned one.
        """
        original = self.own_name(name)
        if original in self.pinned:
            raise ConfigError(f"{name!r} is pinned; a pinned tool cannot be removed")
        if original is None:
            return False
        kept = {own: tool for own, tool in self._tools.items() if own != original}
        self.name_map, self._tools = name_map(kept), kept
        self.loaded.pop(original, None)
        self._search.remove(original)
        return True

    def learn(self, request: str, tools: Iterable[str], *, run_id: str = "") -> list[str]:
        """Keep a request for the tools that served it, by own or wire name; return those for which it was new.

        run_id: a run is learnt from once. Works whatever `learn` says: that is for turns.
        """
        names = (self.own_name(name) for name in tools)
        return self._search.learn([name for name in names if name is not None], request, run_id=run_id)

    def prepare(self) -> None:
        """Make the index, or load it from the cache, now and not in the first search; as when a server starts."""
        self._search.prepare()

    def index_bytes(self) -> bytes:
        """Return the index of the tools as they are now, for `cache=`; what was learnt is not in it."""
        return self._search.to_bytes()

    def own_name(self, name: str) -> str | None:
        """Return the own name of a tool that is called by its own or its wire name; None where there is none."""
        return name if name in self._tools else self.name_map.get(name)

    def _pin(self, name: str) -> str:
        original = self.own_name(name)
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
        toolset, loading = self._toolset, self._loading(turn)
        sent: list[ToolSchema | BoundTool] = [SEARCH_SCHEMA]
        meta = [SEARCH_TOOLS]
        if loading == "dispatch" or (loading != "relist" and toolset.options.preload):
            sent.append(call_schema(free_objects=turn.free_objects))
            meta.append(CALL_TOOL)
        return Contribution(
            tools=[*sent, *toolset.bound(toolset.pinned)],
            hidden=toolset.bound(toolset.hidden),
            system=toolset.menu,
            meta_tools=meta,
            name_map=toolset.name_map,
            loading=loading,
        )

    def handle(self, call: ToolCall, turn: Turn) -> Loaded | None:
        """Answer a search: the found tools become callable."""
        if call.name == CALL_TOOL:
            return Loaded(result=f"{CALL_TOOL} needs {call_form(free_objects=turn.free_objects)}", is_error=True)
        if call.name != SEARCH_TOOLS:
            return None
        query = call.arguments.get("query")
        if not isinstance(query, str):
            return Loaded(result="search_tools needs a query of words, such as create invoice", is_error=True)
        found = self._toolset.search(query, loaded=turn.loaded)
        loading = self._loading(turn)
        form = call_form(free_objects=turn.free_objects) if loading == "dispatch" else ""
        result = search_result(found, with_schemas=loading != "relist", form=form)
        return Loaded(result=result, tools=tuple(schema.name for schema in found))

    def commit(self, turn: Turn) -> None:
        """Learn from the turn, where that was asked for: which found tools ran without an error."""
        if self._toolset.options.learn:
            pinned = self._toolset.pinned
            used = [name for name in _ran(turn.messages, turn.text) if self._toolset.own_name(name) not in pinned]
            self._toolset.learn(turn.text, used, run_id=turn.run_id)

    def _loading(self, turn: Turn) -> ToolLoading:
        return self._toolset.options.loading or turn.tool_loading


class PreloadingSource(LazyToolSource):
    """A source that also offers the best matches for the prompt itself, in a text beside it."""

    def select(self, turn: Turn, room: int) -> Selection | None:
        """Return the definitions of the best matches, as many as fit the room; they are callable from then on."""
        found = self._toolset.matches(turn.text, loaded=turn.loaded)
        while found:
            text = self._offer(found, turn)
            if turn.count(text) <= room:
                names = tuple(schema.name for schema in found)
                label = f"tools for this request: {', '.join(names)}"
                return Selection(text=text, label=label, section="tools", placement="turn", tools=names)
            found.pop()
        return None

    def _offer(self, found: Sequence[ToolSchema], turn: Turn) -> str:
        # The list of tools stays as it is, so what is described here is called through the one fixed tool.
        if self._loading(turn) == "relist":
            names = ", ".join(wire_name(schema.name) for schema in found)
            return f"These tools may fit the request and can be called now: {names}."
        form = call_form(free_objects=turn.free_objects)
        head = f"These tools may fit the request; run one with {CALL_TOOL}: {form}."
        return "\n".join([head, *(told(schema) for schema in found)])


def lazy_toolset(
    tools: Iterable[ToolLike],
    options: LazyToolsetOptions | None = None,
    *,
    pin: Sequence[str] = (),
    k: int = 5,
    menu_tokens: int = 300,
    loading: ToolLoading | None = None,
    vectors: Vectors = "auto",
    groups: Mapping[str, str] | None = None,
    learn: bool = False,
    store: PastRequestStore | None = None,
    cache: IndexCache | None = None,
    preload: int = 0,
) -> LazyToolset:
    """Return a toolset whose schemas stay out of the context until they are searched for.

    >>> lazy = lazy_toolset([{"name": "notes.list", "description": "List notes"}])
    >>> [tool.name for tool in lazy.search("list my notes")]
    ['notes.list']
    """
    options = options or LazyToolsetOptions(
        pin=pin,
        k=k,
        menu_tokens=menu_tokens,
        loading=loading,
        vectors=vectors,
        groups=groups or {},
        learn=learn,
        store=store,
        cache=cache,
        preload=preload,
    )
    return LazyToolset(tools, options)


def lazy_tool_source(
    tools: Iterable[ToolLike] | LazyToolset,
    options: LazyToolsetOptions | None = None,
    *,
    pin: Sequence[str] = (),
    k: int = 5,
    menu_tokens: int = 300,
    loading: ToolLoading | None = None,
    vectors: Vectors = "auto",
    groups: Mapping[str, str] | None = None,
    learn: bool = False,
    store: PastRequestStore | None = None,
    cache: IndexCache | None = None,
    preload: int = 0,
) -> LazyToolSource:
    """Return a source named `tools` that defers a toolset behind `search_tools`.

    >>> lazy_tool_source([{"name": "notes.list"}], k=6).name
    'tools'
    """
    if isinstance(tools, LazyToolset):
        return _source_over(tools)
    toolset = lazy_toolset(
        tools,
        options,
        pin=pin,
        k=k,
        menu_tokens=menu_tokens,
        loading=loading,
        vectors=vectors,
        groups=groups,
        learn=learn,
        store=store,
        cache=cache,
        preload=preload,
    )
    return _source_over(toolset)


def _source_over(toolset: LazyToolset) -> LazyToolSource:
    return PreloadingSource(toolset) if toolset.options.preload else LazyToolSource(toolset)


def search_result(found: Sequence[ToolSchema], *, with_schemas: bool, form: str = "") -> dict[str, Any]:
    """Return what the model is told of a search.

    with_schemas: the definitions do not come to the model in another way, so they stand here. form: how a found tool
    is called through `call_tool`; empty where it is called by its own name.
    """
    entries: list[dict[str, Any]] = []
    for schema in found:
        entry: dict[str, Any] = {"name": wire_name(schema.name), "description": schema.description}
        if with_schemas:
            entry["input_schema"] = schema.input_schema
        entries.append(entry)
    if not found:
        note = "No other tool matches; search again with other words."
    elif form:
        note = f"Run one with {CALL_TOOL}: {form}."
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


def _ran(messages: Sequence[Message], prompt: str) -> list[str]:
    """Return the tools that ran without an error since the prompt, by own name, the last one first."""
    names: dict[str, None] = {}
    failed: set[str] = set()
    for message in reversed(messages):
        if message.role == "user" and message.text == prompt:
            break
        failed.update(result.key for result in message.tool_results if result.is_error)
        calls = (call for call in message.tool_calls if call.key and call.key not in failed)
        names.update(dict.fromkeys(effective(call).name for call in calls))
    return list(names)
