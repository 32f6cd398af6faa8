"""Cases ARG, NAM and PAR: arguments, names, and calls side by side. Each test is named by its case."""

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from sapwood import Agent, ConfigError, ToolNameCollision, lazy_tool_source, lazy_toolset, tool
from sapwood.core.messages import Message
from sapwood.core.names import wire_name
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.testing import call, calls, says, scripted
from support.turns import bound, collect, finishes, folded, spec, turn, with_policy
from support.wire import wire

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


def run(agent: Agent, runtime: str, prompt: str = "go", **more: Any) -> list[Any]:
    async def main() -> list[Any]:
        return [event async for event in agent.astream(prompt, **more)]

    return list(agent.stream(prompt, **more)) if runtime == "blocking" else asyncio.run(main())


@RUNTIMES
def test_arg_01_cut_off_arguments_do_not_run_the_tool(runtime: str, tmp_path: Path) -> None:
    file = tmp_path / "n.txt"
    file.write_text("precious")

    @tool
    def save(path: str = "n.txt", body: str = "") -> str:
        """Save."""
        (tmp_path / path).write_text(body)
        return "saved"

    cut = call("save", id="c1", raw='{"path": "n.txt", "body": "abc')
    model = scripted(calls(cut.replace(problem="incomplete"), stop_reason="max_tokens"), says("sorry"))
    events = run(Agent(llm=model).with_tools([save]), runtime)
    (finish,) = finishes(events)
    assert finish.is_error
    assert "incomplete" in finish.result
    assert file.read_text() == "precious"
    assert events[-1].text == "sorry"
    assert folded(events).messages[1].tool_calls[0].raw == '{"path": "n.txt", "body": "abc'


@RUNTIMES
@pytest.mark.parametrize("raw", ["null", "[]", '"x"', "5", "true"])
def test_arg_02_json_that_is_no_object_is_an_error_result(runtime: str, raw: str) -> None:
    @tool
    def need(x: str) -> str:
        """Need."""
        return x

    model = scripted(calls(call("need", raw=raw)), says("ok"))
    events = run(Agent(llm=model).with_tools([need]), runtime)
    (finish,) = finishes(events)
    assert finish.is_error
    assert "object" in finish.result
    assert events[-1].text == "ok"


@RUNTIMES
@pytest.mark.parametrize("raw", ["", "{}", "  ", None])
def test_arg_03_all_ways_of_passing_no_arguments_run_the_tool_once(runtime: str, raw: str | None) -> None:
    ran: list[int] = []

    @tool
    def ping() -> str:
        """Ping."""
        ran.append(1)
        return "pong"

    model = scripted(calls(call("ping", {}) if raw is None else call("ping", raw=raw)), says("ok"))
    events = run(Agent(llm=model).with_tools([ping]), runtime)
    assert ran == [1]
    assert finishes(events)[0].result == "pong"


@RUNTIMES
@pytest.mark.parametrize("text", ['{"k": 1}', "123", "true", "null", "[1]", "1e5", "00012"])
def test_arg_04_a_string_parameter_keeps_its_text(runtime: str, text: str) -> None:
    seen: list[object] = []

    @tool
    def echo(text: str) -> str:
        """Echo."""
        seen.append(text)
        return text

    model = scripted(calls(call("echo", {"text": text})), says("ok"))
    run(Agent(llm=model).with_tools([echo]), runtime)
    assert seen == [text]


@RUNTIMES
def test_arg_05_a_broken_call_does_not_poison_the_next_request(runtime: str) -> None:
    @tool
    def save(body: str = "") -> str:
        """Save."""
        return "saved"

    broken = call("save", id="c1", raw='{"body": "abc').replace(problem="incomplete")
    model = scripted(calls(broken, stop_reason="max_tokens"), says("sorry"), says("fine"))
    agent = Agent(llm=model).with_tools([save])
    run(agent, runtime)
    run(agent, runtime, "again", messages=agent.last_messages)
    for request in model.requests[1:]:
        body = wire(request)
        assert body["messages"][1]["content"][0]["input"] == {}
        results = [block for block in body["messages"][2]["content"] if block["type"] == "tool_result"]
        assert [block["tool_use_id"] for block in results] == ["c1"]


@RUNTIMES
def test_arg_06_null_for_a_default_that_is_not_null_takes_the_default(runtime: str) -> None:
    seen: list[int] = []

    @tool
    def list_docs(q: str, page: int = 1) -> str:
        """List."""
        seen.append(page)
        return "ok"

    model = scripted(calls(call("list_docs", {"q": "a", "page": None})), says("ok"))
    run(Agent(llm=model).with_tools([list_docs]), runtime)
    assert seen == [1]


@RUNTIMES
def test_arg_07_the_error_about_bad_arguments_is_small(runtime: str) -> None:
    raw = '{"a": "' + "x" * 300_000
    model = scripted(calls(call("save", raw=raw).replace(problem="malformed")), says("ok"))
    events = turn(spec(model, [bound("save", lambda **_: "saved")]), runtime=runtime)
    (finish,) = finishes(events)
    assert finish.is_error
    assert len(finish.result) <= 4_000
    assert "save" in finish.result
    assert "malformed" in finish.result
    assert "cut" not in finish.result


def test_nam_01_names_that_become_equal_are_refused_naming_both() -> None:
    for first, second in (("notes.list", "notes_list"), ("a:b", "a/b")):
        with pytest.raises(ToolNameCollision) as caught:
            Agent(llm=scripted()).with_tools([{"name": first}, {"name": second}])
        assert repr(first) in str(caught.value)
        assert repr(second) in str(caught.value)


def test_nam_02_long_names_stay_valid_and_distinct() -> None:
    import re
    import subprocess
    import sys

    names = ["n" * 80 + suffix for suffix in ("aaaaaaaaaa", "bbbbbbbbbb")]
    wires = [wire_name(name) for name in names]
    assert len(set(wires)) == 2
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in wires)
    code = f"from sapwood.core.names import wire_name; print([wire_name(n) for n in {names!r}])"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == repr(wires)
    ran: list[str] = []
    tools = [bound(name, lambda name=name: ran.append(name)) for name in names]
    turn(spec(scripted(calls(wires[1]), says("ok")), tools))
    assert ran == [names[1]]


@RUNTIMES
def test_nam_03_the_original_name_is_used_for_everything_but_the_wire(
    runtime: str, caplog: pytest.LogCaptureFixture
) -> None:
    def read() -> str:
        raise OSError("no disk")

    model = scripted(calls("files_read"), says("ok"))
    with caplog.at_level(logging.ERROR):
        events = turn(spec(model, [bound("files.read", read)]), runtime=runtime)
    assert {event.name for event in events if event.type in ("tool_started", "tool_finished")} == {"files.read"}
    assert "'files.read' failed" in caplog.text
    body = wire(model.requests[1])
    assert body["tools"][0]["name"] == "files_read"
    assert body["messages"][1]["content"][0]["name"] == "files_read"


@RUNTIMES
def test_nam_04_an_unknown_tool_is_one_error_result_and_the_run_goes_on(runtime: str) -> None:
    model = scripted(calls(call("lookup_wether", {}, id="c1")), says("done"))
    events = turn(spec(model, [bound("lookup_weather", lambda: "sun")]), runtime=runtime)
    (finish,) = finishes(events)
    assert (finish.tool_call_id, finish.is_error) == ("c1", True)
    assert "lookup_wether" in finish.result
    assert "lookup_weather" in finish.result
    assert events[-1].text == "done"  # type: ignore[union-attr]


@RUNTIMES
def test_nam_05_a_known_and_an_unknown_call_in_one_reply(runtime: str) -> None:
    ran: list[str] = []
    model = scripted(calls(call("search", {"q": "x"}, id="c1"), call("serch", {"q": "y"}, id="c2")), says("ok"))
    events = turn(spec(model, [bound("search", lambda q: ran.append(q) or "found")]), runtime=runtime)
    results = model.requests[1].transcript[-1].tool_results
    assert ran == ["x"]
    assert [(result.name, result.is_error) for result in results] == [("search", False), ("serch", True)]
    assert events[-1].text == "ok"  # type: ignore[union-attr]


@RUNTIMES
def test_nam_06_history_with_a_tool_that_is_gone(runtime: str) -> None:
    first = scripted(calls(call("old_tool", {"a": 1}, id="c1")), says("old"))
    old = turn(spec(first, [bound("old_tool", lambda a: "was here")]), runtime=runtime)
    model = scripted(calls("old_tool"), says("ok"))
    events = turn(
        spec(model, [bound("new_tool", lambda: "new")], history=folded(old).messages), "next", runtime=runtime
    )
    body = wire(model.requests[0])
    assert body["messages"][1]["content"][0]["name"] == "old_tool"
    assert body["messages"][2]["content"][0]["content"] in ("was here", [{"type": "text", "text": "was here"}])
    (finish,) = finishes(events)
    assert finish.is_error
    assert "Unknown tool: old_tool" in finish.result


def test_nam_07_hidden_tools_always_come_with_their_search() -> None:
    source = lazy_tool_source([{"name": "a"}, {"name": "b"}], pin=["a"])
    model = scripted(says("ok"))
    turn(spec(model, sources=[source]))
    assert [schema.name for schema in model.requests[0].tools] == ["search_tools", "a"]
    with pytest.raises(ToolNameCollision, match="meta-tool"):
        lazy_toolset([{"name": "search_tools"}])
    with pytest.raises(ToolNameCollision, match="search_tools"):
        turn(spec(scripted(), [bound("search_tools", lambda: "mine")], sources=[source]))
    with pytest.raises(ConfigError, match="pin names 'c'"):
        lazy_toolset([{"name": "a"}], pin=["c"])


@RUNTIMES
def test_par_01_one_failing_call_leaves_its_siblings_alone(runtime: str) -> None:
    async def ok() -> str:
        await asyncio.sleep(0.1)
        return "fine"

    async def boom() -> str:
        raise RuntimeError("boom")

    model = scripted(calls(call("ok", id="c1"), call("boom", id="c2"), call("ok", id="c3")), says("done"))
    tools = [bound("ok", ok, read_only=True), bound("boom", boom, read_only=True)]
    turn(spec(model, tools), runtime=runtime)
    results = model.requests[1].transcript[-1].tool_results
    assert [(result.text == "fine", result.is_error) for result in results] == [
        (True, False),
        (False, True),
        (True, False),
    ]


@RUNTIMES
@pytest.mark.parametrize("expose", [True, False])
def test_par_02_a_failed_call_keeps_its_id_and_has_text(runtime: str, expose: bool) -> None:
    class Quiet(Exception):
        pass

    def boom() -> None:
        raise Quiet

    model = scripted(calls(call("boom", id="c2")), says("done"))
    events = turn(spec(model, [bound("boom", boom)], expose_errors=expose), runtime=runtime)
    (finish,) = finishes(events)
    assert finish.tool_call_id == "c2"
    assert finish.is_error
    assert finish.result == ("Quiet" if expose else "Internal error")


def test_par_03_results_are_sent_in_call_order_ten_times_the_same() -> None:
    async def nap(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return f"{seconds}"

    bodies: set[str] = set()
    for _ in range(10):
        model = scripted(
            calls(call("nap", {"seconds": 0.02}, id="c1"), call("nap", {"seconds": 0.0}, id="c2")), says("ok")
        )
        events = turn(spec(model, [bound("nap", nap, read_only=True)]), runtime="asyncio")
        assert [finish.tool_call_id for finish in finishes(events)] == ["c2", "c1"]
        bodies.add(str(wire(model.requests[1])))
    assert len(bodies) == 1


def test_par_04_blocking_tools_do_not_block_the_loop() -> None:
    ticks = 0

    async def main() -> float:
        nonlocal ticks

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.02)

        ticker = asyncio.create_task(tick())
        tools = [bound(name, lambda: time.sleep(0.4), read_only=True) for name in ("a", "b")]
        given = spec(scripted(calls("a", "b"), says("ok")), tools)
        began = time.monotonic()
        await collect(run_turn(start_run("r"), given, AsyncioRuntime(), prompt=Message.user("go")))
        ticker.cancel()
        return time.monotonic() - began

    assert asyncio.run(main()) < 0.7
    assert ticks >= 10


@RUNTIMES
def test_par_05_two_calls_with_one_id_both_run_and_stay_apart(runtime: str) -> None:
    ran: list[str] = []
    model = scripted(calls(call("read", {"p": "a"}, id="dup"), call("read", {"p": "b"}, id="dup")), says("ok"))
    turn(spec(model, [bound("read", lambda p: ran.append(p) or p, read_only=True)]), runtime=runtime)
    assert sorted(ran) == ["a", "b"]
    body = wire(model.requests[1])
    ids = [block["id"] for block in body["messages"][1]["content"]]
    assert len(set(ids)) == 2
    assert [block["tool_use_id"] for block in body["messages"][2]["content"]] == ids


@RUNTIMES
def test_par_06_a_provider_that_restarts_its_ids_in_every_turn(runtime: str) -> None:
    ran: list[int] = []

    @tool
    def step(n: int) -> str:
        """Step."""
        ran.append(n)
        return f"result {n}"

    replies = [reply for n in range(3) for reply in (calls(call("step", {"n": n}, id="call_0")), says(f"done {n}"))]
    model = scripted(*replies)
    agent = Agent(llm=model).with_tools([step])
    for n in range(3):
        run(agent, runtime, f"turn {n}", messages=agent.last_messages)
    assert ran == [0, 1, 2]
    body = wire(model.requests[-1])
    blocks = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    assert len(set(uses)) == 3
    assert [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"] == uses


@RUNTIMES
def test_par_07_a_time_limit_ends_plain_and_async_tools(runtime: str) -> None:
    cancelled: list[str] = []
    release = threading.Event()

    def plain() -> str:
        release.wait(3)
        return "late"

    async def is_async() -> str:
        try:
            await asyncio.sleep(3)
        except asyncio.CancelledError:
            cancelled.append("async")
            raise
        return "late"

    tools = [bound("plain", plain, timeout_seconds=0.2), bound("is_async", is_async, timeout_seconds=0.2)]
    model = scripted(calls("plain", "is_async"), says("ok"))
    began = time.monotonic()
    events = turn(spec(model, tools), runtime=runtime)
    assert time.monotonic() - began < 2
    assert all("0.2 s" in finish.result and finish.is_error for finish in finishes(events))
    before = folded(events).messages
    release.set()
    time.sleep(0.05)
    assert folded(events).messages == before
    assert cancelled == ["async"]
    assert events[-1].text == "ok"  # type: ignore[union-attr]


def test_pair_05_calls_in_the_last_round_are_answered_and_not_run() -> None:
    ran: list[str] = []
    model = scripted(calls("ping"), calls("ping", text="all I know"), says("next"))
    given = with_policy(spec(model, [bound("ping", lambda: ran.append("ping") or "pong")]), max_rounds=2)
    events = turn(given)
    assert ran == ["ping"]
    assert events[-1].text == "all I know"  # type: ignore[union-attr]
    follow = spec(model, history=folded(events).messages)
    turn(follow, "and?")
    wire(model.requests[-1])
