"""Who serves models: one packaged table of names, protocols, addresses and key variables.

Laws: no server is named in code outside the table; nothing is opened and no key is read here.
"""

import functools
import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.model import ModelProfile
from sapwood.llm.addresses import root_of
from sapwood.llm.base import Endpoint
from sapwood.llm.check_options import check_options
from sapwood.llm.options import SAMPLING, ModelOptions, model_options
from sapwood.llm.profiles import profile_of

log = logging.getLogger("sapwood.llm")
Protocol: TypeAlias = Literal["anthropic", "openai.chat", "openai.responses", "gemini", "ollama"]


class Server(msgspec.Struct, frozen=True):
    """One row of the table.

    keys: environment variables that may hold the key, the first that is set counts. key_header: the header
    that takes it, empty for the protocol's own. base_url_suffix: added to an address that lacks it.
    facts_of: the provider whose models are served. platform: a cloud with its own forms of address.
    """

    name: str
    protocol: Protocol
    keys: tuple[str, ...]
    base_url: str = ""
    base_url_variable: str = ""
    base_url_suffix: str = ""
    aliases: tuple[str, ...] = ()
    needs_key: bool = True
    key_header: str = ""
    facts_of: str = ""
    platform: Literal["", "bedrock", "vertex"] = ""

    @property
    def endpoint(self) -> Endpoint:
        """Where it is and what the environment says of it."""
        return Endpoint(
            self.base_url,
            self.keys[0],
            self.base_url_variable,
            other_key_variables=self.keys[1:],
            base_url_suffix=self.base_url_suffix,
            needs_key=self.needs_key,
        )


@functools.cache
def servers() -> Mapping[str, Server]:
    """Return the servers by name and alias."""
    rows = msgspec.json.decode(Path(__file__).with_name("servers.json").read_bytes(), type=list[Server])
    return {name: row for row in rows for name in (row.name, *row.aliases)}


def server_of(name: str, protocol: Protocol) -> Server:
    """Return the server of this name; one that the table does not have reads `<NAME>_API_KEY` and `<NAME>_BASE_URL`.

    >>> server_of("my-gateway", "openai.chat").keys
    ('MY_GATEWAY_API_KEY',)
    """
    found = servers().get(name)
    if found is not None:
        return found
    word = name.upper().replace("-", "_").replace(".", "_")
    return Server(name, protocol, (f"{word}_API_KEY",), base_url_variable=f"{word}_BASE_URL")


class Setup(msgspec.Struct, frozen=True):
    """What a provider's class was asked for, resolved: facts, address, options, and how it is reached."""

    server: Server
    profile: ModelProfile
    options: ModelOptions
    connection: dict[str, Any]

    @property
    def endpoint(self) -> Endpoint:
        """Where the provider is."""
        return self.server.endpoint


def set_up(
    model: str, default: str, protocol: Protocol, given: Mapping[str, Any], *, takes: Collection[str] = SAMPLING
) -> Setup:
    """Return the settings of a provider object.

    default: the server, where `given` names none with `provider=`. given: `ProviderOptions`. takes: the options
    of sampling and betas that the protocol has a place for; another one is left out with a warning.
    Raises ConfigError for an option that does not exist or cannot work, and for an empty name.
    """
    if not model.strip():
        raise ConfigError("the model's name is empty")
    check_options(given)
    server = server_of(given.get("provider") or default, protocol)
    given = {**given, **_completed(server, given.get("base_url"))}
    base_url = given.get("base_url")
    own = base_url is not None and bool(server.base_url) and root_of(base_url) != server.base_url
    # A cloud may serve the models of more than one maker, each in its maker's protocol.
    facts_of = protocol if server.platform and protocol != server.protocol else server.facts_of
    profile = given.get("profile") or profile_of(server.name, model, facts_of=facts_of, own_server=own)
    connection = {name: given.get(name) for name in ("base_url", "api_key", "transport", "auth", "timeouts")}
    options = model_options(given, profile)
    left_out = [name for name in (*SAMPLING, "betas") if name not in takes and getattr(options, name) not in (None, ())]
    if left_out:
        log.warning("%s does not take %s over %s; it is left out", profile.origin, ", ".join(left_out), protocol)
    return Setup(server, profile, options, {**connection, "max_tokens": options.max_tokens})


def _completed(server: Server, base_url: str | None) -> dict[str, str]:
    return {"base_url": server.endpoint.whole(base_url)} if base_url else {}
