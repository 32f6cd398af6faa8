"""Providers by name: `create_provider("anthropic/…")`, and a door for others.

Laws: nothing is imported before it is asked for; no key is read and nothing is opened here.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from sapwood.core.errors import ConfigError, ProviderNotInstalledError
from sapwood.core.model import LLMProvider
from sapwood.llm.transport import Transport

Factory: TypeAlias = Callable[..., LLMProvider]
"""Called with the model's name and the keyword arguments of `create_provider` that were given."""

DEFAULT_PROVIDER = "anthropic"


def create_provider(
    model: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    transport: Transport | None = None,
    **options: Any,
) -> LLMProvider:
    """Return the provider of a model by `provider/model`; a name without a slash is Anthropic's.

    api_key: None takes the provider's environment variable at the first call. base_url: another server
    that speaks the provider's protocol. options: what the provider's class takes besides.

    Raises ProviderNotInstalledError for a provider that is not known, ConfigError for an empty name.

    >>> create_provider("openai/gpt-4o").profile.origin
    'openai/gpt-4o'
    """
    prefix, name = _parts(model)
    if not name.strip():
        raise ConfigError(f"the model's name is empty in {model!r}; give 'provider/model', as in 'openai/gpt-4o'")
    factory = _factories.get(prefix.lower())
    if factory is None:
        known = ", ".join(sorted(_factories))
        raise ProviderNotInstalledError(
            f"no provider is called {prefix!r} (known: {known}); for a server that speaks OpenAI's protocol "
            f"use create_provider('openai/{name}', base_url='http://host/v1'), "
            "for others register_provider(...)"
        )
    given = {"api_key": api_key, "base_url": base_url, "transport": transport}
    return factory(name, **{key: value for key, value in given.items() if value is not None}, **options)


def provider_of(model: str) -> str:
    """Return the provider's name in `provider/model`.

    >>> provider_of("claude-haiku-4-5")
    'anthropic'
    """
    return _parts(model)[0].lower()


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


def _anthropic(model: str, **options: Any) -> LLMProvider:
    from sapwood.llm.anthropic import AnthropicProvider

    return AnthropicProvider(model, **options)


def _openai(model: str, **options: Any) -> LLMProvider:
    from sapwood.llm.openai import OpenAIChatProvider

    return OpenAIChatProvider(model, **options)


_factories: dict[str, Factory] = {"anthropic": _anthropic, "openai": _openai}
