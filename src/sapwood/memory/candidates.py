"""The records that a question is weighed against: those with its words, those around them, those close in meaning.

Laws: what is not allowed is not looked at, neither itself nor as a neighbour; scores are shares of the best record's.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from sapwood.memory.corpus import Corpus, Traits
from sapwood.memory.postings import Postings, best
from sapwood.memory.question import Question
from sapwood.memory.weights import KindWeights, SearchWeights


class Candidates(msgspec.Struct):
    """The records that are weighed.

    traits, parts: of each. impacts: what each word adds to a record, by the word's place. around: the neighbours that
    count for a record, with what they count. cosines: how close a record is in meaning, where that is known.
    """

    traits: dict[int, Traits]
    parts: dict[int, dict[str, float]]
    impacts: dict[int, dict[int, float]]
    around: dict[int, list[tuple[int, float]]]
    cosines: dict[int, float]


def gathered(
    corpus: Corpus,
    read: Question,
    postings: Postings,
    settings: SearchWeights,
    allowed: Callable[[Traits], bool] | None,
    embed: Callable[[str], Sequence[float]] | None,
) -> Candidates:
    """Return the records to weigh, each with the parts of its score that its words and its place give."""
    names = frozenset(place for place, word in enumerate(read.words) if word.is_name)
    if len(names) == len(read.words):
        names -= names  # a question of names alone asks for those names
    traits = _by_words(corpus, postings, settings, allowed, names)
    cosines = _by_meaning(corpus, read, settings, allowed, embed, traits)
    weights = {number: _weights(settings, found) for number, found in traits.items()}
    impacts = postings.impacts(weights)
    for number, found in traits.items():
        if names and found.speaker and weights[number].speaker and number in impacts:
            impacts[number] = {place: impact for place, impact in impacts[number].items() if place not in names}
    words = {number: sum(by_word.values()) for number, by_word in impacts.items()}
    most = max(words.values(), default=0.0) or 1.0
    words = {number: score / most for number, score in words.items() if score}
    around = _around(corpus, traits, words, settings, allowed)
    parts: dict[int, dict[str, float]] = {}
    for number in traits:
        spread = sum(weight * words.get(other, 0.0) for other, weight in around.get(number, ()))
        parts[number] = {"words": words.get(number, 0.0), "neighbours": spread}
    _add_conversations(traits, parts, impacts, settings)
    _add_meaning(traits, parts, cosines, settings)
    return Candidates(traits, parts, impacts, around, cosines)


def _weights(settings: SearchWeights, traits: Traits) -> KindWeights:
    return settings.kinds.get(traits.kind or "", settings.other)


def _by_words(
    corpus: Corpus,
    postings: Postings,
    settings: SearchWeights,
    allowed: Callable[[Traits], bool] | None,
    names: frozenset[int],
) -> dict[int, Traits]:
    """Return the best records by their words: without the names that are asked for, and with them."""
    first = settings.kinds.get("turn", settings.other)
    kept: dict[int, Traits] = {}
    for pairs in postings.first(first, settings.postings, apart=names):
        kept.update(_allowed(corpus, pairs, settings.candidates, allowed))
    return kept


def _allowed(
    corpus: Corpus, pairs: Sequence[tuple[float, int]], most: int, allowed: Callable[[Traits], bool] | None
) -> dict[int, Traits]:
    """Return the best records that may be found, looking as far down as it takes."""
    kept: dict[int, Traits] = {}
    looked_at, wanted = 0, most
    while len(kept) < most and looked_at < len(pairs):
        ordered = best(pairs, wanted)[looked_at:]
        known = corpus.traits(ordered)
        for number in ordered:
            if number in known and len(kept) < most and (allowed is None or allowed(known[number])):
                kept[number] = known[number]
        looked_at, wanted = wanted, wanted * 4
    return kept


def _by_meaning(
    corpus: Corpus,
    read: Question,
    settings: SearchWeights,
    allowed: Callable[[Traits], bool] | None,
    embed: Callable[[str], Sequence[float]] | None,
    traits: dict[int, Traits],
) -> dict[int, float]:
    """Return the cosines of the records at hand, and add those that are close without a word of the question."""
    if embed is None:
        return {}
    meanings = corpus.meanings(embed(read.vector_text))
    if meanings is None or not len(meanings.numbers):
        return {}
    from sapwood.memory.meaning import closest, cosines_of

    close = closest(meanings, settings.candidates, settings.least_cosine)
    fresh = [number for number in close if number not in traits]
    known = corpus.traits(fresh)
    for number in fresh:
        found = known.get(number)
        if found is not None and (allowed is None or allowed(found)):
            traits[number] = found
    return cosines_of(meanings, traits)


def _around(
    corpus: Corpus,
    traits: dict[int, Traits],
    words: Mapping[int, float],
    settings: SearchWeights,
    allowed: Callable[[Traits], bool] | None,
) -> dict[int, list[tuple[int, float]]]:
    """Return the neighbours of each record that count for it, and add the records next to the best ones."""
    strongest = best([(score, number) for number, score in words.items()], settings.spreading)
    sources = [number for number in strongest if traits[number].conversation]
    at = {(found.conversation, found.position): found for found in traits.values() if found.conversation}
    wanted: dict[tuple[int, int], None] = {}
    for number in sources:
        source = traits[number]
        for offset in _weights(settings, source).neighbours:
            place = (source.conversation, source.position - offset)
            if place not in at and place[1] > 0:
                wanted[place] = None
    for place, found in corpus.near(wanted).items():
        if found.number not in traits and (allowed is None or allowed(found)):
            at[place] = traits[found.number] = found
    around: dict[int, list[tuple[int, float]]] = {}
    for number in sources:
        source = traits[number]
        for offset, weight in _weights(settings, source).neighbours.items():
            target = at.get((source.conversation, source.position - offset))
            if target is not None and target.kind == source.kind:
                around.setdefault(target.number, []).append((number, weight))
    return around


def _add_conversations(
    traits: Mapping[int, Traits],
    parts: Mapping[int, dict[str, float]],
    impacts: Mapping[int, Mapping[int, float]],
    settings: SearchWeights,
) -> None:
    """Add what the whole conversation of a record says of the question, as a share of the best conversation.

    A word that is said again and again counts less each time, against the record that says it best.
    """
    most: dict[int, float] = {}
    said: dict[int, dict[int, float]] = {}
    for number, by_word in impacts.items():
        found = traits[number]
        if not found.conversation or not _weights(settings, found).conversation:
            continue
        together = said.setdefault(found.conversation, {})
        for place, impact in by_word.items():
            together[place] = together.get(place, 0.0) + impact
            most[place] = max(most.get(place, 0.0), impact)
    totals = {
        conversation: sum(impact * most[place] / (impact + most[place]) for place, impact in together.items())
        for conversation, together in said.items()
    }
    top = max(totals.values(), default=0.0)
    for number, found in traits.items():
        if totals.get(found.conversation) and sum(parts[number].values()) > 0:
            weight = _weights(settings, found).conversation
            parts[number]["conversation"] = weight * totals[found.conversation] / top


def _add_meaning(
    traits: Mapping[int, Traits],
    parts: Mapping[int, dict[str, float]],
    cosines: Mapping[int, float],
    settings: SearchWeights,
) -> None:
    """Add how much closer than the candidates are in the mean a record is, as a share of the closest one's."""
    if not cosines:
        return
    base = min(sum(cosines.values()) / len(cosines), 0.9 * settings.least_cosine)
    most = max(cosines.values())
    for number, cosine in cosines.items():
        if cosine > base:
            weight = _weights(settings, traits[number]).meaning
            parts[number]["meaning"] = weight * (cosine - base) / (most - base)
