"""OutputStream: the structured output of one reply while it streams.

Laws: one thing carries it, the first call of `final_result` or, in the modes without that call, the text; a value is
shown when there is news; what was shown of an attempt that is void is forgotten with it.
"""

import json
from collections.abc import Sequence

from sapwood.core.events import OutputDelta
from sapwood.core.messages import ToolCall
from sapwood.core.model import OutputMode
from sapwood.core.partial_json import GrowingJson
from sapwood.core.struct import Json
from sapwood.core.tools import FINAL_RESULT
from sapwood.loop.spec import OutputReader


class OutputStream:
    """Shows the output of a reply, piece by piece. mode: how it is asked for; None where none is owed."""

    def __init__(self, reader: OutputReader | None, mode: OutputMode | None) -> None:
        self._reader = reader
        self._mode = mode if reader is not None else None
        self._growing: GrowingJson | None = None
        self._carrier: int | None = None
        self._shown: Json | None = None

    def restart(self) -> None:
        """Forget the reply so far: it begins anew."""
        self._growing = self._carrier = self._shown = None

    def take_text(self, piece: str) -> OutputDelta | None:
        """Return what a piece of text adds; None where that is nothing new."""
        return self._fed(piece) if self._mode in ("native", "prompted") else None

    def take_call(self, index: int, name: str, piece: str) -> OutputDelta | None:
        """Return what a piece of a call's arguments adds. index: of the call in its reply; name: in its first piece."""
        if self._mode != "tool":
            return None
        if self._carrier is None and name == FINAL_RESULT:
            self._carrier = index
        return self._fed(piece) if index == self._carrier else None

    def finish(self, calls: Sequence[ToolCall]) -> OutputDelta | None:
        """Return what was not shown yet of the reply that is complete; of a call that came in one piece, all of it.

        calls: those of the reply, as they are meant.
        """
        whole = next((call for call in calls if call.name == FINAL_RESULT and call.problem is None), None)
        if self._mode == "tool" and self._growing is None and whole is not None:
            self._fed(json.dumps(whole.arguments, default=str))
            self._shown = None
        return None if self._growing is None else self._news(self._growing.finish())

    def _fed(self, piece: str) -> OutputDelta | None:
        if self._growing is None and self._reader is not None:
            self._growing = self._reader.growing()
        value = None if self._growing is None else self._growing.feed(piece)
        # The beginning of an object says nothing; and a reply of which nothing was shown may still be asked for again.
        return self._news(value) if value or self._shown is not None else None

    def _news(self, value: Json | None) -> OutputDelta | None:
        if value is None or value == self._shown:
            return None
        self._shown = value
        return OutputDelta(value=value)
