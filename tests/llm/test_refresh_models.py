"""How the table of models is made of two sources, on small ones."""

from datetime import date, time
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.load_module import load_module

SCRIPT = load_module(Path(__file__).parents[2] / "scripts" / "refresh_models.py")
AS_OF = date(2026, 6, 1)


def prices(**given: Any) -> SimpleNamespace:
    """Prices of a million tokens, as genai-prices has them; what is not given is None."""
    return SimpleNamespace(**{"input_mtok": Decimal(1), "output_mtok": Decimal(2), **given})


def when(constraint: Any, **given: Any) -> SimpleNamespace:
    return SimpleNamespace(constraint=constraint, prices=prices(**given))


def since(day: date) -> SimpleNamespace:
    return SimpleNamespace(start_date=day)


def hours(start: int, end: int) -> SimpleNamespace:
    return SimpleNamespace(start_time=time(start), end_time=time(end))


def model(id: str, *starts: str, window: int | None = None, cost: Any = None) -> SimpleNamespace:
    rules = [SimpleNamespace(starts_with=text) for text in starts]
    return SimpleNamespace(id=id, match=SimpleNamespace(or_=rules), context_window=window, prices=cost or prices())


def made(models: list[Any], rules: dict[str, Any], facts: dict[str, Any] | None = None) -> dict[str, Any]:
    provider = {"genai_prices": "them", "facts": facts or {}}
    overrides = {
        "as_of": AS_OF,
        "skip": ["embed"],
        "vendors": {},
        "providers": {"us": provider},
        "models": {"us": rules},
    }
    rows: dict[str, Any] = SCRIPT.table(overrides, {"them": SimpleNamespace(models=models)}, "9.9")["models"]["us"]
    return rows


def test_prices_are_theirs_and_facts_are_ours() -> None:
    rows = made(
        [model("m-1", window=100), model("m-2", window=100), model("m-embed")],
        {"m-*": {"images": False, "files": False}, "m-2": {"context_window": 80, "files": True}},
        {"context_window": 80},
    )
    price = {"input": 1, "output": 2}
    assert rows == {
        "m-1": {"context_window": 100, "files": False, "images": False, "price": price},
        "m-2": {"images": False, "price": price},  # what the provider's row or the plain profile says already
    }


def test_other_names_refer_to_the_first_and_dated_ones_are_left_out() -> None:
    rows = made(
        [model("m-1", "m-1-20260101", "m-1-high", "m-1.0")],
        {"m-1-high": {"images": False}, "alias": {"same_as": "m-1"}},
    )
    price = {"input": 1, "output": 2}
    assert rows == {
        "alias": "m-1",
        "m-1": {"price": price},
        "m-1-high": {"images": False, "price": price},
        "m-1.0": "m-1",
    }


def test_a_price_that_ours_cannot_say_is_left_out() -> None:
    rows = made([model("m", cost=prices(requests_kcount=Decimal(5))), model("n")], {})
    assert rows == {"m": {}, "n": {"price": {"input": 1, "output": 2}}}


def test_long_contexts_are_whole_prices() -> None:
    tiered = SimpleNamespace(base=Decimal(1), tiers=[SimpleNamespace(start=200, price=Decimal("2.5"))])
    rows = made([model("m", cost=prices(input_mtok=tiered, cache_read_mtok=Decimal("0.1")))], {})
    assert rows["m"]["price"] == {
        "input": 1,
        "output": 2,
        "cache_read": 0.1,
        "tiers": [[200, {"input": 2.5, "output": 2, "cache_read": 0.1}]],
    }


@pytest.mark.parametrize(
    ("dated", "output"),
    [
        ([when(None, output_mtok=Decimal(1)), when(since(date(2026, 5, 1)), output_mtok=Decimal(3))], 3),
        ([when(None, output_mtok=Decimal(1)), when(since(date(2026, 7, 1)), output_mtok=Decimal(3))], 1),
        ([when(None, output_mtok=Decimal(1)), when(hours(0, 8), output_mtok=Decimal(4))], 4),
        ([when(None, output_mtok=Decimal(5)), when(hours(0, 8), output_mtok=Decimal(4))], 5),
    ],
)
def test_the_price_of_the_day_holds_and_the_dearest_of_its_hours(dated: list[Any], output: int) -> None:
    assert made([model("m", cost=dated)], {})["m"]["price"]["output"] == output


def test_what_changed_is_told_by_name() -> None:
    before = {"providers": {"us": {}}, "models": {"us": {"a": {"images": False}, "b": "a"}}}
    after = {"providers": {"us": {}}, "models": {"us": {"a": {"images": True}, "c": "a"}}}
    assert list(SCRIPT.changes(before, after)) == [
        'us/a: {"images": false} -> {"images": true}',
        'us/b: "a" -> null',
        'us/c: null -> "a"',
    ]


def test_the_same_sources_make_the_same_text_whatever_their_order() -> None:
    models, rules = [model("b"), model("a")], {"*": {"images": False}}
    tables = [
        {"origin": "", "vendors": {}, "providers": {}, "models": {"us": made(row, rules)}}
        for row in (models, models[::-1])
    ]
    assert SCRIPT.written(tables[0]) == SCRIPT.written(tables[1])
