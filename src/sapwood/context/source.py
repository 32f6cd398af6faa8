"""ContextSource: the only extension point for what a model sees.

Laws: every method is optional and may be plain or async; `contribute` gives the same answer when it is
asked again after a resume; what is chosen for one prompt belongs to `select`.
Source: guide D, "Context manager".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, overload

import msgspec

from sapwood.context.meter import Meter
from sapwood.core.events import Placement
from sapwood.core.ledger import Section
from sapwood.core.memory import MemoryRecord
from sapwood.core.messages import Message, ToolCall
from sapwood.core.model import ToolLoading
from sapwood.core.scope import RetrievalScope
from sapwood.core.tools import BoundTool, MaybeAwaitable, ToolSchema
from sapwood.core.usage import Usage

Exchange: TypeAlias = tuple[Message, ...]
"""A reply together with the results of its calls, so that no cut can part them; or one other message."""


class History(Sequence[Exchange]):
    """The messages of a conversation as exchanges, and how large they are.

    current: the place of the exchange that begins the current turn: the prompt. beside: tokens of all else in the
    request: system text, tools, what is still to be recalled. size: message -> its tokens. excess: tokens by which
    the past messages are over the share that the budget gives them; at most 0 where they are not.

    >>> history = History([(Message.user("hi"),)], size=lambda message: 5)
    >>> len(history), history.tokens, history.current
    (1, 5, 1)
    """

    __slots__ = ("_exchanges", "_frame", "beside", "current", "excess", "size")

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        *,
        current: int | None = None,
        beside: int = 0,
        size: Callable[[Message], int] | None = None,
        excess: int = 0,
    ) -> None:
        self.excess = excess
        self._frame: int | None = None
        self._exchanges = tuple(exchanges)
        self.current = len(self._exchanges) if current is None else current
        self.beside = beside
        self.size: Callable[[Message], int] = size or _estimated

    @overload
    def __getitem__(self, index: int) -> Exchange: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Exchange, ...]: ...
    def __getitem__(self, index: int | slice) -> Exchange | tuple[Exchange, ...]:
        return self._exchanges[index]

    def __len__(self) -> int:
        return len(self._exchanges)

    @property
    def tokens(self) -> int:
        """The tokens of all messages."""
        return sum(self.size(message) for exchange in self._exchanges for message in exchange)

    def text_tokens(self, text: str) -> int:
        """Return the tokens of a text within a message."""
        if self._frame is None:  # of a message around a text, asked of the counter once
            self._frame = self.size(Message.assistant("."))
        return max(0, self.size(Message.assistant(text)) - self._frame)

    def replace(self, exchanges: Sequence[Exchange], *, current: int | None = None) -> "History":
        """Return other exchanges, measured in the same way."""
        place = self.current if current is None else current
        return History(exchanges, current=place, beside=self.beside, size=self.size, excess=self.excess)


def _estimated(message: Message) -> int:
    return Meter().raw_message(message).total


class Shortened(msgspec.Struct, frozen=True, kw_only=True):
    """A history that a source made shorter. usage: what a model used that wrote a summary for it."""

    history: Sequence[Exchange]
    usage: Usage | None = None


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a source knows about the current request.

    text: the user's prompt as text. reply: the answer so far, whole in `commit`.
    messages: the past messages and this turn's so far. room: tokens that are left when `select` is asked.
    loaded: names of lazy tools that are callable already. count: text -> tokens.
    skills: names of the skills whose instructions the transcript holds.
    tool_loading, placement: what the turn does where a source was told nothing else.
    scope: which documents may be searched; None for all.
    free_objects: an argument of a tool may be an object without declared properties.
    conversation: the id of the stored conversation that the turn belongs to, empty where there is none.
    """

    run_id: str = ""
    text: str = ""
    reply: str = ""
    messages: Sequence[Message] = ()
    room: int = 0
    loaded: tuple[str, ...] = ()
    tool_loading: ToolLoading = "relist"
    placement: Placement = "system"
    count: Callable[[str], int] = len
    skills: tuple[str, ...] = ()
    scope: RetrievalScope | None = None
    free_objects: bool = True
    conversation: str = ""


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """What a source offers for the whole turn.

    tools: sent from the first call. hidden: known and runnable, but callable only once they are loaded.
    system: text for the system prompt. meta_tools: names of tools whose calls go to `handle`.
    name_map: wire name -> original, where a source renamed its tools itself.
    beside_tools: these tools are offered only where another source offers some, too.
    loading: how hidden tools become callable: `relist` appends them to the list, `dispatch` reaches them through
    `call_tool`, `deferred` has them in the list from the first call, marked to stay out of the prompt, and `inline`
    leaves their definitions to the result that found them.
    how_to_load: by the name of a hidden tool, the sentence for a model that calls it too early; without one, it is
    told to search.
    """

    tools: Sequence[ToolSchema | BoundTool] = ()
    hidden: Sequence[ToolSchema | BoundTool] = ()
    system: str = ""
    meta_tools: Sequence[str] = ()
    name_map: Mapping[str, str] = {}
    loading: ToolLoading = "relist"
    beside_tools: bool = False
    how_to_load: Mapping[str, str] = {}


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Text chosen for this prompt. It is taken whole if it fits the budget, else skipped.

    placement: `turn` puts it beside the prompt, where it stays in the transcript; `system` puts it into
    the system prompt of this turn. tools: names of hidden tools that are callable by it; such a text is never cut.
    """

    text: str
    records: tuple[MemoryRecord, ...] = ()
    label: str = ""
    section: Section = "memory"
    placement: Placement = "system"
    tools: tuple[str, ...] = ()


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """A source's answer to a call of its meta-tool.

    result: any JSON value, shown to the model. tools: names of tools that became callable by it.
    skill: the name of the skill whose instructions the result is; such a result outlives a compaction.
    source: filled by the manager with the name of the source that answered.
    """

    result: Any = None
    tools: tuple[str, ...] = ()
    is_error: bool = False
    source: str = ""
    skill: str = ""


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """What a source kept after the turn.

    later: what is still to be done, in the background: nobody waits for it, and its failure is logged.
    """

    records: tuple[MemoryRecord, ...] = ()
    later: Callable[[], MaybeAwaitable[None]] | None = None


class ContextSource:
    """One kind of context. Override what you need; the defaults do nothing.

    >>> class House(ContextSource):
    ...     name = "house"
    ...     def contribute(self, turn: Turn) -> Contribution:
    ...         return Contribution(system="Answer in one sentence.")
    >>> House().contribute(Turn()).system
    'Answer in one sentence.'
    """

    name: str = "source"
    compact_at: float = 0
    """When `compact` is asked although the request still fits: a share of the window (up to 1), or tokens; 0: never."""
    waits: bool = False
    """Its plain `select` and `commit` wait for a disk or a network: an async turn calls them beside its event loop."""

    def contribute(self, turn: Turn) -> MaybeAwaitable[Contribution]:
        """Return the tools and the text that hold for the whole turn."""
        return Contribution()

    def select(self, turn: Turn, room: int) -> MaybeAwaitable[Selection | None]:
        """Return what this prompt calls for, in at most `room` tokens, or None."""
        return None

    def handle(self, call: ToolCall, turn: Turn) -> MaybeAwaitable[Loaded | None]:
        """Answer a call of a meta-tool, or return None where it is not this source's."""
        return None

    def compact(self, history: History, room: int) -> MaybeAwaitable[Sequence[Exchange] | Shortened | None]:
        """Return the exchanges shortened, or None to leave it to others.

        room: tokens that the whole request may take. Whole exchanges may be left out, or others put in their place,
        and results be made shorter with `core.transcript.shortened`; the prompt and the last exchange always stay.
        """
        return None

    def stays(self, exchange: Exchange, place: int) -> bool:
        """Tell whether a past exchange goes last where some must go; place: its own, counted from the oldest."""
        return False

    def commit(self, turn: Turn) -> MaybeAwaitable[Saved | None]:
        """Keep what should last. It may run twice after a crash: save nothing twice for one run id."""
        return None


class SourceLike(Protocol):
    """Anything with a name; the methods of ContextSource are looked up and may be missing."""

    @property
    def name(self) -> str:
        """Shown in events and in the ledger."""
        ...
