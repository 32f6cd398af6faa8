"""A model for the first run: the best one that can be had without asking anything.

In this order: a key in the environment; a local server that answers; a GGUF file through the extra `local`;
else a script that says plainly that no model is connected.
"""

import os
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.model import LLMProvider, ModelRequest
from sapwood.llm.addresses import endpoint_url, shown_url
from sapwood.llm.registry import create_provider
from sapwood.llm.scripted import ScriptedReply, says, scripted


class LocalLocation(NamedTuple):
    """Where a server of one's own listens by default. provider: what `create_provider` calls it."""

    label: str
    url: str
    provider: str


LOCAL_SERVERS = (
    LocalLocation("Ollama", "http://127.0.0.1:11434/v1", "ollama"),
    LocalLocation("LM Studio", "http://127.0.0.1:1234/v1", "lmstudio"),
    LocalLocation("llama-server", "http://127.0.0.1:8080/v1", "llamacpp"),
)
PROBE_SECONDS = 0.3
NO_MODEL = (
    "No model is connected; this is a script speaking. To talk to a real one, do one of these and start again:\n\n"
    "1. set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY;\n"
    "2. start a local server (Ollama, LM Studio, llama-server), or set OPENAI_BASE_URL to one;\n"
    '3. `pip install "sapwood[local]"` and `sapwood chat --model path/to/model.gguf`.'
)


class FirstModel(msgspec.Struct, frozen=True):
    """A model and where it comes from.

    label: for a person. is_real: False for the script. close: frees what was started for it.
    """

    provider: LLMProvider
    label: str
    is_real: bool = True
    close: Callable[[], None] = lambda: None


def choose_model(
    model: str | None = None, *, base_url: str | None = None, local_options: Mapping[str, Any] | None = None
) -> FirstModel:
    """Return the model that was asked for, or else the best there is.

    model: `provider/model`, or the path of a GGUF file. local_options: for the provider of a local server or
    file, such as `temperature=0`.

    Raises ConfigError where the one that was asked for cannot be had.
    """
    if model is not None:
        return _from_file(Path(model), local_options or {}) if _is_file(model) else _named(model, base_url)
    if base_url is not None:
        return _from_server("server", base_url, local_options or {})
    for found in _candidates(local_options or {}):
        return found
    return FirstModel(scripted(*[_no_model] * 10_000), "no model (a script)", is_real=False)


def has_other_model() -> bool:
    """Tell whether a model can be had without a file: by a key or an address in the environment, or a local server."""
    variables = [variable for variable, *_ in (*_KEYS, *_ADDRESSES)]
    named = any(os.environ.get(variable) for variable in variables)
    return named or any(served_models(server.url) for server in LOCAL_SERVERS)


def _candidates(options: Mapping[str, Any]) -> Iterator[FirstModel]:
    for variable, provider, model in _KEYS:
        if os.environ.get(variable):
            yield _named(f"{provider}/{os.environ.get('SAPWOOD_MODEL') or model}", None)
    for variable, name in _ADDRESSES:
        url = os.environ.get(variable)
        if url and (served := served_models(url)):
            yield _named(f"{name}/{served[0]}", url)
    for server in LOCAL_SERVERS:
        if served := served_models(server.url):
            made = create_provider(f"{server.provider}/{served[0]}", base_url=server.url, **options)
            yield FirstModel(made, f"{served[0]} on {server.label} ({server.url})")
    path = _cached_file()
    if path is not None and _has_engine():
        yield _from_file(path, options)


_ADDRESSES = (("OPENAI_BASE_URL", "openai"), ("ANTHROPIC_BASE_URL", "anthropic"))
# Small, current models of the providers whose keys are looked for; SAPWOOD_MODEL names another.
_KEYS = (
    ("ANTHROPIC_API_KEY", "anthropic", "claude-haiku-4-5"),
    ("OPENAI_API_KEY", "openai", "gpt-5-mini"),
    ("GEMINI_API_KEY", "gemini", "gemini-3.5-flash"),
)


def _named(model: str, base_url: str | None) -> FirstModel:
    provider = create_provider(model, base_url=base_url)
    return FirstModel(provider, provider.profile.origin + (f" at {shown_url(base_url)}" if base_url else ""))


def _from_server(label: str, base_url: str, options: Mapping[str, Any]) -> FirstModel:
    served = served_models(base_url)
    if not served:
        raise ConfigError(
            f"no server answers at {shown_url(base_url)}/models; is it running, and does the URL end in /v1?"
        )
    return FirstModel(_served(base_url, served[0], options), f"{served[0]} on {label} ({shown_url(base_url)})")


def _served(base_url: str, model: str, options: Mapping[str, Any]) -> LLMProvider:
    return create_provider(f"openai/{model}", base_url=base_url, provider="local", **options)


def _from_file(path: Path, options: Mapping[str, Any]) -> FirstModel:
    from sapwood.llm.local import LocalServer

    server = LocalServer(path)
    provider = _served(server.base_url, server.model, options)
    return FirstModel(provider, f"{path.name} in this process", close=server.close)


def _is_file(model: str) -> bool:
    return model.endswith(".gguf") or Path(model).is_file()


def _cached_file() -> Path | None:
    from sapwood.llm.model_files import find_model

    return find_model()


def _has_engine() -> bool:
    from importlib.util import find_spec

    return find_spec("xllamacpp") is not None


def served_models(base_url: str) -> list[str]:
    """Return the names of the models that a server offers; none where nothing answers."""
    try:
        with urllib.request.urlopen(endpoint_url(base_url, "/models"), timeout=PROBE_SECONDS) as answer:
            listed = msgspec.json.decode(answer.read(), type=_Listed)
    except (OSError, ValueError, msgspec.MsgspecError):
        return []
    return [item.id for item in listed.data]


class _Item(msgspec.Struct):
    id: str


class _Listed(msgspec.Struct):
    data: list[_Item] = []


def _no_model(request: ModelRequest) -> ScriptedReply:
    return says(NO_MODEL)
