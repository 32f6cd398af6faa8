"""Tool names as Gemini takes them: they begin with a letter or an underscore.

Law: what the decoder gives back is what `wire_name` made of the tool's own name; nothing is remembered
between the two, so a reply can be read in another process than the one that asked.
"""

import base64
import binascii
import re

from sapwood.core.names import MAX_WIRE_NAME, wire_name

_UNLED = re.compile(r"_*[0-9-]")
_LED = re.compile(r"_+[0-9-]")
_LONG = re.compile(r"(.{55})_([0-9a-f]{8})\Z")
_LONG_LED = re.compile(r"_(.{55}):([\w-]{6})\Z")
_PREFIXES = ("default_api:", "default_api.")


def gemini_name(name: str) -> str:
    """Return the name that the model sees.

    A name that would begin with a digit or a dash gets an underscore before it; one that has such underscores
    already gets one more, so that no two names become one. The hash at the end of a long name is written
    shorter then. Only a name of exactly 64 characters of its own cannot be kept whole; it loses its last one.

    >>> gemini_name("3d.render"), gemini_name("_3d_render"), gemini_name("render")
    ('_3d_render', '__3d_render', 'render')
    """
    wire = wire_name(name)
    if not _UNLED.match(wire):
        return wire
    if len(wire) < MAX_WIRE_NAME:
        return f"_{wire}"
    if (long := _LONG.match(wire)) is None:
        return f"_{wire[:-1]}"
    digest = base64.urlsafe_b64encode(bytes.fromhex(long[2])).decode().rstrip("=")
    return f"_{long[1]}:{digest}"


def is_kept(name: str) -> bool:
    """Tell whether `called_name` gives back what `gemini_name` was given.

    >>> is_kept("3d.render"), is_kept("3" * 64)
    (True, False)
    """
    return called_name(gemini_name(name)) == wire_name(name)


def called_name(name: str) -> str:
    """Return the wire name of the tool that the model called.

    Models that were trained on Python may put the module of the built-in tools before a name.

    >>> called_name("_3d_render"), called_name("__3d_render"), called_name("default_api:render")
    ('3d_render', '_3d_render', 'render')
    """
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    if not _LED.match(name):
        return name
    if (long := _LONG_LED.match(name)) is not None:
        try:
            return f"{long[1]}_{base64.urlsafe_b64decode(long[2] + '==').hex()}"
        except binascii.Error:
            return name[1:]
    return name[1:]
