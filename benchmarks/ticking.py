"""The process that sends: every connection gets its deltas at a steady rate, each with the time of its sending.

`python -m benchmarks.ticking RATE SECONDS` prints its address. A reply is RATE × SECONDS deltas, RATE a second; the
text of a delta is the sender's monotonic clock, which all processes of one machine share.
"""

import asyncio
import sys
import time

from benchmarks.endpoint import sse
from benchmarks.serve import HEAD

SLOTS = 20


def chunk(data: bytes) -> bytes:
    """Return a chunk of a chunked body."""
    return b"%x\r\n" % len(data) + data + b"\r\n"


class Sender:
    """Spreads the connections over slots of time, so that the writes of a second are spread too."""

    def __init__(self, rate: float, seconds: float) -> None:
        self.rate = rate
        self.count = int(rate * seconds)
        self.slots: list[list[list[object]]] = [[] for _ in range(SLOTS)]
        self.next = 0
        usage = {"input_tokens": 25, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "tick", "content": [], "usage": usage}
        self.begin = chunk(sse("message_start", message=message)) + chunk(
            sse("content_block_start", index=0, content_block={"type": "text", "text": ""})
        )
        self.end = (
            chunk(sse("content_block_stop", index=0))
            + chunk(sse("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9}))
            + chunk(sse("message_stop"))
            + b"0\r\n\r\n"
        )

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the requests of a connection, which may be used again, and enlist it for each."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.lower().split(b"\r\n")
                size = next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:"))
                await reader.readexactly(size)
                writer.write(HEAD + self.begin)
                self.slots[self.next % SLOTS].append([writer, self.count])
                self.next += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def tick(self) -> None:
        """Send to one slot after another, each RATE times a second."""
        period = 1 / self.rate / SLOTS
        due = time.monotonic()
        slot = 0
        while True:
            due += period
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            self.send(self.slots[slot % SLOTS])
            slot += 1

    def send(self, entries: list[list[object]]) -> None:
        """Send one delta to each connection of a slot."""
        delta = chunk(
            sse("content_block_delta", index=0, delta={"type": "text_delta", "text": f"{time.monotonic():.6f}"})
        )
        for entry in list(entries):
            writer: asyncio.StreamWriter = entry[0]  # type: ignore[assignment]
            if writer.is_closing():
                entries.remove(entry)
                continue
            writer.write(delta)
            entry[1] -= 1  # type: ignore[operator]
            if not entry[1]:
                writer.write(self.end)
                entries.remove(entry)


async def main(rate: float, seconds: float) -> None:
    """Serve until terminated."""
    sender = Sender(rate, seconds)
    server = await asyncio.start_server(sender.handle, "127.0.0.1", 0, backlog=4096)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await sender.tick()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), float(sys.argv[2])))
