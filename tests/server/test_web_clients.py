"""The clients that people use, against a real server: `ai` 6 and 7, `useChat` in a browser, and `@ag-ui/client`."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from sapwood import Agent, ServerError, SubagentDefinition, ToolError, UsageLimits, tool
from sapwood.server import Settings, create_app
from sapwood.testing import call, calls, fails, says, scripted
from support.live_server import Gated, live, said, told
from support.web import ensure_browser, node

Told = dict[str, Any]


@tool
def add(a: int, b: int) -> dict[str, int]:
    """Add."""
    return {"sum": a + b}


@tool
def breaks(how: str) -> str:
    """Break."""
    raise ToolError("no such thing") if how == "told" else RuntimeError("hidden")


@tool(requires_approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return f"paid {cents}"


@tool(external=True)
def measure(what: str) -> str:
    """Measure."""
    raise AssertionError("it runs outside")


HELPER = SubagentDefinition(name="helper", description="Helps.", tools=(add, pay))
PAYS = calls(call("pay", {"cents": 5}, id="c1"), text="I pay.")
TASK = calls(call("task", {"agent_name": "helper", "task": "look"}, id="s1"))


def made(*steps: Any) -> Agent:
    agent = Agent(llm=scripted(*steps)).with_tools([add, breaks, pay, measure]).with_subagents([HELPER])
    return agent.with_approval(defer=True)


def against(
    agent: Agent, script: str, *arguments: Any, path: str = "/api/chat", settings: Settings | None = None
) -> Any:
    """Run a client against a server of this agent, and return what it prints."""

    async def main() -> Any:
        async with live(create_app(agent, settings=settings)) as client:
            return await asyncio.to_thread(node, script, f"{client.base_url}".rstrip("/") + path, *arguments)

    return asyncio.run(main())


# -- chunks -------------------------------------------------------------------------------------------


async def decided(client: httpx2.AsyncClient, run_id: str, **decisions: Any) -> list[Told]:
    return await told(client, f"/api/runs/{run_id}/decide", {"decisions": decisions})


class Sum(BaseModel):
    total: int


RESTARTS = (says("half a", error=ServerError("down")), says("Whole."))
LIMITED = calls(call("add", {"a": 1, "b": 2}), call("add", {"a": 2, "b": 2}))
RUNS: dict[str, Callable[[], Agent]] = {
    "tools": lambda: made(
        calls(
            call("add", {"a": 1, "b": 2}),
            call("breaks", {"how": "told"}),
            call("breaks", {"how": "x"}),
            text="Let me see.",
            thinking="Hm.",
        ),
        says("Three."),
    ),
    "approved": lambda: made(PAYS, says("Done.")),
    "inside": lambda: made(TASK, PAYS, says("paid"), says("Done.")),
    "outside": lambda: made(calls(call("measure", {"what": "desk"}, id="c1"))),
    "output": lambda: made(calls(call("final_result", {"total": 3}, id="c1"))).with_output_model(Sum),
    "failed": lambda: made(fails(ServerError("down", is_transient=False), after="half a")),
    "limit": lambda: made(LIMITED).with_usage_limits(UsageLimits(tool_calls_limit=1, on_limit="ask")),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_chunk_passes_the_schema_that_the_client_parses_with(name: str) -> None:
    async def main() -> list[Told]:
        async with live(create_app(RUNS[name]())) as client:
            found = await told(client, "/api/chat", said("go"))
            run_id = found[0]["messageId"]
            found += await told(client, f"/api/runs/{run_id}/stream")
            waiting = [chunk["approvalId"] for chunk in found if chunk["type"] == "tool-approval-request"]
            if waiting:
                found += await decided(client, run_id, **{waiting[0]: {"approved": True}})
            return found

    found = asyncio.run(main())
    result = node("check_chunks.mjs", stdin="\n".join(map(json.dumps, found)))
    assert result == {"checked": len(found), "problems": []}
    assert "null" not in json.dumps([chunk for chunk in found if not chunk["type"].startswith("data-")])


# -- chats --------------------------------------------------------------------------------------------

CHATS = pytest.mark.parametrize("script", ["chat_v6.mjs", "chat_v7.mjs"])


def tools_of(found: Any) -> list[tuple[str, Any]]:
    """The states of the tools of the last message, with what they gave."""
    parts = found["messages"][-1]["parts"]
    return [(part["state"], part.get("output")) for part in parts if part["type"] == "dynamic-tool"]


def texts_of(found: Any) -> list[str]:
    return [part["text"] for part in found["messages"][-1]["parts"] if part["type"] == "text"]


@CHATS
def test_a_chat_shows_tools_and_text_and_posts_once(script: str) -> None:
    agent = made(calls(call("add", {"a": 1, "b": 2}), text="Let me see.", thinking="Hm."), says("Three."))
    found = against(agent, script, "t1")
    assert (found["status"], found["error"], found["requests"]) == ("ready", None, ["POST /api/chat"])
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"]
    assert tools_of(found) == [("output-available", {"sum": 3})]
    assert texts_of(found) == ["Let me see.", "Three."]


@CHATS
def test_a_chat_that_approves_goes_on_in_the_same_message(script: str) -> None:
    found = against(made(PAYS, says("Done.")), script, "t1")
    assert (found["status"], found["error"], found["requests"]) == ("ready", None, ["POST /api/chat"] * 2)
    assert [message["role"] for message in found["messages"]] == ["user", "assistant"]
    assert tools_of(found) == [("output-available", "paid 5")]
    assert texts_of(found) == ["I pay.", "Done."]


@CHATS
def test_a_chat_that_denies_is_told_of_a_denial(script: str) -> None:
    found = against(made(PAYS, says("Then not.")), script, "t1", json.dumps({"approve": False, "reason": "too much"}))
    assert (found["status"], found["error"]) == ("ready", None)
    assert tools_of(found) == [("output-denied", None)]
    assert texts_of(found) == ["I pay.", "Then not."]


@CHATS
def test_a_pause_inside_a_subagent_is_answered_like_any_other(script: str) -> None:
    found = against(made(TASK, PAYS, says("paid"), says("Done.")), script, "t1")
    assert (found["status"], found["error"]) == ("ready", None)
    assert len(found["messages"]) == 2
    assert tools_of(found) == [("output-available", "I pay.paid"), ("output-available", "paid 5")]
    assert texts_of(found)[-1] == "Done."


@CHATS
def test_a_chat_that_comes_later_takes_up_the_stream_and_answers(script: str) -> None:
    async def main() -> tuple[Any, Any]:
        async with live(create_app(made(PAYS, says("Done.")))) as client:
            api = f"{client.base_url}".rstrip("/") + "/api/chat"
            run = partial(asyncio.to_thread, node, script, api, "t1")
            return await run(json.dumps({"approve": None})), await run(json.dumps({"resume": True}))

    first, second = asyncio.run(main())
    assert tools_of(first) == [("approval-requested", None)]
    assert second["requests"] == ["GET /api/chat/t1/stream", "POST /api/chat"]
    assert (second["status"], second["error"], tools_of(second)) == ("ready", None, [("output-available", "paid 5")])


@CHATS
def test_a_failure_is_an_error_without_the_words_of_the_exception(script: str) -> None:
    found = against(made(fails(ServerError("secret", is_transient=False), after="half a")), script, "t1")
    assert found["status"] == "error"
    assert found["error"].startswith("The model did not answer.")
    assert "secret" not in json.dumps(found)


def test_nothing_is_there_to_take_up_once_a_run_is_over() -> None:
    async def main() -> Any:
        async with live(create_app(made(says("Done.")))) as client:
            await told(client, "/api/chat", said("go"))
            api = f"{client.base_url}".rstrip("/") + "/api/chat"
            return await asyncio.to_thread(node, "chat_v6.mjs", api, "t1", json.dumps({"resume": True}))

    assert asyncio.run(main())["messages"] == []


def test_a_chat_joins_a_run_in_the_middle_and_ends_with_the_same_message() -> None:
    async def main() -> tuple[Any, Any]:
        model = Gated(scripted(says("one two three")))
        app = create_app(Agent(llm=model))
        async with live(app) as client:
            api = f"{client.base_url}".rstrip("/") + "/api/chat"
            model.let(2)
            first = asyncio.create_task(asyncio.to_thread(node, "chat_v6.mjs", api, "t1"))
            await model.is_waiting.wait()
            second = asyncio.create_task(asyncio.to_thread(node, "chat_v6.mjs", api, "t1", '{"resume": true}'))
            while not any(log.readers > 1 for log in app.runs._logs.values()):
                await asyncio.sleep(0.01)
            model.open()
            return await first, await second

    first, second = asyncio.run(main())
    assert second["messages"][-1] == first["messages"][-1]


# -- a browser ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "shown"), [("yes", "paid 5"), ("no", "output-denied")])
def test_use_chat_in_a_browser_asks_survives_a_reload_and_goes_on(answer: str, shown: str) -> None:
    browser = ensure_browser()
    agent = made(PAYS, says("Done."))
    found = against(agent, "use_chat.mjs", browser, "t1", json.dumps({"answer": answer}), path="")
    assert found["problems"] == []
    steps = found["steps"]
    assert all(step["error"] is None for step in steps.values())
    assert [tools_of(steps[name])[0][0] for name in ("asked", "reloaded")] == ["approval-requested"] * 2
    assert steps["reloaded"]["messages"][-1]["id"] == steps["asked"]["messages"][-1]["id"]
    assert len(steps["answered"]["messages"]) == 2
    assert shown in json.dumps(tools_of(steps["answered"]))
    assert texts_of(steps["again"]) == texts_of(steps["answered"]) == ["I pay.", "Done."]
    assert "Done." in found["shown"]


# -- AG-UI --------------------------------------------------------------------------------------------


def ag_ui(agent: Agent, **options: Any) -> Any:
    return against(agent, "ag_ui.mjs", json.dumps(options), path="/api/ag-ui")


def test_the_ag_ui_client_runs_is_interrupted_and_resumes() -> None:
    found = ag_ui(made(PAYS, says("Done.")))
    before, after = found["runs"]
    assert (before["error"], before["outcome"]["type"]) == (None, "interrupt")
    assert (after["error"], after["outcome"], after["interrupts"]) == (None, {"type": "success"}, [])
    assert [(item["role"], item.get("content")) for item in found["messages"]] == [
        ("user", "go"),
        ("assistant", "I pay."),
        ("tool", "paid 5"),
        ("assistant", "Done."),
    ]
    assert found["state"]["sapwood"]["status"] == "ended"


def test_the_ag_ui_client_may_edit_deny_and_abandon() -> None:
    edited = ag_ui(made(PAYS, says("Done.")), payload={"approved": True, "editedArgs": {"cents": 1}})
    assert "paid 1" in json.dumps(edited["messages"])
    for payload in ({"approved": False}, None):
        found = ag_ui(made(PAYS, says("Done.")), payload=payload)
        assert [run["error"] for run in found["runs"]] == [None, None]
        assert "paid" not in json.dumps(found["messages"])


def test_the_ag_ui_client_is_told_why_a_payload_does_not_fit() -> None:
    found = ag_ui(made(PAYS, says("Done.")), payload={"approved": "perhaps"})
    assert "says approved: true or false" in found["runs"][-1]["error"]
    assert "paid" not in json.dumps(found["messages"])


def test_an_ag_ui_client_that_ignores_an_interrupt_is_refused() -> None:
    found = ag_ui(made(PAYS, says("Done.")), ignore=True)
    assert [run["error"] is None for run in found["runs"]] == [True, False]
    assert found["runs"][-1]["events"] == ["RUN_ERROR"]


def test_the_ag_ui_client_follows_a_subagent_through_a_pause() -> None:
    found = ag_ui(made(TASK, PAYS, says("paid"), says("Done.")))
    assert [run["error"] for run in found["runs"]] == [None, None]
    assert [item["subagentRunId"] for item in found["runs"][0]["interrupts"]] == ["s1"]
    assert found["messages"][-1]["content"] == "Done."
