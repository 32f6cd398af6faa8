"""What a refusal of a request that is too long says: that it is one, how long the request was, and what may pass.

Laws: pure; a figure counts only where the words around it say what it is of, else it is not known. Of a request, only
what went in counts, without what was asked for the reply. Source of the spellings: recorded answers, public reports.
"""

import re
from collections.abc import Iterable

_OVERFLOW = re.compile(
    r"prompt is too long|prompt too long|context_length_exceeded|context window|maximum context length"
    r"|exceed_context_size|available context size|exceeds the maximum number of tokens"
    r"|(?:exceeds|longer than) the context length|reduce the length"
    r"|request_too_large|request too large|max(?:imum)? context"
    r"|exceeds? (?:the )?context limit|input is too long|input token count is \d+ but|range of input length should be"
    r"|prompt exceeds max length|exceeded model token limit|maximum prompt length|maximum model length"
    r"|prompt token count of \d+ exceeds|too many tokens: (?:total|size)|tokens \+ `?max_new_tokens`? must be",
    re.IGNORECASE,
)
_TOO_LARGE = re.compile(r"request too large|request_too_large", re.IGNORECASE)
_MOST_DIGITS = 12
_N = r"(\d[\d,]*)"


def _compiled(*patterns: str) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern.replace("N", _N), re.IGNORECASE) for pattern in patterns)


# The first that is found counts; N is a number, and several are added up.
_REQUESTED = _compiled(
    r"prompt is too long: N tokens >",
    r"N in the messages(?:, N in the functions)?",
    r"N in your prompt",
    r"N of text input(?:, N of tool input)?",
    r"messages resulted in N tokens",
    r"request has N input tokens",
    r"input token count \(?(?:is )?N",
    r"request contains N tokens",
    r"prompt \(length N\)",
    r"request \(N tokens\)",
    r"exceeds? context limit: N \+",
    r"given: N `?inputs`? tokens",
    r"prompt token count of N exceeds",
    r"in the prompt cannot exceed \d+ - received N",
    r"\(requested: N\)",
)
_LIMIT = _compiled(
    r"tokens > N maximum",
    r"maximum context length is N",
    r"maximum number of tokens allowed \(N\)",
    r"only supports up to N",
    r"range of input length should be \[\d+, ?N\]",
    r"model token limit: N",
    r"maximum prompt length is N",
    r"maximum model length of N",
    r"context size \(N tokens\)",
    r"exceeds? context limit: [\d,]+ \+ [\d,]+ > N",
    r"max_new_tokens`? must be <= N",
    r"exceeds the limit of N",
    r"in the prompt cannot exceed N",
    r"\blimit:? N, requested",
)


def is_overflow(words: str, status: int) -> bool:
    """Tell whether a refusal means that the request is too long.

    >>> is_overflow("prompt is too long: 5 tokens > 4 maximum", 400)
    True
    """
    match status:
        case 413:
            return True
        case 429:  # a request that is larger than a whole minute's limit never passes; other limits only name windows
            return bool(_TOO_LARGE.search(words))
        case 401 | 403 | 404:
            return False
        case _:
            return bool(_OVERFLOW.search(words))


def told_sizes(message: str) -> tuple[int | None, int | None]:
    """Return the tokens of the request, and those that may pass, as far as a message names them.

    >>> told_sizes("prompt is too long: 210000 tokens > 200000 maximum")
    (210000, 200000)
    >>> told_sizes("Your input exceeds the context window of this model.")
    (None, None)
    """
    return _first(_REQUESTED, message), _first(_LIMIT, message)


def _first(patterns: Iterable[re.Pattern[str]], message: str) -> int | None:
    for pattern in patterns:
        if (found := pattern.search(message)) is not None:
            return sum(map(_tokens, found.groups())) or None
    return None


def _tokens(digits: str | None) -> int:
    plain = (digits or "").replace(",", "")
    return int(plain) if plain and len(plain) <= _MOST_DIGITS else 0
