"""How much of each request is the unchanged beginning of the next: fifty turns with tools, lazy tools and memory."""

import statistics
import sys

from benchmarks.rows import ROOT, Row

BAR = 0.99
MOST_MOVED = 3


def run() -> list[Row]:
    """Run the conversation over each protocol, with a history that outgrows its window."""
    if str(ROOT / "tests") not in sys.path:
        sys.path.insert(0, str(ROOT / "tests"))
    from support.long_conversation import TURNS, converse
    from support.wire_script import PROVIDERS

    rows: list[Row] = []
    for protocol in PROVIDERS:
        seen = converse(protocol)
        kept = [share for number, share in enumerate(seen.shares, 1) if number not in seen.moved]
        sizes = [len(body) for body in seen.bodies]
        alike = sum(share * size for share, size in zip(seen.shares, sizes, strict=False))
        row = Row(
            f"prefix kept over {TURNS} turns, {protocol}",
            f"{min(kept) * 100:.1f} % at least",
            f"≥ {BAR * 100:.0f} % where nothing is shortened",
            holds=min(kept) >= BAR and len(seen.moved) <= MOST_MOVED,
        )
        row.remark = (
            f"{len(sizes)} requests, shortened before {len(seen.moved)}; mean {statistics.fmean(kept) * 100:.1f} %; "
            f"of all bytes sent {alike / sum(sizes[1:]) * 100:.0f} % were a repeated beginning"
        )
        rows.append(row)
    return rows
