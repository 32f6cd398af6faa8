"""Every recorded stream with every fault of a network: no crash, no cut stream taken for an answer, the right error.

A cut after the reply's stated end may be a success; then it holds all that the whole reply holds but the usage,
which some servers tell after that.
"""

import gzip
import re
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from test_wire_decode import APIS, GEMINI, decode, provider_of
from wire_files import SMALL, Exchange, exchanges, whole_set

from sapwood.core import errors
from sapwood.core.errors import LLMError, LLMTimeoutError, ServerError
from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest, Reply, StreamChunk
from sapwood.core.transcript import Transcript
from sapwood.llm.codec import HttpCall, Timeouts
from sapwood.llm.transport import Httpx2Transport
from support.replay_server import Faults, ReplayServer

REQUEST = ModelRequest(Transcript.of([Message.user("hi")]))
HERE = [item for item in exchanges(SMALL, *APIS) if item.is_stream]
MORE = [item for item in exchanges(whole_set(), *APIS) if item.is_stream]
MORE = [item for item in MORE if item.name not in {known.name for known in HERE}]
CASES = [pytest.param(item, id=item.name) for item in HERE] + [
    pytest.param(item, id=item.name, marks=pytest.mark.wire) for item in MORE
]
TRANSPORT = Httpx2Transport()


class Hasty:
    """A transport that does not wait long for what is silent."""

    def __init__(self, seconds: float) -> None:
        self.timeouts = Timeouts(2.0, seconds)

    def send(self, call: HttpCall) -> Any:
        return TRANSPORT.send(HttpCall(call.url, call.headers, call.body, timeouts=self.timeouts))


class Outcome(NamedTuple):
    chunks: list[StreamChunk]
    error: LLMError | None

    @property
    def reply(self) -> Reply | None:
        last = self.chunks[-1] if self.chunks else None
        return last.replace(request_id=None) if isinstance(last, Reply) else None


class Player:
    """One recording behind a server, asked with one fault after another."""

    def __init__(self, exchange: Exchange, server: ReplayServer) -> None:
        self.exchange = exchange
        self.server = server

    def ask(self, *, patience: float = 0, **faults: Any) -> Outcome:
        self.server.faults = Faults(**{"drop_times": -1, "split": "whole", **faults})
        provider = provider_of(self.exchange, self.server.url)
        provider._transport = Hasty(patience) if patience else TRANSPORT  # type: ignore[assignment]
        chunks: list[StreamChunk] = []
        try:
            for chunk in provider.stream(REQUEST):
                chunks.append(chunk)
        except LLMError as error:
            return Outcome(chunks, error)
        return Outcome(chunks, None)


@pytest.fixture
def played(request: pytest.FixtureRequest) -> Iterator[Player]:
    exchange: Exchange = request.param
    path = str(exchange.request.get("path", "")).replace(":generateContent", ":streamGenerateContent")
    shown = exchange._replace(request={**exchange.request, "path": path})
    document = {"id": exchange.name, "api": exchange.api, "exchanges": [shown._asdict()]}
    with ReplayServer(document, on_exhausted="repeat") as server:
        yield Player(exchange, server)


EVERY = pytest.mark.parametrize("played", CASES, indirect=True)


def whole_of(exchange: Exchange) -> Outcome:
    chunks, failed = decode(exchange, "whole")
    if failed is None:
        return Outcome(chunks, None)
    kind: type[LLMError] = getattr(errors, failed[0])
    return Outcome(chunks, kind(failed[1], is_transient=failed[2]))


def cuts(exchange: Exchange) -> list[int]:
    """At once; in the first event, in the middle of one, after one, in a character; near the end."""
    body = exchange.body
    size = len(body)
    ends = [found.end() for found in re.finditer(rb"\r?\n\r?\n|\n", body)]
    middle = next((end for end in ends if end >= size // 2), size // 2)
    wide = next((place for place, byte in enumerate(body) if byte & 0xC0 == 0x80), size // 3)
    near = [ends[-2] if len(ends) > 1 else size // 4, len(body.rstrip()) - 1]
    return sorted({0, min(9, size - 1), wide, middle, max(0, middle - 5), *near} - {size})


def require(outcome: Outcome, whole: Outcome, where: str, kind: type[LLMError] = ServerError) -> None:
    """Fail unless a cut reply is a transient error of this kind, or is whole, or is the error that it began with."""
    error = outcome.error
    if error is None and whole.error is not None and whole.error.message == "Token limit reached":
        # This server states its end (a finish reason) and complains after that: the cut lies between the two.
        assert outcome.reply is not None
        assert outcome.reply.stop_reason == "max_tokens", where
        return
    if error is None:
        assert whole.error is None, f"{where}: an error became an answer"
        assert outcome.reply is not None, where
        assert whole.reply is not None
        assert outcome.reply.content == whole.reply.content, f"{where}: a cut reply was taken for a whole one"
        assert outcome.reply.stop_reason == whole.reply.stop_reason, where
        return
    if whole.error is not None and (type(error), error.message) == (type(whole.error), whole.error.message):
        return  # the recording itself is of an error, which had come already
    assert type(error) is kind, f"{where}: {error!r}"
    assert error.is_transient, where
    assert outcome.reply is None


@EVERY
@pytest.mark.parametrize("how", ["rst", "fin", "clean"])
def test_a_cut_stream_is_a_server_error_or_whole(played: Player, how: str) -> None:
    whole = whole_of(played.exchange)
    for cut in cuts(played.exchange):
        outcome = played.ask(drop_after_bytes=cut, drop_how=how)
        require(outcome, whole, f"{how} after {cut} of {len(played.exchange.body)}")


@EVERY
def test_silence_is_a_timeout_or_whole(played: Player) -> None:
    whole = whole_of(played.exchange)
    positions = cuts(played.exchange)
    for cut in (positions[0], positions[len(positions) // 2]):
        outcome = played.ask(hang_after_bytes=cut, hang_seconds=5, patience=0.06)
        require(outcome, whole, f"silent after {cut} bytes", LLMTimeoutError)


@EVERY
def test_an_odd_wire_changes_nothing(played: Player) -> None:
    whole = whole_of(played.exchange)
    for faults in (
        {"newline": "cr", "split": "awkward"},
        {"newline": "crlf", "split": "awkward"},
        {"keepalive_every": 1, "newline": "lf"},
        {"gzip": True, "split": "997"},
        {"connection_close": True},
    ):
        outcome = played.ask(**faults)
        same(outcome, whole, str(faults))


def same(outcome: Outcome, whole: Outcome, where: str) -> None:
    if whole.error is None:
        assert outcome.error is None, f"{where}: {outcome.error}"
        assert outcome.reply == (whole.reply and whole.reply.replace(request_id=None)), where
    else:
        assert outcome.error is not None, where
        assert outcome.error.message == whole.error.message, where
        assert outcome.error.is_transient == whole.error.is_transient, where
    told = [chunk for chunk in outcome.chunks if not isinstance(chunk, Reply)]
    assert told == [chunk for chunk in whole.chunks if not isinstance(chunk, Reply)], where


@EVERY
def test_an_error_in_mid_stream_is_that_error(played: Player) -> None:
    if "event-stream" not in played.exchange.response["headers"].get("content-type", ""):
        pytest.skip("the server puts errors into server-sent events only")
    whole = whole_of(played.exchange)
    count = len(re.findall(rb"\r?\n\r?\n", played.exchange.body))
    for after in sorted({0, 1, count // 2}):
        outcome = played.ask(error_after_events=after)
        require(outcome, whole, f"an error after {after} events")
        if outcome.error is not None and whole.error is None:
            assert "ended early" not in outcome.error.message, "the error itself is told, not the silence after it"


@pytest.mark.parametrize("played", CASES[::20], indirect=True)
def test_a_slow_stream_is_no_fault(played: Player) -> None:
    """Each piece comes well within the time between two; all of them together take longer than that."""
    size = max(1, len(played.exchange.body) // 12)
    begun = time.monotonic()
    outcome = played.ask(delay=0.05, split=str(size), patience=0.4)
    same(outcome, whole_of(played.exchange), "slow")
    assert time.monotonic() - begun > 0.4 or outcome.error is not None


@pytest.mark.parametrize("played", CASES[::5], indirect=True)
def test_a_cut_in_compressed_bytes_is_a_server_error(played: Player) -> None:
    size = len(gzip.compress(played.exchange.body, mtime=0))
    whole = whole_of(played.exchange)
    for cut in (3, size // 2, size - 9):
        for how in ("rst", "clean"):
            require(played.ask(gzip=True, drop_after_bytes=cut, drop_how=how), whole, f"gzip, {how} after {cut}")


def test_the_set_holds_each_protocol() -> None:
    assert {item.api for item in HERE} >= {"anthropic.messages", "openai.chat", "openai.responses", "ollama.chat"}
    assert {item.api for item in HERE} & set(GEMINI)
