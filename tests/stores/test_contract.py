"""Every backend keeps the contract of stores."""

import time
from pathlib import Path
from typing import Any

import pytest

from sapwood.stores.holder import Clock
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.stores import StoreContract, Stores


class TestInProcess(StoreContract):
    def opened(self) -> Stores:
        return InProcessStore()

    def reopened(self, store: Any) -> Stores:
        return store.reopened()


class TestSqlite(StoreContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "stores.db"

    def opened(self) -> Stores:
        self.path.unlink(missing_ok=True)
        return SqliteStore(self.path)

    def reopened(self, store: Any) -> Stores:
        # An hour later: the leases of the other store have ended, as if its process hung.
        return SqliteStore(self.path, clock=Clock(lambda: time.time() + 3600, lambda: time.monotonic() + 3600))


class TestSqliteInMemory(StoreContract):
    def opened(self) -> Stores:
        return SqliteStore(":memory:")

    def reopened(self, store: Any) -> Stores:
        pytest.skip("a database in memory belongs to one store")
