"""How far a history that does not fit is shortened: so far that it need not be done again on the next turn."""

from itertools import pairwise
from typing import Any

import pytest

from sapwood import Agent, Message
from sapwood.core.events import CompactionFinished
from sapwood.testing import says, scripted
from support.turns import long_history

ANSWER = "and so it went on " * 30


@pytest.mark.parametrize("window", [2_000, 4_000, 8_000])
def test_a_conversation_at_its_window_is_not_shortened_on_every_turn(window: int) -> None:
    agent = Agent(llm=scripted(*[says(ANSWER)] * 60), max_tokens=window, max_response_tokens=500)
    history: Any = []
    shortened: list[int] = []
    for number in range(60):
        for event in agent.stream("What then? " + "Tell me more. " * 10, messages=history):
            if isinstance(event, CompactionFinished):
                shortened.append(number)
                assert event.tokens_after < event.tokens_before
        history = agent.last_messages
    assert shortened
    assert all(later - earlier > 1 for earlier, later in pairwise(shortened))
    assert len(history) > 2


@pytest.mark.parametrize("window", [900, 1_500, 3_000])
def test_half_of_what_would_fit_stays_at_least(window: int) -> None:
    agent = Agent(llm=scripted(says("ok")), max_tokens=window, max_response_tokens=100)
    (end,) = [e for e in agent.stream("now", messages=long_history()) if isinstance(e, CompactionFinished)]
    room = window - 100
    assert end.tokens_after <= room
    assert end.tokens_after >= room / 2 - 120  # an exchange more or less


def test_a_prompt_that_fills_the_window_leaves_no_history() -> None:
    model = scripted(says("ok"))
    agent = Agent(llm=model, max_tokens=1_100, max_response_tokens=100)
    list(agent.chat("word " * 1_060, messages=[Message.user("old " * 50), Message.assistant("so " * 50)]))
    assert len(model.requests[0].transcript) == 1
