"""`sapwood runs` on a real store, and the questions of `sapwood chat`."""

import argparse
import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from sapwood.cli.main import main
from sapwood.cli.runs import run_runs
from sapwood.stores.sqlite import SqliteStore

APP = '''
from pathlib import Path
from sapwood import Agent, SqliteStore, UsageLimits, tool
from sapwood.testing import call, calls, says, scripted


@tool(requires_approval=True)
def erase(table: str) -> str:
    """Erase a table."""
    Path("effects").open("a").write(table + "\\n")
    return f"erased {table}"


@tool(external=True)
def ask_office(question: str) -> str:
    """Ask the office."""


@tool
def look(what: str) -> str:
    """Look."""
    return f"saw {what}"


def answer(request):
    task = [message.text for message in request.transcript if message.role == "user"][-1]
    if request.transcript[-1].role == "tool":
        if task == "limits" and len(request.transcript) < 6:
            return calls(call("look", {"what": str(len(request.transcript))}))
        return says("Done: " + " ".join(result.text for result in request.transcript[-1].tool_results))
    if task == "outside":
        return calls(call("ask_office", {"question": "may I?"}))
    if task == "limits":
        return calls(call("look", {"what": "0"}))
    if task == "two":
        return calls(call("erase", {"table": "a"}), call("erase", {"table": "b"}))
    return calls(call("erase", {"table": "users"}))


def made():
    return Agent(llm=scripted(*[answer] * 40)).with_tools([erase, ask_office, look])


stored = made().with_approval(defer=True).with_conversation(SqliteStore("agent.db"), "c1")
limited = made().with_run_store(SqliteStore("agent.db")).with_usage_limits(
    UsageLimits(tool_calls_limit=1, on_limit="ask")
)
limited_chat = made().with_conversation(SqliteStore("agent.db"), "c2").with_usage_limits(
    UsageLimits(tool_calls_limit=1, on_limit="ask")
)


def nest(request):
    if request.transcript[-1].role == "tool":
        return says("Done.")
    text = request.transcript[0].text
    if text == "nested":
        return calls(call("helper", {"task": "first"}), call("helper", {"task": "second"}))
    return calls(call("erase", {"table": text}))


helper = Agent(llm=scripted(*[nest] * 40)).with_tools([erase]).as_tool("helper", "Helps.")
nested = (
    Agent(llm=scripted(*[nest] * 40))
    .with_tools([helper]).with_approval(defer=True).with_run_store(SqliteStore("agent.db"))
)
plain = made()
deferring = made().with_approval(defer=True)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "runs_app.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "runs_app", raising=False)
    return tmp_path


def sapwood(folder: Path, *arguments: str, lines: str = "") -> tuple[int, str]:
    """Run the command in a process of its own, as a user would, and return its exit code and all it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "sapwood", *arguments],
        cwd=folder,
        input=lines,
        capture_output=True,
        text=True,
        timeout=60,
        env={"COLUMNS": "200", **os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.returncode, done.stdout + done.stderr


def begin(folder: Path, prompt: str, agent: str = "stored") -> str:
    """Have a turn pause in another process, and return its run."""
    code = f"import runs_app\nfor _ in runs_app.{agent}.stream({prompt!r}): pass"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, timeout=60, env=environment)
    with SqliteStore(folder / "agent.db") as store:
        return store.runs.list(limit=1)[0].run_id


def effects(folder: Path) -> list[str]:
    path = folder / "effects"
    return path.read_text().split() if path.exists() else []


def test_a_waiting_run_is_listed_shown_approved_and_resumed(folder: Path) -> None:
    run = begin(folder, "go")
    code, text = sapwood(folder, "runs", "list", "--db", "agent.db")
    assert (code, run in text, "paused" in text, "c1" in text) == (0, True, True, True)
    code, text = sapwood(folder, "runs", "show", run[:8], "--agent", "runs_app:stored")
    assert "approval_requested erase" in text
    assert 'waits: r0c0 · erase · {"table": "users"}' in text
    code, text = sapwood(folder, "runs", "approve", run[:8], "--db", "agent.db", "--by", "ann")
    assert (code, "erase (r0c0): approved" in text, f"sapwood runs resume {run}" in text) == (0, True, True)
    assert effects(folder) == [], "an answer is recorded before anything runs"
    code, text = sapwood(folder, "runs", "resume", run, "--agent", "runs_app:stored")
    assert (code, "Done: erased users" in text) == (0, True)
    assert effects(folder) == ["users"]
    code, text = sapwood(folder, "runs", "list", "--db", "agent.db")
    assert "No run is open." in text
    code, text = sapwood(folder, "runs", "list", "--db", "agent.db", "--all", "--conversation", "c1")
    assert "ended (stop)" in text


def test_one_of_several_is_denied_and_another_edited(folder: Path) -> None:
    run = begin(folder, "two")
    code, text = sapwood(folder, "runs", "deny", run, "--db", "agent.db")
    assert (code, "say which call; those that wait: r0c0 (erase), r0c1 (erase)" in text) == (1, True)
    _, text = sapwood(folder, "runs", "deny", run, "r0c0", "--db", "agent.db", "--reason", "too risky")
    assert "1 more wait" in text
    for wrong, problem in (("[1]", "must be a JSON object"), ("{", "is no JSON")):
        code, text = sapwood(folder, "runs", "approve", run, "--db", "agent.db", "--input", wrong)
        assert (code, problem in text) == (1, True)
    sapwood(folder, "runs", "approve", run, "--db", "agent.db", "--input", '{"table": "c"}')
    _, text = sapwood(folder, "runs", "resume", run, "--agent", "runs_app:stored")
    assert "Denied: too risky" in text
    assert effects(folder) == ["c"]


@pytest.mark.parametrize("result", ['{"ok": true}', "go ahead"])
def test_a_result_from_outside_is_given(folder: Path, result: str) -> None:
    run = begin(folder, "outside")
    code, text = sapwood(folder, "runs", "approve", run, "--db", "agent.db")
    assert (code, "give its result with --result" in text) == (1, True)
    sapwood(folder, "runs", "approve", run, "--db", "agent.db", "--result", result)
    _, text = sapwood(folder, "runs", "resume", run, "--agent", "runs_app:stored")
    assert f"Done: {result.replace(' true', 'true') if result.startswith('{') else result}" in text


def test_a_limit_is_raised(folder: Path) -> None:
    run = begin(folder, "limits", "limited")
    _, text = sapwood(folder, "runs", "show", run, "--db", "agent.db")
    assert "waits at the limit of 1 tool calls" in text
    code, text = sapwood(folder, "runs", "resume", run, "--agent", "runs_app:limited", "--extend", "tool_calls=x")
    assert (code, "--extend is KIND=AMOUNT" in text) == (1, True)
    code, text = sapwood(folder, "runs", "resume", run, "--agent", "runs_app:limited", "--extend", "tool_calls=5")
    assert (code, "Done: saw" in text) == (0, True)


def test_a_run_is_cancelled_and_what_it_did_is_kept(folder: Path) -> None:
    run = begin(folder, "go")
    code, text = sapwood(folder, "runs", "cancel", run, "--db", "agent.db")
    assert (code, f"{run} is over" in text) == (0, True)
    with SqliteStore(folder / "agent.db") as store:
        assert store.runs.summary(run).status == "ended"
        assert [message.role for message in store.conversations.load("c1").messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("list",), "give --db FILE, or --agent module:name"),
        (("list", "--agent", "runs_app:plain"), "give --db FILE, or --agent module:name"),
        (("list", "--db", "none.db"), "there is no file none.db"),
        (("show", "zzz", "--agent", "runs_app:stored"), "there is no run 'zzz'"),
        (("show", "", "--agent", "runs_app:stored"), "several runs begin with ''"),
        (("approve", "RUN", "zzz", "--agent", "runs_app:stored"), "no call 'zzz' waits"),
        (("resume", "RUN", "--db", "agent.db"), "resume runs the agent, so it needs --agent"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    folder: Path, arguments: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(folder, "go")
    begin(folder, "outside", "limited")
    assert main(["runs", *(run if part == "RUN" else part for part in arguments)]) == 1
    assert problem in capsys.readouterr().err.replace("\n", " ")


def test_chat_asks_before_it_runs(folder: Path) -> None:
    lines = "go\ny\ngo\nn\nnot today\ngo\nx\ne\n{\ne\n[1]\ne\n\ne\n" + '{"table": "edited"}\n' + "go\n"
    _, text = sapwood(folder, "chat", "runs_app:plain", lines=lines)
    assert "erase wants to run with" in text
    assert "erase: approved by terminal" in text
    assert "Denied: not today" in text
    assert "that is no JSON" in text
    assert "must be a JSON object" in text
    assert effects(folder) == ["users", "edited"], "the end of the input is a no"


def test_chat_answers_what_a_turn_pauses_for(folder: Path) -> None:
    lines = "two\ny\nn\n\noutside\ngo ahead\noutside\n\n"
    _, text = sapwood(folder, "chat", "runs_app:deferring", lines=lines)
    assert effects(folder) == ["a"]
    assert "Done: go ahead" in text
    assert "nobody gave a result" in text


def test_a_list_that_no_terminal_shows_has_one_whole_line_for_each_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(folder, "Please erase the table of users, and then tell me of it")
    monkeypatch.setenv("COLUMNS", "80")
    _, text = sapwood(folder, "runs", "list", "--db", "agent.db")
    header, line = text.splitlines()
    assert header.split() == ["run", "status", "conversation", "updated", "prompt"]
    assert line.startswith(f"{run}  paused  ")
    assert line.rstrip().endswith("Please erase the table of users, and then tell me of it")


def test_in_a_narrow_terminal_the_prompt_is_cut_and_the_id_is_whole(folder: Path) -> None:
    run = begin(folder, "Please erase the table of users, and then tell me of it")
    shown = StringIO()
    options = argparse.Namespace(action="list", db="agent.db", agent=None, all=False, conversation=None, json=False)
    run_runs(options, Console(file=shown, force_terminal=True, width=90, color_system=None))
    _, line = shown.getvalue().splitlines()
    assert line.startswith(f"{run}  paused  ")
    assert line.rstrip().endswith("…")
    assert len(line) <= 90


def test_a_list_can_be_read_by_a_program(folder: Path) -> None:
    run = begin(folder, "go")
    _, text = sapwood(folder, "runs", "list", "--db", "agent.db", "--json")
    (item,) = json.loads(text)
    assert (item["run_id"], item["status"], item["prompt"]) == (run, "paused", "go")
    sapwood(folder, "runs", "cancel", run, "--db", "agent.db")
    assert json.loads(sapwood(folder, "runs", "list", "--db", "agent.db", "--json")[1]) == []


def test_a_call_of_a_subagent_is_named_by_its_whole_id(folder: Path) -> None:
    run = begin(folder, "nested", "nested")
    code, text = sapwood(folder, "runs", "approve", run, "r0c0", "--db", "agent.db")
    assert (code, "those that wait: r0c0/r0c0 (erase), r0c1/r0c0 (erase)" in text.replace("\n", " ")) == (1, True)
    code, text = sapwood(folder, "runs", "approve", run, "r0c1/r0c0", "--db", "agent.db")
    assert (code, "erase (r0c1/r0c0): approved" in text) == (0, True)
    sapwood(folder, "runs", "resume", run, "--agent", "runs_app:nested")
    assert effects(folder) == ["second"]


def test_an_input_is_checked_where_the_agent_is_known(folder: Path) -> None:
    run = begin(folder, "go")
    wrong = ("runs", "approve", run, "--input", '{"tabel": 1}')
    code, text = sapwood(folder, *wrong, "--agent", "runs_app:stored")
    assert (code, "--input does not fit erase: " in text) == (1, True)
    code, text = sapwood(folder, *wrong, "--db", "agent.db")
    assert (code, "--input is checked when the run goes on" in text) == (0, True)


def test_a_result_from_outside_is_told_of_as_an_answer(folder: Path) -> None:
    run = begin(folder, "outside")
    _, text = sapwood(folder, "runs", "approve", run, "--db", "agent.db", "--result", "yes")
    assert "ask_office (r0c0): answered" in text
    _, text = sapwood(folder, "chat", "runs_app:deferring", lines="outside\ngo ahead\n")
    assert "ask_office: answered by terminal" in text


def test_chat_goes_on_with_what_an_earlier_session_left_waiting(folder: Path) -> None:
    begin(folder, "go")
    _, text = sapwood(folder, "chat", "runs_app:stored", lines="and now?\ny\ny\n")
    assert "An earlier turn of this conversation waits" in text
    assert "RunPausedError" not in text
    assert effects(folder) == ["users", "users"], "the earlier one, and that of the prompt"


@pytest.mark.parametrize(("amount", "ends"), [("5", "Done: saw"), ("", "ended: usage_limit"), ("x", "is no number")])
def test_chat_asks_about_a_limit_that_an_earlier_session_reached(folder: Path, amount: str, ends: str) -> None:
    begin(folder, "limits", "limited_chat")
    _, text = sapwood(folder, "chat", "runs_app:limited_chat", lines=f"outside\n{amount}\n\n")
    assert "it waits at the limit of 1 tool calls" in text
    assert ends in text
    assert "RunPausedError" not in text
