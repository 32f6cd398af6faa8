"""What is said where no model answers: pages, redirects, closed ports, odd compression, proxies that cannot be."""

import asyncio
import gzip
import json
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sapwood import create_provider
from sapwood.core.errors import ConfigError, ContextOverflowError, LLMError, ModelNotFoundError, ServerError
from sapwood.core.messages import Message, Text
from sapwood.core.model import ModelProfile, ModelRequest, Reply
from sapwood.core.transcript import Transcript
from sapwood.llm import exchange as exchanges
from sapwood.llm.addresses import host_of, shown_url
from sapwood.llm.codec import HttpCall
from sapwood.llm.compression import Inflater
from sapwood.llm.exchange import Exchange
from sapwood.llm.openai.chat_decode import ChatDecoder
from sapwood.llm.transport import Httpx2Transport, Transport
from sapwood.llm.transport_aiohttp import AiohttpTransport

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))
REPLY = json.dumps({"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}).encode()
PAGE = b"<!doctype html><html>Sign in</html>"
JSON = "application/json"


@contextmanager
def answering(body: bytes, status: int = 200, kind: str = JSON, **headers: str) -> Iterator[str]:
    """A server that gives everybody this answer."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            for name, value in {"content-type": kind, **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def ask(url: str, way: str = "sync", **options: Any) -> Reply:
    transport: Transport = AiohttpTransport() if way == "aiohttp" else Httpx2Transport()
    provider = create_provider("groq/m", base_url=url, api_key="k", transport=transport, **options)

    async def collect() -> list[Any]:
        return [chunk async for chunk in provider.stream(REQUEST)]

    found = list(provider.stream(REQUEST)) if way == "sync" else asyncio.run(collect())
    assert isinstance(found[-1], Reply)
    return found[-1]


@pytest.fixture(params=["sync", "async", "aiohttp"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def secret_in(way: str) -> str:
    return "//" if way == "aiohttp" else "//me:pass@"  # aiohttp refuses a password in an address beside a key


@pytest.mark.parametrize(
    ("kind", "body"),
    [("text/html; charset=utf-8", PAGE), ("text/plain", b"\xef\xbb\xbf \n" + PAGE), ("text/html", b"Welcome to nginx")],
)
def test_a_page_is_told_from_a_model_at_once(way: str, kind: str, body: bytes) -> None:
    with (
        answering(body, kind=kind) as url,
        pytest.raises(LLMError, match=r"no model's reply; check base_url") as caught,
    ):
        ask(url.replace("//", secret_in(way)) + "/v1", way)
    assert type(caught.value) is LLMError
    assert not caught.value.is_transient
    assert url in str(caught.value)
    assert "pass" not in str(caught.value)


def test_a_page_is_no_count_of_tokens() -> None:
    with answering(PAGE, kind="text/html") as url, pytest.raises(LLMError, match="check base_url") as caught:
        create_provider("anthropic/m", base_url=url, api_key="k").count_tokens(REQUEST)  # type: ignore[attr-defined]
    assert not caught.value.is_transient


@pytest.mark.parametrize("pieces", [1, 1000])
def test_a_stream_that_is_called_a_page_is_read_nevertheless(pieces: int) -> None:
    body = b'data: {"choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    call = HttpCall("http://x/v1", {}, b"")
    exchange = Exchange(ChatDecoder(ModelProfile("groq", "m")), ModelProfile("groq", "m"), call, "")
    exchange.begin(200, {"content-type": "text/html"})
    for start in range(0, len(body), pieces):
        exchange.feed(body[start : start + pieces])
    reply = list(exchange.finish())[-1]
    assert isinstance(reply, Reply)
    assert reply.content == (Text("Hello"),)


def test_a_redirect_says_where_to(way: str) -> None:
    target = "https://me:pass@new.example/v1/chat/completions?key=secret"
    with answering(b"", 307, location=target) as url, pytest.raises(LLMError) as caught:
        ask(url, way)
    assert "https://new.example/v1/chat/completions" in str(caught.value)
    assert "base_url" in str(caught.value)
    assert not {"pass", "secret"} & set(str(caught.value).replace("@", " ").replace("=", " ").split())
    assert not caught.value.is_transient


def test_a_page_that_refuses_names_base_url() -> None:
    with answering(PAGE, 404, "text/html") as url, pytest.raises(ModelNotFoundError, match="check base_url"):
        ask(url)
    with answering(PAGE, 413, "text/html") as url, pytest.raises(ContextOverflowError):
        ask(url)


def test_a_port_that_nobody_serves_is_no_time_out(way: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(ServerError, match=f"no connection to 127.0.0.1:{port}") as caught:
        ask(f"http:{secret_in(way)}127.0.0.1:{port}/v1?key=secret", way)
    assert caught.value.is_transient
    assert "pass" not in str(caught.value)


DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)
BODIES = {
    "gzip in two members": gzip.compress(REPLY[:20]) + gzip.compress(REPLY[20:]),
    "gzip and zeros": gzip.compress(REPLY) + b"\0\0",
    "deflate with a header": zlib.compress(REPLY),
    "deflate without one": DEFLATE.compress(REPLY) + DEFLATE.flush(),
}


@pytest.mark.parametrize("form", BODIES)
def test_compression_is_read_in_all_its_forms(way: str, form: str) -> None:
    coding, body = form.split()[0], BODIES[form]
    with answering(body, content_encoding=coding) as url:
        assert ask(url, way).content == (Text("Hello"),)
    inflate = Inflater(coding)
    assert b"".join(inflate(body[place : place + 1]) for place in range(len(body))) == REPLY


def test_a_whole_reply_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "MAX_WHOLE_BYTES", 2_000_000)
    body = gzip.compress(b'{"choices":"' + b"a" * 3_000_000)
    with (
        answering(body, content_encoding="gzip") as url,
        pytest.raises(ServerError, match="longer than 2 MB") as caught,
    ):
        ask(url)
    assert not caught.value.is_transient


URLS = [
    ("https://me:pass@host/v1?key=secret#x", "https://host/v1", "host"),
    ("http://host:8080/v1/models/claude@2024:raw", "http://host:8080/v1/models/claude@2024:raw", "host:8080"),
    ("http://[::1]:80/v1", "http://[::1]:80/v1", "[::1]:80"),
    ("http://me:pa/ss?x#y@host/v1", "http://host/v1", "host"),
    ("me:pass@host/v1", "host/v1", "the provider"),
    ("nonsense", "nonsense", "the provider"),
]


@pytest.mark.parametrize(("url", "shown", "host"), URLS)
def test_an_address_is_shown_without_its_secrets(url: str, shown: str, host: str) -> None:
    assert (shown_url(url), host_of(url)) == (shown, host)
    assert repr(HttpCall(url, {}, b"")) == f"HttpCall(POST {shown}, 0 bytes)"


@pytest.mark.parametrize("url", ["me:hunter2@host/v1?key=hunter2", "http://me:hunter2@host:port/v1?key=hunter2"])
def test_an_address_that_cannot_be_is_refused_without_its_secrets(way: str, url: str) -> None:
    with pytest.raises(ConfigError, match="base_url") as caught:
        ask(url, way)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"proxy": "nonsense"}, r"proxy=.*'nonsense'"),
        ({"proxy": "ftp://me:hunter2@proxy"}, r"proxy=.*'ftp://proxy'"),
        ({"proxy": "http://"}, r"proxy="),
        ({"proxy": 8080}, r"proxy=.*int"),
        ({"verify": 0}, r"verify=.*not 0"),
        ({"verify": None}, r"verify=.*None"),
        ({"verify": ""}, r"verify=.*''"),
    ],
)
@pytest.mark.parametrize("kind", [Httpx2Transport, AiohttpTransport])
def test_a_transport_that_cannot_work_is_refused(kind: Callable[..., Any], options: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named) as caught:
        kind(**options)
    assert "hunter2" not in str(caught.value)


def test_what_a_socks_proxy_needs_is_named() -> None:
    with pytest.raises(ConfigError, match="socks"):
        AiohttpTransport(proxy="socks5://127.0.0.1:9")
    try:
        import socksio  # type: ignore[import-not-found] # pyright: ignore # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match=r"pip install 'httpx2\[socks\]'"):
            Httpx2Transport(proxy="socks5://127.0.0.1:9")


def test_a_proxy_of_the_environment_that_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "nope://me:hunter2@proxy")
    for way in ("sync", "async"):
        with pytest.raises(ConfigError, match="ALL_PROXY") as caught:
            ask("http://127.0.0.1:9", way)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("kind", [Httpx2Transport, AiohttpTransport])
def test_a_file_without_certificates_is_named(tmp_path: Path, kind: Callable[..., Any]) -> None:
    file = tmp_path / "bad.pem"
    file.write_text("this is no certificate")
    provider = create_provider("groq/m", base_url="https://127.0.0.1:9", api_key="k", transport=kind(verify=file))
    with pytest.raises(ConfigError, match=r"bad\.pem"):
        list(provider.stream(REQUEST))


def test_a_bad_file_of_the_environment_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sapwood.llm.trust import tls_context

    file = tmp_path / "bad.pem"
    file.write_text("this is no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    tls_context.cache_clear()
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE.*bad\.pem"):
        tls_context()
