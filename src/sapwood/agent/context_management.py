"""What `with_context_management` was told, checked; and who does it: the provider where it can, else our own ladder.

Laws: the form is Anthropic's, on every provider; what nobody can do is refused by name, never dropped; what the
provider does, the ladder leaves alone.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from sapwood.core.context_edits import CLEAR_THINKING, CLEAR_TOOL_USES, COMPACT
from sapwood.core.errors import ConfigError
from sapwood.core.json_object import is_list, is_object
from sapwood.core.model import ModelProfile
from sapwood.core.require import shown
from sapwood.sources.compaction import CompactionOptions

Edit = dict[str, Any]
CLEAR_AT, COMPACT_AT = 100_000, 150_000
"""Tokens of a request from which on Anthropic clears results, and compacts, where the edit names no trigger."""
_UNITS = {"input_tokens": 1, "tool_uses": 0, "thinking_turns": 1}


def checked_edits(config: object) -> tuple[Edit, ...]:
    """Return the edits of a config as they are sent; raises ConfigError, naming what is wrong and what would do.

    >>> checked_edits({"edits": [{"type": "compact_20260112", "trigger": None}]})
    ({'type': 'compact_20260112'},)
    """
    if not is_object(config) or set(config) != {"edits"} or not is_list(config["edits"]) or not config["edits"]:
        raise ConfigError(
            'with_context_management takes {"edits": [...]}, such as '
            f'{{"edits": [{{"type": "{CLEAR_TOOL_USES}"}}]}}, not {shown(config)}'
        )
    edits = tuple(_checked(item) for item in config["edits"])
    kinds = [edit["type"] for edit in edits]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise ConfigError(f"{kind!r} stands in the edits {kinds.count(kind)} times; name it once")
    return edits


def _checked(item: object) -> Edit:
    kind: object = item.get("type") if is_object(item) else None
    if not is_object(item) or not isinstance(kind, str) or kind not in _FIELDS:
        raise ConfigError(f"an edit has a type, one of {', '.join(_FIELDS)}, not {shown(item)}")
    edit = {name: value for name, value in item.items() if value is not None}
    for name, value in edit.items():
        if name != "type" and name not in _FIELDS[kind]:
            raise ConfigError(f"{kind!r} has no {name!r}; it has: {', '.join(_FIELDS[kind])}")
        if name != "type" and (rule := _FIELDS[kind][name](value)):
            raise ConfigError(f"{name!r} of {kind!r} is {rule}, not {shown(value)}")
    return edit


def _amount(*units: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if is_object(value) and set(value) == {"type", "value"} and value["type"] in units:
            number: object = value["value"]
            if type(number) is int and number >= _UNITS[str(value["type"])]:
                return ""
        words = " or ".join(f'{{"type": "{unit}", "value": N}}' for unit in units)
        return f"{words}, N a whole number of at least {min(_UNITS[unit] for unit in units)}"

    return check


def _thinking(value: object) -> str:
    fits = value in ("all", {"type": "all"}) or not _amount("thinking_turns")(value)
    return "" if fits else f'"all" or {_amount("thinking_turns")(value)}'


def _names(value: object) -> str:
    return "" if is_list(value) and all(isinstance(item, str) for item in value) else "a list of names of tools"


def _names_or_bool(value: object) -> str:
    return "" if isinstance(value, bool) or not _names(value) else f"True, False or {_names(value)}"


def _text(value: object) -> str:
    return "" if isinstance(value, str) and value.strip() else "a text"


def _no(value: object) -> str:
    return "" if value is False else "False, as a turn goes on by itself; leave it out"


_FIELDS: dict[str, dict[str, Callable[[object], str]]] = {
    CLEAR_TOOL_USES: {
        "trigger": _amount("input_tokens", "tool_uses"),
        "keep": _amount("tool_uses"),
        "clear_at_least": _amount("input_tokens"),
        "exclude_tools": _names,
        "clear_tool_inputs": _names_or_bool,
    },
    CLEAR_THINKING: {"keep": _thinking},
    COMPACT: {"trigger": _amount("input_tokens"), "instructions": _text, "pause_after_compaction": _no},
}


def native_edits(edits: Iterable[Edit], profiles: Iterable[ModelProfile], *, room: int) -> tuple[Edit, ...]:
    """Return the edits that the provider makes: those that every model of a chain can make.

    room: tokens that a request may take. A trigger above it is never reached by what is sent, so our ladder does that.
    """
    known = tuple(profiles)
    return tuple(edit for edit in edits if _is_reached(edit, room) and all(_takes(profile, edit) for profile in known))


def _is_reached(edit: Edit, room: int) -> bool:
    if edit["type"] == CLEAR_THINKING or edit.get("trigger", {}).get("type") == "tool_uses":
        return True
    return _trigger(edit, COMPACT_AT if edit["type"] == COMPACT else CLEAR_AT) < room


def _takes(profile: ModelProfile, edit: Edit) -> bool:
    # Where no beta feature is named, the form is the provider's own, which has a place for the trigger alone.
    is_named = any(known == edit["type"] and beta for known, beta in profile.context_edits)
    return profile.edits(edit["type"]) and (is_named or not edit.get("instructions"))


def ladder_options(
    edits: Iterable[Edit], native: Iterable[Edit], compaction: CompactionOptions | None, *, room: int, origin: str
) -> CompactionOptions | None:
    """Return what our own ladder does: what compaction was asked for, and the edits that the provider does not make.

    room: tokens that a request may take. origin: the model, for messages.

    Raises ConfigError for what neither can do.
    """
    made = {edit["type"] for edit in native}
    options = compaction
    if options is not None and COMPACT in made:
        options = msgspec.structs.replace(options, summarise=None)
    for edit in sorted((edit for edit in edits if edit["type"] not in made), key=lambda edit: edit["type"] != COMPACT):
        _require_doable(edit, f"{origin}, asked with {room:,} tokens at most,")
        options = (_compacting if edit["type"] == COMPACT else _clearing)(options, edit, room)
    return options


def _compacting(options: CompactionOptions | None, edit: Edit, room: int) -> CompactionOptions:
    at = _trigger(edit, COMPACT_AT)
    if options is None:
        return CompactionOptions(at=_within(at, room))
    return msgspec.structs.replace(options, at=_within(min(at, _tokens(options.at, room)), room))


def _clearing(options: CompactionOptions | None, edit: Edit, room: int) -> CompactionOptions:
    options = options or CompactionOptions(at=1.0, summarise=None)
    at = _within(_trigger(edit, CLEAR_AT), room)
    keep = edit["keep"]["value"] if "keep" in edit else options.keep_results
    return msgspec.structs.replace(
        options,
        clear_at=at if _tokens(at, room) < _tokens(options.at, room) else None,
        keep_results=keep,
        keep_tools=tuple(edit.get("exclude_tools", ())),
    )


def _trigger(edit: Edit, default: int) -> int:
    return int(edit["trigger"]["value"]) if "trigger" in edit else default


def _tokens(at: float, room: int) -> int:
    return int(at * room) if at <= 1 else int(at)


def _within(at: int, room: int) -> float:
    """Return a size, as the whole window where it is larger: it would come too late."""
    return 1.0 if at >= room else float(at)


def _require_doable(edit: Edit, who: str) -> None:
    kind = edit["type"]
    if kind == CLEAR_THINKING:
        raise ConfigError(f"{who} does not do {kind!r}, and nothing here does it in its place; leave it out")
    refused = [name for name in ("clear_at_least", "clear_tool_inputs", "instructions") if edit.get(name)]
    if edit.get("trigger", {}).get("type") == "tool_uses":
        refused.append("a trigger of tool_uses (input_tokens would do)")
    if refused:
        hint = "; with_compaction(compact_fn=...) writes a summary as you like" if kind == COMPACT else ""
        raise ConfigError(
            f"{who} does not do {kind!r} itself, and the ladder that does it here knows no {', '.join(refused)}; "
            f"leave that out{hint}"
        )
