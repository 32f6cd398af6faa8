"""The recorded exchanges: a small set beside the tests, the whole set where it is found."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from sapwood.llm.framing import Splitter, splitter_of

SMALL = Path(__file__).parent / "wire"
_ROOT = Path(__file__).parents[2]


def whole_set() -> Path | None:
    """Return the folder of all recordings: SAPWOOD_WIRE, or ../shared/data/wire beside the project."""
    named = os.environ.get("SAPWOOD_WIRE")
    for folder in [Path(named)] if named else [_ROOT.parent / "shared" / "data" / "wire"]:
        if (folder / "index.json").exists():
            return folder
    return None


def wire_file(name: str) -> Path:
    """Return the file of a recording that is in the small set."""
    return SMALL / f"{name}.json"


class Exchange(NamedTuple):
    """One recorded request and response."""

    name: str
    api: str
    request: dict[str, Any]
    response: dict[str, Any]

    @property
    def body(self) -> bytes:
        return str(self.response.get("text", "")).encode()

    @property
    def is_stream(self) -> bool:
        return self.response["status"] == 200 and self.splitter() is not None

    def splitter(self) -> Splitter | None:
        """What cuts the response into events, None where it is one JSON object."""
        kind = self.response.get("headers", {}).get("content-type", "")
        return splitter_of(kind, self.body.lstrip()[:1])

    @property
    def is_recorded(self) -> bool:
        return bool(self.request.get("recorded", True))


def exchanges(folder: Path | None, *apis: str) -> list[Exchange]:
    """Return the exchanges of a folder that use one of these protocols."""
    found: list[Exchange] = []
    for file in sorted(folder.glob("*.json")) if folder else []:
        if file.name == "index.json":
            continue
        document = json.loads(file.read_text("utf-8"))
        for number, item in enumerate(document["exchanges"]):
            api = item.get("api", document["api"])
            if api in apis:
                found.append(Exchange(f"{file.stem}#{number}", api, item["request"], item["response"]))
    return found
