"""The packaged table of models: which row tells of a model, and where else it may stand.

Laws: no model and no vendor is named outside the data; the table is read when it is first asked; a row names a
model where only a date or a word such as `-latest` follows, any other longer name is another model.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

OF_MODEL = frozenset(
    (
        *("context_window", "max_output_tokens", "images", "files", "refused_parameters", "cache_minimum_tokens"),
        *("tokens_per_estimate", "tokens_per_tool_estimate", "request_overhead_tokens", "tool_overhead_tokens"),
        *("tool_call_tokens", "image_tokens", "thinks"),
    )
)
"""Facts that a model keeps behind a gateway; the others are the gateway's own."""
_STAMP = re.compile(
    r"(?:[-@:](?:\d{3,8}|\d{4}-\d\d-\d\d|\d\d-\d{4}|\d\d-\d\d|v\d+(?::\d+)?|latest|preview|exp|beta|stable))*"
)


class ProviderRow(msgspec.Struct, frozen=True):
    """What the table says of one server.

    facts: fields of `ModelProfile` for all its models. families: a model that no row names and that begins so is
    taken for another one. like: whose models are served, by the beginning of their names. after: the text after
    which a model's name begins. gateway: names are `vendor/model`. by_vendor: facts for the models of one vendor.
    own_prices: the vendors' prices do not hold here. local: a server of one's own. genai_prices: its name there.
    """

    facts: dict[str, Any] = {}
    families: dict[str, str] = {}
    like: dict[str, str] = {}
    after: str = ""
    gateway: bool = False
    by_vendor: dict[str, dict[str, Any]] = {}
    own_prices: bool = False
    local: bool = False
    genai_prices: str = ""


class Table(msgspec.Struct, frozen=True):
    """The whole table. models: provider -> name -> facts, or the name of the row that holds for it too."""

    origin: str
    vendors: dict[str, str]
    providers: dict[str, ProviderRow]
    models: dict[str, dict[str, dict[str, Any] | str]]

    def provider(self, name: str) -> ProviderRow:
        """Return the row of a server, an empty one for a server that has none."""
        return self.providers.get(self.vendor(name)) or ProviderRow()

    def vendor(self, name: str) -> str:
        """Return the table's word for a provider."""
        return self.vendors.get(name.lower(), name.lower())

    def row(self, provider: str, name: str) -> dict[str, Any]:
        """Return a model's row, what it shares with another one included."""
        found = self.models[provider][name]
        return self.row(provider, found) if isinstance(found, str) else found


class Home(NamedTuple):
    """A place of the table where a model may stand: a provider and the model's name there.

    start: where that name begins in the one that was given.
    """

    provider: str
    name: str
    start: int = 0


class Found(NamedTuple):
    """The facts of a model.

    like: `provider/name` of the row that they are from, empty where no row is near. size: to which letter of the
    name that was given the row explains it. is_exact: the row names the model.
    """

    facts: dict[str, Any]
    like: str
    size: int
    is_exact: bool


@functools.cache
def table() -> Table:
    """Return the packaged table.

    >>> table().vendor("x-ai")
    'xai'
    """
    return msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=Table)


def is_stamp(rest: str) -> bool:
    """Tell whether what follows a name only says which edition of the model it is.

    >>> is_stamp("-20250929-v1:0"), is_stamp("-mini"), is_stamp("-5")
    (True, False, False)
    """
    return _STAMP.fullmatch(rest) is not None


def homes(provider: str, model: str, like: str = "") -> Iterator[Home]:
    """Yield where a model may stand, its own server first.

    like: whose models are served, where the table does not tell.

    >>> [*homes("openrouter", "anthropic/claude-haiku-4.5:free")][-1]
    Home(provider='anthropic', name='claude-haiku-4-5', start=10)
    """
    own = table().vendor(provider)
    row = table().provider(provider)
    name = model.lower()
    yield Home(own, name)
    bare = name.rpartition(row.after)[2] if row.after else name
    if bare != name and not name.startswith(row.after):
        yield Home(own, row.after + bare, len(name) - len(row.after + bare))
    if row.gateway:
        vendor, slash, bare = name.partition("/")
        served = vendor if slash else ""
    else:
        fitting = [beginning for beginning in row.like if bare.startswith(beginning)]
        served = row.like[max(fitting, key=len)] if fitting else like
    if served:
        start = len(name) - len(bare)
        # At a gateway `:free` and such say how a model is served.
        yield _spelt(Home(table().vendor(served), bare.partition(":")[0] if row.gateway else bare, start))


def _spelt(home: Home) -> Home:
    """Return the place under the vendor's spelling: gateways write points in versions, some vendors dashes."""
    dashed = home._replace(name=home.name.replace(".", "-"))
    return dashed if _nearest(home)[1] < _nearest(dashed)[1] else home


def look_up(provider: str, model: str, like: str = "") -> Found:
    """Return what the table says of a model: its row's facts over those of its server.

    >>> look_up("anthropic", "claude-haiku-4-5-20251001").like
    'anthropic/claude-haiku-4-5'
    """
    row = table().provider(provider)
    *own, last = homes(provider, model, like)
    if not own:
        is_server = last.provider in table().providers
        return _found(last) if is_server else Found(dict(table().provider("").facts), "", 0, False)
    found = _found(last)
    facts = _behind(row.facts, found.facts) if row.gateway else {**found.facts, **row.facts}
    facts |= row.by_vendor.get(last.provider, {})
    found = found._replace(facts=facts)
    for home in own:  # the server may have rows of its own
        named, size, is_exact = _nearest(home)
        if named:
            facts |= table().row(home.provider, named)
            place = found.like or f"{home.provider}/{named}"
            found = Found(facts, place, max(found.size, home.start + size), found.is_exact or is_exact)
    return found


def _behind(gateway: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of a model behind a gateway: what it is, asked in the gateway's way."""
    if not model:
        return dict(gateway)  # of a vendor that the table does not have
    facts = {name: value for name, value in gateway.items() if name not in OF_MODEL}
    facts |= {name: value for name, value in model.items() if name in OF_MODEL}
    if model.get("thinking", "none") == "none":
        facts.pop("thinking", None)
    if not model.get("forced_tool_choice", True):
        facts["forced_tool_choice"] = False
    return facts


def _found(home: Home) -> Found:
    facts = table().provider(home.provider).facts
    named, size, is_exact = _nearest(home)
    if not named:
        return Found(dict(facts), "", 0, False)
    facts = {**facts, **table().row(home.provider, named)}
    return Found(facts, f"{home.provider}/{named}", home.start + size, is_exact)


def _nearest(home: Home) -> tuple[str, int, bool]:
    """Return the row that is nearest to a name, how much of the name it explains, and whether it names it."""
    rows = table().models.get(home.provider, {})
    families = table().provider(home.provider).families
    for size in range(len(home.name), 0, -1):
        beginning = home.name[:size]
        if beginning in rows:
            return beginning, size, is_stamp(home.name[size:])
        if beginning in families:
            return families[beginning], size, False
    return "", 0, False
