"""Claude on other clouds, signed transports, proxies and certificates: the way to a model, not what it says."""

import asyncio
import base64
import binascii
import http.client
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from wire_files import wire_file

from sapwood import create_provider
from sapwood.core.errors import AuthenticationError, ConfigError, LLMError, RateLimitError, ServerError
from sapwood.core.messages import Message, Text
from sapwood.core.model import ModelProfile, ModelRequest, Reply
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicCodec, AnthropicProvider
from sapwood.llm.codec import Timeouts
from sapwood.llm.framing import FrameSplitter
from sapwood.llm.transport import Httpx2Transport
from sapwood.llm.transport_aiohttp import AiohttpTransport
from support.replay_server import ReplayServer

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))
TEXT = "anthropic-messages-text-stream"
Serve = Callable[..., ReplayServer]


def frame(payload: bytes, **headers: str) -> bytes:
    """One frame of Amazon's event stream, as its documentation describes it."""
    head = b""
    for name, value in headers.items():
        key = b":" + name.replace("_", "-").encode()
        head += bytes([len(key)]) + key + b"\x07" + len(value).to_bytes(2, "big") + value.encode()
    head += bytes([4]) + b"flag" + b"\x00"  # a header that is no text
    prelude = (16 + len(head) + len(payload)).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    body = prelude + binascii.crc32(prelude).to_bytes(4, "big") + head + payload
    return body + binascii.crc32(body).to_bytes(4, "big")


def event_frame(data: bytes) -> bytes:
    wrapped = json.dumps({"bytes": base64.b64encode(data).decode(), "p": "abc"}).encode()
    return frame(wrapped, message_type="event", event_type="chunk", content_type="application/json")


def recorded_events(name: str) -> list[bytes]:
    text: str = json.loads(wire_file(name).read_text("utf-8"))["exchanges"][0]["response"]["text"]
    return [line[5:].strip().encode() for line in text.split("\n") if line.startswith("data:")]


def bedrock(body: bytes) -> dict[str, Any]:
    response = {
        "status": 200,
        "headers": {"content-type": "application/vnd.amazon.eventstream", "x-amzn-requestid": "req-1"},
        "base64": base64.b64encode(body).decode(),
    }
    request = {"method": "POST", "path": "/x", "body": {}}
    return {"id": "bedrock", "api": "anthropic.messages", "exchanges": [{"request": request, "response": response}]}


class Signs(httpx2.Auth):
    """Signs a request as a cloud does: over its body."""

    requires_request_body = True

    def auth_flow(self, request: Any) -> Iterator[Any]:
        request.headers["authorization"] = f"SIGNED {binascii.crc32(request.content)}"
        yield request


def ask(provider: Any) -> list[Any]:
    return list(provider.stream(REQUEST))


async def aask(provider: Any) -> list[Any]:
    return [chunk async for chunk in provider.stream(REQUEST)]


@pytest.mark.parametrize("split", ["whole", "7", "byte"])
def test_claude_on_bedrock_answers_in_binary_frames_to_a_signed_request(serve: Serve, split: str) -> None:
    body = b"".join(event_frame(data) for data in recorded_events(TEXT))
    with ReplayServer(bedrock(body), match="order", on_exhausted="repeat") as server:
        server.faults.split = split
        provider = create_provider(
            "bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", base_url=server.url, auth=Signs(), betas=["b-1"]
        )
        for chunks in (ask(provider), asyncio.run(aask(provider))):
            assert chunks[-1].content == (Text("Hello"),)
        record = server.requests[-1]
        provider.close()  # type: ignore[attr-defined]
    assert record["path"] == ("/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/invoke-with-response-stream")
    sent = record["body"]
    assert sent["anthropic_version"] == "bedrock-2023-05-31"
    assert sent["anthropic_beta"] == ["b-1"]
    assert not {"model", "stream"} & set(sent)
    assert "authorization" in record["headers"]


def test_a_failure_inside_the_frames_is_the_error_that_it_names() -> None:
    events = [event_frame(data) for data in recorded_events(TEXT)[:3]]
    slow = frame(b'{"message":"Too many requests"}', message_type="exception", exception_type="throttlingException")
    with ReplayServer(bedrock(b"".join([*events, slow])), match="order", on_exhausted="repeat") as server:
        provider = create_provider("bedrock/anthropic.claude-x", base_url=server.url, auth=Signs())
        with pytest.raises(RateLimitError, match="Too many requests"):
            ask(provider)
    odd = frame(b"<html>", message_type="error", error_code="validationException", error_message="bad body")
    ((name, data),) = FrameSplitter().feed(odd)
    assert (name, json.loads(data)["error"]) == (b"error", {"type": "invalid_request_error", "message": "bad body"})


@pytest.mark.parametrize("place", [2, 9, 30, -2])
def test_a_damaged_frame_is_a_broken_stream(place: int) -> None:
    damaged = bytearray(event_frame(b'{"type":"ping"}'))
    damaged[place] ^= 0x55
    with ReplayServer(bedrock(bytes(damaged)), match="order", on_exhausted="repeat") as server:
        provider = create_provider("bedrock/anthropic.claude-x", base_url=server.url, auth=Signs())
        with pytest.raises(ServerError, match=r"damaged|ended early"):
            ask(provider)


def test_a_cut_frame_is_no_reply() -> None:
    body = b"".join(event_frame(data) for data in recorded_events(TEXT)[:-2])[:-40]
    provider = create_provider("bedrock/anthropic.claude-x", base_url="http://127.0.0.1:9", auth=Signs())
    with ReplayServer(bedrock(body), match="order", on_exhausted="repeat") as server:
        provider._base_url = server.url  # type: ignore[attr-defined]
        with pytest.raises(ServerError, match="ended early"):
            ask(provider)
    assert FrameSplitter().finish() == []
    assert FrameSplitter().feed(frame(b"not json", message_type="event")) == [(b"", b"not json")]


def test_claude_on_vertex_has_its_model_in_the_address() -> None:
    base = "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/us-east5"
    profile = ModelProfile("vertex", "claude-sonnet-4-5@20250929")
    call = AnthropicCodec(platform="vertex").encode(REQUEST, profile, base_url=base, api_key="token")
    assert call.url == f"{base}/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict"
    assert call.headers["authorization"] == "Bearer token"
    assert "x-api-key" not in call.headers
    sent = json.loads(call.body)
    assert (sent["anthropic_version"], sent["stream"]) == ("vertex-2023-10-16", True)
    assert "model" not in sent


def test_a_signature_stands_in_for_a_key(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    server = serve(TEXT)
    transport = Httpx2Transport(auth=Signs())
    provider = AnthropicProvider("some", base_url=server.url, transport=transport)
    assert ask(provider)[-1].content == asyncio.run(aask(provider))[-1].content == (Text("Hello"),)
    with pytest.raises(ConfigError, match="give auth= to the transport"):
        AnthropicProvider("some", auth=Signs(), transport=transport)

    class Refuses(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(401, json={"error": {"type": "authentication_error", "message": "who?"}})

    given = AnthropicProvider("some", transport=Httpx2Transport(transport=Refuses()))
    with pytest.raises(AuthenticationError, match="who"):
        ask(given)


def test_azure_takes_its_key_in_a_header_of_its_own(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    server = serve(
        "openai-chat-text-stream" if wire_file("openai-chat-text-stream").exists() else "openai-chat-tools-stream"
    )
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key")
    ask(create_provider("azure-chat/my-deployment"))
    record = server.requests[-1]
    assert record["path"] == "/openai/v1/chat/completions"
    assert record["headers"]["api-key"] == "<9 characters>"
    assert "authorization" not in record["headers"]


# -- proxies, certificates, time-outs ------------------------------------------------------------------------------


class _Proxy(BaseHTTPRequestHandler):
    """Passes on what it is sent, and notes where it was to go."""

    seen: list[str] = []

    def do_POST(self) -> None:
        self.seen.append(self.path)
        length = int(self.headers["content-length"])
        host = self.path.partition("://")[2].partition("/")[0]
        onward = http.client.HTTPConnection(host)
        path = "/" + self.path.partition("://")[2].partition("/")[2]
        onward.request("POST", path, self.rfile.read(length), {"content-type": "application/json"})
        answer = onward.getresponse()
        data = answer.read()
        self.send_response(answer.status)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        onward.close()

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def proxy() -> Iterator[str]:
    _Proxy.seen = []
    server = HTTPServer(("127.0.0.1", 0), _Proxy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("kind", [Httpx2Transport, AiohttpTransport])
@pytest.mark.parametrize("by", ["option", "environment"])
def test_requests_go_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, proxy: str, kind: Callable[..., Any], by: str
) -> None:
    url = serve(TEXT).url
    if by == "environment":
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, proxy)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
    transport = kind(proxy=proxy) if by == "option" else kind()
    provider = AnthropicProvider("some", base_url=url, transport=transport, api_key="k")
    assert ask(provider)[-1].content == asyncio.run(aask(provider))[-1].content == (Text("Hello"),)
    assert _Proxy.seen == [f"{url}/v1/messages"] * 2
    transport.close()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A TLS server with a certificate of its own, and that certificate's file."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    events = b"".join(b"data: " + data + b"\n\n" for data in recorded_events(TEXT))

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(events)))
            self.end_headers()
            self.wfile.write(events)

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", str(tmp_path / "ca.pem")
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("kind", [Httpx2Transport, AiohttpTransport])
def test_a_certificate_of_ones_own_is_trusted_where_it_is_named(
    secure: tuple[str, str], kind: Callable[..., Any]
) -> None:
    url, file = secure
    context = ssl.create_default_context(cafile=file)
    for verify in (file, context, False):
        provider = AnthropicProvider("some", base_url=url, transport=kind(verify=verify), api_key="k")
        assert ask(provider)[-1].content == asyncio.run(aask(provider))[-1].content == (Text("Hello"),)
    stranger = AnthropicProvider("some", base_url=url, transport=kind(), api_key="k")
    for way in (ask, lambda provider: asyncio.run(aask(provider))):
        with pytest.raises(LLMError, match=r"not trusted: .*verify=") as caught:
            way(stranger)
        assert not caught.value.is_transient


def test_a_certificate_that_is_not_there_is_told() -> None:
    provider = AnthropicProvider("m", base_url="https://127.0.0.1:9", transport=Httpx2Transport(verify="/no/ca.pem"))
    with pytest.raises(ConfigError, match=r"/no/ca\.pem"):
        ask(provider)


def test_time_outs_belong_to_a_provider(serve: Serve) -> None:
    url = serve(TEXT, hang_after_bytes=10).url
    patient = AnthropicProvider("some", base_url=url, timeouts=Timeouts(between_bytes=0.2))
    with pytest.raises(LLMError, match=r"sent nothing for 0\.2 s"):
        ask(patient)


@pytest.mark.parametrize("transport", [Httpx2Transport, AiohttpTransport])
def test_one_connection_serves_many_requests(transport: Callable[..., Any]) -> None:
    connections: list[Any] = []
    events = b"".join(b"data: " + data + b"\n\n" for data in recorded_events(TEXT))

    class Counts(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            connections.append(self.client_address)
            super().setup()

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", str(len(events)))
            self.end_headers()
            self.wfile.write(events)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Counts)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = transport()
    provider = AnthropicProvider("some", base_url=f"http://127.0.0.1:{server.server_address[1]}", transport=made)

    async def thrice() -> list[Any]:
        return [(await aask(provider))[-1] for _ in range(3)]

    replies: list[Reply] = [*(ask(provider)[-1] for _ in range(3)), *asyncio.run(thrice())]
    assert {reply.content for reply in replies} == {(Text("Hello"),)}
    assert len(connections) == 2  # one for each way of asking
    made.close()
    server.shutdown()
    server.server_close()
