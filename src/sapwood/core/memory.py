"""What a memory keeps: a record, whose it is, where it came from, and how to ask for it (guide D).

Laws: a scope can only be narrowed; a scope that names a user, an agent or a conversation never reaches what belongs
to another one or to none; times are milliseconds since 1970, UTC.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from sapwood.core.errors import ConfigError
from sapwood.core.require import shown
from sapwood.core.struct import Data

Origin: TypeAlias = Literal["user", "model", "tool", "web", "import"]
"""Who said it. What a tool or the web said is data, and is never shown to a model as an instruction."""
UNTRUSTED: frozenset[str] = frozenset({"tool", "web"})
"""Origins whose text may have been written by a stranger."""


def _require_id(name: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a text, not {shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"{name} {value!r} holds half a character (a lone surrogate), which no store can keep"
        ) from None


class MemoryScope(Data, frozen=True, tag="memory_scope"):
    """Whose memory it is. None names nobody: as the scope of a search, it stands for all.

    user, agent, conversation: ids, compared whole; an empty text is an id like any other. namespace: parts of a path;
    a search under one finds what lies in it and below it, part by part.

    >>> team = MemoryScope(namespace=("team", "nord"))
    >>> team.covers(MemoryScope(user="ann", namespace=("team", "nord", "bergen")))
    True
    >>> team.covers(MemoryScope(namespace=("team", "nord-west")))
    False
    """

    type: ClassVar[Literal["memory_scope"]] = "memory_scope"
    user: str | None = None
    agent: str | None = None
    conversation: str | None = None
    namespace: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("user", "agent", "conversation"):
            _require_id(name, getattr(self, name))
        if isinstance(self.namespace, str) or not all(isinstance(part, str) for part in self.namespace):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"namespace is a tuple of texts, such as ('team', 'nord'), not {shown(self.namespace)}")
        for part in self.namespace:
            _require_id("namespace", part)

    def covers(self, other: "MemoryScope") -> bool:
        """Tell whether a search under this scope may find what was saved under the other."""
        own = ((self.user, other.user), (self.agent, other.agent), (self.conversation, other.conversation))
        return (
            all(wanted is None or wanted == found for wanted, found in own)
            and other.namespace[: len(self.namespace)] == self.namespace
        )

    def narrowed(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        conversation: str | None = None,
        namespace: tuple[str, ...] = (),
    ) -> "MemoryScope":
        """Return this scope with what is given named as well; a namespace is added below this one's.

        Raises ConfigError where this scope names another user, agent or conversation.

        >>> MemoryScope(user="ann").narrowed(conversation="c1").user
        'ann'
        """
        given = {"user": user, "agent": agent, "conversation": conversation}
        for name, value in given.items():
            own = getattr(self, name)
            if value is not None and own is not None and value != own:
                raise ConfigError(f"this memory is that of {name} {own!r} and cannot be narrowed to {name} {value!r}")
        named = {name: value for name, value in given.items() if value is not None}
        return self.replace(**named, namespace=(*self.namespace, *namespace))


class MemoryRecord(Data, frozen=True, tag="memory_record", rename="camel"):
    """One remembered item.

    created_at: when it was said, or kept where nothing else is known. score: set by a search: 0 to 1, higher is more
    relevant. scope: whose it is. origin: who said it. conversation, position: of a turn of a conversation, which one,
    and its place there from 1. turn: the run that it comes from. speaker: who said it, by name. title: a heading or
    caption, searched as well. valid_from, valid_to: when it is true; outside of that it is not recalled. expires_at:
    when it is deleted. supersedes: the record that this one corrects. superseded_by: the one that corrects this one,
    which is not recalled any more. derived_from: the records that it was made of; it is forgotten with them.
    importance: 0 to 1. quarantined: not recalled until a person confirms it. reason, parts: why a search found it,
    in words and as the parts of its score.
    """

    type: ClassVar[Literal["memory_record"]] = "memory_record"
    id: str
    text: str
    created_at: int
    kind: str | None = None
    meta: dict[str, Any] | None = None
    score: float | None = None
    scope: MemoryScope = MemoryScope()
    origin: Origin = "user"
    conversation: str | None = None
    position: int = 0
    turn: str | None = None
    speaker: str | None = None
    title: str | None = None
    valid_from: int | None = None
    valid_to: int | None = None
    expires_at: int | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    derived_from: tuple[str, ...] = ()
    importance: float = 0.5
    quarantined: bool = False
    reason: str | None = None
    parts: dict[str, float] | None = None


class RecallOptions(Data, frozen=True, tag="recall_options"):
    """How to search a memory.

    k: records at most. kind: only records of this kind. min_score: only records above it. half_life_days: a record so
    old counts half, twice as old a quarter; None: age does not count. max_tokens: of the whole block.
    """

    type: ClassVar[Literal["recall_options"]] = "recall_options"
    k: int = 5
    kind: str | None = None
    min_score: float = 0.0
    half_life_days: float | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.half_life_days is not None and not self.half_life_days > 0:
            raise ConfigError(f"half_life_days is a number of days above 0, or None, not {self.half_life_days!r}")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigError(f"max_tokens is at least 1, or None, not {self.max_tokens!r}")


def has_provenance(store: object) -> bool:
    """Tell whether a memory store keeps who said what and when, as ours do; any other keeps texts and kinds.

    >>> has_provenance(object())
    False
    """
    return hasattr(store, "save_many")
