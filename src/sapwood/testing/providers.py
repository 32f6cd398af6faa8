"""The conformance kit for codecs: one class of tests that every protocol must pass, run on samples of yours.

Laws: plain asserts and no test framework; nothing leaves this machine; a sample that a protocol does not have is a
skipped test, and a test that has its sample never passes without having looked at a reply.
"""

import unittest
from collections.abc import Sequence
from typing import ClassVar

from sapwood.core.codec import from_json, to_json
from sapwood.core.errors import AuthenticationError, ConfigError, ContextOverflowError, LLMError, LLMTimeoutError
from sapwood.core.messages import Image, Message, Text, Thinking, ToolCall
from sapwood.core.model import (
    LLMProvider,
    ModelProfile,
    ModelRequest,
    Reply,
    StreamChunk,
    TextChunk,
    ThinkingChunk,
)
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.base import BaseLLMProvider, Endpoint
from sapwood.llm.codec import HttpCall, Timeouts
from sapwood.llm.transport import Httpx2Transport, Transport
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.testing.loopback import Ending, LoopbackServer, MemoryTransport
from sapwood.testing.provider_deltas import require_deltas
from sapwood.testing.provider_samples import ProviderSamples, Sample
from sapwood.testing.provider_turns import answered, answers, asks, conversation, message_of
from sapwood.testing.provider_wire import (
    clean_cuts,
    common,
    pieces,
    with_comments,
    with_event,
    with_line_ends,
    with_unknown_fields,
)

__all__ = ["ProviderContract", "ProviderSamples", "Sample"]
KEY = "key-of-the-conformance-kit"
MAX_CUTS = 400
_CLOSERS = b'"]}'
_TOOLS = (ToolSchema("read", "Reads.", {"type": "object", "properties": {"n": {"type": "integer"}}}),)


class ProviderContract:
    """Tests for one codec. Subclass it under a name that your runner finds, and set `samples`.

    >>> from sapwood.llm.ollama import OllamaCodec
    >>> body = b'{"message": {"content": "Hi"}, "done": true, "done_reason": "stop"}'
    >>> class TestMine(ProviderContract):
    ...     samples = ProviderSamples(
    ...         codec=OllamaCodec(),
    ...         profile=ModelProfile("ollama", "some"),
    ...         text=Sample(body=body, content_type="application/x-ndjson", text="Hi"),
    ...     )
    >>> TestMine().test_text()
    """

    samples: ClassVar[ProviderSamples]

    def provider(self, base_url: str, transport: Transport | None, profile: ModelProfile) -> LLMProvider:
        """Return the provider that is tested; override it where more than a codec belongs to it."""
        endpoint = Endpoint(base_url, "SAPWOOD_KIT_API_KEY", needs_key=False)
        options = {"base_url": base_url, "api_key": KEY, "transport": transport, "timeouts": Timeouts(2.0, 0.2)}
        return BaseLLMProvider(self.samples.codec, profile, endpoint, **options)  # type: ignore[arg-type]

    # ---- what comes in

    def test_text(self) -> None:
        """The text streams piece by piece, and the reply holds the same."""
        self._check(self.samples.text)
        assert self.samples.text.text, "the sample `text` has no text=; say what its body says"

    def test_unicode_in_any_pieces(self) -> None:
        """Separators that are no line ends and characters cut into bytes arrive as they were."""
        sample = _needed(self.samples.unicode)
        wanted = "the sample `unicode` needs a text= with U+2028 and U+0085 in it, as its body has"
        assert {"\u2028", "\u0085"} <= set(sample.text or ""), wanted
        self._check(sample)

    def test_any_reply_in_any_pieces(self) -> None:
        """A reply is the same in one piece, byte by byte, and cut inside characters."""
        for name, sample in self.samples.streamed().items():
            expected = self._reply(sample)
            for how in ("bytes", "seven", "characters"):
                assert self._reply(sample, pieces(sample.body, how)) == expected, f"{name}, cut in {how}"

    def test_empty_reply(self) -> None:
        """A reply without a word is a reply."""
        sample = _needed(self.samples.empty)
        said = _text(self._check(sample))
        assert not said, f"the sample `empty` is to hold no word, and the reply says {said!r}"

    def test_tools(self) -> None:
        """A call comes with its name and arguments, and the reply says that it waits for the result."""
        reply = self._check(_needed(self.samples.tools))
        assert _calls(reply), "the reply holds no ToolCall; the decoder has lost it, or the sample has none"
        assert reply.stop_reason == "tool_use", f"a reply with calls stops for tool_use, not {reply.stop_reason!r}"

    def test_parallel_tools(self) -> None:
        """Calls of one reply stay apart and in order."""
        calls = _calls(self._check(_needed(self.samples.parallel_tools)))
        assert len(calls) > 1, f"the sample `parallel_tools` has several calls, and {len(calls)} came out"
        broken = [call.name for call in calls if call.problem]
        assert not broken, f"the arguments of {broken} could not be read; pieces of two calls may have been mixed"

    def test_no_argument_tools(self) -> None:
        """A call without arguments is a call, not a broken one."""
        calls = _calls(self._check(_needed(self.samples.no_argument_tools)))
        found = any(not call.arguments and not call.problem for call in calls)
        assert found, f"a call without arguments is one with arguments={{}} and no problem, not {calls}"

    def test_broken_arguments(self) -> None:
        """Arguments that are no JSON are marked and kept, never guessed at."""
        self._check_broken(_needed(self.samples.broken_arguments))

    def test_cut_arguments(self) -> None:
        """Arguments that the end of the reply cut off are marked."""
        self._check_broken(_needed(self.samples.cut_arguments))

    def test_refusal(self) -> None:
        """A refusal is a reply that says so."""
        reply = self._check(_needed(self.samples.refusal))
        wanted = f"a refusal has the stop_reason refusal or content_filter, not {reply.stop_reason!r}"
        assert reply.stop_reason in ("refusal", "content_filter"), wanted

    def test_max_tokens(self) -> None:
        """A reply that was cut by its cap says so."""
        reason = self._check(_needed(self.samples.max_tokens)).stop_reason
        assert reason == "max_tokens", f"a reply that its cap has cut has the stop_reason max_tokens, not {reason!r}"

    def test_overflow(self) -> None:
        """A prompt that is too long is told apart from other mistakes."""
        error = self._check_error(_needed(self.samples.overflow))
        _require_kind(error, ContextOverflowError)
        assert not error.is_transient, "a prompt that is too long stays so: is_transient must be False"

    def test_refused_key(self) -> None:
        """A wrong key is told apart, and does not stand in the error."""
        error = self._check_error(_needed(self.samples.refused_key))
        _require_kind(error, AuthenticationError)
        assert KEY not in f"{error!r} {error}", "the key stands in the error; leave it out"

    def test_error_before_content(self) -> None:
        """An error in place of an answer is raised, though the status was fine."""
        self._check_error(_needed(self.samples.error_first))

    def test_error_after_content(self) -> None:
        """An error in mid-stream is raised after what had been said."""
        sample = _needed(self.samples.error_later)
        assert sample.text, "the sample of a later error says which text came before"
        self._check_error(sample)

    def test_unknown_events(self) -> None:
        """Events that nobody knows are passed over."""
        self._check(_needed(self.samples.unknown_event))

    def test_unknown_fields(self) -> None:
        """Fields that nobody knows change nothing."""
        for name, sample in self.samples.streamed().items():
            changed = with_unknown_fields(sample.body)
            assert self._reply(sample, [changed]) == self._reply(sample), name

    def test_garbage_events(self) -> None:
        """An event that is no JSON, or of another shape, is passed over or an LLMError, never another exception."""
        sample = self.samples.text
        whole = self._reply(sample)
        for garbage in (b"nope", b"{", b"[]", b"null", b"5", b'"x"', b'{"x_unknown": 1}'):
            body = with_event(sample.body, garbage)
            chunks, error = self._chunks(sample, [body])
            if error is None:
                _require_same(chunks, whole, f"after the event {garbage!r}")
            elif garbage == b'{"x_unknown": 1}':
                raise AssertionError(f"an event that nobody knows must be passed over, not end in {error}") from error

    def test_line_ends_and_comments(self) -> None:
        """Server-sent events may end their lines as they like and hold comments."""
        if not self.samples.text.content_type.startswith("text/event-stream"):
            raise unittest.SkipTest("the protocol has no server-sent events")
        for name, sample in self.samples.streamed().items():
            assert sample.content_type == self.samples.text.content_type, f"{name} comes in another form"
            expected = self._reply(sample)
            for changed in (with_comments(sample.body), *(with_line_ends(sample.body, e) for e in (b"\r", b"\r\n"))):
                assert self._reply(sample, pieces(changed, "seven")) == expected, name

    def test_a_whole_reply_in_place_of_a_stream(self) -> None:
        """A server that does not stream is understood, and its words are passed on all the same."""
        self._check(_needed(self.samples.whole))

    def test_usage_adds_up(self) -> None:
        """Each token is counted once, as the sample says."""
        seen = [sample for sample in self.samples.streamed().values() if sample.usage is not None]
        if not seen:
            raise unittest.SkipTest("no sample tells its usage")
        for sample in seen:
            usage = self._reply(sample).usage
            assert usage is not None, f"the reply has no usage, and the sample says {sample.usage}"
            assert usage == sample.usage, f"the usage is {usage}, and the sample says {sample.usage}"
            parts = (usage.prompt_tokens, usage.cache_read_tokens, usage.cache_creation_tokens, usage.completion_tokens)
            assert sum(parts) == usage.total_tokens, f"{usage} counts a token twice or not at all"
            assert min(parts) >= 0, f"{usage} has a part below 0"

    # ---- what breaks

    def test_a_cut_stream_is_never_a_success(self) -> None:
        """Cut at any byte, a reply is a transient error, or it is whole because its end had been stated."""
        for name, sample in self.samples.streamed().items():
            whole = self._reply(sample)
            step = max(1, len(sample.body) // MAX_CUTS)
            for cut in range(0, len(sample.body), step):
                for breaks in (False, True):
                    self._check_cut(sample, whole, cut, breaks=breaks, name=name)

    def test_a_broken_connection_is_a_transient_error(self) -> None:
        """Over a real socket: reset, closed, ended too early, or silent."""
        sample = self.samples.text
        whole = self._reply(sample)
        endings: tuple[Ending, ...] = ("clean", "fin", "rst", "hang")
        for ending in endings:
            for cut in clean_cuts(sample.body) if ending != "hang" else [len(sample.body) // 3]:
                server = LoopbackServer(sample.body, content_type=sample.content_type, cut=cut, ending=ending)
                with server:
                    self._check_broken_connection(server.url, whole, ending)

    def test_over_a_socket(self) -> None:
        """The same reply comes over real HTTP as from memory."""
        sample = self.samples.text
        transport = Httpx2Transport()
        with LoopbackServer(sample.body, content_type=sample.content_type) as server:
            provider = self.provider(server.url, transport, self.samples.profile)
            chunks = _asked(provider, ModelRequest(Transcript.of([Message.user("hi")])))[0]
        transport.close()
        expected = self._reply(sample)
        assert chunks, "nothing came over the socket"
        assert chunks[-1] == expected, f"over a socket came {chunks[-1]!r}, from memory {expected!r}"

    # ---- what goes out

    def test_the_request_goes_where_it_should_and_hides_its_key(self) -> None:
        """The address is the one that was given; the key is in a header, and neither in the body nor in a repr."""
        call = self._encoded(ModelRequest(conversation(1), ("be brief",), _TOOLS))
        assert call.url.startswith("http://127.0.0.1:9"), f"the request goes to {call.url!r}, not below the base_url"
        assert any(KEY in value for value in call.headers.values()), "no header holds the api_key that was given"
        assert KEY.encode() not in call.body, "the key stands in the body; it belongs into a header"
        assert KEY not in repr(call), "the key stands in the address, which errors show; it belongs into a header"

    def test_encoding_is_pure(self) -> None:
        """The same request is the same bytes, from the same transcript and from another that is equal."""
        request = ModelRequest(conversation(3), ("be brief",), _TOOLS, notice="the last word")
        first = self._encoded(request)
        changes = "the same request gave other bytes the second time; leave out clocks, counters and chance"
        assert self._encoded(request) == first, changes
        again = ModelRequest(conversation(3), ("be brief",), _TOOLS, notice="the last word")
        assert self._encoded(again) == first, "an equal transcript gave other bytes; use its content, not its identity"
        branch = Transcript()
        for message in conversation(3):  # what was asked in between leaves no trace
            branch = branch.extend([message])
            self._encoded(ModelRequest(branch))
        grown = self._encoded(ModelRequest(branch, ("be brief",), _TOOLS, notice="the last word"))
        assert grown == first, "what was asked on the way changed the bytes; a request depends on its transcript alone"

    def test_a_request_only_grows(self) -> None:
        """Each request of a conversation begins with the one before it, so that a provider's cache holds."""
        before = b""
        history = conversation(4)
        branch = Transcript()
        for message in history:
            branch = branch.extend([message])
            if message.role == "assistant":
                continue  # nothing is asked before the user or a tool has spoken
            prompt = self.samples.prompt(self._encoded(ModelRequest(branch, ("be brief",), _TOOLS)).body)
            assert prompt, "no prompt was found in the body; say where it is: ProviderSamples(prompt=...)"
            rest = before[common(before, prompt) :]
            assert not rest.strip(_CLOSERS), f"{rest[:80]!r} moved in message {len(branch) - 1}"
            before = prompt

    def test_images(self) -> None:
        """A picture goes to a model that sees it; for one that does not, there is a clear error."""
        picture = _picture(self.samples)
        request = ModelRequest(Transcript.of([Message.user("look", Image(picture))]))
        if self.samples.profile.images:
            _require_picture(picture, self._encoded(request).body, "a user's message")
        blind = self.samples.profile.replace(images=False)
        provider = self.provider("http://127.0.0.1:9", MemoryTransport([self.samples.text.body]), blind)
        said = ""
        try:
            _collected(provider, request, [])
        except ConfigError as error:
            said = str(error)
        assert "image" in said, "a picture for a model that sees none is a ConfigError"

    def test_images_in_results(self) -> None:
        """A tool's picture goes to a model that sees it; another is told that there was one."""
        picture = _picture(self.samples)
        history = [Message.user("go"), asks("r0c0"), answers("r0c0", Image(picture)), Message.user("and?")]
        request = ModelRequest(Transcript().extend(history), (), _TOOLS)
        if self.samples.profile.images:
            _require_picture(picture, self._encoded(request).body, "a tool's result")
        blind = self._encoded(request, self.samples.profile.replace(images=False)).body
        assert picture.encode() not in blind, "a picture was sent though the profile says images=False; leave it out"
        assert b"image" in blind.lower(), (
            "a picture in a tool's result was left out without a word; put a text in its place that says image, "
            "as sapwood.llm.encoded.left_out(part) does"
        )

    def test_thinking_goes_back_as_it_came(self) -> None:
        """What a model must get back survives JSON and returns byte for byte, to the model that made it only."""
        sample = _needed(self.samples.thinking)
        reply = self._check(sample)
        assert sample.returned, "the sample `thinking` has no returned=; give the bytes that must go back"
        profile = self.samples.profile
        kept = from_json(to_json(message_of(reply, profile)), Message)
        assert kept == message_of(reply, profile), "the reply changes when it is stored as JSON; keep plain JSON in it"
        body = self._encoded(ModelRequest(answered(kept), (), _TOOLS)).body
        for piece in sample.returned:
            assert piece in body, f"{piece[:60]!r} did not go back"
        others = [profile.replace(model=f"{profile.model}-other"), profile.replace(provider="another", model="other")]
        for other in others:
            body = self._encoded(ModelRequest(answered(kept), (), _TOOLS), other).body
            for piece in sample.returned:
                assert piece not in body, f"{piece[:60]!r} went to {other.origin}"

    def test_every_reply_can_be_sent_back(self) -> None:
        """What was decoded is encoded again, from the reply itself and from its JSON, to the same bytes."""
        for name, sample in self.samples.streamed().items():
            message = message_of(self._reply(sample), self.samples.profile)
            kept = from_json(to_json(message), Message)
            bodies = {self._encoded(ModelRequest(answered(item), (), _TOOLS)).body for item in (message, kept)}
            assert len(bodies) == 1, f"{name}: after storing it as JSON the reply is sent with other bytes"

    # ---- how it is asked

    def _chunks(
        self, sample: Sample, cut: Sequence[bytes] | None = None, *, breaks: bool = False
    ) -> tuple[list[StreamChunk], LLMError | None]:
        transport = MemoryTransport(
            cut if cut is not None else [sample.body],
            status=sample.status,
            content_type=sample.content_type,
            breaks=breaks,
        )
        provider = self.provider("http://127.0.0.1:9", transport, self.samples.profile)
        return _asked(provider, ModelRequest(Transcript.of([Message.user("hi")])))

    def _reply(self, sample: Sample, cut: Sequence[bytes] | None = None) -> Reply:
        chunks, error = self._chunks(sample, cut)
        if error is not None:
            raise AssertionError(f"a whole reply ended in an error: {error}") from error
        reply = chunks[-1]
        assert isinstance(reply, Reply), f"the last chunk must be the Reply, not {reply!r}"
        assert sum(isinstance(chunk, Reply) for chunk in chunks) == 1, "there is more than one Reply"
        _require_equal("text of the chunks", _joined(chunks, TextChunk), _text(reply), "the reply's")
        _require_equal("thinking of the chunks", _joined(chunks, ThinkingChunk), _thinking(reply), "the reply's")
        require_deltas(chunks, reply)
        return reply

    def _check(self, sample: Sample) -> Reply:
        reply = self._reply(sample)
        calls = _calls(reply)
        found = {
            "text": _text(reply),
            "thinking": _thinking(reply),
            "calls": tuple((call.name, call.arguments) for call in calls),
            "stop_reason": reply.stop_reason,
        }
        for name, value in found.items():
            if (wanted := getattr(sample, name)) is not None:
                _require_equal(name, value, wanted, "the sample's")
        return reply

    def _check_broken(self, sample: Sample) -> None:
        calls = _calls(self._check(sample))
        assert calls, "the call is not lost"
        assert calls[-1].problem, "arguments that cannot be read have a problem"
        assert sample.problem in (None, calls[-1].problem), f"the problem is {calls[-1].problem}, not {sample.problem}"
        assert calls[-1].arguments == {}, f"arguments that cannot be read are empty, not {calls[-1].arguments}"

    def _check_error(self, sample: Sample) -> LLMError:
        chunks, error = self._chunks(sample)
        assert error is not None, "an error was taken for an answer"
        assert sample.error is None or type(error) is sample.error, f"it is a {type(error).__name__}: {error}"
        _require_equal("text before the error", _joined(chunks, TextChunk), sample.text or "", "the sample's")
        _require_equal("provider of the error", error.provider, self.samples.profile.provider, "the profile's")
        return error

    def _check_cut(self, sample: Sample, whole: Reply, cut: int, *, breaks: bool, name: str) -> None:
        chunks, error = self._chunks(sample, [sample.body[:cut]], breaks=breaks)
        where = f"{name}, cut after {cut} of {len(sample.body)} bytes"
        if error is not None:
            assert error.is_transient, f"{where}: {error} may not be tried again"
            return
        _require_same(chunks, whole, where)

    def _check_broken_connection(self, url: str, whole: Reply, ending: Ending) -> None:
        transport = Httpx2Transport()
        provider = self.provider(url, transport, self.samples.profile)
        chunks, error = _asked(provider, ModelRequest(Transcript.of([Message.user("hi")])))
        transport.close()
        if error is None:
            _require_same(chunks, whole, ending)
            return
        assert error.is_transient, f"{ending}: {error}"
        assert isinstance(error, LLMTimeoutError) == (ending == "hang"), f"{ending}: {error}"

    def _encoded(self, request: ModelRequest, profile: ModelProfile | None = None) -> HttpCall:
        return self.samples.codec.encode(
            request, profile or self.samples.profile, base_url="http://127.0.0.1:9", api_key=KEY
        )


def _needed(sample: Sample | None) -> Sample:
    if sample is None:
        raise unittest.SkipTest("the protocol has no such thing")
    return sample


def _picture(samples: ProviderSamples) -> str:
    if samples.picture is None:
        raise unittest.SkipTest("the protocol has no pictures")
    return samples.picture


def _require_picture(picture: str, body: bytes, place: str) -> None:
    assert picture.encode() in body, (
        f"a picture in {place} is not in the body as base64 though the profile says images=True; encode it, "
        "or say images=False in the profile, or ProviderSamples(picture=None) where the protocol has none"
    )


def _asked(provider: LLMProvider, request: ModelRequest) -> tuple[list[StreamChunk], LLMError | None]:
    chunks: list[StreamChunk] = []
    try:
        _collected(provider, request, chunks)
    except LLMError as error:
        return chunks, error
    return chunks, None


def _collected(provider: LLMProvider, request: ModelRequest, chunks: list[StreamChunk]) -> None:
    chunks.extend(iterate(BlockingRuntime().stream("model", provider.stream, request)))  # also those before an error


def _require_same(chunks: Sequence[StreamChunk], whole: Reply, where: str) -> None:
    reply = chunks[-1] if chunks else None
    assert isinstance(reply, Reply), f"{where}: neither an error nor a reply"
    assert reply.content == whole.content, f"{where}: a cut reply was taken for a whole one"
    assert reply.stop_reason == whole.stop_reason, where


def _require_kind(error: LLMError, kind: type[LLMError]) -> None:
    assert isinstance(error, kind), f"it must be a {kind.__name__}, not {type(error).__name__}: {error}"


def _require_equal(what: str, found: object, wanted: object, whose: str) -> None:
    assert found == wanted, f"the {what} is {found!r}, {whose} {wanted!r}"


def _joined(chunks: Sequence[StreamChunk], kind: type[TextChunk | ThinkingChunk]) -> str:
    return "".join(chunk.text for chunk in chunks if isinstance(chunk, kind))


def _text(reply: Reply) -> str:
    return "".join(part.text for part in reply.content if isinstance(part, Text))


def _thinking(reply: Reply) -> str:
    return "".join(part.text for part in reply.content if isinstance(part, Thinking))


def _calls(reply: Reply) -> list[ToolCall]:
    return [part for part in reply.content if isinstance(part, ToolCall)]
