"""Context items: what a pipeline gathers for a question, and the question itself.

Laws: an item never changes after it was made; what cannot be ranked is refused where it is made; the same item has
the same id in every process.
Source: guide A, "Pipeline".
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, Literal

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.messages import Message
from sapwood.core.require import shown
from sapwood.core.scope import as_path
from sapwood.core.struct import Data

FACT_PRIORITY = 8
CONVERSATION_PRIORITY = 7
DEFAULT_PRIORITY = 5


class SourceType(StrEnum):
    """What an item of context is. It is the name of the source in budgets, too.

    >>> SourceType("retrieval") is SourceType.RETRIEVAL
    True
    """

    RETRIEVAL = "retrieval"
    MEMORY = "memory"
    SYSTEM = "system"
    USER = "user"
    TOOL = "tool"
    CONVERSATION = "conversation"


class ContextItem(Data, frozen=True, tag="context_item"):
    """One piece of text that a request may hold.

    source: what it is; it decides where a formatter puts it. score: how well it fits the question; of two items of one
    priority the one with the higher score goes in first. priority: 1 to 10, the highest first.
    token_count: what it was counted at; a pipeline always counts itself. metadata: what else is known of it: `role`
    ("user" or "assistant") of what was said, `title` or `section` of a document. id: made from the text where none is
    given. created_at: a time without a zone is taken as UTC. namespace: where a document lies, for `RetrievalScope`.

    Raises ConfigError for what could not be ranked.

    >>> ContextItem(content="Bees like lavender.", source=SourceType.RETRIEVAL, score=0.9).priority
    5
    """

    type: ClassVar[Literal["context_item"]] = "context_item"
    content: str
    source: SourceType = SourceType.RETRIEVAL
    score: float = 0.0
    priority: int = DEFAULT_PRIORITY
    token_count: int = 0
    metadata: dict[str, Any] = {}
    id: str = ""
    created_at: datetime | None = None
    namespace: str = "/"

    def __post_init__(self) -> None:
        given: Any = self.source
        if not isinstance(self.content, str):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"the content of an item is a text, not {shown(self.content)}")
        if not isinstance(given, SourceType):
            if given not in set(SourceType):
                raise ConfigError(f"source is one of {', '.join(SourceType)}, not {shown(given)}")
            self._fill(source=SourceType(given))
        if isinstance(self.priority, bool) or not isinstance(self.priority, int) or not 1 <= self.priority <= 10:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"priority is a whole number from 1 to 10, not {shown(self.priority)}")
        if isinstance(self.score, bool) or not isinstance(self.score, int | float) or not math.isfinite(self.score):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"score is a finite number, not {shown(self.score)}")
        if self.created_at is not None and self.created_at.tzinfo is None:
            self._fill(created_at=self.created_at.replace(tzinfo=UTC))
        self._fill(namespace=as_path(self.namespace))
        if not self.id:
            self._fill(id=_id(self.source, self.namespace, self.content))

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> "ContextItem":
        """Return a copy with some fields changed; guide A's word for `replace`."""
        return self.replace(**(update or {}))

    def _fill(self, **values: Any) -> None:
        for name, value in values.items():
            msgspec.structs.force_setattr(self, name, value)  # it was only just made, so nobody has seen it


def _id(source: str, namespace: str, content: str) -> str:
    whole = "\0".join((source, namespace, content))
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:16]


class QueryBundle(str):
    """A question, and what is known beside its words. It is a text, so whoever takes a text takes it as well.

    embedding: its vector, for retrievers that search by one. metadata: anything. chat_history: the messages before it,
    for steps that rewrite the question; they are not placed in the context.

    >>> query = QueryBundle("What do bees like?", embedding=[0.1, 0.9])
    >>> query.query_str, query.embedding, query.upper()
    ('What do bees like?', [0.1, 0.9], 'WHAT DO BEES LIKE?')
    """

    __slots__ = ("chat_history", "embedding", "metadata")

    embedding: Sequence[float] | None
    metadata: Mapping[str, Any]
    chat_history: Sequence[Message]

    def __new__(
        cls,
        query_str: str,
        *,
        embedding: Sequence[float] | None = None,
        metadata: Mapping[str, Any] | None = None,
        chat_history: Sequence[Message] = (),
    ) -> "QueryBundle":
        """Return the question; raises ConfigError where it is no text."""
        if not isinstance(query_str, str):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"a question is a text or a QueryBundle, not {shown(query_str)}")
        made = super().__new__(cls, query_str)
        object.__setattr__(made, "embedding", embedding)
        object.__setattr__(made, "metadata", {} if metadata is None else metadata)
        object.__setattr__(made, "chat_history", chat_history)
        return made

    @property
    def query_str(self) -> str:
        """The words alone."""
        return str(self)

    def changed(
        self,
        query_str: str | None = None,
        *,
        embedding: Sequence[float] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> "QueryBundle":
        """Return another question that takes over what is not given."""
        return QueryBundle(
            self if query_str is None else query_str,
            embedding=self.embedding if embedding is None else embedding,
            metadata=self.metadata if metadata is None else metadata,
            chat_history=self.chat_history,
        )

    def __str__(self) -> str:
        """The words alone, as a plain text."""
        return "".join(self)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a QueryBundle does not change; make another one with changed({name}=...)")

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.query_str, self.embedding, self.metadata, self.chat_history)


def _again(
    query_str: str, embedding: Sequence[float] | None, metadata: Mapping[str, Any], history: Sequence[Message]
) -> QueryBundle:
    return QueryBundle(query_str, embedding=embedding, metadata=metadata, chat_history=history)


def conversation_items(messages: Sequence[Message], *, priority: int = CONVERSATION_PRIORITY) -> list[ContextItem]:
    """Return the texts of a conversation as items, the newest with the highest score (0.5 to 1.0).

    Messages without text, such as results of tools, are left out.

    >>> [item.score for item in conversation_items([Message.user("Hi"), Message.assistant("Hello")])]
    [0.5, 1.0]
    """
    said = [(message.role, message.text) for message in messages if message.role != "tool" and message.text]
    step = 0.5 / max(1, len(said) - 1)
    return [
        ContextItem(
            content=text,
            source=SourceType.CONVERSATION,
            score=1.0 - step * (len(said) - 1 - place),
            priority=priority,
            metadata={"role": role},
        )
        for place, (role, text) in enumerate(said)
    ]
