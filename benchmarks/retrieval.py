"""How well documents are retrieved: passages among five first, and characters of the answer within tokens.

Measured on the chunking evaluation of Chroma (five documents, 472 questions with exact spans), with the question as it was
asked and no model. Weights were set on the questions named `dev` in `splits/`, committed before; each figure is that of the
other half, with a 95 % interval, and beside it that of the dev half. All methods get the same chunks, in the same run. A span
counts where it stands: a copy of it elsewhere in a document is no hit.
"""

import gzip
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.recall_peers import peers
from benchmarks.rows import Row, cpu_around
from benchmarks.splits.make import DATA
from benchmarks.tool_search import _mean
from sapwood import Chunk, DenseRetriever, Document, HybridRetriever, chunk_recursive
from sapwood.retrieval.static_vectors import installed_folder

CHUNK = 800
ROOMS = (1_000, 2_000)
TOP_K = 20
ALONE = "vectors alone"
Spans = list[tuple[str, int, int]]
Method = Callable[[str, int], Spans]
"""A question and how many -> where the passages stand that are found, best first."""


@dataclass
class Asked:
    """A question, the document that answers it, and where."""

    id: str
    text: str
    document: str
    spans: list[tuple[int, int]]


def run() -> list[Row]:
    """Measure what the data here allows."""
    if not (DATA / "chunkeval").is_dir():
        return [Row("retrieval", "not measured", remark=f"there is no data in {DATA}")]
    documents = [Document(row["id"], row["text"]) for row in _rows("documents")]
    asked = [
        Asked(row["id"], row["text"], row["doc"], [(first, last) for first, last in row["spans"]])
        for row in _rows("queries")
    ]
    return [*_passages(documents, asked), *_characters(documents, asked), *_cost(documents, asked)]


def _passages(documents: Sequence[Document], asked: Sequence[Asked]) -> list[Row]:
    rows: list[Row] = []
    for cut, bar, what in ((_fixed, 85.0, "cut every 800 characters"), (_whole, 85.0, "cut by chunk_recursive")):
        chunks = [(document.id, chunk) for document in documents for chunk in cut(document.text)]
        relevant = {each.id: _relevant(each, chunks) for each in asked}
        methods = _methods(documents, chunks, cut)
        for k, least in ((5, bar), (10, None)):
            found = {
                name: [_share(method(each.text, k), relevant[each.id]) for each in asked]
                for name, method in methods.items()
            }
            rows += _compared(f"chunkeval, {len(chunks):,} chunks {what}: R@{k}", found, asked, least)
    return rows


def _characters(documents: Sequence[Document], asked: Sequence[Asked]) -> list[Row]:
    """Return the share of the answers' characters within a room: hits grown, and chunks in their order."""
    chunks = [(document.id, chunk) for document in documents for chunk in _whole(document.text)]
    methods = _methods(documents, chunks, _whole)
    rows: list[Row] = []
    retrievers = {name: make(documents, None) for name, make in _retrievers().items()}
    for room, bar in zip(ROOMS, (86.0, 94.0), strict=True):
        found: dict[str, list[float]] = {}
        for name, retriever in retrievers.items():
            found[name] = [_covered(each, _grown(retriever, each.text, room)) for each in asked]
        for name, method in methods.items():
            label = f"{name}, not grown" if name in found else name
            found[label] = [_covered(each, _packed(method(each.text, 60), room)) for each in asked]
        rows += _compared(f"chunkeval: characters of the answer within {room:,} tokens", found, asked, bar)
    return rows


def _cost(documents: Sequence[Document], asked: Sequence[Asked]) -> list[Row]:
    rows: list[Row] = []
    for name, make in _retrievers().items():
        began = time.process_time()
        retriever = make(documents, None)
        retriever.retrieve("bees")
        built = time.process_time() - began
        spent = sorted(1e3 * cpu_around(partial(retriever.retrieve, each.text, 5)) for each in asked[:100])
        row = Row(
            f"one question of 1.4 million characters ({name})", f"{spent[50]:.1f} ms of CPU, 99 % under {spent[98]:.1f}"
        )
        row.remark = f"index made in {built:.1f} s of CPU"
        row.figures = {"median_ms": spent[50], "built_s": built}
        rows.append(row)
    return rows


def _retrievers() -> dict[str, Callable[[Sequence[Document], Any], Any]]:
    """Return what makes each of ours, over documents; the second argument: a chunker, None for the usual one."""

    def hybrid(vectors: Any) -> Callable[[Sequence[Document], Any], Any]:
        return lambda documents, chunker: HybridRetriever(documents, vectors=vectors, chunker=chunker)

    made = {"words": hybrid(False)}
    if installed_folder() is not None:
        made["words and vectors"] = hybrid(True)
        made[ALONE] = lambda documents, chunker: DenseRetriever(documents, chunker=chunker)
    return made


def _methods(
    documents: Sequence[Document], chunks: Sequence[tuple[str, Chunk]], cut: Callable[..., list[Chunk]]
) -> dict[str, Method]:
    found: dict[str, Method] = {}
    for name, make in _retrievers().items():
        retriever = make(documents, cut)
        found[name] = lambda question, k, retriever=retriever: list(_spans(retriever.retrieve(question, k)))
    for name, other in peers().items():
        search = other([chunk.text for _, chunk in chunks])
        found[name] = lambda question, k, search=search: [
            (chunks[place][0], chunks[place][1].start, chunks[place][1].end) for place in search(question, k)
        ]
    return found


def _compared(what: str, found: dict[str, list[float]], asked: Sequence[Asked], bar: float | None) -> list[Row]:
    """Return a row for each of ours, beside the other methods."""
    splits = json.loads((Path(__file__).parent / "splits" / "chunkeval.json").read_text(encoding="utf-8"))
    means: dict[str, dict[str, tuple[float, float]]] = {}
    for name, shares in found.items():
        by_id = {each.id: share for each, share in zip(asked, shares, strict=True)}
        means[name] = {half: _mean([by_id[id] for id in splits[half]]) for half in ("dev", "test")}
    ours = [name for name in found if name in _retrievers()]
    rows: list[Row] = []
    for name in ours:
        asks = bar if name != ALONE else None  # shown for comparison; nobody is told to use it by itself
        (test, spread), (dev, _) = means[name]["test"], means[name]["dev"]
        row = Row(f"{what} ({name})", f"{test:.1f} ± {spread:.1f} (dev {dev:.1f})", f"≥ {asks:.0f}" if asks else "")
        row.peer = ", ".join(f"{other} {means[other]['test'][0]:.1f}" for other in found if other not in ours)
        row.holds = None if asks is None else round(test, 1) >= asks
        row.figures = {"test": test, "interval": spread, "dev": dev, "questions": len(splits["test"])}
        rows.append(row)
    return rows


def _relevant(asked: Asked, chunks: Sequence[tuple[str, Chunk]]) -> set[tuple[str, int, int]]:
    return {
        (document, chunk.start, chunk.end)
        for document, chunk in chunks
        if document == asked.document and any(chunk.start < last and first < chunk.end for first, last in asked.spans)
    }


def _share(found: Spans, relevant: set[tuple[str, int, int]]) -> float:
    return len(relevant & set(found)) / len(relevant)


def _covered(asked: Asked, found: Spans) -> float:
    wanted = {at for first, last in asked.spans for at in range(first, last)}
    got = {at for document, first, last in found if document == asked.document for at in range(first, last)}
    return len(wanted & got) / len(wanted)


def _grown(retriever: Any, question: str, room: int) -> Spans:
    return list(_spans(retriever.grow(retriever.retrieve(question, TOP_K), room, count=_tokens)))


def _packed(found: Spans, room: int) -> Spans:
    kept: Spans = []
    for document, first, last in found:
        size = -(-(last - first) // 4)
        if size <= room:
            room -= size
            kept.append((document, first, last))
    return kept


def _spans(items: Sequence[Any]) -> Iterator[tuple[str, int, int]]:
    for item in items:
        yield item.metadata["document"], item.metadata["start"], item.metadata["end"]


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _fixed(text: str, **_: Any) -> list[Chunk]:
    return [Chunk(text[at : at + CHUNK], at, min(at + CHUNK, len(text))) for at in range(0, len(text), CHUNK)]


def _whole(text: str, **_: Any) -> list[Chunk]:
    return chunk_recursive(text, size=CHUNK, count=len)


def _rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / "chunkeval" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    began = time.perf_counter()
    for line in run():
        print(line.line())
    print(f"{time.perf_counter() - began:.0f} s")
