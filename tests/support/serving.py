"""Serve: what the fixture `serve` gives a test: (a recording by its name, or a document, **faults) -> a server."""

from collections.abc import Callable
from typing import TypeAlias

from support.replay_server import ReplayServer

Serve: TypeAlias = Callable[..., ReplayServer]
