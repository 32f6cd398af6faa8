"""`sapwood context`: the ledger of a prompt that is not sent, and of a stored run."""

import json
from pathlib import Path

import pytest

from sapwood import Agent, Message
from sapwood.cli.main import main
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing import call, calls, says, scripted
from support.turns import bound

APP = """
from sapwood import Agent
from sapwood.testing import scripted

agent = Agent(llm=scripted(), max_tokens=2_000, max_response_tokens=500).with_system_prompt("Be brief. " * 20)
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "shown_app.py").write_text(APP, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_a_prompt_is_shown_as_bars_and_no_model_is_asked(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "--agent", "shown_app:agent", "How are you?"]) == 0
    shown = capsys.readouterr().out
    assert "system" in shown
    assert "█" in shown
    assert "of 1,500" in shown


def test_a_prompt_that_would_not_fit_is_told_and_is_no_success(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", "--agent", "shown_app:agent", "word " * 3_000]) == 1
    assert "over the window" in capsys.readouterr().out
    assert main(["context", "--json", "--agent", "shown_app:agent", "word " * 3_000]) == 1
    (ledger,) = json.loads(capsys.readouterr().out)
    assert ledger["sections"]["prompt"] > 1_500


def stored(path: Path) -> str:
    model = scripted(calls(call("look", {})), says("done"))
    with SqliteStore(path) as store:
        agent = Agent(llm=model).with_tools([bound("look", lambda: "a view")]).with_run_store(store)
        list(agent.stream("Look."))
        return str(store.runs.list()[0].run_id)


def test_the_rounds_of_a_stored_run_are_shown_all_or_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.db"
    run_id = stored(path)
    assert main(["context", "--db", str(path), "--run", run_id[:8]]) == 0
    shown = capsys.readouterr().out
    assert ("round 0" in shown, "round 1" in shown) == (True, True)
    assert main(["context", "--db", str(path), "--run", run_id, "--round", "1"]) == 0
    shown = capsys.readouterr().out
    assert "round" not in shown
    assert "tool_results" in shown


def test_a_run_in_the_middle_of_a_round_shows_that_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.db"
    with SqliteStore(path) as store:
        agent = Agent(llm=scripted(calls(call("look", {})))).with_run_store(store).with_approval(defer=True)
        agent.with_tools([bound("look", lambda: "a view", requires_approval=True)])
        list(agent.stream("Look."))
        run_id = store.runs.list()[0].run_id
    assert main(["context", "--db", str(path), "--run", run_id]) == 0
    assert "prompt" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([], "give an agent and a prompt"),
        (["hello"], "give an agent and a prompt"),
        (["--run", "abc"], "--db FILE"),
        (["--db", "no.db", "--run", "abc"], "no file"),
    ],
)
def test_what_is_missing_is_told_in_a_line(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["context", *arguments]) == 1
    assert word in capsys.readouterr().err


def test_a_round_that_there_is_not_and_a_run_without_one_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.db"
    run_id = stored(path)
    assert main(["context", "--db", str(path), "--run", run_id, "--round", "7"]) == 1
    assert "rounds 0 to 1" in capsys.readouterr().err
    with SqliteStore(path) as store:
        store.runs.begin("empty", None, 0, Message.user("x"))
    assert main(["context", "--db", str(path), "--run", "empty"]) == 1
    assert "has called no model yet" in capsys.readouterr().err
