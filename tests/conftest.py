"""What all tests share: no real key is ever read, and no request leaves this machine."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The first run in a fresh environment builds the tables of Unicode, which is slow and no fault of a test.
settings.register_profile("project", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("project")
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
