"""Any sequence of calls to a store, against a model of a few dictionaries. Needs hypothesis.

Law: what the model says is what every store does: the same answer, or the same kind of refusal.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sapwood.core.errors import ConflictError, ConversationBusyError, StoreError
from sapwood.core.events import AgentEvent, ContextUpdated, TurnStarted
from sapwood.core.messages import Message
from sapwood.core.stored import Compacted
from sapwood.testing.store_turns import PROMPT, Stores, done, ended, one_turn, refused

RUNS = st.sampled_from(["r1", "r2", "r3", "r4", "r5"])
CONVERSATIONS = st.sampled_from(["c1", "c2"])
STALE = st.sampled_from([0, 0, 0, 1])
"""By how much a version or a fence is wrong: mostly not at all."""


@dataclass
class ModelRun:
    """What a run must be."""

    conversation_id: str | None
    past: list[Message]
    fence: int
    events: list[AgentEvent] = field(default_factory=list[AgentEvent])
    state: str = "interrupted"
    is_held: bool = True
    is_orphan: bool = False

    @property
    def status(self) -> str:
        """What a summary must say."""
        return "running" if self.is_held else self.state


@dataclass
class ModelConversation:
    """What a conversation must be."""

    messages: list[Message] = field(default_factory=list[Message])
    version: int = 0
    turns: dict[str, int] = field(default_factory=dict[str, int])
    fence: int = 0


class StoreMachine(RuleBasedStateMachine):
    """Calls to a store and to the model. Subclass it, and give its `TestCase` to your runner."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.opened()
        self.runs: dict[str, ModelRun] = {}
        self.conversations: dict[str, ModelConversation] = {}
        self.number = 0

    def opened(self) -> Stores:
        """Return a new and empty store."""
        raise NotImplementedError

    def reopened(self, store: Any) -> Stores:
        """Return the same content as another process sees it to which the holders of `store` count as dead."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Close the store."""
        self.store.close()

    @rule(run_id=RUNS, conversation_id=st.none() | CONVERSATIONS, wrong=STALE)
    def begin(self, run_id: str, conversation_id: str | None, wrong: int) -> None:
        """Begin a run, of which there may be one of that id, on a conversation that may be busy or have moved."""
        conversation = self.conversations.get(conversation_id or "", ModelConversation())
        base = conversation.version + wrong
        past = [*one_turn(1), *one_turn(2)][: 2 * wrong] if conversation_id is None else []
        arguments = (run_id, conversation_id, base, PROMPT)
        if run_id in self.runs:
            refused(ConflictError, self.store.runs.begin, *arguments)
        elif self._busy(conversation_id, run_id):
            refused(ConversationBusyError, self.store.runs.begin, *arguments)
        elif conversation.version and wrong:
            refused(ConflictError, self.store.runs.begin, *arguments)
        else:
            fence = done(self.store.runs.begin(*arguments, past=past))
            assert fence > conversation.fence
            self.runs[run_id] = ModelRun(conversation_id, past, fence)
            self._held(conversation_id, run_id, fence)

    @rule(run_id=RUNS, wrong_version=STALE, wrong_fence=STALE, end=st.sampled_from([None, None, "stop", "approval"]))
    def append(self, run_id: str, wrong_version: int, wrong_fence: int, end: Any) -> None:
        """Add an event, or the end of a segment, with a version and a fence that may be wrong."""
        run = self.runs.get(run_id)
        version, fence = (len(run.events), run.fence) if run is not None else (0, 1)
        events = ended(end) if end is not None else [self._event(run_id, first=not version)]
        arguments: dict[str, Any] = {"after": version + wrong_version, "fence": fence - wrong_fence}
        if run is not None and run.is_orphan:
            return  # whether a dead holder's fence still counts, before somebody takes over, is the store's to say
        if run is None or run.state == "ended":
            refused(StoreError, self.store.runs.append, run_id, events, **arguments)
        elif not run.is_held or wrong_fence or wrong_version:
            refused(ConflictError, self.store.runs.append, run_id, events, **arguments)
        elif not version and end is not None:
            return  # a turn that ends before it began does not fold
        else:
            assert done(self.store.runs.append(run_id, events, **arguments)) == version + 1
            run.events += events
            run.state = {None: "interrupted", "stop": "ended", "approval": "paused"}[end]
            run.is_held = end is None

    @rule(run_id=RUNS)
    def claim(self, run_id: str) -> None:
        """Take a run over, which may be held, over, or not there."""
        run = self.runs.get(run_id)
        if run is None or run.state == "ended":
            refused(StoreError, self.store.runs.claim, run_id)
        elif run.is_held:
            refused(ConflictError, self.store.runs.claim, run_id)
        elif self._busy(run.conversation_id, run_id):
            refused(ConversationBusyError, self.store.runs.claim, run_id)
        else:
            taken = done(self.store.runs.claim(run_id))
            assert (taken.version, taken.conversation_id) == (len(run.events), run.conversation_id)
            assert list(taken.past) == run.past
            assert taken.fence > run.fence
            run.fence, run.is_held, run.is_orphan = taken.fence, True, False
            self._held(run.conversation_id, run_id, taken.fence)

    @rule(run_id=RUNS, wrong=STALE)
    def release(self, run_id: str, wrong: int) -> None:
        """Give a run up, with a fence that may be wrong."""
        run = self.runs.get(run_id)
        done(self.store.runs.release(run_id, run.fence - wrong if run is not None else 1))
        if run is not None and not wrong:
            run.is_held = False

    @rule(
        run_id=RUNS,
        conversation_id=CONVERSATIONS,
        wrong=STALE,
        upto=st.integers(0, 3),
        past=st.none() | st.lists(st.integers(0, 3), max_size=3),
    )
    def add(self, run_id: str, conversation_id: str, wrong: int, upto: int, past: list[int] | None) -> None:
        """Add a turn to a conversation, for a run that holds it or for one that nobody stores."""
        run = self.runs.get(run_id)
        held = run is not None and run.is_held and run.conversation_id == conversation_id
        fence = run.fence if run is not None and held else 0
        conversation = self.conversations.get(conversation_id, ModelConversation())
        self.number += 1
        messages = one_turn(self.number)
        compacted = Compacted(upto, tuple(message for number in past for message in one_turn(number)) if past else None)
        options: dict[str, Any] = {"run_id": run_id, "fence": fence, "compacted": compacted}
        options["after"] = conversation.version + wrong
        if not held and self._busy(conversation_id, ""):
            refused(ConflictError, self.store.conversations.append, conversation_id, messages, **options)
        elif run_id in conversation.turns:
            reached = done(self.store.conversations.append(conversation_id, messages, **options))
            assert reached == conversation.turns[run_id]
        elif wrong:
            refused(ConflictError, self.store.conversations.append, conversation_id, messages, **options)
        else:
            reached = done(self.store.conversations.append(conversation_id, messages, **options))
            assert reached > conversation.version
            shown = list(compacted.past) if compacted.past is not None else conversation.messages[upto:]
            conversation.messages = [*shown, *messages]
            conversation.version = conversation.turns[run_id] = reached
            self.conversations[conversation_id] = conversation

    @rule(run_id=RUNS)
    def delete_run(self, run_id: str) -> None:
        """Remove a run, which may be held."""
        run = self.runs.get(run_id)
        if run is not None and run.is_held:
            refused(ConflictError, self.store.runs.delete, run_id)
        else:
            assert done(self.store.runs.delete(run_id)) is (run is not None)
            self.runs.pop(run_id, None)

    @rule(conversation_id=CONVERSATIONS, sure=st.sampled_from([False, False, True]))
    def delete_conversation(self, conversation_id: str, sure: bool) -> None:
        """Remove a conversation, which may be held, with its runs."""
        if not sure:
            return
        if self._busy(conversation_id, ""):
            refused(ConversationBusyError, self.store.conversations.delete, conversation_id)
            return
        assert done(self.store.conversations.delete(conversation_id)) is (conversation_id in self.conversations)
        self.conversations.pop(conversation_id, None)
        for run_id in [name for name, run in self.runs.items() if run.conversation_id == conversation_id]:
            del self.runs[run_id]

    @rule(sure=st.sampled_from([False, False, True]))
    def crash(self, sure: bool) -> None:
        """Go on as another process; nobody holds anything."""
        if sure:
            self.store = self.reopened(self.store)
            for run in self.runs.values():
                run.is_held, run.is_orphan = False, run.is_held or run.is_orphan

    @invariant()
    def conversations_are_as_the_model_says(self) -> None:
        """Each shows its messages, and none is there that should not be."""
        for name, conversation in self.conversations.items():
            found = done(self.store.conversations.load(name))
            assert list(found.messages) == conversation.messages
            assert found.version == conversation.version
        assert {item.id for item in done(self.store.conversations.list())} == set(self.conversations)

    @invariant()
    def runs_are_as_the_model_says(self) -> None:
        """Each has its events, its state, and folds."""
        found = {item.run_id: (item.status, item.version) for item in done(self.store.runs.list())}
        assert found == {name: (run.status, len(run.events)) for name, run in self.runs.items()}
        for name, run in self.runs.items():
            assert list(done(self.store.runs.events(name))) == run.events
            assert done(self.store.runs.load(name)).run_id == name
        waiting = {item.run_id for item in done(self.store.runs.waiting())}
        assert waiting == {name for name, run in self.runs.items() if run.state != "ended"}

    def _event(self, run_id: str, *, first: bool) -> AgentEvent:
        self.number += 1
        if first:
            return TurnStarted(run_id=run_id, prompt=PROMPT)
        return ContextUpdated(source=f"source {self.number}", op="saved")

    def _busy(self, conversation_id: str | None, run_id: str) -> bool:
        return conversation_id is not None and any(
            run.is_held and run.conversation_id == conversation_id and name != run_id for name, run in self.runs.items()
        )

    def _held(self, conversation_id: str | None, run_id: str, fence: int) -> None:
        if conversation_id is not None:
            self.conversations.setdefault(conversation_id, ModelConversation()).fence = fence
