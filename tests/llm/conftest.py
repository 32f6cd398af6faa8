"""Where the recordings are, and the server that plays them."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from wire_files import wire_file

from sapwood.llm import pricing, profiles
from support.replay_server import Faults, ReplayServer
from support.serving import Serve


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that plays a recording by its name, or a document, with faults."""
    with ExitStack() as stack:

        def start(source: str | dict[str, Any], **faults: Any) -> ReplayServer:
            found = wire_file(source) if isinstance(source, str) else source
            return stack.enter_context(ReplayServer(found, faults=Faults(**faults), on_exhausted="repeat"))

        yield start


@pytest.fixture
def fresh_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what was registered, priced and logged before, and what the test does."""
    monkeypatch.setattr(profiles, "_registered", {})
    monkeypatch.setattr(profiles, "_told", set())
    monkeypatch.setattr(pricing, "_unpriced", set())
    monkeypatch.setattr(pricing.MODEL_PRICING, "_changed", {})
