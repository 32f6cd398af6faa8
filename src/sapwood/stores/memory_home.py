"""Where memories live: a backend, the embedder of its owner, a clock, and an index that is made by today's rules.

Laws: vectors are made before a transaction and not within one that keeps others out, as an embedder may be slow; an
index of older rules is made anew before anything is searched or written, in small transactions.
"""

import logging
import time
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from typing import Protocol, TypeVar

from sapwood.core import fault
from sapwood.core.errors import ConfigError, StoreError
from sapwood.memory import text
from sapwood.stores.embedding import Embedding
from sapwood.stores.memory_index import (
    NO_VECTORS,
    RULES_SETTING,
    Vectors,
    add_vectors,
    begin_anew,
    index_more,
    terms_of,
    without_vectors,
)
from sapwood.stores.memory_rows import MemoryRows, Model
from sapwood.stores.memory_values import from_body

T = TypeVar("T")
_log = logging.getLogger(__name__)


@cache
def current_rules() -> str:
    """Return what stands for the rules of an index that is made now; as finding it out takes a while, it is kept."""
    return text.rules()


class MemoryBackend(Protocol):
    """What runs transactions on memories.

    keeps_out: nobody else reads or writes during a read. waits: for a disk.
    """

    keeps_out: bool
    waits: bool

    def write_memory(self, change: Callable[[MemoryRows], T]) -> T:
        """Run a transaction and return its result once it is durable; all or nothing of it happens."""
        ...

    def read_memory(self, look: Callable[[MemoryRows], T]) -> T:
        """Run a transaction that changes nothing."""
        ...


class MemoryHome:
    """A backend with what a memory needs beside it."""

    def __init__(
        self, backend: MemoryBackend, embedding: Embedding | None = None, wall: Callable[[], float] = time.time
    ) -> None:
        self.embedding = embedding
        self.keeps_out = backend.keeps_out
        self.waits = backend.waits
        self._backend = backend
        self._wall = wall
        self._is_current = False

    def now(self) -> int:
        """Return the time in milliseconds since 1970."""
        return int(self._wall() * 1000)

    def new_id(self) -> str:
        """Return an id that nobody else has."""
        return uuid.uuid4().hex

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of these texts."""
        return self.embedding.made(texts) if self.embedding is not None and texts else NO_VECTORS

    def write(self, change: Callable[[MemoryRows], T]) -> T:
        """Run a transaction on an index of today's rules."""

        def work(rows: MemoryRows) -> T:
            rules = rows.setting(RULES_SETTING)
            if rules is None:
                rows.put_setting(RULES_SETTING, current_rules())
            elif rules != current_rules():
                raise StoreError(
                    f"another process has made the index of these memories anew, by the rules {rules}, and this one "
                    f"has {current_rules()}. Let all that use the file have the same version of sapwood and the same "
                    "extras installed, and open it again; nothing was changed"
                )
            return change(rows)

        self.make_current()
        return self._backend.write_memory(work)

    def read(self, look: Callable[[MemoryRows], T]) -> T:
        """Run a transaction that changes nothing."""
        self.make_current()
        return self._backend.read_memory(look)

    def make_current(self) -> None:
        """Make an index of other rules anew, and go on with one that was broken off."""
        if self._is_current:
            return
        rules, is_open = self._backend.read_memory(lambda rows: (rows.setting(RULES_SETTING), bool(rows.unindexed(1))))
        if rules is not None and _number(rules) > text.RULES:
            raise StoreError(
                f"the index of these memories was made by the rules {rules} of a newer version of sapwood; this one "
                f"knows up to {text.RULES}. Update sapwood; nothing was changed"
            )
        if rules is not None and rules != current_rules():
            _log.info("the index of these memories was made by older rules and is made anew")
            self._backend.write_memory(_begin_all)
            is_open = True
        if is_open:
            self.fill()
        self._is_current = True

    def fill(self) -> None:
        """Index all that is not indexed, some records in each transaction."""
        while self._backend.write_memory(index_more):
            fault.point("memory.indexed")


def _begin_all(rows: MemoryRows) -> None:
    if rows.setting(RULES_SETTING) == current_rules():
        return  # another process was first
    begin_anew(rows, [space.number for space in rows.spaces(None, None)])
    rows.put_setting(RULES_SETTING, current_rules())


def _number(rules: str) -> int:
    number = rules.partition("/")[0]
    return int(number) if number.isdecimal() else 0


def reembed(home: MemoryHome, spaces_of: Callable[[MemoryRows], list[int]], embedding: Embedding) -> int:
    """Make the vectors that are missing, some records in each transaction; return how many were made.

    Vectors of other embedders are removed once every record of the store has one of this.
    """
    probe = embedding.made(["."])
    if probe.model is None:
        raise ConfigError(f"embedder {embedding.name!r} fails, so no vectors can be made; the log says why")
    model, count, after = probe.model, 0, 0
    while found := home.read(lambda rows: without_vectors(rows, model, spaces_of(rows), after)):  # noqa: B023
        texts = [terms_of(from_body(row.body)).vector_text for row in found]
        vectors, numbers = embedding.made(texts), [row.number for row in found]
        count += home.write(lambda rows: add_vectors(rows, numbers, vectors))  # noqa: B023
        fault.point("memory.embedded")
        after = numbers[-1]
    home.write(lambda rows: _drop_others(rows, model))
    return count


def _drop_others(rows: MemoryRows, model: Model) -> None:
    own = rows.models().get(model, 0)
    everywhere = [space.number for space in rows.spaces(None, None)]
    if own and not rows.without_vector(own, everywhere, 0, 1):
        for other, number in rows.models().items():
            if other != model:
                rows.drop_model(number)
