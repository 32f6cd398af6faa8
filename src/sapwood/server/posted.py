"""What clients post, read and checked: messages of the AI SDK, decisions, names.

Laws: of a posted history only its last message is read, and of a call in it only the id and the answer; the rest is
compared with what is stored, and anything else than that is refused. What is refused is named.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from sapwood.agent.prompt import to_prompt
from sapwood.core.approval import Answer, ApprovalDecision, ExternalResult
from sapwood.core.errors import ConfigError
from sapwood.core.json_object import is_list, is_object
from sapwood.core.messages import File, Image, InputPart, Message, Text
from sapwood.core.require import shown
from sapwood.core.run import Run

Trigger: TypeAlias = Literal["submit-message", "regenerate-message"]
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,", re.ASCII)
MAX_ID = 200
_MOST_EXACT = 2**53
"""Whole numbers above this lose their last digits in JavaScript, whose numbers are all floats."""


class Posted(msgspec.Struct, frozen=True):
    """What a chat request asks for: a prompt, or answers to the run whose message was posted back.

    message_id: of the user's message, or of the assistant's that holds the answers.
    """

    thread_id: str
    message_id: str
    prompt: Message | None
    answers: "Mapping[str, PostedAnswer]"
    is_again: bool = False


class PostedAnswer(msgspec.Struct, frozen=True):
    """An answer in a posted message, with the client's copy of the call."""

    answer: Answer
    tool: str
    arguments: Any


def read_chat(body: object) -> Posted:
    """Return what a body of the AI SDK's transport asks for; raises ConfigError for what cannot be meant."""
    if not is_object(body):
        raise ConfigError(f"the body is an object with id and messages, not {shown(body)}")
    messages: Any = body.get("messages")
    if not is_list(messages) or not messages or not is_object(messages[-1]):
        raise ConfigError("messages is a list of messages that is not empty")
    trigger: Any = body.get("trigger", "submit-message")
    if trigger not in ("submit-message", "regenerate-message"):
        raise ConfigError(f'trigger is "submit-message" or "regenerate-message", not {shown(trigger)}')
    last: Mapping[str, Any] = messages[-1]
    thread_id, message_id = _id(body.get("id"), "id"), _id(last.get("id"), "the id of the last message")
    parts: Any = last.get("parts")
    if not is_list(parts):
        raise ConfigError(f"parts of the last message is a list, not {shown(parts)}")
    match last.get("role"):
        case "user":
            prompt = to_prompt([*_input_parts(parts)])
            return Posted(thread_id, message_id, prompt, {}, trigger == "regenerate-message")
        case "assistant":
            answers = dict(_answers(parts))
            if not answers:
                raise ConfigError("the last message is the assistant's, and no part of it holds an answer")
            return Posted(thread_id, message_id, None, answers)
        case other:
            raise ConfigError(f"the role of the last message is user or assistant, not {shown(other)}")


def _id(value: object, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID or not value.isprintable():
        raise ConfigError(f"{name} is a text of 1 to {MAX_ID} printable characters, not {shown(value)}")
    return value


def _input_parts(parts: Sequence[Any]) -> "Sequence[InputPart]":
    found: list[InputPart] = []
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)}:
                found.append(Text(text))
            case {"type": "file", "mediaType": str(kind), "url": str(url)}:
                found.append(_file(kind, url, part.get("filename")))
            case {"type": str(kind)} if kind.startswith("data-"):
                continue  # the application's own, and nothing for a model
            case _:
                raise ConfigError(f"a part of a user's message is a text or a file, not {shown(part)}")
    return found


def _file(kind: str, url: str, name: object) -> Image | File:
    data: str | None = None
    if match := _DATA_URL.match(url):
        data, kind, address = url[match.end() :], match[1], None
    elif url.startswith("https://"):
        address = url
    else:
        raise ConfigError(f"the url of a file is a base64 data: URL or begins with https://, not {shown(url[:60])}")
    if kind.startswith("image/"):
        return Image(data, kind, address)
    return File(data, kind, address, name if isinstance(name, str) else None)


def _answers(parts: Sequence[Any]) -> "Sequence[tuple[str, PostedAnswer]]":
    found: list[tuple[str, PostedAnswer]] = []
    for part in parts:
        if not is_object(part):
            continue
        kind: Any = part.get("type")
        if not isinstance(kind, str) or not (kind == "dynamic-tool" or kind.startswith("tool-")):
            continue
        name: Any = part.get("toolName") if kind == "dynamic-tool" else kind.removeprefix("tool-")
        call = part.get("toolCallId")
        match part:
            case {"state": "approval-responded", "approval": {"id": str(id), "approved": bool(yes)} as approval}:
                if id != call:
                    raise ConfigError(f"the approval {shown(id)} is not that of the call {shown(call)}")
                reason: Any = approval.get("reason")
                answer = ApprovalDecision(yes, reason if isinstance(reason, str) else None)
                found.append((id, PostedAnswer(answer, str(name), part.get("input"))))
            case {"state": "approval-responded"}:
                raise ConfigError("a part in the state approval-responded has approval: {id, approved}")
            case {"state": "output-available", "toolCallId": str(id)} if not part.get("providerExecuted"):
                result = ExternalResult(part.get("output"))
                found.append((id, PostedAnswer(result, str(name), part.get("input"))))
            case {"state": "output-error", "toolCallId": str(id)} if not part.get("providerExecuted"):
                result = ExternalResult(str(part.get("errorText", "")), is_error=True)
                found.append((id, PostedAnswer(result, str(name), part.get("input"))))
            case _:
                continue
    return found


def checked_answers(run: Run, answers: Mapping[str, PostedAnswer]) -> dict[str, Answer]:
    """Return the answers to calls that wait, once the client's copy of each is found to be what is stored.

    A call of a tool that runs outside keeps its result in every later message, so one that waits no more is passed
    over where another one waits. Raises ConfigError for a copy that was changed.
    """
    waiting = {request.id: request for request in run.waiting()}
    found: dict[str, Answer] = {}
    for id, item in answers.items():
        request = waiting.get(id)
        if request is None:
            if isinstance(item.answer, ApprovalDecision):
                found[id] = item.answer  # the run itself says what became of it
            continue
        if item.tool != request.name or not _is_same(item.arguments, request.tool_input):
            raise ConfigError(
                f"the call {shown(id)} is not what was asked for: its tool or its input was changed. Edit the input "
                "with POST /api/runs/{id}/decide"
            )
        found[id] = item.answer
    return found


def _is_same(given: object, stored: object) -> bool:
    # As JSON, in which a client may have written 1.0 as 1, and which knows that true is not 1.
    try:
        return _plain(given) == _plain(stored)
    except (TypeError, ValueError, RecursionError):
        return False


def _plain(value: object) -> bytes:
    return msgspec.json.encode(_numbers(value), order="deterministic")


def _numbers(value: object) -> object:
    if isinstance(value, int) and abs(value) > _MOST_EXACT:
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if is_object(value):
        return {name: _numbers(item) for name, item in value.items()}
    return [_numbers(item) for item in value] if is_list(value) else value


def read_decisions(body: object) -> tuple[dict[str, Answer], dict[str, float] | None]:
    """Return the decisions and the raised limits of a body; raises ConfigError for what cannot be meant."""
    if not is_object(body) or not set(body) <= {"decisions", "extend"} or not body:
        raise ConfigError("the body has decisions, an object by the id of each request, and may have extend")
    given: Any = body.get("decisions", {})
    if not is_object(given):
        raise ConfigError(f"decisions is an object by the id of each request, not {shown(given)}")
    decisions = {_id(id, "the id of a request"): _decision(id, item) for id, item in given.items()}
    extend: Any = body.get("extend")
    if extend is not None and not is_object(extend):
        raise ConfigError(f"extend is an object of numbers by the name of a limit, not {shown(extend)}")
    return decisions, dict(extend) if extend is not None else None


def _decision(id: str, item: Any) -> Answer:
    match item:
        case {"approved": bool(yes)} if set(item) <= {"approved", "reason", "input", "remember"}:
            given: dict[str, Any] = item
            return ApprovalDecision(
                yes, given.get("reason"), updated_input=given.get("input"), remember=given.get("remember")
            )
        case {"result": value} if set(item) <= {"result", "isError"}:
            is_error: Any = item.get("isError", False)
            return ExternalResult(value, is_error=is_error)
        case _:
            raise ConfigError(
                f"the decision on {shown(id)} is {{approved, reason?, input?, remember?}} or {{result, isError?}}"
            )
