"""AG-UI's rules for interrupts, at a server: one thread, one resume for all, no new input, safe to send again."""

import asyncio
import json
from typing import Any

import httpx2

from sapwood import Agent, tool
from sapwood.server import create_app
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted
from support.live_server import live

Event = dict[str, Any]


class Deleted:
    """An agent that deletes two files once it may, and what it deleted."""

    def __init__(self) -> None:
        self.paths: list[str] = []

        @tool(requires_approval=True)
        def delete(path: str) -> str:
            """Delete a file."""
            self.paths.append(path)
            return f"deleted {path}"

        both = calls(call("delete", {"path": "/a"}, id="c1"), call("delete", {"path": "/b"}, id="c2"), text="Deleting.")
        self.agent = Agent(llm=scripted(both, says("Gone."), says("More."))).with_tools([delete])


def asked(run: str = "r1", thread: str = "t1", **more: Any) -> dict[str, Any]:
    message = {"id": f"{run}-m", "role": "user", "content": "Delete them"}
    body: dict[str, Any] = {
        "threadId": thread,
        "runId": run,
        "protocolVersion": "1.0",
        "state": {},
        "messages": [message],
    }
    return body | {"tools": [], "context": [], "forwardedProps": {}} | more


def answer(id: str, **payload: Any) -> dict[str, Any]:
    return {"interruptId": id, "status": "resolved", "payload": payload}


async def run(client: httpx2.AsyncClient, body: dict[str, Any]) -> list[Event]:
    response = await client.post("/api/ag-ui", json=body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return [json.loads(frame.split("data: ", 1)[1]) for frame in response.text.split("\n\n") if "data: " in frame]


def test_one_resume_answers_all_that_is_open_and_results_join_the_earlier_calls() -> None:
    async def main() -> None:
        deleted, store = Deleted(), InProcessStore()
        async with live(create_app(deleted.agent, store=store)) as client:
            first = await run(client, asked())
            outcome = first[-1]["outcome"]
            assert (outcome["type"], [item["id"] for item in outcome["interrupts"]]) == ("interrupt", ["c1", "c2"])
            assert [item["type"] for item in first[-3:]] == ["STATE_SNAPSHOT", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
            partial = await run(client, asked("r2", resume=[answer("c1", approved=True)]))
            assert [item["type"] for item in partial] == ["RUN_ERROR"]
            assert "c2" in partial[0]["message"]
            assert deleted.paths == []
            body = asked("r3", resume=[answer("c1", approved=True), answer("c2", approved=False, reason="keep it")])
            second = await run(client, body)
            assert second[0]["type"] == "RUN_STARTED"
            assert [item["toolCallId"] for item in second if item["type"] == "TOOL_CALL_RESULT"] == ["c1", "c2"]
            assert not [item for item in second if item["type"] in ("TOOL_CALL_START", "TOOL_CALL_ARGS")]
            assert second[-1]["outcome"] == {"type": "success"}
            assert deleted.paths == ["/a"]
            again = await run(client, body)
            assert [item["type"] for item in again] == [item["type"] for item in second]
            assert again == second, "a resume that is sent twice is the same run"
            assert deleted.paths == ["/a"]
            other = await run(client, asked("r4", resume=body["resume"]))
            assert [item["type"] for item in other] == ["RUN_ERROR"]
            assert len(store.runs.list()) == 1

    asyncio.run(main())


def test_a_resume_that_is_sent_twice_at_once_is_one_run() -> None:
    async def main() -> None:
        deleted = Deleted()
        async with live(create_app(deleted.agent)) as client:
            await run(client, asked())
            body = asked("r2", resume=[answer("c1", approved=True), answer("c2", approved=True)])
            both = await asyncio.gather(*[run(client, body) for _ in range(4)])
            assert [found[-1]["type"] for found in both] == ["RUN_FINISHED"] * 4
            assert deleted.paths == ["/a", "/b"]

    asyncio.run(main())


def test_a_paused_thread_takes_no_new_input_and_an_answer_only_for_what_was_asked_there() -> None:
    async def main() -> None:
        deleted = Deleted()
        async with live(create_app(deleted.agent)) as client:
            await run(client, asked())
            refused = await run(client, asked("r2"))
            assert [item["type"] for item in refused] == ["RUN_ERROR"]
            assert refused[0]["code"] == "waiting"
            both = [answer("c1", approved=True), answer("c2", approved=True)]
            elsewhere = await run(client, asked("r3", thread="t2", resume=both))
            assert [item["type"] for item in elsewhere] == ["RUN_ERROR"]
            unknown = await run(client, asked("r4", resume=[*both, answer("c9", approved=True)]))
            assert [item["type"] for item in unknown] == ["RUN_ERROR"]
            assert deleted.paths == []

    asyncio.run(main())


def test_edited_arguments_replace_all_and_a_cancelled_interrupt_runs_nothing() -> None:
    async def main() -> None:
        deleted = Deleted()
        async with live(create_app(deleted.agent)) as client:
            await run(client, asked())
            edited = answer("c1", approved=True, editedArgs={"path": "/z"})
            cancelled = {"interruptId": "c2", "status": "cancelled"}
            second = await run(client, asked("r2", resume=[edited, cancelled]))
            assert second[-1]["outcome"] == {"type": "success"}
            assert deleted.paths == ["/z"]

    asyncio.run(main())


def test_an_interrupt_that_has_expired_can_only_be_cancelled() -> None:
    async def main() -> None:
        deleted = Deleted()
        agent = deleted.agent.with_approval(defer=True, expires_seconds=0.01)
        async with live(create_app(agent)) as client:
            first = await run(client, asked())
            assert all("expiresAt" in item for item in first[-1]["outcome"]["interrupts"])
            await asyncio.sleep(0.05)
            late = await run(client, asked("r2", resume=[answer("c1", approved=True), answer("c2", approved=True)]))
            assert [item["type"] for item in late] == ["RUN_ERROR"]
            assert deleted.paths == []
            ids = ("c1", "c2")
            gone = [{"interruptId": id, "status": "cancelled"} for id in ids]
            assert (await run(client, asked("r3", resume=gone)))[-1]["outcome"] == {"type": "success"}
            assert deleted.paths == []

    asyncio.run(main())


def test_the_same_thread_is_seen_by_both_protocols() -> None:
    async def main() -> None:
        deleted = Deleted()
        async with live(create_app(deleted.agent)) as client:
            await run(client, asked())
            thread = (await client.get("/api/threads/t1")).json()
            assert [item["id"] for item in thread["waiting"]] == ["c1", "c2"]
            bad = await client.post("/api/ag-ui", json={"threadId": "t1"})
            assert (bad.status_code, bad.json()["error"]["code"]) == (422, "invalid")

    asyncio.run(main())
