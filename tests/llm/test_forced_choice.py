"""A demanded call of a tool: how each protocol says it, and what is asked where it cannot be demanded."""

import json
from typing import Any

import pytest

from sapwood.core.messages import Message
from sapwood.core.model import LLMProvider, ModelProfile, ModelRequest, NamedTool, Reply, ToolChoice
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic.client import AnthropicClientProvider
from sapwood.llm.base import BaseLLMProvider
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.forced_choice import can_force, sendable
from sapwood.llm.registry import create_provider
from sapwood.llm.scripted import scripted

NAMED = NamedTool("notes.final")
TOOLS = (ToolSchema("notes.final"), ToolSchema("other"))


def sent(model: str, choice: ToolChoice, **options: Any) -> Any:
    """What a request of this model says of its tool choice, None where it says nothing."""
    provider = create_provider(model, api_key="k", **options)
    assert isinstance(provider, BaseLLMProvider)
    request = ModelRequest(Transcript.of([Message.user("hi")]), tools=TOOLS, tool_choice=choice)
    body = json.loads(provider._call(request).body)
    return body.get("tool_choice", body.get("toolConfig", {}).get("functionCallingConfig"))


@pytest.mark.parametrize(
    ("model", "named", "any_one"),
    [
        ("anthropic/claude-haiku-4-5", {"type": "tool", "name": "notes_final"}, {"type": "any"}),
        ("anthropic/claude-fable-5", {"type": "auto"}, {"type": "auto"}),
        ("openai-chat/gpt-4o", {"type": "function", "function": {"name": "notes_final"}}, "required"),
        ("openai/gpt-5", {"type": "function", "name": "notes_final"}, "required"),
        ("mistral/mistral-large-latest", {"type": "function", "function": {"name": "notes_final"}}, "any"),
        ("moonshot/kimi-k3", "auto", "auto"),
        ("llamacpp/some", "required", "required"),
        ("lmstudio/some", "required", "required"),
        ("gemini/gemini-3-flash-preview", {"mode": "ANY", "allowedFunctionNames": ["notes_final"]}, {"mode": "ANY"}),
        ("ollama/qwen3", None, None),
    ],
)
def test_each_protocol_has_its_form_for_one_tool(model: str, named: Any, any_one: Any) -> None:
    assert sent(model, NAMED) == named
    assert sent(model, "any") == any_one


@pytest.mark.parametrize(
    ("model", "options", "forces"),
    [
        ("anthropic/claude-haiku-4-5", {}, True),
        ("anthropic/claude-haiku-4-5", {"thinking": False}, True),
        ("anthropic/claude-haiku-4-5", {"thinking": True}, False),
        ("anthropic/claude-haiku-4-5", {"thinking": 2_000}, False),
        (
            "anthropic/claude-haiku-4-5",
            {"extra_body": {"thinking": {"type": "enabled", "budget_tokens": 2_000}}},
            False,
        ),
        ("anthropic/claude-opus-4-6", {"thinking": True}, True),  # adaptive
        ("anthropic/claude-opus-4-6", {"extra_body": {"thinking": {"type": "adaptive"}}}, True),
        ("anthropic/claude-mythos-5", {}, False),
        ("openai/gpt-5", {"thinking": "high"}, True),
        ("gemini/gemini-2.5-flash", {"thinking": 500}, True),
        ("deepseek/deepseek-reasoner", {}, False),
        ("ollama/qwen3", {}, False),
    ],
)
def test_whether_a_call_can_be_demanded_is_known_beforehand(model: str, options: Any, forces: bool) -> None:
    provider = create_provider(model, api_key="k", **options)

    assert can_force(provider) is forces
    if not model.startswith("ollama/"):
        assert (sent(model, NAMED, **options) in ("auto", {"type": "auto"})) is not forces


def test_a_chain_asks_its_first_provider() -> None:
    thinks = create_provider("anthropic/claude-haiku-4-5", thinking=2_000)
    plain = create_provider("anthropic/claude-haiku-4-5")

    assert [can_force(FallbackProvider(chain)) for chain in ([thinks, plain], [plain, thinks])] == [False, True]


@pytest.mark.parametrize(("thinking", "forces"), [({"type": "enabled", "budget_tokens": 2_000}, False), (None, True)])
def test_a_client_is_judged_by_its_extra_body(thinking: Any, forces: bool) -> None:
    client: Any = object()  # nothing is asked of it
    provider = AnthropicClientProvider(client, "claude-haiku-4-5", extra_body={"thinking": thinking})

    assert can_force(provider) is forces


def test_a_provider_of_ones_own_is_judged_by_its_profile() -> None:
    class Own:
        profile = ModelProfile(forced_tool_choice=False)

        def stream(self, request: ModelRequest) -> list[Reply]:
            return [Reply()]

    own: LLMProvider = Own()
    assert not can_force(own)
    assert can_force(scripted())


@pytest.mark.parametrize(
    ("choice", "force", "name", "expected"),
    [
        ("auto", True, True, "auto"),
        ("none", False, False, "none"),
        ("any", True, False, "any"),
        ("any", False, True, "auto"),
        (NAMED, True, True, NAMED),
        (NAMED, True, False, "any"),
        (NAMED, False, True, "auto"),
    ],
)
def test_a_choice_is_weakened_and_never_refused(choice: Any, force: bool, name: bool, expected: Any) -> None:
    assert sendable(choice, can_force=force, can_name=name) == expected
