"""Approval: what a hook and a person may say of a tool call, and what is remembered of it.

Laws: an answer is bound to one call and to the exact input that was shown; a remembered answer is bound to the
tool, to a pattern for every argument and to a scope, never to a name alone; unknown keywords are refused.
Source: guide A, "Approval (Human-in-the-Loop)"; the durable pause and remembered answers are ours.
"""

from collections.abc import Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from sapwood.core.errors import ConfigError, ToolError
from sapwood.core.render_result import json_of
from sapwood.core.require import require_arguments, require_bool, require_finite, require_text
from sapwood.core.struct import Data

HookDecision: TypeAlias = Literal["allow", "deny", "ask"]
WaitKind: TypeAlias = Literal["approval", "external", "unknown"]
"""Why a call waits: for a yes or no; for a result from outside; for a word on an outcome that a crash hid."""


class HookResult(Data, frozen=True, tag="hook_result"):
    """What a tool hook answers; None (or nothing) lets the call go on.

    decision: `deny` stops the call, `ask` sends it to a person, `allow` lets it go on (it does not lift
    `requires_approval`). reason: shown to the model, and to the person who is asked.
    updated_input: arguments to use instead, which are validated again (pre-hooks).
    updated_output: what the model sees instead of the result, or of the error (post-hooks).

    Raises TypeError for a keyword that does not exist, ConfigError for values that cannot work.

    >>> HookResult(decision="deny", reason="not on a Sunday").decision
    'deny'
    """

    type: ClassVar[Literal["hook_result"]] = "hook_result"
    decision: HookDecision = "allow"
    reason: str | None = None
    updated_input: dict[str, Any] | None = None
    updated_output: Any = None

    def __post_init__(self) -> None:
        if self.decision not in ("allow", "deny", "ask"):
            raise ConfigError(f"decision is allow, deny or ask, not {self.decision!r}")
        require_text("reason", self.reason)
        require_arguments("updated_input", self.updated_input)


class ApprovalRequest(Data, frozen=True, tag="approval_request"):
    """A call that waits for a person.

    tool_call_id: names it in an answer, with `path` where a subagent made it. key: ours, unique in its turn.
    tool_input: what the function will get, as JSON: after hooks, conversion and defaults.
    kind: `external` waits for a result (answer with ExternalResult), `unknown` for a word on a call whose outcome
    a crash hid: yes runs it again.
    reason: why it is asked, where a hook said so. expires_at: after that, it counts as denied.
    run_id: of the turn at the top.
    """

    type: ClassVar[Literal["approval_request"]] = "approval_request"
    tool_call_id: str
    name: str
    tool_input: dict[str, Any]
    path: tuple[str, ...] = ()
    key: str = ""
    kind: WaitKind = "approval"
    reason: str | None = None
    expires_at: datetime | None = None
    run_id: str = ""

    @property
    def id(self) -> str:
        """The name of the call in the whole tree: the ids that lead to it, joined by `/`."""
        return "/".join((*self.path, self.tool_call_id))


class ApprovalDecision(Data, frozen=True, tag="approval_decision"):
    """A person's answer to one call.

    reason: shown to the model where the answer is no. updated_input: arguments to use instead, which are
    validated. by: who answered, for the record.
    remember: answer such calls the same way from now on, without asking: a pattern by argument, where a text
    may hold `*`; arguments that it does not name must be equal to those of this call, so `{}` means the same
    call again. Against a value that is no text, such as a number, a text with `*` is held to its JSON: `"*"` is any
    value, `"5*"` is 5 and 500. It holds for this Agent object, and within one conversation where there is one.

    Raises TypeError for a keyword that does not exist, ConfigError for values that cannot work.

    >>> ApprovalDecision(approved=False, reason="too much").approved
    False
    """

    type: ClassVar[Literal["approval_decision"]] = "approval_decision"
    approved: bool
    reason: str | None = None
    updated_input: dict[str, Any] | None = None
    remember: dict[str, Any] | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        require_bool("approved", self.approved)
        require_text("reason", self.reason)
        require_text("by", self.by)
        require_arguments("updated_input", self.updated_input)
        require_arguments("remember", self.remember)
        if self.remember is not None and self.updated_input is not None:
            raise ConfigError("an answer that changes the input cannot be remembered: later calls would run unchanged")


class ExternalResult(Data, frozen=True, tag="external_result"):
    """The result of a tool that runs outside of this program (`@tool(external=True)`).

    value: what the model is shown, as a tool's return value would be. by: who or what gave it, for the record.

    Raises ConfigError for a value that cannot be shown or stored.

    >>> ExternalResult({"metres": 2.5}, by="ann").value
    {'metres': 2.5}
    """

    type: ClassVar[Literal["external_result"]] = "external_result"
    value: Any = None
    is_error: bool = False
    by: str | None = None

    def __post_init__(self) -> None:
        require_bool("is_error", self.is_error)
        require_text("by", self.by)
        require_finite("value", self.value)
        try:
            msgspec.json.encode(json_of(self.value))
        except (ToolError, OverflowError) as error:
            raise ConfigError(f"value cannot be shown: {error}") from None


Answer: TypeAlias = ApprovalDecision | ExternalResult


class ApprovalGrant(Data, frozen=True, tag="approval_grant"):
    """An answer that is remembered: calls of this tool with such arguments, in this scope, are not asked again.

    arguments: what each argument must be equal to; for those named in `patterns`, a text in which `*` stands for
    anything. A call with other arguments than these does not match. scope: the conversation, empty for any turn of
    the Agent. tool_version: of the tool's definition that was shown, empty for any.

    Raises ConfigError for values that cannot work.
    """

    type: ClassVar[Literal["approval_grant"]] = "approval_grant"
    id: str
    tool: str
    arguments: dict[str, Any]
    approved: bool = True
    scope: str = ""
    reason: str | None = None
    patterns: tuple[str, ...] = ()
    tool_version: str = ""

    def __post_init__(self) -> None:
        for name in ("id", "tool", "scope", "tool_version"):
            if getattr(self, name) is None:
                raise ConfigError(f"{name} of a grant is a text, not None")
            require_text(name, getattr(self, name))
        require_text("reason", self.reason)
        require_bool("approved", self.approved)
        if self.arguments is None:  # pyright: ignore[reportUnnecessaryComparison] - people are not typed
            raise ConfigError("arguments of a grant is a dict of arguments, not None")
        require_arguments("arguments", self.arguments)

    def matches(self, tool: str, arguments: Mapping[str, Any], scope: str, *, tool_version: str = "") -> bool:
        """Tell whether it answers this call."""
        if tool != self.tool or self.scope != scope or arguments.keys() != self.arguments.keys():
            return False
        if self.tool_version not in ("", tool_version):
            return False
        return all(
            _is_alike(value, self.arguments[name]) if name in self.patterns else _is_same(value, self.arguments[name])
            for name, value in arguments.items()
        )


def _is_same(value: object, other: object) -> bool:
    # As JSON, so that 1 and true, or 1 and 1.0, are not the same, at any depth.
    return msgspec.json.encode(value, order="deterministic") == msgspec.json.encode(other, order="deterministic")


def _is_alike(value: object, pattern: object) -> bool:
    if not isinstance(pattern, str) or (not isinstance(value, str) and "*" not in pattern):
        return _is_same(value, pattern)
    text = value if isinstance(value, str) else msgspec.json.encode(value, order="deterministic").decode()
    return not _climbs(text, is_json=not isinstance(value, str)) and fnmatchcase(
        text, pattern.replace("[", "[[]").replace("?", "[?]")
    )


def _climbs(text: str, *, is_json: bool) -> bool:
    # A path that climbs is never "under" anything, however it begins and however the dots are written.
    plain = text.lower().replace("%2e", ".").replace("%2f", "/").replace("%5c", "/").replace("\\", "/")
    return ".." in (plain.replace('"', "/") if is_json else plain).split("/")
