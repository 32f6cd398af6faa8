"""What an AG-UI stream has told of one agent: the one at the top, or a subagent."""

from collections.abc import Iterator
from typing import Any

from sapwood.core.events import Path


class Lane:
    """The agent at the top, or a subagent, as far as the stream has told of it.

    reply: the id of the message of the round that is running. text, thinking: what was streamed of it.
    step: the name of the step that is open. is_announced: it has begun; is_over: it has ended in this stream.
    """

    def __init__(self, path: Path, reply: str) -> None:
        self.path = path
        self.id = "/".join(path)
        self.name = path[-1] if path else ""
        self.reply = reply
        self.round = 0
        self.in_round = False
        self.text: list[str] = []
        self.thinking: list[str] = []
        self.has_text_open = False
        self.has_thinking_open = False
        self.step = ""
        self.is_announced = False
        self.is_over = False

    @property
    def is_active(self) -> bool:
        """The stream has told that it began, and not that it ended."""
        return self.is_announced and not self.is_over

    @property
    def thought(self) -> str:
        """The id of the thinking of the round."""
        return f"{self.reply}:thinking"

    def begin_round(self, round: int, reply: str) -> None:
        """Start to hold another reply."""
        self.round, self.reply, self.in_round = round, reply, True
        self.text, self.thinking = [], []

    def rest(self) -> None:
        """Forget what an earlier stream had open."""
        self.has_text_open = self.has_thinking_open = self.is_announced = self.is_over = False
        self.step = ""

    def step_started(self) -> Iterator[dict[str, Any]]:
        """Open the step of the round, unless it is open."""
        if not self.step:
            self.step = f"round-{self.round}"
            yield {"type": "STEP_STARTED", "stepName": self.step}

    def step_finished(self) -> Iterator[dict[str, Any]]:
        """Close the step that is open."""
        if self.step:
            yield {"type": "STEP_FINISHED", "stepName": self.step}
            self.step = ""
