"""SRV: the server before clients that go away, proxies, hostile text, double clicks, failures and foreign pages.

SRV-01 is in tests/server/test_chat.py, the hook's half of SRV-05 in packages/react.
"""

import asyncio
import json
import logging
from typing import Any

import pytest

from sapwood import Agent, tool
from sapwood.core.errors import ConfigError, LLMError
from sapwood.server import Forbidden, Principal, Settings, Unauthorized, bearer_tokens, create_app
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, fails, says, scripted
from support.live_server import Gated, chunks, kinds, live, said, text_of, told

TOKEN = "t" * 24


def test_srv_02_a_silent_tool_is_bridged_by_comments_between_the_events() -> None:
    @tool
    async def slow() -> str:
        """Take its time."""
        await asyncio.sleep(2)
        return "done"

    async def main() -> None:
        app = create_app(
            Agent(llm=scripted(calls(call("slow")), says("Done."))).with_tools([slow]),
            settings=Settings(heartbeat_seconds=0.3),
        )
        async with live(app) as client, client.stream("POST", "/api/chat", json=said("Go")) as response:
            raw = (await response.aread()).decode()
        frames = raw.split("\n\n")
        assert frames.count(": ping") >= 5
        assert frames[-1] == ""
        assert frames[-2] == "data: [DONE]"
        for frame in frames[:-2]:
            lines = frame.split("\n")
            assert lines == [": ping"] or all(line.startswith(("id: ", "data: ")) for line in lines)

    asyncio.run(main())


def test_srv_03_nothing_on_the_way_may_hold_back_or_pack_the_stream() -> None:
    async def main() -> None:
        model = Gated(scripted(says("one two")))
        packing = {"accept-encoding": "gzip, br"}
        app = create_app(Agent(llm=model))
        async with live(app, **packing) as client, client.stream("POST", "/api/chat", json=said("Hi")) as response:
            assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
            assert response.headers["cache-control"] == "no-cache, no-transform"
            assert response.headers["x-accel-buffering"] == "no"
            assert "content-encoding" not in response.headers
            assert "content-length" not in response.headers
            found = chunks(response)
            assert (await anext(found))["type"] == "start"  # while the model has said nothing yet
            model.open()
            await found.aclose()

    asyncio.run(main())


HOSTILE = "a\nb\rc\r\nd\n\ne\u2028f\u0085g\x00h x\revent: done\rdata: {}\n\ndata: [DONE]\n\nid: 7\n: x"


def test_srv_04_no_text_breaks_out_of_its_event() -> None:
    async def main() -> None:
        model = scripted(calls(call("say", {"text": HOSTILE}, id="c1"), text="x"), says(HOSTILE, " and more"))

        @tool
        def say(text: str) -> str:
            """Say it back."""
            return text

        async with live(create_app(Agent(llm=model).with_tools([say]))) as client:
            async with client.stream("POST", "/api/chat", json=said(HOSTILE.replace("\x00", ""))) as response:
                raw = await response.aread()
            found = [json.loads(frame.split(b"data: ", 1)[1]) for frame in raw.split(b"\n\n")[:-2]]
            assert text_of(found) == "x" + HOSTILE + " and more"
            assert [item["output"] for item in found if item["type"] == "tool-output-available"] == [HOSTILE]
            assert raw.count(b"\r") == 0
            assert raw.count(b"data: [DONE]\n\n") == 1

    asyncio.run(main())


def test_srv_05_two_quick_submits_are_one_run_with_one_message() -> None:
    async def main() -> None:
        store, effects = InProcessStore(), list[str]()

        @tool
        def note(text: str) -> str:
            """Note."""
            effects.append(text)
            return "noted"

        model = scripted(calls(call("note", {"text": "once"})), says("Noted."))
        async with live(create_app(Agent(llm=model).with_tools([note]), store=store)) as client:
            found = await asyncio.gather(*[told(client, "/api/chat", said("Hi")) for _ in range(20)])
        assert {text_of(item) for item in found} == {"Noted."}
        assert effects == ["once"]
        assert len(store.runs.list()) == 1

    asyncio.run(main())


SECRET = "sk-live-abcdef123456 at https://internal.example/v1?key=abc"


def broken_tool() -> str:
    """Crash."""
    raise RuntimeError(SECRET)


def test_srv_06_whoever_fails_after_the_first_event_the_client_gets_one_error_and_a_clean_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def bug(*_: Any) -> None:
        raise ZeroDivisionError(SECRET)

    async def main() -> None:
        agents = [
            Agent(llm=scripted(fails(LLMError(SECRET), after="so far")), max_retries=0),
            Agent(llm=scripted(says("never"))).with_inspector(bug),
        ]
        for agent in agents:
            async with (
                live(create_app(agent)) as client,
                client.stream("POST", "/api/chat", json=said("Hi")) as response,
            ):
                raw = (await response.aread()).decode()
                request_id = response.headers["x-request-id"]
                assert raw.count('"type":"error"') == 1
                assert raw.endswith("data: [DONE]\n\n")
                assert request_id in raw
                assert "sk-live" not in raw
                assert "Traceback" not in raw
        async with live(
            create_app(Agent(llm=scripted(calls(call("broken_tool")), says("Ok"))).with_tools([tool(broken_tool)]))
        ) as client:
            found = await told(client, "/api/chat", said("Hi"))
            assert "sk-live" not in str(found)
            assert kinds(found)[-1] == "finish"
            thread = (await client.get("/api/threads/t1")).text
            assert "sk-live" not in thread

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert "sk-live" in caplog.text, "the details are in the log"


def test_srv_06_what_fails_before_the_first_event_has_its_status() -> None:
    class Broken(InProcessStore):
        pass

    async def main() -> None:
        store = Broken()
        async with live(create_app(Agent(llm=scripted(says("x"))), store=store)) as client:

            def begin(*_: Any, **__: Any) -> int:
                raise RuntimeError(SECRET)

            store.runs.begin = begin  # type: ignore[method-assign]
            failed = await client.post("/api/chat", json=said("Hi"))
            assert failed.status_code == 500
            assert failed.json()["error"]["code"] == "internal"
            assert failed.json()["error"]["requestId"] == failed.headers["x-request-id"]
            assert "sk-live" not in failed.text
            for body, status in [(b"{", 400), (b"[]", 422), (b"", 400), (b'{"id":"t"}', 422)]:
                bad = await client.post("/api/chat", content=body, headers={"content-type": "application/json"})
                assert bad.status_code == status, body
            assert (await client.post("/api/chat", content=b"{}")).status_code == 415
            assert (
                await client.post("/api/chat", content=b"{}", headers={"content-type": "text/plain"})
            ).status_code == 415
            assert (await client.get("/nothing")).status_code == 404
            assert (await client.put("/api/chat")).status_code == 405

    asyncio.run(main())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://app.example.com.evil.example"}, 403),
        ({"origin": "http://app.example.com"}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": ""}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"authorization": ""}, 401),
        ({"authorization": f"Bearer {'x' * 24}"}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"origin": "https://app.example.com"}, 200),
        ({}, 200),
    ],
)
def test_srv_07_foreign_pages_names_and_tokens_are_refused_before_any_work(
    headers: dict[str, str], status: int
) -> None:
    async def main() -> None:
        model = scripted(says("Hello."))
        app = create_app(
            Agent(llm=model),
            authorize=bearer_tokens({TOKEN: "ann"}),
            origins=["https://app.example.com"],
            hosts=["127.0.0.1"],
        )
        async with live(app) as client:
            sent = {"authorization": f"Bearer {TOKEN}", **headers}
            response = await client.post("/api/chat", json=said("Hi"), headers=sent)
            assert response.status_code == status, response.text
            assert len(model.requests) == (1 if status == 200 else 0)
            allowed = response.headers.get("access-control-allow-origin")
            assert allowed == (headers["origin"] if status == 200 and "origin" in headers else None)
            assert response.headers.get("access-control-allow-credentials") == ("true" if allowed else None)
            if allowed:
                assert "x-sapwood-run-id" in response.headers["access-control-expose-headers"]
                assert response.headers["vary"] == "Origin"
            preflight = {"origin": "https://app.example.com", "access-control-request-method": "POST"}
            good = await client.options("/api/chat", headers=preflight)
            assert (good.status_code, good.headers["access-control-allow-origin"]) == (204, "https://app.example.com")
            bad = await client.options("/api/chat", headers={**preflight, "origin": "https://evil.example"})
            assert bad.status_code == 403
            assert "access-control-allow-origin" not in bad.headers

    asyncio.run(main())


def test_srv_07_there_is_no_wildcard_and_no_open_server_by_mistake() -> None:
    agent = Agent(llm=scripted())
    for origin in ("*", "https://*.example.com/", "app.example.com", "https://app.example.com/path", ""):
        with pytest.raises(ConfigError, match="an origin is a scheme and a host"):
            create_app(agent, origins=[origin])
    from sapwood.server import serve

    for host in ("0.0.0.0", "::", "192.168.1.5", "example.com"):
        with pytest.raises(ConfigError, match="nothing says who may ask"):
            serve(agent, host=host, port=0)


def test_srv_07_who_may_not_is_told_so_and_an_authorize_that_breaks_lets_nobody_in() -> None:
    def authorize(request: Any) -> Principal | None:
        match request.headers.get("x-who"):
            case "ann":
                return Principal("ann")
            case "bob":
                raise Forbidden("bob may not")
            case "eve":
                raise Unauthorized("who is eve?")
            case "bug":
                raise KeyError(SECRET)
            case _:
                return None

    async def main() -> None:
        model = scripted(says("Hello."))
        async with live(create_app(Agent(llm=model), authorize=authorize)) as client:
            for who, status in [("bob", 403), ("eve", 401), ("bug", 500), ("", 401)]:
                for method, path in [("POST", "/api/chat"), ("GET", "/api/threads"), ("GET", "/api/info")]:
                    refused = await client.request(method, path, json=said("Hi"), headers={"x-who": who})
                    assert refused.status_code == status, (who, refused.text)
                    assert "sk-live" not in refused.text
            assert model.requests == []
            assert (await client.get("/api/info", headers={"x-who": "ann"})).json()["principal"] == {"id": "ann"}
            assert (await client.get("/health")).json() == {"status": "ok"}

    asyncio.run(main())
