"""The window of a MemoryManager: the newest turns of one conversation, in this process.

Laws: whole turns go, the oldest first, so that what stays is a valid history; the newest turn always stays; turns that
share a window follow each other.
"""

import logging
from collections.abc import Callable, Sequence

from sapwood.agent.durable import Keeping
from sapwood.core.messages import Message
from sapwood.core.stored import Compacted, Conversation, ConversationSummary
from sapwood.stores.in_process_runs import InProcessStore

OnEvict = Callable[[tuple[Message, ...]], None]
_log = logging.getLogger(__name__)


class MemoryWindow:
    """A conversation store with room for so many tokens.

    size: message -> tokens. on_evict: told of the messages that went; its failure is logged.
    """

    def __init__(self, id: str, tokens: int, size: Callable[[Message], int], on_evict: OnEvict | None = None) -> None:
        self.id = id
        self._tokens = tokens
        self._size = size
        self._on_evict = on_evict
        self._store = InProcessStore()

    @property
    def messages(self) -> tuple[Message, ...]:
        """What is in the window, oldest first."""
        return self._store.conversations.load(self.id).messages

    def keeping(self, before: Keeping) -> Keeping:
        """Return where an agent keeps its turns that has this window; a run store of its own stays."""
        return Keeping(before.runs or self._store.runs, self, self.id, before.on_pending, "wait")

    def clear(self) -> None:
        """Empty it."""
        self._store.conversations.delete(self.id)

    def add(self, messages: Sequence[Message], run_id: str) -> None:
        """Add messages that no turn brought."""
        version = self._store.conversations.load(self.id).version
        self.append(self.id, messages, after=version, run_id=run_id, fence=0)

    def load(self, conversation_id: str) -> Conversation:
        """Return the window; the runs of turns that have ended are let go."""
        for item in self._store.runs.list(conversation_id=conversation_id, status="ended"):
            self._store.runs.delete(item.run_id)
        return self._store.conversations.load(conversation_id)

    def append(
        self,
        conversation_id: str,
        messages: Sequence[Message],
        *,
        after: int,
        run_id: str,
        fence: int,
        compacted: Compacted | None = None,
    ) -> int:
        """Add the messages of a turn, let the oldest turns go for them, and return the version reached."""
        loaded = self._store.conversations.load(conversation_id)
        evicted: tuple[Message, ...] = ()
        if loaded.version == after:  # else it was added before, or comes too late
            past = loaded.messages
            upto, replaced = (compacted.upto, compacted.past) if compacted is not None else (0, None)
            stays = past[upto:] if replaced is None else replaced
            gone = self._gone(stays, sum(map(self._size, messages)))
            evicted, stays = stays[:gone], stays[gone:]
            if gone:
                compacted = Compacted(upto + gone) if replaced is None else Compacted(upto, stays)
        version = self._store.conversations.append(
            conversation_id, messages, after=after, run_id=run_id, fence=fence, compacted=compacted
        )
        if evicted and self._on_evict is not None:
            try:
                self._on_evict(evicted)
            except Exception:  # noqa: BLE001 - the turn is over, and nobody waits for it
                _log.exception("on_evict failed")
        return version

    def delete(self, conversation_id: str) -> bool:
        """Empty the window; False where it was empty."""
        return self._store.conversations.delete(conversation_id)

    def list(self, *, limit: int = 100, prefix: str = "", before: str | None = None) -> Sequence[ConversationSummary]:
        """Return the one conversation, once there is something in it."""
        return self._store.conversations.list(limit=limit, prefix=prefix, before=before)

    def _gone(self, past: Sequence[Message], new: int) -> int:
        """Return how many of the past messages go, so that the others and the new ones fit: whole turns."""
        sizes = [self._size(message) for message in past]
        left, gone = sum(sizes) + new, 0
        begins = [place for place, message in enumerate(past) if message.role == "user"]
        for end in [*(place for place in begins if place > 0), len(past)]:
            if left <= self._tokens:
                break
            left -= sum(sizes[gone:end])
            gone = end
        return gone
