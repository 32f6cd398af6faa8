"""The contract of memories, as tests for one of your own.

Laws: plain asserts and no test framework. A memory of your own needs `save`, `search` and `forget`, plain or async;
a test of anything more passes where the memory has no such method.
"""

from datetime import UTC, datetime
from typing import Any

from sapwood.core.errors import ConfigError, SapwoodError, TooLargeError
from sapwood.core.memory import MemoryRecord
from sapwood.testing.memory_changes import ChangesContract, ids_of
from sapwood.testing.store_turns import at_once, done, refused

__all__ = ["MemoryContract"]


class MemoryContract(ChangesContract):
    """Tests for one kind of memory. Subclass it under a name that your runner finds.

    >>> from sapwood import create_memory_store
    >>> class TestMine(MemoryContract):
    ...     def opened(self):
    ...         return create_memory_store()
    >>> TestMine().test_what_was_saved_is_found()
    """

    # ---- saving and finding

    def test_what_was_saved_is_found(self) -> None:
        """A record comes back with what was given, an id, a time and a score."""
        memory = self.opened()
        saved = done(memory.save("The user prefers metric units", kind="preference", meta={"from": ["chat", 1]}))
        (found,) = done(memory.search("which units?"))
        assert (found.id, found.text, found.kind) == (saved.id, "The user prefers metric units", "preference")
        assert found.meta == {"from": ["chat", 1]}
        assert isinstance(found, MemoryRecord)
        assert abs(saved.created_at - datetime.now(UTC).timestamp() * 1000) < 600_000
        assert found.score is not None
        assert 0 < found.score <= 1

    def test_a_search_gives_at_most_k_above_min_score_best_first(self) -> None:
        """The bounds hold, nothing is given twice, and no k is refused."""
        memory = self.opened()
        for text in ("red apple pie", "red apples grow", "red roof", "blue sky", "red wine from the hills"):
            done(memory.save(text))
        hits = done(memory.search("red apple", k=3))
        assert len(hits) == 3
        scores = [hit.score for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert {hit.text for hit in hits[:2]} == {"red apple pie", "red apples grow"}
        assert len(set(ids_of(hits))) == 3
        assert done(memory.search("red apple", min_score=1.0)) == []
        assert [done(memory.search("red", k=k)) for k in (0, -1)] == [[], []]
        assert len(done(memory.search("red", k=10**9))) == 4

    def test_a_blank_question_and_one_without_a_shared_word_find_nothing(self) -> None:
        """Nor does one that is not even whole text end in anything but an answer or a refusal."""
        memory = self.opened()
        done(memory.save("likes tea"))
        for query in ("", "  \n", "zebra", "?!"):
            assert done(memory.search(query, min_score=-1.0)) == []
        try:
            assert done(memory.search("\ud800 coffee")) == []
        except SapwoodError:
            return

    def test_kind_filters_exactly(self) -> None:
        """Neither a part of the name nor another case will do."""
        memory = self.opened()
        for kind in ("pref", "preference", "Preference", None):
            done(memory.save(f"likes tea, as {kind}", kind=kind))
        assert [hit.kind for hit in done(memory.search("tea", kind="preference"))] == ["preference"]

    def test_letters_of_all_scripts_are_folded(self) -> None:
        """Case does not matter beyond ASCII."""
        memory = self.opened()
        done(memory.save("Die Straße ist gesperrt"))
        done(memory.save("Любит Чай"))
        assert done(memory.search("STRASSE"))[0].text == "Die Straße ist gesperrt"
        assert done(memory.search("чай"))[0].text == "Любит Чай"

    def test_records_are_copies(self) -> None:
        """Changing what was given or returned changes nothing in the memory."""
        memory = self.opened()
        meta: dict[str, Any] = {"list": [1]}
        saved = done(memory.save("likes tea", meta=meta))
        meta["list"].append(2)
        saved.meta["list"].append(3)
        (found,) = done(memory.search("tea"))
        assert found.meta == {"list": [1]}
        found.meta["list"].append(4)
        assert done(memory.search("tea"))[0].meta == {"list": [1]}

    def test_equal_records_come_newest_first(self) -> None:
        """The order of ties is fixed."""
        memory = self.opened()
        saved = [done(memory.save(f"tea {word}")).id for word in ("green", "black", "white")]
        assert ids_of(done(memory.search("tea"))) == saved[::-1]

    def test_blank_and_broken_texts_are_refused(self) -> None:
        """Nothing is kept of what cannot be read again."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        for text in ("", " \n", None, 7, "half \ud800"):
            refused(ConfigError, memory.save, text)
        for options in (
            *({"kind": "\udc00"}, {"meta": {"a": float("nan")}}, {"meta": {1: 2}}, {"meta": {"a": object()}}),
            *({"origin": "god"}, {"importance": 2}, {"importance": True}, {"at": "today"}, {"at": True}),
            *({"valid_from": 9, "valid_to": 8}, {"derived_from": "id"}, {"derived_from": [""]}, {"key": "k" * 2_000}),
        ):
            refused(ConfigError, memory.save, "likes tea", **options)
        refused(TooLargeError, memory.save, "x" * (2 << 20))
        assert done(memory.all()) == []

    # ---- the same again

    def test_the_same_fact_is_kept_once(self) -> None:
        """Case, blanks and a full stop do not make it another one; meta is added to, never overwritten."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        first = done(memory.save("Prefers metric units", kind="fact", meta={"a": 1}))
        again = done(memory.save("  prefers METRIC  units.", kind="fact", meta={"a": 2, "b": 3}))
        assert (again.id, again.text, again.meta) == (first.id, "Prefers metric units", {"a": 1, "b": 3})
        assert done(memory.get(first.id)).meta == {"a": 1, "b": 3}
        others = [
            done(memory.save("Prefers metric units?", kind="fact")),
            done(memory.save("Prefers metric units", kind="note")),
            done(memory.save("Prefers metric units", kind="fact", origin="web")),
            done(memory.save("Prefers metric units", kind="fact", conversation="c1")),
        ]
        assert len({first.id, *ids_of(others)}) == 5
        turns = [done(memory.save("Yes.", kind="turn", conversation="c1")).position for _ in range(3)]
        assert turns == [2, 3, 4]

    def test_a_key_makes_a_save_happen_once(self) -> None:
        """Whatever comes with it, the record of the first save is returned."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        first = done(memory.save("likes tea", key="turn-7", kind="turn"))
        assert done(memory.save("likes rain", key="turn-7", kind="turn")) == first
        assert ids_of(done(memory.all())) == [first.id]
        other = done(memory.scoped(user="ann").save("likes rain", key="turn-7"))
        assert other.id != first.id

    def test_a_key_holds_within_one_conversation(self) -> None:
        """What was saved with it in another one, or in none, is not returned."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        ann = memory.scoped(user="ann")
        handles = [ann, *(ann.scoped(conversation=name) for name in ("c1", "c2", "1/c"))]
        saved = [done(handle.save(f"secret {number}", key="k")) for number, handle in enumerate(handles)]
        assert [record.text for record in saved] == [f"secret {number}" for number in range(4)]
        assert [done(handle.save("again", key="k")) for handle in handles] == saved
        assert done(ann.save("again", key="k", conversation="c2")) == saved[2]
        assert done(ann.scoped(conversation="c2").forget(saved[2].id))
        assert done(ann.scoped(conversation="c2").save("anew", key="k")).text == "anew"
        other = self.opened()
        assert done(other.load(done(memory.export()))) == 4
        assert [record.text for record in done(other.all())] == [record.text for record in done(memory.all())]
        assert done(other.scoped(user="ann", conversation="c1").save("again", key="k")).id == saved[1].id
        self.agrees(memory)

    def test_a_key_whose_record_has_ended_may_be_used_again(self) -> None:
        """However many others have ended before it."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        many = [{"text": f"over {number}", "expires_at": 5, "kind": "turn"} for number in range(70)]
        done(memory.save_many([*many, {"text": "over, too", "expires_at": 5, "key": "k"}]))
        record = done(memory.save("likes tea", key="k"))
        assert record.text == "likes tea"
        assert ids_of(done(memory.all())) == [record.id]
        assert done(memory.save("likes rain", key="k")) == record
        self.agrees(memory)

    def test_what_differs_in_a_sign_or_an_abbreviation_is_kept_twice(self) -> None:
        """Nothing is lost that a person would tell apart."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        for one, other in (("x² is big", "x2 is big"), ("take ①", "take 1"), ("it is for the US", "it is for the us")):
            assert done(memory.save(one)).id != done(memory.save(other)).id
        for one, other in (
            ("LIKES TEA", "likes tea"),
            ("caf\u00e9", "cafe\u0301"),
            ("Prefers METRIC", "prefers metric!"),
        ):
            assert done(memory.save(one)).id == done(memory.save(other)).id

    def test_saying_it_again_adds_what_it_weighs_and_was_made_of(self) -> None:
        """The higher importance stays; it goes with what either was made of, and without a source it stands alone."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        one, two = (done(memory.save(f"said {number}", kind="turn")) for number in (1, 2))
        first = done(memory.save("likes tea", importance=0.4, derived_from=[one.id]))
        again = done(memory.save("Likes tea", importance=0.9, derived_from=[two.id, one.id, first.id]))
        assert (again.id, again.importance, again.derived_from) == (first.id, 0.9, (one.id, two.id))
        assert done(memory.get(first.id)) == again
        assert done(memory.forget(two.id))
        assert ids_of(done(memory.all())) == [one.id]
        own = done(memory.save("likes rain", importance=0.4, derived_from=[one.id]))
        alone = done(memory.save("likes rain", importance=0.2))
        assert (alone.id, alone.importance, alone.derived_from) == (own.id, 0.4, ())
        assert done(memory.save("likes rain", derived_from=[one.id])).derived_from == ()
        assert done(memory.forget(one.id))
        assert ids_of(done(memory.all())) == [own.id]
        self.agrees(memory)

    def test_values_of_another_kind_are_refused_by_name(self) -> None:
        """Before anything is read or written."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        done(memory.save("likes tea"))
        wrong: tuple[dict[str, Any], ...] = (
            *({"k": "3"}, {"k": 1.5}, {"k": None}, {"k": True}, {"min_score": "x"}, {"min_score": float("nan")}),
            *({"meta": "x"}, {"meta": {1: 2}}, {"origins": "user"}, {"origins": ["god"]}, {"origins": 7}, {"kind": 7}),
            *({"within": "/law"}, {"conversation": 7}, {"since": "today"}),
        )
        for options in wrong:
            said = refused(ConfigError, memory.search, "tea", **options)
            assert next(iter(options)) in said
        assert "query" in refused(ConfigError, memory.search, None)
        for method in (memory.load, memory.save_many, memory.scoped(user="ann").replace_all):
            for given in (None, 7, "x", {"text": "x"}):
                refused(ConfigError, method, given)
        wrong = ({"least": "a"}, {"least": None}, {"least": True}, {"k": "3"})
        for options in wrong:
            assert next(iter(options)) in refused(ConfigError, memory.similar, "tea", **options)
        assert "text" in refused(ConfigError, memory.similar, None)
        wrong = ({"derived_from": None}, {"derived_from": 7}, {"derived_from": [7]})
        for options in wrong:
            refused(ConfigError, memory.save, "likes rain", **options)
        wrong = ({"limit": "3"}, {"limit": 1.5}, {"kind": 7})
        for options in wrong:
            refused(ConfigError, memory.all, **options)
        wrong = ({"kind": 7}, {"origin": "god"}, {"before": "today"})
        for options in wrong:
            refused(ConfigError, memory.scoped(user="ann").forget_all, **options)
        for namespace in ("team", None, 7, (7,)):
            refused(ConfigError, memory.scoped, namespace=namespace)
        assert len(done(memory.all())) == 1

    def test_several_are_saved_together_or_not_at_all(self) -> None:
        """A bad one among them leaves nothing behind."""
        memory = self.opened()
        if not hasattr(memory, "save_many"):
            return
        saved = done(memory.save_many([{"text": f"fact {number}", "kind": "fact"} for number in range(5)]))
        assert ids_of(saved) == ids_of(done(memory.all()))
        refused(ConfigError, memory.save_many, [{"text": "good"}, {"text": " "}])
        refused(ConfigError, memory.save_many, [{"text": "good"}, {"txt": "x"}])
        refused(ConfigError, memory.save_many, [{"text": "good"}, {"text": "x", "supersedes": "nobody"}])
        assert len(done(memory.all())) == 5
        assert done(memory.save_many([])) == []

    def test_the_newest_are_listed_of_any_scope(self) -> None:
        """In the order of their saving, without those that were corrected or have ended, of a kind."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        saved: list[MemoryRecord] = []
        for number in range(12):
            handle = memory.scoped(user=("ann", "bob")[number % 2], conversation=(None, "c")[number // 2 % 2])
            of = "even" if number % 3 == 0 else "odd"
            saved.append(done(handle.save(f"fact {number}", kind=of, quarantined=number == 8)))
        done(memory.scoped(user="ann").save("over", expires_at=5))
        saved.append(done(memory.correct(saved[11].id, "better fact 11")))
        left = [record for record in saved if record.id != saved[11].id]
        handles: tuple[dict[str, Any], ...] = (
            *({}, {"user": "ann"}, {"conversation": "c"}, {"user": "bob", "conversation": "c"}, {"user": "eve"}),
        )
        for names in handles:
            handle = memory.scoped(**names)
            for kind in (None, "even"):
                ids = ids_of(
                    record for record in left if handle.scope.covers(record.scope) and kind in (None, record.kind)
                )
                for limit in (1, 2, 5, 100, 1 << 70):
                    assert ids_of(done(handle.all(kind=kind, limit=limit))) == ids[-limit:]
                assert ids_of(done(handle.all(kind=kind))) == ids
                assert [done(handle.all(kind=kind, limit=limit)) for limit in (0, -1)] == [[], []]
            stats, exported = done(handle.stats()), list(done(handle.export()))
            assert stats.records == len(exported)
            assert stats.superseded == sum(bool(record.get("supersededBy")) for record in exported)
            assert stats.quarantined == sum(bool(record.get("quarantined")) for record in exported)

    def test_a_rare_meta_or_origin_is_found_among_many(self) -> None:
        """However many better records have another one."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        wanted: list[dict[str, Any]] = [
            {"text": "a long text about green tea and rain", "meta": {"a": {"b": 1}}, "kind": "turn"},
            {"text": "a longer text about green tea and snow", "origin": "web", "kind": "turn", "conversation": "c"},
        ]
        done(
            memory.save_many([*wanted, *({"text": "green tea", "meta": {"a": 2}, "kind": "turn"} for _ in range(900))])
        )
        (found,) = done(memory.search("green tea", meta={"a": {"b": 1}}))
        assert found.text == wanted[0]["text"]
        for handle in (memory, memory.scoped(conversation="c")):
            (found,) = done(handle.search("green tea", origins=["web"]))
            assert found.text == wanted[1]["text"]
        assert done(memory.search("green tea", origins=["web"], meta={"a": 2})) == []
        assert done(memory.search("green tea", meta={"a": 2}, origins=["user", "web"], k=1))[0].meta == {"a": 2}

    # ---- scope

    def test_a_scope_is_a_wall(self) -> None:
        """Nothing of another user is found, listed, counted, changed or removed, by any call and any id."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        names: list[dict[str, Any]] = [
            *(
                {"user": name}
                for name in ("ann", "ANN", "ann%", "_nn", "", "'; DROP TABLE memory; --", "ann\x00", "ånn")
            ),
            *({"user": "u1"}, {"user": "u10"}, {"agent": "ann"}, {"namespace": ("ann",)}, {"conversation": "ann"}),
        ]
        handles = [memory.scoped(**name) for name in names]
        records = [done(handle.save("likes tea", key="k")) for handle in handles]
        for handle, record in zip(handles, records, strict=True):
            assert ids_of(done(handle.all())) == [record.id]
            assert ids_of(done(handle.search("tea", k=50, with_superseded=True))) == [record.id]
            assert done(handle.stats()).records == 1
            assert [item["id"] for item in done(handle.export())] == [record.id]
            for other in records:
                if other.id == record.id:
                    continue
                assert done(handle.get(other.id)) is None
                assert done(handle.update(other.id, text="x")) is None
                assert done(handle.correct(other.id, "x")) is None
                assert done(handle.confirm(other.id)) is False
                assert done(handle.history(other.id)) == []
                assert done(handle.forget(other.id)) is False
        for handle in handles:
            assert done(handle.forget_all()) == 1
            assert done(handle.all()) == []
        assert done(memory.all()) == []
        self.agrees(memory)

    def test_a_scope_can_only_be_narrowed(self) -> None:
        """Another user is refused by name."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        ann = memory.scoped(user="ann")
        assert "'bob'" in refused(ConfigError, ann.scoped, user="bob")
        assert "'d'" in refused(ConfigError, ann.scoped(conversation="c").save, "x", conversation="d")
        record = done(ann.scoped(agent="a", conversation="c").save("likes tea"))
        assert (record.scope.user, record.scope.agent, record.conversation) == ("ann", "a", "c")
        assert ids_of(done(ann.search("tea"))) == [record.id]
        assert ids_of(done(ann.search("tea", conversation="c"))) == [record.id]
        assert done(ann.search("tea", conversation="d")) == []
        assert ids_of(done(ann.scoped(user="ann", agent="a").search("tea"))) == [record.id]
        assert done(ann.scoped(agent="b").search("tea")) == []

    def test_namespaces_are_compared_part_by_part(self) -> None:
        """A sibling whose name begins alike is another one; the empty one holds all."""
        memory = self.opened()
        if not hasattr(memory, "scoped"):
            return
        spaces = [("team", "nord"), ("team", "nord-west"), ("team", "nord", "bergen"), ("x", "y:z"), ("x", "y", "z")]
        kinds = ("green", "black", "white", "herbal", "iced")
        ids = {
            space: done(memory.scoped(namespace=space).save(f"tea, {kind}")).id
            for space, kind in zip(spaces, kinds, strict=True)
        }

        def found(*space: str) -> set[str]:
            return set(ids_of(done(memory.scoped(namespace=space).search("tea", k=50))))

        assert found("team", "nord") == {ids["team", "nord"], ids["team", "nord", "bergen"]}
        assert found("team", "nor") == set()
        assert found() == set(ids.values())
        assert found("x", "y:z") == {ids["x", "y:z"]}
        assert found("x", "y") == {ids["x", "y", "z"]}
        nord = memory.scoped(namespace=("team",)).scoped(namespace=("nord",))
        assert set(ids_of(done(nord.all()))) == found("team", "nord")

    # ---- keeping

    def test_what_was_exported_is_loaded_as_it_was(self) -> None:
        """Ids, times, keys, chains and quarantine survive; a second load adds nothing."""
        memory = self.opened()
        if not hasattr(memory, "export"):
            return
        ann = memory.scoped(user="ann")
        first = done(ann.save("lives in Porto", at=5, key="k", meta={"a": [1]}, conversation="c", speaker="Ann"))
        done(ann.correct(first.id, "lives in Turin", importance=0.9))
        done(ann.save("likes tea", quarantined=True, origin="tool", title="Drinks", valid_from=3))
        done(memory.scoped(user="bob").save("likes rain", kind="fact", conversation="c"))
        records = list(done(memory.export()))
        assert len(records) == 4
        other = self.opened()
        assert done(other.load(records)) == 4
        assert done(other.load(records)) == 0
        assert list(done(other.export())) == records
        assert done(other.scoped(user="ann").save("again", key="k", conversation="c")).id == first.id
        assert "does not cover" in refused(ConfigError, self.opened().scoped(user="ann").load, records)
        self.agrees(other)

    def test_an_index_that_is_made_anew_finds_the_same(self) -> None:
        """Records, corrections, quarantine and what stands beside a hit in its conversation."""
        memory = self.opened()
        if not hasattr(memory, "reindex"):
            return
        said = ("Shall we meet?", "How about the lighthouse?", "At eight then.", "Fine.", "What about tea?", "No.")
        for number, text in enumerate(said):
            done(memory.save(text, kind="turn", conversation="c", speaker=("Ann", "Bob")[number % 2]))
        first = done(memory.save("the lighthouse is red"))
        done(memory.correct(first.id, "the lighthouse is white"))
        done(memory.save("the lighthouse is haunted", quarantined=True))
        queries = ("Where is the lighthouse?", "lighthouse Bob", "tea")
        before = [done(memory.search(query, with_superseded=old)) for query in queries for old in (False, True)]
        assert "At eight then." in {hit.text for hit in before[0]}
        assert done(memory.reindex()) == 8
        assert [done(memory.search(query, with_superseded=old)) for query in queries for old in (False, True)] == before
        self.agrees(memory)

    def test_many_records_are_loaded_as_few_are(self) -> None:
        """In the order in which they were saved."""
        memory = self.opened()
        if not hasattr(memory, "load"):
            return
        done(memory.load(MemoryRecord(f"id{number}", f"fact {number}", number) for number in range(450)))
        assert ids_of(done(memory.all())) == [f"id{number}" for number in range(450)]
        assert done(memory.get("id449")).created_at == 449

    def test_similar_records_are_told_and_kept(self) -> None:
        """A near duplicate is a matter of the caller."""
        memory = self.opened()
        if not hasattr(memory, "similar"):
            return
        record = done(memory.save("The user prefers metric units for all lengths"))
        done(memory.save("The user plays chess on Sundays"))
        (near,) = done(memory.similar("The user prefers metric units for all length"))
        assert near.id == record.id
        assert 0.85 <= near.score <= 1
        assert done(memory.similar("The user prefers imperial weights")) == []
        refused(ConfigError, memory.similar, "x", least=2)

    def test_many_threads_lose_nothing_and_keep_nothing_twice(self) -> None:
        """Four threads that save the same facts leave each of them once."""
        memory = self.opened()
        if not hasattr(memory, "check"):
            return

        def save(_: int) -> None:
            for number in range(25):
                done(memory.save(f"fact number {number}"))
                done(memory.search("fact"))

        at_once(save, 4)
        assert sorted(record.text for record in done(memory.all())) == sorted(f"fact number {n}" for n in range(25))
        self.agrees(memory)
