"""The synchronous API inside a running event loop, as in a notebook: nothing of ours is async there."""

import asyncio
import gc
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from sapwood import Agent, Message, compaction_source, create_memory_store, lazy_tool_source, memory_source
from sapwood.core.memory import MemoryRecord
from sapwood.runtime.private_loop import PrivateLoops
from sapwood.testing import says, scripted

STORE = create_memory_store()
SOURCES = {
    "memory": lambda: memory_source(STORE, remember=lambda turn: [turn.text]),
    "lazy tools": lambda: lazy_tool_source([{"name": "notes.list", "description": "List notes"}]),
    "compaction": lambda: compaction_source(at=300),
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_works_in_chat_inside_a_running_loop(name: str) -> None:
    past = [Message.user(f"question {n} " + "word " * 30) if n % 2 == 0 else Message.assistant("so") for n in range(40)]
    own = Agent(llm=scripted(says("ok"))).with_sources([SOURCES[name]()])

    async def cell() -> str:
        return "".join(own.chat("hello", messages=past))

    assert asyncio.run(cell()) == "ok"


class AsyncStore:
    """A store that is async only."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def save(self, text: str, *, kind: str | None = None, meta: Any = None) -> MemoryRecord:
        await asyncio.sleep(0)
        self.texts.append(text)
        return MemoryRecord(str(len(self.texts)), text, 0)

    async def search(self, query: str, **options: Any) -> Sequence[MemoryRecord]:
        await asyncio.sleep(0)
        return [MemoryRecord("1", text, 0) for text in self.texts]

    async def forget(self, id: str) -> bool:
        return False


def test_an_async_store_is_awaited_in_chat_and_its_loop_is_closed_with_the_agent() -> None:
    for _ in range(40):  # in cycles, so that the collector takes the loops with their agents
        store = AsyncStore()
        model = scripted(says("hello"), says("again"))
        own = Agent(llm=model).with_sources([memory_source(store, remember=lambda turn: [turn.text, "more", " "])])
        own.circle = own  # type: ignore[attr-defined]
        assert "".join(own.chat("I like tea")) == "hello"
        assert store.texts == ["I like tea", "more"]
        assert "".join(own.chat("What do I like?")) == "again"
        assert "I like tea" in str(model.requests[1].transcript[0])
        del own
    gc.collect()


def test_a_loop_that_another_thread_collects_is_closed_there_without_being_run_again() -> None:
    def cycle() -> asyncio.AbstractEventLoop:
        loops = PrivateLoops()
        assert loops.run(asyncio.sleep(0, "ran"), "nap") == "ran"
        (owned,) = loops._all
        loops.circle = loops  # type: ignore[attr-defined]
        return owned.loop

    gc.disable()
    try:
        loop = cycle()
        collector = threading.Thread(target=gc.collect)
        collector.start()
        collector.join()
    finally:
        gc.enable()
    assert loop.is_closed()
