"""JSON that is still growing: what of it can be shown, at a cost that stays in proportion.

Laws: what is shown of a finished part is what the whole will hold there, and fits the schema; what does not fit is
left out, and so is a secret (`writeOnly`); a text is shown while it grows, a number or a word never before its end;
nobody's validators run.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from sapwood.core.check_schema import check_schema
from sapwood.core.json_object import is_list, is_object
from sapwood.core.struct import Json
from sapwood.core.tools import JsonObject

FREE_WORK = 100_000
"""Work that is always done, so that outputs of usual size are shown at each piece. Its unit is about a microsecond."""
WORK_PER_CHARACTER = 4
"""Work that may be done beside it for each character that came."""
_CHARACTERS_PER_WORK = 64
_IN_TEXT = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\],:]')
_HIDDEN: Any = object()
_CHOSEN = ("enum", "const", "format", "pattern")  # a part of such a text means nothing


class GrowingJson:
    """Shows a JSON text while it streams.

    schema: of the object that grows; inside: the field of it that is shown alone, empty for all of it.
    What comes before the first bracket (a code fence, prose) is passed over. At a piece all of the text is read anew,
    which costs a unit of work for each mark of JSON in it and for each 64 characters. Once 100,000 units are used up,
    no more than 4 for each character are spent: a piece is shown together with those after it then. `finish` shows
    the last state in any case.
    work: units that were used so far.

    >>> growing = GrowingJson({"type": "object", "properties": {"n": {"type": "integer"}, "t": {"type": "string"}}})
    >>> [growing.feed(piece) for piece in ('{"n": 1', '2, "t"', ': "a', 'b"}')]
    [{}, {'n': 12}, {'n': 12, 't': 'a'}, {'n': 12, 't': 'ab'}]
    """

    def __init__(self, schema: JsonObject, *, inside: str = "") -> None:
        self.work = 0
        self._view = _View(schema)
        self._schema = schema
        self._inside = inside
        self._bounds = _Bounds("{[" if inside else "{")
        self._pieces: list[str] = []
        self._unread = 0
        self._shown: Json | None = None

    def feed(self, piece: str) -> Json | None:
        """Add a piece; return what can be shown now, None where there is nothing to show or nothing new was read."""
        self._add(piece)
        is_affordable = self.work + self._cost() <= FREE_WORK + WORK_PER_CHARACTER * self._bounds.size
        return self._look() if self._unread and is_affordable else None

    def finish(self) -> Json | None:
        """Return what can be shown of all that came; None where there is nothing."""
        return self._look() if self._unread else self._shown

    def _cost(self) -> int:
        return self._bounds.marks + self._bounds.size // _CHARACTERS_PER_WORK

    def _add(self, piece: str) -> None:
        kept = self._bounds.take(piece)
        if kept:
            self._pieces.append(kept)
            self._unread += len(kept)

    def _look(self) -> Json | None:
        from pydantic_core import from_json

        text = "".join(self._pieces)
        self._pieces = [text]
        self._unread = 0
        self.work += self._cost()
        bounds = self._bounds
        try:
            # A number or a word at the end may be the beginning of another one.
            value = from_json(text if bounds.in_text else text[: bounds.told], allow_partial="trailing-strings")
        except (ValueError, TypeError, RecursionError):  # a TypeError for half a character
            return self._shown  # broken JSON is shown as far as it was sound
        levels, grows = len(bounds.open), bounds.in_text and not bounds.is_key
        self._shown = self._visible(value, levels, grows)
        return self._shown

    def _visible(self, value: Any, levels: int, grows: bool) -> Json | None:
        node: Any = self._schema
        if self._inside:
            node = self._schema["properties"][self._inside]
            if is_object(value):
                if self._inside not in value:
                    return None
                is_last = next(reversed(value)) == self._inside
                value, grows = value[self._inside], grows and (levels > 1 or is_last)
                levels = max(0, levels - 1) if is_last else 0
        shown = self._view.of(value, [node], levels, grows, is_top=True)
        return None if shown is _HIDDEN else shown


class _Bounds:
    """Where a growing JSON text is: which brackets are open, and up to where its end can change no more.

    openers: the brackets with which it may begin. size, marks: characters and marks of JSON so far. told: that place.
    open: the open brackets. is_key: the text that is open names a field.
    """

    def __init__(self, openers: str) -> None:
        self._start = re.compile(f"[{re.escape(openers)}]")
        self.size = 0
        self.marks = 0
        self.told = 0
        self.open: list[str] = []
        self.in_text = False
        self.is_key = False
        self._has_begun = False
        self._escapes = False
        self._expects_key = False

    def take(self, piece: str) -> str:
        """Return what of a piece belongs to the value: nothing before its first bracket or after its last."""
        at = 0
        if not self._has_begun:
            start = self._start.search(piece)
            if start is None:
                return ""
            piece = piece[start.start() :]
            self._has_begun = True
        elif not self.open:
            return ""
        elif self._escapes and piece:
            at, self._escapes = 1, False
        while found := (_IN_TEXT if self.in_text else _OUTSIDE).search(piece, at):
            at = found.end()
            if found[0] == "\\":
                self._escapes = at == len(piece)
                at += 1
                continue
            self._pass(found[0])
            self.marks += 1
            self.told = self.size + at
            if not self.open:
                piece = piece[:at]
                break
        self.size += len(piece)
        return piece

    def _pass(self, mark: str) -> None:
        match mark:
            case '"':
                self.in_text = not self.in_text
                self.is_key = self.in_text and self._expects_key
            case "{" | "[":
                self.open.append(mark)
                self._expects_key = mark == "{"
            case "}" | "]":
                self.open.pop()
                self._expects_key = False
            case ",":
                self._expects_key = self.open[-1] == "{"
            case _:
                self._expects_key = False


class _View:
    """What may be shown of a value of which the last part may still grow. root: where references lead."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._has_secrets = '"writeOnly": true' in json.dumps(root)

    def of(self, value: Any, nodes: Sequence[Any], levels: int, grows: bool, *, is_top: bool = False) -> Any:
        """Return what is shown of a value, `_HIDDEN` for nothing.

        nodes: the schemas of which it may fit any. levels: how many containers, from this one down, are open.
        grows: the text at the end of the innermost is open, or this text itself where no container is.
        """
        is_container = is_object(value) or is_list(value)
        if levels == 0 and not grows and not (is_top and is_container):
            if not self._fits(value, nodes):
                return _HIDDEN
            if not self._has_secrets:
                return value
        parts = [part for node in nodes for part in self._alternatives(node)]
        if self._has_secrets and any(is_object(node) and node.get("writeOnly") is True for node in (*nodes, *parts)):
            return _HIDDEN
        if levels == 0 and not grows and not is_container:
            return value
        if is_object(value):
            return self._object(value, [part for part in parts if _may_be(part, "object")], levels, grows)
        if is_list(value):
            return self._list(value, [part for part in parts if _may_be(part, "array")], levels, grows)
        is_free = any(_may_be(part, "string") and not any(name in part for name in _CHOSEN) for part in parts)
        return value if isinstance(value, str) and is_free and levels == 0 else _HIDDEN

    def _object(self, value: JsonObject, parts: list[JsonObject], levels: int, grows: bool) -> Any:
        if len(parts) > 1:
            parts = [part for part in parts if not self._is_excluded(part, value, levels, grows)]
        if not parts:
            return _HIDDEN
        made: JsonObject = {}
        last = next(reversed(value), None)
        for key, item in value.items():
            nodes = [node for part in parts if (node := _property(part, key)) is not None]
            deeper, still = _of_last(levels, grows) if key == last else (0, False)
            if nodes and (shown := self.of(item, nodes, deeper, still)) is not _HIDDEN:
                made[key] = shown
        return made

    def _list(self, value: list[Any], parts: list[JsonObject], levels: int, grows: bool) -> Any:
        if not parts:
            return _HIDDEN
        made: list[Any] = []
        for place, item in enumerate(value):
            nodes = [_item(part, place) for part in parts]
            deeper, still = _of_last(levels, grows) if place == len(value) - 1 else (0, False)
            if (shown := self.of(item, nodes, deeper, still)) is not _HIDDEN:
                made.append(shown)
        return made

    def _is_excluded(self, part: JsonObject, value: JsonObject, levels: int, grows: bool) -> bool:
        """Tell whether a finished field says that this alternative is not meant, as the tag of a union does."""
        fields = list(value)
        done = fields[:-1] if levels > 1 or (levels == 1 and grows) else fields
        for key in done:
            node = _property(part, key)
            is_tag = is_object(node) and ("const" in node or "enum" in node)
            if is_tag and not self._fits(value[key], [node]):
                return True
        return False

    def _fits(self, value: Any, nodes: Sequence[Any]) -> bool:
        return any(not check_schema(value, node, root=self._root) for node in nodes)

    def _alternatives(self, node: Any, above: tuple[str, ...] = ()) -> list[JsonObject]:
        """Return the schemas of which a value may fit any, references followed."""
        if not is_object(node):
            return [{}] if node is not False else []
        reference = node.get("$ref")
        if isinstance(reference, str):
            if reference in above:
                return []
            return self._alternatives(self._resolved(reference), (*above, reference))
        for name in ("anyOf", "oneOf"):
            if is_list(found := node.get(name)):
                return [part for inner in found for part in self._alternatives(inner, above)]
        if is_list(found := node.get("allOf")) and len(found) == 1:
            return self._alternatives(found[0], above)
        return [node]

    def _resolved(self, reference: str) -> Any:
        found: Any = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name, True) if is_object(found) else True
        return found


def _of_last(levels: int, grows: bool) -> tuple[int, bool]:
    """Return the open levels of the last part of a container, and whether something in it grows."""
    return (levels - 1, grows) if levels > 1 else (0, grows and levels == 1)


def _may_be(part: JsonObject, kind: str) -> bool:
    declared = part.get("type")
    if is_list(declared):
        return kind in declared
    return declared == kind or (declared is None and "enum" not in part and "const" not in part)


def _property(part: JsonObject, key: str) -> Any:
    """Return the schema of a field; None for one that the schema does not tell of, which the end may drop."""
    properties = part.get("properties")
    if is_object(properties) and key in properties:
        return properties[key]
    others = part.get("additionalProperties", not properties)
    return None if others is False else ({} if others is True else others)


def _item(part: JsonObject, place: int) -> Any:
    first = part.get("prefixItems")
    if is_list(first) and place < len(first):
        return first[place]
    items = part.get("items", True)
    if is_list(items):  # the older spelling of `prefixItems`
        return items[place] if place < len(items) else part.get("additionalItems", True)
    return items
