"""The contract of run and conversation stores, as tests for one of your own.

Laws: plain asserts and no test framework; what a store may do in more than one way is not asked. A store may be
plain or async.
"""

from typing import Any

from sapwood.core.diagnostics import Cause
from sapwood.core.errors import ConflictError, ConversationBusyError, HistoryDiverged, StoreError, TooLargeError
from sapwood.core.events import AgentEvent, ContextUpdated, TextDelta, TurnResumed, TurnStarted
from sapwood.core.memory import MemoryRecord
from sapwood.core.messages import Message, ToolCall
from sapwood.core.stored import Compacted
from sapwood.testing.store_turns import (
    PROMPT,
    Stores,
    added,
    at_once,
    called,
    done,
    ended,
    every_part,
    finished,
    ids_of,
    one_turn,
    refused,
    running,
    started,
)

__all__ = ["StoreContract", "Stores"]


class StoreContract:
    """Tests for one kind of store. Subclass it under a name that your runner finds.

    >>> from sapwood.stores.in_process_runs import InProcessStore
    >>> class TestMine(StoreContract):
    ...     def opened(self):
    ...         return InProcessStore()
    ...     def reopened(self, store):
    ...         return store.reopened()
    >>> TestMine().test_a_turn_is_added_once()
    """

    def opened(self) -> Stores:
        """Return a new and empty store."""
        raise NotImplementedError

    def reopened(self, store: Any) -> Stores:
        """Return the same content as another process sees it to which the holders of `store` count as dead.

        The old one stays usable: it is what wakes up too late.
        """
        raise NotImplementedError

    # ---- conversations

    def test_an_unknown_conversation_is_empty(self) -> None:
        """It has no messages and version 0, and is in no list."""
        store = self.opened()
        found = done(store.conversations.load("nobody"))
        assert (found.id, found.messages, found.version) == ("nobody", (), 0)
        assert list(done(store.conversations.list())) == []
        assert done(store.conversations.delete("nobody")) is False
        store.close()

    def test_messages_come_back_as_they_were(self) -> None:
        """Every kind of part survives, in order."""
        store = self.opened()
        messages = every_part()
        reached = added(store, messages, after=0, run_id="r1")
        found = done(store.conversations.load("c1"))
        assert found.messages == tuple(messages)
        assert found.version == reached > 0
        store.close()

    def test_what_is_kept_is_a_copy(self) -> None:
        """Changing what was given, or what was returned, changes nothing in the store."""
        store = self.opened()
        arguments: dict[str, Any] = {"a": 1}
        added(store, [Message("assistant", (ToolCall("add", arguments, key="r0c0"),))], after=0, run_id="r1")
        arguments["a"] = 2
        for _ in range(2):
            (message,) = done(store.conversations.load("c1")).messages
            assert message.tool_calls[0].arguments == {"a": 1}
            message.tool_calls[0].arguments["a"] = 3
        store.close()

    def test_a_turn_is_added_once(self) -> None:
        """The append of a run that was added returns the version of then, whatever it is given."""
        store = self.opened()
        first = added(store, one_turn(1), after=0, run_id="r1")
        second = added(store, one_turn(2), after=first, run_id="r2")
        assert added(store, one_turn(1), after=0, run_id="r1") == first
        assert added(store, one_turn(9), after=second, run_id="r2") == second
        assert done(store.conversations.load("c1")).messages == (*one_turn(1), *one_turn(2))
        store.close()

    def test_an_append_after_another_version_is_refused(self) -> None:
        """Both versions are named, and nothing was written."""
        store = self.opened()
        first = added(store, one_turn(1), after=0, run_id="r1")
        problem = refused(ConflictError, added, store, one_turn(2), after=first + 7, run_id="r2")
        assert str(first) in problem
        assert str(first + 7) in problem
        assert done(store.conversations.load("c1")).version == first
        store.close()

    def test_messages_that_a_compaction_left_out_are_shown_no_more(self) -> None:
        """`upto` counts from the first message that is shown."""
        store = self.opened()
        version = 0
        for number in range(4):
            version = added(store, one_turn(number), after=version, run_id=f"r{number}")
        version = added(store, one_turn(4), after=version, run_id="r4", compacted=Compacted(upto=4))
        version = added(store, one_turn(5), after=version, run_id="r5", compacted=Compacted(upto=2))
        found = done(store.conversations.load("c1"))
        assert found.messages == (*one_turn(3), *one_turn(4), *one_turn(5))
        assert found.version == version
        store.close()

    def test_messages_that_a_compaction_replaced_stay_replaced(self) -> None:
        """What is new, what stays and what stands there twice come in the order that was given."""
        store = self.opened()
        version = added(store, [*one_turn(0), *one_turn(0), *one_turn(1)], after=0, run_id="r0")
        past = (Message.user("In short: a lot."), *one_turn(1), *one_turn(0))
        version = added(store, one_turn(2), after=version, run_id="r1", compacted=Compacted(past=past))
        assert done(store.conversations.load("c1")).messages == (*past, *one_turn(2))
        version = added(store, one_turn(3), after=version, run_id="r2")
        before, version = version, added(store, [], after=version, run_id="r3", compacted=Compacted(past=()))
        assert version > before, "two that shorten it at once must notice each other"
        assert done(store.conversations.load("c1")).messages == ()
        added(store, one_turn(4), after=version, run_id="r4")
        assert done(store.conversations.load("c1")).messages == tuple(one_turn(4))
        store.close()

    def test_conversations_are_apart(self) -> None:
        """One is not shown, changed or deleted with another."""
        store = self.opened()
        for name in ("c1", "c2", "c3"):
            added(store, one_turn(1), after=0, run_id=f"of-{name}", conversation_id=name)
        assert [item.id for item in done(store.conversations.list())] == ["c3", "c2", "c1"]
        assert [item.id for item in done(store.conversations.list(limit=1))] == ["c3"]
        assert [item.id for item in done(store.conversations.list(before="c3"))] == ["c2", "c1"]
        assert [item.id for item in done(store.conversations.list(before="c3", limit=1))] == ["c2"]
        assert list(done(store.conversations.list(before="nobody"))) == []
        assert [item.id for item in done(store.conversations.list(prefix="c"))] == ["c3", "c2", "c1"]
        assert [item.id for item in done(store.conversations.list(prefix="c2"))] == ["c2"]
        assert list(done(store.conversations.list(prefix="%"))) == []
        assert done(store.conversations.delete("c2")) is True
        assert [item.id for item in done(store.conversations.list())] == ["c3", "c1"]
        assert done(store.conversations.load("c2")).version == 0
        assert done(store.conversations.load("c1")).messages == tuple(one_turn(1))
        store.close()

    # ---- runs

    def test_a_run_is_the_fold_of_its_events(self) -> None:
        """Events come back as they were, without deltas, and numbered."""
        store = self.opened()
        fence = done(store.runs.begin("r1", None, 0, PROMPT))
        events: list[AgentEvent] = [*started(), *called(), running(), finished()]
        with_deltas = [*events[:1], TextDelta(text="He"), *events[1:]]
        version = done(store.runs.append("r1", with_deltas, after=0, fence=fence))
        assert version == len(events)
        assert list(done(store.runs.events("r1"))) == events
        assert list(done(store.runs.events("r1", after=3))) == events[3:]
        run = done(store.runs.load("r1"))
        assert (run.run_id, run.phase, len(run.messages)) == ("r1", "replied", 3)
        store.close()

    def test_an_unknown_run_is_an_error(self) -> None:
        """Every method says that there is none, but for deleting it."""
        store = self.opened()
        for method in (store.runs.load, store.runs.events, store.runs.summary, store.runs.claim):
            assert "nobody" in refused(StoreError, method, "nobody")
        assert "nobody" in refused(StoreError, store.runs.append, "nobody", started(), after=0, fence=1)
        assert done(store.runs.delete("nobody")) is False
        done(store.runs.release("nobody", 1))
        store.close()

    def test_a_run_begins_once(self) -> None:
        """A second begin of one id is refused."""
        store = self.opened()
        done(store.runs.begin("r1", None, 0, PROMPT))
        assert "r1" in refused(ConflictError, store.runs.begin, "r1", None, 0, PROMPT)
        store.close()

    def test_events_after_another_version_are_refused(self) -> None:
        """Both versions are named, and nothing was written."""
        store = self.opened()
        fence = done(store.runs.begin("r1", None, 0, PROMPT))
        done(store.runs.append("r1", started(), after=0, fence=fence))
        problem = refused(ConflictError, store.runs.append, "r1", called(), after=0, fence=fence)
        assert "1" in problem
        assert "0" in problem
        assert len(done(store.runs.events("r1"))) == 1
        store.close()

    def test_events_are_added_all_or_none(self) -> None:
        """One that cannot be stored takes the others back."""
        store = self.opened()
        fence = done(store.runs.begin("r1", None, 0, PROMPT))
        done(store.runs.append("r1", [*started(), *called(), running("d1")], after=0, fence=fence))
        bad = [ContextUpdated(source="m", op="failed"), running("d2", 2)]
        refused(HistoryDiverged, store.runs.append, "r1", bad, after=4, fence=fence)
        assert len(done(store.runs.events("r1"))) == 4
        store.close()

    def test_a_call_runs_with_the_arguments_that_were_recorded(self) -> None:
        """The same digest may come again, another one is refused."""
        store = self.opened()
        fence = done(store.runs.begin("r1", None, 0, PROMPT))
        version = done(store.runs.append("r1", [*started(), *called(), running("d1")], after=0, fence=fence))
        problem = refused(HistoryDiverged, store.runs.append, "r1", [running("d2", 2)], after=version, fence=fence)
        assert "d1" in problem
        assert "d2" in problem
        assert done(store.runs.append("r1", [running("d1", 2)], after=version, fence=fence)) == version + 1
        store.close()

    def test_what_cannot_be_stored_is_named(self) -> None:
        """An event over the limit, and one that is no JSON."""
        store = self.opened()
        fence = done(store.runs.begin("r1", None, 0, PROMPT))
        large = TurnStarted(run_id="r1", prompt=Message.user("x" * (17 * 1024 * 1024)))
        assert "turn_started" in refused(TooLargeError, store.runs.append, "r1", [large], after=0, fence=fence)
        strange = ContextUpdated(source="m", op="saved", records=(MemoryRecord("1", "x", 0, meta={"x": object()}),))
        assert "context_updated" in refused(StoreError, store.runs.append, "r1", [strange], after=0, fence=fence)
        assert done(store.runs.append("r1", started(), after=0, fence=fence)) == 1
        store.close()

    def test_a_run_that_ended_takes_nothing_more(self) -> None:
        """Neither events nor a claim; it says that it has ended."""
        store = self.opened()
        fence = done(store.runs.begin("r1", "c1", 0, PROMPT))
        version = done(store.runs.append("r1", [*started(), *ended()], after=0, fence=fence))
        more = [ContextUpdated(source="m", op="saved")]
        assert "ended" in refused(StoreError, store.runs.append, "r1", more, after=version, fence=fence)
        assert "ended" in refused(StoreError, store.runs.claim, "r1")
        assert done(store.runs.summary("r1")).status == "ended"
        assert list(done(store.runs.waiting())) == []
        store.close()

    def test_nothing_comes_after_the_end_in_one_append(self) -> None:
        """A TurnFinished is the last event of its segment."""
        store = self.opened()
        fence = done(store.runs.begin("r1", None, 0, PROMPT))
        refused(StoreError, store.runs.append, "r1", [*ended(), *started()], after=0, fence=fence)
        assert done(store.runs.append("r1", started(), after=0, fence=fence)) == 1
        store.close()

    def test_a_paused_run_waits_for_whoever_claims_it(self) -> None:
        """Its conversation is free meanwhile, its old fence is not valid, and it goes on as it was."""
        for cause in ("approval", "limit_ask"):
            store = self.opened()
            fence = done(store.runs.begin("r1", "c1", 0, PROMPT))
            version = done(store.runs.append("r1", [*started(), *called(), *ended(cause)], after=0, fence=fence))
            assert [item.status for item in done(store.runs.waiting("c1"))] == ["paused"]
            resumed: list[AgentEvent] = [TurnResumed(run_id="r1")]
            refused(ConflictError, store.runs.append, "r1", resumed, after=version, fence=fence)
            taken = done(store.runs.claim("r1"))
            assert (taken.run.phase, taken.version, taken.conversation_id) == ("paused", version, "c1")
            assert taken.fence > fence
            version = done(store.runs.append("r1", resumed, after=version, fence=taken.fence))
            assert done(store.runs.summary("r1")).status == "running"
            done(store.runs.release("r1", taken.fence))
            assert done(store.runs.summary("r1")).status == "interrupted", "it waits for nobody any more"
            taken = done(store.runs.claim("r1"))
            done(store.runs.append("r1", ended(), after=version, fence=taken.fence))
            assert done(store.runs.summary("r1")).stopped_by == "stop"
            store.close()

    def test_the_past_of_a_run_without_a_conversation_comes_back(self) -> None:
        """Also where several runs have the same past, or a longer one, and one of them is deleted."""
        store = self.opened()
        past: list[Message] = []
        for number in range(3):
            past += one_turn(number)
            fence = done(store.runs.begin(f"r{number}", None, 0, PROMPT, past=past))
            done(store.runs.release(f"r{number}", fence))
        assert done(store.runs.delete("r1")) is True
        assert done(store.runs.claim("r0")).past == tuple(one_turn(0))
        assert done(store.runs.claim("r2")).past == tuple(past)
        store.close()

    def test_runs_are_listed_the_last_first(self) -> None:
        """By state and by conversation, and no more than asked for."""
        store = self.opened()
        causes: dict[str, Cause] = {"r1": "stop", "r2": "approval", "r3": "stop"}
        for run_id, cause in causes.items():
            conversation_id = None if run_id == "r2" else "c1"
            fence = done(store.runs.begin(run_id, conversation_id, 0, PROMPT))
            done(store.runs.append(run_id, [*started(run_id), *ended(cause)], after=0, fence=fence))
        done(store.runs.begin("r4", "c1", 0, Message.user("word " * 100)))
        runs = store.runs
        assert ids_of(done(runs.list())) == ["r4", "r3", "r2", "r1"]
        assert ids_of(done(runs.list(limit=2))) == ["r4", "r3"]
        assert ids_of(done(runs.list(limit=2, before="r4"))) == ["r3", "r2"]
        assert ids_of(done(runs.list(before="nobody"))) == []
        assert ids_of(done(runs.list(status="ended"))) == ["r3", "r1"]
        assert ids_of(done(runs.list(status="running", conversation_id="c1"))) == ["r4"]
        assert ids_of(done(runs.list(status="paused", limit=0))) == []
        assert ids_of(done(runs.waiting())) == ["r4", "r2"]
        assert ids_of(done(runs.waiting("c1"))) == ["r4"]
        summary = done(runs.summary("r4"))
        assert len(summary.prompt) == 200
        assert summary.holder
        assert summary.started_at.tzinfo is not None
        store.close()

    def test_a_deleted_run_is_gone(self) -> None:
        """One that is held is not deleted."""
        store = self.opened()
        fence = done(store.runs.begin("r1", "c1", 0, PROMPT))
        refused(ConflictError, store.runs.delete, "r1")
        refused(ConversationBusyError, store.conversations.delete, "c1")
        done(store.runs.append("r1", [*started(), *ended()], after=0, fence=fence))
        assert done(store.runs.delete("r1")) is True
        refused(StoreError, store.runs.load, "r1")
        done(store.runs.begin("r2", "c1", 0, PROMPT))
        store.close()

    def test_the_runs_of_a_deleted_conversation_are_gone_with_it(self) -> None:
        """What they hold is what was said there."""
        store = self.opened()
        fence = done(store.runs.begin("r1", "c1", 0, PROMPT))
        done(store.runs.append("r1", [*started(), *ended()], after=0, fence=fence))
        assert done(store.conversations.delete("c1")) is True
        assert list(done(store.runs.list())) == []
        store.close()

    # ---- one turn at a time

    def test_a_conversation_has_one_turn_at_a_time(self) -> None:
        """The second is told which run is in the way; after its end, the next has a higher fence."""
        store = self.opened()
        first = done(store.runs.begin("r1", "c1", 0, PROMPT))
        assert "r1" in refused(ConversationBusyError, store.runs.begin, "r2", "c1", 0, PROMPT)
        done(store.runs.begin("r3", "c2", 0, PROMPT))
        done(store.runs.append("r1", [*started(), *ended()], after=0, fence=first))
        assert done(store.runs.begin("r2", "c1", 0, PROMPT)) > first
        store.close()

    def test_a_turn_starts_from_what_the_conversation_is(self) -> None:
        """A base that is no longer the newest version is refused before anything is spent."""
        store = self.opened()
        version = added(store, one_turn(1), after=0, run_id="r0")
        refused(ConflictError, store.runs.begin, "r1", "c1", version - 1, PROMPT)
        done(store.runs.begin("r1", "c1", version, PROMPT))
        done(store.runs.begin("r2", "kept-elsewhere", 7, PROMPT))
        store.close()

    def test_only_the_holder_adds_to_a_conversation(self) -> None:
        """A turn that nobody stores is refused while a stored one runs."""
        store = self.opened()
        fence = done(store.runs.begin("r1", "c1", 0, PROMPT))
        refused(ConflictError, added, store, one_turn(1), after=0, run_id="other")
        refused(ConflictError, added, store, one_turn(1), after=0, run_id="other", fence=fence)
        version = added(store, one_turn(1), after=0, run_id="r1", fence=fence)
        done(store.runs.append("r1", [*started(), *ended()], after=0, fence=fence))
        assert added(store, one_turn(2), after=version, run_id="other") > version
        store.close()

    def test_a_run_that_was_released_can_be_claimed_at_once(self) -> None:
        """Not before, and its old fence is of no use."""
        store = self.opened()
        fence = done(store.runs.begin("r1", "c1", 0, PROMPT))
        done(store.runs.append("r1", started(), after=0, fence=fence))
        refused(ConflictError, store.runs.claim, "r1")
        done(store.runs.release("r1", fence + 5))
        refused(ConflictError, store.runs.claim, "r1")
        done(store.runs.release("r1", fence))
        assert done(store.runs.summary("r1")).status == "interrupted"
        refused(ConflictError, store.runs.append, "r1", called(), after=1, fence=fence)
        taken = done(store.runs.claim("r1"))
        assert taken.fence > fence
        assert done(store.runs.append("r1", called(), after=1, fence=taken.fence)) == 3
        store.close()

    def test_a_paused_run_waits_until_its_conversation_is_free(self) -> None:
        """Another turn may have begun there meanwhile."""
        store = self.opened()
        fence = done(store.runs.begin("r1", "c1", 0, PROMPT))
        done(store.runs.append("r1", [*started(), *ended("approval")], after=0, fence=fence))
        done(store.runs.begin("r2", "c1", 0, PROMPT))
        assert "r2" in refused(ConversationBusyError, store.runs.claim, "r1")
        assert [item.run_id for item in done(store.conversations.list())] == ["r2"]
        assert done(store.runs.delete("r1")) is True
        assert "r2" in refused(ConversationBusyError, store.runs.begin, "r3", "c1", 0, PROMPT)
        store.close()

    def test_a_claim_has_a_higher_fence_than_any_turn_before_it(self) -> None:
        """Also than one that came in between; and nobody holds the conversation at the end."""
        store = self.opened()
        first = done(store.runs.begin("r1", "c1", 0, PROMPT))
        done(store.runs.append("r1", [*started(), *ended("approval")], after=0, fence=first))
        second = done(store.runs.begin("r2", "c1", 0, PROMPT))
        done(store.runs.append("r2", [*started(), *ended()], after=0, fence=second))
        third = done(store.runs.claim("r1")).fence
        assert first < second < third
        refused(ConflictError, added, store, one_turn(1), after=0, run_id="r2", fence=second)
        done(store.runs.append("r1", ended(), after=2, fence=third))
        assert [item.run_id for item in done(store.conversations.list())] == [None]
        store.close()

    def test_fences_of_another_run_store_count_as_well(self) -> None:
        """A lower one than was seen is refused, also after a turn that nobody stored."""
        store = self.opened()
        version = added(store, one_turn(1), after=0, run_id="r1", fence=5)
        version = added(store, one_turn(2), after=version, run_id="r2")
        refused(ConflictError, added, store, one_turn(3), after=version, run_id="r3", fence=3)
        added(store, one_turn(3), after=version, run_id="r3", fence=6)
        store.close()

    def test_who_was_taken_over_is_refused(self) -> None:
        """Whatever was acknowledged is there, and the old holder can neither add to the run nor to the conversation."""
        old = self.opened()
        fence = done(old.runs.begin("r1", "c1", 0, PROMPT))
        version = done(old.runs.append("r1", [*started(), *called()], after=0, fence=fence))
        new = self.reopened(old)
        assert done(new.runs.summary("r1")).status == "interrupted"
        taken = done(new.runs.claim("r1"))
        assert (taken.version, taken.run.phase) == (version, "replied")
        refused(ConflictError, old.runs.append, "r1", [running()], after=version, fence=fence)
        refused(ConflictError, added, old, one_turn(1), after=0, run_id="r1", fence=fence)
        done(old.runs.release("r1", fence))
        assert done(new.runs.append("r1", [running()], after=version, fence=taken.fence)) == version + 1
        alone = done(new.runs.begin("r2", None, 0, PROMPT))
        done(new.runs.release("r2", alone))
        assert done(new.runs.claim("r2")).fence > alone
        new.close()
        old.close()

    def test_a_dead_holder_is_in_nobodys_way(self) -> None:
        """A turn that nobody stores may go on, and the run may be deleted, which frees its conversation."""
        old = self.opened()
        done(old.runs.begin("r1", "c1", 0, PROMPT))
        new = self.reopened(old)
        assert added(new, one_turn(1), after=0, run_id="other") > 0
        assert [item.run_id for item in done(new.conversations.list())] == ["r1"]
        assert done(new.runs.delete("r1")) is True
        assert [item.run_id for item in done(new.conversations.list())] == [None]
        new.close()
        old.close()

    def test_a_turn_takes_the_conversation_of_a_dead_one(self) -> None:
        """The dead one's run stays, interrupted, and its late append is refused."""
        old = self.opened()
        fence = done(old.runs.begin("r1", "c1", 0, PROMPT))
        new = self.reopened(old)
        higher = done(new.runs.begin("r2", "c1", 0, PROMPT))
        assert higher > fence
        refused(ConflictError, old.runs.append, "r1", started(), after=0, fence=fence)
        assert {item.run_id: item.status for item in done(new.runs.waiting("c1"))} == {
            "r1": "interrupted",
            "r2": "running",
        }
        new.close()
        old.close()

    # ---- many at once

    def test_of_many_that_begin_at_once_one_does(self) -> None:
        """Each of the others is told that the conversation is busy."""
        store = self.opened()

        def begin(number: int) -> str:
            try:
                done(store.runs.begin(f"r{number}", "c1", 0, PROMPT))
            except ConversationBusyError:
                return "busy"
            return "begun"

        assert sorted(at_once(begin, 8)) == ["begun", *["busy"] * 7]
        store.close()

    def test_many_threads_lose_nothing(self) -> None:
        """Each run has its own events, in order."""
        store = self.opened()

        def work(number: int) -> str:
            run_id = f"r{number}"
            fence, version = done(store.runs.begin(run_id, f"c{number}", 0, PROMPT)), 0
            for event in (*started(run_id), *called(f"{number}"), running(), finished(str(number)), *ended()):
                version = done(store.runs.append(run_id, [event], after=version, fence=fence))
            return run_id

        for run_id in at_once(work, 12):
            run = done(store.runs.load(run_id))
            assert run.phase == "ended"
            assert run.messages[2].tool_results[0].text == run_id.removeprefix("r")
        store.close()
