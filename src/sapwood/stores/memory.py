"""Memory: long-term memory as users see it, over any backend.

Laws: a memory is a handle on a scope, which can only be narrowed; whatever it does, it does within that scope, and
what lies outside is as if it were not there. What it returns are copies.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from sapwood.core import fault
from sapwood.core.errors import ConfigError
from sapwood.core.memory import UNTRUSTED, MemoryRecord, MemoryScope, Origin
from sapwood.core.require import MOST, require_mapping, require_series, require_text, shown
from sapwood.core.scope import RetrievalScope
from sapwood.stores import memory_rules as rules
from sapwood.stores.embedding import Embedding
from sapwood.stores.memory_checks import (
    ids_of,
    origins_of,
    require_any_number,
    require_scope,
    require_some_text,
    require_whole,
)
from sapwood.stores.memory_corpus import ScopeCorpus
from sapwood.stores.memory_find import Question, find, near_duplicates
from sapwood.stores.memory_home import MemoryHome, reembed
from sapwood.stores.memory_index import BATCH, begin_anew, problems, terms_of
from sapwood.stores.memory_rows import MemoryRow, MemoryRows
from sapwood.stores.memory_values import Draft, NewMemory, Time, checked, drafted, from_body, in_ms, new_memory

_TIMES = ("valid_from", "valid_to", "expires_at")
_CHANGEABLE = frozenset({"text", "meta", "kind", "title", "speaker", "importance", "origin", "derived_from", *_TIMES})
_PAGE = 500


class MemoryStats(msgspec.Struct, frozen=True):
    """How much a memory holds.

    records: all; current: those that a search may find. spaces: users, agents and namespaces, each together, that have
    any. vectors: of the embedder that is in use. embedder: its name.
    """

    records: int = 0
    current: int = 0
    superseded: int = 0
    quarantined: int = 0
    spaces: int = 0
    vectors: int = 0
    embedder: str | None = None


class Memory:
    """Records within a scope: saved, searched, corrected, forgotten. Its methods are plain functions, for any thread.

    Not made by hand: it is `SqliteStore(...).memory`, `InProcessStore().memory` or `create_memory_store()`.

    >>> from sapwood import create_memory_store
    >>> ann = create_memory_store().scoped(user="ann")
    >>> record = ann.save("Ann lives in Porto", kind="fact")
    >>> newer = ann.correct(record.id, "Ann lives in Turin")
    >>> [found.text for found in ann.search("Where does Ann live?")]
    ['Ann lives in Turin']
    >>> [found.text for found in ann.history(newer.id)]
    ['Ann lives in Porto', 'Ann lives in Turin']
    """

    def __init__(self, home: MemoryHome, scope: MemoryScope = MemoryScope()) -> None:  # noqa: B008 - frozen
        self._home = home
        self._scope = scope

    @property
    def scope(self) -> MemoryScope:
        """What this handle reaches."""
        return self._scope

    @property
    def waits(self) -> bool:
        """Its methods wait for a disk, so a source over it is asked beside the event loop of an async turn."""
        return self._home.waits

    def scoped(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        conversation: str | None = None,
        namespace: Sequence[str] = (),
    ) -> "Memory":
        """Return a handle on a part of this scope; a namespace is added below this one's.

        Raises ConfigError for another user, agent or conversation than this one's.
        """
        require_series("namespace", namespace, "texts, such as ('team', 'nord')")
        return Memory(
            self._home,
            self._scope.narrowed(user=user, agent=agent, conversation=conversation, namespace=tuple(namespace)),
        )

    # -- saving ----------------------------------------------------------------------------------

    def save(
        self,
        text: str,
        *,
        kind: str | None = None,
        meta: Mapping[str, Any] | None = None,
        origin: Origin = "user",
        conversation: str | None = None,
        turn: str | None = None,
        speaker: str | None = None,
        title: str | None = None,
        at: Time | None = None,
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        expires_at: Time | None = None,
        derived_from: Iterable[str] = (),
        supersedes: str | None = None,
        importance: float = 0.5,
        quarantined: bool = False,
        key: str | None = None,
    ) -> MemoryRecord:
        """Keep a text and return its record.

        What says the same as a current record of this scope is not kept twice: the first record is returned, with keys
        of `meta` that it lacked. Turns of a conversation (kind `turn`) are all kept. at: when it was said, now by
        default; a datetime without a zone is UTC. key: a second save with it, into the same conversation or again into
        none, returns the record of the first until that has ended.
        """
        new = NewMemory(
            text=text, kind=kind, meta=meta, origin=origin, conversation=conversation, turn=turn, speaker=speaker,
            title=title, at=at, valid_from=valid_from, valid_to=valid_to, expires_at=expires_at,
            derived_from=ids_of(derived_from), supersedes=supersedes, importance=importance, quarantined=quarantined,
            key=key,
        )  # fmt: skip
        return self.save_many([new])[0]

    def save_many(self, records: Iterable[NewMemory | Mapping[str, Any]]) -> list[MemoryRecord]:
        """Keep several, all or none, in one transaction; each is a NewMemory or a dictionary of its fields."""
        require_series("save_many", records, "records")
        now = self._home.now()
        drafts = [drafted(new_memory(item), self._scope, id=self._home.new_id(), now=now) for item in records]
        if not drafts:
            return []
        vectors = self._home.vectors(_texts(draft.record for draft in drafts))
        saved = self._home.write(lambda rows: rules.save(rows, drafts, vectors, now))
        fault.point("memory.saved")
        return saved

    def replace_all(
        self, records: Iterable[NewMemory | Mapping[str, Any]], *, kind: str | None = None
    ) -> list[MemoryRecord]:
        """Keep these in place of all records of this scope, or of all of a kind, in one transaction.

        Raises ConfigError on a handle that names nobody, as `forget_all` does.
        """
        self._require_named()
        require_series("replace_all", records, "records")
        require_text("kind", kind)
        now = self._home.now()
        drafts = [drafted(new_memory(item), self._scope, id=self._home.new_id(), now=now) for item in records]
        vectors = self._home.vectors(_texts(draft.record for draft in drafts))

        def change(rows: MemoryRows) -> list[MemoryRecord]:
            rules.forget_all(rows, self._scope, kind=kind, origin=None, before=None)
            return rules.save(rows, drafts, vectors, now)

        return self._home.write(change)

    def update(self, id: str, **changes: Any) -> MemoryRecord | None:
        """Change a record in place, and what a search finds; None where there is none of that id.

        changes: text, meta, kind, title, speaker, importance, valid_from, valid_to, expires_at, origin, derived_from.
        Where another
        record says the same already, that one is returned and this one is gone. `correct` keeps what was said before.
        """
        if unknown := changes.keys() - _CHANGEABLE:
            raise ConfigError(f"{min(unknown)} of a record does not change; these do: {', '.join(sorted(_CHANGEABLE))}")
        for name in _TIMES:
            if name in changes:
                changes[name] = in_ms(name, changes[name])
        if "derived_from" in changes:
            changes["derived_from"] = ids_of(changes["derived_from"])
        now = self._home.now()
        before = self._row(id)
        if before is None:
            return None
        changed = checked(from_body(before.body).replace(**changes))
        vectors = self._home.vectors(_texts([changed]) if changes.keys() & {"text", "title", "speaker"} else [])
        return self._home.write(lambda rows: rules.update(rows, self._scope, id, changes, vectors, now))

    def correct(self, id: str, text: str, **more: Any) -> MemoryRecord | None:
        """Save what is true instead; the old record leaves recall and stays in the history.

        more: as of `save`; kind, meta, title and speaker are those of the old record where they are not given, and so
        are quarantine, and the origin of a tool's or the web's text. The new one belongs to the same user, agent,
        namespace and conversation. Returns None where there is none of that id.
        """
        now = self._home.now()
        if given := more.keys() & {"supersedes", "conversation"}:
            raise ConfigError(f"a correction has the {given.pop()} of what it corrects")
        before = self._row(id)
        if before is None:
            return None
        old = from_body(before.body)
        # A stranger's text is corrected by a stranger, unless it is said who did: it stays quoted, and in quarantine.
        inherited = {"origin": old.origin if old.origin in UNTRUSTED else "user", "quarantined": old.quarantined}
        new = new_memory({"text": text, **inherited, **more, "derived_from": ids_of(more.get("derived_from", ()))})
        draft = drafted(new, self._scope, id=self._home.new_id(), now=now)
        likely = draft.record.replace(
            title=draft.record.title or old.title, speaker=draft.record.speaker or old.speaker
        )
        vectors = self._home.vectors(_texts([likely]))
        return self._home.write(lambda rows: rules.correct(rows, self._scope, id, draft, vectors, now))

    def confirm(self, id: str) -> bool:
        """Let a record out of quarantine, so that it is recalled; False where none of that id is in it."""
        row = self._row(id)
        if row is None:
            return False
        vectors = self._home.vectors([terms_of(from_body(row.body)).vector_text])
        return self._home.write(lambda rows: rules.confirm(rows, self._scope, id, vectors, self._home.now()))

    # -- finding ---------------------------------------------------------------------------------

    def search(
        self,
        query: str,
        *,
        k: int = 5,
        kind: str | None = None,
        min_score: float = 0.0,
        since: Time | None = None,
        until: Time | None = None,
        meta: Mapping[str, Any] | None = None,
        origins: Collection[Origin] | None = None,
        conversation: str | None = None,
        as_of: Time | None = None,
        with_superseded: bool = False,
        within: RetrievalScope | None = None,
        without: Collection[str] = (),
    ) -> list[MemoryRecord]:
        """Return at most k records that score above min_score, from 0 to 1, best first, equal ones newest first.

        Without an embedder a record is found by its words alone; a blank query finds nothing. since, until: when it
        was said, the second left out. meta: these keys have these values. origins: who said it. as_of: what was true
        at a time, by valid_from and valid_to, corrected or not. with_superseded: what was corrected, too. within: only
        in the namespaces that this allows, each as a path from the root. without: none of these kinds.
        """
        require_some_text("query", query)
        require_whole("k", k)
        require_any_number("min_score", min_score)
        require_text("kind", kind)
        if meta is not None:
            require_mapping("meta", meta, "values that records have, by key")
        require_scope("within", within)
        asked = Question(
            kind=kind, since=in_ms("since", since), until=in_ms("until", until), meta=meta, origins=origins_of(origins),
            as_of=in_ms("as_of", as_of), with_superseded=with_superseded, within=within, without=tuple(without),
        )  # fmt: skip
        scope = self._scope.narrowed(conversation=conversation)
        if k <= 0 or not query.strip():
            return []
        return find(self._home, scope, query, k, min_score, asked)

    def get(self, id: str) -> MemoryRecord | None:
        """Return the record of an id, whether it is recalled or not; None where there is none."""
        row = self._row(id)
        return from_body(row.body) if row is not None else None

    def all(self, *, kind: str | None = None, limit: int | None = None) -> list[MemoryRecord]:
        """Return all records but those that were corrected, oldest first; limit: the newest so many."""
        require_text("kind", kind)
        if limit is not None:
            require_whole("limit", limit)
        now = self._home.now()
        most = MOST if limit is None else min(limit, MOST)
        found = self._home.read(lambda rows: rules.newest(rows, self._scope, kind, now, most))
        return [from_body(row.body) for row in found]

    def history(self, id: str) -> list[MemoryRecord]:
        """Return what a record corrected, itself, and what corrected it, oldest first; empty for an unknown id."""
        return self._home.read(lambda rows: rules.history(rows, self._scope, id)) if _is_id(id) else []

    def similar(self, text: str, *, least: float = 0.85, k: int = 5) -> list[MemoryRecord]:
        """Return records that say nearly the same as a text, the nearest first, with how near as the score, 0 to 1.

        Nearness is the share of pieces of three letters that both have. Nothing is ever left out by it: what to do
        with a near duplicate is for the caller to say.
        """
        return near_duplicates(self._home, self._scope, text, least, k)

    # -- forgetting ------------------------------------------------------------------------------

    def forget(self, id: str, *, cascade: bool = True) -> bool:
        """Remove a record with all that it corrected; True only where it was there.

        cascade: also what was derived from any of these. Nothing of them stays in a file of the store.
        """
        if not _is_id(id):
            return False
        return bool(self._home.write(lambda rows: rules.forget(rows, self._scope, [id], cascade=cascade)))

    def forget_all(
        self,
        *,
        kind: str | None = None,
        origin: Origin | None = None,
        before: Time | None = None,
        everything: bool = False,
    ) -> int:
        """Remove all records of this scope, with all that was derived from them, and return how many.

        kind, origin, before: only those of a kind, an origin, or said before a time. everything: must be True on a
        handle that names nobody, as that is the whole store.
        """
        if not everything:
            self._require_named()
        until = in_ms("before", before)
        require_text("kind", kind)
        if origin is not None:
            origins_of([origin])
        return self._home.write(
            lambda rows: rules.forget_all(rows, self._scope, kind=kind, origin=origin, before=until)
        )

    def _require_named(self) -> None:
        if self._scope == MemoryScope():
            raise ConfigError(
                "forget_all on a memory that names no user, agent, conversation or namespace removes the records of "
                "all; narrow it with scoped(user=...), or say everything=True"
            )

    def expire(self, now: Time | None = None) -> int:
        """Remove what is past its `expires_at`, and return how many; what is past it is not recalled in any case."""
        at = in_ms("now", now) if now is not None else self._home.now()
        return self._home.write(lambda rows: rules.end(rows, self._scope, at))

    # -- keeping ---------------------------------------------------------------------------------

    def stats(self) -> MemoryStats:
        """Return how much this scope holds."""
        return self._home.read(lambda rows: _stats(rows, self._scope, self._home.embedding))

    def check(self) -> list[str]:
        """Return where index and records do not agree, in words; an empty list when all is well. Reads everything."""

        def look(rows: MemoryRows) -> list[str]:
            return problems(rows, [space.number for space in rules.covered(rows, self._scope)])

        return self._home.read(look)

    def reindex(self) -> int:
        """Make the index of this scope anew from its records, and return how many are indexed."""

        def begin(rows: MemoryRows) -> None:
            begin_anew(rows, [space.number for space in rules.covered(rows, self._scope)])

        self._home.write(begin)
        self._home.fill()
        return self._home.read(lambda rows: ScopeCorpus(rows, self._scope, with_old=True).count)

    def reembed(self) -> int:
        """Make the vectors that are missing, a batch at a time, remove those of other embedders; return how many."""
        embedding = self._home.embedding
        if embedding is None:
            raise ConfigError("this store was opened without an embedder, so there is nothing to make vectors with")

        def spaces(rows: MemoryRows) -> list[int]:
            return [space.number for space in rules.covered(rows, self._scope)]

        return reembed(self._home, spaces, embedding)

    def export(self) -> Iterator[dict[str, Any]]:
        """Yield every record of this scope, corrected ones too, as a dictionary that JSON can carry; see `load`."""
        after = 0
        while page := self._home.read(partial(rules.page_of, scope=self._scope, after=after, limit=_PAGE)):
            for row in page:
                record: dict[str, Any] = msgspec.to_builtins(from_body(row.body))
                yield {**record, "key": row.key} if row.key is not None else record
            after = page[-1].number

    def load(self, records: Iterable[Mapping[str, Any] | MemoryRecord]) -> int:
        """Add exported records under their own ids, and return how many were added.

        One whose id is there already is left as it is, so a load may be repeated. Raises ConfigError for a record that
        belongs to somebody whom this scope does not cover.
        """
        require_series("load", records, "exported records")
        count = 0
        batch: list[Draft] = []
        for item in records:
            batch.append(loaded(item, self._scope) if isinstance(item, MemoryRecord) else _exported(item, self._scope))
            if len(batch) >= BATCH:
                count += self._load(batch)
                batch = []
        return count + (self._load(batch) if batch else 0)

    def _load(self, drafts: Sequence[Draft]) -> int:
        vectors = self._home.vectors(_texts(draft.record for draft in drafts))
        return self._home.write(lambda rows: rules.load(rows, self._scope, drafts, vectors))

    def _row(self, id: str) -> MemoryRow | None:
        if not _is_id(id):
            return None
        now = self._home.now()
        row = self._home.read(lambda rows: rules.found(rows, self._scope, id))
        return row if row is not None and not rules.is_over(row, now) else None


def _exported(item: Mapping[str, Any], scope: MemoryScope) -> Draft:
    require_mapping("a record to load", item, "an exported record")
    fields = dict(item)
    key = fields.pop("key", None)
    require_text("key", key)
    try:
        record = msgspec.convert({**fields, "type": "memory_record"}, MemoryRecord)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{shown(item)} is no exported record: {error}") from error
    return loaded(record, scope, key)


def loaded(record: MemoryRecord, scope: MemoryScope, key: str | None = None) -> Draft:
    """Return a record as it is to be stored under its own id; raises ConfigError where the scope does not cover it."""
    conversation = record.conversation if record.conversation is not None else record.scope.conversation
    record = record.replace(conversation=conversation, scope=record.scope.replace(conversation=conversation))
    if not scope.covers(record.scope):
        raise ConfigError(f"record {record.id!r} belongs to {record.scope}, which this memory ({scope}) does not cover")
    return Draft(checked(record), key)


def _texts(records: Iterable[MemoryRecord]) -> list[str]:
    return [terms_of(record).vector_text for record in records if not record.quarantined]


def _is_id(id: object) -> bool:
    """Tell whether something may be the id of a record: what cannot be is not found."""
    if not isinstance(id, str):
        return False
    try:
        id.encode()
    except UnicodeEncodeError:
        return False
    return True


def _stats(rows: MemoryRows, scope: MemoryScope, embedding: Embedding | None) -> MemoryStats:
    states = {"current": 0, "superseded": 0, "quarantined": 0, **rules.states(rows, scope)}
    corpus = ScopeCorpus(rows, scope)
    models = [number for model, number in rows.models().items() if embedding and model.name == embedding.name]
    vectors = sum(rows.count_vectors(number, corpus.spaces) for number in models)
    return MemoryStats(
        records=sum(states.values()),
        **states,
        spaces=len(corpus.spaces),
        vectors=vectors,
        embedder=embedding.name if embedding is not None else None,
    )
