"""Consolidate: what becomes of a new fact beside what is known already.

Laws: a decision is taken before anything is written, and is written with what it led to; nothing is lost: what is
superseded stays in the history, and what is ignored is noted on the record that it repeats.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.memory import MemoryRecord, Origin
from sapwood.core.ports import MemoryStore
from sapwood.core.tools import MaybeAwaitable
from sapwood.core.words import words

Op: TypeAlias = Literal["add", "update", "supersede", "ignore"]
DECISION = "decision"
"""The key in `meta` under which a record says why it was written."""
SEEN_AGAIN = "seen_again"
"""The key in `meta` that lists the runs in which a fact was said once more."""
SIMILAR = 5
"""So many known facts are looked at beside a new one."""
ALIKE = 0.9
"""Two facts that share so many of their words say the same."""
_RUNS_NOTED = 20


class NewFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that was found, and not yet kept.

    importance: 0 to 1. valid_from, valid_to, expires_at: in milliseconds since 1970, UTC. origin: who said it.
    derived_from: ids of the records that it was found in. quarantined: not recalled until a person confirms it.
    """

    text: str
    kind: str = "fact"
    importance: float = 0.5
    valid_from: int | None = None
    valid_to: int | None = None
    expires_at: int | None = None
    origin: Origin = "user"
    derived_from: tuple[str, ...] = ()
    quarantined: bool = False


class Decision(msgspec.Struct, frozen=True):
    """What becomes of a new fact.

    op: `add` it; `update` the record `target` to `text`; `supersede` it, so that the old one stays in the history;
    `ignore` it, as `target` says it already. text: what is kept, None for the fact as it is. why: in words.
    """

    op: Op
    target: str | None = None
    text: str | None = None
    why: str = ""


Consolidate: TypeAlias = Callable[[NewFact, Sequence[MemoryRecord]], MaybeAwaitable[Decision]]
"""A new fact and the known ones most like it, best first -> what to do."""


def by_likeness(fact: NewFact, known: Sequence[MemoryRecord]) -> Decision:
    """Ignore a fact whose words a known one has as well; add any other.

    >>> by_likeness(NewFact(text="Likes green tea."), [MemoryRecord("1", "likes green tea", 0, "fact")]).op
    'ignore'
    """
    own = set(words(fact.text))
    for record in known:
        other = set(words(record.text))
        if record.kind == fact.kind and own and len(own & other) >= ALIKE * len(own | other):
            return Decision("ignore", record.id, why="a known fact has the same words")
    return Decision("add", why="nothing like it is known")


def consolidated(
    store: MemoryStore,
    fact: NewFact,
    consolidate: Consolidate,
    *,
    run_id: str,
    key: str | None,
    conversation: str | None,
) -> Generator[MaybeAwaitable[Any], Any, MemoryRecord | None]:
    """Step through the keeping of one fact; what it comes to is the record that holds it now.

    key: makes a second keeping of the same fact harmless. Raises ConfigError for a decision that cannot be followed.
    """
    found = yield store.search(fact.text, k=SIMILAR, kind=fact.kind)
    known = cast("Sequence[MemoryRecord]", found)
    decision = cast("Decision", (yield consolidate(fact, known)))
    target = next((record for record in known if record.id == decision.target), None)
    if decision.op != "add" and target is None:
        raise ConfigError(f"{decision.op} of {decision.target!r}, which is none of the records that were shown")
    text = (decision.text or fact.text).strip()
    meta = {DECISION: {"op": decision.op, "why": decision.why, "run": run_id}}
    rich = cast("Any", store)
    if not hasattr(store, "save_many"):  # a plain store knows texts alone
        return (yield from _plainly(store, fact, decision, target, text, meta))
    if target is None:
        kept = yield rich.save(
            text,
            kind=fact.kind,
            meta=meta,
            origin=fact.origin,
            conversation=conversation,
            turn=run_id or None,
            importance=fact.importance,
            valid_from=fact.valid_from,
            valid_to=fact.valid_to,
            expires_at=fact.expires_at,
            derived_from=fact.derived_from,
            quarantined=fact.quarantined,
            key=key,
        )
    elif decision.op == "ignore":
        found_in: object = (target.meta or {}).get(SEEN_AGAIN)
        runs = cast("list[str]", found_in) if isinstance(found_in, list) else []
        again = [*runs, run_id][-_RUNS_NOTED:]
        kept = (
            target
            if run_id in again[:-1]
            else (yield rich.update(target.id, meta={**(target.meta or {}), SEEN_AGAIN: again}))
        )
    elif decision.op == "update":
        kept = yield rich.update(target.id, text=text, meta={**(target.meta or {}), **meta})
    else:
        kept = yield rich.correct(
            target.id, text, meta=meta, origin=fact.origin, turn=run_id or None, derived_from=fact.derived_from
        )
    return cast("MemoryRecord | None", kept)


def _plainly(
    store: MemoryStore,
    fact: NewFact,
    decision: Decision,
    target: MemoryRecord | None,
    text: str,
    meta: dict[str, Any],
) -> Generator[MaybeAwaitable[Any], Any, MemoryRecord | None]:
    if decision.op == "ignore":
        return target
    record = yield store.save(text, kind=fact.kind, meta=meta)
    if target is not None:  # kept first, so that nothing is lost where the store fails in between
        yield store.forget(target.id)
    return cast("MemoryRecord", record)
