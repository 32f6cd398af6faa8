"""Remember: save facts, one at a time, and put another in place of one.

Source: guide D, "Memory".
"""

from collections.abc import Iterable, Mapping
from functools import partial
from inspect import isawaitable
from typing import Any, cast

from sapwood.core.maybe import then
from sapwood.core.memory import UNTRUSTED, MemoryRecord
from sapwood.core.ports import MemoryStore
from sapwood.core.tools import MaybeAwaitable


async def remember_facts(store: MemoryStore, facts: Iterable[str], *, kind: str = "fact") -> tuple[MemoryRecord, ...]:
    """Save each fact in its order and return the records.

    Facts are trimmed and empty ones skipped. If the store fails, what was saved before stays saved and the
    error reaches the caller.

    >>> import asyncio
    >>> from sapwood import create_memory_store
    >>> [record.text for record in asyncio.run(remember_facts(create_memory_store(), [" likes tea ", ""]))]
    ['likes tea']
    """
    saved = remembered(store, facts, kind=kind)
    return await saved if isawaitable(saved) else saved


def remembered(
    store: MemoryStore, facts: Iterable[str], *, kind: str, more: Mapping[str, Any] | None = None
) -> MaybeAwaitable[tuple[MemoryRecord, ...]]:
    """Do the same; only a store that is async makes it something to await.

    more: what else `save` is told of each; a `key` among it gets the number of the fact at its end.
    """
    known = more or {}
    texts = [text for fact in facts if (text := fact.strip())]

    saved: list[MemoryRecord] = []

    def save_more(record: MemoryRecord) -> MaybeAwaitable[tuple[MemoryRecord, ...]]:
        saved.append(record)
        return save_rest()

    def save_rest() -> MaybeAwaitable[tuple[MemoryRecord, ...]]:
        for text in texts[len(saved) :]:
            own = {**known, "key": f"{known['key']}/{len(saved)}"} if "key" in known else known
            record: MaybeAwaitable[MemoryRecord] = cast("Any", store).save(text, kind=kind, **own)
            if isawaitable(record):
                return then(record, save_more)
            saved.append(record)
        return tuple(saved)

    return save_rest()


def replaced(store: MemoryStore, id: str, text: str, *, kind: str = "fact") -> MaybeAwaitable[MemoryRecord | None]:
    """Put another text in place of a record; None where there is none of that id.

    A store that can corrects the record, which then stays in the history, and an id that was corrected before stands
    for what it became; in any other store the old record is forgotten.
    """
    if hasattr(store, "correct"):
        rich: Any = store

        def corrected(newest: MemoryRecord | None) -> MaybeAwaitable[MemoryRecord | None]:
            if newest is None:
                return None
            # A model's words do not make a stranger's text trusted, and do not let it out of quarantine.
            origin = newest.origin if newest.origin in UNTRUSTED else "model"
            done: MaybeAwaitable[MemoryRecord | None] = rich.correct(
                newest.id, text, origin=origin, quarantined=newest.quarantined
            )
            return done

        return then(_newest(store, id), corrected)

    def forgotten(record: MemoryRecord) -> MaybeAwaitable[MemoryRecord | None]:
        return then(store.forget(id), partial(kept, record))

    def kept(record: MemoryRecord, was_there: bool) -> MaybeAwaitable[MemoryRecord | None]:
        return record if was_there else then(store.forget(record.id), lambda _: None)

    # Kept first, so that nothing is lost where the store fails in between.
    return then(store.save(text, kind=kind), forgotten)


def removed(store: MemoryStore, id: str) -> MaybeAwaitable[bool]:
    """Forget a record, and what it became where it was corrected; False where there is none of that id."""
    if not hasattr(store, "correct"):
        return store.forget(id)
    return then(_newest(store, id), lambda newest: False if newest is None else store.forget(newest.id))


def _newest(store: Any, id: str) -> MaybeAwaitable[MemoryRecord | None]:
    def follow(record: MemoryRecord | None) -> MaybeAwaitable[MemoryRecord | None]:
        return record if record is None or record.superseded_by is None else _newest(store, record.superseded_by)

    return then(store.get(id), follow)
