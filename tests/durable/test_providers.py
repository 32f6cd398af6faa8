"""A provider that fails in every way a network can, with a store attached: the turn goes on afterwards, and is right."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from durable.history import check_calls, check_journal
from sapwood import Agent, LLMError, TurnFinished, tool
from sapwood.core.events import MessageInterrupted, ProviderWaiting
from sapwood.core.transcript import repair
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.codec import HttpCall, Timeouts
from sapwood.llm.transport import Httpx2Transport
from sapwood.stores.in_process_runs import InProcessStore
from support.replay_server import Faults, ReplayServer
from support.wire_script import anthropic_events

TRANSPORT = Httpx2Transport()
REPLIES: list[Any] = [[("pay", {"to": "ann"})], "The payment is made, and all is well now."]


class Hasty:
    """A transport that does not wait long for what is silent."""

    def send(self, call: HttpCall) -> Any:
        return TRANSPORT.send(HttpCall(call.url, call.headers, call.body, timeouts=Timeouts(2.0, 0.2)))


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    exchanges = []
    for number, said in enumerate(REPLIES):
        events = anthropic_events(said, number, 20)
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        headers = {"content-type": "text/event-stream; charset=utf-8"}
        exchanges.append(
            {
                "request": {"method": "POST", "path": "/v1/messages", "body": {"stream": True}},
                "response": {"status": 200, "headers": headers, "text": text},
            }
        )
    document = {"id": "pay", "provider": "anthropic", "api": "anthropic-messages", "exchanges": exchanges}
    with ReplayServer(document) as server:
        yield server


FAULTS: dict[str, dict[str, Any]] = {
    "reset before a byte": {"drop_after_bytes": 0, "drop_how": "rst"},
    "reset in the middle": {"drop_after_bytes": 420, "drop_how": "rst"},
    "closed in the middle": {"drop_after_bytes": 420, "drop_how": "fin"},
    "ended too early, and politely": {"drop_after_bytes": 420, "drop_how": "clean"},
    "half an event": {"drop_after_bytes": 433, "drop_how": "fin", "split": "byte"},
    "too many requests": {"fail_first": 1, "fail_status": [429], "retry_after": "0"},
    "overloaded": {"fail_first": 1, "fail_status": [529]},
    "an error after 200": {"error_after_events": 3},
    "no bytes at all": {"hang_after_bytes": 0, "hang_seconds": 1.0},
    "no bytes any more": {"hang_after_bytes": 420, "hang_seconds": 1.0},
    "a character cut in two": {"split": "byte", "drop_after_bytes": 555, "drop_how": "rst"},
}


@pytest.mark.parametrize("round", [0, 1])
@pytest.mark.parametrize("name", FAULTS)
def test_a_turn_whose_provider_failed_goes_on_and_pays_once(server: ReplayServer, name: str, round: int) -> None:
    paid: list[str] = []

    @tool
    def pay(to: str) -> str:
        """Pay somebody."""
        if round == 1:
            server.faults = Faults(**{"split": "event", **FAULTS[name]})
        paid.append(to)
        return "paid"

    store = InProcessStore()
    provider = AnthropicProvider("claude-sonnet-4-5", base_url=server.url, api_key="k", transport=Hasty())  # type: ignore[arg-type]
    agent = Agent(llm=provider, max_retries=0).with_tools([pay]).with_conversation(store, "c1")
    if round == 0:
        server.faults = Faults(**{"split": "event", **FAULTS[name]})
    with pytest.raises(LLMError) as raised:
        "".join(agent.chat("Pay ann"))
    assert raised.value.is_transient, "another try may succeed"
    assert len(paid) == round

    server.reset()
    server.faults = Faults()
    for _ in range(round):  # the first reply is in the journal, so only the second is asked for again
        _skip_first(server)
    (run,) = store.runs.waiting()
    assert run.status == "interrupted"
    events = list(agent.resume(run.run_id))
    assert isinstance(events[-1], TurnFinished)
    assert events[-1].text.endswith("The payment is made, and all is well now.")
    assert paid == ["ann"]
    journal = store.runs.events(run.run_id)
    check_calls(journal)
    check_journal(store.runs.load(run.run_id), journal)
    messages = store.conversations.load("c1").messages
    assert repair(messages) == messages
    partial = [event for event in journal if isinstance(event, MessageInterrupted)]
    assert all(event.message.partial and not event.message.tool_calls for event in partial)


def _skip_first(server: ReplayServer) -> None:
    import urllib.request

    body = json.dumps({"stream": True}).encode()
    asked = urllib.request.Request(f"{server.url}/v1/messages", data=body, method="POST")
    with urllib.request.urlopen(asked) as answer:
        answer.read()


def test_retries_are_told_of_in_the_journal_and_a_turn_that_made_it_needs_no_resume(server: ReplayServer) -> None:
    @tool
    def pay(to: str) -> str:
        """Pay somebody."""
        return "paid"

    server.faults = Faults(fail_first=2, fail_status=[429, 529], retry_after="0")
    store = InProcessStore()
    provider = AnthropicProvider("claude-sonnet-4-5", base_url=server.url, api_key="k", transport=TRANSPORT)
    agent = Agent(llm=provider).with_tools([pay]).with_conversation(store, "c1")
    assert "".join(agent.chat("Pay ann")).endswith("all is well now.")
    (run,) = store.runs.list()
    events = store.runs.events(run.run_id)
    assert (run.status, [e.attempt for e in events if isinstance(e, ProviderWaiting)]) == ("ended", [1, 2])
