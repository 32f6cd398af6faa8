"""What a compaction keeps, what it costs and saves, and what it takes to plan a window.

What survives is measured with compaction-conformance-kit (PyPI): facts, rules, goals and preferences planted in long
sessions, five compactions in a row under a budget of characters that stays the same. The checklist is asked twice:
with the sessions as they are, and with the words that mark what was planted ("SAFETY RULE: ") taken out of them
before it sees them. The kit's own reference compactors stand beside it; some of them look for just these words.
"""

import dataclasses
import random
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.rows import Row, cpu_around, has, median
from sapwood import Agent, Message, tool
from sapwood.context.checklist import checklist
from sapwood.context.plan import Demand, plan
from sapwood.core.budget import Allocation
from sapwood.core.events import CompactionFinished, RoundStarted
from sapwood.core.messages import Summary
from sapwood.testing import call, calls, says, scripted

SEEDS = tuple(range(1, 13))
BUDGETS = (0.10, 0.20, 0.30)
BARS = {0.20: 0.85, 0.30: 1.0}
TURNS, WINDOW, RESERVE = 300, 16_000, 1_000
RULE = "The locker code is K-17. Never open it."
PAGE = "lorem ipsum dolor " * 120
CANDIDATES = (100, 1_000, 10_000)
MARKS = re.compile(r"\b(?:SAFETY RULE|HARD CONSTRAINT|FACT|GOAL STATE|USER PREFERENCE): ")


@tool(read_only=True)
def look(n: int) -> str:
    """Look at a page."""
    return f"page {n}: {PAGE}"


class Checklist:
    """The checklist, as the kit calls a compactor."""

    name = "sapwood"

    def compact(self, turns: Any, round_num: int = 1, budget_chars: int | None = None) -> Any:
        """Return what a summary of these turns would say."""
        from compaction_kit.compacted import CompactedContext

        messages: list[Message] = []
        for turn in turns:
            if turn.role == "system" and turn.text.startswith("- "):
                messages.append(Message("user", (Summary(turn.text),)))  # what the round before kept
            else:
                messages.append(Message.assistant(turn.text) if turn.role == "assistant" else Message.user(turn.text))
        room = budget_chars if budget_chars is not None else 1 << 30
        return CompactedContext(text=checklist(messages, room, len), compactor_name=self.name, round_num=round_num)


class Unmarked:
    """A compactor that sees no marks."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = inner.name

    def compact(self, turns: Any, round_num: int = 1, budget_chars: int | None = None) -> Any:
        """Return what the compactor makes of the turns without their marks."""
        plain = [dataclasses.replace(turn, text=MARKS.sub("", turn.text)) for turn in turns]
        return self.inner.compact(plain, round_num, budget_chars)


def survival() -> list[Row]:
    """Measure what survives five compactions, beside the kit's own compactors in the same sessions."""
    if not has("compaction_kit"):
        return [Row("what survives a compaction", "not measured", remark="compaction-conformance-kit is not installed")]
    from compaction_kit import compactors
    from compaction_kit.benchmark import run_budget_benchmark

    kinds: dict[str, Callable[[], Any]] = {
        "ours": Checklist,
        "its checklist": compactors.ChecklistCompactor,
        "update-aware": compactors.UpdateAwareChecklistCompactor,
        "pinned rules": compactors.PinnedRulesCompactor,
        "summary and tail": compactors.SummaryTailCompactor,
        "naive summary": compactors.NaiveSummaryCompactor,
        "cut off": compactors.LossyTruncationCompactor,
    }
    blind = {name: partial(_unmarked, make) for name, make in kinds.items()}
    rows: list[Row] = []
    for budget in BUDGETS:
        for how, makers in (("as they are", kinds), ("without the marks", blind)):
            found = run_budget_benchmark(makers, budgets=(budget,), seeds=SEEDS)["entries"]
            entries = {entry["compactor"]: entry for entry in found}
            kept, bar = _kept(entries["ours"]), BARS.get(budget)
            fits = bool(entries["ours"]["budget_compliant"])
            beside = ", ".join(
                f"{name} {_shown(entry)}" for name in kinds if name != "ours" for entry in [entries[name]]
            )
            rows.append(
                Row(
                    f"survives five compactions to {budget:.0%}, sessions {how}",
                    _shown(entries["ours"]),
                    f"≥ {bar:.0%}" if bar else "",
                    f"the kit's: {beside}",
                    holds=None if bar is None else kept >= bar and fits,
                    remark=_updates(entries["ours"]),
                )
            )
    return rows


def _unmarked(make: Callable[[], Any]) -> Unmarked:
    return Unmarked(make())


def _kept(entry: dict[str, Any]) -> float:
    return float(entry["randomized"]["overall_final_survival"])


def _shown(entry: dict[str, Any]) -> str:
    return f"{_kept(entry):.1%}" + ("" if entry["budget_compliant"] else " (over the budget)")


def _updates(entry: dict[str, Any]) -> str:
    """Tell what became of values that a session changes later: the newest stands, and alone."""
    said, meant = entry["randomized"]["supersession"], entry["semantic"]["conflicts"]
    return (
        f"{len(SEEDS)} seeds; of values that change, the newest stands / stands alone: in the same words "
        f"{said['latest']} / {said['resolved']} of {said['n']}, in other words {meant['latest']} / {meant['resolved']} of {meant['n']}"
    )


def converse(*, window: int, compacts: bool) -> tuple[list[int], int, bool, float]:
    """Run the conversation; return each request's tokens, the compactions, whether the rule stood in all, and CPU."""
    chance = random.Random(1)
    script: list[Any] = []
    for number in range(TURNS):
        script += [calls(call("look", {"n": number * 10 + place})) for place in range(chance.randrange(3))]
        script.append(says(f"Answer {number}. " + "And so on. " * chance.randrange(3, 30)))
    model = scripted(*script)
    agent = Agent(llm=model, max_tokens=window, max_response_tokens=RESERVE).with_tools([look])
    if compacts:
        agent.with_compaction(compact_fn="checklist")
    history: Any = []
    sizes: list[int] = []
    shortened = 0

    def talk() -> None:
        nonlocal history, shortened
        for number in range(TURNS):
            prompt = RULE if number == 0 else f"Question {number}? " + "Go on. " * 9
            for event in agent.stream(prompt, messages=history):
                if isinstance(event, RoundStarted) and event.ledger is not None:
                    sizes.append(event.ledger.estimated_tokens)
                shortened += isinstance(event, CompactionFinished)
            history = agent.last_messages

    seconds = cpu_around(talk)
    holds = all(any(RULE in message.text for message in request.transcript) for request in model.requests)
    return sizes, shortened, holds, seconds


def conversation() -> list[Row]:
    """Measure a long conversation in a small window beside the same one that sends everything."""
    sizes, shortened, holds, seconds = converse(window=WINDOW, compacts=True)
    whole, _, _, whole_seconds = converse(window=100_000_000, compacts=False)
    saved = 1 - sum(sizes) / sum(whole)
    return [
        Row(
            f"{TURNS} turns in a window of {WINDOW:,} tokens: the largest request",
            f"{max(sizes):,} tokens",
            f"≤ {WINDOW - RESERVE:,}, and the first turn's rule in each",
            holds=max(sizes) <= WINDOW - RESERVE and holds,
            remark=f"{len(sizes)} requests, {shortened} compactions",
        ),
        Row(
            "… tokens sent",
            f"{sum(sizes):,} ({saved:.0%} saved)",
            peer=f"everything sent: {sum(whole):,}, the last request {whole[-1]:,}",
        ),
        Row(
            "… CPU of a turn",
            f"{seconds / TURNS * 1e3:.2f} ms",
            peer=f"everything sent: {whole_seconds / TURNS * 1e3:.2f} ms",
        ),
    ]


def planning() -> list[Row]:
    """Measure how long it takes to plan a window for many candidates, and what is left out of it."""
    rows: list[Row] = []
    for count in CANDIDATES:
        chance = random.Random(count)
        sections: tuple[Any, ...] = ("memory", "retrieval", "skills", "tools")
        demands = [
            Demand(section, f"item {place}", section, chance.randrange(20, 200))
            for place, section in ((place, chance.choice(sections)) for place in range(count))
        ]
        shares = {section: Allocation(section, 4_000) for section in sections[:3]}
        times: list[float] = []
        for _ in range(7):
            began = time.process_time()
            planned = plan(demands, WINDOW - RESERVE, shares)
            times.append(time.process_time() - began)
        everything = sum(item.tokens for item in demands)
        sent = WINDOW - RESERVE - planned.room
        rows.append(
            Row(
                f"plan a window of {WINDOW:,} for {count:,} candidates",
                f"{median(times) * 1e3:.2f} ms",
                remark=f"{sum(planned.taken)} taken; {sent:,} tokens of {everything:,} ({1 - sent / everything:.0%} saved)",
            )
        )
    return rows


def run() -> list[Row]:
    """Measure what is kept, what a conversation costs, and planning."""
    return [*survival(), *conversation(), *planning()]
