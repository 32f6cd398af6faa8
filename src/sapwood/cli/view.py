"""How a turn and its context look in a terminal: streamed Markdown, a line for each tool call, bars."""

import time
from types import TracebackType
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sapwood.core.events import (
    AgentEvent,
    ApprovalRequested,
    ApprovalResolved,
    CompactionFinished,
    ContextUpdated,
    MessageInterrupted,
    ProviderWaiting,
    RoundRestarted,
    ServerToolStarted,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    UsageLimitReached,
)
from sapwood.core.ledger import ContextLedger

REFRESH_SECONDS = 0.1
SHOWN = 100
BAR = 20


class TurnView:
    """Shows the events of one turn as they come; use it as a context manager."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._text = ""
        self._drawn = 0.0
        self._started: dict[str, tuple[float, ToolStarted]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flush()

    def show(self, event: AgentEvent) -> None:
        """Show one event."""
        match event:
            case TextDelta(text=text):
                if not event.path:  # what a subagent says is for its caller
                    self._add(text)
            case ToolStarted(key=key):
                self._flush()
                self._started[key] = (time.monotonic(), event)
            case ApprovalRequested():
                self._flush()
            case ApprovalResolved(name=name, approved=approved, by=by, value=value):
                said = "denied" if not approved else "approved" if value is None else "answered"
                self._console.print(Text(f"  · {name}: {said}{f' by {by}' if by else ''}", style="dim"))
            case UsageLimitReached(kind=kind, used=used, limit=limit):
                self._flush()
                self._console.print(Text(f"  · limit reached: {used:g} of {limit:g} {kind}", style="yellow"))
            case ToolFinished():
                self._flush()
                self._console.print(self._tool_line(event))
            case ContextUpdated(source=source, op=op):
                self._flush()
                self._console.print(Text(f"  · {source}: {op} {_what(event)}", style="dim"))
            case CompactionFinished(tokens_before=before, tokens_after=after) if before != after:
                self._console.print(Text(f"  · history shortened from {before} to {after} tokens", style="dim"))
            case ProviderWaiting(seconds=seconds, reason=reason):
                self._flush()
                self._console.print(Text(f"  · waiting {seconds:.1f} s: {reason}", style="yellow"))
            case RoundRestarted(model=model):
                self._flush()
                self._console.print(Text(f"  · starts again {'with ' + model if model else 'shorter'}", style="yellow"))
            case ServerToolStarted(name=name):
                self._flush()
                self._console.print(Text(f"  · the provider runs {name}", style="dim"))
            case MessageInterrupted():
                self._flush()
                self._console.print(Text("  · interrupted", style="yellow"))
            case TurnFinished(stopped_by=cause) if cause != "stop":
                self._flush()
                self._console.print(Text(f"  · ended: {cause}", style="yellow"))
            case _:
                pass

    def _add(self, text: str) -> None:
        self._text += text
        if not self._console.is_terminal:
            self._console.print(Text(text), end="", soft_wrap=True)
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="visible")
            self._live.start()
        # Markdown is parsed anew each time, so a fast model is drawn ten times a second and no more.
        now = time.monotonic()
        if now - self._drawn >= REFRESH_SECONDS:
            self._drawn = now
            self._live.update(Markdown(self._text), refresh=True)

    def _flush(self) -> None:
        if self._live is not None:
            self._live.update(Markdown(self._text), refresh=True)
            self._live.stop()
            self._live = None
        elif self._text and not self._console.is_terminal:
            self._console.print()
        self._text = ""

    def _tool_line(self, event: ToolFinished) -> RenderableType:
        began, started = self._started.get(event.key, (time.monotonic(), None))
        seconds = time.monotonic() - began
        arguments = ", ".join(f"{name}={value!r}" for name, value in (started.tool_input if started else {}).items())
        mark, style = ("✗", "red") if event.is_error else ("✓", "green")
        result = " ".join(event.result.split())
        shown = f"({escape(_short(arguments))})" if started else ""  # it may have started in another process
        return Text.from_markup(
            f"[{style}]{mark}[/] [bold]{escape(event.name)}[/]{shown} "
            f"[dim]{seconds:.2f} s → {escape(_short(result))}[/]"
        )


def ledger_table(ledger: ContextLedger | None) -> RenderableType:
    """Return the context of a model call as a bar for each section, then what was left out and why."""
    if ledger is None:
        return Text("No model call yet.", style="dim")
    window = ledger.window or max(1, ledger.estimated_tokens)
    table = Table(show_header=True, header_style="bold", box=None, pad_edge=False)
    table.add_column("section", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column(f"of {window:,}", no_wrap=True)
    table.add_column("", overflow="fold")
    for section, size in ledger.sections.items():
        if size:
            table.add_row(section, f"{size:,}", _bar(size, window))
    total = ledger.estimated_tokens
    table.add_row("total (estimated)", f"{total:,}", _bar(total, window))
    if ledger.reported_tokens is not None:
        cached = f"{ledger.cached_tokens or 0:,} cached"
        table.add_row("reported", f"{ledger.reported_tokens:,}", "", cached)
    for line in ledger.lines:
        if line.source != line.section or line.verdict != "kept":
            note = f"{line.verdict}{': ' + line.reason if line.reason else ''}"
            table.add_row(f"  {line.source}: {line.label}", f"{line.tokens:,}", "", note)
    return table


def _bar(size: int, window: int) -> str:
    filled = min(BAR, round(BAR * size / window)) or 1
    return f"{'█' * filled}{'·' * (BAR - filled)} {100 * size / window:.1f} %"


def _what(event: ContextUpdated) -> str:
    things: list[Any] = [record.text for record in event.records] or list(event.tools) or [event.error or ""]
    return _short(", ".join(str(thing) for thing in things))


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
