"""What providers' refusals mean."""

import json
from typing import Any

import pytest
from wire_files import SMALL, exchanges, whole_set

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
from sapwood.llm.failures import clean, error_of, retry_after, without_echo

NOW = 1_700_000_000.0


def of(status: int, body: Any, **headers: str) -> LLMError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_of(raw, status=status, headers=named, now=NOW)


def said(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, **more}}


OVERFLOWS = [
    (400, said("prompt is too long: 3333404 tokens > 200000 maximum", type="invalid_request_error")),
    (400, said("Your input exceeds the context window of this model.", code="context_length_exceeded")),
    (400, said("This endpoint's maximum context length is 200000 tokens.", code=400)),
    (400, said("This model's maximum context length is 65536 tokens.")),
    (400, {"error": "prompt too long; exceeded max context length by 10 tokens"}),
    (500, said("the request exceeds the available context size.", type="exceed_context_size_error")),
    (400, said("The input token count (2500000) exceeds the maximum number of tokens allowed (1048576).")),
    (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens.", "code": 400}),
    (400, said("Please reduce the length of the messages or completion.", code="context_length_exceeded")),
    (413, said("Request exceeds the maximum size", type="request_too_large")),
    (400, said("input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000", type="x")),
    (400, {"message": "Input is too long for requested model."}),
    (400, said("input token count is 1200000 but model only supports up to 1048576", status="INVALID_ARGUMENT")),
    (400, said("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]")),
    (400, said("Prompt exceeds max length", code="1261")),
    (400, said("Invalid request: Your request exceeded model token limit: 8192", type="invalid_request_error")),
    (400, said("This model's maximum prompt length is 131072 but the request contains 537812 tokens.")),
    (400, said("The decoder prompt (length 5000) is longer than the maximum model length of 4096.")),
    (413, b"<html><center><h1>413 Request Entity Too Large</h1></center><hr>nginx</html>"),
    (413, {"message": "Payload too large"}),
    (413, b""),
    (424, {"message": "failed", "originalMessage": "x", "originalStatusCode": 413}),
    (429, said("Request too large for gpt-4.1 in organization org on tokens per min (TPM)", type="tokens")),
]


@pytest.mark.parametrize(("status", "body"), OVERFLOWS)
def test_a_request_that_is_too_long_is_told_in_all_spellings(status: int, body: Any) -> None:
    error = of(status, body)

    assert type(error) is ContextOverflowError
    assert not error.is_transient


@pytest.mark.parametrize(
    ("message", "requested", "limit"),
    [
        ("prompt is too long: 3333404 tokens > 200000 maximum", 3_333_404, 200_000),
        ("input length and `max_tokens` exceed context limit: 195000 + 8192 > 200000", 195_000, 200_000),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9200 tokens (8000 in the "
            "messages, 200 in the functions, and 1000 in the completion).",
            8_200,
            8_192,
        ),
        (
            "This model's maximum context length is 4097 tokens, however you requested 5000 tokens (4500 in your "
            "prompt; 500 for the completion).",
            4_500,
            4_097,
        ),
        ("This model's maximum context length is 16385 tokens, your messages resulted in 20000 tokens", 20_000, 16_385),
        ("maximum context length is 4096 tokens and your request has 3500 input tokens", 3_500, 4_096),
        (
            "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500121 tokens "
            "(2500021 of text input, 100 of tool input). Please reduce the length of either one",
            2_500_121,
            200_000,
        ),
        (
            "The input token count (2500000) exceeds the maximum number of tokens allowed (1048576).",
            2_500_000,
            1_048_576,
        ),
        ("input token count is 1200000 but model only supports up to 1048576", 1_200_000, 1_048_576),
        ("Range of input length should be [1, 30720]", None, 30_720),
        ("Your request exceeded model token limit: 8192 (requested: 9000)", 9_000, 8_192),
        ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 537_812, 131_072),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 5_000, 4_096),
        ("request (4,390 tokens) exceeds the available context size (4,096 tokens)", 4_390, 4_096),
        ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 1000", 4_000, 4_096),
        ("prompt token count of 150000 exceeds the limit of 128000", 150_000, 128_000),
        (
            "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.",
            4_292,
            4_081,
        ),
        # What is asked for a minute counts the reply in and is a guess, so only the limit is taken.
        ("Request too large for m on tokens per min (TPM): Limit 30000, Requested 59000.", None, 30_000),
        ("prompt too long; exceeded max context length by 10 tokens", None, None),
        ("prompt is too long: 9999999999999 tokens > 0 maximum", None, None),
        ("Your input exceeds the context window of this model.", None, None),
    ],
)
def test_a_request_that_is_too_long_tells_its_sizes(message: str, requested: int | None, limit: int | None) -> None:
    error = of(429 if "per min" in message else 400, said(message, code="context_length_exceeded"))
    assert isinstance(error, ContextOverflowError)
    assert (error.requested_tokens, error.limit_tokens) == (requested, limit)


def test_sizes_in_fields_of_their_own_are_read_too() -> None:
    body = said("the request exceeds the available context size.", n_prompt_tokens=4_390, n_ctx=4_096)
    error = of(400, body)
    assert isinstance(error, ContextOverflowError)
    assert (error.requested_tokens, error.limit_tokens) == (4_390, 4_096)


@pytest.mark.parametrize(
    ("status", "body", "kind", "transient"),
    [
        (400, said("bad"), LLMError, False),
        (401, said("bad key"), AuthenticationError, False),
        (401, {"detail": "Invalid API Key"}, AuthenticationError, False),
        (400, {"code": "invalid-argument", "error": "Incorrect API key provided."}, AuthenticationError, False),
        (403, said("no", type="permission_error"), AuthenticationError, False),
        (402, said("pay", type="billing_error"), RateLimitError, False),
        (404, said("model: x", type="not_found_error"), ModelNotFoundError, False),
        (408, said("slow"), LLMTimeoutError, True),
        (409, said("conflict"), ServerError, True),
        (422, {"detail": [{"msg": "field required", "input": "SECRET PROMPT"}]}, LLMError, False),
        (429, said("slow down", type="rate_limit_error"), RateLimitError, True),
        (429, said("no credit", code="insufficient_quota"), RateLimitError, False),
        (429, {"message": "Too many tokens, please wait before trying again."}, RateLimitError, True),
        (429, said("Rate limit reached for tokens per min; the context window is 200000"), RateLimitError, True),
        (400, said("max_tokens: 100000 > 64000, which is the maximum number of output tokens"), LLMError, False),
        (400, {"message": "Malformed input request"}, LLMError, False),
        (400, {"message": "The provided model identifier is invalid."}, ModelNotFoundError, False),
        (400, {"error": {"message": "Model Not Exist", "type": "x"}}, ModelNotFoundError, False),
        (400, said("Invalid model: nope", type="invalid_model"), ModelNotFoundError, False),
        (400, {"__type": "com.amazon#ExpiredTokenException", "message": "expired"}, AuthenticationError, False),
        (403, {"Message": "The security token included in the request is expired"}, AuthenticationError, False),
        (400, {"Message": "The security token included in the request is invalid."}, AuthenticationError, False),
        (424, {"message": "The model failed", "originalStatusCode": 500}, ServerError, True),
        (424, {"message": "The model refused", "originalStatusCode": 400}, LLMError, False),
        (424, {"message": "?"}, LLMError, False),
        (400, {"success": False, "errors": [{"code": 7003, "message": "no route"}]}, LLMError, False),
        (
            400,
            said("Ungültig", status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}]),
            AuthenticationError,
            False,
        ),
        (429, said("Please reduce the prompt length or try again later.", type="x"), RateLimitError, True),
        (400, said("flagged", code="content_filter"), ContentFilterError, False),
        (400, said("bad call", code="tool_use_failed"), ServerError, True),
        (500, said("oops", type="api_error"), ServerError, True),
        (502, b"<html>bad gateway</html>", ServerError, True),
        (504, said("late"), LLMTimeoutError, True),
        (529, said("Overloaded", type="overloaded_error"), ServerError, True),
        (200, said("Overloaded", type="overloaded_error"), ServerError, True),
        (200, said("Provider returned error", code=502), ServerError, True),
        (200, said("slow down", code="429"), RateLimitError, True),
        (200, [said("unavailable", code=503)], ServerError, True),
        (301, b"", LLMError, False),
    ],
)
def test_status_and_body_tell_what_went_wrong(status: int, body: Any, kind: type, transient: bool) -> None:
    error = of(status, body)

    assert type(error) is kind
    assert error.is_transient is transient
    assert "SECRET" not in str(error)
    assert error.message


def test_amazons_own_bodies_and_headers_are_read() -> None:
    error = of(400, {"Message": "The text"}, x_amzn_errortype="ValidationException:http://internal.amazon.com/x/")
    assert error.message == "The text"
    expired = of(400, {"message": "no"}, x_amzn_errortype="ExpiredTokenException:http://internal.amazon.com/x/")
    assert type(expired) is AuthenticationError
    assert of(424, {"message": "The model failed", "originalStatusCode": 500}).status == 424


def test_the_server_may_say_whether_to_try_again() -> None:
    assert of(400, said("bad"), x_should_retry="true").is_transient
    assert not of(500, said("bad"), x_should_retry="false").is_transient


def date(seconds: float) -> str:
    import email.utils

    return email.utils.formatdate(NOW + seconds, usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "86400"}, 86_400),
        ({"retry-after": "1, 2"}, 2),
        ({"retry-after": "5, 6"}, 6),
        ({"retry-after": "10s"}, 10),
        ({"retry-after": str(NOW + 4)}, 4),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": date(7)}, 7),
        ({"retry-after": date(-7)}, 0),
        ({"retry-after-ms": "174", "retry-after": "1"}, 1),
        ({"retry-after-ms": "0", "retry-after": "1"}, 1),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"x-ratelimit-reset-tokens": "174ms", "x-ratelimit-remaining-tokens": "0"}, 0.174),
        ({"x-ratelimit-reset-requests": "1m2.5s", "x-ratelimit-remaining-requests": "0"}, 62.5),
        ({"x-ratelimit-reset-requests": "8h", "x-ratelimit-remaining-requests": "90"}, None),
        (
            {
                "anthropic-ratelimit-tokens-reset": "2023-11-14T22:13:30Z",
                "anthropic-ratelimit-tokens-remaining": "0",
            },
            10,
        ),
        ({"x-ratelimit-reset": str(NOW + 3)}, 3),
        ({"x-ratelimit-reset": f"{NOW * 1000 + 2500:.0f}", "x-ratelimit-remaining": "0"}, 2.5),
    ],
)
def test_the_wait_that_a_server_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    found = retry_after(headers, now=NOW)

    assert (found is None) == (seconds is None)
    assert found is None or found == pytest.approx(seconds)


def test_a_wait_in_the_body_counts_too() -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "48s"}]

    assert of(429, said("quota", status="RESOURCE_EXHAUSTED", details=details)).retry_after_seconds == 48
    assert of(200, said("fine", code=429)).retry_after_seconds is None


def test_messages_hold_no_secrets_and_do_not_repeat_the_request() -> None:
    assert clean("Incorrect API key provided: sk-abc123***xyz.\n See") == "Incorrect API key provided: *** See"
    assert len(clean("x" * 5000)) < 600
    assert without_echo("bad key K3Y-4711", b"", ("K3Y-4711", "")) == "bad key ***"
    for short in ("k", "x", "ollama", "EMPTY"):  # what is written where no key is needed
        message = "unexpected EMPTY token k in ollama"
        assert without_echo(message, b"", (short,)) == message
    prompt = 'please keep "this" between you and me, the number is 4711'
    body = json.dumps({"messages": [{"content": prompt}]}).encode()
    assert "4711" not in without_echo(f"cannot read {prompt}", body, ())
    assert without_echo("model: claude-sonet", body, ()) == "model: claude-sonet"


def test_a_message_cannot_steer_a_terminal() -> None:
    assert clean("\x1b[31mred\x1b[0m \x1b]0;title\x07 a\x00b\u202ec\n\td") == "red ]0;title abc d"
    assert clean("grüße 世界 👍🏽") == "grüße 世界 👍🏽"


RECORDED = [
    pytest.param(item, id=item.name)
    for folder in (SMALL, whole_set())
    for item in exchanges(folder, "anthropic.messages", "openai.chat", "openai.responses", "google.generate_content")
    if item.response["status"] >= 400
]
KINDS: dict[str, type[LLMError]] = {
    "context": ContextOverflowError,
    "401": AuthenticationError,
    "auth": AuthenticationError,
    "404": ModelNotFoundError,
    "429": RateLimitError,
    "503": ServerError,
    "529": ServerError,
    "tool-failed": ServerError,
}


@pytest.mark.parametrize("exchange", RECORDED)
def test_recorded_errors_mean_what_their_names_say(exchange: Any) -> None:
    response = exchange.response
    error = error_of(exchange.body, status=response["status"], headers=response.get("headers"), now=NOW)

    expected = next((kind for word, kind in KINDS.items() if word in exchange.name), LLMError)
    assert type(error) is expected
    assert error.is_transient == (expected in (RateLimitError, ServerError))
    if "429" in exchange.name and "openrouter" not in exchange.name:
        assert error.retry_after_seconds
