"""What the loop itself says to a model: that this is the last round, that its calls repeat themselves, what is left,
why a call was not run.

Law: such a word stands after the transcript, so it never moves what the provider has cached.
"""

from collections.abc import Sequence

from sapwood.core.decide import CallModel
from sapwood.core.limits import Tally, UsageLimits
from sapwood.core.messages import ToolCall
from sapwood.core.tools import FINAL_RESULT

_WHY = {
    None: "the round budget is used up",
    "usage_limit": "the usage budget is used up",
    "stuck": "the same calls were made again and again without progress",
}
_NAMES = {
    "total_tokens": "tokens",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "requests": "model calls",
    "tool_calls": "tool calls",
}


def final_notice(action: CallModel) -> str:
    """Return what tells the model that this is its last round, and why.

    >>> final_notice(CallModel(3, final=True)).partition(".")[0]
    '[system] Final round: the round budget is used up'
    """
    why = _WHY.get(action.wrap_up, _WHY[None])
    if action.output == "tool":
        return f"[system] Final round: {why}. Call {FINAL_RESULT} now, with what you have. Other tools are gone."
    return (
        f"[system] Final round: {why}. Give your final answer now, from what you have. "
        "Tools are not available any more."
    )


def stuck_notice(tool: str, count: int) -> str:
    """Return what tells the model that a call brings nothing new.

    >>> stuck_notice("look", 4).partition(",")[0]
    '[system] You called look in 4 rounds in a row with the same arguments'
    """
    return (
        f"[system] You called {tool} in {count} rounds in a row with the same arguments, and it answered the same "
        "each time. Do something else, or answer with what you have."
    )


def budget_note(*budgets: tuple[UsageLimits | None, Tally]) -> str:
    """Return what is left of the limits, of each kind the least; empty where there are none.

    >>> budget_note((UsageLimits(tool_calls_limit=5), Tally(calls={"look": 2})))
    '[system] Left for this task: 3 tool calls.'
    """
    left: dict[str, float] = {}
    for limits, tally in budgets:
        for kind, tool, limit in limits.items() if limits is not None else ():
            name = f"calls of {tool}" if tool else kind
            rest = max(0.0, limit - tally.of(kind, tool))
            left[name] = min(rest, left.get(name, rest))
    if not left:
        return ""
    return f"[system] Left for this task: {', '.join(_amount(name, rest) for name, rest in left.items())}."


def problem_with(call: ToolCall) -> str:
    """Return what is said of arguments that are no JSON object; empty where they are one.

    >>> problem_with(ToolCall("add", problem="malformed"))
    'The arguments for add were malformed JSON; the tool was not run.'
    """
    match call.problem:
        case None:
            return ""
        case "incomplete":
            return f"The arguments for {call.name} were incomplete (the reply was cut off); the tool was not run."
        case "malformed":
            return f"The arguments for {call.name} were malformed JSON; the tool was not run."
        case "not_an_object":
            return f"The arguments for {call.name} must be a JSON object; the tool was not run."


def unknown_tool(name: str, known: Sequence[str]) -> str:
    """Return what is said of a call of a tool that does not exist.

    >>> unknown_tool("ad", ["add"])
    'Unknown tool: ad. Available tools: add.'
    """
    return f"Unknown tool: {name}. Available tools: {', '.join(known[:40]) or 'none'}."


def _amount(name: str, rest: float) -> str:
    if name == "cost":
        return f"${rest:.2f}"
    if name == "seconds":
        return f"{rest:.0f} seconds"
    return f"{rest:,.0f} {_NAMES.get(name, name)}"
