"""The README's first program runs as it is printed, with only the model swapped: a server on this machine answers."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.load_module import load_module

ROOT = Path(__file__).parent.parent.parent
RUNNER = Path(__file__).parent / "page_runner.py"


def _blocks_of(page: Path) -> list[Any]:
    found: list[Any] = load_module(RUNNER).blocks(page.read_text(encoding="utf-8"))
    return found


class Model(ThreadingHTTPServer):
    """Answers as a model would: it calls `menu` where it is asked what can be eaten, else it says a word."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.bodies: list[dict[str, Any]] = []


class _Answers(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)
        events = b"".join(
            f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in _reply(body["messages"][-1])
        )
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(events)))
        self.end_headers()
        self.wfile.write(events)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _reply(last: dict[str, Any]) -> Iterator[dict[str, Any]]:
    block: dict[str, Any] = {"type": "text", "text": ""}
    delta: dict[str, Any] = {"type": "text_delta", "text": "Noted."}
    if last["content"][0]["type"] == "tool_result":
        delta["text"] = "Pea soup or pancakes."
    elif "What can I eat" in last["content"][-1]["text"]:
        block = {"type": "tool_use", "id": "toolu_1", "name": "menu", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": '{"day": "Monday"}'}
    reason = "tool_use" if block["type"] == "tool_use" else "end_turn"
    message = {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 900, "output_tokens": 1}}
    yield {"type": "message_start", "message": message}
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    yield {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}
    yield {"type": "message_stop"}


@pytest.fixture
def model() -> Iterator[Model]:
    server = Model()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_first_program_runs_as_printed(model: Model, tmp_path: Path) -> None:
    first = next(block for block in _blocks_of(ROOT / "README.md") if block.kind in ("python", "no-run"))
    program = tmp_path / "hello.py"
    program.write_text(first.code, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=tmp_path,
        env={"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_address[1]}"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["Noted.", "Pea soup or pancakes."]
    assert [line.split()[0] for line in lines[2:]] == ["system", "tools", "memory", "history", "tool_results", "prompt"]
    assert [body["model"] for body in model.bodies] == ["claude-haiku-4-5"] * 3
    assert "I do not eat peanuts" in json.dumps(model.bodies[1]["messages"])
    assert [tool["name"] for tool in model.bodies[0]["tools"]] == ["menu"]


def test_the_first_screen_shows_a_program_and_the_set_up_is_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.index("```python") < text.index("\n", 1_200)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("make demo", "make test"):
        assert command in text
        assert f"\n{command.removeprefix('make ')}:" in makefile
