"""A cancellation that a plain function raises itself: an error of that function, not the end of the turn."""

from collections.abc import Generator
from contextlib import contextmanager

from sapwood.core.errors import ToolError


@contextmanager
def as_tool_error(what: str) -> Generator[None, None, None]:
    """Turn a cancellation out of the plain code within into a ToolError; anything else passes.

    Nothing is awaited there, so it cannot be the cancellation of the turn.

    >>> with as_tool_error("the check"):
    ...     pass
    """
    try:
        yield
    except (Exception, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - what is left are cancellations, of whichever library
        raise ToolError(f"{what} raised {type(error).__name__}") from None
