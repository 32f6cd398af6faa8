"""`sapwood chat`, in a real pseudo-terminal and through a pipe."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sapwood.cli.main import main

AGENT = '''
import time
from sapwood import Agent, tool
from sapwood.core.errors import ServerError
from sapwood.testing import call, calls, fails, says, scripted


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def repeat(request):
    return says(f"you said {len(request.transcript)} messages, last: {request.transcript[-1].text}")


class Slow:
    """A model that says a word every tenth of a second."""

    def __init__(self, inner):
        self.inner, self.profile = inner, inner.profile

    def stream(self, request):
        for chunk in self.inner.stream(request):
            time.sleep(0.1)
            yield chunk


agent = Agent(llm=scripted(calls(call("add", {"a": 2, "b": 3})), says("It is **5**."), repeat)).with_tools([add])
slow = Agent(llm=Slow(scripted(says("one two three four five six seven eight nine ten eleven twelve"), repeat)))
broken = Agent(llm=scripted(fails(ServerError("down", is_transient=False)), repeat))
number = 5
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(AGENT)
    return tmp_path


def piped(folder: Path, agent: str, lines: str) -> str:
    command = [sys.executable, "-m", "sapwood", "chat", agent]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, cwd=folder, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Terminal:
    """The command in a pseudo-terminal."""

    def __init__(self, folder: Path, agent: str) -> None:
        pid, self._fd = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="xterm", COLUMNS="100")
            os.execv(sys.executable, [sys.executable, "-m", "sapwood", "chat", agent])
        self.pid = pid
        self.seen = ""
        self.found = 0

    def until(self, text: str, seconds: float = 20.0) -> str:
        """Read until a text shows after what was found before; return what was passed over, the text included."""
        end = time.monotonic() + seconds
        while (found := self.plain(self.seen).find(text, self.found)) < 0:
            if time.monotonic() > end:
                raise AssertionError(f"{text!r} did not show in {self.plain(self.seen)[self.found :]!r}")
            if select.select([self._fd], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self._fd, 65_536).decode("utf-8", "replace")
                except OSError as error:
                    raise AssertionError(f"it ended before {text!r}: {self.plain(self.seen)!r}") from error
        start, self.found = self.found, found + len(text)
        return self.plain(self.seen)[start : self.found]

    @staticmethod
    def plain(text: str) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "")

    def type(self, line: str) -> None:
        os.write(self._fd, line.encode() + b"\n")

    def interrupt(self) -> None:
        os.write(self._fd, b"\x03")

    def end(self) -> int:
        os.write(self._fd, b"\x04")
        _, status = os.waitpid(self.pid, 0)
        os.close(self._fd)
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def terminal(folder: Path) -> Iterator[type]:
    opened: list[Terminal] = []

    class Opened(Terminal):
        def __init__(self, agent: str) -> None:
            super().__init__(folder, agent)
            opened.append(self)

    yield Opened
    for one in opened:
        try:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


def test_a_turn_shows_its_tool_calls_and_its_text_and_context_shows_the_ledger(folder: Path) -> None:
    shown = piped(folder, "app:agent", "2+3?\n/context\nand now?\n/exit\n")
    assert re.search(r"✓ add\(a=2, b=3\) \d+\.\d\d s → 5", shown)
    assert "It is **5**." in shown
    assert re.search(r"tools +\d+ +█", shown)
    assert "total (estimated)" in shown
    assert "you said 5 messages, last: and now?" in shown


def test_commands_are_answered(folder: Path) -> None:
    shown = piped(folder, "app:broken", "/context\n/help\n/nonsense\n/clear\n\n")
    assert "No model call yet." in shown
    assert "There is no command /nonsense" in shown
    assert "Forgotten." in shown


def test_a_model_that_fails_is_shown_and_the_session_goes_on(folder: Path) -> None:
    shown = piped(folder, "app:broken", "hi\nstill there?\n")
    assert "The model did not answer: down" in shown
    assert "last: still there?" in shown


def test_markdown_is_streamed_in_a_terminal(terminal: type) -> None:
    one = terminal("app:agent")
    one.until("›")
    one.type("2+3?")
    shown = one.until("It is 5.")
    assert "✓ add(a=2, b=3)" in shown
    assert "**" not in shown
    one.until("›")
    assert one.end() == 0


def test_ctrl_c_stops_the_turn_and_not_the_program(terminal: type) -> None:
    one = terminal("app:slow")
    one.until("›")
    one.type("count")
    one.until("two")
    one.interrupt()
    one.until("Stopped.")
    one.until("›")
    one.type("what did I get?")
    shown = one.until("last: what did I get?")
    assert "you said 3 messages" in shown  # the prompt, the words that came, the new prompt
    one.until("›")
    one.interrupt()
    one.until("/exit or Ctrl-D ends")
    assert one.end() == 0


@pytest.mark.parametrize(
    ("agent", "problem"),
    [
        ("app", "module:name"),
        ("nowhere:agent", "no module 'nowhere'"),
        ("app:missing", "nothing, not an Agent"),
        ("app:number", "int, not an Agent"),
    ],
)
def test_an_agent_that_cannot_be_had_is_named(folder: Path, agent: str, problem: str) -> None:
    command = [sys.executable, "-m", "sapwood", "chat", agent]
    done = subprocess.run(command, input="", capture_output=True, text=True, cwd=folder, timeout=60)
    assert done.returncode == 1
    assert problem in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("sapwood ")
    assert main([]) == 2
    assert "chat" in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    code = "import sys\nfrom sapwood.cli.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\nprint([n for n in ('rich', 'msgspec', 'httpx2', 'asyncio') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
