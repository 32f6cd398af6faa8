"""What all tests share: no real key is ever read, and no request leaves this machine."""

import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sapwood.llm.servers import servers

# The first run in a fresh environment builds the tables of Unicode, which is slow and no fault of a test.
# The examples of a property are the same on each run, so that a change is what breaks a test; `SAPWOOD_EXPLORE=1` looks
# for new ones, which is for whoever can then sit down and mend what it finds.
settings.register_profile("project", suppress_health_check=[HealthCheck.too_slow], deadline=None, derandomize=True)
settings.register_profile("explore", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("explore" if os.environ.get("SAPWOOD_EXPLORE") else "project")
sys.path.insert(0, str(Path(__file__).parent))
if os.environ.get("SAPWOOD_FEW_EXAMPLES"):  # see support.examples
    settings.register_profile("few", settings.default, max_examples=25)
    settings.load_profile("few")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why tests in other languages were skipped: whoever reads the end of a run is to know what it did not try."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]) for report in skipped if isinstance(report.longrepr, tuple))
    for reason, count in sorted(reasons.items()):
        if "web: " in reason:
            terminalreporter.write_line(f"{count} skipped, {reason.removeprefix('Skipped: ')}")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for server in servers().values():
        for name in (*server.keys, server.base_url_variable):
            monkeypatch.delenv(name, raising=False)
