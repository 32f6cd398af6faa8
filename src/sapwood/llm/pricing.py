"""What a model's tokens cost: a table that can be changed while the program runs, and the cost of a reply.

Laws: what the provider billed comes first; a cost that is not known is None, never 0; every token is priced once,
at the price of its own kind; a price that is missing is not guessed from a model of the same family.
"""

import functools
import importlib
import logging
import math
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.usage import Usage
from sapwood.llm.model_table import homes, is_stamp, table

log = logging.getLogger("sapwood.llm")
MILLION = 1_000_000
MOST_ASKED = 1_000
"""Models whose price is kept at hand."""


class Price(msgspec.Struct, frozen=True):
    """What a million tokens cost in US dollars.

    cache_read, cache_write: None is the price of input, which is what providers ask who do not name one.
    cache_write_1h: for what is kept for an hour; None is cache_write.
    tiers: pairs of a number of tokens and a price; a request whose whole input, cached or not, is longer than that
    is priced so, all of it.

    >>> Price(2.0, 12.0, tiers=((200_000, Price(4.0, 18.0)),)).at(200_001).input
    4.0
    """

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    tiers: tuple[tuple[int, "Price"], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no price can be."""
        for name in ("input", "output", "cache_read", "cache_write", "cache_write_1h"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"a price is a number of dollars, at least 0; {name} is {value!r}")

    def at(self, input_tokens: int) -> "Price":
        """Return the price of a request with so much input."""
        above = [price for tokens, price in sorted(self.tiers, key=lambda tier: tier[0]) if input_tokens > tokens]
        return above[-1] if above else self

    def cost(self, usage: Usage) -> float:
        """Return what one reply cost.

        >>> round(Price(3.0, 15.0, cache_read=0.3).cost(Usage(20, 5, 0, 80)), 9)
        0.000159
        """
        price = self.at(usage.input_tokens)
        read = price.input if price.cache_read is None else price.cache_read
        write = price.input if price.cache_write is None else price.cache_write
        long_write = write if price.cache_write_1h is None else price.cache_write_1h
        long = min(usage.long_cache_tokens, usage.cache_creation_tokens)
        dollars = (
            usage.prompt_tokens * price.input
            + usage.cache_read_tokens * read
            + (usage.cache_creation_tokens - long) * write
            + long * long_write
            + usage.completion_tokens * price.output
        )
        return dollars / MILLION


class PriceTable(MutableMapping[str, Price]):
    """Prices by `provider/name`, the packaged ones and yours.

    A key that you set holds for every name that begins so and that no longer key names, `provider/` for all of a
    provider; a packaged one for its model and the dated editions of it. A key without a slash is a model of any
    provider. Set a `Price`, or a pair of dollars for a million tokens of input and output. Changes hold for the
    whole process, from the next reply on.

    >>> MODEL_PRICING["openai/my-tune"] = (3.0, 12.0)
    >>> price_of("openai", "my-tune:v2").output
    12.0
    >>> del MODEL_PRICING["openai/my-tune"]
    """

    def __init__(self) -> None:
        self._changed: dict[str, Price | None] = {}
        """Key -> its price, None where the key was deleted."""
        self._seen: tuple[object, dict[tuple[str, str], Price | None]] = (self._changed, {})
        """What was asked for since the last change."""

    def __getitem__(self, key: str) -> Price:
        name = _key(key)
        price = self._changed[name] if name in self._changed else _packaged().get(name)
        if price is None:
            raise KeyError(key)
        return price

    def __setitem__(self, key: str, value: Price | tuple[float, float]) -> None:
        self._forget()
        try:
            self._changed[_key(key)] = value if isinstance(value, Price) else Price(*value)
        except TypeError as error:
            raise ConfigError(f"the price of {key!r} is a Price or a pair (input, output), not {value!r}") from error

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._changed[_key(key)] = None
        self._forget()

    def __iter__(self) -> Iterator[str]:
        merged = {**_packaged(), **self._changed}
        return iter([key for key, price in merged.items() if price is not None])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{len(self)} prices>"

    def asked(self) -> dict[tuple[str, str], Price | None]:
        """Return what models were found to cost, by provider and name; it is emptied by each change."""
        if self._seen[0] is not self._changed or len(self._seen[1]) > MOST_ASKED:
            self._forget()
        return self._seen[1]

    def _forget(self) -> None:
        self._seen = (self._changed, {})

    def find(self, provider: str, name: str) -> Price | None:
        """Return the price under the longest key that holds for a model of this provider, None without one."""
        for size in range(len(name), -1, -1):
            keys = (f"{provider}/{name[:size]}", name[:size])
            for price in map(self._changed.get, keys):
                if price is not None:
                    return price
            if keys[0] not in self._changed and is_stamp(name[size:]):
                price = _packaged().get(keys[0])
                if price is not None:
                    return price
        return None


@functools.cache
def _packaged() -> Mapping[str, Price]:
    rows = table().models
    named = ((provider, name, table().row(provider, name)) for provider in rows for name in rows[provider])
    return {
        f"{provider}/{name}": msgspec.convert(row["price"], Price) for provider, name, row in named if "price" in row
    }


def _key(key: str) -> str:
    """Return a key as the table spells it: small letters, and its word for the provider."""
    provider, slash, name = key.strip().lower().partition("/")
    if not provider:
        raise ConfigError(f"a price stands under 'provider/model', not {key!r}")
    return f"{table().vendor(provider)}/{name}" if slash else provider


MODEL_PRICING = PriceTable()
"""The prices by which replies are priced whose provider does not bill them."""


def price_of(provider: str, model: str) -> Price | None:
    """Return the prices of a model, None where `MODEL_PRICING` has none.

    >>> price_of("anthropic", "claude-haiku-4-5-20251001").output
    5.0
    """
    asked = MODEL_PRICING.asked()
    if (provider, model) not in asked:
        asked[provider, model] = _look_up(provider, model)
    return asked[provider, model]


def _look_up(provider: str, model: str) -> Price | None:
    row = table().provider(provider)
    own, *others = homes(provider, model)
    # At a gateway a name such as `model:free` has a price of its own.
    if row.own_prices or (row.gateway and ":" in model):
        others = []
    for home in (own, *others):
        found = MODEL_PRICING.find(home.provider, home.name)
        if found is not None:
            return found
    return None


def cost_of(usage: Usage, provider: str, model: str) -> float | None:
    """Return what one reply cost in US dollars, None where no price is known.

    What the provider billed comes first, then `MODEL_PRICING`, then the package genai-prices where it is installed.
    A model without a price is logged once; register its price with `register_model` or in `MODEL_PRICING`.
    usage: that of one request; long-context prices go by the length of its input.

    >>> cost_of(Usage(prompt_tokens=1_000_000), "openai", "gpt-4o")
    2.5
    >>> cost_of(Usage(cost_usd=0.25), "acme", "rocket-1")
    0.25
    """
    if usage.cost_usd is not None:
        return usage.cost_usd
    price = price_of(provider, model)
    if price is not None:
        return price.cost(usage)
    if (provider, model) in _unpriced:
        return None
    cost = _cost_elsewhere(usage, provider, model)
    if cost is None:
        _unpriced.add((provider, model))
        quiet = table().provider(provider).local
        log.log(
            logging.DEBUG if quiet else logging.WARNING,
            "the price of %s/%s is not known, so its cost is not either; "
            'set MODEL_PRICING["%s/%s"] = Price(input, output)',
            *(provider, model, provider, model),
        )
    return cost


_unpriced: set[tuple[str, str]] = set()


def _cost_elsewhere(usage: Usage, provider: str, model: str) -> float | None:
    """Return the cost by genai-prices, which does not know what this package calls the provider."""
    row = table().provider(provider)
    prices = _genai_prices()
    if prices is None or row.local or not row.genai_prices:
        return None
    asked = prices.Usage(**_usage(usage))
    try:
        cost = float(prices.calc_price(asked, model, provider_id=row.genai_prices).total_price)
    except (LookupError, ValueError) as error:
        log.debug("genai-prices has no price of %s/%s: %s", provider, model, error)
        return None
    return cost if cost > 0 or usage.total_tokens == 0 else None  # its rows without a price cost nothing


def _usage(usage: Usage) -> Mapping[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_creation_tokens,
        "cache_write_1h_tokens": usage.long_cache_tokens,
        "output_tokens": usage.completion_tokens,
    }


@functools.cache
def _genai_prices() -> Any:
    """Return the package, None where it is not installed; its import takes a fifth of a second."""
    try:
        return importlib.import_module("genai_prices")
    except ImportError:
        return None
