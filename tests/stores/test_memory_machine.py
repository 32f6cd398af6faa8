"""Any sequence of calls to a memory in a file gives what the memory in process gives, and no scope is ever left."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings

from sapwood import create_memory_store
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.memory_machine import MemoryMachine


class Letters:
    """Vectors that count letters."""

    name = "letters/8"

    def embed(self, texts: Any) -> Any:
        return np.array([[text.lower().count(letter) + 0.01 for letter in "aeiotrn "] for text in texts])


class Machine(MemoryMachine):
    embedder: Any = None

    def opened(self) -> Any:
        self.folder = Path(tempfile.mkdtemp(prefix="sapwood-memory-"))
        return self.reopened(None)

    def expected(self) -> Any:
        return create_memory_store(embedder=self.embedder)

    def reopened(self, memory: Any) -> Any:
        if memory is not None:
            self.store.close()
        self.store = SqliteStore(self.folder / "memories.db", embedder=self.embedder)
        return self.store.memory

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)


class MachineWithVectors(Machine):
    embedder = Letters()


TestWords = Machine.TestCase
TestWords.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
TestVectors = MachineWithVectors.TestCase
TestVectors.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
