"""Tools that become callable in mid-conversation, in the two forms that OpenAI's Responses has for them.

Laws: what was once sent is never sent in another way, so the prefix stays; a definition is kept under the first form
in which it was seen. Recorded: a deferred tool named in a search that the caller ran is callable without another
search; `additional_tools` after the output of a function makes its tools callable.
"""

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

LateForm: TypeAlias = Literal["deferred", "inline", ""]


class LateTools:
    """The definitions that results bring, by wire name. form: how; empty where none do.

    >>> late = LateTools("inline")
    >>> late.blocks["add"] = {"type": "function", "name": "add"}
    >>> [item["type"] for item in late.items(late.brought(["add", "gone"]), "call_1")]
    ['additional_tools']
    """

    __slots__ = ("blocks", "form")

    def __init__(self, form: LateForm, blocks: dict[str, dict[str, Any]] | None = None) -> None:
        self.form: LateForm = form
        self.blocks = blocks if blocks is not None else {}

    def forked(self, length: int) -> "LateTools":
        """Return the same for another branch; a name has one definition in all of them."""
        return LateTools(self.form, self.blocks)

    def brought(self, names: Iterable[str]) -> list[str]:
        """Return those of the names whose definitions are known here."""
        return [name for name in names if name in self.blocks]

    def items(self, names: list[str], call_id: str) -> list[dict[str, Any]]:
        """Return the items after a result that bring its tools. call_id: of the call that it answers."""
        if not names:
            return []
        tools = [self.blocks[name] for name in names]
        if self.form == "inline":
            return [{"type": "additional_tools", "role": "developer", "tools": tools}]
        shared = {"call_id": f"{call_id[:57]}_tools", "execution": "client", "status": "completed"}
        return [
            {"type": "tool_search_call", "arguments": {"queries": names}, **shared},
            {"type": "tool_search_output", "tools": tools, **shared},
        ]

    def called(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return a call as it goes back: that of a deferred tool names its namespace, which is the tool alone."""
        if self.form != "deferred" or item.get("type") != "function_call" or item.get("name") not in self.blocks:
            return item
        return {"namespace": item["name"], **item}
