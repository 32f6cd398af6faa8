"""The transcript against a plain list, branches and threads included, and what is derived from it."""

import threading
from collections.abc import Callable
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sapwood.core.messages import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    Recalled,
    Summary,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from sapwood.core.transcript import (
    INTERRUPTED,
    Joined,
    Running,
    Transcript,
    active_skills,
    exchanges,
    is_blank,
    is_protected,
    loaded_names,
    pending_calls,
    repair,
)
from support.examples import examples

_messages = st.lists(st.builds(Message.user, st.text(max_size=3)), max_size=4)


def digest(before: int, message: Message) -> int:
    """A fold that notices a message that is missing, repeated or out of order."""
    return hash((before, message.text))


def fresh(transcript: Transcript) -> int:
    return reduce(digest, tuple(transcript), 0)


def running(transcript: Transcript) -> int:
    return transcript.derived("digest", lambda: Running(0, digest)).upto(transcript)


class Branches(RuleBasedStateMachine):
    """Any number of branches from any point, beside plain lists of the same messages."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[Transcript, tuple[Message, ...]]] = [(Transcript(), ())]

    def at(self, place: int) -> tuple[Transcript, tuple[Message, ...]]:
        return self.pairs[place % len(self.pairs)]

    @rule(place=st.integers(0, 99), new=_messages)
    def extend(self, place: int, new: list[Message]) -> None:
        transcript, model = self.at(place)
        self.pairs.append((transcript.extend(new), (*model, *new)))

    @rule(new=_messages)
    def extend_the_tip(self, new: list[Message]) -> None:
        self.extend(-1 % len(self.pairs), new)

    @rule(place=st.integers(0, 99))
    def fold(self, place: int) -> None:
        transcript, _ = self.at(place)
        assert running(transcript) == fresh(transcript)

    @precondition(lambda self: len(self.pairs) < 40)
    @rule(place=st.integers(0, 99), first=_messages, second=_messages)
    def two_threads_extend_one_point(self, place: int, first: list[Message], second: list[Message]) -> None:
        transcript, model = self.at(place)
        done = both(lambda: transcript.extend(first), lambda: transcript.extend(second))
        self.pairs += [(done[0], (*model, *first)), (done[1], (*model, *second))]

    @precondition(lambda self: len(self.pairs) < 40)
    @rule(place=st.integers(0, 99), new=_messages)
    def two_threads_fold_while_one_extends(self, place: int, new: list[Message]) -> None:
        transcript, model = self.at(place)
        longer = transcript.extend(new)
        assert both(lambda: running(longer), lambda: running(transcript)) == [fresh(longer), fresh(transcript)]
        self.pairs.append((longer, (*model, *new)))

    @invariant()
    def every_branch_is_what_it_was_made_of(self) -> None:
        for transcript, model in self.pairs:
            assert tuple(transcript) == model
            assert len(transcript) == len(model)

    def teardown(self) -> None:
        for transcript, model in self.pairs:
            assert running(transcript) == reduce(digest, model, 0)


def both(first: Callable[[], Any], second: Callable[[], Any]) -> list[Any]:
    """Run both in threads that start together."""
    found: list[Any] = [None, None]
    start = threading.Barrier(2)

    def work(place: int, fn: Callable[[], Any]) -> None:
        start.wait()
        found[place] = fn()

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate((first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


TestBranches = Branches.TestCase
TestBranches.settings = examples(60, stateful_step_count=30, deadline=None)


@given(messages=_messages, index=st.integers(-6, 6), cut=st.slices(6))
def test_it_is_read_as_a_tuple_is(messages: list[Message], index: int, cut: slice) -> None:
    transcript, model = Transcript().extend(messages), tuple(messages)
    assert transcript[cut] == model[cut]
    if -len(model) <= index < len(model):
        assert transcript[index] == model[index]
    else:
        with pytest.raises(IndexError, match=f"message {index} of {len(model)}"):
            transcript[index]


@given(first=_messages, second=_messages, index=st.integers(-9, 9), cut=st.slices(8))
def test_two_sequences_are_read_as_one(first: list[Message], second: list[Message], index: int, cut: slice) -> None:
    joined, model = Joined(first, second), (*first, *second)
    assert (len(joined), tuple(joined), joined[cut]) == (len(model), model, model[cut])
    if -len(model) <= index < len(model):
        assert joined[index] == model[index]
    else:
        with pytest.raises(IndexError, match=f"message {index} of {len(model)}"):
            joined[index]


def test_an_empty_extension_is_the_same_transcript() -> None:
    transcript = Transcript.of([Message.user("a")])
    assert transcript.extend([]) is transcript
    assert Transcript.of(transcript) is transcript
    assert repr(transcript) == "Transcript(1 messages)"


def test_equal_transcripts_have_one_hash_however_they_were_made() -> None:
    whole = Transcript.of([Message.user("a"), Message.assistant("b")])
    grown = Transcript.of([Message.user("a")]).extend([Message.assistant("b")])
    assert whole == grown
    assert hash(whole) == hash(grown)
    assert len({whole, grown}) == 1
    assert whole != (Message.user("a"), Message.assistant("b"))


class Kept:
    """Something derived that knows whose copy it is."""

    def __init__(self, origin: str) -> None:
        self.origin = origin

    def forked(self, length: int) -> "Kept":
        return Kept(f"{self.origin}, first {length}")


def test_what_is_derived_is_made_once_for_a_branch_and_forked_for_the_next() -> None:
    made: list[str] = []

    def make() -> Kept:
        made.append("made")
        return Kept("first")

    start = Transcript.of([Message.user("a")])
    tip = start.extend([Message.user("b")])
    first = start.derived("key", make)
    assert start.derived("key", make) is tip.derived("key", make) is first
    other = start.extend([Message.user("c")])
    assert other.derived("key", make).origin == "first, first 1"
    assert made == ["made"]


def test_a_fold_is_not_made_again_for_the_shared_part_of_a_branch() -> None:
    visited: list[str] = []

    def step(before: int, message: Message) -> int:
        visited.append(message.text)
        return before + 1

    start = Transcript.of([Message.user("a"), Message.user("b")])
    tip, other = start.extend([Message.user("c")]), start.extend([Message.user("d")])
    assert tip.derived("n", lambda: Running(0, step)).upto(tip) == 3
    again = start.extend([Message.user("e")])
    assert [item.derived("n", lambda: Running(0, step)).upto(item) for item in (again, other)] == [3, 3]
    assert visited == ["a", "b", "c", "e", "a", "b", "d"]  # `other` branched off before there was a fold


def test_a_fold_visits_each_message_once() -> None:
    visited: list[str] = []

    def step(before: int, message: Message) -> int:
        visited.append(message.text)
        return before + 1

    fold = Running(0, step)
    start = Transcript.of([Message.user("a"), Message.user("b")])
    tip = start.extend([Message.user("c")])
    assert [fold.upto(start), fold.upto(tip), fold.upto(tip), fold.upto(start), fold.upto(Transcript())] == [
        2,
        3,
        3,
        2,
        0,
    ]
    assert visited == ["a", "b", "c"]


# -- pure functions over messages ---------------------------------------------------------------

USER = Message.user("go")
CALL = ToolCall("add", {"a": 1}, key="r0c0", id="x")
NEXT = ToolCall("add", {"a": 2}, key="r0c1", id="y")
ONE = ToolResult("r0c0", "add", (Text("1"),))
TWO = ToolResult("r0c1", "add", (Text("2"),))


def answer(*results: ToolResult) -> Message:
    return Message("tool", results)


def lost(key: str) -> ToolResult:
    return ToolResult(key, "add", (Text(INTERRUPTED),), is_error=True)


ASKED = Message.assistant(CALL, NEXT)
REPAIRS: list[tuple[str, list[Message], list[Message]]] = [
    ("valid", [USER, ASKED, answer(ONE, TWO)], [USER, ASKED, answer(ONE, TWO)]),
    ("nothing", [], []),
    ("no result", [USER, ASKED], [USER, ASKED, answer(lost("r0c0"), lost("r0c1"))]),
    ("one result", [ASKED, answer(TWO), USER], [ASKED, answer(lost("r0c0"), TWO), USER]),
    ("out of order", [ASKED, answer(TWO, ONE)], [ASKED, answer(ONE, TWO)]),
    ("in two messages", [ASKED, answer(TWO), answer(ONE)], [ASKED, answer(ONE, TWO)]),
    ("answered twice", [ASKED, answer(ONE, TWO, ONE.replace(is_error=True))], [ASKED, answer(ONE, TWO)]),
    ("a stray result", [USER, answer(ONE), Message.assistant("b")], [USER, Message.assistant("b")]),
    ("a stray beside", [ASKED, answer(ONE, TWO, ToolResult("zz", "", (Text("?"),)))], [ASKED, answer(ONE, TWO)]),
    (
        "results too late",
        [ASKED, USER, answer(ONE, TWO)],
        [ASKED, answer(lost("r0c0"), lost("r0c1")), USER],
    ),
    ("without content", [USER, Message("assistant", ()), Message("user", ())], [USER]),
    (
        "by the provider's id",
        [USER, Message.assistant(ToolCall("add", id="x"), "and", ToolCall("sub", id="y")),
         answer(ToolResult("y", "", (Text("s"),)), ToolResult("x", "", (Text("a"),)))],
        [USER, Message.assistant(ToolCall("add", key="h1c0", id="x"), "and", ToolCall("sub", key="h1c1", id="y")),
         answer(ToolResult("h1c0", "add", (Text("a"),)), ToolResult("h1c1", "sub", (Text("s"),)))],
    ),
    (
        "one id twice",
        [Message.assistant(ToolCall("add", {"a": 1}, id="x"), ToolCall("add", {"a": 2}, id="x")),
         answer(ToolResult("x", "", (Text("1"),)), ToolResult("x", "", (Text("2"),)))],
        [Message.assistant(ToolCall("add", {"a": 1}, "h0c0", "x"), ToolCall("add", {"a": 2}, "h0c1", "x")),
         answer(ToolResult("h0c0", "add", (Text("1"),)), ToolResult("h0c1", "add", (Text("2"),)))],
    ),
    (
        "one key twice",
        [Message.assistant(CALL, CALL), answer(ONE)],
        [Message.assistant(CALL.replace(key="h0c0"), CALL.replace(key="h0c1")),
         answer(ONE.replace(key="h0c0"), lost("h0c1"))],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "valid"), [row[1:] for row in REPAIRS], ids=[row[0] for row in REPAIRS])
def test_repair(given_: list[Message], valid: list[Message]) -> None:
    assert repair(given_) == tuple(valid)
    assert tuple(Transcript.of(given_)) == tuple(valid)
    assert repair(valid) == tuple(valid)


_ids = st.sampled_from(["", "x", "y", "z"])
_calls = st.builds(ToolCall, st.just("t"), key=_ids, id=_ids)
_results = st.builds(ToolResult, _ids, st.just("t"), st.just((Text("ok"),)))
_any_messages = st.lists(
    st.one_of(
        st.builds(lambda text: Message.user(text), st.sampled_from(["", "a"])),
        st.builds(lambda parts: Message("assistant", tuple(parts)), st.lists(_calls | st.just(Text("t")), max_size=3)),
        st.builds(lambda parts: Message("tool", tuple(parts)), st.lists(_results, max_size=3)),
    ),
    max_size=8,
)


@given(messages=_any_messages)
def test_repair_pairs_any_messages_and_doing_it_twice_changes_nothing(messages: list[Message]) -> None:
    fixed = repair(messages)
    for place, message in enumerate(fixed):
        assert message.content
        if message.role == "tool":
            before = fixed[place - 1]
            assert [call.key for call in before.tool_calls] == [result.key for result in message.tool_results]
            assert len({result.key for result in message.tool_results}) == len(message.content)
        if message.tool_calls:
            assert fixed[place + 1].role == "tool"
    assert repair(fixed) == fixed
    assert pending_calls(fixed) == ()
    spoken = [message.text for message in messages if message.role != "tool" and message.content]
    assert [message.text for message in fixed if message.role != "tool"] == spoken


@given(messages=_any_messages)
def test_exchanges_lose_nothing_and_begin_with_no_result_but_the_first(messages: list[Message]) -> None:
    groups = exchanges(messages)
    assert [message for group in groups for message in group] == messages
    assert all(group[0].role != "tool" for group in groups[1:])
    assert all(message.role == "tool" for group in groups for message in group[1:])


PENDING: list[tuple[list[Message], tuple[ToolCall, ...]]] = [
    ([], ()),
    ([USER], ()),
    ([USER, ASKED], (CALL, NEXT)),
    ([USER, ASKED, answer(TWO)], (CALL,)),
    ([USER, ASKED, answer(ONE, TWO)], ()),
    ([USER, ASKED, answer(ONE, TWO), Message.assistant("done")], ()),
]


@pytest.mark.parametrize(("messages", "pending"), PENDING)
def test_pending_calls(messages: list[Message], pending: tuple[ToolCall, ...]) -> None:
    assert pending_calls(messages) == pending


def test_loaded_names_come_from_results_and_summaries_in_order_and_once() -> None:
    messages = [
        Message.user(Text("s")),
        Message("user", (Summary("so far", ("c", "a")),)),
        answer(ONE.replace(loaded=("b", "a")), TWO.replace(loaded=("d",))),
        Message.assistant("b"),
    ]
    assert loaded_names(messages) == ("c", "a", "b", "d")


BLANKS: list[tuple[Part, bool]] = [
    (Text(" \n"), True),
    (Text("a"), False),
    (Recalled("\t"), True),
    (Recalled("a"), False),
    (Summary(""), True),
    (Summary("a"), False),
    (Thinking(""), True),
    (Thinking(" "), False),
    (Thinking("", {"anthropic": {"signature": "s"}}), False),
    (ToolCall("a"), False),
    (ONE, False),
    (Image(), False),
    (File(), False),
    (Opaque("x", {}), False),
]


@pytest.mark.parametrize(("part", "blank"), BLANKS)
def test_is_blank(part: Part, blank: bool) -> None:
    assert is_blank(part) is blank


def test_what_carries_instructions_or_found_tools_outlives_a_compaction() -> None:
    """A search that found nothing, any other result and the words of people may go."""
    told = (Text("Use SQL."),)
    kept = [
        ToolResult("r0c0", "activate_skill", told, skill="reports"),
        ToolResult("r0c1", "activate_skill", told, skill="reports", loaded=("draw",)),
        ToolResult("r0c2", "search_tools", told, loaded=("draw",)),
    ]
    gone = [ToolResult("r0c3", "look", told), Text("hello"), ToolCall("activate_skill"), Summary("so far", ("draw",))]
    assert [is_protected(part) for part in (*kept, *gone)] == [True] * 3 + [False] * 4


def test_active_skills_are_read_from_the_results_that_carry_them() -> None:
    one = ToolResult("r0c0", "activate_skill", (Text("a"),), skill="a")
    two = ToolResult("r0c1", "activate_skill", (Text("b"),), skill="b")
    again = ToolResult("r1c0", "activate_skill", (Text("a"),), skill="a")
    messages = [Message("tool", (one, two)), Message.user("x"), Message("tool", (again,)), Message.assistant("b")]
    assert active_skills(messages) == ("a", "b")
    assert active_skills(messages[1:]) == ("a",)
    assert active_skills([]) == ()
