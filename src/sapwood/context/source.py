"""ContextSource: the only extension point for what a model sees.

Laws: every method is optional and may be plain or async; `contribute` gives the same answer when it is
asked again after a resume; what is chosen for one prompt belongs to `select`.
Source: guide D, "Context manager".
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import msgspec

from sapwood.core.events import Placement
from sapwood.core.ledger import Section
from sapwood.core.memory import MemoryRecord
from sapwood.core.messages import Message, ToolCall
from sapwood.core.model import ToolLoading
from sapwood.core.tools import BoundTool, MaybeAwaitable, ToolSchema

History: TypeAlias = Sequence[tuple[Message, ...]]
"""Past messages as exchanges: a reply stands together with the results of its calls, so no cut can part them."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """What a source knows about the current request.

    text: the user's prompt as text. reply: the answer so far, whole in `commit`.
    messages: the past messages and this turn's so far. room: tokens that are left when `select` is asked.
    loaded: names of lazy tools that are callable already. count: text -> tokens.
    skills: names of the skills whose instructions the transcript holds.
    tool_loading, placement: what the turn does where a source was told nothing else.
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


class Contribution(msgspec.Struct, frozen=True, kw_only=True):
    """What a source offers for the whole turn.

    tools: sent from the first call. hidden: known and runnable, but sent only once they are loaded.
    system: text for the system prompt. meta_tools: names of tools whose calls go to `handle`.
    name_map: wire name -> original, where a source renamed its tools itself.
    is_dispatched: hidden tools are called through `call_tool`, once they are loaded.
    how_to_load: by the name of a hidden tool, the sentence for a model that calls it too early; without one, it is
    told to search.
    """

    tools: Sequence[ToolSchema | BoundTool] = ()
    hidden: Sequence[ToolSchema | BoundTool] = ()
    system: str = ""
    meta_tools: Sequence[str] = ()
    name_map: Mapping[str, str] = {}
    is_dispatched: bool = False
    how_to_load: Mapping[str, str] = {}


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Text chosen for this prompt. It is taken whole if it fits the budget, else skipped.

    placement: `turn` puts it beside the prompt, where it stays in the transcript; `system` puts it into
    the system prompt of this turn.
    """

    text: str
    records: tuple[MemoryRecord, ...] = ()
    label: str = ""
    section: Section = "memory"
    placement: Placement = "system"


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
    """What a source kept after the turn."""

    records: tuple[MemoryRecord, ...] = ()


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

    def contribute(self, turn: Turn) -> MaybeAwaitable[Contribution]:
        """Return the tools and the text that hold for the whole turn."""
        return Contribution()

    def select(self, turn: Turn, room: int) -> MaybeAwaitable[Selection | None]:
        """Return what this prompt calls for, in at most `room` tokens, or None."""
        return None

    def handle(self, call: ToolCall, turn: Turn) -> MaybeAwaitable[Loaded | None]:
        """Answer a call of a meta-tool, or return None where it is not this source's."""
        return None

    def compact(self, history: History, room: int) -> MaybeAwaitable[History | None]:
        """Return the exchanges shortened to about `room` tokens, or None to leave it to others."""
        return None

    def commit(self, turn: Turn) -> MaybeAwaitable[Saved | None]:
        """Keep what should last. It may run twice after a crash: save nothing twice for one run id."""
        return None


class SourceLike(Protocol):
    """Anything with a name; the methods of ContextSource are looked up and may be missing."""

    @property
    def name(self) -> str:
        """Shown in events and in the ledger."""
        ...
