"""`sapwood ingest`: a folder into a store, from a shell."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sapwood import DocumentIndex, SqliteStore
from sapwood.cli.ingest import lines_of
from sapwood.stores.ingest import FileNote, IngestReport
from support.pdfs import pdf


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "law").mkdir(parents=True)
    (docs / "bees.md").write_text("# Bees\n\nBees like lavender.")
    (docs / "law" / "tax.pdf").write_bytes(pdf("Honey is taxed."))
    return tmp_path


def shell(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "error", "-m", "sapwood", "ingest", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=100)


def test_a_folder_is_ingested_and_brought_up_to_date(folder: Path) -> None:
    first = shell(folder, "docs", "--db", "x.db", "--namespace", "team")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.splitlines() == [
        "+ bees.md",
        "+ law/tax.pdf",
        "2 added, 0 changed, 0 removed, 0 unchanged, 0 failed; 2 chunks written",
    ]
    (folder / "docs" / "bees.md").write_text("Bees like thyme.")
    (folder / "docs" / "law" / "tax.pdf").unlink()
    (folder / "docs" / "bad.txt").write_bytes(b"\0")
    again = shell(folder, "docs", "--db", "x.db", "--namespace", "team")
    assert again.returncode == 1
    assert again.stdout.splitlines() == [
        "~ bees.md",
        "- law/tax.pdf",
        "! bad.txt: it is not text",
        "0 added, 1 changed, 1 removed, 0 unchanged, 1 failed; 1 chunks written",
    ]
    with SqliteStore(folder / "x.db") as store:
        index = DocumentIndex(store.memory)
        assert [(item.id, item.namespace) for item in index.documents()] == [("team/bees.md", "/team")]
        assert index.retrieve("thyme", top_k=1)[0].content == "Bees like thyme."


def test_a_dry_run_makes_no_file_and_json_is_for_programs(folder: Path) -> None:
    done = shell(folder, "docs", "--dry-run", "--json", "--glob", "*.md", "--glob", "*.txt", "--ignore", "law")
    assert done.returncode == 0
    assert json.loads(done.stdout) == {"type": "ingest_report", "added": ["bees.md"], "chunks": 1}
    assert not (folder / "app.db").exists()
    shell(folder, "docs")
    dry = shell(folder, "docs", "--dry-run", "--max-bytes", "5")
    assert dry.returncode == 1
    assert "max_bytes is 5" in dry.stdout
    assert dry.stdout.splitlines()[-1].endswith("chunks would be written")


def test_an_empty_file_is_told_and_is_no_failure(folder: Path) -> None:
    (folder / "docs" / "new.txt").write_text("\n")
    done = shell(folder, "docs", "--dry-run", "--glob", "*.txt")
    assert (done.returncode, done.stdout.splitlines()) == (
        0,
        [
            "? new.txt: it is empty",
            "0 added, 0 changed, 0 removed, 0 unchanged, 0 failed, 1 empty; 0 chunks would be written",
        ],
    )


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["none"], 1, "sapwood: there is no file or folder none"),
        (["docs", "--db", "docs"], 1, "sapwood: "),
        ([], 2, "required: path"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(folder: Path, arguments: list[str], code: int, told: str) -> None:
    done = shell(folder, *arguments)
    assert done.returncode == code
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "app.db").exists()


def test_a_long_report_is_shortened_and_a_path_stays_one_line() -> None:
    report = IngestReport(
        added=tuple(f"{number}\n.md" for number in range(22)),
        skipped=("a.jpg",),
        notes=(FileNote("b", "guessed"),),
    )
    lines = list(lines_of(report, dry_run=False))
    assert lines[0] == "+ 0\ufffd.md"
    assert lines[20:] == [
        "+ and 2 more (--json has all)",
        "? b: guessed",
        "22 added, 0 changed, 0 removed, 0 unchanged, 0 failed, 1 skipped (no text); 0 chunks written",
    ]
