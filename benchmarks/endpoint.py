"""A scripted endpoint on loopback, in a process of its own; Anthropic's replies. The others' are in `replies.py`.

The model's name picks the reply: `text-N` streams N text deltas; `tools-R` asks for the tool `add` in R rounds,
then answers; any other name gets a short answer. `write=event` sends each event in a write of its own, `write=4096` in pieces of that size.
"""

import json
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

WORD = "word "


def sse(kind: str, **fields: Any) -> bytes:
    """Return one event."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, separators=(',', ':'))}\n\n".encode()


def reply(model: str, messages: list[dict[str, Any]]) -> list[bytes]:
    """Return the events of the reply to a request."""
    kind, _, number = model.partition("-")
    count = int(number) if number.isdigit() else 1
    done = sum(
        block.get("type") == "tool_result"
        for message in messages
        if isinstance(message.get("content"), list)
        for block in message["content"]
    )
    usage = {"input_tokens": 25, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    events = [sse("message_start", message=message)]
    if kind == "tools" and done < count:
        block = {"type": "tool_use", "id": f"toolu_{done}", "name": "add", "input": {}}
        events.append(sse("content_block_start", index=0, content_block=block))
        text = json.dumps({"a": done, "b": 1})
        events += [
            sse("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": text[at : at + 6]})
            for at in range(0, len(text), 6)
        ]
        stop = "tool_use"
    else:
        events.append(sse("content_block_start", index=0, content_block={"type": "text", "text": ""}))
        delta = sse("content_block_delta", index=0, delta={"type": "text_delta", "text": WORD})
        events += [delta] * (count if kind == "text" else 5)
        stop = "end_turn"
    events.append(sse("content_block_stop", index=0))
    events.append(sse("message_delta", delta={"stop_reason": stop, "stop_sequence": None}, usage={"output_tokens": 42}))
    events.append(sse("message_stop"))
    return events


class Endpoint:
    """The endpoint as a subprocess; use it as a context manager.

    write: `event` or a number of bytes. pause: seconds between writes of one reply.
    """

    def __init__(self, *, write: str = "event", pause: float = 0.0) -> None:
        self._arguments = [write, str(pause)]
        self.url = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "benchmarks.serve", *self._arguments]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
