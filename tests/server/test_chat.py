"""Conversations over HTTP: streamed, joined, stopped, sent twice, read again."""

import asyncio
import re
from typing import Any

import pytest

from sapwood import Agent, SqliteStore, ToolError, tool
from sapwood.core.errors import LLMError
from sapwood.core.model import ModelRequest
from sapwood.llm.scripted import ScriptedReply
from sapwood.server import Settings, create_app
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, fails, says, scripted
from support.live_server import Gated, kinds, live, said, text_of, told


def echo(request: ModelRequest) -> ScriptedReply:
    return says(f"You said: {request.transcript[-1].text}")


def echoing(times: int = 50) -> Agent:
    return Agent(llm=scripted(*[echo] * times))


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def break_down(why: str) -> str:
    """Fail in a way of its own."""
    if why == "told":
        raise ToolError("there is no such customer; search by e-mail")
    raise RuntimeError("password=hunter2 in /srv/secret")


def test_a_prompt_is_answered_as_a_stream_of_chunks() -> None:
    async def main() -> None:
        async with live(create_app(echoing())) as client:
            async with client.stream("POST", "/api/chat", json=said("Hello there")) as response:
                assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
                assert response.headers["x-sapwood-run-id"]
            found = await told(client, "/api/chat", said("Hello there"))
            assert kinds(found)[:3] == ["start", "start-step", "text-start"]
            assert kinds(found)[-3:] == ["text-end", "finish-step", "finish"]
            assert text_of(found) == "You said: Hello there"
            assert found[0]["messageId"] == found[0]["messageMetadata"]["runId"]
            assert found[-1]["finishReason"] == "stop"

    asyncio.run(main())


def test_tools_are_told_with_input_output_time_and_error() -> None:
    async def main() -> None:
        model = scripted(
            calls(call("add", {"a": 1, "b": 2}), call("break_down", {"why": "x"}), call("break_down", {"why": "told"})),
            says("Three."),
        )
        async with live(create_app(Agent(llm=model).with_tools([add, break_down]))) as client:
            found = await told(client, "/api/chat", said("1 + 2?"))
        inputs = [chunk for chunk in found if chunk["type"] == "tool-input-available"]
        assert all(chunk["dynamic"] and chunk["providerExecuted"] for chunk in inputs)
        assert inputs[0]["input"] == {"a": 1, "b": 2}
        assert [chunk["output"] for chunk in found if chunk["type"] == "tool-output-available"] == [3]
        errors = [chunk["errorText"] for chunk in found if chunk["type"] == "tool-output-error"]
        assert errors == ["Internal error", "there is no such customer; search by e-mail"]
        assert len([chunk for chunk in found if chunk["type"] == "data-tool-time"]) == 3
        assert "hunter2" not in str(found)

    asyncio.run(main())


def test_a_message_that_is_sent_twice_begins_one_run() -> None:
    async def main() -> None:
        model = Gated(scripted(says("one two three")))
        store = InProcessStore()
        async with live(create_app(Agent(llm=model), store=store)) as client:
            both = [asyncio.create_task(told(client, "/api/chat", said("Hi"))) for _ in range(5)]
            await model.is_waiting.wait()
            model.open()
            first, *others = await asyncio.gather(*both)
            again = await told(client, "/api/chat", said("Hi"))
        for other in (*others, again):
            assert text_of(other) == text_of(first) == "one two three"
            assert other[0]["messageId"] == first[0]["messageId"]
        assert len(store.runs.list()) == 1
        assert [message.role for message in store.conversations.load("local/t1").messages] == ["user", "assistant"]

    asyncio.run(main())


def test_another_message_on_a_busy_thread_is_refused_and_names_the_run() -> None:
    async def main() -> None:
        model = Gated(scripted(says("one two"), says("three")))
        async with live(create_app(Agent(llm=model))) as client:
            first = asyncio.create_task(told(client, "/api/chat", said("Hi")))
            await model.is_waiting.wait()
            other = await client.post("/api/chat", json=said("And?", id="m2"))
            assert other.status_code == 409
            assert other.json()["error"]["code"] == "busy"
            run_id = (await client.get("/api/threads/t1")).json()["runId"]
            assert other.json()["error"]["runId"] == run_id
            elsewhere = asyncio.create_task(told(client, "/api/chat", said("Hi", thread="t2")))
            model.open()
            assert text_of(await first) == "one two"
            await elsewhere

    asyncio.run(main())


def test_a_client_that_joins_in_the_middle_has_the_same_message_in_the_end() -> None:
    async def main() -> None:
        model = Gated(scripted(says("one two three four five six")))
        async with live(create_app(Agent(llm=model))) as client:
            first = asyncio.create_task(told(client, "/api/chat", said("Hi")))
            await model.is_waiting.wait()
            model.let(3)
            await asyncio.sleep(0.05)
            second = asyncio.create_task(told(client, "/api/chat/t1/stream"))
            await asyncio.sleep(0.05)
            model.open()
            one, two = await asyncio.gather(first, second)
            assert text_of(one) == text_of(two) == "one two three four five six"
            assert kinds([chunk for chunk in one if chunk["type"] != "text-delta"]) == kinds(
                [chunk for chunk in two if chunk["type"] != "text-delta"]
            )
            assert (await client.get("/api/chat/t1/stream")).status_code == 204
            stored = (await client.get("/api/threads/t1")).json()["messages"][-1]
            assert [part["text"] for part in stored["parts"] if part["type"] == "text"] == [text_of(one)]

    asyncio.run(main())


def test_a_connection_that_breaks_does_not_end_the_run_which_is_gone_on_with_after_the_last_event() -> None:
    async def main() -> None:
        model = Gated(scripted(says("one two three four")))
        async with live(create_app(Agent(llm=model))) as client:
            async with client.stream("POST", "/api/chat", json=said("Hi")) as response:
                run_id = response.headers["x-sapwood-run-id"]
                model.let(2)
                seen, last = "", ""
                async for line in response.aiter_lines():
                    if line.startswith("id: "):
                        last = line[4:]
                    if '"text-delta"' in line:
                        seen += re.search(r'"delta":"([^"]*)"', line)[1]  # type: ignore[index]
                    if seen == "one two" and line == "":
                        break
            model.open()
            rest = await told(client, f"/api/runs/{run_id}/stream", headers={"last-event-id": last})
            assert seen + text_of(rest) == "one two three four"
            whole = await told(client, f"/api/runs/{run_id}/stream")
            assert text_of(whole) == "one two three four"
            assert (await client.get(f"/api/runs/{run_id}")).json()["status"] == "ended"
            bad = await client.get(f"/api/runs/{run_id}/stream?after=x")
            assert bad.status_code == 422

    asyncio.run(main())


def test_a_stop_names_its_run_keeps_what_was_said_and_is_told_to_all_readers() -> None:
    async def main() -> None:
        model = Gated(scripted(says("one two three four"), says("next")))
        store = InProcessStore()
        async with live(create_app(Agent(llm=model), store=store)) as client:
            first = asyncio.create_task(told(client, "/api/chat", said("Hi")))
            await model.is_waiting.wait()
            model.let(2)
            await asyncio.sleep(0.05)
            run_id = (await client.get("/api/threads/t1")).json()["runId"]
            stale = await client.post("/api/chat/t1/stop", json={"runId": "0" * 32})
            assert stale.status_code == 409
            stopped = await client.post("/api/chat/t1/stop", json={"runId": run_id})
            assert stopped.status_code == 202
            assert stopped.json()["status"] == "ended"
            found = await first
            assert found[-1]["type"] == "abort"
            assert text_of(found) == "one two"
            texts = [message.text for message in store.conversations.load("local/t1").messages]
            assert texts == ["Hi", "one two"]
            late = await client.post("/api/chat/t1/stop", json={"runId": run_id})
            assert late.status_code == 409
            model.open()
            assert text_of(await told(client, "/api/chat", said("Go on", id="m2"))) == "next"

    asyncio.run(main())


def test_a_model_that_fails_is_told_without_its_words_and_the_turn_can_be_tried_again() -> None:
    async def main() -> None:
        model = scripted(fails(LLMError("key sk-secret123456 at https://api")), says("Here."), says("And more."))
        store = InProcessStore()
        async with live(create_app(Agent(llm=model, max_retries=0), store=store)) as client:
            found = await told(client, "/api/chat", said("Hi"))
            assert found[-1]["type"] == "error"
            assert found[-1]["errorText"].startswith("The model did not answer. (request ")
            assert "sk-secret" not in str(found)
            assert (await client.get("/api/threads/t1")).json()["status"] == "interrupted"
            joined = await told(client, "/api/chat/t1/stream")
            assert joined[-1]["type"] == "error"
            again = await told(client, "/api/chat", said("Hi") | {"trigger": "regenerate-message"})
            assert text_of(again) == "Here."
            assert [message.text for message in store.conversations.load("local/t1").messages] == ["Hi", "Here."]
            once_more = await told(client, "/api/chat", said("Hi") | {"trigger": "regenerate-message"})
            assert text_of(once_more) == "And more."

    asyncio.run(main())


def test_a_run_that_broke_off_goes_on_when_it_is_told_to() -> None:
    async def main() -> None:
        model = scripted(fails(LLMError("down")), says("Here."))
        async with live(create_app(Agent(llm=model, max_retries=0))) as client:
            found = await told(client, "/api/chat", said("Hi"))
            run_id = found[0]["messageId"]
            went_on = await told(client, f"/api/runs/{run_id}/resume", {})
            assert went_on[0]["messageId"] == run_id
            assert text_of(went_on) == "Here."
            over = await client.post(f"/api/runs/{run_id}/resume", json={})
            assert over.status_code == 409

    asyncio.run(main())


def test_threads_are_listed_page_by_page_read_and_deleted() -> None:
    async def main() -> None:
        async with live(create_app(echoing())) as client:
            for number in range(5):
                await told(client, "/api/chat", said(f"Question {number}", thread=f"t{number}"))
            first = (await client.get("/api/threads?limit=3")).json()
            assert [item["id"] for item in first["threads"]] == ["t4", "t3", "t2"]
            assert first["threads"][0]["title"] == "Question 4"
            rest = (await client.get(f"/api/threads?limit=3&before={first['next']}")).json()
            assert [item["id"] for item in rest["threads"]] == ["t1", "t0"]
            assert "next" not in rest
            for number in range(4):
                await told(client, "/api/chat", said(f"More {number}", id=f"x{number}", thread="t0"))
            page = (await client.get("/api/threads/t0?limit=2")).json()
            assert [item["parts"][0]["text"] for item in page["messages"] if item["role"] == "user"] == [
                "More 2",
                "More 3",
            ]
            older = (await client.get(f"/api/threads/t0?limit=9&before={page['next']}")).json()
            assert [item["parts"][0]["text"] for item in older["messages"] if item["role"] == "user"] == [
                "Question 0",
                "More 0",
                "More 1",
            ]
            assert (await client.delete("/api/threads/t0")).status_code == 204
            assert (await client.delete("/api/threads/t0")).status_code == 404
            assert (await client.get("/api/threads/t0")).status_code == 404

    asyncio.run(main())


def test_the_same_thread_is_read_from_a_file_by_another_server(tmp_path: Any) -> None:
    async def main() -> None:
        model = scripted(calls(call("add", {"a": 1, "b": 2}), text="Let me see.", thinking="Hm."), says("It is 3."))
        with SqliteStore(tmp_path / "a.db") as store:
            async with live(create_app(Agent(llm=model).with_tools([add]), store=store)) as client:
                streamed = await told(client, "/api/chat", said("1 + 2?"))
                before = (await client.get("/api/threads/t1")).json()
        with SqliteStore(tmp_path / "a.db") as store:
            async with live(create_app(echoing(), store=store)) as client:
                after = (await client.get("/api/threads/t1")).json()
                replayed = await told(client, f"/api/runs/{streamed[0]['messageId']}/stream")
        assert before == after
        assert kinds(replayed) == [kind for kind, last in _without_repeats(kinds(streamed))]
        assert text_of(replayed) == text_of(streamed)
        assert [part["type"] for part in after["messages"][-1]["parts"] if not part["type"].startswith("data-")] == [
            "step-start",
            "reasoning",
            "text",
            "dynamic-tool",
            "step-start",
            "text",
        ]

    asyncio.run(main())


def _without_repeats(found: list[str]) -> list[tuple[str, str]]:
    pairs = list(zip(found, ["", *found], strict=False))
    return [pair for pair in pairs if pair[0] != pair[1] or "delta" not in pair[0]]


def test_what_the_model_saw_is_shown_by_round_with_its_text() -> None:
    async def main() -> None:
        model = scripted(calls(call("add", {"a": 1, "b": 2})), says("Three."))
        agent = Agent(llm=model).with_tools([add]).with_system_prompt("Count well.")
        async with live(create_app(agent)) as client:
            found = await told(client, "/api/chat", said("1 + 2?"))
            seen = (await client.get(f"/api/runs/{found[0]['messageId']}/context")).json()
        assert len(seen["rounds"]) == 2
        assert seen["complete"]
        first, second = seen["rounds"]
        assert first["ledger"]["sections"]["system"] > 0
        assert {"section": "system", "label": "system text 1", "text": "Count well."} in first["texts"]
        assert {"section": "prompt", "label": "1. user", "text": "1 + 2?"} in first["texts"]
        assert {"section": "tool_results", "label": "result of add", "text": "3"} in second["texts"]
        assert second["ledger"]["lines"]

    asyncio.run(main())


def test_a_full_server_refuses_new_runs_and_says_when_to_come_again() -> None:
    async def main() -> None:
        model = Gated(scripted(says("one"), says("two"), says("three")))
        settings = Settings(max_runs=2, max_runs_each=1, requests_per_minute=30)
        async with live(create_app(Agent(llm=model), settings=settings)) as client:
            first = asyncio.create_task(told(client, "/api/chat", said("Hi")))
            await model.is_waiting.wait()
            own = await client.post("/api/chat", json=said("Hi", thread="t2"))
            assert (own.status_code, own.json()["error"]["code"]) == (429, "too_many_runs")
            refused = [await client.post("/api/chat", json=said("Hi", thread="t2")) for _ in range(10)]
            assert refused[-1].json()["error"]["code"] == "rate_limit"
            assert int(refused[-1].headers["retry-after"]) >= 1
            model.open()
            await first

    asyncio.run(main())


@pytest.mark.parametrize("on_disconnect", ["continue", "cancel"])
def test_a_client_that_goes_away_stops_the_run_only_where_the_settings_say_so(on_disconnect: Any) -> None:
    """SRV-01."""

    async def main() -> None:
        written: list[int] = []

        @tool
        def write(n: int) -> str:
            """Write."""
            written.append(n)
            return "written"

        model = Gated(scripted(*[calls(call("write", {"n": n}), text="Now then") for n in range(4)], says("Done")))
        agent = Agent(llm=model).with_tools([write])
        store = InProcessStore()
        app = create_app(agent, store=store, settings=Settings(on_disconnect=on_disconnect))
        async with live(app) as client:
            async with client.stream("POST", "/api/chat", json=said("Hi")) as response:
                run_id = response.headers["x-sapwood-run-id"]
                await model.is_waiting.wait()
            if on_disconnect == "cancel":
                while app.runs.live(run_id) is not None:
                    await asyncio.sleep(0.01)
                model.open()
                assert written == []
            else:
                model.open()
                while app.runs.live(run_id) is not None:
                    await asyncio.sleep(0.01)
                assert written == [0, 1, 2, 3]
            assert store.runs.summary(run_id).status == "ended"
            messages = store.conversations.load("local/t1").messages
            assert [message.text for message in messages].count("Hi") == 1

    asyncio.run(main())
