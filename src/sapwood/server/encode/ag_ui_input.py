"""What an AG-UI client posts, read: the newest message or the answers, and nothing of the history it sends along.

Law: the history belongs to the server. What the client holds is kept for one thing only: a snapshot that it is sent
must not take out what it has.
"""

from typing import TYPE_CHECKING, Any

import msgspec

from sapwood.core.errors import ConfigError, ProviderNotInstalledError
from sapwood.core.messages import File, Image, InputPart, Message, Text
from sapwood.server.encode.ag_ui_interrupts import Resume

if TYPE_CHECKING:
    from ag_ui.core import RunAgentInput


class AgUiRequest(msgspec.Struct, frozen=True):
    """A request to run. run_id: the client's name for this stream; a resume has one of its own.

    message, message_id: the newest message, None and empty on a resume. resume: None where there is none.
    messages, state: what the client holds, for snapshots; never shown to a model.
    """

    thread_id: str
    run_id: str
    message: Message | None = None
    message_id: str = ""
    resume: tuple[Resume, ...] | None = None
    messages: tuple[dict[str, Any], ...] = ()
    state: Any = None


def read_input(body: bytes | dict[str, Any]) -> AgUiRequest:
    """Read the body of a request.

    Raises ConfigError that names what is wrong with it, ProviderNotInstalledError without the extra `ag-ui`.

    >>> posted = {"threadId": "t1", "runId": "r1", "messages": [{"id": "m1", "role": "user", "content": "hello"}]}
    >>> read_input(posted).message.text
    'hello'
    """
    given = _validated(body)
    for name, value in (("threadId", given.thread_id), ("runId", given.run_id)):
        if not value:
            raise ConfigError(f"{name} is empty; it is the client's name for the thread or the run")
    resume = None if given.resume is None else tuple(_entry(item) for item in given.resume)
    if resume is not None and len({entry.interrupt_id for entry in resume}) < len(resume):
        raise ConfigError("resume answers one interrupt twice; send one entry for each")
    message, message_id = (None, "") if resume else _newest(given)
    return AgUiRequest(
        given.thread_id,
        given.run_id,
        message,
        message_id,
        resume or None,
        tuple(item.model_dump(mode="json", by_alias=True) for item in given.messages),
        given.state,
    )


def _validated(body: bytes | dict[str, Any]) -> "RunAgentInput":
    try:
        from ag_ui.core import RunAgentInput
    except ImportError as error:
        raise ProviderNotInstalledError("AG-UI needs an extra: pip install 'sapwood[ag-ui]'") from error
    from pydantic import ValidationError

    try:
        return (
            RunAgentInput.model_validate_json(body) if isinstance(body, bytes) else RunAgentInput.model_validate(body)
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the body"
        raise ConfigError(f"not a RunAgentInput: {where}: {first['msg']}") from None


def _entry(item: Any) -> Resume:
    return Resume(item.interrupt_id, item.status == "cancelled", item.payload)


def _newest(given: "RunAgentInput") -> tuple[Message, str]:
    last = given.messages[-1] if given.messages else None
    if last is None or last.role != "user":
        what = "there is none" if last is None else f"it is of the role {last.role!r}"
        raise ConfigError(f"nothing to do: the last message is to be the user's, and {what}; or send `resume`")
    if isinstance(last.content, str):
        return Message.user(last.content), last.id
    parts = tuple(_part(part) for part in last.content)
    if not parts:
        raise ConfigError(f"message {last.id!r} is empty")
    return Message("user", parts), last.id


def _part(part: Any) -> InputPart:
    if part.type == "text":
        return Text(part.text)
    if part.type not in ("image", "document"):
        raise ConfigError(f"a part of the type {part.type!r} cannot be read; send text, an image or a document")
    source = part.source
    if source.type not in ("data", "url"):
        raise ConfigError(f"a source of the type {source.type!r} cannot be read; send data or a url")
    kind = Image if part.type == "image" else File
    more = {"media_type": source.mime_type} if source.mime_type else {}
    return kind(data=source.value, **more) if source.type == "data" else kind(url=source.value, **more)
