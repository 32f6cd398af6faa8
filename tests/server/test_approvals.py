"""What a person is asked over HTTP: answered from the stored request, by whom it is for, once."""

import asyncio
from typing import Any

import pytest

from sapwood import Agent, SqliteStore, UsageLimits, tool
from sapwood.server import Principal, create_app
from sapwood.server.principal import bearer_tokens
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted
from support.live_server import kinds, live, said, text_of, told

ANN, BOB = "a" * 20, "b" * 20
OWNERS: dict[str, Principal | str] = {ANN: "ann", BOB: "bob"}


class Effects:
    """What ran."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    def agent(self, *replies: Any) -> Agent:
        @tool(requires_approval=True)
        def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"deleted {path}"

        replies = replies or (calls(call("delete", {"path": "/a"})), says("Gone."), says("Well."))
        return Agent(llm=scripted(*replies)).with_tools([delete])


def posted_back(found: list[Any], *, approved: bool = True, thread: str = "t1", **changes: Any) -> dict[str, Any]:
    """Return what the AI SDK posts once a person has answered: the assistant's message with the answer in it."""
    available = next(chunk for chunk in found if chunk["type"] == "tool-input-available")
    asked = next(chunk for chunk in found if chunk["type"] == "tool-approval-request")
    part = {
        "type": "dynamic-tool",
        "toolName": available["toolName"],
        "toolCallId": available["toolCallId"],
        "state": "approval-responded",
        "input": available["input"],
        "approval": {"id": asked["approvalId"], "approved": approved},
        **changes,
    }
    message = {"id": found[0]["messageId"], "role": "assistant", "parts": [part]}
    return {"id": thread, "messages": [message], "trigger": "submit-message", "messageId": message["id"]}


def test_a_call_waits_and_runs_once_it_is_approved_in_the_same_message() -> None:
    async def main() -> None:
        effects = Effects()
        async with live(create_app(effects.agent())) as client:
            asked = await told(client, "/api/chat", said("Delete a"))
            assert kinds(asked)[-4:] == ["data-approval", "tool-approval-request", "finish-step", "finish"]
            assert asked[-1]["finishReason"] == "tool-calls"
            assert effects.deleted == []
            went_on = await told(client, "/api/chat", posted_back(asked))
            assert went_on[0] == {
                "type": "start",
                "messageId": asked[0]["messageId"],
                "messageMetadata": asked[0]["messageMetadata"],
            }
            assert kinds(went_on)[1:3] == ["tool-output-available", "start-step"]
            assert text_of(went_on) == "Gone."
            assert effects.deleted == ["/a"]

    asyncio.run(main())


def test_a_no_reaches_the_model_with_its_reason() -> None:
    async def main() -> None:
        effects = Effects()
        agent = effects.agent()
        async with live(create_app(agent)) as client:
            asked = await told(client, "/api/chat", said("Delete a"))
            id = asked[0]["messageId"]
            run = (await client.get(f"/api/runs/{id}")).json()
            decision = {"decisions": {run["waiting"][0]["id"]: {"approved": False, "reason": "too risky"}}}
            went_on = await told(client, f"/api/runs/{id}/decide", decision)
            assert "tool-output-denied" in kinds(went_on)
            assert effects.deleted == []
            seen = (await client.get(f"/api/runs/{id}/context")).json()
            assert "too risky" in str(seen["rounds"][1]["texts"])

    asyncio.run(main())


def test_an_edited_call_runs_with_what_the_person_wrote() -> None:
    async def main() -> None:
        effects = Effects()
        async with live(create_app(effects.agent())) as client:
            asked = await told(client, "/api/chat", said("Delete a"))
            id = asked[0]["messageId"]
            decision = {"decisions": {"r0c0": {"approved": True, "input": {"path": "/b"}}}}
            await told(client, f"/api/runs/{id}/decide", decision)
            assert effects.deleted == ["/b"]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"input": {"path": "/etc/passwd"}}, 422),
        ({"input": {"path": "/a", "force": True}}, 422),
        ({"input": None}, 422),
        ({"toolName": "format_disk"}, 422),
        ({"toolCallId": "r9c9", "approval": {"id": "r9c9", "approved": True}}, 422),
        ({"toolCallId": "other", "approval": {"id": "r0c0", "approved": True}}, 422),
        ({"approval": {"id": "forged", "approved": True}}, 422),
        ({"approval": {"id": "r0c0", "approved": "yes"}}, 422),
        ({"approval": None}, 422),
        ({"state": "output-available", "output": "done", "providerExecuted": False}, 422),
        ({"state": "input-available"}, 422),
    ],
)
def test_an_answer_that_was_tampered_with_is_refused_and_nothing_runs(changes: dict[str, Any], status: int) -> None:
    async def main() -> None:
        effects = Effects()
        async with live(create_app(effects.agent())) as client:
            asked = await told(client, "/api/chat", said("Delete a"))
            refused = await client.post("/api/chat", json=posted_back(asked, **changes))
            assert refused.status_code == status, refused.text
            assert refused.json()["error"]["requestId"]
            assert effects.deleted == []
            assert (await client.get("/api/threads/t1")).json()["status"] == "waiting"
            assert text_of(await told(client, "/api/chat", posted_back(asked))) == "Gone."
            assert effects.deleted == ["/a"]

    asyncio.run(main())


def test_an_answer_counts_once_and_an_old_one_reaches_no_later_call() -> None:
    async def main() -> None:
        effects = Effects()
        asks = calls(call("delete", {"path": "/a"}, id="same"))
        agent = effects.agent(asks, asks, says("Both gone."))
        async with live(create_app(agent)) as client:
            asked = await told(client, "/api/chat", said("Delete a twice"))
            old = posted_back(asked)
            second = await told(client, "/api/chat", old)
            assert effects.deleted == ["/a"]
            assert second[-1]["finishReason"] == "tool-calls"
            late = await client.post("/api/chat", json=old)
            assert late.status_code in (409, 422), late.text
            both = await asyncio.gather(
                *[client.post(f"/api/runs/{asked[0]['messageId']}/decide", json=yes(second)) for _ in range(4)]
            )
            assert sorted(item.status_code for item in both)[:2] == [200, 409]
            assert effects.deleted == ["/a", "/a"]
            over = await client.post(f"/api/runs/{asked[0]['messageId']}/decide", json=yes(second))
            assert over.status_code == 409

    asyncio.run(main())


def yes(found: list[Any]) -> dict[str, Any]:
    asked = next(chunk for chunk in found if chunk["type"] == "tool-approval-request")
    return {"decisions": {asked["approvalId"]: {"approved": True}}}


def test_nobody_answers_stops_reads_or_deletes_what_is_anothers() -> None:
    async def main() -> None:
        effects = Effects()
        app = create_app(effects.agent(), authorize=bearer_tokens(OWNERS))
        async with live(app, authorization=f"Bearer {ANN}") as client:
            bob = {"authorization": f"Bearer {BOB}"}
            asked = await told(client, "/api/chat", said("Delete a"))
            id = asked[0]["messageId"]
            tries: list[tuple[str, str, Any]] = [
                ("POST", "/api/chat", posted_back(asked)),
                ("POST", f"/api/runs/{id}/decide", yes(asked)),
                ("POST", f"/api/runs/{id}/stop", {}),
                ("POST", f"/api/runs/{id}/resume", {}),
                ("POST", "/api/chat/t1/stop", {"runId": id}),
                ("GET", f"/api/runs/{id}", None),
                ("GET", f"/api/runs/{id}/stream", None),
                ("GET", f"/api/runs/{id}/context", None),
                ("GET", "/api/threads/t1", None),
                ("GET", f"/api/threads/t1?before={id}", None),
                ("DELETE", "/api/threads/t1", None),
            ]
            for method, path, body in tries:
                refused = await client.request(method, path, json=body, headers=bob)
                assert refused.status_code in (404, 409), (path, refused.text)
                assert "/a" not in refused.text
            assert (await client.get("/api/chat/t1/stream", headers=bob)).status_code == 204
            assert (await client.get("/api/threads", headers=bob)).json()["threads"] == []
            sneaky = await client.post("/api/chat", json=said("Hi", id=f"{id}-prompt"), headers=bob)
            assert sneaky.status_code == 404
            assert effects.deleted == []
            own = await told(client, "/api/chat", said("Hello"), headers=bob)
            assert own[0]["messageId"] != id
            assert text_of(await told(client, "/api/chat", posted_back(asked)))
            assert effects.deleted == ["/a"]

    asyncio.run(main())


def test_a_pause_is_shown_after_a_reload_and_answered_from_another_server(tmp_path: Any) -> None:
    async def main() -> None:
        effects = Effects()
        with SqliteStore(tmp_path / "a.db") as store:
            async with live(create_app(effects.agent(), store=store)) as client:
                asked = await told(client, "/api/chat", said("Delete a"))
        with SqliteStore(tmp_path / "a.db") as store:
            async with live(create_app(effects.agent(says("Gone.")), store=store)) as client:
                thread = (await client.get("/api/threads/t1")).json()
                assert thread["status"] == "waiting"
                assert thread["waiting"][0]["input"] == {"path": "/a"}
                part = next(item for item in thread["messages"][-1]["parts"] if item["type"] == "dynamic-tool")
                assert (part["state"], part["approval"]) == ("approval-requested", {"id": "r0c0"})
                rejoined = await told(client, "/api/chat/t1/stream")
                assert kinds(rejoined) == kinds(asked)
                refused = await client.post("/api/chat", json=said("Something else", id="m2"))
                assert (refused.status_code, refused.json()["error"]["code"]) == (409, "waiting")
                assert refused.json()["error"]["runId"] == asked[0]["messageId"]
                assert text_of(await told(client, "/api/chat", posted_back(asked))) == "Gone."
                assert effects.deleted == ["/a"]
                replayed = await told(client, f"/api/runs/{asked[0]['messageId']}/stream")
                assert [kind for kind in kinds(replayed) if kind in ("start", "finish")] == ["start", "finish"]

    asyncio.run(main())


def test_a_subagents_call_is_answered_by_its_whole_id() -> None:
    async def main() -> None:
        effects = Effects()
        below = effects.agent(calls(call("delete", {"path": "/a"}, id="d1")), says("It is gone."))
        cleaner = below.as_tool("cleaner", "Cleans up.")
        above = Agent(llm=scripted(calls(call("cleaner", {"task": "delete a"}, id="c1")), says("Done.")))
        above.with_tools([cleaner])
        async with live(create_app(above)) as client:
            asked = await told(client, "/api/chat", said("Clean"))
            request = next(chunk for chunk in asked if chunk["type"] == "tool-approval-request")
            assert request["approvalId"] == "c1/d1"
            lane = [chunk["data"]["chunk"]["type"] for chunk in asked if chunk["type"] == "data-subagent-chunk"]
            assert "tool-input-available" in lane
            answer = {"decisions": {"c1/d1": {"approved": True}}}
            went_on = await told(client, f"/api/runs/{asked[0]['messageId']}/decide", answer)
            outputs = {
                item["toolCallId"]: item["output"] for item in went_on if item["type"] == "tool-output-available"
            }
            assert outputs["c1/d1"] == "deleted /a"
            ended = next(chunk for chunk in went_on if chunk["type"] == "data-subagent")
            assert (ended["id"], ended["data"]["agent"]) == ("c1", "cleaner")
            assert "It is gone." in [part.get("text") for part in ended["data"]["parts"]]
            assert text_of(went_on) == "Done."
            assert effects.deleted == ["/a"]

    asyncio.run(main())


def test_a_tool_that_runs_outside_gets_its_result_from_the_client() -> None:
    async def main() -> None:
        @tool(external=True)
        def measure(what: str) -> dict[str, float]:
            """Measure something in the world."""
            raise AssertionError("never run here")

        model = scripted(calls(call("measure", {"what": "desk"})), says("It is 2.5 m."))
        store = InProcessStore()
        async with live(create_app(Agent(llm=model).with_tools([measure]), store=store)) as client:
            asked = await told(client, "/api/chat", said("How long is the desk?"))
            available = next(chunk for chunk in asked if chunk["type"] == "tool-input-available")
            assert "providerExecuted" not in available
            assert "tool-approval-request" not in kinds(asked)
            part = {
                "type": "dynamic-tool",
                "toolName": "measure",
                "toolCallId": available["toolCallId"],
                "state": "output-available",
                "input": available["input"],
                "output": {"metres": 2.5},
            }
            body = {"id": "t1", "messages": [{"id": asked[0]["messageId"], "role": "assistant", "parts": [part]}]}
            went_on = await told(client, "/api/chat", body)
            assert text_of(went_on) == "It is 2.5 m."
            results = [
                item for message in store.conversations.load("local/t1").messages for item in message.tool_results
            ]
            assert "2.5" in results[0].text

    asyncio.run(main())


def test_a_limit_that_asks_is_raised_by_name() -> None:
    async def main() -> None:
        agent = Agent(llm=scripted(says("One."), says("Two."))).with_usage_limits(
            UsageLimits(total_tokens_limit=1, on_limit="ask")
        )
        async with live(create_app(agent)) as client:
            asked = await told(client, "/api/chat", said("Hi"))
            thread = (await client.get("/api/threads/t1")).json()
            assert thread["status"] == "waiting"
            limit = thread["limits"][0]
            assert limit["asks"]
            went_on = await told(
                client, f"/api/runs/{asked[0]['messageId']}/decide", {"extend": {limit["name"]: 10_000}}
            )
            assert text_of(went_on)

    asyncio.run(main())
