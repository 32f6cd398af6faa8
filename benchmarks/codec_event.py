"""What one streamed event costs with each codec: decoding alone, and over loopback HTTP beside the vendor's SDK.

Both read the same bytes in the same process, in turn. The SDK's cheapest way of streaming is taken.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.endpoint import Endpoint
from benchmarks.replies import STREAMS
from benchmarks.rows import Row, cpu_around, has, median
from sapwood.core.messages import Message
from sapwood.core.model import ModelRequest
from sapwood.core.transcript import Transcript
from sapwood.llm.base import BaseLLMProvider

EVENTS = 1_000
TURNS = 5
RUNS = 5
MODEL = f"text-{EVENTS}"
BARS = {"event": 0.5, "4096": 0.5}
BAR_DECODE_US = 5.0
SDKS = {"anthropic": "anthropic", "openai chat": "openai", "openai responses": "openai", "gemini": "google.genai"}
REQUEST = ModelRequest(Transcript.of([Message.user("go")]), max_tokens=1_024)


def provider_of(name: str, url: str) -> BaseLLMProvider:
    """Return our provider of a protocol."""
    from sapwood.llm.anthropic import AnthropicProvider
    from sapwood.llm.gemini import GeminiProvider
    from sapwood.llm.openai import OpenAIChatProvider
    from sapwood.llm.openai.responses import OpenAIResponsesProvider

    kinds: dict[str, Any] = {
        "anthropic": AnthropicProvider,
        "openai chat": OpenAIChatProvider,
        "openai responses": OpenAIResponsesProvider,
        "gemini": GeminiProvider,
    }
    base_url = url + "/v1" if name.startswith("openai") else url
    provider: BaseLLMProvider = kinds[name](MODEL, base_url=base_url, api_key="k")
    return provider


def ours(name: str, url: str) -> Callable[[], int]:
    """Return a function that streams a reply and counts its chunks."""
    provider = provider_of(name, url)
    return lambda: sum(1 for _ in provider.stream(REQUEST))


def sdk(name: str, url: str) -> Callable[[], int]:
    """Return a function that streams the same reply with the vendor's SDK and counts its events."""
    make = {"anthropic": _anthropic, "openai chat": _chat, "openai responses": _responses, "gemini": _gemini}
    stream = make[name](url)
    return lambda: sum(1 for _ in stream())


def _anthropic(url: str) -> Callable[[], Any]:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="k")
    return lambda: client.messages.create(
        model=MODEL, max_tokens=1024, messages=[{"role": "user", "content": "go"}], stream=True
    )


def _chat(url: str) -> Callable[[], Any]:
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="k")
    return lambda: client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "go"}],
        stream=True,
        stream_options={"include_usage": True},
    )


def _responses(url: str) -> Callable[[], Any]:
    import openai

    client = openai.OpenAI(base_url=url + "/v1", api_key="k")
    return lambda: client.responses.create(model=MODEL, input="go", stream=True)


def _gemini(url: str) -> Callable[[], Any]:
    from google import genai

    client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=url))
    return lambda: client.models.generate_content_stream(model=MODEL, contents="go")


def decoding(name: str) -> Callable[[], int]:
    """Return a function that decodes a reply from memory, in pieces of 4,096 bytes, and counts its chunks."""
    from sapwood.llm.framing import splitter_of

    provider = provider_of(name, "http://127.0.0.1:9")
    body = b"".join(STREAMS[name](EVENTS))
    pieces = [body[at : at + 4096] for at in range(0, len(body), 4096)]

    def decode() -> int:
        splitter, decoder = splitter_of("text/event-stream", b"d"), provider._codec.decoder(provider.profile)
        assert splitter is not None
        count = sum(len(decoder.feed(*event)) for piece in pieces for event in splitter.feed(piece))
        decoder.finish()
        return count

    return decode


def per_event(work: Callable[[], int]) -> float:
    """Return the microseconds of CPU for one event; fails where some are missing."""
    counts: list[int] = []
    cost = cpu_around(lambda: counts.extend(work() for _ in range(TURNS))) / (TURNS * EVENTS) * 1e6
    assert min(counts) >= EVENTS, counts
    return cost


def medians(works: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Return the cost of each, taken in turn after a first run that does not count."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for work in works.values():
        work()
    for _ in range(RUNS):
        for name, work in works.items():
            found[name].append(per_event(work))
    return {name: median(values) for name, values in found.items()}


def run() -> list[Row]:
    """Measure all codecs."""
    rows: list[Row] = []
    for name, cost in medians({name: decoding(name) for name in STREAMS}).items():
        what = f"decode one event, {name}"
        rows.append(Row(what, f"{cost:.1f} µs", f"≤ {BAR_DECODE_US:.0f} µs", holds=cost <= BAR_DECODE_US))
    for write, share in BARS.items():
        how = "an event a write" if write == "event" else f"{write}-byte writes"
        with Endpoint(write=write) as server:
            for name, module in SDKS.items():
                works = {"ours": ours(name, server.url)}
                if has(module.partition(".")[0]) and has(module):
                    works["sdk"] = sdk(name, server.url)
                costs = medians(works)
                cost, peer = costs["ours"], costs.get("sdk")
                row = Row(f"one event over HTTP, {name}, {how}", f"{cost:.1f} µs", f"≤ {share} of the SDK's")
                if peer is None:
                    row.remark = f"{module} is not installed"
                else:
                    row.peer, row.holds = f"{module} {peer:.1f} µs ({cost / peer:.2f}×)", cost <= share * peer
                rows.append(row)
    return rows
