"""What a provider would get for a request, checked by its own rules."""

import json
from typing import Any

from sapwood.core.model import ModelRequest
from sapwood.llm.anthropic import AnthropicProvider
from sapwood.llm.openai import OpenAIChatProvider
from sapwood.testing.strict import check_anthropic_body, check_chat_body


def wire(request: ModelRequest, *, model: str = "claude-haiku-4-5") -> dict[str, Any]:
    """The body of Anthropic's Messages API; a broken rule fails the test."""
    provider = AnthropicProvider(model, api_key="k", base_url="http://127.0.0.1:9")
    body: dict[str, Any] = json.loads(provider._call(request).body)
    check_anthropic_body(body)
    return body


def chat_wire(request: ModelRequest, *, model: str = "gpt-4o") -> dict[str, Any]:
    """The body of OpenAI's Chat Completions; a broken rule fails the test."""
    provider = OpenAIChatProvider(model, api_key="k", base_url="http://127.0.0.1:9")
    body: dict[str, Any] = json.loads(provider._call(request).body)
    check_chat_body(body)
    return body
