"""The two runtimes: who runs what where, limits of time, and what is left behind."""

import asyncio
import contextvars
import gc
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from sapwood.core.cancel import CancelToken
from sapwood.core.errors import BlockingCallError, RunCancelledError, StepCancelledError, StepTimeoutError
from sapwood.core.messages import Message
from sapwood.core.model import ModelProfile, ModelRequest, Reply, StreamChunk, TextChunk
from sapwood.loop.start import start_run
from sapwood.loop.turn import run_turn
from sapwood.runtime.aio import AsyncioRuntime
from sapwood.runtime.blocking import BlockingRuntime, iterate
from sapwood.runtime.private_loop import PrivateLoops
from sapwood.runtime.waits import limited
from sapwood.testing import call, calls, says, scripted
from support.turns import bound, collect, finishes, spec, turn

USER: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def left_behind(before: set[threading.Thread]) -> set[threading.Thread]:
    """Threads that were begun since and still run; those of earlier tests may end meanwhile."""
    end = time.monotonic() + 2
    while (new := threads() - before) and time.monotonic() < end:
        time.sleep(0.01)
    return new


# -- blocking ------------------------------------------------------------------------------------


def test_plain_tools_of_a_blocking_turn_run_in_the_callers_thread() -> None:
    seen: list[int] = []
    tool = bound("where", lambda: seen.append(threading.get_ident()))
    turn(spec(scripted(calls("where"), says("ok")), [tool]))
    assert seen == [threading.get_ident()]


def test_a_blocking_turn_works_inside_a_running_loop_with_plain_tools() -> None:
    async def notebook() -> str:
        return turn(spec(scripted(calls("ping"), says("ok")), [bound("ping", lambda: "pong")]))[-1].text  # type: ignore[union-attr]

    assert asyncio.run(notebook()) == "ok"


def test_an_async_tool_under_a_running_loop_raises_a_type_error_that_names_the_way_out() -> None:
    async def ping() -> str:
        return "pong"

    async def notebook() -> None:
        turn(spec(scripted(calls("ping"), says("ok")), [bound("ping", ping)]))

    with pytest.raises(TypeError, match=r"astream\(\)") as caught:
        asyncio.run(notebook())
    assert isinstance(caught.value, BlockingCallError)
    gc.collect()  # a coroutine that was never awaited would warn, and warnings are errors here


def test_async_tools_of_a_blocking_turn_share_one_loop_over_turns() -> None:
    loops = PrivateLoops()
    seen: list[asyncio.AbstractEventLoop] = []

    async def where() -> None:
        seen.append(asyncio.get_running_loop())

    for _ in range(2):
        given = spec(scripted(calls("where"), says("ok")), [bound("where", where)])
        list(iterate(run_turn(start_run("r"), given, BlockingRuntime(loops=lambda: loops), prompt=Message.user("go"))))
    assert seen[0] is seen[1]
    loops.close()
    assert seen[0].is_closed()
    assert loops.run(asyncio.sleep(0, "again"), "x") == "again"
    loops.close()


def test_iterate_says_so_when_something_suspends() -> None:
    async def suspends() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(0)
        yield 2

    events = iterate(suspends())  # type: ignore[arg-type]
    assert next(events) == 1
    with pytest.raises(RuntimeError, match="tried to suspend"):
        next(events)


def test_iterate_says_so_when_a_generator_swallows_the_news() -> None:
    async def stubborn() -> AsyncIterator[int]:
        try:
            await asyncio.sleep(0)
        except RuntimeError:
            yield 2

    with pytest.raises(RuntimeError, match="tried to suspend"):
        next(iterate(stubborn()))  # type: ignore[arg-type]


def test_a_running_loop_does_not_adopt_generators_that_are_stepped_by_hand() -> None:
    async def notebook() -> None:
        given = spec(scripted(says("a b c d")))
        events = iterate(run_turn(start_run("r"), given, BlockingRuntime(), prompt=Message.user("go")))
        for event in events:
            if event.type == "text_delta":
                break
        del events
        gc.collect()

    asyncio.run(notebook(), debug=True)


def test_an_async_only_provider_is_stepped_on_the_private_loop() -> None:
    closed: list[bool] = []

    class AsyncOnly:
        profile = ModelProfile(provider="x", model="y")

        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
            try:
                await asyncio.sleep(0)
                yield TextChunk("hi")
                yield Reply()
            finally:
                closed.append(True)

    assert turn(spec(AsyncOnly()))[-1].text == ""  # type: ignore[arg-type, union-attr]
    assert closed == [True]


def test_a_merely_iterable_provider_works_on_asyncio() -> None:
    class SyncOnly:
        profile = ModelProfile(provider="x", model="y")

        def stream(self, request: ModelRequest) -> Iterator[StreamChunk]:
            yield TextChunk("hi")
            yield Reply((Message.user("hi").content[0],))

    events = turn(spec(SyncOnly()), runtime="asyncio")
    assert events[-1].text == "hi"  # type: ignore[union-attr]


def test_a_blocking_sleep_ends_at_a_cancel() -> None:
    token = CancelToken()
    runtime = BlockingRuntime(cancel=token)
    threading.Timer(0.05, token.cancel).start()
    began = time.monotonic()
    with pytest.raises(RunCancelledError):
        runtime.sleep(5).send(None)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
def test_a_background_step_that_fails_is_logged(runtime: str, caplog: pytest.LogCaptureFixture) -> None:
    done: list[str] = []

    async def good() -> None:
        done.append("good")

    def bad() -> None:
        raise ValueError("background")

    async def main() -> None:
        aio = AsyncioRuntime()
        aio.background("bad", bad)
        aio.background("good", good)
        await asyncio.sleep(0.01)

    if runtime == "asyncio":
        asyncio.run(main())
    else:
        BlockingRuntime().background("bad", bad)
        BlockingRuntime().background("good", good)
    assert done == ["good"]
    assert "background step 'bad' failed" in caplog.text


def test_the_clock_is_the_systems() -> None:
    clock = BlockingRuntime()
    assert clock.now().tzinfo is not None
    assert 0 <= clock.random() < 1
    assert clock.new_id() != clock.new_id()
    assert clock.monotonic() <= clock.monotonic()


# -- time-outs (PAR-07, B30) -----------------------------------------------------------------------


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_time_limit_holds_for_plain_and_async_tools(
    runtime: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    cancelled: list[bool] = []
    release = threading.Event()

    def plain() -> str:
        release.wait(5)
        return "late"

    async def is_async() -> str:
        try:
            await asyncio.sleep(5)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return "late"

    tool = bound("nap", plain if kind == "plain" else is_async, timeout_seconds=0.1)
    began = time.monotonic()
    events = turn(spec(scripted(calls("nap"), says("ok")), [tool]), runtime=runtime)
    assert time.monotonic() - began < 1
    (finish,) = finishes(events)
    assert finish.is_error
    assert "timed out after 0.1 s" in finish.result
    if kind == "async":
        assert cancelled == [True]
    else:
        assert "abandoned thread 'sapwood-tool/r0c0/nap'" in caplog.text
    release.set()


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
@pytest.mark.parametrize("limit", [None, 1.0])
def test_a_tools_own_time_out_error_is_its_own(runtime: str, limit: float | None) -> None:
    async def is_async() -> None:
        raise TimeoutError("the database did not answer")

    def plain() -> None:
        raise TimeoutError("the database did not answer")

    model = scripted(calls("a", "b"), says("ok"))
    tools = [bound("a", is_async, timeout_seconds=limit), bound("b", plain, timeout_seconds=limit)]
    events = turn(spec(model, tools, expose_errors=True), runtime=runtime)
    assert [event.result for event in finishes(events)] == ["TimeoutError: the database did not answer"] * 2


@pytest.mark.parametrize("limit", [None, 1.0])
def test_a_cancelled_inner_task_is_an_error_of_its_tool_and_not_of_the_turn(limit: float | None) -> None:
    async def inner() -> None:
        task = asyncio.ensure_future(asyncio.sleep(5))
        task.cancel()
        await task

    events = turn(
        spec(scripted(calls("inner"), says("ok")), [bound("inner", inner, timeout_seconds=limit)]), runtime="asyncio"
    )
    assert finishes(events)[0].is_error
    assert events[-1].text == "ok"  # type: ignore[union-attr]


def test_a_task_that_swallows_its_cancellation_does_not_outlive_its_limit(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async def stubborn() -> None:
            for _ in range(20):
                try:
                    await asyncio.sleep(0.1)
                except asyncio.CancelledError:
                    continue

        began = time.monotonic()
        with pytest.raises(StepTimeoutError):
            await limited(stubborn(), 0.05)
        assert time.monotonic() - began < 1.0
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            await task

    asyncio.run(main())
    assert "swallowed its cancellation" in caplog.text


def test_limited_tells_an_inner_cancellation() -> None:
    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        with pytest.raises(StepCancelledError):
            await limited(future, 1.0)

    asyncio.run(main())


def test_limited_is_cancelled_with_its_caller() -> None:
    ended: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(5)
        finally:
            ended.append(True)

    async def main() -> None:
        task = asyncio.ensure_future(limited(work(), 5))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == [True]


# -- asyncio ---------------------------------------------------------------------------------------


def test_plain_read_only_tools_overlap_in_threads_and_do_not_block_the_loop() -> None:
    ticks: list[float] = []

    async def main() -> float:
        async def tick() -> None:
            while True:
                ticks.append(time.monotonic())
                await asyncio.sleep(0.02)

        ticker = asyncio.create_task(tick())
        model = scripted(calls("nap", "nap"), says("ok"))
        given = spec(model, [bound("nap", lambda: time.sleep(0.4), read_only=True)])
        began = time.monotonic()
        await collect(run_turn(start_run("r"), given, AsyncioRuntime(), prompt=Message.user("go")))
        spent = time.monotonic() - began
        ticker.cancel()
        return spent

    assert asyncio.run(main()) < 0.7
    assert len(ticks) >= 10


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
def test_context_variables_reach_every_tool(runtime: str) -> None:
    seen: list[str] = []

    def plain() -> None:
        seen.append(USER.get())

    async def is_async() -> None:
        seen.append(USER.get())

    token = USER.set("ada")
    try:
        tools = [bound("plain", plain), bound("timed", plain, timeout_seconds=5.0), bound("is_async", is_async)]
        turn(spec(scripted(calls("plain", "timed", "is_async"), says("ok")), tools), runtime=runtime)
    finally:
        USER.reset(token)
    assert seen == ["ada", "ada", "ada"]


def test_no_more_tools_than_slots_run_at_once() -> None:
    running = 0
    most = 0

    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1

    given = spec(scripted(calls(*["work"] * 8), says("ok")), [bound("work", work, read_only=True)])
    asyncio.run(collect(run_turn(start_run("r"), given, AsyncioRuntime(max_tools=3), prompt=Message.user("go"))))
    assert most == 3


def test_a_cancelled_turn_leaves_no_task_no_stream_and_no_thread() -> None:
    before = threads()
    stopped: list[str] = []

    async def wait(name: str) -> None:
        try:
            await asyncio.sleep(10)
        finally:
            stopped.append(name)

    async def main() -> None:
        model = scripted(calls(call("wait", {"name": "a"}), call("wait", {"name": "b"}), text="hold on"), says("never"))
        given = spec(model, [bound("wait", wait, read_only=True)])
        events = run_turn(start_run("r"), given, AsyncioRuntime(), prompt=Message.user("go"))
        task = asyncio.create_task(collect(events))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert all(stream.closed for stream in model.streams)

    asyncio.run(main())
    assert sorted(stopped) == ["a", "b"]
    assert left_behind(before) == set()


def test_a_cancelled_turn_abandons_only_its_plain_functions(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()
    before = threads()

    async def main() -> None:
        given = spec(scripted(calls("block")), [bound("block", lambda: release.wait(5))])
        task = asyncio.create_task(
            collect(run_turn(start_run("r"), given, AsyncioRuntime(), prompt=Message.user("go")))
        )
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [thread.name for thread in threads() - before] == ["sapwood-tool/r0c0/block"]

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "abandoned thread 'sapwood-tool/r0c0/block'" in caplog.text
    for thread in threads() - before:
        release.set()
        thread.join(2)
    assert left_behind(before) == set()


@pytest.mark.parametrize("waits", ["stream", "tool", "retry"])
def test_a_token_set_from_another_thread_ends_what_is_waiting_at_once(waits: str) -> None:
    token = CancelToken()
    closed: list[bool] = []

    class Stalls:
        profile = ModelProfile(provider="x", model="y")

        async def stream(self, request: ModelRequest) -> AsyncIterator[StreamChunk]:
            try:
                yield TextChunk("a")
                await asyncio.sleep(10)
            finally:
                closed.append(True)

    async def nap() -> None:
        await asyncio.sleep(10)

    async def main() -> None:
        from sapwood.core.errors import RateLimitError
        from sapwood.testing import fails

        model = {
            "stream": Stalls(),
            "tool": scripted(calls("nap")),
            "retry": scripted(fails(RateLimitError("wait", retry_after_seconds=10))),
        }[waits]
        given = spec(model, [bound("nap", nap)], cancel=token)  # type: ignore[arg-type]
        threading.Timer(0.1, lambda: token.cancel("enough")).start()
        began = time.monotonic()
        with pytest.raises(RunCancelledError, match="enough"):
            await collect(run_turn(start_run("r"), given, AsyncioRuntime(cancel=token), prompt=Message.user("go")))
        assert time.monotonic() - began < 2
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    if waits == "stream":
        assert closed == [True]


def test_the_loop_goes_on_while_a_cancelled_function_is_given_time_to_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sapwood.runtime.aio.ENDING_SECONDS", 5)
    release = threading.Event()

    async def main() -> None:
        running = AsyncioRuntime().call("tool/r0c0/wait", release.wait, effect=True)
        task = asyncio.create_task(running)
        await asyncio.sleep(0.05)
        began = time.monotonic()
        task.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert not task.done(), "it waits, and others run meanwhile"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 2, "a second cancel ends the wait"

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    release.set()
    assert "abandoned thread 'sapwood-tool/r0c0/wait'" in caplog.text


def test_an_outer_cancellation_stays_one_when_a_token_is_there() -> None:
    async def main() -> None:
        token = CancelToken()

        async def nap() -> None:
            await asyncio.sleep(10)

        given = spec(scripted(calls("nap")), [bound("nap", nap)], cancel=token)
        runtime = AsyncioRuntime(cancel=token)
        task = asyncio.create_task(collect(run_turn(start_run("r"), given, runtime, prompt=Message.user("go"))))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_res_07_interpreter_signals_reach_the_caller(runtime: str, signal: type[BaseException]) -> None:
    def stop() -> None:
        raise signal

    from sapwood.loop.spec import LiveTurn
    from sapwood.loop.start import finished_transcript

    given = spec(scripted(calls("stop", "stop"), says("never")), [bound("stop", stop, read_only=True)])
    live = LiveTurn(start_run("r"), given)
    with pytest.raises(signal):
        turn(given, runtime=runtime, live=live)
    after = finished_transcript(given.history, live.run)
    assert turn(spec(scripted(says("on")), history=after), "go on")[-1].text == "on"  # type: ignore[union-attr]


def test_one_failing_flow_ends_the_merge_and_the_others() -> None:
    ended: list[str] = []

    async def good() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.sleep(10)
        finally:
            ended.append("good")

    async def bad() -> AsyncIterator[int]:
        await asyncio.sleep(0.01)
        raise ValueError("bad flow")
        yield 0

    async def main() -> list[int]:
        seen: list[int] = []
        with pytest.raises(ValueError, match="bad flow"):
            async for item in AsyncioRuntime().merge([good(), bad()]):  # type: ignore[list-item]
                seen.append(item)
        return seen

    assert asyncio.run(main()) == [1]
    assert ended == ["good"]


def test_a_cancel_that_comes_when_a_leaf_is_just_over_stops_nothing_else() -> None:
    """The wish was scheduled while a leaf waited; by the time it runs the task does something else."""

    async def main() -> str:
        token = CancelToken()
        runtime = AsyncioRuntime(cancel=token)

        def leaf() -> str:
            token.cancel()  # schedules the wish; the leaf ends before the loop comes to it
            return "done"

        result = await runtime.call("leaf", leaf)
        await asyncio.sleep(0)  # where a stray cancellation would land
        return result

    assert asyncio.run(asyncio.wait_for(main(), 5)) == "done"


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
def test_what_a_tool_has_done_stays_known_when_the_turn_is_cancelled_meanwhile(runtime: str) -> None:
    from sapwood.loop.spec import LiveTurn
    from sapwood.loop.start import finished_transcript

    token = CancelToken()

    def write() -> str:
        token.cancel("enough")
        return "written"

    given = spec(scripted(calls("write"), says("never")), [bound("write", write)], cancel=token)
    live = LiveTurn(start_run("r"), given)
    with pytest.raises(RunCancelledError):
        turn(given, runtime=runtime, live=live, cancel=token)
    (result,) = finished_transcript(given.history, live.run)[-1].tool_results
    assert (result.text, result.is_error) == ("written", False)


def test_a_token_ends_an_async_tool_of_a_blocking_turn_at_once() -> None:
    token = CancelToken()

    async def nap() -> None:
        await asyncio.sleep(5)

    given = spec(scripted(calls("nap")), [bound("nap", nap)], cancel=token)
    threading.Timer(0.1, token.cancel).start()
    began = time.monotonic()
    with pytest.raises(RunCancelledError):
        turn(given, cancel=token)
    assert time.monotonic() - began < 2


def test_a_stream_that_breaks_after_a_cancel_is_a_cancelled_turn() -> None:
    from sapwood.core.errors import ServerError

    token = CancelToken()

    class Breaks:
        profile = ModelProfile(provider="x", model="y")

        def stream(self, request: ModelRequest) -> Iterator[StreamChunk]:
            yield TextChunk("a")
            token.cancel("enough")
            raise ServerError("closed under us")

    with pytest.raises(RunCancelledError, match="enough"):
        turn(spec(Breaks(), cancel=token), cancel=token)  # type: ignore[arg-type]


@pytest.mark.parametrize("runtime", ["blocking", "asyncio"])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_cancelled_error_of_a_tools_own_is_an_error_result(runtime: str, kind: str) -> None:
    def plain() -> None:
        raise asyncio.CancelledError

    async def is_async() -> None:
        raise asyncio.CancelledError

    given = spec(scripted(calls("odd"), says("ok")), [bound("odd", plain if kind == "plain" else is_async)])
    events = turn(given, runtime=runtime)
    assert finishes(events)[0].is_error
    assert events[-1].text == "ok"  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # other threads of the tests run
@pytest.mark.parametrize("thread", ["same", "other"])
def test_a_forked_child_leaves_the_private_loop_of_its_parent_alone(thread: str) -> None:
    async def nap() -> str:
        await asyncio.sleep(5)
        return "slept"

    loops = PrivateLoops()
    assert loops.run(asyncio.sleep(0, "warm"), "warm") == "warm"
    codes: list[int] = []

    def fork() -> None:
        child = os.fork()
        if child == 0:  # pragma: no cover - the coverage of a child is not collected
            code = 1
            try:
                loops.close()
                assert loops.run(asyncio.sleep(0, "own"), "own") == "own"
                loops.close()
                code = 0
            finally:
                os._exit(code)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    if thread == "same":
        fork()
    else:  # the child drops what the thread of the loop held before it calls what was registered
        other = threading.Thread(target=fork)
        other.start()
        other.join()
    assert codes == [0]
    token = CancelToken()
    threading.Timer(0.1, token.cancel).start()
    began = time.monotonic()
    with pytest.raises(RunCancelledError):
        loops.run(nap(), "nap", cancel=token)
    assert time.monotonic() - began < 2
    loops.close()
