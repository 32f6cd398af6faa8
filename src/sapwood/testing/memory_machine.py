"""Any sequence of calls to a memory, beside the same calls to the memory in process. Needs hypothesis.

Laws: both give the same answers, to the scores of a search; no handle ever meets what is outside of its scope; and
index and records agree at any time.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sapwood.core.errors import ConfigError
from sapwood.core.memory import MemoryRecord, MemoryScope
from sapwood.stores.in_process import create_memory_store

TEXTS = st.sampled_from(
    [
        *("likes tea", "Likes  TEA.", "likes green tea", "lives in Porto", "lives in Turin", "The cat is called Tom?"),
        *("Straße in École", "用户喜欢喝绿茶", "met Ann yesterday", "x", "%_'\"", "tea " * 30),
    ]
)
NAMES = st.sampled_from([None, "ann", "bob", "_", "%", "", "Ann", "ann'--", "\u00e5", "a\x00b"])
SCOPES = st.builds(
    MemoryScope,
    user=NAMES,
    agent=st.sampled_from([None, None, None, "a", "%"]),
    conversation=st.sampled_from([None, None, "c1", "c2"]),
    namespace=st.sampled_from([(), (), ("n",), ("n", "m"), ("n", "m2"), ("n/m",)]),
)
WHICH = st.integers(0, 1_000)
LATER = 1 << 50
CHANGES = st.sampled_from(["update", "correct", "confirm", "forget", "lone"])
_WAYS: tuple[dict[str, Any], ...] = (
    *({}, {"with_superseded": True}, {"as_of": 3}, {"kind": "fact", "k": 2}, {"since": 5}, {"origins": ["web"]}),
)


class MemoryMachine(RuleBasedStateMachine):
    """Calls to two memories. Subclass it, and give its `TestCase` to your runner."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = self.opened()
        self.reference = self.expected()
        self.names: dict[str, str] = {}
        """The id in the reference of each record's id."""
        self.time = 0

    def opened(self) -> Any:
        """Return a new and empty memory."""
        raise NotImplementedError

    def expected(self) -> Any:
        """Return the memory to compare it with."""
        return create_memory_store()

    def reopened(self, memory: Any) -> Any:
        """Return the same memory as another process sees it."""
        return memory

    @rule(
        scope=SCOPES,
        text=TEXTS,
        kind=st.sampled_from([None, "fact", "turn"]),
        speaker=st.sampled_from([None, None, "Ann", "bob"]),
        origin=st.sampled_from(["user", "web"]),
        quarantined=st.sampled_from([False, False, False, True]),
        expires_at=st.sampled_from([None, None, 5, LATER]),
        valid=st.sampled_from([(None, None), (None, None), (1, None), (None, 5), (LATER, None)]),
        key=st.sampled_from([None, None, "k"]),
        parents=st.lists(WHICH, max_size=2),
    )
    def save(self, scope: MemoryScope, text: str, valid: Any, parents: list[int], **options: Any) -> None:
        """Save a record, which may be there already, in a scope."""
        self.time += 1
        known = [self._id(number) for number in parents]
        options |= {"at": self.time, "valid_from": valid[0], "valid_to": valid[1]}
        one = _scoped(self.memory, scope).save(text, derived_from=[id for id in known if id], **options)
        parents_of = [self.names[id] for id in known if id]
        other = _scoped(self.reference, scope).save(text, derived_from=parents_of, **options)
        assert self.names.setdefault(one.id, other.id) == other.id
        assert self._named(one) == other

    @rule(scope=SCOPES, query=st.sampled_from(["tea", "Where does Ann live?", "cat Tom", "STRASSE", "绿茶", "x"]))
    def search(self, scope: MemoryScope, query: str) -> None:
        """Search in every way; ids and scores are the same, and all lies within the scope."""
        for options in (
            {},
            {"with_superseded": True},
            {"as_of": 3},
            {"kind": "fact", "k": 2},
            {"since": self.time // 2},
        ):
            one = _scoped(self.memory, scope).search(query, **options)
            other = _scoped(self.reference, scope).search(query, **options)
            assert [self.names[hit.id] for hit in one] == [hit.id for hit in other]
            for mine, theirs in zip(one, other, strict=True):
                assert abs(mine.score - theirs.score) < 1e-6
                assert mine.reason == theirs.reason
                assert scope.covers(mine.scope)

    @precondition(lambda self: self.names)
    @rule(
        scope=SCOPES,
        which=WHICH,
        change=st.sampled_from(["update", "correct", "confirm", "forget", "lone"]),
        text=TEXTS,
    )
    def change(self, scope: MemoryScope, which: int, change: str, text: str) -> None:
        """Change a record that may lie outside of the scope."""
        self.time += 1
        id = self._id(which)
        one = self._changed(_scoped(self.memory, scope), id, change, text)
        other = self._changed(_scoped(self.reference, scope), self.names[id], change, text)
        if isinstance(one, MemoryRecord):
            assert isinstance(other, MemoryRecord)
            assert self.names.setdefault(one.id, other.id) == other.id
            assert scope.covers(one.scope)
            one = self._named(one)
        assert one == other

    def _changed(self, memory: Any, id: str, change: str, text: str) -> Any:
        match change:
            case "update":
                return memory.update(id, text=text, speaker="Ann")
            case "correct":
                return memory.correct(id, text, at=self.time)
            case "confirm":
                return memory.confirm(id)
            case "forget":
                return memory.forget(id)
            case _:
                return memory.forget(id, cascade=False)

    @rule(scope=SCOPES, kind=st.sampled_from([None, "turn"]), before=st.sampled_from([None, 5]), sure=st.booleans())
    def forget_all(self, scope: MemoryScope, kind: str | None, before: int | None, sure: bool) -> None:
        """Forget a part of a scope, or nothing where that is the whole store; what is outside stays."""
        if not sure:
            return
        outside = [record for record in self.memory.export() if not scope.covers(_scope(record))]
        if scope == MemoryScope():
            for memory in (self.memory, self.reference):
                try:
                    memory.forget_all(kind=kind, before=before)
                except ConfigError:
                    continue
                raise AssertionError("a whole store was forgotten without a word")
            return
        one = _scoped(self.memory, scope).forget_all(kind=kind, before=before)
        assert one == _scoped(self.reference, scope).forget_all(kind=kind, before=before)
        assert [record for record in self.memory.export() if not scope.covers(_scope(record))] == outside

    @rule(scope=SCOPES, how=st.sampled_from(["expire", "reindex", "reopen"]))
    def keep(self, scope: MemoryScope, how: str) -> None:
        """Delete what is past its end, make the index anew, or come back as another process."""
        if how == "expire":
            assert _scoped(self.memory, scope).expire(10) == _scoped(self.reference, scope).expire(10)
        elif how == "reindex":
            self.memory.reindex()
        else:
            self.memory = self.reopened(self.memory)

    @rule(scope=SCOPES)
    def look(self, scope: MemoryScope) -> None:
        """Everything that a scope shows is the same, and lies within it."""
        one, other = _scoped(self.memory, scope), _scoped(self.reference, scope)
        assert [self._named(record) for record in one.all()] == other.all()
        assert one.stats() == other.stats()
        for record in list(one.export())[:3]:
            chain = [self._named(item) for item in one.history(record["id"])]
            assert chain == other.history(self.names[record["id"]])
        exported = list(one.export())
        assert len(exported) == one.stats().records
        assert all(scope.covers(_scope(record)) for record in exported)

    @invariant()
    def index_and_records_agree(self) -> None:
        """Nothing is wrong in either."""
        assert self.memory.check() == []
        assert self.reference.check() == []

    def _id(self, which: int) -> str:
        known = list(self.names)
        return known[which % len(known)] if known else ""

    def _named(self, record: MemoryRecord) -> MemoryRecord:
        """Return a record with the ids that the reference has for those in it."""
        names = self.names
        return record.replace(
            id=names[record.id],
            supersedes=names[record.supersedes] if record.supersedes else None,
            superseded_by=names[record.superseded_by] if record.superseded_by else None,
            derived_from=tuple(names[id] for id in record.derived_from),
        )


def _scoped(memory: Any, scope: MemoryScope) -> Any:
    return memory.scoped(user=scope.user, agent=scope.agent, conversation=scope.conversation, namespace=scope.namespace)


def _scope(record: dict[str, Any]) -> MemoryScope:
    found = record["scope"]
    return MemoryScope(
        found.get("user"), found.get("agent"), found.get("conversation"), tuple(found.get("namespace", ()))
    )
