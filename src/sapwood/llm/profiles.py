"""What is known of models: one packaged table, matched by the longest beginning of a name.

Laws: no model is named outside the table; what is not known of a model is what its provider's own row
says, and of a provider without a row the most careful guess.
"""

import functools
from pathlib import Path
from typing import Any

import msgspec

from sapwood.core.model import ModelProfile

_NOT_FACTS = ("prefix", "price")


class Price(msgspec.Struct, frozen=True):
    """What a million tokens cost in US dollars; None where it is not known."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def profile_of(provider: str, model: str, *, own_server: bool = False, facts_of: str = "") -> ModelProfile:
    """Return what is known of a model.

    facts_of: the provider whose models this one serves, where it has none of its own.

    own_server: it runs at an address that is not the provider's, so that of a model which the table does
    not name nothing is assumed that holds for the provider only.

    >>> profile_of("openai", "gpt-4o-2024-11-20").max_tokens_field
    'max_completion_tokens'
    """
    row = _row(facts_of or provider, model)
    if own_server and not row["prefix"]:
        row = _row("", "")
    facts = {key: value for key, value in row.items() if key not in _NOT_FACTS}
    return msgspec.convert(
        {**facts, "type": "model_profile", "provider": provider, "model": model, "known": bool(row["prefix"])},
        ModelProfile,
    )


def price_of(provider: str, model: str) -> Price | None:
    """Return the prices of a model, None where the table has none.

    >>> price_of("anthropic", "claude-haiku-4-5-20251001").output
    5.0
    """
    price = _row(provider, model).get("price")
    return None if price is None else msgspec.convert(price, Price)


def _row(provider: str, model: str) -> dict[str, Any]:
    """Return the model's row, which adds to that of its provider."""
    rows = _rows()
    fitting = [row for row in rows if row["provider"] == provider and model.startswith(row["prefix"])]
    if not fitting:
        return rows[0]
    fitting.sort(key=lambda row: len(row["prefix"]))
    return fitting[-1] if fitting[0]["prefix"] else {**fitting[0], **fitting[-1]}


@functools.cache
def _rows() -> list[dict[str, Any]]:
    return msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=list[dict[str, Any]])
