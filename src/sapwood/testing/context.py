"""Assertions on the context ledger of a model call."""

from sapwood.core.ledger import ContextLedger, LedgerLine


def assert_kept(ledger: ContextLedger | None, source: str) -> None:
    """Fail unless something of this source went in."""
    lines = _lines(ledger, source)
    if not any(line.verdict in ("kept", "trimmed") for line in lines):
        raise AssertionError(f"nothing of {source!r} was kept: {lines or 'it offered nothing'}")


def assert_skipped(ledger: ContextLedger | None, source: str) -> None:
    """Fail unless something of this source was left out."""
    lines = _lines(ledger, source)
    if not any(line.verdict == "skipped" for line in lines):
        raise AssertionError(f"nothing of {source!r} was skipped: {lines or 'it offered nothing'}")


def assert_under(ledger: ContextLedger | None, tokens: int, *, section: str | None = None) -> None:
    """Fail unless the request, or one section of it, is estimated at no more than these tokens."""
    if ledger is None:
        raise AssertionError("there is no ledger")
    size = ledger.estimated_tokens if section is None else ledger.sections.get(section, 0)
    if size > tokens:
        raise AssertionError(f"{section or 'the request'} takes about {size} tokens, more than {tokens}")


def _lines(ledger: ContextLedger | None, source: str) -> list[LedgerLine]:
    return [line for line in ledger.lines if line.source == source] if ledger else []
