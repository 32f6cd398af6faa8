"""One request that a tool has served, kept so that the next one like it finds the tool."""

from typing import ClassVar, Literal

from sapwood.core.struct import Data


class PastRequest(Data, frozen=True, tag="past_request"):
    """A request that a lazily loaded tool has served.

    tool: its own name. text: the user's words, cut short. run_id: of the turn; empty where nobody said.

    >>> PastRequest("invoices.create", "bill ACME for May").tool
    'invoices.create'
    """

    type: ClassVar[Literal["past_request"]] = "past_request"
    tool: str
    text: str
    run_id: str = ""
