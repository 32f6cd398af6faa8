"""What a stranger, a second process or an unlucky moment tried on the server, and got nothing by."""

import asyncio
from typing import Any

import pytest
from starlette.exceptions import HTTPException

from sapwood import Agent, ConfigError, MemoryManager, SqliteStore, create_memory_store, tool
from sapwood.core.events import TextDelta, TurnStarted
from sapwood.core.model import ModelRequest
from sapwood.llm.scripted import ScriptedReply
from sapwood.server import Principal, Settings, bearer_tokens, create_app
from sapwood.server.encode.ai_sdk import AiSdkEncoder
from sapwood.server.replies import EventStream, Streams
from sapwood.server.run_log import Place, RunLog
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted
from support.live_server import Gated, kinds, live, said, text_of, told

SECRET = "password=hunter2 at db.internal"


class Sent:
    """An agent that sends once it may, and what it sent."""

    def __init__(self, *more: Any) -> None:
        self.texts: list[str] = []

        @tool(requires_approval=True)
        def send(text: str) -> str:
            """Send."""
            self.texts.append(text)
            return "sent"

        asks = calls(call("send", {"text": "a"}), text="Sending.")
        self.agent = Agent(llm=scripted(asks, *(more or (says("Sent."), asks, says("Sent again."))))).with_tools([send])


def yes(found: list[Any], **more: Any) -> dict[str, Any]:
    asked = next(chunk for chunk in found if chunk["type"] == "tool-approval-request")
    return {"decisions": {asked["approvalId"]: {"approved": True, **more}}}


@pytest.mark.parametrize("after", ["2.9999999999", "9999999", "0.7", "3.1", "999.999", "1"])
def test_a_place_that_there_is_not_is_no_reason_to_search_for_it(after: str) -> None:
    async def main() -> None:
        async with live(create_app(Agent(llm=scripted(says("one two three"))))) as client:
            found = await told(client, "/api/chat", said("Hi"))
            path = f"/api/runs/{found[0]['messageId']}/stream"
            rest = await asyncio.wait_for(told(client, path, headers={"last-event-id": after}), 10)
            assert "one two three".endswith(text_of(rest))
            assert rest[-1]["type"] == "finish"
            for bad in ("1" * 21, "1.", "x", "-1"):
                assert (await client.get(path, headers={"last-event-id": bad})).status_code == 422

    asyncio.run(main())


def test_a_long_log_is_sent_in_pieces_to_a_reader_who_comes_late() -> None:
    async def main() -> None:
        log = RunLog("r1", "local/t1")
        log.append(TurnStarted(run_id="r1"), 0.0)
        for number in range(40):
            log.append(TextDelta(text="x" * 100_000, path=() if number % 2 else ("c1",)), 0.0)
        sizes: list[int] = []

        async def send(message: Any) -> None:
            sizes.append(len(message.get("body", b"")))

        async def receive() -> Any:
            await asyncio.Event().wait()

        stream = EventStream(
            log, AiSdkEncoder("r1", "t1"), Streams(Settings()), start=Place(), left=lambda _: None, headers={}
        )
        await stream({"type": "http"}, receive, send)
        assert sum(sizes) > 4_000_000
        assert max(sizes) < 400_000

    asyncio.run(main())


def test_what_is_wrong_with_the_set_up_is_told_to_nobody() -> None:
    def broken(principal: Principal) -> Agent:
        raise ConfigError(SECRET)

    def nobody(request: Any) -> Principal:
        return Principal("")

    def refuses(request: Any) -> Principal:
        raise HTTPException(401)

    async def main() -> None:
        async with live(create_app(broken)) as client:
            for response in (await client.post("/api/chat", json=said("Hi")), await client.get("/api/info")):
                assert response.status_code == 500
                assert "hunter2" not in response.text
        async with live(create_app(Agent(llm=scripted()), authorize=nobody)) as client:
            assert (await client.get("/api/threads")).status_code == 500
        async with live(create_app(Agent(llm=scripted()), authorize=refuses)) as client:
            refused = await client.get("/api/threads")
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "unauthorized")
        agent = Agent(llm=scripted(says("never")), max_tokens=50, max_response_tokens=40).with_system_prompt("x" * 900)
        async with live(create_app(agent)) as client:
            response = await client.post("/api/chat", json=said("Hi"))
            assert "system" not in response.text

    asyncio.run(main())
    with pytest.raises(ConfigError, match="half a character"):
        Principal("\ud800")


def test_a_run_that_another_process_has_is_gone_on_with_here_without_a_word_twice(tmp_path: Any) -> None:
    async def main() -> None:
        sent = Sent(calls(call("send", {"text": "b"})), says("Done."))
        with SqliteStore(tmp_path / "a.db") as one, SqliteStore(tmp_path / "a.db") as two:
            settings = Settings(follow_seconds=30)
            async with (
                live(create_app(sent.agent, store=one)) as first,
                live(create_app(sent.agent, store=two, settings=settings)) as second,
            ):
                asked = await told(first, "/api/chat", said("Go"))
                run_id = asked[0]["messageId"]
                went_on = await told(second, f"/api/runs/{run_id}/decide", yes(asked))
                assert "tool-approval-request" in kinds(went_on)
                stale = await told(first, f"/api/runs/{run_id}/stream")
                assert kinds(stale).count("tool-approval-request") == 2, "what another process did is read anew"
                last = await told(first, f"/api/runs/{run_id}/decide", yes(went_on))
                assert text_of(last) == "Done."
                whole = await told(second, f"/api/runs/{run_id}/stream")
                assert kinds(whole).count("tool-approval-request") == 2
                assert sent.texts == ["a", "b"]

    asyncio.run(main())


def test_a_follower_whose_store_fails_ends_with_an_error_and_is_gone(tmp_path: Any) -> None:
    async def main() -> None:
        model = Gated(scripted(says("one two")))
        with SqliteStore(tmp_path / "a.db") as one, SqliteStore(tmp_path / "a.db") as two:
            app = create_app(Agent(llm=scripted()), store=two, settings=Settings(follow_seconds=0.05))
            async with live(create_app(Agent(llm=model), store=one)) as first, live(app) as second:
                running = asyncio.create_task(told(first, "/api/chat", said("Hi")))
                await model.is_waiting.wait()
                following = asyncio.create_task(told(second, "/api/chat/t1/stream"))
                await asyncio.sleep(0.02)
                two.close()
                assert (await asyncio.wait_for(following, 10))[-1]["type"] == "error"
                model.open()
                await running
                assert not app.runs._followed._logs

    asyncio.run(main())


def test_a_message_that_is_sent_again_joins_its_run_also_while_it_waits_and_after_a_restart(tmp_path: Any) -> None:
    async def main() -> None:
        sent = Sent()
        with SqliteStore(tmp_path / "a.db") as store:
            async with live(create_app(sent.agent, store=store)) as client:
                asked = await told(client, "/api/chat", said("Go"))
                again = await told(client, "/api/chat", said("Go"))
        with SqliteStore(tmp_path / "a.db") as store:
            async with live(create_app(sent.agent, store=store)) as client:
                later = await told(client, "/api/chat", said("Go"))
                assert kinds(later) == kinds(again) == kinds(asked)
                assert later[0]["messageId"] == asked[0]["messageId"]
                assert (await client.post("/api/chat", json=said("Other", id="m2"))).status_code == 409

    asyncio.run(main())


def test_answers_to_what_is_over_are_refused_whatever_they_say() -> None:
    async def main() -> None:
        sent = Sent()
        async with live(create_app(sent.agent)) as client:
            asked = await told(client, "/api/chat", said("Go"))
            path = f"/api/runs/{asked[0]['messageId']}/decide"
            assert (await client.post(path, json={"decisions": {}})).status_code == 409
            await told(client, path, yes(asked))
            for body in ({"decisions": {}}, {"extend": {}}, yes(asked)):
                assert (await client.post(path, json=body)).status_code == 409
            assert sent.texts == ["a"]

    asyncio.run(main())


def test_what_was_to_be_remembered_in_a_thread_goes_with_it() -> None:
    async def main() -> None:
        sent = Sent()
        async with live(create_app(sent.agent)) as client:
            asked = await told(client, "/api/chat", said("Go"))
            await told(client, f"/api/runs/{asked[0]['messageId']}/decide", yes(asked, remember={}))
            assert (await client.delete("/api/threads/t1")).status_code == 204
            asked = await told(client, "/api/chat", said("Go", id="m2"))
            assert "tool-approval-request" in kinds(asked)
            assert sent.texts == ["a"]

    asyncio.run(main())


def test_threads_whose_names_begin_alike_are_told_apart() -> None:
    async def main() -> None:
        async with live(create_app(Agent(llm=scripted(says("One."), says("Two."))))) as client:
            await told(client, "/api/chat", said("First", thread="thread-1"))
            await told(client, "/api/chat", said("Second", thread="thread-10"))
            assert (await client.get("/api/threads/thread-1")).json()["title"] == "First"
            assert (await client.get("/api/threads/thread-10")).json()["title"] == "Second"

    asyncio.run(main())


def test_a_memory_without_a_store_for_threads_leaves_them_whole() -> None:
    def reply(request: ModelRequest) -> ScriptedReply:
        return says("Noted.")

    async def main() -> None:
        agent = Agent(llm=scripted(*[reply] * 3)).with_memory(MemoryManager(store=create_memory_store()))
        async with live(create_app(agent)) as client:
            for number in range(3):
                await told(client, "/api/chat", said(f"Turn {number}", id=f"m{number}"))
            thread = (await client.get("/api/threads/t1")).json()
            assert len(thread["messages"]) == 6
            assert thread["title"] == "Turn 0"

    asyncio.run(main())


def test_a_list_shows_what_runs_waits_or_broke_off() -> None:
    async def main() -> None:
        from sapwood.core.errors import LLMError
        from sapwood.testing import fails

        sent = Sent()
        agents = {"ann": sent.agent, "bob": Agent(llm=scripted(fails(LLMError("down"))), max_retries=0)}
        tokens = {"a" * 20: "ann", "b" * 20: "bob"}
        app = create_app(lambda principal: agents[principal.id], authorize=bearer_tokens(tokens))
        async with live(app) as client:
            for token, status in [("a" * 20, "waiting"), ("b" * 20, "interrupted")]:
                headers = {"authorization": f"Bearer {token}"}
                await told(client, "/api/chat", said("Go"), headers=headers)
                (thread,) = (await client.get("/api/threads", headers=headers)).json()["threads"]
                assert (thread["status"], bool(thread["runId"])) == (status, True)

    asyncio.run(main())


def test_a_socket_of_the_file_system_is_not_taken_for_this_machine() -> None:
    async def main() -> None:
        app = create_app(Agent(llm=scripted()))
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        scope = {"type": "http", "method": "GET", "path": "/health", "headers": [(b"host", b"localhost")]}
        await app({**scope, "client": None, "query_string": b""}, receive, send)
        assert sent[0]["status"] == 403
        await app.stop(0)
        await app({**scope, "client": ("127.0.0.1", 1), "query_string": b""}, receive, send)
        assert app._ticking is None, "what was stopped stays so"

    asyncio.run(main())


def test_reading_too_often_is_slowed_down_too() -> None:
    async def main() -> None:
        app = create_app(Agent(llm=scripted()), store=InProcessStore(), settings=Settings(requests_per_minute=6))
        async with live(app) as client:
            statuses = [(await client.get("/api/threads")).status_code for _ in range(15)]
            assert statuses[:5] == [200] * 5
            assert statuses[-1] == 429
            assert (await client.get("/health")).status_code == 200

    asyncio.run(main())
