"""How a server behaves: its limits and times, with defaults for one process before some hundred people."""

from typing import Literal, TypeAlias

import msgspec

from sapwood.core.errors import ConfigError
from sapwood.core.require import shown

OnDisconnect: TypeAlias = Literal["continue", "cancel"]
OnRestart: TypeAlias = Literal["resume", "mark"]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and times of a server.

    on_disconnect: what becomes of a run whose last reader has gone: it goes on and can be joined again (`continue`), or
    it is stopped (`cancel`). on_restart: what becomes of runs that a crash broke off: those of the last
    `resume_within_seconds` go on by themselves, each at most three times in a row (`resume`), or all wait for somebody
    to go on with them (`mark`). Effects that a run has had are never repeated.
    heartbeat_seconds: silence after which a comment is sent, so that no proxy closes the connection.
    stall_seconds: how long a client may take nothing before its connection is closed; the run goes on.
    keep_seconds: how long the log of a run that is over stays in memory. stop_seconds: how long a stop may take.
    drain_seconds: how long a shutdown lets runs finish before they are broken off, to be resumed later.
    max_runs, max_runs_each: runs at once, in all and of one principal. requests_per_minute: of one principal, those
    that change something; ten times as many may read. max_body_bytes: of a request. max_event_bytes: of an event that
    is sent; a larger result of a tool is replaced by a note, while what a person must see whole, such as the arguments
    of a call, is sent all the same.
    follow_seconds: how often the store is asked for news of a run that another process of the server has.
    kept_requests: runs whose requests are kept in memory for the context view.

    Raises ConfigError for values that cannot work.

    >>> Settings(heartbeat_seconds=0)
    Traceback (most recent call last):
    sapwood.core.errors.ConfigError: heartbeat_seconds is a number above 0, not 0
    """

    on_disconnect: OnDisconnect = "continue"
    on_restart: OnRestart = "resume"
    resume_within_seconds: float = 3_600.0
    heartbeat_seconds: float = 15.0
    stall_seconds: float = 60.0
    keep_seconds: float = 60.0
    stop_seconds: float = 10.0
    drain_seconds: float = 20.0
    max_runs: int = 2_000
    max_runs_each: int = 100
    requests_per_minute: int = 600
    max_body_bytes: int = 10_000_000
    max_event_bytes: int = 1_000_000
    follow_seconds: float = 1.0
    kept_requests: int = 20

    def __post_init__(self) -> None:
        for name, allowed in (("on_disconnect", ("continue", "cancel")), ("on_restart", ("resume", "mark"))):
            if (value := getattr(self, name)) not in allowed:
                raise ConfigError(f"{name} is {' or '.join(map(repr, allowed))}, not {shown(value)}")
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name in ("on_disconnect", "on_restart"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e12:
                raise ConfigError(f"{name} is a number above 0, not {shown(value)}")
