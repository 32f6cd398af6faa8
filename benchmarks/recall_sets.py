"""The two sets of `benchmarks.recall`, as corpora of ours and as texts for the other methods."""

import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.splits.make import DATA
from sapwood.memory.list_corpus import ListCorpus

DAY_MS = 86_400_000
CHUNK = 800


@dataclass
class Asked:
    """A question, and the ids of what answers it. group: of the part of the set that it is asked of."""

    id: str
    text: str
    relevant: frozenset[str]
    group: str
    category: int = 0
    spans: list[list[int]] = field(default_factory=list)


@dataclass
class Part:
    """Records that are searched together. texts: as other methods read them. now: when the questions are asked."""

    corpus: ListCorpus
    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    now: int = 0
    spans: list[tuple[str, int, int]] = field(default_factory=list)


def locomo(embedder: Any) -> tuple[dict[str, Part], list[Asked]]:
    """Return the conversations by name, a part each, and their questions; a session is one conversation of ours."""
    parts: dict[str, Part] = {}
    for row in _rows("locomo", "corpus"):
        part = parts.setdefault(row["conv"], Part(ListCorpus(embedder)))
        at = int(datetime.strptime(row["date"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp()) * 1000
        caption = row.get("image_caption")
        part.corpus.add(
            row["text"],
            title=caption,
            speaker=row["speaker"],
            conversation=str(row["session"]),
            position=row["pos"] + 1,
            at=at,
            kind="turn",
        )
        part.ids.append(row["id"])
        part.texts.append(f"{row['speaker']}: {row['text']}" + (f" [{caption}]" if caption else ""))
        part.now = max(part.now, at + DAY_MS)
    asked = [
        Asked(row["id"], row["text"], frozenset(row["relevant"]), row["conv"], row["category"])
        for row in _rows("locomo", "queries")
        if row["relevant"]
    ]
    return parts, asked


def chunkeval(embedder: Any, *, whole_sentences: bool) -> tuple[Part, list[Asked]]:
    """Return the documents in chunks of about 800 characters, and the questions.

    whole_sentences: chunks end where a sentence does; else each has 800 characters, as the published figures have it.
    """
    part = Part(ListCorpus(embedder))
    for row in _rows("chunkeval", "documents"):
        text = row["text"]
        ends = _sentence_ends(text) if whole_sentences else list(range(CHUNK, len(text) + CHUNK, CHUNK))
        begin = 0
        for position, end in enumerate(ends, 1):
            end = min(end, len(text))
            part.corpus.add(text[begin:end], conversation=row["id"], position=position, kind="chunk")
            part.ids.append(f"{row['id']}/{position}")
            part.texts.append(text[begin:end])
            part.spans.append((row["id"], begin, end))
            begin = end
    asked = [
        Asked(row["id"], row["text"], _touched(part, row["doc"], row["spans"]), row["doc"], spans=row["spans"])
        for row in _rows("chunkeval", "queries")
    ]
    return part, asked


@cache
def halves(name: str) -> dict[str, list[str]]:
    """Return the ids for tuning (`dev`) and for reporting (`test`)."""
    found: dict[str, list[str]] = json.loads((Path(__file__).parent / "splits" / f"{name}.json").read_text("utf-8"))
    return found


def _touched(part: Part, document: str, spans: Sequence[Sequence[int]]) -> frozenset[str]:
    return frozenset(
        name
        for name, (own, begin, end) in zip(part.ids, part.spans, strict=True)
        if own == document and any(begin < last and first < end for first, last in spans)
    )


def _sentence_ends(text: str) -> list[int]:
    """Return where chunks of at most 800 characters end: after the last sentence that fits, else after a word."""
    ends: list[int] = []
    begin = 0
    while begin < len(text):
        end = begin + CHUNK
        if end < len(text):
            cuts = (text.rfind(mark, begin + CHUNK // 2, end) + len(mark) for mark in ("\n\n", ". ", "? ", "! ", "\n"))
            cut = max(cuts)
            end = cut if cut > begin + CHUNK // 2 else (text.rfind(" ", begin + CHUNK // 2, end) + 1 or end)
        ends.append(end)
        begin = end
    return ends


def _rows(folder: str, name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
