"""How far the estimate of a request is from the input tokens that its provider reported, in recorded exchanges.

`python -m benchmarks.counting` prints a table by protocol and, with `-v`, each request. It needs the whole set of
recordings (the folder in SAPWOOD_WIRE, or shared/data/wire beside the project) and says so where there is none.

What is left out, as no part of what is estimated: the providers' own tools, which read pages and think in between,
requests for an output of a given shape, and what the server holds (a cached content, a conversation).
"""

import logging
import re
import statistics
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.rows import ROOT, Row
from sapwood.context.meter import Calibration, Meter
from sapwood.context.offered import Offered
from sapwood.context.render import Fixed
from sapwood.core.errors import LLMError
from sapwood.core.model import ModelProfile, ModelRequest, Reply
from sapwood.core.tools import ToolSchema
from sapwood.llm.codec import Decoder
from sapwood.llm.profiles import profile_of

BAR_FIRST, BAR_LATER = 0.10, 0.03
LEAST = 100
"""Smaller requests are told apart: there, one token is more than a percent."""
GEMINI = ("google.generate_content", "google.stream_generate_content")
APIS = ("anthropic.messages", "openai.chat", "openai.responses", *GEMINI)
NAMES = {"anthropic.messages": "Anthropic", "openai.chat": "Chat", "openai.responses": "Responses"}
LEFT_OUT = (
    {"mcp_servers", "context_management", "web_search_options", "cachedContent", "conversation", "container"}
    | {"response_format", "text", "output_config", "output_format", "previous_response_id", "plugins"}
)  # fmt: skip


@dataclass
class Sample:
    """One recorded request. place: 0 for the first of a conversation with a model."""

    name: str
    protocol: str
    profile: ModelProfile
    request: ModelRequest
    reported: int
    place: int = 0
    estimated: int = 0

    @property
    def error(self) -> float:
        """How far off the estimate is, as a share of what was reported."""
        return abs(self.estimated - self.reported) / self.reported

    @property
    def is_held_out(self) -> bool:
        """It is in the half of the files that nothing was fitted to."""
        return bool(zlib.crc32(self.name.partition("#")[0].encode()) & 1)


def samples() -> list[Sample]:
    """Return all recorded requests that can be compared, in the order of their conversations."""
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "llm")]
    from wire_files import exchanges, whole_set

    found: list[Sample] = []
    for exchange in exchanges(whole_set(), *APIS):
        body: Any = exchange.request.get("body")
        if not exchange.is_recorded or exchange.response["status"] != 200 or not body or set(body) & LEFT_OUT:
            continue
        sample = read(exchange, body)
        if sample is not None:
            found.append(sample)
    return found


def read(exchange: Any, body: dict[str, Any]) -> Sample | None:
    """Return a request with what was reported; None where there is no report, or what cannot be estimated."""
    from support import read_requests

    tools = tools_of(body)
    if tools is None:
        return None
    provider = exchange.name.partition("-")[0].replace("multi", "openai")
    plain = {name: value for name, value in body.items() if name not in ("tools", "tool_choice")}
    try:
        match exchange.api:
            case "anthropic.messages":
                provider, model = "anthropic", body["model"]
                request, _ = read_requests.anthropic_request(plain)
            case "openai.chat":
                model = body["model"]
                request, _ = read_requests.chat_request(plain, provider)
            case "openai.responses":
                model = body["model"]
                request, _ = read_requests.responses_request(plain, provider)
            case _:
                provider, model = "gemini", re.sub(r".*/models/(.*):\w+", r"\1", exchange.request["path"])
                request, options = read_requests.gemini_request(plain, model)
                if set(options.extra_body.get("generationConfig", {})) & {"responseSchema", "responseMimeType"}:
                    return None
    except KeyError:
        return None  # a result whose call the server holds
    usage = usage_of(exchange)
    if not usage:
        return None
    request = ModelRequest(request.transcript, request.system, tools)
    protocol = NAMES.get(exchange.api, "Gemini")
    return Sample(exchange.name, protocol, profile_of(provider, model), request, usage)


def tools_of(body: dict[str, Any]) -> tuple[ToolSchema, ...] | None:
    """Return the user's tools of a request; None where there are others among them."""
    found: list[ToolSchema] = []
    for tool in body.get("tools") or ():
        declared = tool.get("functionDeclarations") or tool.get("function_declarations") or [tool.get("function", tool)]
        for item in declared:
            names = ("input_schema", "parameters", "parametersJsonSchema", "parameters_json_schema")
            schema = next((item[name] for name in names if name in item), None)
            if schema is None or tool.get("defer_loading"):
                return None
            found.append(ToolSchema(item["name"], item.get("description") or "", schema))
    return tuple(found)


def usage_of(exchange: Any) -> int:
    """Return the input tokens that were reported, 0 for none."""
    decoder, splitter = decoder_of(exchange.api), exchange.splitter()
    try:
        if splitter is None:
            reply: Reply = decoder.whole(exchange.body)
        else:
            for name, data in (*splitter.feed(exchange.body), *splitter.finish()):
                decoder.feed(name, data)
            reply = decoder.finish()
    except LLMError:
        return 0
    return reply.usage.input_tokens if reply.usage else 0


def decoder_of(api: str) -> Decoder:
    """Return what reads replies of a protocol."""
    from sapwood.llm.anthropic import AnthropicCodec
    from sapwood.llm.gemini import GeminiCodec
    from sapwood.llm.openai import ChatCodec
    from sapwood.llm.openai.responses import ResponsesCodec

    codecs: dict[str, Any] = {
        "anthropic.messages": AnthropicCodec,
        "openai.chat": ChatCodec,
        "openai.responses": ResponsesCodec,
    }
    decoder: Decoder = codecs.get(api, GeminiCodec)().decoder(profile_of("anthropic", "some"))
    return decoder


def estimate(found: Sequence[Sample]) -> None:
    """Fill in each sample's estimate, learning from the earlier ones of its conversation and model alone."""
    seen: dict[tuple[str, str], tuple[Calibration, ModelRequest | None, int]] = {}
    for sample in found:
        key = (sample.name.partition("#")[0], sample.profile.origin)
        calibration, before, place = seen.get(key, (Calibration(), None, 0))
        if before is not None and len(before.transcript) >= len(sample.request.transcript):
            calibration, place = Calibration(), 0  # not a later request of the same conversation
        profile = sample.profile
        meter = Meter.of(profile, calibration=calibration)
        request = sample.request
        fixed = Fixed(
            Offered(system=tuple(("", text) for text in request.system)), meter, overhead=profile.tool_overhead_tokens
        )
        raw = meter.transcript(request.transcript).total + fixed.raw_beside_messages(request)
        sample.place = place
        known = profile.tool_overhead_tokens if request.tools else 0
        sample.estimated = max(1, meter.scaled(raw) + meter.overhead + known)
        fixed.learn(request, sample.reported)
        seen[key] = (calibration, request, place + 1)


def figures(errors: Sequence[float]) -> str:
    """Return median, mean and the 95th percentile of errors, in percent."""
    ordered = sorted(errors)
    if not ordered:
        return "–"
    high = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
    values = (statistics.median(ordered), statistics.fmean(ordered), high)
    return " / ".join(f"{value * 100:.0f}" for value in values) + f" % ({len(ordered)})"


def unique(found: Sequence[Sample]) -> list[Sample]:
    """Return the samples without those that repeat another one's request."""
    kept: dict[tuple[str, int, int, int], Sample] = {}
    for sample in found:
        kept.setdefault((sample.profile.origin, sample.reported, sample.estimated, sample.place), sample)
    return list(kept.values())


def run() -> list[Row]:
    """Compare all recordings, by protocol, first and later requests, large and small ones."""
    logging.disable(logging.WARNING)
    found = samples()
    if not found:
        return [Row("token estimates", "not measured", remark="the whole set of recordings is not here")]
    estimate(found)
    found = unique(found)
    rows: list[Row] = []
    for later, bar in ((False, BAR_FIRST), (True, BAR_LATER)):
        part = [sample for sample in found if bool(sample.place) == later]
        for protocol in ("Anthropic", "Chat", "Responses", "Gemini", "all"):
            some = [sample for sample in part if protocol in (sample.protocol, "all")]
            large = [sample.error for sample in some if sample.reported >= LEAST]
            row = Row(
                f"estimate of a {'later' if later else 'first'} request, {protocol}, {LEAST} tokens and more",
                figures(large),
                f"median ≤ {bar * 100:.0f} %",
                holds=statistics.median(large) <= bar if large else None,
            )
            held = [sample.error for sample in some if sample.reported >= LEAST and sample.is_held_out]
            row.remark = f"held out: {figures(held)}; all sizes: {figures([sample.error for sample in some])}"
            rows.append(row)
    return rows


def main() -> None:
    """Print the table and, with -v, each request."""
    rows = run()
    for row in rows:
        print(row.line())
    if "-v" in sys.argv:
        found = samples()
        estimate(found)
        for sample in found:
            sign = (sample.estimated - sample.reported) / sample.reported
            held = "held" if sample.is_held_out else ""
            print(
                f"{sample.name:60} {sample.profile.origin:44} {sample.place} {sample.estimated:7} {sample.reported:7} {sign:+.0%} {held}"
            )


if __name__ == "__main__":
    main()
