"""Models: what an Agent was told of the models it asks, looked at where it is given."""

from collections.abc import Sequence

from sapwood.core.errors import ConfigError
from sapwood.core.model import CacheTtl, LLMProvider


def create(model: str, api_key: str | None, base_url: str | None) -> LLMProvider:
    """Return the provider of a model's name."""
    from sapwood.llm.registry import create_provider

    return create_provider(model, api_key=api_key, base_url=base_url)


def models_of(fallbacks: Sequence[str | LLMProvider] | None) -> tuple[str | LLMProvider, ...]:
    """Return the fallbacks of an agent; raises ConfigError for what is no model."""
    if isinstance(fallbacks, str):
        raise ConfigError(f"fallbacks must be a list of models, such as [{fallbacks!r}]")
    for item in fallbacks or ():
        if isinstance(item, str):
            _require_known(item)
        elif not hasattr(item, "stream"):
            raise ConfigError(
                f"a fallback is a model's name or a provider (create_provider(...)), not {type(item).__name__}"
            )
    return tuple(fallbacks or ())


def _require_known(model: str) -> None:
    from sapwood.llm.registry import require_known

    require_known(model)


def ttl_of(cache: bool | CacheTtl) -> CacheTtl | None:
    """Return how long the cache is kept; raises ConfigError for what is no such time."""
    if cache is False:
        return None
    if cache is True:
        return "5m"
    if cache not in ("5m", "1h"):
        raise ConfigError(f'cache must be True, False, "5m" or "1h", not {cache!r}')
    return cache
