"""What stores keep and give back: conversations, runs and the short form of a run that lists show.

Law: these are copies. Changing one changes nothing in a store, and whatever a store gives back has been through JSON.
"""

from datetime import datetime
from typing import ClassVar, Literal, TypeAlias

from sapwood.core.diagnostics import Cause
from sapwood.core.errors import ConfigError
from sapwood.core.messages import Message
from sapwood.core.run import Run
from sapwood.core.struct import Data

RunStatus: TypeAlias = Literal["running", "paused", "interrupted", "ended"]
"""running: somebody alive holds it. paused: it waits for a person. interrupted: its holder is gone or gave it up."""


class Conversation(Data, frozen=True, tag="conversation"):
    """The messages of a conversation as the next turn sees them: a compaction has been applied.

    version: what to give to the next append as `after`; 0 for a conversation that nobody has written to.

    >>> Conversation("c1").version
    0
    """

    type: ClassVar[Literal["conversation"]] = "conversation"
    id: str
    messages: tuple[Message, ...] = ()
    version: int = 0


class ConversationSummary(Data, frozen=True, tag="conversation_summary"):
    """A conversation in a list.

    run_id: the run that holds it, None where none does. title: how its first prompt began.
    """

    type: ClassVar[Literal["conversation_summary"]] = "conversation_summary"
    id: str
    version: int
    started_at: datetime
    updated_at: datetime
    run_id: str | None = None
    title: str = ""


class Compacted(Data, frozen=True, tag="compacted"):
    """A turn left past messages out, or put others in their place.

    upto: how many of the loaded messages, from the first, are left out. past: what takes the place of all of them,
    None where they stand. The fields `dropped` and `past` of a Run.
    """

    type: ClassVar[Literal["compacted"]] = "compacted"
    upto: int = 0
    past: tuple[Message, ...] | None = None


class StoredRun(Data, frozen=True, tag="stored_run"):
    """A run that was taken over.

    version: what to give to the next append as `after`. fence: what to give with every append.
    past: the messages before the prompt, of a run without a conversation.
    """

    type: ClassVar[Literal["stored_run"]] = "stored_run"
    run: Run
    version: int
    fence: int
    conversation_id: str | None = None
    past: tuple[Message, ...] = ()


class RunSummary(Data, frozen=True, tag="run_summary"):
    """A run in a list.

    stopped_by: why its last segment ended, None while none did. prompt: the beginning of the prompt's text.
    version: events stored. holder: `host:process` that has it, empty where nobody has. error: of a turn that failed.
    """

    type: ClassVar[Literal["run_summary"]] = "run_summary"
    run_id: str
    conversation_id: str | None
    status: RunStatus
    stopped_by: Cause | None
    prompt: str
    started_at: datetime
    updated_at: datetime
    version: int
    holder: str = ""
    error: str | None = None


def require_id(id: object, of: str) -> None:
    """Raise ConfigError for what cannot name a stored run or conversation: anything but a text that UTF-8 can hold.

    of: what it is the id of. A store that took another kind could not list what it holds any more.

    >>> require_id(7, "conversation")
    Traceback (most recent call last):
    sapwood.core.errors.ConfigError: the id of a conversation is a text that is not empty, not 7; give str(...) of it
    """
    if not isinstance(id, str) or not id:
        raise ConfigError(f"the id of a {of} is a text that is not empty, not {id!r}; give str(...) of it")
    try:
        id.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"the id of a {of} holds half a character, so it cannot be stored: {id!r}") from None
