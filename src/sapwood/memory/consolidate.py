"""Consolidate: what becomes of a new fact beside what is known already.

Laws: a decision is taken before anything is written, and is written with what it led to; nothing is lost: what is
superseded stays in the history, and what is ignored is noted on the record that it repeats.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, TypeAlias, cast

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.memory import UNTRUSTED, MemoryRecord, Origin, has_provenance
from sapwood.core.ports import MemoryStore
from sapwood.core.tools import MaybeAwaitable
from sapwood.retrieval.alike import alike
from sapwood.retrieval.terms import split_words

_log = logging.getLogger(__name__)
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

    importance: 0 to 1. valid_from, valid_to, expires_at: in milliseconds since 1970, UTC. origin: who said it, in these
    words: a function or a model that read what the user said is "model"; of "tool" and "web" it is quarantined.
    derived_from: ids of the records that it was found in. quarantined: not recalled until a person confirms it.
    """

    text: str
    kind: str = "fact"
    importance: float = 0.5
    valid_from: int | None = None
    valid_to: int | None = None
    expires_at: int | None = None
    origin: Origin = "model"
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
    """Ignore a fact that a known one says as well; add any other.

    The same words in another order, another number, a "not" or a sign (C and C++) make another fact.

    >>> by_likeness(NewFact(text="Likes green tea."), [MemoryRecord("1", "likes green tea", 0, "fact")]).op
    'ignore'
    >>> by_likeness(NewFact(text="Bob manages Ann"), [MemoryRecord("1", "Ann manages Bob", 0, "fact")]).op
    'add'
    """
    own = dict.fromkeys(split_words(fact.text))
    for record in known:
        if record.kind != fact.kind or record.origin in UNTRUSTED or _signs(record.text) != _signs(fact.text):
            continue
        if own and alike(dict.fromkeys(split_words(record.text)), own, ALIKE):
            return Decision("ignore", record.id, why="a known fact says the same")
    return Decision("add", why="nothing like it is known")


def _signs(text: str) -> list[str]:
    """Return the words that are more than letters: numbers with their signs, names with marks."""
    found = (word.strip(".,;:!?\"'()") for word in text.casefold().split())
    return [word for word in found if word and not word.replace("-", "").replace("'", "").isalpha()]


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
    if not has_provenance(store):  # a plain store knows texts alone
        return (yield from _plainly(store, fact, decision, target, text, meta))
    said = {
        "origin": fact.origin,
        "turn": run_id or None,
        "importance": fact.importance,
        "valid_from": fact.valid_from,
        "valid_to": fact.valid_to,
        "expires_at": fact.expires_at,
        "quarantined": fact.quarantined,
        "key": key,
    }
    if target is None:
        kept = yield rich.save(
            text, kind=fact.kind, meta=meta, conversation=conversation, derived_from=fact.derived_from, **said
        )
    elif decision.op == "ignore":
        kept = target
        if not fact.quarantined and run_id not in (again := _runs(target)):
            noted = {**(target.meta or {}), SEEN_AGAIN: [*again, run_id][-_RUNS_NOTED:]}
            kept = yield rich.update(target.id, meta=noted)
    elif decision.op == "update" and not fact.quarantined:
        parents = tuple(dict.fromkeys((*target.derived_from, *fact.derived_from)))
        kept = yield rich.update(target.id, text=text, meta={**(target.meta or {}), **meta}, derived_from=parents)
    else:  # what waits for a person changes nothing that is known before it is confirmed
        kept = yield rich.correct(target.id, text, meta=meta, derived_from=fact.derived_from, **said)
    return cast("MemoryRecord | None", kept)


def _runs(record: MemoryRecord) -> list[str]:
    found: object = (record.meta or {}).get(SEEN_AGAIN)
    return cast("list[str]", found) if isinstance(found, list) else []


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
    if fact.quarantined:
        _log.warning("a fact of a stranger's is not kept, as this store has no quarantine")
        return None
    record = yield store.save(text, kind=fact.kind, meta=meta)
    if target is not None:  # kept first, so that nothing is lost where the store fails in between
        yield store.forget(target.id)
    return cast("MemoryRecord", record)
