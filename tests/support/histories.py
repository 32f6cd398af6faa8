"""Random conversations: questions, answers, rounds of tool calls, errors, thinking, pictures, pinned messages."""

import random

from sapwood.core.messages import Image, Message, Summary, Text, Thinking, ToolCall, ToolResult

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "and",
    "never",
    "sleeps",
    "before",
    "9:30",
    "on",
    "Fridays",
]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ORIGIN = "anthropic/claude-sonnet-4-5"


def history(chance: random.Random, turns: int) -> list[Message]:
    """A valid conversation of so many turns."""
    found: list[Message] = []
    if chance.random() < 0.1:
        found += [Message("user", (Summary(words(chance, 40), ("look",)),)), Message.assistant("ok")]
    for _ in range(turns):
        prompt = Message.user(words(chance, 30), pinned=chance.random() < 0.05)
        if chance.random() < 0.05:
            prompt = prompt.replace(content=(*prompt.content, Image(PIXEL)))
        found.append(prompt)
        for round in range(chance.randrange(4)):
            found += exchange(chance, round)
        if chance.random() < 0.95:  # else the turn broke off
            found.append(Message("assistant", (Text(words(chance, 60)),), ORIGIN))
    return found


def exchange(chance: random.Random, round: int) -> list[Message]:
    """A reply with calls, and its results."""
    calls = [
        ToolCall(chance.choice(["look", "write"]), {"n": chance.randrange(4)}, f"r{round}c{place}", f"t{place}_{round}")
        for place in range(chance.randrange(1, 4))
    ]
    thought = (Thinking("hm", {"anthropic": {"signature": "c2ln"}}),) if chance.random() < 0.2 else ()
    reply = Message("assistant", (*thought, *((Text("I look."),) if chance.random() < 0.3 else ()), *calls), ORIGIN)
    results = tuple(
        ToolResult(
            item.key,
            item.name,
            (Text(words(chance, chance.choice([2, 40, 400]))),),
            is_error=chance.random() < 0.1,
            loaded=("look",) if chance.random() < 0.03 else (),
        )
        for item in calls
    )
    return [reply, Message("tool", results)]


def words(chance: random.Random, most: int) -> str:
    """Between one and so many words."""
    return " ".join(chance.choice(WORDS) for _ in range(chance.randrange(1, most + 1)))
