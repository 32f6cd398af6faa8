"""Search of a memory: records by their words, by what stands around them, by who said them and when, and by meaning.

Laws: the same corpus and question give the same answer; a record is found that shares a word with the question, or
stands next to one that does, or, with vectors, is close in meaning; the parts of a score add up to it.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from sapwood.memory.candidates import Candidates, gathered
from sapwood.memory.corpus import HAS_TIME, IS_QUESTION, Corpus, Traits
from sapwood.memory.duplicates import collapsed
from sapwood.memory.postings import Postings
from sapwood.memory.question import Question, asked
from sapwood.memory.weights import WEIGHTS, SearchWeights

Embed = Callable[[str], Sequence[float]]
"""Gives the vector, of length 1, of a question."""
Allowed = Callable[[Traits], bool]
"""Tells whether a record may be found."""
_SURE = 5
"""So many of the best records tell how sure an answer is."""


class Found(msgspec.Struct, frozen=True):
    """A record that a search found.

    score: above 0, at most 1; that of the best record is how much of the question it covers. parts: what adds up to
    the score, by name: words, neighbours, conversation, speaker, time, date, meaning, importance; question, where the
    record only asks. reason: the same in words. same: records that say the same and are left out for it.
    """

    number: int
    score: float
    parts: dict[str, float]
    reason: str
    same: tuple[int, ...] = ()


def search(
    corpus: Corpus,
    question: str,
    *,
    now_ms: int,
    k: int = 5,
    allowed: Allowed | None = None,
    embed: Embed | None = None,
    settings: SearchWeights = WEIGHTS,
) -> list[Found]:
    """Return the k records that best answer a question, best first; of equal ones the newest first.

    now_ms: what "yesterday" is counted from. embed: None searches by words alone, and so does a corpus without vectors.
    """
    if k < 1 or not corpus.count or not question.strip():
        return []
    postings_of = corpus.postings
    read = asked(question, now=now_ms, speakers=corpus.speakers(), has=lambda term: bool(postings_of(term)))
    postings = Postings(corpus, read.words)
    found = gathered(corpus, read, postings, settings, allowed, embed)
    ranked = _ranked(found, read, settings)
    if not ranked:
        return []
    certainty = _certainty(found, read, postings, [number for _, number in ranked[:_SURE]])
    if certainty < settings.least:
        return []
    totals = {number: total for total, number in ranked}
    ordered = list(totals)
    same = collapsed(corpus.texts, ordered, {number: found.traits[number].kind for number in ordered}, settings.same, k)
    top = ranked[0][0]
    names = {number: name for name, number in corpus.speakers().items()} if read.speakers else {}
    made: list[Found] = []
    for number, twins in same.items():
        parts = {name: value * certainty / top for name, value in found.parts[number].items() if value}
        reason = _reason(number, parts, found, read, names, twins)
        made.append(Found(number, min(1.0, totals[number] * certainty / top), parts, reason, twins))
    return made


def _ranked(found: Candidates, read: Question, settings: SearchWeights) -> list[tuple[float, int]]:
    """Return the scores of all candidates with something to show, best first."""
    pairs: list[tuple[float, int]] = []
    for number, traits in found.traits.items():
        parts = found.parts[number]
        shown = sum(parts.values())
        if shown <= 0:
            continue
        weights = settings.kinds.get(traits.kind or "", settings.other)
        if traits.speaker and traits.speaker in read.speakers:
            parts["speaker"] = weights.speaker
        if read.asks_when and traits.flags & HAS_TIME:
            parts["time"] = weights.when
        if any(begin <= traits.at < end for begin, end in read.spans):
            parts["date"] = weights.span
        if traits.flags & IS_QUESTION:
            # At most so much that something is left of what was found.
            parts["question"] = -min(weights.question, 0.9 * shown)
        parts["importance"] = 0.1 * (traits.importance - 0.5) * shown
        # Rounded, so that records which differ in nothing but the order of adding up are equal.
        pairs.append((round(sum(parts.values()), 9), number))
    pairs.sort(reverse=True)
    return pairs


def _certainty(found: Candidates, read: Question, postings: Postings, best: Sequence[int]) -> float:
    """Return how much of the question the best of the first hits covers, with its neighbours, or how close it is."""
    named = [place for place, word in enumerate(read.words) if word.is_name]
    sure = 0.0
    for number in best:
        places = set(found.impacts.get(number, ()))
        if found.traits[number].speaker in read.speakers:
            places.update(named)
        for other, _ in found.around.get(number, ()):
            places.update(found.impacts.get(other, ()))
        sure = max(sure, postings.covered(places), found.cosines.get(number, 0.0))
    return sure


def _reason(
    number: int,
    parts: Mapping[str, float],
    found: Candidates,
    read: Question,
    names: Mapping[int, str],
    same: tuple[int, ...],
) -> str:
    traits = found.traits[number]
    said: list[str] = []
    shared = [read.words[place].shown for place in sorted(found.impacts.get(number, ()))]
    if shared:
        said.append("shares " + ", ".join(map(repr, shared)))
    if "speaker" in parts:
        said.append(f"said by {names[traits.speaker]}")
    if "neighbours" in parts:
        around = {
            read.words[place].shown: None
            for other, _ in found.around.get(number, ())
            for place in sorted(found.impacts.get(other, ()))
        }
        said.append("next to " + ", ".join(map(repr, around)))
    if "conversation" in parts:
        said.append("in a conversation about it")
    if "time" in parts:
        said.append("names a time")
    if "date" in parts:
        said.append("said at the time asked about")
    if "meaning" in parts and found.cosines.get(number, 0.0) > 0:
        said.append(f"close in meaning ({found.cosines[number]:.2f})")
    if same:
        said.append(f"said {len(same) + 1} times")
    return "; ".join(said)
