"""The summary that is made without a model."""

import random

import pytest

from sapwood.context.checklist import checklist, statements
from sapwood.core.messages import Message, Summary, Text, ToolResult

RULE = "Never deploy on Fridays without approval from Mara."
CHAT = [
    Message.user("Hi there!"),
    Message.assistant("Hello, how can I help?"),
    Message.user(RULE),
    Message.assistant("Noted and recorded."),
    Message.user("We spoke about the weather and other nice things for a while."),
    Message.assistant("Acknowledged. Continuing with the plan."),
]


def words(text: str) -> int:
    return len(text.split())


def test_what_demands_something_is_worth_more_than_small_talk() -> None:
    assert checklist(CHAT, 10, words) == f"- {RULE}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("The budget cap is $500.", "The budget cap is $750."),
        ("The deadline is 2027-01-05.", "The deadline is 2027-02-06."),
        ("The branch is based on commit a1b2c3d.", "The branch is based on commit 9f8e7d6."),
        ("Stand-up is at 9:30.", "Stand-up is at 10:15."),
    ],
)
def test_a_newer_value_replaces_the_older_one(old: str, new: str) -> None:
    text = checklist([Message.user(old), Message.assistant("ok"), Message.user(new)], 500, words)
    assert text == f"- {new}"


def test_what_an_earlier_summary_carried_is_carried_on_over_many_rounds() -> None:
    text = checklist(CHAT, 30, words)
    for number in range(10):
        chat = [Message("user", (Summary(text),)), Message.user(f"The build number is {number}."), *CHAT[4:]]
        text = checklist(chat, 30, words)
    assert RULE in text
    assert "The build number is 9." in text
    assert "The build number is 8." not in text


@pytest.mark.parametrize("room", [0, 1, 5, 20, 100])
def test_a_checklist_never_takes_more_than_its_room(room: int) -> None:
    chance = random.Random(room)
    chat = [Message.user(f"Rule {n}: always keep {chance.randrange(10**6)} in mind.") for n in range(40)]
    text = checklist(chat, room, words)
    assert words(text) <= room
    assert all(line.startswith("- Rule") for line in text.splitlines())


def test_a_long_message_is_taken_by_its_sentences_and_lines() -> None:
    text = f"{'We walked on and on along the shore. ' * 8}{RULE} {'The sea was calm. ' * 4}"
    assert RULE in checklist([Message.user(text)], 12, words)
    listing = "Some points:\n" + "\n".join(["walk the dog"] * 20) + f"\n{RULE}\n"
    assert RULE in checklist([Message.user(listing)], 12, words)


def test_a_result_counts_less_than_the_users_word_and_a_blank_message_not_at_all() -> None:
    result = Message("tool", (ToolResult("k", "look", (Text("The port is 8080."),)),))
    found = {
        item.text: item.value for item in statements([result, Message.user("The port is 9090."), Message.user("ok")])
    }
    assert found["The port is 9090."] > found["The port is 8080."] > 0
    assert "ok" not in found


def test_a_question_is_worth_less_than_a_statement() -> None:
    asked, said = statements([Message.user("Is the port 8080?"), Message.user("So the port is 8080.")])
    assert asked.value < said.value


def test_the_value_of_the_older_statement_is_not_lost() -> None:
    older, newer = Message.user("The port is 8080."), Message.assistant("The port is 9090.")
    assert checklist([older, newer], 99, words) == "- The port is 9090."
