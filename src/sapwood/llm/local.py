"""A model file that answers over HTTP, from inside this process: no key, no network, no daemon.

`LocalServer` starts llama.cpp's own server (the extra `local`) on a free loopback port. Its address
is used like any provider that speaks OpenAI chat completions, so there is no adapter for local models.

Laws: it listens on loopback only; nothing is printed unless `is_verbose`; after `close` the port and
the memory are free.
"""

import http.client
import importlib
import os
import time
from importlib import resources
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from sapwood.core.errors import ConfigError, ProviderNotInstalledError

GGUF_MAGIC = b"GGUF"
QUIET, TALKATIVE = 0, 3
"""llama.cpp's own levels: 0 prints nothing, 3 what its command line tool prints."""


class LocalServer:
    """Serve a GGUF file on loopback until closed.

    path: the GGUF file. One that `model_files.fetch_model` fetched, or any other.
    threads: None takes half of the processors, see `default_threads`; all of them are faster on a machine
        that does nothing else, and many times slower on one that does.
    context_tokens: prompt and reply together; a longer request is refused with HTTP 400.
    chat_template: Jinja text; None takes ours, which small models follow when they call tools; the
        empty text takes the one in the file.
    Raises ConfigError when the file is missing, is no GGUF file or does not load, and
    ProviderNotInstalledError without the extra `local`.

        >>> with LocalServer("model.gguf") as server:  # doctest: +SKIP
        ...     server.base_url, server.model
        ('http://127.0.0.1:40807/v1', 'model')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threads: int | None = None,
        context_tokens: int = 8192,
        chat_template: str | None = None,
        is_verbose: bool = False,
        start_timeout_seconds: float = 60.0,
    ) -> None:
        self.path = Path(path)
        self.model = self.path.stem
        self.context_tokens = context_tokens
        _require_gguf(self.path)
        engine = _engine()
        params = engine.CommonParams()
        params.model.path = str(self.path)
        params.model_alias = {self.model}
        params.chat_template = default_chat_template() if chat_template is None else chat_template
        params.use_jinja = True
        params.n_ctx = context_tokens
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads or default_threads()
        params.verbosity = TALKATIVE if is_verbose else QUIET
        # A page in the user's browser must neither read from this server nor see its prompts.
        params.ui = params.endpoint_slots = False
        params.cors_origins = "http://127.0.0.1"
        # Only at a ping does the server notice, in mid-reply, that it is being closed.
        params.sse_ping_interval = 1
        self._server: Any = _started(engine, params, self.path)
        address: str = self._server.listening_address
        self.base_url = f"{address}/v1"
        try:
            _wait_until_healthy(address, start_timeout_seconds)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop the server and free its memory; a reply in mid-stream is cut off. May be called again."""
        # The engine has no stop call: the server ends when its last reference goes.
        self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def default_chat_template() -> str:
    """Read the chat template that small models follow when they call tools.

    >>> "function_call" in default_chat_template()
    True
    """
    return resources.files("sapwood.llm").joinpath("local_chat_template.jinja").read_text("utf-8")


def default_threads() -> int:
    """Count half of the processors that this process may use: at least 1, at most 8.

    llama.cpp's threads wait for each other busily, so one that must share its processor holds up all.

    >>> 1 <= default_threads() <= 8
    True
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(8, usable // 2))


def _require_gguf(path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"there is no model file at {path}")
    with path.open("rb") as content:
        if content.read(len(GGUF_MAGIC)) != GGUF_MAGIC:
            raise ConfigError(f"{path} is not a GGUF file; a local model needs one")


def _engine() -> Any:
    # Any: the engine is a compiled module without types.
    try:
        return importlib.import_module("xllamacpp")
    except ModuleNotFoundError as error:
        raise ProviderNotInstalledError('a local model needs an extra: pip install "sapwood[local]"') from error


def _started(engine: Any, params: Any, path: Path) -> Any:
    try:
        return engine.Server(params)
    except RuntimeError as error:
        raise ConfigError(f"{path} does not load as a model: {error}; is_verbose=True shows why") from error


def _wait_until_healthy(address: str, timeout_seconds: float) -> None:
    deadline = time.monotonic() + timeout_seconds
    while not _is_healthy(address):
        if time.monotonic() > deadline:
            raise ConfigError(f"the local model was not ready after {timeout_seconds:g} seconds")
        time.sleep(0.05)


def _is_healthy(address: str) -> bool:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
