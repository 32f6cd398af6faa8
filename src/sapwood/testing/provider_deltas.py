"""What the conformance kit asks of the pieces of a call's arguments: joined, they are the arguments of the reply.

Law: a protocol that gives its calls whole need stream no pieces; one that streams some of a call streams all of it.
"""

from collections.abc import Sequence

from sapwood.core.messages import ToolCall
from sapwood.core.model import Reply, RestartChunk, StreamChunk, ToolDeltaChunk
from sapwood.llm.arguments import read_call


def require_deltas(chunks: Sequence[StreamChunk], reply: Reply) -> None:
    """Raise AssertionError where the pieces of the calls do not add up to the calls of the reply.

    >>> call = ToolCall("add", {"a": 1})
    >>> require_deltas([ToolDeltaChunk(0, "add"), ToolDeltaChunk(0, "", '{"a": 1}')], Reply((call,)))
    >>> require_deltas([ToolDeltaChunk(0, "add"), ToolDeltaChunk(0, "", '{"a": 2}')], Reply((call,)))
    Traceback (most recent call last):
    AssertionError: the pieces of call 0 (add) are '{"a": 2}', which is not what the reply holds: {'a': 1}
    """
    calls = [part for part in reply.content if isinstance(part, ToolCall)]
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    for chunk in chunks:
        if isinstance(chunk, RestartChunk):
            names, texts = {}, {}
        elif isinstance(chunk, ToolDeltaChunk):
            if chunk.index not in names:
                assert chunk.name, f"the first piece of call {chunk.index} does not name the tool"
                names[chunk.index] = chunk.name
            texts[chunk.index] = texts.get(chunk.index, "") + chunk.text
    told = sorted(names)
    assert told in ([], [*range(len(calls))]), f"pieces came of the calls {told}, and the reply has {len(calls)}"
    for index, text in texts.items():
        call, named = calls[index], names[index]
        assert named == call.name, f"the pieces of call {index} are of {named!r}, the call of {call.name!r}"
        read = read_call(call.name, text, complete=call.problem != "incomplete")
        fits = read.arguments == call.arguments and read.problem == call.problem and text == (call.raw or text)
        held = call.raw if call.problem else call.arguments
        assert fits, f"the pieces of call {index} ({call.name}) are {text!r}, which is not what the reply holds: {held}"
