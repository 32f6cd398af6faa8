"""Every memory keeps the contract of memories."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sapwood import create_memory_store
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.memories import MemoryContract


class TestInProcess(MemoryContract):
    def opened(self) -> Any:
        return create_memory_store()


class TestOfAStoreInProcess(MemoryContract):
    def opened(self) -> Any:
        return InProcessStore().memory


class TestSqlite(MemoryContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> Iterator[None]:
        self.folder, self.stores = tmp_path, list[SqliteStore]()
        yield
        for store in self.stores:
            store.close()

    def opened(self) -> Any:
        self.stores.append(SqliteStore(self.folder / f"{len(self.stores)}.db"))
        return self.stores[-1].memory


class TestSqliteInMemory(MemoryContract):
    def opened(self) -> Any:
        return SqliteStore(":memory:").memory


class Own:
    """A store with the three methods alone, all async."""

    def __init__(self) -> None:
        self._inner = create_memory_store()

    async def save(self, text: str, **options: Any) -> Any:
        await asyncio.sleep(0)
        return self._inner.save(text, **options)

    async def search(self, query: str, **options: Any) -> Any:
        return self._inner.search(query, **options)

    async def forget(self, id: str) -> Any:
        return self._inner.forget(id)


class TestOneOfYourOwn(MemoryContract):
    def opened(self) -> Any:
        return Own()
