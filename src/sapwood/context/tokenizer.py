"""Tokenizers: an exact counter of tokens, in the forms in which people have one."""

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable


@runtime_checkable
class TokenizerLike(Protocol):
    """Anything that counts tokens of a text."""

    def count_tokens(self, text: str) -> int:
        """Return the tokens of a text."""
        ...


Tokenizer: TypeAlias = TokenizerLike | Callable[[str], int]


def counter_of(tokenizer: Tokenizer | None) -> Callable[[str], int] | None:
    """Return the function that counts; None to estimate.

    >>> counter_of(len)("abc")
    3
    """
    return tokenizer.count_tokens if isinstance(tokenizer, TokenizerLike) else tokenizer
