"""The process behind `Endpoint`: a bare HTTP/1.1 server on a free port of loopback."""

import asyncio
import json
import sys

from benchmarks.replies import stream_for

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, write: str, pause: float) -> None:
    """Answer requests on one connection until it is closed."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [
                line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
            ]
            body = json.loads(await reader.readexactly(int(lengths[0]))) if lengths else {}
            pieces = stream_for(head.split(b" ", 2)[1].decode(), body)
            if write != "event":
                whole = b"".join(pieces)
                pieces = [whole[at : at + int(write)] for at in range(0, len(whole), int(write))]
            writer.write(HEAD)
            for piece in pieces:
                writer.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
                if write == "event":
                    await writer.drain()
                if pause:
                    await asyncio.sleep(pause)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main(write: str, pause: float) -> None:
    """Serve until terminated; the first line printed is the address."""
    server = await asyncio.start_server(lambda r, w: handle(r, w, write, pause), "127.0.0.1", 0, backlog=2048)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
