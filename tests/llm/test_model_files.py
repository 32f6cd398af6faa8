"""Model files: fetched once, continued after a cut, never used with the wrong content."""

import hashlib
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from sapwood.llm.model_files import (
    DEFAULT_MODEL,
    ModelFile,
    ModelFileError,
    SourceError,
    cache_folder,
    fetch_model,
    find_model,
)

CONTENT = bytes(range(256)) * 4096
HALF = len(CONTENT) // 2


class Host(ThreadingHTTPServer):
    """A file host on loopback. cuts: how many replies break off half-way through what was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.cuts = 0
        self.knows_ranges = True
        self.asked: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/tiny.gguf"


class Handler(BaseHTTPRequestHandler):
    server: Host
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/tiny.gguf")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path != "/tiny.gguf":
            self.send_error(404)
            return
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        found = re.fullmatch(r"bytes=(\d+)-", asked or "")
        start = int(found[1]) if found and self.server.knows_ranges else 0
        body = self.server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.server.cuts:
            self.server.cuts -= 1
            body = body[: len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def file_at(url: str) -> ModelFile:
    return ModelFile("tiny.gguf", url, hashlib.sha256(CONTENT).hexdigest(), len(CONTENT), "MIT")


class Memory:
    """A source that needs no network."""

    name = "memory"

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.starts: list[int] = []

    def read(self, start: int) -> Iterator[bytes]:
        self.starts.append(start)
        if start >= len(self.content):
            raise SourceError("no more")
        yield self.content[start:]


def test_a_file_is_fetched_with_progress_and_then_found(host: Host, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    path = fetch_model(file_at(host.url), folder=tmp_path, progress=lambda done, total: seen.append((done, total)))

    assert path == tmp_path / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert sorted(found.name for found in tmp_path.iterdir()) == ["tiny.gguf", "tiny.gguf.ok"]
    assert find_model(file_at(host.url), folder=tmp_path) == path


def test_a_file_that_is_there_is_not_fetched_again(host: Host, tmp_path: Path) -> None:
    fetch_model(file_at(host.url), folder=tmp_path)
    fetch_model(file_at(host.url), folder=tmp_path)

    assert host.asked == ["bytes=0-"]


def test_an_address_that_moved_is_followed(host: Host, tmp_path: Path) -> None:
    moved = file_at(host.url.replace("/tiny.gguf", "/moved"))

    assert fetch_model(moved, folder=tmp_path).read_bytes() == CONTENT


def test_a_cut_download_is_continued_at_once(host: Host, tmp_path: Path) -> None:
    host.cuts = 2

    assert fetch_model(file_at(host.url), folder=tmp_path).read_bytes() == CONTENT
    assert host.asked == ["bytes=0-", f"bytes={HALF}-", f"bytes={HALF + HALF // 2}-"]


def test_a_download_that_breaks_off_too_often_is_continued_the_next_time(host: Host, tmp_path: Path) -> None:
    host.cuts = 5
    with pytest.raises(ModelFileError, match="broke off 5 times"):
        fetch_model(file_at(host.url), folder=tmp_path)

    assert fetch_model(file_at(host.url), folder=tmp_path).read_bytes() == CONTENT
    assert host.asked[-1] == f"bytes={len(CONTENT) - len(CONTENT) // 32}-"


def test_a_server_without_ranges_is_read_from_the_start(host: Host, tmp_path: Path) -> None:
    host.cuts, host.knows_ranges = 1, False

    assert fetch_model(file_at(host.url), folder=tmp_path).read_bytes() == CONTENT


def test_wrong_content_is_thrown_away_and_the_next_source_asked(host: Host, tmp_path: Path) -> None:
    host.content = CONTENT[::-1]
    memory = Memory(CONTENT)

    assert fetch_model(file_at(host.url), folder=tmp_path, more_sources=[memory]).read_bytes() == CONTENT
    assert memory.starts == [0]


def test_wrong_content_alone_is_an_error_and_leaves_no_file(host: Host, tmp_path: Path) -> None:
    host.content = CONTENT[::-1]

    with pytest.raises(ModelFileError, match="wrong content: SHA-256"):
        fetch_model(file_at(host.url), folder=tmp_path)

    assert find_model(file_at(host.url), folder=tmp_path) is None
    assert [found.stat().st_size for found in tmp_path.iterdir()] == [0]


def test_content_that_is_too_long_is_wrong_content(host: Host, tmp_path: Path) -> None:
    host.content = CONTENT * 2

    with pytest.raises(ModelFileError, match="wrong content"):
        fetch_model(file_at(host.url), folder=tmp_path)


def test_another_source_continues_where_the_first_one_ended(host: Host, tmp_path: Path) -> None:
    host.cuts = 5
    memory = Memory(CONTENT)

    fetch_model(file_at(host.url), folder=tmp_path, more_sources=[memory])

    assert memory.starts == [len(CONTENT) - len(CONTENT) // 32]


def test_a_missing_file_names_the_status(host: Host, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"/gone: the server answered 404$"):
        fetch_model(file_at(host.url.replace("tiny.gguf", "gone")), folder=tmp_path)


def test_a_host_that_does_not_answer_is_one_error_that_names_each_source(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    with pytest.raises(ModelFileError) as caught:
        fetch_model(file_at(f"http://127.0.0.1:{port}/tiny.gguf"), folder=tmp_path, more_sources=[Memory(b"")])

    assert f"http://127.0.0.1:{port}/tiny.gguf: " in str(caught.value)
    assert "memory: no more" in str(caught.value)


def test_a_file_that_was_changed_is_not_found(host: Host, tmp_path: Path) -> None:
    path = fetch_model(file_at(host.url), folder=tmp_path)
    path.write_bytes(CONTENT[:-1] + b"!")

    assert find_model(file_at(host.url), folder=tmp_path) is None


def test_a_file_that_was_put_there_by_hand_is_checked_once(tmp_path: Path) -> None:
    file = file_at("http://127.0.0.1:9/tiny.gguf")
    (tmp_path / "tiny.gguf").write_bytes(CONTENT)

    assert find_model(file, folder=tmp_path) == tmp_path / "tiny.gguf"
    assert (tmp_path / "tiny.gguf.ok").exists()
    assert find_model(replace(file, sha256="0" * 64), folder=tmp_path) is None


def test_two_fetches_of_one_file_do_not_write_over_each_other(host: Host, tmp_path: Path) -> None:
    class Nested(Memory):
        def read(self, start: int) -> Iterator[bytes]:
            with pytest.raises(ModelFileError, match="by another process"):
                fetch_model(file_at(host.url), folder=tmp_path)
            return super().read(start)

    gone = file_at(host.url.replace("tiny.gguf", "gone"))

    assert fetch_model(gone, folder=tmp_path, more_sources=[Nested(CONTENT)]).read_bytes() == CONTENT


def test_the_cache_is_where_the_system_keeps_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/sapwood/models")

    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder().is_relative_to(os.path.expanduser("~"))


def test_the_default_model_is_pinned() -> None:
    assert len(DEFAULT_MODEL.sha256) == 64
    assert DEFAULT_MODEL.url.endswith(DEFAULT_MODEL.name)
