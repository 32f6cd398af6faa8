"""render: what a turn offers and a run holds -> the request of one model call. Pure.

Law: stable bytes first. Tools in a fixed order (loaded ones appended), then system text that does not
change, then what was recalled for this turn, then the transcript, which only grows.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from sapwood.context.meter import Meter, Totals
from sapwood.context.offered import Offered
from sapwood.core.decide import CallModel
from sapwood.core.ledger import ContextLedger, LedgerLine, Section
from sapwood.core.messages import Recalled
from sapwood.core.model import CachePlan, CacheTtl, ModelProfile, ModelRequest
from sapwood.core.run import Run
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript

_SKILLS = "skills"  # the source whose system text is a section of its own


class Fixed:
    """The parts of a turn's requests that do not change, each measured once: system text, tools, what was recalled.

    defers: the provider keeps deferred definitions out of the prompt, so that they do not count.
    """

    __slots__ = (
        "_counts_tools",
        "_defers",
        "_meter",
        "_raw_skills",
        "_raw_system",
        "_recalled",
        "_tools",
        "cache_key",
        "offered",
        "overhead",
    )

    def __init__(
        self,
        offered: Offered,
        meter: Meter,
        *,
        overhead: int = 0,
        count_tools: bool = True,
        output_schema: dict[str, Any] | None = None,
        defers: bool = False,
    ) -> None:
        self.offered = offered
        self.overhead = overhead
        self._meter = meter
        self._raw_system = sum(meter.raw_text(text) for text in offered.system_texts)
        self._raw_skills = sum(meter.raw_text(text) for source, text in offered.system if source == _SKILLS)
        if output_schema is not None:  # the provider writes it into the prompt
            self._raw_system += meter.raw_text(json.dumps(output_schema))
        self.cache_key = _cache_key(offered)
        self._counts_tools = count_tools
        self._defers = defers
        self._tools: dict[str, int] = {}
        self._recalled: dict[str, int] = {}

    @property
    def system_tokens(self) -> int:
        """The tokens of the system text that does not change, and of what the provider adds to each request."""
        return max(0, self._meter.scaled(self._raw_system) + self._meter.overhead)

    @property
    def skill_tokens(self) -> int:
        """The tokens of the system text that tells of skills, which are among those of the system text."""
        return self._meter.scaled(self._raw_skills)

    def tool_tokens(self, schemas: tuple[ToolSchema, ...]) -> int:
        """Return the tokens of these definitions, 0 where they do not count."""
        if not self._counts_tools or not schemas:
            return 0
        return self.overhead + self._meter.scaled(self._raw_tools(schemas))

    def recalled_tokens(self, run: Run, *, of: str | None = None) -> int:
        """Return the tokens of the blocks that were recalled into the system text; of: by this source alone."""
        blocks = (block for block in run.recalled if of is None or block.source == of)
        return sum(self._meter.scaled(self._raw(block.text)) for block in blocks)

    def learn(self, request: ModelRequest, reported: int) -> None:
        """Take what the provider reported for a request into account."""
        meter = self._meter
        raw = meter.transcript(request.transcript).total + self.raw_beside_messages(request)
        meter.learn(estimated=raw, reported=reported - (self.overhead if request.tools else 0))

    def raw_beside_messages(self, request: ModelRequest) -> int:
        """Return the raw tokens of a request's system texts and tools."""
        texts = request.system[len(self.offered.system_texts) :]
        return self._raw_system + sum(self._raw(text) for text in texts) + self._raw_tools(request.tools)

    def _raw_tools(self, schemas: tuple[ToolSchema, ...]) -> int:
        total = 0
        for schema in schemas:
            if schema.defer and self._defers:
                continue
            size = self._tools.get(schema.name)
            if size is None:
                size = self._tools[schema.name] = self._meter.schema(schema)
            total += size
        return total

    def messages_tokens(self, request: ModelRequest, *, before: int = 0) -> int:
        """Return the tokens of a request's messages, without so many at the end."""
        length = max(0, len(request.transcript) - before)
        return self._meter.scaled(self._meter.transcript(request.transcript, length).total)

    def raw_beside(self, run: Run, *, of: str | None = None) -> int:
        """Return the raw tokens of what was recalled beside the user's message; of: by this source alone."""
        content = run.prompt.content if run.prompt is not None else ()
        parts = (part for part in content if isinstance(part, Recalled) and (of is None or part.source == of))
        return sum(self._raw(part.text) for part in parts)

    def _raw(self, text: str) -> int:
        size = self._recalled.get(text)
        if size is None:
            size = self._recalled[text] = self._meter.raw_text(text)
        return size


def _cache_key(offered: Offered) -> str:
    """Return a name for the cache of all requests that begin with these tools and system texts."""
    stable = hashlib.sha256()
    for text in (*(schema.name for schema in offered.with_loaded(())), "", *offered.system_texts):
        stable.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return f"sapwood-{stable.hexdigest()[:24]}"  # at most 64 characters are taken


def render(
    action: CallModel,
    run: Run,
    fixed: Fixed,
    transcript: Transcript,
    *,
    loaded: tuple[str, ...],
    max_tokens: int | None,
    bare: Collection[str] = (),
    notice: str | None = None,
    output_schema: dict[str, Any] | None = None,
    context_edits: tuple[dict[str, Any], ...] = (),
) -> ModelRequest:
    """Return the request of this call.

    transcript: the past messages and this turn's. loaded: names of lazy tools that are callable; bare: those of them
    of which no message tells any more.
    notice: a last word of the loop. output_schema: what the answer must fit, where the model takes a schema.
    context_edits: what the provider itself does about a long context.
    """
    offered = fixed.offered
    recalled = tuple(block.text for block in run.recalled)
    return ModelRequest(
        transcript,
        (*offered.system_texts, *recalled),
        offered.with_loaded(loaded, bare),
        action.tool_choice,
        max_tokens,
        notice,
        output_schema=output_schema,
        context_edits=context_edits,
        found=offered.found(loaded, bare),
    )


def place_marks(
    request: ModelRequest,
    sections: Mapping[Section, int],
    profile: ModelProfile,
    ttl: CacheTtl | None,
    *,
    fixed: Fixed,
) -> ModelRequest:
    """Return the request with what it says of the prompt cache.

    A mark goes to each of the two seams whose prefix is long enough to be cached: after tools and system text,
    which no turn changes, and at the end of the messages. The codec adds those that long rounds need in between,
    where the request before this one was long enough.

    sections: the request's tokens. ttl: how long the prefix is kept; None says nothing of caching.
    """
    if ttl is None:
        return msgspec.structs.replace(request, cache=None)
    prefix = sections.get("system", 0) + sections.get("skills", 0) + sections.get("tools", 0)
    least = profile.cache_minimum_tokens
    total = sum(sections.values())
    plan = CachePlan(
        ttl,
        prefix=prefix >= least,
        messages=total >= least,
        key=fixed.cache_key,
        stable=len(fixed.offered.system_texts),
        earlier=prefix + fixed.messages_tokens(request, before=2) >= least,
    )
    return msgspec.structs.replace(request, cache=plan)


def measure(
    request: ModelRequest, run: Run, fixed: Fixed, meter: Meter, *, past: Totals, prompt: Totals
) -> dict[Section, int]:
    """Return the estimated tokens of a request by section.

    past, prompt: the raw totals of the messages before this turn, and of the user's message; what was recalled
    beside the message counts as memory, or as retrieval where a source of that name found it; pictures and documents,
    wherever they stand but in results, as files.
    """
    total = meter.transcript(request.transcript)
    now = total.messages - past.messages
    beside = fixed.raw_beside(run)
    skills = fixed.skill_tokens
    recalled = fixed.recalled_tokens(run) + meter.scaled(beside)
    found = fixed.recalled_tokens(run, of="retrieval") + meter.scaled(fixed.raw_beside(run, of="retrieval"))
    return {
        "system": max(0, fixed.system_tokens - skills),
        **({"skills": skills} if skills else {}),
        "tools": fixed.tool_tokens(request.tools),
        "memory": max(0, recalled - found),
        **({"retrieval": found} if found else {}),
        "summary": meter.scaled(total.summary),
        "history": meter.scaled(
            past.messages + past.tool_results + now - prompt.messages - total.summary - total.files + prompt.files
        ),
        "tool_results": meter.scaled(total.tool_results - past.tool_results),
        "files": meter.scaled(total.files),
        "prompt": meter.scaled(max(0, prompt.messages - beside - prompt.files)),
    }


def ledger(sections: Mapping[Section, int], lines: tuple[LedgerLine, ...], *, window: int) -> ContextLedger:
    """Return the ledger of a request: its sections, one line for each of them and what else was considered."""
    kept = tuple(LedgerLine(section, _LABELS[section], section, size) for section, size in sections.items() if size)
    return ContextLedger({str(name): size for name, size in sections.items()}, (*kept, *lines), max(0, window))


_LABELS: dict[Section, str] = {
    "system": "system prompt",
    "tools": "tool definitions",
    "skills": "skills",
    "memory": "recalled for this turn",
    "retrieval": "retrieved documents",
    "summary": "summary of earlier messages",
    "history": "earlier messages and replies",
    "tool_results": "tool results of this turn",
    "prompt": "the user's message",
    "files": "files",
}
