"""Skills that come with the library: the facts of a memory, and the search of documents.

Laws: what they say to a model names every id in full, so that it can be given back; a store or a retriever may be
plain or async; what is not found is an error result.
Source: guide A, "Built-in Skills".
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from sapwood.context.retrieving import VAULT, Retrieving
from sapwood.context.steps import Retriever, narrowed
from sapwood.core.context_item import ContextItem, QueryBundle
from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.maybe import then
from sapwood.core.memory import MemoryRecord, has_provenance
from sapwood.core.ports import MemoryStore
from sapwood.core.scope import RetrievalScope
from sapwood.core.tools import JsonObject, MaybeAwaitable, ToolContext
from sapwood.memory.recall import shown_line
from sapwood.memory.remember import removed, replaced

if TYPE_CHECKING:
    from sapwood.core.skill import Skill

MAX_HITS = 5
MAX_HIT_CHARACTERS = 500


def memory_skill(memory: MemoryStore) -> "Skill":
    """Return a skill with four tools for facts that last: `save_fact`, `search_facts`, `update_fact`, `delete_fact`.

    memory: a store, such as `create_memory_store()`. The skill is always active. An updated fact gets a new id.
    Raises ConfigError for what is no store.

    >>> from sapwood import create_memory_store
    >>> [tool.name for tool in memory_skill(create_memory_store()).tools]
    ['save_fact', 'search_facts', 'update_fact', 'delete_fact']
    """
    from sapwood.core.skill import Skill

    if not isinstance(memory, MemoryStore):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
        raise ConfigError(
            f"memory_skill takes a memory store (save, search, forget), such as create_memory_store(), not "
            f"{type(memory).__name__}"
        )
    facts = _Facts(memory)
    wanted = _text("words to look for")
    fact_id, content = _text("the id of the fact, as search_facts gives it"), _text("the fact, in a sentence")
    tools = (
        _tool("save_fact", "Keep a fact about the user for later conversations.", facts.save, fact=content),
        _tool("search_facts", "Find facts that were kept.", facts.search, read_only=True, query=wanted),
        _tool("update_fact", "Replace a fact that was kept.", facts.update, fact_id=fact_id, content=content),
        _tool("delete_fact", "Forget a fact that was kept.", facts.delete, fact_id=fact_id),
    )
    return Skill(
        name="memory",
        description="Keep, find, change and forget facts about the user.",
        instructions=(
            "Keep what the user tells of themselves and what lasts beyond this conversation: save_fact. Look with "
            "search_facts before you save, and use update_fact where a fact has changed. Forget what the user asks you "
            "to forget: delete_fact."
        ),
        tools=tools,
        activation="always",
        tags=("core", "memory"),
    )


class _Facts:
    """What the four tools do; each answers at once with a plain store, and later with an async one."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def save(self, fact: str) -> MaybeAwaitable[str]:
        # A store with provenance is told that these are a model's words.
        origin: dict[str, Any] = {"origin": "model"} if has_provenance(self._store) else {}
        return then(cast("Any", self._store).save(_filled(fact), kind="fact", **origin), _saved)

    def search(self, query: str) -> MaybeAwaitable[str]:
        return then(self._store.search(query), _found)

    def update(self, fact_id: str, content: str) -> MaybeAwaitable[str]:
        return then(replaced(self._store, fact_id, _filled(content)), partial(_updated, fact_id))

    def delete(self, fact_id: str) -> MaybeAwaitable[str]:
        return then(removed(self._store, fact_id), lambda done: f"Deleted {fact_id}" if done else _missing(fact_id))


def _filled(text: str) -> str:
    if not text.strip():
        raise ToolError("the fact is empty")
    return text.strip()


def _saved(record: MemoryRecord) -> str:
    return f"Saved: {record.text} (id: {record.id})"


def _updated(fact_id: str, record: MemoryRecord | None) -> str:
    return f"Updated: {record.text} (id: {record.id})" if record is not None else _missing(fact_id)


def _found(records: Sequence[MemoryRecord]) -> str:
    return "\n".join(f"- [{record.id}] {shown_line(record)}" for record in records) or "No fact was found."


def _missing(fact_id: str) -> str:
    raise ToolError(f"there is no fact with the id {fact_id!r}; search_facts shows the ids")


def rag_skill(
    retriever: Retriever | Mapping[str, Retriever],
    embed_fn: Callable[[str], MaybeAwaitable[Sequence[float]]] | None = None,
    *,
    top_k: int = MAX_HITS,
    scope: RetrievalScope | None = None,
) -> "Skill":
    """Return a skill with one tool, `search_docs(query)`, which the model activates when it needs to look something up.

    retriever: a function of the question, or an object with `retrieve`; hits are texts, dictionaries or objects with
    `content` or `text`, and may name a `section`. The question is a QueryBundle, which is a text too; `top_k`,
    `embedding` and `scope` are handed over as well where they are taken. Several retrievers by name give the tool an
    argument `vault`, one of the names; without it all are searched. Whatever they return, at most top_k hits are
    shown, 500 characters of each. embed_fn: makes the embedding of the question. scope: what lies elsewhere is not
    shown; the scope of the agent (`with_scope`) counts beside it.

    Raises ConfigError for what is no retriever.

    >>> skill = rag_skill(lambda query: [f"All about {query}."])
    >>> skill.tools[0].fn("bees")
    'All about bees.'
    """
    from sapwood.core.skill import Skill

    retrieving = Retrieving("rag_skill", retriever)
    if top_k < 1:
        raise ConfigError(f"top_k must be at least 1, not {top_k}")
    search = _Search(retrieving, embed_fn, top_k, scope)
    query = _text("what to look for, in words")
    if retrieving.names:
        vault: JsonObject = {
            "type": "string",
            "enum": list(retrieving.names),
            "description": "where to look; leave it out to look everywhere",
        }
        tool = _tool(
            "search_docs",
            "Search the documents.",
            search.in_vault,
            read_only=True,
            optional=("vault",),
            query=query,
            vault=vault,
        )
    else:
        tool = _tool("search_docs", "Search the documents.", search.run, read_only=True, query=query)
    return Skill(
        name="rag",
        description="Search the documents for what you do not know.",
        instructions=(
            "Call search_docs with a question in words. Answer from what it finds, and say where nothing is found."
        ),
        tools=(tool,),
        tags=("retrieval",),
    )


class _Search:
    def __init__(
        self,
        retrieving: Retrieving,
        embed: Callable[[str], MaybeAwaitable[Sequence[float]]] | None,
        top_k: int,
        scope: RetrievalScope | None,
    ) -> None:
        self._retrieving = retrieving
        self._embed = embed
        self._top_k = top_k
        self._scope = scope

    def run(self, query: str, context: ToolContext | None = None) -> MaybeAwaitable[str]:
        return self._find(query, None, context)

    def in_vault(self, query: str, vault: str | None = None, context: ToolContext | None = None) -> MaybeAwaitable[str]:
        names = self._retrieving.names
        if vault is not None and vault not in names:
            raise ToolError(f"there is no vault {vault!r}; there are {', '.join(names)}")
        return self._find(query, vault, context)

    def _find(self, query: str, vault: str | None, context: ToolContext | None) -> MaybeAwaitable[str]:
        scope = narrowed(context.scope if context is not None else None, self._scope)

        def ask(vector: Sequence[float] | None) -> MaybeAwaitable[str]:
            found = self._retrieving.search(QueryBundle(query, embedding=vector), self._top_k, scope, only=vault)
            return then(found, _told)

        return ask(None) if self._embed is None else then(self._embed(query), ask)


def _told(items: Iterable[ContextItem]) -> str:
    return "\n---\n".join(map(_shown, items)) or "Nothing was found."


def _shown(item: ContextItem) -> str:
    text = item.content
    where = ": ".join(str(part) for name in (VAULT, "section") if (part := item.metadata.get(name)))
    cut = text if len(text) <= MAX_HIT_CHARACTERS else f"{text[:MAX_HIT_CHARACTERS]}…"
    return f"[{where}] {cut}" if where else cut


def _text(description: str) -> JsonObject:
    return {"type": "string", "description": description}


def _tool(
    name: str,
    description: str,
    fn: Callable[..., Any],
    *,
    read_only: bool = False,
    optional: tuple[str, ...] = (),
    **properties: JsonObject,
) -> Any:
    from sapwood.core.agent_tool import AgentTool

    schema = {
        "type": "object",
        "properties": properties,
        "required": [item for item in properties if item not in optional],
    }
    return AgentTool(name=name, description=description, input_schema=schema, fn=fn, read_only=read_only)
