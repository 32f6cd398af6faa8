"""The public kit for those who test agents or extend the library."""

from sapwood.llm.scripted import ScriptedProvider, call, calls, fails, says, scripted
from sapwood.testing.context import assert_kept, assert_skipped, assert_under
from sapwood.testing.events import assert_ordered, assert_prefix_kept, fold
from sapwood.testing.prefix import prefix_shares

__all__ = [
    "ScriptedProvider",
    "assert_kept",
    "assert_ordered",
    "assert_prefix_kept",
    "assert_skipped",
    "assert_under",
    "call",
    "calls",
    "fails",
    "fold",
    "prefix_shares",
    "says",
    "scripted",
]
