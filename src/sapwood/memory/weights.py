"""What counts how much in a search of memory, by the kind of the record.

Laws: words decide which records are looked at; what is said here only orders those. The weights of turns were set on
two conversations and those of chunks on half of the questions named in benchmarks/splits, never on what is reported.
"""

from collections.abc import Mapping

import msgspec


class KindWeights(msgspec.Struct, frozen=True, kw_only=True):
    """How records of one kind are scored. All but the first three are shares of the best record's words.

    k1, b: of BM25: how soon a repeated word stops counting more, and how far a long record is held against its words.
    title: what a word of the title counts, against one of the text. neighbours: by distance in the same conversation,
    what the words of the record there count for this one. conversation: what the whole conversation's words count.
    speaker: for one whom the question names. question: against a record that asks. when: for one that names a time,
    where the question asks for one. span: for one said in a time that the question names. meaning: what the closest
    vector counts, where there are vectors.
    """

    k1: float = 1.2
    b: float = 0.75
    title: float = 1.0
    neighbours: Mapping[int, float] = {}
    conversation: float = 0.0
    speaker: float = 0.0
    question: float = 0.0
    when: float = 0.0
    span: float = 0.3
    meaning: float = 0.5


class SearchWeights(msgspec.Struct, frozen=True, kw_only=True):
    """How a memory is searched.

    kinds: by the kind of a record; other kinds are scored as `other`. least_cosine: a record without a word of the
    question is found where its vector is at least so close. candidates: how many records are looked at closely.
    spreading: how many of them count for their neighbours. postings: how many entries are read to find them, the
    rarest words first. least: below this certainty nothing is found. same: two records whose words are shared to this
    part are one in the answer.
    """

    kinds: Mapping[str, KindWeights]
    other: KindWeights = KindWeights()
    least_cosine: float = 0.3
    candidates: int = 300
    spreading: int = 100
    postings: int = 12_000
    least: float = 0.0
    same: float = 0.9


TURN = KindWeights(
    k1=0.9,
    b=0.3,
    neighbours={-2: 0.25, -1: 0.5, 1: 0.3, 2: 0.15},
    conversation=0.3,
    speaker=0.3,
    question=0.2,
    when=0.5,
    span=0.3,
    meaning=0.4,
)
CHUNK = KindWeights(k1=0.9, b=0.4, title=1.5, neighbours={-1: 0.2, 1: 0.2}, meaning=0.1)
ABSTAIN = 0.3
"""The certainty below which a recall into a prompt shows nothing: see `SearchWeights.least`."""
WEIGHTS = SearchWeights(kinds={"turn": TURN, "chunk": CHUNK})
"""The weights of turns of conversations, of chunks of documents, and of everything else, which are facts."""
