"""`sapwood serve`: an agent behind HTTP, with the built-in page."""

import argparse
import os
import sys
from typing import cast

from sapwood.agent.agent import Agent
from sapwood.cli.chat import load_object, plain_agent
from sapwood.cli.first_model import choose_model
from sapwood.core.errors import ConfigError
from sapwood.server.app import App, Served, create_app
from sapwood.server.principal import Authorize, Principal, bearer_tokens
from sapwood.server.serving import serve
from sapwood.stores.sqlite.store import SqliteStore


def run_serve(options: argparse.Namespace) -> int:
    """Serve until it is told to stop, and return the exit code; raises ConfigError for what cannot be served."""
    if options.agent is not None:
        _serve(load_object(options.agent), options, options.agent)
        return 0
    chosen = choose_model(options.model, base_url=options.base_url)
    try:
        _serve(plain_agent(chosen, options.system), options, chosen.label)
    finally:
        chosen.close()
    return 0


def _serve(found: object, options: argparse.Namespace, label: str) -> None:
    def started(address: str) -> None:
        what = "" if options.no_page else ", the page is at /"
        print(f"{label} at {address}{what} (Ctrl-C ends)", file=sys.stderr, flush=True)

    if isinstance(found, App):
        serve(found, host=options.host, port=options.port, started=started)
        return
    served = _served(found, label)
    store = SqliteStore(options.db) if options.db is not None else None
    try:
        app = create_app(
            served,
            store=store,
            authorize=_authorize(options.token_env),
            origins=options.origin,
            hosts=options.name,
            page=not options.no_page,
            title=label,
        )
        serve(app, host=options.host, port=options.port, started=started)
    finally:
        if store is not None:
            store.close()


def _served(found: object, label: str) -> Served:
    if isinstance(found, Agent):
        return found
    if callable(found):
        return cast("Served", found)  # whether it makes agents shows once somebody asks
    raise ConfigError(f"{label} is {type(found).__name__}, and no Agent, function that makes one, or create_app(...)")


def _authorize(variable: str | None) -> Authorize | None:
    if variable is None:
        return None
    token = os.environ.get(variable, "")
    if not token:
        raise ConfigError(f"the environment variable {variable} is empty; put the token into it")
    return bearer_tokens({token: Principal("owner")})
