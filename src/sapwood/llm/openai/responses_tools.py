"""Tools that the provider runs itself, as chunks to watch: a call when it is known, its result when it is done.

Laws: a kind that is not known is told as far as its name goes and never stops a reply; a chunk holds no
more than 64 kB of a result, for the stored item has it whole.
"""

from typing import Any

from sapwood.core.json_object import is_object, read_object
from sapwood.core.model import ServerCallChunk, ServerResultChunk, StreamChunk
from sapwood.llm.shapes import encode_json, list_in, object_in, text_in

MAX_RESULT_BYTES = 65_536
CLIENT_CALLS = frozenset({"custom_tool_call", "shell_call", "local_shell_call", "apply_patch_call", "computer_call"})
"""Calls that wait for an answer of the caller, unless their output stands in the same reply."""
_OTHER_CALLS = frozenset({"mcp_list_tools", "mcp_approval_request", "program"})
# Their arguments stream, so that they are not known when the item begins.
_LATE = CLIENT_CALLS | {"mcp_call", "code_interpreter_call", "program", "mcp_approval_request"}
# Their outputs are items of their own.
_ANSWERED = CLIENT_CALLS | {"tool_search_call", "program", "mcp_approval_request"}
_ARGUMENTS = ("arguments", "action", "operation", "queries", "code", "input")
_HEAD = frozenset({"type", "id", "call_id", "status", "name", "execution", "fingerprint"})


class _Told:
    """A call that was told of. keys: the fields of its item that were in it."""

    __slots__ = ("id", "keys", "kind", "name")

    def __init__(self, id: str, name: str, kind: str, keys: frozenset[str]) -> None:
        self.id = id
        self.name = name
        self.kind = kind
        self.keys = keys


class ServerTools:
    """What was told of the provider's own tools in one reply.

    >>> ServerTools().added(0, {"type": "web_search_call", "id": "ws_1", "status": "in_progress"})
    [ServerCallChunk(id='ws_1', name='web_search', arguments={})]
    """

    def __init__(self) -> None:
        self._told: dict[int, _Told] = {}
        self._begun: dict[int, dict[str, Any]] = {}

    def added(self, place: int, item: dict[str, Any]) -> list[StreamChunk]:
        """Return the call of an item that begins, unless its arguments are still to come."""
        kind = text_in(item, "type")
        if not is_call(kind):
            return []
        self._begun[place] = item
        return [] if kind in _LATE else self._call(place, item)

    def told(self, place: int, event: dict[str, Any]) -> list[StreamChunk]:
        """Return the call of an item whose arguments or code an event completes."""
        known: dict[str, Any] = {key: event[key] for key in ("arguments", "code") if key in event}
        if not known or place in self._told or place not in self._begun:
            return []
        return self._call(place, {**self._begun[place], **known})

    def done(self, place: int, item: dict[str, Any]) -> list[StreamChunk]:
        """Return what is left to tell of an item that has ended."""
        kind = text_in(item, "type")
        if kind.endswith("_output"):
            return [self._output(item)]
        if not is_call(kind):
            return []
        chunks = [] if place in self._told else self._call(place, item)
        if kind not in _ANSWERED:
            told = self._told[place]
            chunks.append(_result(told.id, told.name, item, told.keys))
        return chunks

    def _call(self, place: int, item: dict[str, Any]) -> list[StreamChunk]:
        kind, arguments = text_in(item, "type"), _arguments(item)
        name = text_in(item, "name") or kind.removesuffix("_call")
        id = text_in(item, "call_id") or text_in(item, "id") or f"item_{place}"
        keys = frozenset(key for key in _ARGUMENTS if item.get(key)) if arguments else frozenset[str]()
        self._told[place] = _Told(id, name, kind, keys)
        return [ServerCallChunk(id, name, arguments)]

    def _output(self, item: dict[str, Any]) -> StreamChunk:
        """Return the result that an item of its own holds, joined to its call by id, else to the last of its kind."""
        id = text_in(item, "call_id")
        kind = text_in(item, "type").removesuffix("_output").removesuffix("_call")
        fitting = [told for told in self._told.values() if told.kind.removesuffix("_call") == kind]
        found = next((told for told in fitting if told.id == id), fitting[-1] if fitting and not id else None)
        name = found.name if found else kind
        return _result(found.id if found else id or text_in(item, "id"), name, item, frozenset())


def is_call(kind: str) -> bool:
    """Tell whether an item of this kind is a call of a tool, other than a function of ours.

    >>> is_call("web_search_call"), is_call("function_call"), is_call("compaction")
    (True, False, False)
    """
    return kind in _OTHER_CALLS or (kind.endswith("_call") and kind != "function_call")


def awaits_answer(item: dict[str, Any]) -> bool:
    """Tell whether an item is a call that the caller must answer, unless the provider did.

    >>> awaits_answer({"type": "custom_tool_call"}), awaits_answer({"type": "web_search_call"})
    (True, False)
    """
    kind = text_in(item, "type")
    return kind in CLIENT_CALLS or (kind == "tool_search_call" and text_in(item, "execution") == "client")


def text_of_item(item: dict[str, Any]) -> str:
    """Return what another model may read in place of an item, empty where nothing is lost without it.

    >>> text_of_item({"type": "code_interpreter_call", "code": "1 + 1", "outputs": [{"type": "logs", "logs": "2"}]})
    '[Code was run:\\n1 + 1\\nIt printed:\\n2]'
    """
    match text_in(item, "type"):
        case "code_interpreter_call" if code := text_in(item, "code"):
            printed = "".join(text_in(output, "logs") for output in list_in(item, "outputs"))
            return f"[Code was run:\n{code}" + (f"\nIt printed:\n{printed}]" if printed else "]")
        case "mcp_call" if output := text_in(item, "output"):
            return f"[The tool {text_in(item, 'name')} was called and returned:\n{output}]"
        case "image_generation_call":
            wish = text_in(item, "revised_prompt")
            return f"[An image was made: {wish}]" if wish else "[An image was made.]"
        case _:
            return ""


def found_by(item: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the tools that the provider's own search found.

    >>> found_by({"type": "tool_search_output", "tools": [{"type": "function", "name": "get_weather"}]})
    ('get_weather',)
    """
    if text_in(item, "type") != "tool_search_output":
        return ()
    return tuple(name for tool in list_in(item, "tools") if is_object(tool) and (name := text_in(tool, "name")))


def _arguments(item: dict[str, Any]) -> dict[str, Any]:
    for key in ("arguments", "action", "operation"):
        given = item.get(key)
        if is_object(given):
            return given
        if isinstance(given, str) and is_object(found := read_object(given)):
            return found
    return {key: item[key] for key in ("queries", "code", "input") if item.get(key)}


def _result(id: str, name: str, item: dict[str, Any], told: frozenset[str]) -> ServerResultChunk:
    error = item.get("error")
    room = MAX_RESULT_BYTES
    result: dict[str, Any] = {}
    for key, value in item.items():
        if key in _HEAD or key in told or value is None:
            continue
        size = len(encode_json(value))
        result[key] = value if size <= room else f"[{size} bytes are left out here]"
        room -= size if size <= room else 0
    is_error = text_in(item, "status") == "failed" or bool(object_in(item, "error")) or isinstance(error, str)
    return ServerResultChunk(id, name, result or None, is_error)
