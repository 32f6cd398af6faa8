"""Install what the tests in other languages need: Node, a browser, and the packages of each folder with a lock file.

Where that cannot be done, it says why and goes on: the tests that need it are then skipped, with the same reason.
"""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("tests/web", "packages/react", "packages/page", "examples/react_chat")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LEAST_NODE = 20


def find_browser() -> str | None:
    """Return the path of a browser of the Chromium family; `SAPWOOD_CHROMIUM` names another one."""
    named = os.environ.get("SAPWOOD_CHROMIUM")
    return named or next((path for name in BROWSERS if (path := shutil.which(name))), None)


def why_no_node() -> str:
    """Return why Node cannot be used; empty where it can."""
    if shutil.which("npm") is None or (node := shutil.which("node")) is None:
        return "node and npm are not installed"
    told = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60)
    major = told.stdout.strip().removeprefix("v").partition(".")[0]
    if not major.isdigit() or int(major) < LEAST_NODE:
        return f"node {LEAST_NODE} or newer is needed; {node} says {told.stdout.strip() or told.stderr.strip()!r}"
    return ""


def why_not_installed(folder: Path) -> str:
    """Install the packages of a folder, once for each state of its lock file; return why that failed."""
    if reason := why_no_node():
        return reason
    lock = folder / "package-lock.json"
    state = hashlib.sha256(lock.read_bytes()).hexdigest()
    stamp = folder / "node_modules" / ".installed"
    with (folder / ".install.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)  # tests in several processes come here at once
        if stamp.exists() and stamp.read_text(encoding="utf-8") == state:
            return ""
        command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
        if done.returncode:
            return f"npm ci failed in {folder.relative_to(ROOT)}: {done.stderr.strip()[-500:]}"
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(state, encoding="utf-8")
    return ""


def install_programs(missing: Sequence[str]) -> str:
    """Install Debian packages; return why that failed."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get to install them with"
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if root and shutil.which("sudo") is None:
        return "neither root nor sudo may install them"
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "-y", "--no-install-recommends", *missing]):
        done = subprocess.run([*root, "apt-get", "-qq", *command], capture_output=True, text=True, env=env, timeout=900)
        if done.returncode:
            return f"apt-get {command[0]} failed: {done.stderr.strip()[-300:]}"
    return ""


def main() -> None:
    """Install all of it, and say what could not be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stamp", type=Path, help="a file that is touched once nothing is missing")
    options = parser.parse_args()
    problems: list[str] = []
    missing = ["chromium"] if find_browser() is None else []
    missing += ["nodejs", "npm"] if why_no_node() else []
    if missing:
        print(f"installing {', '.join(missing)}", flush=True)
        if reason := install_programs(missing):
            problems.append(f"{', '.join(missing)}: {reason}")
    folders = [name for name in FOLDERS if (ROOT / name / "package-lock.json").exists()]
    problems += [f"{name}: {reason}" for name in folders if (reason := why_not_installed(ROOT / name))]
    for problem in problems:
        print(f"web: {problem}; the tests that need it are skipped", file=sys.stderr)
    if options.stamp is not None and not problems:
        options.stamp.touch()


if __name__ == "__main__":
    main()
