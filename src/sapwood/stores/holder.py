"""Who holds a run, and whether that holder is still alive.

Laws: a holder whose process is gone is dead at once. One whose process is there lives until its lease ends, which the
store of that process renews. On one machine that end is counted on the clock since boot, so that setting the clock
takes no run away from anybody; the wall clock decides only about a holder that cannot be seen from here.
"""

import os
import platform
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from sapwood.core.struct import Data

LEASE_SECONDS = 30.0
"""How long a holder counts as alive after its last sign of life."""


class Clock(NamedTuple):
    """The two clocks of a lease, in seconds: since 1970, and since the machine was started."""

    wall: Callable[[], float] = time.time
    steady: Callable[[], float] = time.monotonic


class Owner(Data, frozen=True, tag="owner"):
    """One store in one process.

    boot: of the machine, new with each start. space: in which a process number means something (a container has its
    own). born: when the process was started, as numbers are used again. token: of the store.
    """

    type: ClassVar[Literal["owner"]] = "owner"
    host: str
    boot: str
    space: str
    pid: int
    born: str
    token: str


class Lease(Data, frozen=True, tag="lease"):
    """A hold that ends unless it is renewed. until: on the wall clock; steady_until: on the one since boot."""

    type: ClassVar[Literal["lease"]] = "lease"
    owner: Owner
    until: float
    steady_until: float


def this_process() -> Owner:
    """Return a new owner in this process."""
    pid = os.getpid()
    return Owner(_host(), _boot(), _space(), pid, born(pid) or "", uuid.uuid4().hex)


def leased(owner: Owner, seconds: float, clock: Clock) -> Lease:
    """Return a hold of this owner from now on."""
    return Lease(owner, clock.wall() + seconds, clock.steady() + seconds)


def is_alive(lease: Lease, clock: Clock) -> bool:
    """Tell whether somebody alive holds this."""
    owner, host, boot = lease.owner, _host(), _boot()
    if (owner.host, owner.boot, owner.space) == (host, boot, _space()) and born(owner.pid) != (owner.born or None):
        return False
    if owner.boot and owner.boot == boot:
        return clock.steady() < lease.steady_until
    if owner.boot and boot and owner.host == host:
        return False  # the machine was started anew since
    return clock.wall() < lease.until


def born(pid: int) -> str | None:
    """Return when a process was started, in words of the system; None where it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None if Path("/proc/self/stat").exists() else born_by_ps(pid)
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else fields[19]  # ended, and only not yet waited for


def born_by_ps(pid: int) -> str | None:
    """Return the same where there is no /proc."""
    asked = ["ps", "-o", "state=,lstart=", "-p", str(pid)]
    done = subprocess.run(asked, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    state, _, since = done.stdout.strip().partition(" ")
    return since.strip() if since and not state.startswith("Z") else None


def _host() -> str:
    return f"{platform.node()}/{_first_line('/etc/machine-id')}"


def _boot() -> str:
    return _first_line("/proc/sys/kernel/random/boot_id")


def _space() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
