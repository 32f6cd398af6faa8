"""What becomes of runs and clients: slow ones, many that vanish, a shutdown, a second process, users apart."""

import asyncio
import json
import socket
from typing import Any

import pytest

from sapwood import Agent, MemoryManager, SqliteStore, create_memory_store, memory_source, tool
from sapwood.core.errors import ConfigError
from sapwood.core.model import ModelRequest
from sapwood.llm.scripted import ScriptedReply
from sapwood.server import Principal, Settings, bearer_tokens, create_app
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted
from support.live_server import Gated, kinds, live, said, text_of, told
from support.plain_store import PlainStore

ANN, BOB = "a" * 20, "b" * 20


def test_each_user_has_a_memory_of_their_own() -> None:
    seen: list[str] = []

    def reply(request: ModelRequest) -> ScriptedReply:
        seen.append(str(request.transcript[-1]))
        return says("Noted.")

    async def main() -> None:
        memory = create_memory_store()
        agent = Agent(llm=scripted(*[reply] * 4)).with_memory(MemoryManager(store=memory))
        owners: dict[str, Principal | str] = {ANN: "ann", BOB: "bob"}
        async with live(create_app(agent, authorize=bearer_tokens(owners))) as client:
            for token, text in [
                (ANN, "The launch code of the ferry is 7741"),
                (BOB, "What is the launch code of the ferry?"),
                (ANN, "What is the launch code of the ferry?"),
            ]:
                body = said(text, id=text[:8] + token[:1], thread=f"t{len(seen)}")
                await told(client, "/api/chat", body, headers={"authorization": f"Bearer {token}"})
        assert "7741" not in seen[1]
        assert "7741" in seen[2]
        assert {record.scope.user for record in memory.all()} == {"ann", "bob"}

    asyncio.run(main())


def test_turns_of_a_user_are_gathered_over_requests_before_a_memory_learns_from_them() -> None:
    async def main() -> None:
        learnt: list[int] = []

        def extract(turns: Any, *_: Any) -> list[str]:
            learnt.append(len(turns))
            return []

        memory = MemoryManager(store=create_memory_store(), extractor=extract, remember_every=2)
        agent = Agent(llm=scripted(*[says("Noted.")] * 4)).with_memory(memory)
        app = create_app(agent, authorize=bearer_tokens({ANN: "ann", BOB: "bob"}))
        async with live(app) as client:
            for number, token in enumerate((ANN, BOB, ANN)):
                headers = {"authorization": f"Bearer {token}"}
                await told(client, "/api/chat", said(f"I like tea {number}", id=f"m{number}"), headers=headers)
            for _ in range(500):
                if learnt:
                    break
                await asyncio.sleep(0.01)
        assert learnt == [2]

    asyncio.run(main())


def test_a_memory_that_cannot_be_kept_apart_is_refused_when_the_server_is_made(tmp_path: Any) -> None:
    authorize = bearer_tokens({ANN: "ann"})
    cases = [
        (Agent(llm=scripted()).with_memory(PlainStore()), "keeps what all users said in one place"),
        (Agent(llm=scripted()).with_sources([memory_source(PlainStore())]), "keeps what all users said in one place"),
        (Agent(llm=scripted()).with_memory_tool(tmp_path), "one for all users"),
        (Agent(llm=scripted()).with_memory(create_memory_store().scoped(user="eve")), "cannot be narrowed"),
    ]
    for agent, problem in cases:
        with pytest.raises(ConfigError, match=problem):
            create_app(agent, authorize=authorize)
        create_app(lambda principal, agent=agent: agent, authorize=authorize)
        create_app(agent)


def test_a_function_makes_the_agent_of_each_principal() -> None:
    def agent_of(principal: Principal) -> Agent:
        return Agent(llm=scripted(says(f"Hello {principal.id}.")))

    async def main() -> None:
        async with live(create_app(agent_of, authorize=bearer_tokens({ANN: "ann", BOB: "bob"}))) as client:
            for token, name in [(ANN, "ann"), (BOB, "bob")]:
                found = await told(client, "/api/chat", said("Hi"), headers={"authorization": f"Bearer {token}"})
                assert text_of(found) == f"Hello {name}."

    asyncio.run(main())


def test_a_client_that_takes_nothing_holds_up_nobody_and_is_let_go() -> None:
    piece = "word " * 2_000

    async def main() -> None:
        model = scripted(says(*[piece] * 400))  # 4 MB, more than a socket holds
        app = create_app(Agent(llm=model), settings=Settings(stall_seconds=1.0))
        async with live(app) as client:
            body = json.dumps(said("Hi")).encode()
            host, port = client.base_url.host, client.base_url.port
            assert port is not None
            with socket.create_connection((host, port)) as stalled:
                stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                stalled.sendall(
                    f"POST /api/chat HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                while (await client.get("/api/threads/t1")).status_code == 404:
                    await asyncio.sleep(0.01)
                whole = None
                while whole is None or whole["status"] != "idle":
                    await asyncio.sleep(0.05)
                    whole = (await client.get("/api/threads/t1")).json()
                log = next(iter(app.runs._logs.values()))
                while log.readers:
                    await asyncio.sleep(0.05)
            found = await told(client, f"/api/runs/{log.run_id}/stream")
            assert text_of(found) == piece * 400
            assert max(len(chunk["delta"]) for chunk in found if chunk["type"] == "text-delta") <= 50_000

    asyncio.run(main())


def test_two_hundred_clients_that_vanish_in_mid_turn_leave_nothing_behind() -> None:
    async def main() -> None:
        model = Gated(scripted(*[says("one two three")] * 200))
        store = InProcessStore()
        settings = Settings(max_runs_each=300, requests_per_minute=100_000, keep_seconds=0.001)
        app = create_app(Agent(llm=model), store=store, settings=settings)
        async with live(app) as client:
            before = len(asyncio.all_tasks())
            host, port = client.base_url.host, client.base_url.port
            writers = []
            for number in range(200):
                reader, writer = await asyncio.open_connection(host, port)
                body = json.dumps(said("Hi", thread=f"t{number}")).encode()
                writer.write(
                    f"POST /api/chat HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-type: application/json\r\n"
                    f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await reader.readuntil(b'"type":"start"')
                writers.append(writer)
            for writer in writers:
                writer.transport.abort()
            while any(log.readers for log in app.runs._logs.values()):
                await asyncio.sleep(0.01)
            model.let(10_000)
            while app.runs._tasks:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            app.runs.forget_old()
            assert not app.runs._logs
            assert not app.runs._tokens
            for _ in range(200):
                if len(asyncio.all_tasks()) <= before + 1:
                    break
                await asyncio.sleep(0.01)
            assert len(asyncio.all_tasks()) <= before + 1
        assert [item.status for item in store.runs.list(limit=300)] == ["ended"] * 200

    asyncio.run(main())


def test_a_shutdown_lets_runs_finish_and_breaks_off_what_does_not_so_that_it_goes_on_later(tmp_path: Any) -> None:
    async def main() -> None:
        done: list[str] = []

        @tool
        def effect() -> str:
            """Do it."""
            done.append("done")
            return "done"

        with SqliteStore(tmp_path / "a.db") as store:
            model = Gated(scripted(calls(call("effect")), says("one two three")))
            app = create_app(Agent(llm=model).with_tools([effect]), store=store)
            async with live(app) as client:
                first = asyncio.create_task(told(client, "/api/chat", said("Hi")))
                await model.is_waiting.wait()
                await app.stop(0.05)
                found = await first
                assert found[-1]["type"] == "error"
                assert "restarted" in found[-1]["errorText"]
                late = await client.post("/api/chat", json=said("More", thread="t2"))
                assert (late.status_code, late.headers["retry-after"]) == (503, "5")
                assert (await client.get("/health")).status_code == 503
            run_id = found[0]["messageId"]
            assert store.runs.summary(run_id).status == "interrupted"
        with SqliteStore(tmp_path / "a.db") as store:
            app = create_app(Agent(llm=scripted(says("one two three"))).with_tools([effect]), store=store)
            async with live(app) as client:
                rejoined = await told(client, f"/api/runs/{run_id}/stream")
                assert text_of(rejoined) == "one two three"
                assert done == ["done"]
                assert (await client.get("/api/threads/t1")).json()["status"] == "idle"

    asyncio.run(main())


def test_a_restart_only_marks_runs_where_the_settings_say_so_and_each_goes_on_three_times_at_most(
    tmp_path: Any,
) -> None:
    async def interrupted(store: SqliteStore, app: Any) -> str:
        async with live(app) as client:
            while True:
                thread = (await client.get("/api/threads/t1")).json()
                if thread["status"] != "running":
                    return str(thread["status"])
                await asyncio.sleep(0.01)

    async def main() -> None:
        model = Gated(scripted(*[says("one two")] * 10))
        with SqliteStore(tmp_path / "a.db") as store:
            app = create_app(Agent(llm=model), store=store)
            async with live(app) as client:
                first = asyncio.create_task(told(client, "/api/chat", said("Hi")))
                await model.is_waiting.wait()
                await app.stop(0.01)
                await first
            app = create_app(Agent(llm=model), store=store, settings=Settings(on_restart="mark"))
            assert await interrupted(store, app) == "interrupted"
            for attempt in range(4):
                model.is_waiting.clear()
                app = create_app(Agent(llm=model), store=store)
                async with live(app) as client:
                    await client.get("/health")
                    if attempt == 3:
                        assert (await client.get("/api/threads/t1")).json()["status"] == "interrupted"
                    else:
                        await model.is_waiting.wait()
                        await app.stop(0.01)

    asyncio.run(main())


def test_a_run_of_another_process_is_followed_in_the_store(tmp_path: Any) -> None:
    async def main() -> None:
        model = Gated(scripted(calls(call("add", {"a": 1, "b": 2})), says("It is three.")))

        @tool
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        with SqliteStore(tmp_path / "a.db") as one, SqliteStore(tmp_path / "a.db") as two:
            settings = Settings(follow_seconds=0.05)
            async with (
                live(create_app(Agent(llm=model).with_tools([add]), store=one)) as first,
                live(create_app(Agent(llm=scripted()), store=two, settings=settings)) as second,
            ):
                running = asyncio.create_task(told(first, "/api/chat", said("1 + 2?")))
                await model.is_waiting.wait()
                busy = await second.post("/api/chat", json=said("And?", id="m2"))
                assert busy.status_code == 409
                elsewhere = await second.post("/api/chat/t1/stop", json={"runId": busy.json()["error"]["runId"]})
                assert elsewhere.json()["error"]["code"] == "elsewhere"
                following = asyncio.create_task(told(second, "/api/chat/t1/stream"))
                await asyncio.sleep(0.2)
                model.open()
                own, other = await asyncio.gather(running, following)
        assert text_of(other) == text_of(own) == "It is three."
        assert set(kinds(own)) == set(kinds(other))

    asyncio.run(main())


def test_without_authorize_only_this_machine_is_answered() -> None:
    async def main() -> None:
        app = create_app(Agent(llm=scripted(says("Hello."))))
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/threads",
            "headers": [(b"host", b"localhost")],
            "client": ("203.0.113.5", 4711),
            "query_string": b"",
        }
        await app(scope, receive, send)
        assert sent[0]["status"] == 403
        assert b"authorize" in sent[1]["body"]
        await app.stop(0)

    asyncio.run(main())


def test_a_body_over_the_limit_is_cut_off_while_it_comes() -> None:
    async def main() -> None:
        app = create_app(Agent(llm=scripted()), settings=Settings(max_body_bytes=1_000))
        async with live(app) as client:
            big = await client.post("/api/chat", json=said("x" * 2_000))
            assert big.status_code == 413

            async def pieces() -> Any:
                for _ in range(50):
                    yield b'"' + b"x" * 100

            streamed = await client.post("/api/chat", content=pieces(), headers={"content-type": "application/json"})
            assert streamed.status_code == 413

    asyncio.run(main())


def test_an_application_is_mounted_in_another_one() -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    async def main() -> None:
        app = create_app(Agent(llm=scripted(says("Hello."))))
        outer = Starlette(routes=[Mount("/assistant", app)])
        outer.runs = app.runs  # type: ignore[attr-defined]
        async with live(outer) as client:  # type: ignore[arg-type]
            assert text_of(await told(client, "/assistant/api/chat", said("Hi"))) == "Hello."
            assert (await client.get("/assistant/health")).json() == {"status": "ok"}
            await app.stop(0)

    asyncio.run(main())
