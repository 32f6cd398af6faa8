"""The system prompt."""

from sapwood.context.source import ContextSource, Contribution, Turn


class SystemPromptSource(ContextSource):
    """Puts a fixed text first in the system prompt. Braces in it are just text.

    >>> SystemPromptSource("Be brief.").contribute(Turn()).system
    'Be brief.'
    """

    name = "system"

    def __init__(self, text: str) -> None:
        self._text = text

    def contribute(self, turn: Turn) -> Contribution:
        """Return the text."""
        return Contribution(system=self._text)
