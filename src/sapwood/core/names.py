"""Tool names as providers accept them.

Laws: the wire name is a pure function of the original, the same in every process, and matches
`[a-zA-Z0-9_-]{1,64}`, which every provider takes; two tools whose names become one are refused.
Source: guide D, "Tool names".
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

from sapwood.core.errors import ToolNameCollision

MAX_WIRE_NAME = 64
_BAD = re.compile(r"[^a-zA-Z0-9_-]")
_GOOD = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def wire_name(name: str) -> str:
    """Return the name that the model sees.

    Every character outside `[a-zA-Z0-9_-]` becomes `_`. A name over 64 characters keeps its beginning and
    ends in eight digits of a hash of the whole, so that two long names stay distinct. A name without a
    single letter or digit of its own (all Chinese, say) gets the hash too.

    >>> wire_name("notes.list")
    'notes_list'
    """
    if _GOOD.match(name):
        return name
    cleaned = _BAD.sub("_", name)
    if len(cleaned) <= MAX_WIRE_NAME and cleaned.strip("_-"):
        return cleaned
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{cleaned[: MAX_WIRE_NAME - 9]}_{digest}"


def name_map(names: Iterable[str]) -> Mapping[str, str]:
    """Return wire name -> original name.

    Raises ToolNameCollision, naming both, where two become one or one is given twice.

    >>> name_map(["notes.list"])
    {'notes_list': 'notes.list'}
    """
    originals: dict[str, str] = {}
    for name in names:
        wire = wire_name(name)
        if wire in originals:
            raise ToolNameCollision(
                f"{originals[wire]!r} and {name!r} both become {wire!r} for the model; rename one of them"
            )
        originals[wire] = name
    return originals
