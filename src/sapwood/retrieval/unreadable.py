"""UnreadableError: why a file gives no text."""


class UnreadableError(ValueError):
    """A document that cannot be read; the message says why, in words for a person."""
