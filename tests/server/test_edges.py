"""The corners of the server: what is refused and in which words, what is left when something goes wrong."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sapwood import Agent, ConfigError, File, Image, SqliteStore, tool
from sapwood.core.ledger import ContextLedger
from sapwood.core.messages import Message, Opaque, Recalled, Summary, Text, Thinking, ToolCall, ToolResult
from sapwood.core.model import ModelRequest
from sapwood.core.run import Run
from sapwood.core.transcript import Transcript
from sapwood.server import Principal, Settings, bearer_tokens, create_app, serve
from sapwood.server.posted import read_chat, read_decisions
from sapwood.server.principal import conversation_of, owner_of, thread_of
from sapwood.server.rate import MOST_BUCKETS, RateLimit
from sapwood.server.run_log import Place, RunLog
from sapwood.server.seen import MAX_TEXT, SeenRequests, context_view
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted
from support.child_process import child_of, line
from support.live_server import Gated, live, said, text_of, told


def message(role: str = "user", parts: Any = None, **more: Any) -> dict[str, Any]:
    return {"id": "t", "messages": [{"id": "m", "role": role, "parts": parts or []}], **more}


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (None, "the body is an object"),
        ({"id": "t"}, "messages is a list"),
        ({"id": "t", "messages": []}, "messages is a list"),
        ({"id": "t", "messages": ["x"]}, "messages is a list"),
        (message(trigger="now"), "trigger is"),
        ({"id": 7, "messages": [{"id": "m"}]}, "id is a text"),
        ({"id": "t", "messages": [{"id": "", "role": "user", "parts": []}]}, "the id of the last message"),
        ({"id": "t", "messages": [{"id": "m", "role": "user", "parts": "x"}]}, "parts of the last message"),
        (message("system"), "role of the last message"),
        (message(), "the prompt is empty"),
        (message(parts=[{"type": "video"}]), "a part of a user's message"),
        (message(parts=["x"]), "a part of a user's message"),
        (message(parts=[{"type": "file", "mediaType": "image/png", "url": "file:///etc/passwd"}]), "the url of a file"),
        (message(parts=[{"type": "file", "mediaType": "image/png", "url": "http://x/a.png"}]), "the url of a file"),
        (
            message(parts=[{"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,!!"}]),
            "cannot be sent",
        ),
        (message("assistant"), "no part of it holds an answer"),
        (message("assistant", ["x", {"type": 7}, {"type": "text"}]), "no part of it holds an answer"),
    ],
)
def test_a_chat_that_cannot_be_meant_is_named(body: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_chat(body)


def test_files_of_a_prompt_come_as_data_or_as_an_address() -> None:
    parts = [
        {"type": "data-own", "data": 1},
        {"type": "file", "mediaType": "image/png", "url": "data:image/png;charset=x;base64,aGk="},
        {"type": "file", "mediaType": "application/pdf", "url": "https://x/y.pdf", "filename": "y.pdf"},
        {"type": "file", "mediaType": "text/plain", "url": "data:text/plain;base64,aGk=", "filename": 7},
    ]
    prompt = read_chat(message(parts=parts)).prompt
    assert prompt is not None
    assert prompt.content == (
        Image("aGk=", "image/png"),
        File(None, "application/pdf", "https://x/y.pdf", "y.pdf"),
        File("aGk=", "text/plain"),
    )


def test_a_client_says_that_a_tool_outside_failed() -> None:
    part = {"type": "tool-measure", "toolCallId": "c1", "state": "output-error", "errorText": "no tape", "input": {}}
    answer = read_chat(message("assistant", [part])).answers["c1"]
    assert (answer.tool, answer.answer.is_error, answer.answer.value) == ("measure", True, "no tape")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ([], "the body has decisions"),
        ({}, "the body has decisions"),
        ({"other": 1}, "the body has decisions"),
        ({"decisions": []}, "decisions is an object"),
        ({"decisions": {"c1": {"approved": "yes"}}}, "the decision on 'c1'"),
        ({"decisions": {"c1": {"approved": True, "inputs": {}}}}, "the decision on 'c1'"),
        ({"decisions": {"c1": True}}, "the decision on 'c1'"),
        ({"decisions": {"c1": {"result": 1, "error": True}}}, "the decision on 'c1'"),
        ({"decisions": {"": {"approved": True}}}, "the id of a request"),
        ({"extend": [1]}, "extend is an object"),
        ({"decisions": {"c1": {"approved": True, "input": [1]}}}, "updated_input"),
    ],
)
def test_decisions_that_cannot_be_meant_are_named(body: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        read_decisions(body)


def test_the_client_s_copy_of_a_call_may_differ_in_how_numbers_are_written_and_in_nothing_else() -> None:
    async def main() -> None:
        ran: list[Any] = []

        @tool(requires_approval=True)
        def pay(amount: float, to: list[dict[str, Any]]) -> str:
            """Pay."""
            ran.append(amount)
            return "paid"

        big = 12_345_678_901_234_567_891
        arguments = {"amount": 5.0, "to": [{"share": 1.0, "all": True, "number": big}]}
        async with live(
            create_app(Agent(llm=scripted(calls(call("pay", arguments)), says("Paid."))).with_tools([pay]))
        ) as client:
            asked = await told(client, "/api/chat", said("Pay"))
            run_id = asked[0]["messageId"]

            def posted(copy: Any) -> dict[str, Any]:
                part = {
                    "type": "dynamic-tool",
                    "toolName": "pay",
                    "toolCallId": "r0c0",
                    "state": "approval-responded",
                    "input": copy,
                    "approval": {"id": "r0c0", "approved": True, "reason": "ok"},
                }
                return {"id": "t1", "messages": [{"id": run_id, "role": "assistant", "parts": [part]}]}

            for copy in (
                {"amount": 5, "to": [{"share": 1, "all": 1, "number": big}]},
                {"amount": 5, "to": [{"share": 1, "all": True, "number": big + 10_000}]},
                {"amount": True, "to": [{"share": 1, "all": True, "number": big}]},
                {"amount": 5, "to": [{"share": 1, "all": True, "number": big}, {}]},
            ):
                assert (await client.post("/api/chat", json=posted(copy))).status_code == 422
            assert ran == []
            await told(
                client, "/api/chat", posted({"to": [{"number": float(big), "all": True, "share": 1}], "amount": 5})
            )
            assert ran == [5.0]

    asyncio.run(main())


def test_names_of_threads_and_principals() -> None:
    ann, odd = Principal("ann"), Principal("a/b %20@x")
    assert thread_of(conversation_of(odd, "t1"), odd) == "t1"
    assert owner_of(conversation_of(odd, "t1")) == odd
    assert thread_of(conversation_of(odd, "t1"), Principal("a")) is None
    assert thread_of("ann/../x", ann) is None
    assert thread_of(None, ann) is None
    assert owner_of("no-server-made-this") is None
    assert owner_of(None) is None
    for name in ("", ".", "..", "a/b", "a\n", "x" * 129, 7, None):
        with pytest.raises(ConfigError, match="the id of a thread"):
            conversation_of(ann, name)
    for id in ("", "x" * 257, 7):
        with pytest.raises(ConfigError, match="the id of a principal"):
            Principal(id)  # type: ignore[arg-type]
    for tokens in ({}, {"short": "ann"}):
        with pytest.raises(ConfigError, match="at least 16 characters"):
            bearer_tokens(tokens)


@pytest.mark.parametrize(
    "bad", [{"on_disconnect": "wait"}, {"on_restart": None}, {"max_runs": 0}, {"keep_seconds": True}]
)
def test_settings_that_cannot_work_are_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        Settings(**bad)


def test_what_is_no_agent_or_store_is_refused() -> None:
    with pytest.raises(ConfigError, match="an Agent, or a function"):
        create_app("agent")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="has runs and conversations"):
        create_app(Agent(llm=scripted()), store=object())


def test_the_store_of_the_agent_is_the_server_s() -> None:
    async def main() -> None:
        store = InProcessStore()
        agent = Agent(llm=scripted(says("Hello."))).with_conversation(store, "cli")
        async with live(create_app(agent)) as client:
            await told(client, "/api/chat", said("Hi"))
        assert [item.id for item in store.conversations.list()] == ["local/t1"]

    asyncio.run(main())


def test_a_conversation_whose_runs_are_gone_is_read_as_the_next_turn_sees_it() -> None:
    async def main() -> None:
        store = InProcessStore()
        async with live(create_app(Agent(llm=scripted(says("Hello."))), store=store)) as client:
            found = await told(client, "/api/chat", said("Hi"))
            assert store.runs.delete(found[0]["messageId"])
            thread = (await client.get("/api/threads/t1")).json()
            assert [item["parts"][0]["text"] for item in thread["messages"]] == ["Hi", "Hello."]
            assert [item["role"] for item in thread["messages"]] == ["user", "assistant"]
            assert (await client.get(f"/api/runs/{found[0]['messageId']}")).status_code == 404
            assert (await client.get("/api/threads/t1?limit=0")).status_code == 422
            assert (await client.get("/api/threads?limit=x")).status_code == 422
            assert (await client.get("/api/threads?before=..")).status_code == 422

    asyncio.run(main())


def test_a_rate_limit_forgets_those_who_asked_long_ago() -> None:
    now = [0.0]
    limit = RateLimit(60, clock=lambda: now[0])
    for number in range(MOST_BUCKETS + 5):
        assert limit.wait_seconds(str(number)) == 0
    for _ in range(9):
        assert limit.wait_seconds("ann") == 0
    limit.wait_seconds("ann")
    assert limit.wait_seconds("ann") == 1.0
    now[0] = 1.0
    assert limit.wait_seconds("ann") == 0


def test_a_log_is_read_from_any_place() -> None:
    from sapwood.core.events import TextDelta, ThinkingDelta, TurnStarted

    log = RunLog("r1", "c1")
    assert log.end == Place()
    log.append(TurnStarted(run_id="r1"), 1.0)
    for text in ("one ", "two ", "three"):
        log.append(TextDelta(text=text), 1.0)
    log.append(ThinkingDelta(text="hm"), 1.0)
    events = [(event, place) for event, _, place in log.read(Place())]
    assert [getattr(event, "text", "") for event, _ in events] == ["", "one two three", "hm"]
    for _, place in events:
        assert Place.read(str(place)) == place
    assert next(event for event, _, _ in log.read(Place(1, 4))) == TextDelta(text="two three")
    assert [event for event, _, _ in log.read(Place(), Place(1, 4))][-1] == TextDelta(text="one ")
    assert list(log.read(Place(99))) == []
    for bad in ("x", "1.x", "-1", "1" * 31, "."):
        with pytest.raises(ValueError):
            Place.read(bad)


def test_the_context_view_names_each_piece_and_cuts_what_is_long() -> None:
    prompt = Message("user", (Recalled("likes tea", "memory"), Text("now?")))
    past = Message("user", (Summary("before"), Text("then?"), Image("aGk=")))
    reply = Message(
        "assistant", (Thinking("hm"), Text("x" * (MAX_TEXT + 10)), ToolCall("add", {"a": 1}), Opaque("s", {}))
    )
    result = Message("tool", (ToolResult("k", "add", (Text("3"),)),))
    request = ModelRequest(Transcript.of([past, reply, result, prompt]), system=("Be brief.",))
    seen, run = SeenRequests(1), Run("r1", messages=(prompt,), phase="calling", ledger=ContextLedger({"system": 2}))
    seen.add("r0", request, ContextLedger({}))
    seen.add("r1", request, ContextLedger({}))
    assert seen.texts("r0", run) is None
    view = context_view(run, seen)
    texts = [(item["section"], item["label"]) for item in view["rounds"][0]["texts"]]
    assert ("memory", "recalled by memory") in texts
    assert ("summary", "summary of what came before") in texts
    assert ("files", "1. image") in texts
    assert ("prompt", "4. user") in texts
    assert ("history", "1. user") in texts
    long = next(item for item in view["rounds"][0]["texts"] if item["text"].startswith("xxx"))
    assert long["text"].endswith("[… 10 more characters]")
    older = context_view(run.replace(run_id="r0"), seen)
    assert not older["complete"]
    assert ("memory", "recalled by memory") in [
        (item["section"], item["label"]) for item in older["rounds"][0]["texts"]
    ]


def test_a_shutdown_by_signal_lets_the_run_finish(tmp_path: Path) -> None:
    program = tmp_path / "app.py"
    program.write_text(
        "import asyncio\n"
        "from sapwood import Agent, SqliteStore, tool\n"
        "from sapwood.server import serve\n"
        "from sapwood.testing import call, calls, says, scripted\n"
        "@tool\n"
        "async def slow() -> str:\n"
        "    '''Take a while.'''\n"
        "    await asyncio.sleep(1.0)\n"
        "    return 'done'\n"
        "agent = Agent(llm=scripted(calls(call('slow')), says('Done.'))).with_tools([slow])\n"
        f"with SqliteStore({str(tmp_path / 'a.db')!r}) as store:\n"
        "    serve(agent, port=0, store=store, started=lambda address: print(address, flush=True))\n"
    )
    with child_of(program) as process:
        address = line(process)

        async def main() -> None:
            async with httpx2.AsyncClient(base_url=address, timeout=30) as client:
                running = asyncio.create_task(told(client, "/api/chat", said("Go")))
                while (await client.get("/api/threads/t1")).status_code == 404:
                    await asyncio.sleep(0.01)
                os.kill(process.pid, signal.SIGTERM)
                assert text_of(await running) == "Done."

        asyncio.run(main())
        assert process.wait(30) in (0, -signal.SIGTERM)
    with SqliteStore(tmp_path / "a.db") as store:
        assert [item.status for item in store.runs.list()] == ["ended"]


def test_serving_from_the_command_line_says_what_cannot_be_served(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("thing = 7\n")
    for arguments, problem in [
        (["app:thing"], "app:thing is int, and no Agent"),
        (["app:missing"], "is nothing"),
        (["app:thing", "--token-env", "NO_SUCH_VARIABLE"], "app:thing is int"),
    ]:
        done = subprocess.run(
            [sys.executable, "-m", "sapwood", "serve", *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=60,
        )
        assert done.returncode == 1
        assert problem in done.stderr
    with pytest.raises(ConfigError, match="nothing says who may ask"):
        serve(create_app(Agent(llm=scripted())), host="0.0.0.0")


def test_a_run_that_is_deleted_while_it_is_followed_ends_for_its_reader(tmp_path: Path) -> None:
    async def main() -> None:
        model = Gated(scripted(says("one two")))
        with SqliteStore(tmp_path / "a.db") as one, SqliteStore(tmp_path / "a.db") as two:
            settings = Settings(follow_seconds=0.02)
            async with (
                live(create_app(Agent(llm=model), store=one)) as first,
                live(create_app(Agent(llm=scripted()), store=two, settings=settings)) as second,
            ):
                running = asyncio.create_task(told(first, "/api/chat", said("Hi")))
                await model.is_waiting.wait()
                following = asyncio.create_task(told(second, "/api/chat/t1/stream"))
                await asyncio.sleep(0.1)
                run_id = (await first.get("/api/threads/t1")).json()["runId"]
                await first.post("/api/chat/t1/stop", json={"runId": run_id})
                await running
                assert (await first.delete("/api/threads/t1")).status_code == 204
                assert (await asyncio.wait_for(following, 10))[-1]["type"] in ("abort", "error")

    asyncio.run(main())


def test_a_paused_run_is_stopped_as_well() -> None:
    async def main() -> None:
        @tool(requires_approval=True)
        def delete() -> str:
            """Delete."""
            raise AssertionError("never")

        store = InProcessStore()
        agent = Agent(llm=scripted(calls(call("delete")), says("Next."))).with_tools([delete])
        async with live(create_app(agent, store=store)) as client:
            asked = await told(client, "/api/chat", said("Go"))
            run_id = asked[0]["messageId"]
            stopped = await client.post(f"/api/runs/{run_id}/stop", json={})
            assert (stopped.status_code, stopped.json()["status"]) == (202, "ended")
            assert (await client.post(f"/api/runs/{run_id}/stop", json={})).status_code == 202
            assert text_of(await told(client, "/api/chat", said("And?", id="m2"))) == "Next."
            bad = await client.post("/api/chat/t1/stop", json=[])
            assert bad.status_code == 422

    asyncio.run(main())
