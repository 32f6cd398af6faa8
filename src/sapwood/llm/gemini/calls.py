"""One function call of Gemini while it streams: whole, or as values at places in its arguments.

Laws: a call that is not closed by its own end is closed by whatever comes after it; a value at a place that
cannot be is no reason to guess: the arguments are malformed and kept as they came.
"""

import itertools
import re
from typing import Any, TypeAlias

from sapwood.core.json_object import is_list, is_object
from sapwood.core.messages import ToolCall
from sapwood.llm.arguments import read_call
from sapwood.llm.gemini.names import called_name
from sapwood.llm.shapes import encode_json, list_in, text_in

Step: TypeAlias = str | int
MAX_STEPS = 200
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_VALUES = ("stringValue", "numberValue", "boolValue")


class CallInProgress:
    """The fragments of one call. is_open: more of it was announced."""

    def __init__(self, function: dict[str, Any], signature: str) -> None:
        self.name = called_name(text_in(function, "name"))
        self.id = text_in(function, "id")
        self.signature = signature
        self.is_open = False
        self._arguments: dict[str, Any] = {}
        self._growing = ""  # the place of a text of which more was announced
        self._pieces: list[Any] = []
        self._is_sound = True
        self.take(function)

    def take(self, function: dict[str, Any], signature: str = "") -> None:
        """Add what one part says of the call; the first signature counts."""
        self.signature = self.signature or signature
        self.id = self.id or text_in(function, "id")
        whole: Any = function.get("args")
        if is_object(whole):
            self._arguments |= whole
        elif whole is not None:
            self._pieces.append(whole)
            self._is_sound = False
        for piece in list_in(function, "partialArgs"):
            self._pieces.append(piece)
            self._is_sound = self._put(piece) and self._is_sound
        self.is_open = function.get("willContinue") is True

    def _put(self, piece: Any) -> bool:
        path = text_in(piece, "jsonPath")
        steps = steps_of(path)
        value = next((piece[name] for name in _VALUES if name in piece), None) if is_object(piece) else None
        grows = self._growing == path and isinstance(value, str)
        self._growing = path if is_object(piece) and piece.get("willContinue") is True else ""
        return bool(steps) and put(self._arguments, steps, value, grows=grows)

    def finish(self, provider: str, *, is_cut: bool, spare_id: str) -> ToolCall:
        """Return the call. is_cut: the reply ended before its end. spare_id: for one without an id of its own."""
        data = {"thoughtSignature": self.signature, "id": self.id}
        own = {name: value for name, value in data.items() if value}
        id, provider_data = self.id or spare_id, {provider: own} if own else None
        if self._is_sound and not (is_cut and self.is_open):
            return read_call(self.name, self._arguments, id=id, provider_data=provider_data)
        return ToolCall(
            self.name,
            id=id,
            raw=encode_json(self._pieces).decode(),
            problem="malformed" if not self._is_sound else "incomplete",
            provider_data=provider_data,
        )


def steps_of(path: str) -> list[Step]:
    """Return the keys and places of a path such as `$.items[0].name`, none where it cannot be read.

    >>> steps_of("$.items[0]['a.b']"), steps_of("$..x")
    (['items', 0, 'a.b'], [])
    """
    steps: list[Step] = []
    at = 1
    while path.startswith("$") and at < len(path) and len(steps) <= MAX_STEPS:
        if (found := _STEP.match(path, at)) is None:
            return []
        key, place, single, double = found.groups()
        steps.append(int(place) if place is not None else next(k for k in (key, single, double) if k is not None))
        at = found.end()
    return steps if len(steps) <= MAX_STEPS else []


def put(holder: dict[str, Any], steps: list[Step], value: Any, *, grows: bool = False) -> bool:
    """Set the value at these steps, making what lies between; tell whether there is such a place.

    grows: a text is added to the one that is there.

    >>> arguments: dict = {}
    >>> put(arguments, ["items", 0, "name"], "ap"), put(arguments, ["items", 0, "name"], "ple", grows=True), arguments
    (True, True, {'items': [{'name': 'apple'}]})
    >>> put(arguments, ["items", 9], 1)
    False
    """
    inner: Any = holder
    for step, following in itertools.pairwise(steps):
        if not _has_room(inner, step):
            return False
        if _is_missing(inner, step):
            _set(inner, step, [] if isinstance(following, int) else {})
        inner = inner[step]
    last = steps[-1]
    if not _has_room(inner, last):
        return False
    old = None if _is_missing(inner, last) else inner[last]
    _set(inner, last, old + value if grows and isinstance(old, str) else value)
    return True


def _has_room(holder: Any, step: Step) -> bool:
    if is_list(holder):
        return isinstance(step, int) and step <= len(holder)
    return is_object(holder) and isinstance(step, str)


def _is_missing(holder: Any, step: Step) -> bool:
    return step == len(holder) if is_list(holder) else step not in holder


def _set(holder: Any, step: Step, value: Any) -> None:
    if is_object(holder):
        holder[str(step)] = value
    elif step == len(holder):
        holder.append(value)
    else:
        holder[step] = value
