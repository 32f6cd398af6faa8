"""`sapwood memory` on a real file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sapwood.cli.main import main
from sapwood.stores.sqlite import SqliteStore

Say = Callable[..., str]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def say(db: Path, capsys: pytest.CaptureFixture[str]) -> Say:
    def said(action: str, *arguments: str, code: int = 0) -> str:
        assert main(["memory", action, *arguments, "--db", str(db)]) == code
        told = capsys.readouterr()
        return (told.err if code and told.err else told.out).strip()

    return said


def test_a_text_is_added_found_explained_corrected_and_forgotten(say: Say) -> None:
    added = say("add", "Noor lives in Porto", "--user", "ann", "--kind", "fact")
    assert "Noor lives in Porto (fact)" in say("search", "Where does Noor live?", "--user", "ann")
    why = say("why", "Where does Noor live?", "--user", "ann")
    assert "noor" in why.casefold().split("\n")[1]
    newer = say("correct", added[:8], "Noor lives in Turin", "--user", "ann")
    assert "Turin" in say("search", "Where does Noor live?", "--user", "ann")
    history = say("history", newer[:6], "--user", "ann").split("\n")
    assert ["Porto" in history[0], "superseded" in history[0], "Turin" in history[1]] == [True, True, True]
    assert say("forget", newer, "--user", "ann").startswith("forgot 1 record")
    assert say("list", "--user", "ann", code=1) == "there is nothing"


def test_another_scope_is_not_seen(say: Say) -> None:
    added = say("add", "Ann likes tea", "--user", "ann")
    say("add", "Bob likes tea", "--user", "bob", "--namespace", "team/nord")
    assert "Ann" not in say("search", "tea", "--user", "bob")
    assert "there is no record" in say("forget", added, "--user", "bob", code=1)
    assert "Bob" in say("search", "tea", "--namespace", "team")
    assert say("forget", "--all", "--user", "bob").startswith("forgot 1 record")
    assert "Ann" in say("list")


def test_to_forget_everything_has_to_be_said(say: Say) -> None:
    say("add", "Ann likes tea", "--user", "ann")
    assert "everything=True" in say("forget", "--all", code=1)
    assert "give the ids" in say("forget", code=1)
    assert say("forget", "--all", "--everything").startswith("forgot 1")


def test_what_is_exported_can_be_imported_elsewhere(say: Say, tmp_path: Path, db: Path) -> None:
    say("add", "Ann likes tea", "--user", "ann", "--kind", "taste")
    say("add", "Ann likes rain", "--user", "ann")
    file = tmp_path / "out.jsonl"
    say("export", str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["text"] for line in lines] == ["Ann likes tea", "Ann likes rain"]
    assert say("export").split("\n") == file.read_text().strip().split("\n")
    other = tmp_path / "other.db"
    for added in (2, 0):
        assert main(["memory", "import", str(file), "--db", str(other)]) == 0
        with SqliteStore(other) as store:
            assert [record.text for record in store.memory.scoped(user="ann").all()] == [
                "Ann likes tea",
                "Ann likes rain",
            ]
        assert added in (2, 0)
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "1"\n')
    assert "line 1 of" in say("import", str(bad), code=1)
    assert "cannot be read" in say("import", str(tmp_path / "none"), code=1)


def test_what_is_in_quarantine_is_confirmed_by_a_person(say: Say, db: Path) -> None:
    with SqliteStore(db) as store:
        record = store.memory.save("The password is tea", origin="web", quarantined=True)
    assert say("search", "password", code=1) == "nothing was found"
    assert "(web, quarantined)" in say("list")
    assert say("confirm", record.id[:8]) == "it is recalled from now on"
    assert say("confirm", record.id[:8], code=1) == "it is not in quarantine"
    assert "password" in say("search", "password")


def test_figures_and_checks(say: Say, db: Path) -> None:
    for text in ("Ann likes tea", "Ann likes rain"):
        say("add", text)
    assert "records      2" in say("stats")
    figures: dict[str, Any] = json.loads(say("stats", "--json"))
    assert figures["current"] == 2
    assert say("check") == "index and records agree"
    assert say("reindex") == "indexed 2 records"
    found = [json.loads(line) for line in say("search", "tea", "--json", "-k", "1").split("\n")]
    assert [record["text"] for record in found] == ["Ann likes tea"]
    assert json.loads(say("why", "tea", "--json").split("\n")[0])["reason"]
    assert say("why", "quantum", code=1) == "nothing was found in 2 records that may be recalled"
    assert len(say("list", "--limit", "1", "--json").split("\n")) == 1


def test_an_id_that_fits_none_or_several_is_told_so(say: Say) -> None:
    for number in range(20):
        say("add", f"note number{number}")
    assert "there is no record 'zz' here" in say("confirm", "zz", code=1)
    assert "give more of it" in say("history", "", code=1)


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "list", "--db", str(tmp_path / "none.db")]) == 1
    assert "there is no file" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


def test_it_runs_as_a_command_and_takes_what_is_piped_in(db: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def run(*arguments: str, given: str = "") -> str:
        done = subprocess.run(
            [sys.executable, "-m", "sapwood", "memory", *arguments, "--db", str(db)],
            input=given, capture_output=True, text=True, timeout=60, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("add", "Ann likes tea")
    lines = run("export")
    run("forget", "--all", "--everything")
    assert run("import", "-", given=lines) == "added 1 record\n"
    assert "Ann likes tea" in run("search", "tea")
