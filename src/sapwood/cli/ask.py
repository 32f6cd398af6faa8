"""Asking the person at the terminal about one call: y, n, edit.

Law: what is not a clear yes is a no, the end of the input and Ctrl-C included.
"""

import json
from typing import Any

from rich.console import Console
from rich.text import Text

from sapwood.core.approval import Answer, ApprovalDecision, ApprovalRequest, ExternalResult
from sapwood.core.json_object import is_object
from sapwood.core.limits import LimitBreach
from sapwood.core.run import Run

CHOICES = "y: run it · n: no · e: edit the input"


def ask(console: Console, request: ApprovalRequest) -> Answer:
    """Return what the person says of a call; for a tool that runs outside, its result."""
    where = f" (in {' / '.join(request.path)})" if request.path else ""
    console.print(Text(f"  ? {request.name}{where} wants to run with", style="bold yellow"))
    console.print(Text(_indented(request.tool_input), style="yellow"))
    if request.reason:
        console.print(Text(f"    because: {request.reason}", style="yellow"))
    if request.kind == "external":
        return _outside(console)
    while True:
        match _line(console, f"  {CHOICES} › "):
            case "y" | "yes":
                return ApprovalDecision(approved=True, by="terminal")
            case "n" | "no" | None:
                return ApprovalDecision(approved=False, reason=_line(console, "  why? › ") or None, by="terminal")
            case "e" | "edit":
                edited = _edited(console)
                if edited is not None:
                    return ApprovalDecision(approved=True, updated_input=edited, by="terminal")
            case _:
                console.print(Text(f"  {CHOICES}", style="dim"))


def asked_extension(console: Console, run: Run) -> dict[str, float]:
    """Return by how much the person raises the limits at which a run waits; what is no number lets a limit stand."""
    raised: dict[str, float] = {}
    for breach in limits_of(run):
        console.print(Text(f"  ? it waits at {breach}", style="bold yellow"))
        text = _line(console, "  how much more? (empty: none, it wraps up) › ") or ""
        try:
            amount = float(text or 0)
        except ValueError:
            console.print(Text(f"  {text!r} is no number: the limit stands", style="dim"))
            continue
        raised[breach.name] = amount
    return raised


def limits_of(run: Run) -> tuple[LimitBreach, ...]:
    """Return the limits at which a run waits for a person, here and in its subagents, each kind once."""
    below = (breach for child in run.children.values() for breach in limits_of(child.run))
    found = (*(run.limits if run.asks else ()), *below)
    return tuple({breach.name: breach for breach in found}.values())


def _outside(console: Console) -> Answer:
    text = _line(console, "  its result (JSON or text; empty: refuse) › ")
    if not text:
        return ApprovalDecision(approved=False, reason="nobody gave a result", by="terminal")
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = text
    return ExternalResult(value, by="terminal")


def _edited(console: Console) -> dict[str, Any] | None:
    text = _line(console, "  the input as one line of JSON (empty: back) › ")
    if not text:
        return None
    try:
        value: object = json.loads(text)
    except ValueError as error:
        console.print(Text(f"  that is no JSON: {error}", style="red"))
        return None
    if not is_object(value):
        console.print(Text("  the input must be a JSON object, such as " + '{"name": "value"}', style="red"))
        return None
    return value


def _line(console: Console, prompt: str) -> str | None:
    try:
        return console.input(Text(prompt)).strip()
    except (EOFError, KeyboardInterrupt):
        console.print()
        return None


def _indented(value: dict[str, Any]) -> str:
    return "\n".join(f"    {line}" for line in json.dumps(value, indent=2, ensure_ascii=False).splitlines())
