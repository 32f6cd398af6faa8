"""Providers by name: `create_provider("anthropic/…")`, and a door for others.

Laws: nothing is imported before it is asked for; no key is read and nothing is opened here.
"""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from sapwood.core.errors import ConfigError, ProviderNotInstalledError
from sapwood.core.model import LLMProvider
from sapwood.llm.addresses import root_of
from sapwood.llm.servers import Server, servers

Factory: TypeAlias = Callable[..., LLMProvider]
"""Called with the model's name and the keyword arguments of `create_provider` that were given."""

DEFAULT_PROVIDER = "anthropic"


def create_provider(model: str, **options: Any) -> LLMProvider:
    """Return the provider of a model by `provider/model`; a name without a slash is Anthropic's.

    options: see `ProviderOptions`; among them api_key and base_url (None takes the environment's at the first
    call); base_url may name another server that speaks the provider's protocol.

    `openai/` is asked over Responses at OpenAI itself, and over Chat Completions, which other servers speak, at any
    other base_url or OPENAI_BASE_URL; `openai-responses/` and `openai-chat/` settle it.

    Raises ProviderNotInstalledError for a provider that is not known, ConfigError for an empty name and for an
    option that does not exist.

    >>> create_provider("groq/openai/gpt-oss-120b").profile.origin
    'groq/openai/gpt-oss-120b'
    """
    prefix, name = _parts(model)
    if not name.strip():
        raise ConfigError(f"the model's name is empty in {model!r}; give 'provider/model', as in 'openai/gpt-4o'")
    given = {key: value for key, value in options.items() if value is not None}
    factory = _factories.get(prefix.lower())
    if factory is not None:
        return factory(name, **given)
    return _served(prefix.lower(), name, given)


def _served(prefix: str, model: str, options: dict[str, Any]) -> LLMProvider:
    """Return the provider of a server in the packaged table, by its name and perhaps a protocol."""
    server, named, last = _server(prefix, model, options)
    model = _own_name(server, model)
    protocol = f"openai.{last}" if named != prefix else _protocol(server, model, options)
    return _class_of(protocol)(model, **{"provider": server.name, **options})


def _server(prefix: str, model: str, options: Mapping[str, Any]) -> tuple[Server, str, str]:
    """Return the server that a prefix names, the part of the prefix that is its name, and the last word of it."""
    word, dash, last = prefix.rpartition("-")
    named = word if dash and last in ("chat", "responses") else prefix
    server = servers().get(named)
    is_other = server is not None and named != prefix and not server.protocol.startswith("openai.")
    if server is None or (is_other and "base_url" not in options):  # its own address speaks its own protocol
        known = ", ".join(sorted({*_factories, *(row.name for row in servers().values())}))
        raise ProviderNotInstalledError(
            f"no provider is called {prefix!r} (known: {known}); for a server that speaks OpenAI's protocol "
            f"use create_provider('openai/{model}', base_url='http://host/v1'), "
            "for others register_provider(...)"
        )
    return server, named, last


def _protocol(server: Server, model: str, options: Mapping[str, Any]) -> str:
    if server.platform == "vertex" and model.startswith("claude"):
        return "anthropic"
    if server.name != "openai":
        return server.protocol
    given: Any = options.get("base_url")
    root = root_of(server.endpoint.whole(given) if given and isinstance(given, str) else server.endpoint.address())
    is_own = root == server.base_url and options.get("provider", "openai") == "openai"
    return server.protocol if is_own or root.endswith("/responses") else "openai.chat"  # what other servers speak


def _own_name(server: Server, model: str) -> str:
    """Return the model's name as the server writes it: on Vertex its maker stands elsewhere in the address."""
    if server.platform != "vertex":
        return model
    name = model.removeprefix("anthropic/").removeprefix("google/")
    return name.lower() if name.lower().startswith("claude") else name


def _class_of(protocol: str) -> Factory:
    module, name = _CLASSES[protocol]
    found: Factory = getattr(importlib.import_module(module), name)
    return found


def provider_of(model: str) -> str:
    """Return the provider's name in `provider/model`.

    >>> provider_of("claude-haiku-4-5")
    'anthropic'
    """
    return _parts(model)[0].lower()


def require_known(model: str) -> None:
    """Raise ProviderNotInstalledError where no provider has the prefix of `provider/model`; nothing is made."""
    prefix, name = _parts(model)
    if prefix.lower() not in _factories:
        _server(prefix.lower(), name, {})


def _parts(model: str) -> tuple[str, str]:
    prefix, slash, name = model.strip().partition("/")
    return (prefix, name) if slash else (DEFAULT_PROVIDER, prefix)


def register_provider(prefix: str, factory: Factory) -> None:
    """Let `create_provider("prefix/model")` call this factory; a later one replaces an earlier one.

    >>> from sapwood.llm.scripted import says, scripted
    >>> register_provider("script", lambda model: scripted(says(model)))
    >>> create_provider("script/any").profile.provider
    'scripted'
    """
    if not prefix.strip() or "/" in prefix:
        raise ConfigError(f"a provider's prefix is a word without a slash, not {prefix!r}")
    _factories[prefix.strip().lower()] = factory


_factories: dict[str, Factory] = {}
_CLASSES = {
    "anthropic": ("sapwood.llm.anthropic", "AnthropicProvider"),
    "openai.chat": ("sapwood.llm.openai", "OpenAIChatProvider"),
    "gemini": ("sapwood.llm.gemini", "GeminiProvider"),
    "ollama": ("sapwood.llm.ollama", "OllamaProvider"),
    "openai.responses": ("sapwood.llm.openai.responses", "OpenAIResponsesProvider"),
}
