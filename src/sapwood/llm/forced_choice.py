"""Whether a call of a tool can be demanded, and what is asked where it cannot.

Law: a request that a provider would refuse for its `tool_choice` is sent with a weaker one, never as it is; the
caller learns beforehand from `can_force` and says in words what it wants.
"""

from sapwood.core.model import LLMProvider, NamedTool, ToolChoice


def can_force(provider: LLMProvider) -> bool:
    """Tell whether this provider object takes a forced `tool_choice` (`any`, or a NamedTool) with its options.

    It is a fact of the model and of the options: Anthropic refuses it beside a budget for thinking, some models refuse
    it always, some servers do not honour it. A provider says so by `forces_tool_choice`; of one without that its
    profile does. Where it is False, ask with `auto` and nudge.

    >>> from sapwood.llm.registry import create_provider
    >>> [can_force(create_provider("anthropic/claude-haiku-4-5", thinking=thinking)) for thinking in (None, 2_000)]
    [True, False]
    """
    own: object = getattr(provider, "forces_tool_choice", None)
    return own if isinstance(own, bool) else provider.profile.forced_tool_choice


def sendable(choice: ToolChoice, *, can_force: bool, can_name: bool = True) -> ToolChoice:
    """Return the choice as it may be sent: one that cannot be demanded is `auto`, one that cannot be named `any`.

    >>> [sendable(NamedTool("finish"), can_force=force, can_name=False) for force in (True, False)]
    ['any', 'auto']
    """
    if choice in ("auto", "none"):
        return choice
    if not can_force:
        return "auto"
    return "any" if isinstance(choice, NamedTool) and not can_name else choice
