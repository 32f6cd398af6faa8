"""What is known of models: their profiles, from the packaged table and from what you registered.

Laws: no model is named outside the table; what is not known of a model is what its provider's own row
says, and of a provider without a row the most careful guess; a guess is logged once, and never for a server
of one's own.
"""

import difflib
import logging
from typing import Any

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.model import ModelProfile
from sapwood.llm.model_table import Found, look_up, table
from sapwood.llm.pricing import MODEL_PRICING, Price

log = logging.getLogger("sapwood.llm")
FACTS = tuple(name for name in ModelProfile.__struct_fields__ if name not in ("provider", "model", "known"))
"""What may be registered of a model."""


def profile_of(provider: str, model: str, *, own_server: bool = False, facts_of: str = "") -> ModelProfile:
    """Return what is known of a model.

    own_server: it runs at an address that is not the provider's, so that of a model which the table does
    not name nothing is assumed that holds for the provider only.
    facts_of: the provider whose models this one serves, where the table does not tell.

    >>> profile_of("openai", "gpt-4o-2024-11-20").max_tokens_field
    'max_completion_tokens'
    """
    found = look_up(provider, model, facts_of)
    facts, is_known = found.facts, found.is_exact
    if own_server and not is_known:
        facts = table().provider("").facts
    size, registered = _registered_for(provider, model)
    if registered and not (is_known and found.size > size):
        facts, is_known = {**facts, **registered}, True
    profile = _profile({**facts, "provider": provider, "model": model, "known": is_known})
    if not is_known:
        _tell(profile, found, is_own=own_server)
    return profile


def register_model(name: str, *, price: Price | tuple[float, float] | None = None, **facts: Any) -> None:
    """Say what holds for a model, for the whole process, from the next provider that is made on.

    name: `provider/model`; it holds for longer names too, unless the table or another call names them.
    price: dollars for a million tokens. facts: fields of `ModelProfile`; what is not given stays as it was.
    Raises ConfigError for a fact that does not exist or has the wrong type.

    >>> register_model("vllm/my-tune", context_window=65_536, images=True, price=Price(0.1, 0.4))
    >>> profile_of("vllm", "my-tune-v2").context_window
    65536
    """
    provider, slash, model = name.strip().partition("/")
    if not slash or not provider or not model:
        raise ConfigError(f"a model is registered as 'provider/model', not {name!r}")
    for fact in facts:
        if fact not in FACTS:
            near = difflib.get_close_matches(fact, FACTS, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f" (there are: {', '.join(FACTS)})"
            raise ConfigError(f"a model has no fact {fact!r}{hint}")
    try:
        _profile(facts)
    except msgspec.ValidationError as error:
        raise ConfigError(f"what is said of {name!r} does not fit a ModelProfile: {error}") from error
    for fact, value in facts.items():
        if isinstance(value, int | float) and value < 0:
            raise ConfigError(f"what is said of {name!r} cannot hold: {fact}={value!r} is below 0")
    if price is not None:
        MODEL_PRICING[name] = price
    key = (table().vendor(provider), model.lower())
    _registered[key] = {**_registered.get(key, {}), **facts}


_registered: dict[tuple[str, str], dict[str, Any]] = {}
_told: set[str] = set()


def _profile(facts: dict[str, Any]) -> ModelProfile:
    named = {key: value for key, value in facts.items() if key != "price"}
    return msgspec.convert({**named, "type": "model_profile"}, ModelProfile)


def _registered_for(provider: str, model: str) -> tuple[int, dict[str, Any]]:
    """Return how much of the name the longest registered one explains, and all facts that hold for it."""
    own, name = table().vendor(provider), model.lower()
    fitting = [key for key in list(_registered) if key[0] == own and name.startswith(key[1])]
    merged: dict[str, Any] = {}
    for key in sorted(fitting, key=lambda key: len(key[1])):
        merged |= _registered[key]
    return max((len(key[1]) for key in fitting), default=0), merged


def _tell(profile: ModelProfile, found: Found, *, is_own: bool) -> None:
    if profile.origin in _told:
        return
    _told.add(profile.origin)
    row = table().provider(profile.provider)
    is_quiet = is_own or row.local or table().vendor(profile.provider) not in table().providers
    guess = (
        f"it is taken for {found.like}" if found.like and not is_own else "only what holds for its server is assumed"
    )
    log.log(
        logging.DEBUG if is_quiet else logging.WARNING,
        "nothing is known of %s; %s: a window of %d tokens, replies up to %d (0 is unknown), and no price. "
        'register_model("%s", context_window=..., ...) says what holds',
        *(profile.origin, guess, profile.context_window, profile.max_output_tokens, profile.origin),
    )
