"""What a provider's refusal means: HTTP status, headers and body to the tree of errors.

Laws: pure; the body decides where status and body differ; a message repeats neither a key nor the
prompt. Source of the spellings: recorded answers of the providers, and public reports.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from sapwood.core.errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    LLMError,
    LLMTimeoutError,
    ModelNotFoundError,
    RateLimitError,
    ServerError,
)
from sapwood.core.json_object import is_list, is_object
from sapwood.llm.addresses import shown_url
from sapwood.llm.overflow import is_overflow, told_sizes
from sapwood.llm.shapes import UNREADABLE, count_in, decode_json, text_in

MAX_MESSAGE = 500
_STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "model_not_found": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "vector_store_timeout": 504,
    "overloaded_error": 529,
}
_BAD_KEY = re.compile(
    r"incorrect api key|api key not valid|api_key_invalid|invalid api key|invalid_api_key|invalid x-api-key"
    r"|expiredtoken|unrecognizedclient|security token included in the request is",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model identifier is invalid|model_not_found|is not a valid model id|model not exist\b|\binvalid_model\b",
    re.IGNORECASE,
)
_BROKE = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"})
_FILTERED = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "responsibleaipolicyviolation",
        "image_content_policy_violation",
        "misalignment_policy_violation",
        "bio_policy",
    }
)
_PASSED_ON = 424  # Bedrock: the model's own server failed; the body holds its status
_LEAST_UNIX_TIME = 1e9  # a larger number of seconds is no wait but a time
_LEAST_MILLISECONDS = 1e11
_ENCRYPTED = re.compile(r"encrypted[ _]content", re.IGNORECASE)
_BAD_CALL = frozenset({"tool_use_failed"})
_CONTROL = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_SHORTEST_SECRET = 8
_SECRET = re.compile(r"\b(?:sk|pk|gsk|xai|key)-[\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+\S+", re.IGNORECASE)


class Complaint(msgspec.Struct, frozen=True):
    """What an error body says: its message, its words for the kind, its own status and wait.

    requested_tokens, limit_tokens: of a request that is too long, where fields of their own tell them (llama.cpp).
    """

    message: str = ""
    kinds: tuple[str, ...] = ()
    status: int | None = None
    retry_seconds: float | None = None
    requested_tokens: int = 0
    limit_tokens: int = 0


def complaint(body: Any) -> Complaint | None:
    """Return what the body complains about, None where it is not an error.

    >>> complaint({"error": {"type": "overloaded_error", "message": "Overloaded"}}).message
    'Overloaded'
    """
    if is_list(body):  # Gemini may put a streamed error into a list
        return complaint(body[0]) if body else None
    if not is_object(body):
        return None
    found: Any = body.get("error")
    if isinstance(found, str) and found:
        return Complaint(found, _words(body.get("code"), body.get("type")), _number(body.get("code")))
    if is_object(found):
        return Complaint(
            _with_source(_text(found.get("message")), found.get("metadata")),
            _words(found.get("type"), found.get("code"), found.get("status"), *_reasons(found.get("details"))),
            _number(found.get("code")) or _number(found.get("status_code")),
            _retry_info(found.get("details")),
            count_in(found, "n_prompt_tokens"),
            count_in(found, "n_ctx"),
        )
    if "detail" in body and len(body) <= 2:  # FastAPI's way, for example Mistral and vLLM
        return Complaint(_detail(body["detail"]))
    if body.get("type") == "error" or body.get("object") == "error":
        kinds = _words(body.get("type"), body.get("code"))
        return Complaint(_text(body.get("message")), kinds, _number(body.get("code")))
    return None


def read_event(data: bytes) -> Any:
    """Return one event of a stream, decoded; raises ServerError where it cannot be read.

    >>> read_event(b'{"a": 1}')
    {'a': 1}
    """
    try:
        return decode_json(data)
    except UNREADABLE:
        raise ServerError("the stream holds an event that cannot be read") from None


def read_answer(body: bytes) -> Any:
    """Return an answer that was not streamed, decoded; raises ServerError where it cannot be read.

    >>> read_answer(b'{"a": 1}')
    {'a': 1}
    """
    try:
        return decode_json(body)
    except UNREADABLE:
        raise ServerError("the provider's answer cannot be read") from None


def error_of(
    body: bytes,
    *,
    status: int,
    headers: Mapping[str, str] | None = None,
    now: float | None = None,
    where: str = "",
) -> LLMError:
    """Return the error that a response means.

    headers: with lower-case names. now: Unix time, for times that the provider states as dates.
    where: the name of the address that was asked, for answers that are no provider's.
    """
    try:
        value = decode_json(body)
    except UNREADABLE:
        value = None
    headers = headers or {}
    said = complaint(value) or _bare_complaint(value, headers)
    if said is None or (300 <= status < 400 and "location" in headers):
        said = Complaint(_unreadable(status, headers, where or "the provider"))
    return error_from(said, status=status, headers=headers, now=now)


def error_from(
    said: Complaint, *, status: int = 200, headers: Mapping[str, str] | None = None, now: float | None = None
) -> LLMError:
    """Return the error that a complaint means; status is that of the response, 200 in mid-stream."""
    headers = headers or {}
    effective = said.status or status if status == _PASSED_ON else status
    if status < 400:
        effective = said.status or next(
            (_STATUS_OF_KIND[kind] for kind in said.kinds if kind in _STATUS_OF_KIND), status
        )
    error = _classify(said, effective)
    error.status = status if status == _PASSED_ON else error.status
    told = headers.get("x-should-retry")
    if told in ("true", "false"):
        error.is_transient = told == "true"
    error.retry_after_seconds = retry_after(headers, now=now) if status >= 400 else None
    if said.retry_seconds is not None:
        error.retry_after_seconds = max(said.retry_seconds, error.retry_after_seconds or 0.0)
    return error


def _classify(said: Complaint, status: int) -> LLMError:
    words = " ".join((said.message, *said.kinds))
    message = clean(said.message) or f"the provider answered {status}"
    kinds = set(said.kinds)
    if is_overflow(words, status):
        requested, limit = told_sizes(said.message)
        return ContextOverflowError(
            message,
            status=status,
            requested_tokens=said.requested_tokens or requested,
            limit_tokens=said.limit_tokens or limit,
        )
    if status in (401, 403) or _BAD_KEY.search(words):
        return AuthenticationError(message, status=status)
    if kinds & _FILTERED:
        return ContentFilterError(message, status=status)
    if status == 404 or (status == 400 and _NO_MODEL.search(words)):
        return ModelNotFoundError(message, status=status)
    if kinds & _BROKE:
        return RateLimitError(message, status=status, is_transient=False)
    if status == 429:
        return RateLimitError(message, status=status)
    if status in (408, 504):
        return LLMTimeoutError(message, status=status)
    if status == 409 or status >= 500 or kinds & _BAD_CALL:
        return ServerError(message, status=status)
    if "invalid_encrypted_content" in kinds and not _ENCRYPTED.search(message):
        message += " (invalid_encrypted_content)"  # the code alone tells what to do, whatever the words are
    return LLMError(message, status=status)


def refuses_thinking(error: LLMError) -> bool:
    """Tell whether a server could not read encrypted reasoning that was sent back, or has none to give.

    >>> refuses_thinking(LLMError("The encrypted content gAAA...DQ== could not be verified.", status=400))
    True
    """
    return type(error) is LLMError and error.status == 400 and bool(_ENCRYPTED.search(error.message))


def clean(message: str) -> str:
    """Return a provider's message in one line, shortened, without secrets, echoed input and control characters."""
    line = " ".join(_CONTROL.sub("", message.split("'input':", 1)[0]).split())
    line = _SECRET.sub("***", line)
    return line if len(line) <= MAX_MESSAGE else line[:MAX_MESSAGE] + "…"


def without_echo(message: str, body: bytes, secrets: tuple[str, ...]) -> str:
    """Return a provider's message unless it repeats the request; secrets in it are masked.

    body: the request's body. A piece of 32 characters that stands in both counts as an echo.
    A secret of fewer than 8 characters is none ("EMPTY" for a local server), and masking it would garble the message.
    """
    for secret in secrets:
        if len(secret) >= _SHORTEST_SECRET:
            message = message.replace(secret, "***")
    for start in range(0, max(1, len(message) - 31), 8):
        piece = msgspec.json.encode(message[start : start + 32])[1:-1]
        if len(piece) >= 32 and piece in body:
            return "the provider refused the request with a message that repeats it (left out here)"
    return message


def counted(body: bytes) -> int:
    """Return what an endpoint that counts tokens answered; raises LLMError where that is no count.

    >>> counted(b'{"input_tokens": 14}')
    14
    """
    try:
        value = decode_json(body)
    except UNREADABLE:
        value = None
    count: Any = value.get("input_tokens") if is_object(value) else None
    if isinstance(count, int):
        return count
    said = complaint(value)
    raise ServerError("the provider's answer holds no count of tokens") if said is None else error_from(said)


def retry_after(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Return the seconds that the headers ask to wait, None where they say nothing readable.

    The larger of `retry-after-ms` and `retry-after` wins; without them the latest of the rate limits that are
    used up. A wait may be written as seconds, `10s`, `1m2.5s`, a date, or a Unix time in seconds or milliseconds.
    """
    now = datetime.now(UTC).timestamp() if now is None else now
    waits = [_scaled(headers.get("retry-after-ms"), 0.001), _wait(headers.get("retry-after", ""), now)]
    known = [wait for wait in waits if wait is not None]
    if known:
        return max(0.0, *known)
    resets = [
        wait
        for name, value in headers.items()
        if "ratelimit" in name and "reset" in name and _is_used_up(headers, name)
        if (wait := _wait(value, now)) is not None
    ]
    return max(0.0, *resets) if resets else None


def _is_used_up(headers: Mapping[str, str], reset: str) -> bool:
    remaining = headers.get(reset.replace("reset", "remaining"))
    return remaining is None or remaining.strip() == "0"


def _wait(value: str, now: float) -> float | None:
    """Read `12`, `1m2.5s`, `174ms`, a date, an RFC 3339 time or a Unix time; of several with commas the longest."""
    value = value.strip()
    number = _scaled(value, 1.0)
    if number is not None:
        number = number / 1000 if number > _LEAST_MILLISECONDS else number
        return number - now if number > _LEAST_UNIX_TIME else number
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)", value)
    if parts and "".join(n + u for n, u in parts) == value:
        return sum(float(n) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[u] for n, u in parts)
    date = _date(value)
    if date is not None:
        return date - now
    several = [_wait(part, now) for part in value.split(",")] if "," in value else []
    return max((wait for wait in several if wait is not None), default=None)


def _scaled(value: str | None, factor: float) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number * factor if abs(number) < 1e15 else None  # this also drops inf and nan


def _date(value: str) -> float | None:
    import email.utils  # 10 ms that only a date in an error is worth

    try:
        found = email.utils.parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _bare_complaint(body: Any, headers: Mapping[str, str]) -> Complaint | None:
    """Read an error whose words stand at the top, as Amazon's services and many gateways write it."""
    if not is_object(body):
        return None
    message = next((text for key in ("message", "Message", "errorMessage", "msg") if (text := text_in(body, key))), "")
    errors = body.get("errors")
    if not message and is_list(errors):
        message = "; ".join(text for item in errors if (text := text_in(item, "message") or _text(item)))
    if not message:
        return None
    named = (headers.get("x-amzn-errortype", ""), text_in(body, "__type"))
    kinds = [kind.partition(":")[0].rpartition("#")[2] for kind in named]  # the name, without its address
    return Complaint(
        message, _words(*kinds, body.get("type"), body.get("code")), _number(body.get("originalStatusCode"))
    )


def _unreadable(status: int, headers: Mapping[str, str], where: str) -> str:
    if 300 <= status < 400 and (target := headers.get("location")):
        return f"HTTP {status}: {where} sends requests on to {shown_url(target)}, which is not followed; check base_url"
    kind = headers.get("content-type", "no content type").partition(";")[0]
    is_wrong_place = status < 400 or (status in (404, 405) and "html" in kind)
    hint = "; check base_url" if is_wrong_place else ""
    return f"HTTP {status} without a readable error ({kind}) from {where}{hint}"


def _reasons(details: Any) -> list[str]:
    return [text_in(item, "reason") for item in details] if is_list(details) else []


def _retry_info(details: Any) -> float | None:
    for item in details if is_list(details) else ():
        match item:
            case {"@type": str(kind), "retryDelay": str(delay)} if kind.endswith("RetryInfo"):
                return _scaled(delay.removesuffix("s"), 1.0)
            case _:
                pass
    return None


def _with_source(message: str, metadata: Any) -> str:
    """Return a gateway's message with what the server behind it said (OpenRouter's `metadata.raw`)."""
    said = text_in(metadata, "raw").strip()
    return f"{message}: {said}" if said and said not in message else message


def _detail(value: Any) -> str:
    if is_list(value):
        return "; ".join(text_in(item, "msg") for item in value)
    return _text(value)


def _words(*values: Any) -> tuple[str, ...]:
    return tuple(value.lower() for value in values if isinstance(value, str) and value)


def _number(value: Any) -> int | None:
    if isinstance(value, str) and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and 400 <= value <= 599 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
