"""What a user interface is shown of a tool's failure.

Law: what an exception said never leaves the program.
"""

from sapwood.core.events import ServerToolFinished, ToolFinished

FAILED = "The tool failed."


def shown_error(event: ToolFinished | ServerToolFinished) -> str:
    """Return the text that stands for a call's failure.

    >>> shown_error(ToolFinished(key="r0c0", tool_call_id="c1", name="f", result="no /etc/key", is_error=True))
    'The tool failed.'
    """
    return FAILED
