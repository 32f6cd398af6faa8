"""Vectors of records: made by an embedder, kept as small numbers, compared with a question exactly.

Laws: an embedder that fails costs the meaning of a text, never the text: what cannot be embedded is kept and found by
its words; vectors of different embedders are never compared; NumPy is imported only where there is an embedder.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sapwood.core.errors import ConfigError, ProviderNotInstalledError
from sapwood.core.ports import Embedder
from sapwood.stores.memory_index import NO_VECTORS, Vectors
from sapwood.stores.memory_rows import MemoryRows, Model, VectorRow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger(__name__)
CACHE_BYTES = 128 * 1024 * 1024
"""What the vectors of the spaces searched last may take in memory."""
_SMALL_PRODUCT = 200_000


class Near(NamedTuple):
    """How close records are to a question; numbers ascending."""

    numbers: "NDArray[np.int64]"
    cosines: "NDArray[np.float32]"


class Embedding:
    """An embedder as a store uses it, and the vectors that it has read."""

    def __init__(self, embedder: Embedder, *, cache_bytes: int = CACHE_BYTES) -> None:
        if not isinstance(embedder, Embedder):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"an embedder has a name and embed(texts), see Embedder; {embedder!r} has not")
        self._embedder = embedder
        self._cache = _Cache(cache_bytes)
        self._told: set[Model] = set()
        self._has_failed = False

    @property
    def name(self) -> str:
        """The embedder's name."""
        return self._embedder.name

    def made(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of texts, as they are stored; none where the embedder fails."""
        wanted = list(dict.fromkeys(text for text in texts if text.strip()))
        found = self._embedded(wanted) if wanted else None
        if found is None:
            return NO_VECTORS
        np = numpy()
        scales = np.abs(found).max(axis=1) / 127.0
        whole = np.rint(found / np.where(scales > 0, scales, 1.0)[:, None]).astype(np.int8)
        by_text = {text: (float(scale), row.tobytes()) for text, scale, row in zip(wanted, scales, whole, strict=True)}
        return Vectors(Model(self.name, found.shape[1]), by_text)

    def question(self, text: str) -> list[float] | None:
        """Return the vector of a question; None where the embedder fails."""
        found = self._embedded([text])
        return None if found is None else found[0].tolist()

    def _embedded(self, texts: Sequence[str]) -> Any:
        """Return unit vectors as rows."""
        np = numpy()
        try:
            rows = np.asarray(self._embedder.embed(texts), dtype=np.float32)
            if rows.ndim != 2 or rows.shape[0] != len(texts) or not rows.shape[1] or not np.isfinite(rows).all():
                raise ConfigError(
                    f"it gave an array of shape {rows.shape} for {len(texts)} texts; one finite vector each"
                )
        except Exception as error:  # noqa: BLE001 - a door: an embedder must not lose a record, nor end a turn
            level = logging.DEBUG if self._has_failed else logging.WARNING
            self._has_failed = True
            _log.log(level, "embedder %r failed, so only words count: %s", self.name, error, exc_info=error)
            return None
        self._has_failed = False
        sizes = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows / np.where(sizes > 0, sizes, 1.0)

    def near(self, rows: MemoryRows, places: Collection[int], vector: Sequence[float]) -> Near | None:
        """Compare a question with the vectors of these places; None where there are none."""
        models = rows.models()
        model = Model(self.name, len(vector))
        self.tell(models, model)
        number = models.get(model)
        if number is None:
            return None
        np = numpy()
        asked = np.asarray(vector, dtype=np.float32)
        parts = [part for place in places if (part := self._cache.matrix(rows, number, place, len(vector))) is not None]
        if not parts:
            return None
        numbers = np.concatenate([part.numbers for part in parts])
        cosines = np.concatenate([_products(part.matrix, asked) for part in parts])
        if len(parts) > 1:
            order = np.argsort(numbers, kind="stable")
            numbers, cosines = numbers[order], cosines[order]
        return Near(numbers, cosines)

    def tell(self, models: Collection[Model], model: Model) -> None:
        """Warn, once, where the vectors of a store were made by something else."""
        others = [other for other in models if other != model]
        if model in self._told or not others:
            return
        self._told.add(model)
        names = ", ".join(f"{other.name!r} with {other.width} numbers" for other in others)
        _log.warning(
            "this store has vectors of %s; the embedder is now %r with %d numbers. All records are kept and found by "
            "their words; for their meaning make new vectors with memory.reembed()",
            *(names, model.name, model.width),
        )


class _Matrix(NamedTuple):
    numbers: Any
    matrix: Any


class _Held:
    """The vectors of one place as they were at a change. Rows are added behind those that a reader may have."""

    def __init__(self, changes: int, removals: int) -> None:
        self.changes = changes
        self.removals = removals
        self.count = 0
        self.numbers: Any = None
        self.matrix: Any = None

    def add(self, found: Sequence[VectorRow], width: int) -> None:
        np = numpy()
        found = [row for row in found if len(row.numbers) == width]
        whole = np.frombuffer(b"".join(row.numbers for row in found), dtype=np.int8).reshape(len(found), width)
        scales = np.array([row.scale for row in found], dtype=np.float32)
        total = self.count + len(found)
        if self.matrix is None or total > len(self.matrix):
            room = total if self.matrix is None else total + total // 8
            numbers, matrix = np.empty(room, np.int64), np.empty((room, width), np.float32)
            if self.matrix is not None:
                numbers[: self.count], matrix[: self.count] = self.numbers[: self.count], self.matrix[: self.count]
            self.numbers, self.matrix = numbers, matrix
        np.multiply(whole, scales[:, None], out=self.matrix[self.count : total], casting="unsafe")
        self.numbers[self.count : total] = [row.number for row in found]
        self.count = total

    @property
    def last(self) -> int:
        return int(self.numbers[self.count - 1]) if self.count else 0

    @property
    def bytes(self) -> int:
        return 0 if self.matrix is None else int(self.matrix.nbytes + self.numbers.nbytes)

    def seen(self) -> _Matrix | None:
        return _Matrix(self.numbers[: self.count], self.matrix[: self.count]) if self.count else None


class _Cache:
    """The vectors that were read, of the places that were searched last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[tuple[int, int], _Held] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def matrix(self, rows: MemoryRows, model: int, place: int, width: int) -> _Matrix | None:
        tally = rows.tally(place)
        if not tally.changes:
            return None
        with self._lock:
            held = self._held.pop((model, place), None)
            self._bytes -= held.bytes if held is not None else 0
        if held is None or held.removals != tally.removals or held.changes > tally.changes:
            held = _Held(tally.changes, tally.removals)
            held.add(rows.vectors(model, place, 0), width)
        elif held.changes != tally.changes:
            held.add(rows.vectors(model, place, held.last), width)
            held.changes = tally.changes
        seen = held.seen()
        with self._lock:
            before = self._held.pop((model, place), None)
            self._bytes += held.bytes - (before.bytes if before is not None else 0)
            self._held[model, place] = held
            while self._bytes > self._most and self._held:
                self._bytes -= self._held.popitem(last=False)[1].bytes
        return seen


def _products(matrix: Any, vector: Any) -> Any:
    """Return the product of each row with a vector, in blocks so small that none wakes a pool of threads."""
    np = numpy()
    block = max(1, _SMALL_PRODUCT // max(1, len(vector)))
    if len(matrix) <= block:
        return matrix @ vector
    return np.concatenate([matrix[start : start + block] @ vector for start in range(0, len(matrix), block)])


def numpy() -> Any:
    """Return NumPy; raises ProviderNotInstalledError where it is missing, with the way out."""
    try:
        import numpy as np
    except ImportError as error:
        raise ProviderNotInstalledError("vectors need numpy: pip install 'sapwood[vectors]'") from error
    return np
