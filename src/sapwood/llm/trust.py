"""Whom a transport trusts, and the proxy it goes through.

Laws: a value that cannot work is refused with its name, as soon as it can be known; a proxy's name and password
are never shown.
"""

import functools
import os
from typing import TYPE_CHECKING, TypeAlias

from sapwood.core.errors import ConfigError
from sapwood.llm.addresses import host_of, shown_url

if TYPE_CHECKING:
    import ssl

Trust: TypeAlias = "bool | str | ssl.SSLContext"
Verify: TypeAlias = "Trust | os.PathLike[str]"
_PROXIES = ("http://", "https://", "socks5://", "socks5h://")


def checked_verify(verify: Verify) -> Trust:
    """Return the value of `verify=`, a path as text; raises ConfigError for one of another kind."""
    if isinstance(verify, bool):
        return verify
    if isinstance(verify, str | os.PathLike) and (path := os.fspath(verify)):
        return path
    import ssl  # most users never name one

    if isinstance(verify, ssl.SSLContext):
        return verify
    raise ConfigError(f"verify= is True, False, a file or folder of certificates, or an ssl.SSLContext, not {verify!r}")


def require_proxy(proxy: str | None) -> None:
    """Raise ConfigError for an address of `proxy=` that no request can go through."""
    if proxy is None:
        return
    if not isinstance(proxy, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"proxy= is an address such as 'http://proxy.example:3128', not {type(proxy).__name__}")
    if not proxy.lower().startswith(_PROXIES) or host_of(proxy) == "the provider":
        raise ConfigError(f"proxy= is an address such as 'http://proxy.example:3128', not {shown_url(proxy)!r}")
    if proxy.lower().startswith("socks"):
        require_socks(shown_url(proxy))


def require_socks(proxy: str) -> None:
    """Raise ConfigError where the package that speaks SOCKS is missing."""
    import importlib.util

    if importlib.util.find_spec("socksio") is None:
        raise ConfigError(f"the proxy {proxy!r} needs socksio: pip install 'httpx2[socks]'")


@functools.lru_cache(maxsize=16)
def tls_context(verify: Trust = True) -> "ssl.SSLContext":
    """Return the TLS settings that all clients of this process with this trust share, made on first use."""
    import ssl

    import httpx2

    if isinstance(verify, ssl.SSLContext):
        return verify
    if isinstance(verify, bool):
        try:
            return httpx2.create_ssl_context(verify=verify)
        except OSError as error:  # an ssl.SSLError is one
            named = {name: value for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if (value := os.environ.get(name))}
            raise ConfigError(
                f"the certificates to trust cannot be read ({error}); check {named or 'verify='}"
            ) from error
    path = os.fspath(verify)
    if not os.path.exists(path):
        raise ConfigError(f"verify= names no file or folder of certificates: {path!r}")
    is_folder = os.path.isdir(path)
    try:
        return ssl.create_default_context(cafile=None if is_folder else verify, capath=verify if is_folder else None)
    except OSError as error:
        raise ConfigError(f"verify= names a file without readable certificates (PEM): {verify!r} ({error})") from error
