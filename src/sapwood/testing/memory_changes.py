"""The part of the contract of memories that is about change: corrections, time, and forgetting.

Laws: as of `memories.py`, whose `MemoryContract` has these tests too.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from sapwood.core.errors import ConfigError
from sapwood.core.memory import MemoryRecord
from sapwood.testing.store_turns import done, refused


def ids_of(records: Iterable[MemoryRecord]) -> list[str]:
    """Return the ids of records, in their order."""
    return [record.id for record in records]


class ChangesContract:
    """Tests of what changes. Subclass `MemoryContract` instead, which has them all."""

    def opened(self) -> Any:
        """Return a new and empty memory."""
        raise NotImplementedError

    @staticmethod
    def agrees(memory: Any) -> None:
        """Assert that the memory finds nothing wrong with itself."""
        if hasattr(memory, "check"):
            assert done(memory.check()) == []

    # ---- changing

    def test_an_update_changes_what_is_found(self) -> None:
        """As often as it is done, there is one record, found by its new words alone."""
        memory = self.opened()
        if not hasattr(memory, "update"):
            return
        record = done(memory.save("Noor lives in Porto"))
        for _ in range(2):
            changed = done(memory.update(record.id, text="Noor lives in Turin", meta={"by": "me"}))
            assert (changed.id, changed.text, changed.meta) == (record.id, "Noor lives in Turin", {"by": "me"})
        assert ids_of(done(memory.search("Turin"))) == [record.id]
        assert done(memory.search("Porto")) == []
        assert ids_of(done(memory.all())) == [record.id]
        assert done(memory.update("nobody", text="x")) is None
        refused(ConfigError, memory.update, record.id, text=" ")
        refused(ConfigError, memory.update, record.id, created_at=1)
        self.agrees(memory)

    def test_an_update_to_what_another_record_says_leaves_one(self) -> None:
        """No two records say the same."""
        memory = self.opened()
        if not hasattr(memory, "update"):
            return
        one, other = done(memory.save("likes tea")), done(memory.save("likes green tea", meta={"a": 1}))
        made = done(memory.save("drinks hot things", derived_from=[other.id]))
        assert done(memory.update(other.id, text="Likes tea")).id == one.id
        assert ids_of(done(memory.all())) == [one.id, made.id]
        assert done(memory.get(made.id)).derived_from == (one.id,)
        assert done(memory.get(one.id)).meta == {"a": 1}
        self.agrees(memory)

    def test_a_correction_takes_the_place_and_keeps_the_history(self) -> None:
        """The old record is not recalled and not lost."""
        memory = self.opened()
        if not hasattr(memory, "correct"):
            return
        first = done(memory.save("Noor lives in Porto", kind="fact", at=1_000))
        second = done(memory.correct(first.id, "Noor lives in Turin", at=2_000))
        third = done(memory.correct(first.id, "Noor lives in Rome", at=3_000))
        assert (second.supersedes, second.kind, second.valid_from) == (first.id, "fact", 2_000)
        assert third.supersedes == second.id
        for record in (first, second, third):
            chain = done(memory.history(record.id))
            assert ids_of(chain) == [first.id, second.id, third.id]
        assert [record.superseded_by for record in chain] == [second.id, third.id, None]
        assert ids_of(done(memory.search("Where does Noor live?"))) == [third.id]
        assert ids_of(done(memory.all())) == [third.id]
        assert done(memory.get(first.id)).valid_to == 2_000
        assert ids_of(done(memory.search("Noor Porto", with_superseded=True)))[0] == first.id
        assert ids_of(done(memory.search("Where does Noor live?", as_of=2_500))) == [second.id]
        assert done(memory.correct("nobody", "x")) is None
        assert done(memory.history("nobody")) == []
        assert done(memory.correct(third.id, "noor lives in ROME")).id == third.id
        self.agrees(memory)

    def test_what_is_in_quarantine_is_not_recalled_until_it_is_confirmed(self) -> None:
        """It is seen in lists, and what it corrects stays until then."""
        memory = self.opened()
        if not hasattr(memory, "confirm"):
            return
        old = done(memory.save("The bank account is 11"))
        new = done(memory.save("The bank account is 99", origin="web", quarantined=True, supersedes=old.id))
        assert ids_of(done(memory.search("bank account"))) == [old.id]
        assert done(memory.get(new.id)).quarantined
        assert done(memory.confirm(new.id)) is True
        assert [done(memory.confirm(id)) for id in (new.id, old.id, "nobody")] == [False, False, False]
        assert ids_of(done(memory.search("bank account"))) == [new.id]
        assert ids_of(done(memory.history(old.id))) == [old.id, new.id]
        self.agrees(memory)

    # ---- time

    def test_times_are_utc_whatever_zone_they_were_given_in(self) -> None:
        """An end an hour ago has come and one in an hour has not, in any zone; a time without a zone is UTC."""
        memory = self.opened()
        if not hasattr(memory, "expire"):
            return
        now = datetime.now(UTC)
        for name, zone in (("east", timezone(timedelta(hours=8))), ("west", timezone(timedelta(hours=-8)))):
            past, future = (now + timedelta(hours=hours) for hours in (-1, 1))
            done(memory.save(f"tea {name} gone", expires_at=past.astimezone(zone)))
            done(memory.save(f"tea {name} there", expires_at=future.astimezone(zone)))
        done(memory.save("tea naive gone", expires_at=(now - timedelta(hours=1)).replace(tzinfo=None)))
        done(memory.save("tea naive there", expires_at=(now + timedelta(hours=1)).replace(tzinfo=None)))
        there = {"tea east there", "tea west there", "tea naive there"}
        assert {hit.text for hit in done(memory.search("tea", k=10))} == there
        assert {record.text for record in done(memory.all())} == there
        done(memory.expire())
        assert done(memory.expire()) == 0
        assert {record.text for record in done(memory.all())} == there
        assert done(memory.expire(now + timedelta(hours=2))) == 3
        assert done(memory.all()) == []
        self.agrees(memory)

    def test_what_is_not_true_now_is_not_recalled(self) -> None:
        """valid_from and valid_to decide, at the time that is asked about."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        now = datetime.now(UTC)
        day = timedelta(days=1)
        past = done(memory.save("badge is red", valid_to=now - day))
        present = done(memory.save("badge is green", valid_from=now - day, valid_to=now + day))
        future = done(memory.save("badge is blue", valid_from=now + day))
        assert ids_of(done(memory.search("badge"))) == [present.id]
        assert ids_of(done(memory.search("badge", as_of=now - 2 * day))) == [past.id]
        assert ids_of(done(memory.search("badge", as_of=now + 2 * day))) == [future.id]
        assert len(done(memory.all())) == 3

    def test_a_search_is_narrowed_by_time_meta_and_origin(self) -> None:
        """Each filter alone, and all together."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        for number in range(1, 5):
            done(
                memory.save(
                    f"tea of day {number}",
                    at=number * 1_000,
                    meta={"even": number % 2 == 0, "n": number},
                    origin="web" if number > 2 else "user",
                )
            )

        def found(**options: Any) -> set[int]:
            return {hit.created_at // 1_000 for hit in done(memory.search("tea", **options))}

        assert found(since=2_000) == {2, 3, 4}
        assert found(until=2_000) == {1}
        assert found(since=datetime.fromtimestamp(2, UTC), until=4_000) == {2, 3}
        assert found(meta={"even": True}) == {2, 4}
        assert found(meta={"even": True, "n": 4}) == {4}
        assert found(meta={"nothing": None}) == set()
        assert found(origins=["web"]) == {3, 4}
        assert found(origins=[]) == set()
        assert found(origins=["user"], meta={"even": True}, since=1_000) == {2}

    # ---- forgetting

    def test_forget_tells_the_truth(self) -> None:
        """True once, for what was there."""
        memory = self.opened()
        record = done(memory.save("likes tea"))
        assert [done(memory.forget(id)) for id in (record.id, record.id, "nobody", "")] == [True, False, False, False]
        assert done(memory.search("tea")) == []
        if hasattr(memory, "all"):
            assert done(memory.all()) == []

    def test_what_is_forgotten_takes_no_slots(self) -> None:
        """Of ten facts with the best eight gone, two are found."""
        memory = self.opened()
        names = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine"]
        for name in names:
            done(memory.save(f"The {name} grows by the lake"))
        best = done(memory.search("grows by the lake", k=8))
        for record in best:
            assert done(memory.forget(record.id))
        left = done(memory.search("grows by the lake", k=2))
        assert len(left) == 2
        assert not set(ids_of(left)) & set(ids_of(best))
        self.agrees(memory)

    def test_what_was_made_of_it_is_forgotten_with_it(self) -> None:
        """Over any number of steps, and the versions before a correction, too; unless that is not wanted."""
        memory = self.opened()
        if not hasattr(memory, "correct"):
            return
        source = done(memory.save("We talked about tea", kind="turn"))
        other = done(memory.save("We talked about rain", kind="turn"))
        fact = done(memory.save("likes tea", derived_from=[source.id, other.id]))
        newer = done(memory.correct(fact.id, "likes green tea", derived_from=[source.id]))
        summary = done(memory.save("A tea drinker", derived_from=[newer.id]))
        lone = done(memory.save("likes chess"))
        assert done(memory.forget(lone.id, cascade=False))
        assert done(memory.forget(source.id)) is True
        assert ids_of(done(memory.all())) == [other.id]
        assert [done(memory.get(id)) for id in (source.id, fact.id, newer.id, summary.id)] == [None] * 4
        kept = done(memory.save("made of rain", derived_from=[other.id]))
        assert done(memory.forget(other.id, cascade=False))
        assert ids_of(done(memory.all())) == [kept.id]
        self.agrees(memory)

    def test_what_is_forgotten_takes_nothing_of_another_user_with_it(self) -> None:
        """Whoever forgets it, and whatever ids the other one has named."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        ann, bob = memory.scoped(user="ann"), memory.scoped(user="bob")
        source = done(ann.save("We talked about tea", kind="turn"))
        made = done(ann.scoped(agent="a").save("likes tea", derived_from=[source.id]))
        short = done(ann.save("in a hurry", expires_at=datetime.now(UTC) + timedelta(hours=1)))
        kept = [done(bob.save(f"bob's {id}", derived_from=[id])) for id in (source.id, made.id, short.id)]
        kept.append(done(memory.save("nobody's", derived_from=[source.id])))
        if hasattr(memory, "load"):
            done(bob.load([MemoryRecord(short.id, "bob's own", 1, scope=bob.scope)]))
            kept.append(done(bob.get(short.id)))
        assert done(memory.expire(datetime.now(UTC) + timedelta(hours=2))) == 1
        assert done(memory.forget(source.id))
        assert ids_of(done(ann.all())) == []
        assert sorted(ids_of(done(memory.all()))) == sorted(ids_of(kept))
        self.agrees(memory)

    def test_forgetting_the_newer_version_forgets_the_older_ones(self) -> None:
        """And forgetting an older one leaves the newer one, which names it no more."""
        memory = self.opened()
        if not hasattr(memory, "correct"):
            return
        first = done(memory.save("lives in Porto"))
        second = done(memory.correct(first.id, "lives in Turin"))
        assert done(memory.forget(first.id))
        assert done(memory.get(second.id)).supersedes is None
        third = done(memory.correct(second.id, "lives in Rome"))
        assert done(memory.forget(third.id))
        assert done(memory.get(second.id)) is None
        assert done(memory.all()) == []
        self.agrees(memory)

    def test_forgetting_everything_has_to_be_said(self) -> None:
        """Without a scope it is refused; of one user it leaves the others."""
        memory = self.opened()
        if not hasattr(memory, "forget_all"):
            return
        for user in ("ann", "bob"):
            for number in range(5):
                done(memory.scoped(user=user).save(f"{user} likes tea {number}", kind="even" if number % 2 else "odd"))
        refused(ConfigError, memory.forget_all)
        refused(ConfigError, memory.forget_all, kind="odd")
        assert len(done(memory.all())) == 10
        assert done(memory.scoped(user="ann").forget_all(kind="even")) == 2
        assert done(memory.scoped(user="ann").forget_all()) == 3
        assert done(memory.scoped(user="ann").forget_all()) == 0
        assert {record.scope.user for record in done(memory.all())} == {"bob"}
        assert len(done(memory.all())) == 5
        assert done(memory.forget_all(everything=True)) == 5
        self.agrees(memory)
