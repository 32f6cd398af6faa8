"""The interface before anything that can be sent: by its own OpenAPI document, and by posted messages gone wrong."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from schemathesis.checks import CHECKS, load_all_checks

from sapwood import Agent, tool
from sapwood.core.model import ModelRequest
from sapwood.llm.scripted import ScriptedReply
from sapwood.server import Settings, create_app
from sapwood.server.openapi import document
from sapwood.stores.in_process_runs import InProcessStore
from sapwood.testing import call, calls, says, scripted
from support.examples import examples
from support.live_server import live_in_thread, said

RAN: list[str] = []
CLIENT = httpx2.Client(timeout=30)
QUIET: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None}
load_all_checks()
# What is refused for other reasons than its form has a 4xx all the same, and unknown fields are passed over.
EXCLUDED = [CHECKS.get_one(name) for name in ("positive_data_acceptance", "negative_data_rejection")]


@tool(requires_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    RAN.append(path)
    return "deleted"


def reply(request: ModelRequest) -> ScriptedReply:
    asks = "delete" in request.transcript[-1].text
    return calls(call("delete", {"path": "/a"}, id="c1")) if asks else says("Well.")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    agent = Agent(llm=scripted(*[reply] * 100_000)).with_tools([delete])
    limits = Settings(requests_per_minute=10_000_000, max_runs_each=1_000)
    with live_in_thread(create_app(agent, store=InProcessStore(), settings=limits)) as address:
        yield address
        CLIENT.close()


@pytest.mark.parametrize("path", sorted(document()["paths"]))
def test_the_server_keeps_what_its_document_says(address: str, path: str) -> None:
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json").include(path=path)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert operations

    for operation in operations:

        @given(case=operation.as_strategy())
        @examples(15, **QUIET)
        def holds(case: Any) -> None:
            response = case.call(base_url=address)
            assert response.status_code < 500, (response.status_code, response.text[:300])
            case.validate_response(response, excluded_checks=EXCLUDED)

        holds()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
WORDS = (
    "id",
    "role",
    "parts",
    "type",
    "text",
    "state",
    "approval",
    "approved",
    "input",
    "toolCallId",
    "toolName",
    "url",
)


def base_bodies() -> st.SearchStrategy[dict[str, Any]]:
    part = {
        "type": "dynamic-tool",
        "toolName": "delete",
        "toolCallId": "c1",
        "state": "approval-responded",
        "input": {"path": "/a"},
        "approval": {"id": "c1", "approved": True},
    }
    answer = {"id": "fuzz", "messages": [{"id": "m1", "role": "assistant", "parts": [part]}]}
    file = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="}
    picture = {"id": "fuzz", "messages": [{"id": "m1", "role": "user", "parts": [file]}]}
    return st.sampled_from([said("Hi", thread="fuzz"), answer, picture])


@st.composite
def bent(draw: st.DrawFn) -> Any:
    """A body with one or two places in it changed, taken out, or put in."""
    body = json.loads(json.dumps(draw(base_bodies())))
    for _ in range(draw(st.integers(1, 2))):
        here: Any = body
        while True:
            below = [
                item for item in (here.values() if isinstance(here, dict) else here) if isinstance(item, dict | list)
            ]
            if not below or draw(st.booleans()):
                break
            here = draw(st.sampled_from(below))
        if isinstance(here, dict):
            name = draw(st.sampled_from([*here, *WORDS]))
            if draw(st.booleans()):
                here[name] = draw(json_values)
            else:
                here.pop(name, None)
        elif here:
            here[draw(st.integers(0, len(here) - 1))] = draw(json_values)
    return body


@given(body=bent())
@examples(200, **QUIET)
def test_a_posted_message_gone_wrong_is_refused_in_words_and_runs_nothing(address: str, body: Any) -> None:
    response = CLIENT.post(f"{address}/api/chat", json=body)
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert set(response.json()["error"]) >= {"code", "message", "requestId"}
    assert RAN == []


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[" * 100_000,
        b'{"id":"\xed\xa0\x80"}',
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        json.dumps(said("\ud800")).encode(),
        json.dumps(said("Hi", thread="../../x")).encode(),
        json.dumps(said("Hi", thread="a/b")).encode(),
        json.dumps(said("Hi", id="x" * 201)).encode(),
        json.dumps(said("Hi", id="a\nb")).encode(),
        json.dumps(said("")).encode(),
        json.dumps({"id": "t", "messages": [{"id": "m", "role": "system", "parts": []}]}).encode(),
        json.dumps({"id": "t", "messages": [{"id": "m", "role": "user", "parts": [{"type": "file"}]}]}).encode(),
    ],
    ids=lambda raw: repr(raw[:24]),
)
def test_a_body_that_cannot_be_meant_is_refused(address: str, raw: bytes) -> None:
    response = httpx2.post(f"{address}/api/chat", content=raw, headers={"content-type": "application/json"}, timeout=30)
    assert 400 <= response.status_code < 500, response.text
    assert response.json()["error"]["message"]
