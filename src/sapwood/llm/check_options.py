"""The options of a provider, looked at one by one when it is made: what cannot be sent is refused by name.

Laws: an error names the option, the value and the way out; a key is never shown.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from sapwood.core.errors import ConfigError
from sapwood.core.model import ModelProfile
from sapwood.llm.codec import Timeouts

THINKING_LEVELS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""Every provider's words for how much a model thinks; which of them a model takes, its provider says."""


def check_options(given: Mapping[str, Any]) -> None:
    """Raise ConfigError for the first option whose value cannot be meant; None is always fine.

    >>> check_options({"max_tokens": 500, "stop": ["END"], "thinking": "low"})
    """
    for name, value in given.items():
        rule = _RULES.get(name)
        if rule is None or value is None:
            continue
        wanted, fits = rule
        if not fits(value):
            shown = type(value).__name__ if name == "api_key" else f"{value!r:.80}"
            raise ConfigError(f"{name} must be {wanted}, not {shown}")
    check_thinking_value(given.get("thinking"))


def check_thinking_value(thinking: Any) -> None:
    """Raise ConfigError for what is no way to ask for thinking, whatever the model."""
    if isinstance(thinking, str) and thinking not in THINKING_LEVELS:
        near = difflib.get_close_matches(thinking.strip().lower(), THINKING_LEVELS, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigError(f"thinking={thinking!r} is no level (there are: {', '.join(THINKING_LEVELS)}){hint}")
    if isinstance(thinking, int) and thinking < 0:
        raise ConfigError(f"thinking={thinking!r} is no number of tokens; give True to leave it to the model")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_texts(value: Any) -> bool:
    if isinstance(value, str):
        return bool(value)
    if not _is_iterable(value) or isinstance(value, bytes) or _is_mapping(value):
        return False
    # What can be read only once is left to whoever uses it.
    return iter(value) is value or all(isinstance(item, str) and item for item in value)


def _is_iterable(value: Any) -> TypeGuard[Iterable[Any]]:
    return isinstance(value, Iterable)


def _is_mapping(value: Any) -> TypeGuard[Mapping[Any, Any]]:
    return isinstance(value, Mapping)


def _is_fields(value: Any) -> bool:
    return _is_mapping(value) and all(isinstance(name, str) for name in value)


def _is_headers(value: Any) -> bool:
    return _is_mapping(value) and all(isinstance(item, str) for pair in value.items() for item in pair)


def _can_send(value: Any) -> bool:
    return hasattr(value, "send") or hasattr(value, "asend")


def _is_timeouts(value: Any) -> bool:
    return isinstance(value, Timeouts) and all(
        _is_number(seconds) and seconds > 0 for seconds in (value.connect, value.between_bytes)
    )


_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "base_url": ("an address, such as 'https://host/v1'", _is_text),
    "api_key": ("a text", _is_text),
    "provider": ("a provider's name", _is_text),
    "transport": ("an object that sends, such as Httpx2Transport()", _can_send),
    "timeouts": ("Timeouts(connect=..., between_bytes=...) of seconds above 0", _is_timeouts),
    "profile": ("a ModelProfile", lambda value: isinstance(value, ModelProfile)),
    "max_tokens": ("a whole number above 0", lambda value: _is_whole(value) and value > 0),
    "temperature": ("a number from 0 up", lambda value: _is_number(value) and value >= 0),
    "top_p": ("a number from 0 to 1", lambda value: _is_number(value) and 0 <= value <= 1),
    "top_k": ("a whole number", _is_whole),
    "seed": ("a whole number", _is_whole),
    "stop": ("a text or a list of texts, none of them empty", _is_texts),
    "thinking": ("True, False, a number of tokens or a level", lambda value: isinstance(value, int | str)),
    "betas": ("a list of names", _is_texts),
    "extra_body": ("a dictionary of fields", _is_fields),
    "extra_headers": ("a dictionary of texts", _is_headers),
}
