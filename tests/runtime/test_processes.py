"""run_process: limits on time and output, nothing left behind, no secret handed on."""

import os
import sys
import time
from pathlib import Path

import pytest

from sapwood.runtime.processes import Ended, run_process


def python(code: str, folder: Path, *, seconds: float = 60, most: int = 10_000, **more: object) -> Ended:
    return run_process([sys.executable, "-c", code], folder=folder, seconds=seconds, most=most, **more)  # type: ignore[arg-type]


def test_both_outputs_and_the_exit_code_are_kept(tmp_path: Path) -> None:
    code = "import sys, os; print('out', os.getcwd()); print('err', file=sys.stderr); print(repr(sys.stdin.read())); sys.exit(3)"
    ended = python(code, tmp_path)
    assert ended == Ended(3, f"out {tmp_path.resolve()}\n''\n", "err\n")
    assert ended.shown == f"stdout:\nout {tmp_path.resolve()}\n''\nstderr:\nerr"
    assert python("", tmp_path) == Ended(0, "", "")
    assert Ended(0, " \n", "").shown == "(no output)"


def test_the_end_of_a_signal_is_a_negative_code(tmp_path: Path) -> None:
    assert python("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", tmp_path).code == -15


def test_too_much_output_is_cut_in_the_middle_and_never_holds_the_program_up(tmp_path: Path) -> None:
    ended = python(
        "import sys; sys.stdout.write('a' * 500_000 + 'b' * 500_000); print('end', file=sys.stderr)", tmp_path, most=20
    )
    assert (ended.code, ended.errors) == (0, "end\n")
    assert ended.output == f"{'a' * 10}\n[{1_000_000 - 20:,} bytes left out]\n{'b' * 10}"
    assert python("print('x' * 19)", tmp_path, most=20).output == "x" * 19 + "\n"


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """The child would write its file as soon as it could no longer be seen to run; it never does."""
    code = (
        "import subprocess, sys, time; print('begun', flush=True)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open('pid', 'w').write(str(child.pid))\n"
        "time.sleep(600)"
    )
    ended = python(code, tmp_path, stopped=lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text() != "")
    assert (ended.code, ended.output, ended.why) == (None, "begun\n", "the turn was cancelled")
    assert has_ended(int((tmp_path / "pid").read_text()))
    late = python("import time; time.sleep(600)", tmp_path, seconds=0.2)
    assert (late.code, late.why) == (None, "it took longer than 0.2 s")


def test_a_program_that_closed_its_outputs_is_waited_for(tmp_path: Path) -> None:
    code = "import os, time; os.close(1); os.close(2); time.sleep(0.3); os._exit(4)"
    assert python(code, tmp_path).code == 4


def test_what_a_program_left_behind_does_not_hold_up_the_answer(tmp_path: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)"
    )
    ended = python(code, tmp_path)
    assert ended.code == 0
    assert has_ended(int(ended.output))


def test_a_program_gets_no_secret_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    ended = python("import os; print(sorted(os.environ))", tmp_path)
    assert "SOME_API_KEY" not in ended.output
    assert "PATH" in ended.output


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    missing = run_process([str(tmp_path / "no-such")], folder=tmp_path, seconds=5, most=100)
    assert (missing.code, missing.why) == (None, "it could not be started (No such file or directory)")
    odd = run_process([sys.executable, "a\0b"], folder=tmp_path, seconds=5, most=100)
    assert odd.why == "it could not be started (embedded null byte)"


def has_ended(pid: int) -> bool:
    """Wait until a process does nothing any more; the system may take a while to end it."""
    until = time.monotonic() + 60
    while _is_running(pid):
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _is_running(pid: int) -> bool:
    """Tell whether a process still does something; one that has ended and was not asked after does not."""
    status = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return status.read_text().rpartition(")")[2].split()[0] not in ("Z", "X") if status.exists() else True
    except (ProcessLookupError, FileNotFoundError):
        return False
