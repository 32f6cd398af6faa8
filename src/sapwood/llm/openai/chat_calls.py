"""Tool calls that arrive in fragments, from servers that number them in their own ways.

Rule: a known id is that call; a new id is a new call; without an id it is the call of that index, else the
newest one, unless the fragment names a function while that one is already whole.
"""

from typing import Any

from sapwood.core.json_object import is_object
from sapwood.core.messages import ToolCall
from sapwood.core.model import StreamChunk, ToolDeltaChunk
from sapwood.llm.arguments import read_call
from sapwood.llm.shapes import UNREADABLE, decode_json, encode_json, object_in, text_in


class _Call:
    """One call while it streams.

    arguments: an object where the server gave one in place of text. number: its place among the calls.
    shown: how many of its pieces were passed on; -1 for none and no name either.
    """

    __slots__ = ("arguments", "extra", "id", "index", "name", "number", "pieces", "shown")

    def __init__(self, id: str, index: int | None, number: int) -> None:
        self.id = id
        self.index = index
        self.number = number
        self.shown = -1
        self.name = ""
        self.pieces: list[str] = []
        self.arguments: dict[str, Any] | None = None
        self.extra: dict[str, Any] = {}

    def news(self) -> tuple[ToolDeltaChunk, ...]:
        """Return what was not passed on yet; nothing before the name is known."""
        if not self.name:
            return ()
        text = "".join(self.pieces[max(self.shown, 0) :])
        if self.arguments is not None:  # a whole object at once
            text = "" if self.shown > 0 else encode_json(self.arguments).decode()
        is_first, self.shown = self.shown < 0, max(len(self.pieces), int(self.arguments is not None))
        return (ToolDeltaChunk(self.number, self.name if is_first else "", text),) if is_first or text else ()

    def is_whole(self) -> bool:
        """Tell whether name and arguments are there, so that another name means another call."""
        if not self.name:
            return False
        if self.arguments is not None or not self.pieces:
            return True
        try:
            decode_json("".join(self.pieces))
        except UNREADABLE:
            return False
        return True


class CallAssembly:
    """Puts the fragments of one reply's calls together."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._calls: list[_Call] = []

    def take(self, fragments: list[Any], chunks: list[StreamChunk]) -> None:
        """Add the fragments of one chunk of the stream; what is passed on is added to the chunks."""
        for fragment in fragments:
            if is_object(fragment):
                chunks += self._add(fragment).news()

    def finish(self, *, is_complete: bool) -> tuple[ToolCall, ...]:
        """Return the calls. is_complete: the last of them was not cut off."""
        return tuple(
            read_call(
                call.name,
                call.arguments if call.arguments is not None else "".join(call.pieces),
                complete=is_complete or call is not self._calls[-1],
                id=call.id,
                provider_data={self._provider: call.extra} if call.extra else None,
            )
            for call in self._calls
            if call.name or call.pieces
        )

    def _add(self, fragment: dict[str, Any]) -> _Call:
        function = object_in(fragment, "function")
        call = self._call_of(fragment, text_in(function, "name"))
        call.name = call.name or text_in(function, "name")
        arguments = function.get("arguments")
        if is_object(arguments):
            call.arguments = arguments
        elif isinstance(arguments, str) and arguments:
            call.pieces.append(arguments)
        if extra := object_in(fragment, "extra_content"):
            call.extra = {"extra_content": extra}
        return call

    def _call_of(self, fragment: dict[str, Any], name: str) -> _Call:
        id, found = text_in(fragment, "id"), fragment.get("index")
        index = found if isinstance(found, int) else None
        if id:
            for call in reversed(self._calls):
                # One id under two indexes is two calls that the server numbered alike.
                if call.id == id and (index is None or call.index in (None, index)):
                    return call
            return self._new(id, index)
        same = [call for call in self._calls if index is not None and call.index == index]
        if not same and not (name and index is not None):
            same = self._calls
        if not same or (name and same[-1].is_whole()):
            return self._new("", index)
        return same[-1]

    def _new(self, id: str, index: int | None) -> _Call:
        call = _Call(id, index, len(self._calls))
        self._calls.append(call)
        return call
