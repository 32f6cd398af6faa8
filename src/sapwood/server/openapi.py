"""The OpenAPI document of the server."""

from typing import Any

from sapwood.server.threads import MOST

Json = dict[str, Any]
_ERROR: Json = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "requestId"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "requestId": {"type": "string"},
                "runId": {"type": "string"},
            },
        }
    },
}
_OBJECT: Json = {"type": "object"}
_ID: Json = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z0-9._:~@-]+$"}
_MESSAGE: Json = {
    "type": "object",
    "required": ["id", "role", "parts"],
    "properties": {
        "id": {"type": "string", "minLength": 1, "maxLength": 200},
        "role": {"type": "string", "enum": ["user", "assistant"]},
        "parts": {"type": "array", "items": _OBJECT},
        "metadata": _OBJECT,
    },
}
_CHAT: Json = {
    "type": "object",
    "required": ["id", "messages"],
    "properties": {
        "id": _ID,
        "messages": {"type": "array", "minItems": 1, "items": _MESSAGE},
        "trigger": {"type": "string", "enum": ["submit-message", "regenerate-message"]},
        "messageId": {"type": "string"},
    },
}
_DECISION: Json = {
    "anyOf": [
        {
            "type": "object",
            "required": ["approved"],
            "additionalProperties": False,
            "properties": {
                "approved": {"type": "boolean"},
                "reason": {"type": "string"},
                "input": _OBJECT,
                "remember": _OBJECT,
            },
        },
        {
            "type": "object",
            "required": ["result"],
            "additionalProperties": False,
            "properties": {"result": {}, "isError": {"type": "boolean"}},
        },
    ]
}
_DECIDE: Json = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        "decisions": {"type": "object", "additionalProperties": _DECISION},
        "extend": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
    },
}
_STOP: Json = {"type": "object", "required": ["runId"], "properties": {"runId": {"type": "string"}}}
_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}


def document() -> Json:
    """Return the document.

    >>> document()["openapi"]
    '3.1.0'
    """
    return {
        "openapi": "3.1.0",
        "info": {"title": "sapwood", "version": "1", "description": "An agent behind HTTP."},
        "servers": [{"url": "."}],
        "paths": _paths(),
    }


def _paths() -> Json:
    thread, run = [_in_path("thread_id", _ID)], [_in_path("run_id", {"type": "string", "minLength": 1})]
    page = [_in_query("limit", {"type": "integer", "minimum": 1, "maximum": MOST}), _in_query("before", _ID)]
    after = [_in_query("after", {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"})]
    return {
        "/api/chat": {"post": _operation("Say something, or answer", _CHAT, stream=True)},
        "/api/chat/{thread_id}/stream": {
            "get": _operation("Join the run of a thread", None, thread, stream=True, empty=204)
        },
        "/api/chat/{thread_id}/stop": {"post": _operation("Stop the run of a thread", _STOP, thread, ok=202)},
        "/api/threads": {"get": _operation("List threads", None, page)},
        "/api/threads/{thread_id}": {
            "get": _operation("Read a thread", None, [*thread, *page]),
            "delete": _operation("Delete a thread", None, thread, empty=204),
        },
        "/api/runs/{run_id}": {"get": _operation("How a run stands", None, run)},
        "/api/runs/{run_id}/stream": {"get": _operation("Join a run", None, [*run, *after], stream=True)},
        "/api/runs/{run_id}/stop": {"post": _operation("Stop a run", None, run, ok=202)},
        "/api/runs/{run_id}/decide": {
            "post": _operation("Answer what a run waits for", _DECIDE, run, stream=True, ok=202)
        },
        "/api/runs/{run_id}/resume": {
            "post": _operation("Go on with a run that was broken off", _OBJECT, run, stream=True, ok=202)
        },
        "/api/runs/{run_id}/context": {"get": _operation("What the model saw", None, run)},
        "/api/ag-ui": {"post": _operation("Say something or answer, in AG-UI 1.0", _OBJECT, stream=True)},
        "/api/info": {"get": _operation("What this server is", None)},
        "/health": {"get": _operation("Whether requests are taken", None, unwell=True)},
    }


def _operation(
    summary: str,
    body: Json | None,
    parameters: list[Json] | None = None,
    *,
    stream: bool = False,
    ok: int = 200,
    empty: int = 0,
    unwell: bool = False,
) -> Json:
    found = {"application/json": {"schema": _OBJECT}}
    answers: Json = {}
    if stream:
        answers["200"] = {"description": "The run as it goes", "content": _STREAM}
    if empty:
        answers[str(empty)] = {"description": "Nothing to return"}
    if (not stream and not empty) or ok != 200:
        answers[str(ok)] = {"description": "Done", "content": found}
    if unwell:
        answers["503"] = {"description": "No requests are taken", "content": found}
    answers["4XX"] = {"description": "Refused", "content": {"application/json": {"schema": _ERROR}}}
    if not unwell:
        answers["503"] = {"description": "Try again later", "content": {"application/json": {"schema": _ERROR}}}
    taken = {"requestBody": {"required": True, "content": {"application/json": {"schema": body}}}} if body else {}
    return {"summary": summary, "parameters": parameters or [], "responses": answers, **taken}


def _in_path(name: str, schema: Json) -> Json:
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _in_query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema}
