"""A server that is killed in the middle of many runs, and what the next one makes of them."""

import asyncio
import json
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.child_process import child_of, line
from support.live_server import said

CHILD = Path(__file__).parent / "server_child.py"


async def begun(address: str, runs: int) -> None:
    """Begin many runs, and return once some effects have happened; what comes of the connections does not matter."""

    async def one(client: httpx2.AsyncClient, number: int) -> None:
        with suppress(httpx2.HTTPError):
            await client.post("/api/chat", json=said("Go", thread=f"t{number}"))

    limits = httpx2.Limits(max_connections=runs)
    async with httpx2.AsyncClient(base_url=address, timeout=60, limits=limits) as client:
        await asyncio.gather(*[one(client, number) for number in range(runs)])


async def settled(address: str, runs: int) -> list[dict[str, Any]]:
    """Return the threads of a server once none of them runs."""
    async with httpx2.AsyncClient(base_url=address, timeout=60) as client:
        while True:
            threads = (await client.get("/api/threads?limit=200")).json()["threads"]
            if all(item["status"] != "running" for item in threads):
                return list(threads)
            await asyncio.sleep(0.1)


def killed_and_restarted(tmp_path: Path, runs: int, on_restart: str, seed: int) -> list[dict[str, Any]]:
    database, effects = tmp_path / "a.db", tmp_path / "effects"
    effects.touch()
    wanted = random.Random(seed).randrange(1, runs * 2)

    async def until_killed() -> None:
        with child_of(CHILD, database, effects, on_restart) as process:
            address = await asyncio.to_thread(line, process)
            clients = asyncio.create_task(begun(address, runs))
            while len(effects.read_text().splitlines()) < wanted and not clients.done():
                await asyncio.sleep(0.005)
            process.kill()
            await clients

    asyncio.run(until_killed())
    with child_of(CHILD, database, effects, on_restart) as process:
        threads = asyncio.run(settled(line(process), runs))
        repeated = [item for item, count in Counter(effects.read_text().splitlines()).items() if count > 1]
        assert repeated == [], "an effect was repeated"
        return threads


def test_after_a_kill_every_run_is_gone_on_with_and_no_effect_is_repeated(tmp_path: Path) -> None:
    threads = killed_and_restarted(tmp_path, 8, "resume", 1)
    assert threads
    assert {item["status"] for item in threads} == {"idle"}


@pytest.mark.parametrize(("on_restart", "seed"), [("resume", 2), ("resume", 3), ("mark", 4)])
def test_after_a_kill_in_fifty_runs_each_is_finished_or_marked(tmp_path: Path, on_restart: str, seed: int) -> None:
    threads = killed_and_restarted(tmp_path, 50, on_restart, seed)
    statuses = Counter(item["status"] for item in threads)
    print(json.dumps({"on_restart": on_restart, **statuses}))
    assert len(threads) > 0
    assert set(statuses) <= ({"idle"} if on_restart == "resume" else {"idle", "interrupted"})
