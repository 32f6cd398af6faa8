"""What the provider's prompt cache gets to see: over fifty turns the prefix stays, byte for byte, and marks stand well."""

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from sapwood import Agent, tool
from sapwood.llm.anthropic.encode import VERSION
from sapwood.llm.profiles import profile_of
from sapwood.testing.prefix import prompt_bytes
from sapwood.testing.strict import (
    check_anthropic_body,
    check_chat_body,
    check_gemini_body,
    check_responses_body,
)
from support.long_conversation import HOUSE, TURNS, Conversation, converse
from support.wire_script import PROVIDERS, Said, Script, provider_for

LOOK_BACK = 20  # blocks, by Anthropic's documentation
MOST_MARKS = 4
CHECKS: dict[str, Any] = {
    "anthropic": check_anthropic_body,
    "chat": check_chat_body,
    "responses": check_responses_body,
    "gemini": check_gemini_body,
}
MESSAGES = {"anthropic": b'"messages":', "chat": b'"messages":', "responses": b'"input":', "gemini": b'"contents":'}
conversation = cache(converse)


@pytest.mark.parametrize("protocol", PROVIDERS)
def test_fifty_turns_only_grow_but_where_the_history_is_shortened(protocol: str) -> None:
    seen: Conversation = conversation(protocol)
    assert (seen.recalled, len(seen.bodies)) == (TURNS, len(seen.shares) + 1)
    assert sum(text.startswith("changed by") for text in seen.results) == TURNS // 10
    assert 1 <= len(seen.moved) <= 3, "shortening goes far enough to be rare"
    kept = [share for number, share in enumerate(seen.shares, 1) if number not in seen.moved]
    assert min(kept) >= 0.99
    for body in seen.bodies:
        CHECKS[protocol](json.loads(body))


@pytest.mark.parametrize("protocol", PROVIDERS)
def test_a_shortened_history_keeps_tools_and_system_text(protocol: str) -> None:
    seen: Conversation = conversation(protocol)
    for number in seen.moved:
        before, after = (prompt_bytes(body) for body in seen.bodies[number - 1 : number + 1])
        fixed, name, _ = before.partition(MESSAGES[protocol])
        assert name, "the messages come last"
        # In Chat Completions the system text is the first of the messages.
        assert after.startswith(fixed)
        same = before[: round(seen.shares[number - 1] * len(before))]
        assert same.count(b"books of a small harbour") == 60


@pytest.mark.parametrize("protocol", ["chat", "responses"])
def test_all_turns_name_one_cache(protocol: str) -> None:
    keys = {json.loads(body)["prompt_cache_key"] for body in conversation(protocol).bodies}
    assert len(keys) == 1
    assert keys != {""}


# ---------------------------------------------------------------- marks in Anthropic's bodies


def blocks(body: bytes) -> list[dict[str, Any]]:
    """All blocks in the order in which they are cached: tools, system text, messages."""
    read = json.loads(body)
    inside = [block for message in read["messages"] for block in message["content"]]
    return [*read.get("tools", ()), *read.get("system", ()), *inside]


def marks(body: bytes) -> list[int]:
    """Places of the marked blocks."""
    return [place for place, block in enumerate(blocks(body)) if "cache_control" in block]


def seams(body: bytes) -> list[int]:
    """Places of the last block of the system text, and of the last one of the messages."""
    read = json.loads(body)
    stable = len(read.get("tools", ())) + len(read["system"]) - 1
    return [stable, len(blocks(body)) - 1]


def test_fifty_turns_are_marked_at_the_two_seams() -> None:
    for body in conversation("anthropic").bodies:
        assert marks(body) == seams(body)


def test_no_mark_stands_below_the_models_minimum() -> None:
    least = profile_of(*PROVIDER_AND_MODEL).cache_minimum_tokens
    seen = converse("anthropic", turns=6)
    assert least == 1_024
    for (total, prefix), body in zip(seen.tokens, seen.bodies, strict=True):
        assert marks(body) == [place for place, size in zip(seams(body), (prefix, total), strict=True) if size >= least]


PROVIDER_AND_MODEL = ("anthropic", PROVIDERS["anthropic"][1])


@tool(read_only=True)
def look(place: int) -> str:
    """Look at a place."""
    return f"place {place} is empty"


def looped(replies: list[Said], *, prompt: str = HOUSE * 2, **options: Any) -> list[bytes]:
    """The bodies of one turn."""
    script = Script("anthropic", [*replies, "done"])
    agent = Agent(llm=provider_for("anthropic", script), max_rounds=100, max_tokens=100_000, **options)
    list(agent.with_tools([look]).with_system_prompt(prompt).stream("Look around."))
    for body in script.bodies:
        check_anthropic_body(json.loads(body))
    return script.bodies


def ended(body: bytes) -> int:
    return len(blocks(body)) - 1


def pairs(bodies: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    return pairwise(bodies)


LOOPS: dict[str, list[Said]] = {
    "sixty rounds": [[("look", {"place": number})] for number in range(60)],
    "thirty calls at once": [
        [("look", {"place": 1})],
        [("look", {"place": number}) for number in range(30)],
        [("look", {"place": 2})],
        [("look", {"place": number}) for number in range(30)],
    ],
    "as many calls as just fit": [
        [("look", {"place": n, "of": count}) for n in range(count)] for count in range(6, 12)
    ],
}


@pytest.mark.parametrize("name", LOOPS)
def test_what_was_cached_is_found_from_a_mark_of_the_next_request(name: str) -> None:
    bodies = looped(LOOPS[name])
    assert len(bodies) == len(LOOPS[name]) + 1
    for before, after in pairs(bodies):
        assert len(marks(after)) <= MOST_MARKS
        assert {*seams(after)} <= {*marks(after)}
        # A provider finds the end of the request before it by looking back from a mark behind it.
        behind = [place for place in marks(after) if place >= ended(before)]
        assert behind[0] - ended(before) < LOOK_BACK


def test_a_round_of_many_calls_is_marked_where_the_request_before_it_ended() -> None:
    bodies = looped(LOOPS["thirty calls at once"])
    far = [(before, after) for before, after in pairs(bodies) if ended(after) - ended(before) > LOOK_BACK]
    assert len(far) == 2
    for before, after in far:
        assert ended(before) in marks(after)


def test_a_short_beginning_gets_no_mark_however_many_calls_follow() -> None:
    bodies = looped([[("look", {"place": number}) for number in range(30)]], prompt="Be brief.")
    assert [marks(body) for body in bodies] == [[], [ended(bodies[1])]]


@pytest.mark.parametrize("protocol", PROVIDERS)
def test_without_a_cache_nothing_is_said_of_it(protocol: str) -> None:
    for body in converse(protocol, turns=4, cache=False).bodies:
        assert b"cache" not in body.replace(VERSION.encode(), b"")


def test_an_hour_is_asked_for_where_it_is_wanted() -> None:
    for body in converse("anthropic", turns=4, cache="1h").bodies:
        asked = [block["cache_control"] for block in blocks(body) if "cache_control" in block]
        assert asked == [{"type": "ephemeral", "ttl": "1h"}] * 2
