"""What one model call costs inside the library, at turn 1 and at turn 500 of a conversation."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator

from benchmarks.rows import Row, cpu_around, median
from sapwood import Agent, Message, Text, Transcript, tool
from sapwood.core.messages import ToolCall, ToolResult
from sapwood.core.model import ModelProfile, ModelRequest, StreamChunk
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.testing import call, calls, says, scripted

CALLS = 200
RUNS = 7
TURNS = (1, 50, 200, 500)
BAR_MS, BAR_GROWTH, BAR_CODEC_MS = 0.15, 1.15, 0.2


@tool(read_only=True)
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def conversation(turns: int) -> Transcript:
    """Return a conversation of this many turns, each a question, a call, its result and an answer."""
    messages: list[Message] = []
    for number in range(turns):
        key = f"h{number}"
        messages += [
            Message.user(f"question {number} " + "word " * 20),
            Message.assistant(ToolCall("add", {"a": number, "b": 1}, key=key, id=f"toolu_{number}")),
            Message("tool", (ToolResult(key, "add", (Text(str(number + 1)),)),)),
            Message.assistant("answer " + "word " * 30),
        ]
    return Transcript.of(messages)


class Encoded:
    """The scripted model behind Anthropic's codec: each request is encoded as it would be sent."""

    def __init__(self, script: object, profile: ModelProfile) -> None:
        self._script = script
        self._codec = AnthropicProvider("claude-haiku-4-5", base_url="http://127.0.0.1:9", api_key="k")
        self.profile = profile

    def stream(self, request: ModelRequest) -> "Encoded.Stream":
        self._codec._call(request)
        return Encoded.Stream(self._script.stream(request))  # type: ignore[attr-defined]

    class Stream:
        def __init__(self, inner: object) -> None:
            self._inner = inner

        def __aiter__(self) -> AsyncIterator[StreamChunk]:
            return aiter(self._inner)  # type: ignore[call-overload, no-any-return]

        def __iter__(self) -> Iterator[StreamChunk]:
            return iter(self._inner)  # type: ignore[call-overload, no-any-return]


def per_call(history: Transcript, *, with_codec: bool) -> float:
    """Return the milliseconds of CPU for one call: a turn of 200 calls with one async tool each."""
    script = [calls(call("add", {"a": n, "b": 1}, id=f"c{n}")) for n in range(CALLS)]
    model: object = scripted(*script, says("done"))
    if with_codec:
        profile = AnthropicProvider("claude-haiku-4-5", api_key="k").profile
        model = Encoded(model, profile)
    agent = Agent(llm=model, max_rounds=CALLS + 2, max_tokens=100_000_000).with_tools([add])  # type: ignore[arg-type]

    async def turn() -> None:
        async for _ in agent.astream("go", messages=history):
            pass

    gc.collect()
    return cpu_around(lambda: asyncio.run(turn())) / (CALLS + 1) * 1e3


def run() -> list[Row]:
    """Measure at each length, in turn, so that a slow moment of the machine meets all of them."""
    histories = {turns: conversation(turns) for turns in TURNS}
    found: dict[bool, dict[int, list[float]]] = {flag: {turns: [] for turns in TURNS} for flag in (False, True)}
    for with_codec in (False, True):
        for turns in TURNS:  # as in a conversation: every earlier turn has been sent before
            per_call(histories[turns], with_codec=with_codec)
        for _ in range(RUNS):
            for turns in TURNS:
                found[with_codec][turns].append(per_call(histories[turns], with_codec=with_codec))
    plain = {turns: median(values) for turns, values in found[False].items()}
    coded = {turns: median(values) for turns, values in found[True].items()}
    rows = [Row("one model call at turn 1", f"{plain[1]:.3f} ms", f"≤ {BAR_MS} ms", holds=plain[1] <= BAR_MS)]
    for turns in TURNS[1:]:
        ratio = plain[turns] / plain[1]
        rows.append(
            Row(
                f"… at turn {turns}",
                f"{plain[turns]:.3f} ms ({ratio:.2f}×)",
                f"≤ {BAR_GROWTH}×",
                holds=ratio <= BAR_GROWTH,
            )
        )
    growth = coded[500] - coded[50]
    shown = f"{coded[50]:.3f} → {coded[500]:.3f} ms (+{growth:.3f})"
    rows.append(
        Row(
            "… with Anthropic's codec, turn 50 to 500",
            shown,
            f"growth ≤ {BAR_CODEC_MS} ms",
            holds=growth <= BAR_CODEC_MS,
        )
    )
    return rows
