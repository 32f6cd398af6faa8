"""Make src/sapwood/llm/models.json of genai-prices' data and scripts/model_overrides.toml, or check it (`--check`).

Prices and most windows come from genai-prices (MIT, Pydantic Services Inc.; `pip install genai-prices`, its data is in
the package and nothing is downloaded). All else, and what is better known, comes from the overrides, which win. The
same two inputs always give the same file; what changed is printed, by model.
"""

import json
import sys
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from sapwood.core.model import ModelProfile
from sapwood.llm.model_table import is_stamp

ROOT = Path(__file__).parent.parent
OVERRIDES = ROOT / "scripts" / "model_overrides.toml"
TABLE = ROOT / "src" / "sapwood" / "llm" / "models.json"
PRICED = {
    "input_mtok": "input",
    "output_mtok": "output",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
}
# What our prices cannot say; a model that is billed so has none, which is better than one that is too low.
UNPRICEABLE = {"requests_kcount", "output_reasoning_mtok", "output_citation_mtok", "audio_hours", "input_mchars"}
PLAIN = json.loads(
    msgspec.json.encode({name: getattr(ModelProfile(), name) for name in ModelProfile.__struct_fields__})
)
Row = dict[str, Any]


def main(arguments: list[str]) -> int:
    try:
        import genai_prices
        from genai_prices.data import providers
    except ImportError:
        print("genai-prices is not installed; `pip install genai-prices` into this environment", file=sys.stderr)
        return 2
    overrides = tomllib.loads(OVERRIDES.read_text("utf-8"))
    made = table(overrides, {row.id: row for row in providers}, genai_prices.__version__)
    text = written(made)
    before = json.loads(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    for line in changes(before, made):
        print(line)
    if "--check" in arguments:
        return int(TABLE.read_text("utf-8") != text)
    TABLE.write_text(text, "utf-8")
    print(f"{TABLE.relative_to(ROOT)}: {sum(map(len, made['models'].values()))} names, {len(text.encode()):,} bytes")
    return 0


def table(overrides: Row, sources: Mapping[str, Any], version: str) -> Row:
    """Return the table of models."""
    models = {
        name: rows
        for name in sorted(overrides["providers"])
        if (rows := provider_rows(name, overrides, sources)) and not overrides["providers"][name].get("after")
    }
    for name, row in overrides["providers"].items():
        if row.get("after"):
            models[name] = regional_rows(row, models[row["like"][""]], sources, overrides["as_of"])
    return {
        "origin": (
            f"made by scripts/refresh_models.py of scripts/model_overrides.toml and of genai-prices {version}, "
            f"whose prices are used under the MIT licence (Copyright (c) Pydantic Services Inc.), as of "
            f"{overrides['as_of']}"
        ),
        "vendors": dict(sorted(overrides["vendors"].items())),
        "providers": dict(sorted(overrides["providers"].items())),
        "models": dict(sorted(models.items())),
    }


def provider_rows(provider: str, overrides: Row, sources: Mapping[str, Any]) -> Row:
    """Return the rows of one provider's models, sorted by name; other names of a model refer to the first."""
    rules = overrides["models"].get(provider)
    if rules is None:
        return {}
    defaults = {**PLAIN, **overrides["providers"][provider].get("facts", {})}
    source = sources.get(overrides["providers"][provider].get("genai_prices", ""))
    priced = {name: model for model in (source.models if source else ()) if talks(model) for name in names_of(model)}
    named = [name for name in rules if "*" not in name]
    rows: dict[str, Row] = {}
    ids: dict[str, str] = {}
    for name in sorted({*priced, *named}):
        if name not in named and any(word in f"{provider}/{name}" for word in overrides["skip"]):
            continue
        model = priced.get(rules.get(name, {}).get("same_as", name))
        row = ({} if model is None else row_of(model, overrides["as_of"])) | facts_for(name, rules, model)
        rows[name] = {key: row[key] for key in sorted(row) if defaults.get(key) != row[key]}
        ids[name] = model.id if model else name
    return shared(without_editions(rows), ids)


def talks(model: Any) -> bool:
    """Tell whether a model takes tokens and gives tokens, as far as its price tells."""
    price = model.prices[0].prices if isinstance(model.prices, list) else model.prices
    return bool(price.input_mtok and price.output_mtok)


def facts_for(name: str, rules: Mapping[str, Row], model: Any) -> Row:
    """Return what the overrides say of a name, or of its model where they say nothing of this spelling."""
    for asked in (name, model.id.lower() if model else name):
        facts: Row = {}
        for rule, given in rules.items():
            if fnmatchcase(asked, rule):
                facts |= given
        if facts:
            return {key: value for key, value in facts.items() if key != "same_as"}
    return {}


def names_of(model: Any) -> set[str]:
    """Return the names of a model in genai-prices: its id and the beginnings by which it is matched."""
    names = {name.strip("-@").lower() for name in (model.id, *texts(model.match))}
    # One spelling of a version is enough: that of the id.
    odd = "." if "." not in model.id else ""
    plain = {name for name in names if odd and odd in name and name.replace(odd, "-") in names}
    dashed = {name.replace(".", "-") for name in names if "." in name and "." in model.id}
    return {name for name in names - plain - dashed if ":" not in name}


def texts(match: Any) -> Iterator[str]:
    """Yield the texts of a rule of genai-prices that a name may begin with."""
    for field in ("starts_with", "equals", "contains"):
        if text := getattr(match, field, None):
            yield text
    for part in getattr(match, "or_", None) or ():
        yield from texts(part)
    for part in (getattr(match, "and_", None) or ())[:1]:
        yield from texts(part)


def row_of(model: Any, as_of: date) -> Row:
    """Return the window and the price of a model of genai-prices."""
    row: Row = {"context_window": model.context_window} if model.context_window else {}
    price = price_of(model, as_of)
    return row | ({"price": price} if price else {})


def price_of(model: Any, as_of: date) -> Row | None:
    """Return a price as `Price` has it, None where there is none or it says less than what is billed."""
    given = dated(model.prices, as_of)
    if UNPRICEABLE & {key for key, value in vars(given).items() if value is not None}:
        return None
    base: Row = {}
    tiers: dict[int, Row] = {}
    for theirs, ours in PRICED.items():
        value = getattr(given, theirs, None)
        if value is None:
            continue
        base[ours] = number(getattr(value, "base", value))
        for tier in getattr(value, "tiers", ()):
            tiers.setdefault(tier.start, {})[ours] = number(tier.price)
    if not base.get("input") or not base.get("output"):
        return None
    return base | ({"tiers": [[start, {**base, **tier}] for start, tier in sorted(tiers.items())]} if tiers else {})


def dated(prices: Any, as_of: date) -> Any:
    """Return the price of a day; of prices that change with the hour the dearest."""
    if not isinstance(prices, list):
        return prices
    current, hourly = prices[0].prices, []
    for item in prices:
        start = getattr(item.constraint, "start_date", None)
        if start is not None and start <= as_of:
            current = item.prices
        elif item.constraint is not None and start is None:
            hourly.append(item.prices)
    return max((current, *hourly), key=lambda price: getattr(price.output_mtok, "base", price.output_mtok) or 0)


def number(value: Any) -> float | int:
    """Return a decimal as JSON has it, without `.0`."""
    return int(value) if value == int(value) else float(value)


def without_editions(rows: dict[str, Row]) -> dict[str, Row]:
    """Return the rows without dated names that say the same as the name without a date."""
    return {name: row for name, row in rows.items() if not _is_said(name, row, rows)}


def _is_said(name: str, row: Row, rows: Mapping[str, Row]) -> bool:
    shorter = (name[:size] for size in range(len(name) - 1, 0, -1))
    nearest = next((other for other in shorter if other in rows), "")
    return bool(nearest) and is_stamp(name[len(nearest) :]) and rows[nearest] == row


def shared(rows: dict[str, Row], ids: Mapping[str, str]) -> Row:
    """Return the rows with a name in place of what another name of the same model says already."""
    first: dict[str, str] = {}
    made: Row = {}
    for name in sorted(rows, key=lambda name: (name != ids[name].lower(), name)):
        earlier = first.setdefault(ids[name], name)
        made[name] = earlier if earlier != name and rows[earlier] == rows[name] else rows[name]
    return dict(sorted(made.items()))


def regional_rows(row: Row, models: Row, sources: Mapping[str, Any], as_of: date) -> Row:
    """Return the prices of a cloud that differ from the vendor's: its own rows, by `after` + the vendor's name."""
    after = row["after"]
    rows: Row = {}
    for model in sources[row["genai_prices"]].models:
        price = price_of(model, as_of)
        for text in names_of(model):
            head, found, name = text.rpartition(after)
            base = next((name[:size] for size in range(len(name), 0, -1) if name[:size] in models), "")
            if not found or not price or not base or not is_stamp(name[len(base) :]):
                continue
            vendor = models[base] if isinstance(models[base], dict) else models[models[base]]
            region = head if head == "global." else ""
            if price != vendor.get("price") or region:
                rows[f"{region}{after}{base}"] = {"price": price}
    return dict(sorted(rows.items()))


def written(made: Row) -> str:
    """Return the table as text, one row a line."""
    parts = [f' "origin": {json.dumps(made["origin"])}', f' "vendors": {json.dumps(made["vendors"])}']
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in made["providers"].items())
    parts.append(f' "providers": {{\n{rows}\n }}')
    models = ",\n".join(
        f"  {json.dumps(provider)}: {{\n"
        + ",\n".join(f"   {json.dumps(name)}: {json.dumps(row, sort_keys=True)}" for name, row in rows.items())
        + "\n  }"
        for provider, rows in made["models"].items()
    )
    parts.append(f' "models": {{\n{models}\n }}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def changes(before: Row, made: Row) -> Iterator[str]:
    """Yield a line for each row that was added, removed or changed."""
    for part in ("providers", "models"):
        old, new = flat(before.get(part, {}), part), flat(made[part], part)
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                yield f"{name}: {json.dumps(old.get(name))} -> {json.dumps(new.get(name))}"


def flat(rows: Row, part: str) -> Row:
    """Return rows by one name each."""
    if part == "providers":
        return rows
    return {f"{provider}/{name}": row for provider, items in rows.items() for name, row in items.items()}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
