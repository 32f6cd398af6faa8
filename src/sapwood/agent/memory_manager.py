"""MemoryManager: the newest turns of a conversation, and the facts that outlast it, for one agent or several.

Laws: the record is of real messages, so that a tool's text is never the user's; what a prompt gets of the facts is
what fits it, under the budget; ids are given in full; without a store there are no facts, and nothing is lost quietly.
Source: guide A, "with_memory".
"""

import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from sapwood.agent.durable import Keeping
from sapwood.agent.memory_window import MemoryWindow, OnEvict
from sapwood.context.meter import Meter
from sapwood.context.tokenizer import Tokenizer, counter_of
from sapwood.core.context_item import CONVERSATION_PRIORITY, FACT_PRIORITY, ContextItem, SourceType, conversation_items
from sapwood.core.errors import ConfigError, StoreError
from sapwood.core.maybe import then
from sapwood.core.memory import MemoryRecord, RecallOptions, has_provenance
from sapwood.core.messages import Message
from sapwood.core.ports import MemoryStore
from sapwood.core.require import require_number
from sapwood.core.tools import MaybeAwaitable
from sapwood.memory.consolidate import Consolidate
from sapwood.memory.learn import Extract
from sapwood.memory.recall import CHUNK, TURN, shown_line
from sapwood.memory.remember import removed, replaced
from sapwood.sources.memory import MemorySource, Remember, memory_source, store_of

WINDOW_TOKENS = 4_096
_MOST_TOKENS = 100_000_000


class MemoryManager:
    """What an agent remembers: the conversation as far as a window holds it, and facts in a store.

    store: of the facts, such as `InMemoryEntryStore()`, `JsonFileMemoryStore(path)` or
    `SqliteStore(path).memory.scoped(user=...)`; None for none. A memory without a scope has the facts of all users.
    persistent_store: the same under another name. conversation_tokens: how many tokens of past turns are kept; the
    oldest turns go first, whole. on_evict: told of the messages that go. tokenizer: an exact counter; None estimates.
    recall: how facts are searched for a prompt. remember, extractor, consolidator: see `memory_source`; remember_every:
    turns that are gathered for one call of the extractor; extract_window: turns that it sees at most. keep_turns: keep
    each turn word for word in the store, so that it is found after it has left the window; None does it where the store
    can say who said what.

    With `with_conversation` the history is in that store, and this has the facts alone. Raises ConfigError for values
    that cannot work.

    >>> from sapwood import Agent, InMemoryEntryStore
    >>> from sapwood.testing import says, scripted
    >>> memory = MemoryManager(store=InMemoryEntryStore())
    >>> agent = Agent(llm=scripted(says("Hello Ann."), says("Ann."))).with_memory(memory)
    >>> _ = [*agent.chat("I am Ann."), *agent.chat("Who am I?")]
    >>> [message.role for message in memory.messages]
    ['user', 'assistant', 'user', 'assistant']
    """

    def __init__(
        self,
        store: MemoryStore | None = None,
        *,
        persistent_store: MemoryStore | None = None,
        conversation_tokens: int = WINDOW_TOKENS,
        tokenizer: Tokenizer | None = None,
        on_evict: OnEvict | None = None,
        recall: RecallOptions | None = None,
        remember: Remember | None = None,
        extractor: Extract | None = None,
        consolidator: Consolidate | None = None,
        remember_every: int = 1,
        extract_window: int = 10,
        keep_turns: bool | None = None,
    ) -> None:
        if store is not None and persistent_store is not None:
            raise ConfigError("store and persistent_store are two names of one thing; give one of them")
        store = store if store is not None else persistent_store
        if store is not None and not isinstance(store, MemoryStore):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"a memory store has save, search and forget; {type(store).__name__} has not all of them")
        if store is None and (remember is not None or extractor is not None or keep_turns):
            raise ConfigError("remember, extractor and keep_turns need a store for what they keep; give store=")
        require_number("conversation_tokens", conversation_tokens, most=_MOST_TOKENS, rule="is a number of tokens")
        self._store = store
        meter = Meter(counter_of(tokenizer))

        def size(message: Message) -> int:
            return meter.raw_message(message).total

        self._window = MemoryWindow(f"memory-{uuid.uuid4().hex}", conversation_tokens, size, on_evict)
        self._source: MemorySource | None = None
        self._again = partial(
            MemoryManager,
            conversation_tokens=conversation_tokens,
            tokenizer=tokenizer,
            on_evict=on_evict,
            recall=recall,
            remember=remember,
            extractor=extractor,
            consolidator=consolidator,
            remember_every=remember_every,
            extract_window=extract_window,
            keep_turns=keep_turns,
        )
        if store is not None:
            self._source = memory_source(
                store,
                recall=recall,
                remember=remember,
                keep_turns=has_provenance(store) if keep_turns is None else keep_turns,
                extract=extractor,
                consolidate=consolidator,
                extract_every=remember_every,
                extract_window=extract_window,
            )

    def scoped(self, user: str) -> "MemoryManager":
        """Return a manager as this one is, with an empty window, over the facts of a user.

        Raises ConfigError for a store that knows no users, or belongs to another one.
        """
        return self._again(store=store_of(self._store, user) if self._store is not None else None)

    # -- the conversation --------------------------------------------------------------------------

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages in the window, oldest first."""
        return self._window.messages

    def add_message(self, message: Message) -> None:
        """Add a message that no turn brought, such as one from before this process."""
        self._window.add([message], uuid.uuid4().hex)

    def clear(self) -> MaybeAwaitable[None]:
        """Empty the window and forget all facts of the store.

        Raises ConfigError for a store that others may share (`SqliteStore(path).memory` without a scope).
        """
        self._window.clear()
        store: Any = self._store
        if store is None:
            return None
        if hasattr(store, "forget_all"):
            return then(store.forget_all(), _nothing)
        return then(self.get_all_facts(), partial(_forget_each, store))

    def get_context_items(self, priority: int = CONVERSATION_PRIORITY, query: object = "") -> Any:
        """Return facts for a question and the window as items, for a `ContextPipeline`."""
        said = conversation_items(self.messages, priority=priority)
        if self._store is None:
            return said
        return then(self.get_relevant_facts(str(query)), lambda facts: [*map(_as_item, facts), *said])

    # -- the facts ---------------------------------------------------------------------------------

    @property
    def store(self) -> MemoryStore:
        """The store of the facts. Raises StoreError where there is none."""
        if self._store is None:
            raise StoreError("this memory has no store for facts; give MemoryManager(store=InMemoryEntryStore())")
        return self._store

    def add_fact(self, content: str, *, kind: str = "fact", meta: dict[str, Any] | None = None) -> Any:
        """Keep a fact and return its record; of a fact that is known already, the record that is there."""
        return self.store.save(_filled(content), kind=kind, meta=meta)

    def get_relevant_facts(self, query: str, top_k: int = 5) -> MaybeAwaitable[Sequence[MemoryRecord]]:
        """Return the facts that fit a question, best first."""
        if top_k <= 0:
            return []
        # A store with provenance may hold turns as well, and pieces of documents.
        without: dict[str, Any] = {"without": (TURN, CHUNK)} if has_provenance(self.store) else {}
        found: MaybeAwaitable[Sequence[MemoryRecord]] = cast("Any", self.store).search(query, k=top_k, **without)
        return found

    def get_all_facts(self) -> MaybeAwaitable[Sequence[MemoryRecord]]:
        """Return every fact, oldest first. Raises StoreError for a store that cannot list."""
        everything = getattr(self.store, "all", None)
        if everything is None:
            raise StoreError(f"{type(self.store).__name__} cannot list what it holds: it has no all()")
        return then(everything(), lambda records: [item for item in records if item.kind not in (TURN, CHUNK)])

    def update_fact(self, fact_id: str, content: str) -> MaybeAwaitable[MemoryRecord | None]:
        """Put another text in place of a fact, and return its record; None where there is no such fact."""
        return replaced(self.store, fact_id, _filled(content))

    def delete_fact(self, fact_id: str) -> MaybeAwaitable[bool]:
        """Forget a fact; False where there is none of that id."""
        return removed(self.store, fact_id)

    # -- as a memory store -------------------------------------------------------------------------

    def save(self, text: str, *, kind: str | None = None, meta: Any = None) -> MaybeAwaitable[MemoryRecord]:
        """Keep a text in the store, so that a manager stands wherever a memory store is asked for."""
        return self.store.save(text, kind=kind, meta=meta)

    def search(
        self, query: str, *, k: int = 5, kind: str | None = None, min_score: float = 0.0
    ) -> MaybeAwaitable[list[MemoryRecord]]:
        """Search the store."""
        return self.store.search(query, k=k, kind=kind, min_score=min_score)

    def forget(self, id: str) -> MaybeAwaitable[bool]:
        """Forget a record of the store."""
        return self.store.forget(id)

    # -- for the agent -----------------------------------------------------------------------------

    def sources(self) -> tuple[MemorySource, ...]:
        """What recalls facts in a turn, and keeps what comes of it; nothing without a store."""
        return (self._source,) if self._source is not None else ()

    def keeping(self, before: Keeping) -> Keeping:
        """Return where the turns of an agent are kept that has this memory."""
        return before if before.conversations is not None else self._window.keeping(before)


def _filled(content: str) -> str:
    if not content.strip():
        raise ConfigError("the fact is empty")
    return content.strip()


def _as_item(record: MemoryRecord) -> ContextItem:
    metadata = {"id": record.id, "origin": record.origin}
    return ContextItem(
        content=shown_line(record),
        source=SourceType.MEMORY,
        score=record.score or 0.0,
        priority=FACT_PRIORITY,
        metadata=metadata,
    )


def _forget_each(store: MemoryStore, records: Sequence[MemoryRecord]) -> MaybeAwaitable[None]:
    if not records:
        return None
    return then(store.forget(records[0].id), lambda _: _forget_each(store, records[1:]))


def _nothing(_: object) -> None:
    return None
