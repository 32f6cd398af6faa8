"""alike: whether two texts say the same, by the words that they share.

Law: two texts that differ in a number or in a "not" never say the same, however much else they share.
"""

from collections.abc import Mapping

NEGATIONS = frozenset({
    "not", "no", "never", "none", "nobody", "nothing", "without", "don't", "doesn't", "didn't", "isn't", "aren't",
    "wasn't", "weren't", "won't", "can't", "cannot", "nicht", "kein", "keine", "nie", "ohne", "ne", "pas", "jamais",
    "sans", "nunca", "sin", "non", "mai", "senza", "não", "sem", "niet", "geen", "nooit", "inte", "ikke", "не", "нет",
})  # fmt: skip
"""Words that turn what is said around."""


def alike(first: Mapping[str, object], second: Mapping[str, object], same: float) -> bool:
    """Tell whether two texts say the same. first, second: their words in order, each once, as `dict.fromkeys` has them.

    same: the share of all words of both that both have, from which on they do.

    >>> likes, liked = dict.fromkeys(["ann", "likes", "bob"]), dict.fromkeys(["bob", "likes", "ann"])
    >>> alike(likes, likes, 0.9), alike(likes, liked, 0.9)
    (True, False)
    >>> alike(dict.fromkeys(["pay", "in", "2019"]), dict.fromkeys(["pay", "in", "2020"]), 0.4)
    False
    """
    small, large = sorted((len(first), len(second)))
    if small < same * large:
        return False
    shared = [word for word in first if word in second]
    if len(shared) < same * (len(first) + len(second) - len(shared)):
        return False
    if shared != [word for word in second if word in first]:  # "Ann likes Bob" is not "Bob likes Ann"
        return False
    return not any(word in NEGATIONS or any(map(str.isdigit, word)) for word in first.keys() ^ second.keys())
