"""Any sequence of calls has the outcome that a model of a few dictionaries says."""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from sapwood.stores.holder import Clock
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.store_machine import StoreMachine
from sapwood.testing.store_turns import Stores
from support.examples import examples


class InProcessMachine(StoreMachine):
    def opened(self) -> Stores:
        return InProcessStore()

    def reopened(self, store: Any) -> Stores:
        return store.reopened()


class SqliteMachine(StoreMachine):
    def opened(self) -> Stores:
        self.folder = Path(tempfile.mkdtemp(prefix="sapwood-machine-"))
        self.hours = 0
        return SqliteStore(self.folder / "stores.db")

    def reopened(self, store: Any) -> Stores:
        self.hours += 1
        late = self.hours * 3600
        other = SqliteStore(
            self.folder / "stores.db", clock=Clock(lambda: time.time() + late, lambda: time.monotonic() + late)
        )
        store.close()
        return other

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


TestInProcess = InProcessMachine.TestCase
TestInProcess.settings = examples(150, stateful_step_count=40)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = examples(20, stateful_step_count=40)
