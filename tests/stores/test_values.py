"""What stores refuse to write, because nobody could read it again, or list what is kept with it."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sapwood import ConfigError, Message, StoreError
from sapwood.core.events import ApprovalResolved, LimitExtended, TurnStarted
from sapwood.core.messages import Text
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.stores.sqlite import SqliteStore

PROMPT = Message.user("Hi")
STRANGE: tuple[Any, ...] = (b"x", 7, uuid.UUID(int=1), "\ud800", "", ["c"])


@pytest.fixture(params=["sqlite", "in process"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    made: Any = SqliteStore(tmp_path / "values.db") if request.param == "sqlite" else InProcessStore()
    with made:
        yield made


@pytest.mark.parametrize(
    "event",
    [
        ApprovalResolved(key="r0c0", tool_call_id="r0c0", name="pay", approved=True, by=7),  # type: ignore[arg-type]
        ApprovalResolved(key="r0c0", tool_call_id="r0c0", name="pay", approved=True, reason=5),  # type: ignore[arg-type]
        LimitExtended(kind="tool_calls", amount=float("nan")),
        LimitExtended(kind="tool_calls", amount=10**400),
    ],
)
def test_an_event_that_could_not_be_read_again_is_refused_with_all_that_came_with_it(store: Any, event: Any) -> None:
    first = TurnStarted(run_id="r1", prompt=PROMPT)
    with pytest.raises(StoreError, match=f"a {event.type} of run 'r0' .* stored"):
        store.runs.begin("r0", "c1", 0, PROMPT, first=[event])
    fence = store.runs.begin("r1", "c1", 0, PROMPT)
    with pytest.raises(StoreError, match=f"a {event.type} of run 'r1' .* stored"):
        store.runs.append("r1", [first, event], after=0, fence=fence)
    assert store.runs.events("r1") == []
    assert store.runs.append("r1", [first], after=0, fence=fence) == 1
    assert [item.run_id for item in store.runs.list()] == ["r1"]


def test_a_message_that_could_not_be_read_again_is_refused(store: Any) -> None:
    strange = Message("user", (Text(5),))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="a message of conversation 'c1' could not be read again, so it is not stored"):
        store.conversations.append("c1", [PROMPT, strange], after=0, run_id="r1", fence=0)
    with pytest.raises(StoreError, match="a message of the past of run 'r1' could not be read again"):
        store.runs.begin("r1", None, 0, PROMPT, past=[strange])
    assert store.conversations.load("c1").messages == ()
    assert store.runs.list() == []


@pytest.mark.parametrize("strange", STRANGE, ids=repr)
def test_an_id_that_is_no_text_is_refused_wherever_it_is_given(store: Any, strange: Any) -> None:
    runs, conversations = store.runs, store.conversations
    taking: list[Callable[[], object]] = [
        lambda: runs.begin(strange, None, 0, PROMPT),
        lambda: runs.begin("r1", strange, 0, PROMPT),
        lambda: runs.append(strange, [], after=0, fence=1),
        lambda: runs.claim(strange),
        lambda: runs.load(strange),
        lambda: runs.events(strange),
        lambda: runs.summary(strange),
        lambda: runs.delete(strange),
        lambda: runs.waiting(strange),
        lambda: runs.list(conversation_id=strange),
        lambda: conversations.load(strange),
        lambda: conversations.append(strange, [PROMPT], after=0, run_id="r1", fence=0),
        lambda: conversations.append("c1", [PROMPT], after=0, run_id=strange, fence=0),
        lambda: conversations.delete(strange),
    ]
    for take in taking:
        with pytest.raises(ConfigError, match=r"the id of a (run|conversation) "):
            take()
    assert (list(runs.list()), list(runs.waiting()), list(conversations.list())) == ([], [], [])
