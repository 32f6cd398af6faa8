"""What the model saw in each round of a run: the ledger with its lines, and the text behind them.

Laws: the texts are those of the request that was sent, kept in memory for the newest runs; of older ones, and after a
restart, there is what the journal has: the ledgers, and what was recalled.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sapwood.core.ledger import ContextLedger
from sapwood.core.messages import Message, Recalled, Summary, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelRequest
from sapwood.core.run import Run

MAX_TEXT = 20_000
"""Characters of one text that are shown."""
MAX_ROUNDS = 50
_OF_SOURCE = {"memory": "memory", "retrieval": "retrieval", "skills": "skills"}


class SeenRequests:
    """The requests of the newest runs. most: how many runs."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._of: OrderedDict[str, list[ModelRequest]] = OrderedDict()

    def add(self, run_id: str, request: ModelRequest, ledger: ContextLedger) -> None:
        """Keep a request of a run."""
        kept = self._of.setdefault(run_id, [])
        self._of.move_to_end(run_id)
        kept.append(request)
        del kept[:-MAX_ROUNDS]
        while len(self._of) > self._most:
            self._of.popitem(last=False)

    def texts(self, run_id: str, run: Run) -> list[list[dict[str, str]]] | None:
        """Return what stood in each request, by round, from the last one kept back; None where none is kept."""
        kept = self._of.get(run_id)
        return None if kept is None else [list(_texts(request, run)) for request in kept]


def context_view(run: Run, seen: SeenRequests) -> dict[str, Any]:
    """Return the rounds of a run, each with its ledger and texts."""
    ledgers = [item.ledger for item in run.rounds]
    if run.phase not in ("new", "idle", "ended") and run.ledger is not None and len(run.rounds) == run.round:
        ledgers.append(run.ledger)
    texts = seen.texts(run.run_id, run)
    known = texts or []
    # Requests that were made again in a round, and rounds before a restart, make the numbers differ: the last ones fit.
    ahead = len(ledgers) - len(known)
    rounds: list[dict[str, Any]] = []
    for number, ledger in enumerate(ledgers):
        found = known[number - ahead] if 0 <= number - ahead < len(known) else list(_of_journal(run))
        rounds.append({"round": number, "ledger": _ledger(ledger), "texts": found})
    return {"runId": run.run_id, "rounds": rounds, "complete": texts is not None}


def _ledger(ledger: ContextLedger | None) -> dict[str, Any]:
    if ledger is None:
        return {"sections": {}, "window": 0, "estimatedTokens": 0, "lines": []}
    optional = {
        "reportedTokens": ledger.reported_tokens,
        "cachedTokens": ledger.cached_tokens,
        "costUsd": ledger.cost_usd,
    }
    return {
        "sections": {name: size for name, size in ledger.sections.items() if size},
        "window": ledger.window,
        "estimatedTokens": ledger.estimated_tokens,
        **{name: value for name, value in optional.items() if value is not None},
        "lines": [
            {
                "source": line.source,
                "label": line.label,
                "section": line.section,
                "tokens": line.tokens,
                "verdict": line.verdict,
                "reason": line.reason,
            }
            for line in ledger.lines
        ],
    }


def _texts(request: ModelRequest, run: Run) -> Iterator[dict[str, str]]:
    for number, block in enumerate(request.system, 1):
        yield _piece("system", f"system text {number}", block)
    for tool in request.tools:
        schema = msgspec.json.format(msgspec.json.encode(tool.input_schema), indent=1).decode()
        yield _piece("tools", tool.name, f"{tool.description}\n\n{schema}")
    messages = request.transcript[:]
    own = _place_of(run, messages)
    for number, message in enumerate(messages):
        yield from _of_message(message, is_own=number >= own, number=number + 1)


def _place_of(run: Run, messages: Sequence[Message]) -> int:
    """Return where the turn's own messages begin: at its prompt, looked for from the end."""
    text = run.prompt.text if run.prompt is not None else None
    for number in range(len(messages) - 1, -1, -1):
        if messages[number].role == "user" and messages[number].text == text:
            return number
    return len(messages)


def _of_message(message: Message, *, is_own: bool, number: int) -> Iterator[dict[str, str]]:
    for part in message.content:
        match part:
            case Recalled(text=text, source=source):
                yield _piece(_OF_SOURCE.get(source, "memory"), f"recalled by {source or 'a source'}", text)
            case Summary(text=text):
                yield _piece("summary", "summary of what came before", text)
            case ToolResult(name=name):
                yield _piece("tool_results", f"result of {name}", part.text)
            case ToolCall(name=name):
                arguments = msgspec.json.encode(part.arguments).decode()
                yield _piece("history", f"{number}. call of {name}", f"{name}({arguments})")
            case Text(text=text) | Thinking(text=text):
                section = "prompt" if is_own and message.role == "user" else "history"
                yield _piece(section, f"{number}. {message.role}", text)
            case _:
                yield _piece("files", f"{number}. {part.type}", f"[{part.type}]")


def _of_journal(run: Run) -> Iterator[dict[str, str]]:
    for block in run.recalled:
        yield _piece(_OF_SOURCE.get(block.source, "system"), f"recalled by {block.source or 'a source'}", block.text)
    for number, message in enumerate(run.messages):
        yield from _of_message(message, is_own=True, number=number + 1)


def _piece(section: str, label: str, text: str) -> dict[str, str]:
    if len(text) > MAX_TEXT:
        text = f"{text[:MAX_TEXT]}\n[… {len(text) - MAX_TEXT:,} more characters]"
    return {"section": section, "label": label, "text": text}
