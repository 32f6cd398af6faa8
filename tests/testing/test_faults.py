"""Crashes at named places."""

import subprocess
import sys
from pathlib import Path

import pytest

from sapwood.core import fault
from sapwood.testing.faults import EXIT_CODE, Crash, crash_at, names, visits


def test_the_points_are_read_from_the_source() -> None:
    assert {"run.begun", "step.recorded", "tool.announced", "tool.returned", "turn.committed"} <= set(names())
    assert all("." in name for name in names())


def test_a_point_whose_name_is_computed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("fault.point(name)\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"module\.py:1"):
        names(tmp_path)


def test_a_crash_comes_at_the_visit_that_was_asked_for_and_at_no_other() -> None:
    with crash_at("tool.announced", visit=2):
        fault.point("tool.returned")
        fault.point("tool.announced")
        with pytest.raises(Crash, match=r"tool\.announced"):
            fault.point("tool.announced")
        fault.point("tool.announced")
    fault.point("tool.announced")


def test_an_unknown_point_is_refused() -> None:
    with pytest.raises(ValueError, match="no fault point"), crash_at("tool.befor"):
        pass


def test_visits_are_counted() -> None:
    with visits() as counted:
        fault.point("tool.announced")
        fault.point("tool.announced")
    fault.point("tool.announced")
    assert counted == {"tool.announced": 2}


@pytest.mark.parametrize(("how", "code"), [("exit", EXIT_CODE), ("kill", -9)])
def test_a_process_ends_at_a_point_without_cleaning_up(how: str, code: int) -> None:
    script = (
        "import atexit, sys\n"
        "from sapwood.core import fault\n"
        "from sapwood.testing.faults import crash_at\n"
        "atexit.register(print, 'cleaned up', flush=True)\n"
        f"with crash_at('tool.announced', how={how!r}):\n"
        "    fault.point('tool.announced')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "")
