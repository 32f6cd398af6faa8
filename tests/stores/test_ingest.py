"""ingest: folders into a memory, again after changes, and whatever else lies in folders."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from sapwood import ConfigError, DocumentIndex, IngestReport, RetrievalScope, SqliteStore, create_memory_store, ingest
from sapwood.stores import walk
from support.pdfs import encrypted, pdf

LATIN = "read as Latin-1 (Windows-1252), as it is not UTF-8"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "docs"
    (root / "law" / "tax").mkdir(parents=True)
    (root / "bees.md").write_text("# Bees\n\nBees like lavender.")
    (root / "law" / "page.html").write_text("<title>Law</title><h2>Rules</h2><p>Drones must rest.")
    (root / "law" / "tax" / "form.pdf").write_bytes(pdf("Honey is taxed."))
    (root / "hive.py").write_text("def hum():\n    return 'loud'\n")
    return root


def told(report: IngestReport) -> dict[str, Any]:
    found = {name: getattr(report, name) for name in ("added", "changed", "unchanged", "removed", "skipped", "empty")}
    notes = {name: {note.path: note.reason for note in getattr(report, name)} for name in ("failed", "notes")}
    return {name: value for name, value in {**found, **notes}.items() if value}


def test_a_folder_is_read_and_read_again_after_changes(folder: Path, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "app.db") as store:
        first = ingest(folder, store.memory)
        assert told(first) == {"added": ("bees.md", "hive.py", "law/page.html", "law/tax/form.pdf")}
        assert first.chunks == 4
        kept = store.memory.all()
        assert told(ingest(folder, store.memory)) == {"unchanged": first.added}
        assert store.memory.all() == kept

        (folder / "bees.md").write_text("# Bees\n\nBees like thyme.")
        (folder / "hive.py").unlink()
        (folder / "new.txt").write_text("Wasps like ham.")
        report = ingest(folder, store.memory)
        assert told(report) == {
            "added": ("new.txt",),
            "changed": ("bees.md",),
            "unchanged": ("law/page.html", "law/tax/form.pdf"),
            "removed": ("hive.py",),
        }
        index = DocumentIndex(store.memory)
        assert [item.id for item in index.documents()] == ["bees.md", "law/page.html", "law/tax/form.pdf", "new.txt"]
        assert index.retrieve("lavender") == []
        (hit,) = index.retrieve("what do bees like: thyme?", top_k=1)
        assert (hit.metadata["path"], hit.metadata["section"]) == ("bees.md", "Bees")


def test_folders_are_namespaces_and_sections_tell_the_place(folder: Path) -> None:
    index = DocumentIndex(create_memory_store())
    ingest(folder, index, namespace="team/nord")
    (page,) = index.retrieve("drones", scope=RetrievalScope(include=("/team/nord/law",)))
    assert (page.namespace, page.metadata["title"], page.metadata["section"]) == ("/team/nord/law", "Law", "Rules")
    (form,) = index.retrieve("taxed honey", scope=RetrievalScope(include=("/team/nord/law/tax",)))
    assert (form.metadata["document"], form.metadata["section"]) == ("team/nord/law/tax/form.pdf", "page 1")
    assert index.retrieve("drones", scope=RetrievalScope(exclude=("/team",))) == []


def test_two_folders_do_not_take_each_others_documents(folder: Path, tmp_path: Path) -> None:
    memory = create_memory_store()
    other = tmp_path / "other"
    other.mkdir()
    (other / "bees.md").write_text("Other bees.")
    ingest(folder, memory)
    assert told(ingest(other, memory, namespace="/o")) == {"added": ("bees.md",)}
    assert told(ingest(folder, memory))["unchanged"][0] == "bees.md"
    (other / "bees.md").unlink()
    assert told(ingest(other, memory, namespace="/o")) == {"removed": ("bees.md",)}
    assert len(DocumentIndex(memory).documents()) == 4


def test_folders_with_files_of_the_same_name_keep_both_each_up_to_date_by_its_own(tmp_path: Path) -> None:
    one, two, three = tmp_path / "one", tmp_path / "two", tmp_path / "deep" / "two"
    for root in (one, two, three):
        root.mkdir(parents=True)
        (root / "readme.md").write_text(f"# Read\n\nBees of {root.parent.name} {root.name}.")
    (one / "readme.md (two)").write_text("A file that is named so.")
    with SqliteStore(tmp_path / "app.db") as store:
        index = DocumentIndex(store.memory)
        ingest(one, index, glob="*.md")
        dry, done = ingest(two, index, dry_run=True), ingest(two, index)
        assert dry == done
        assert told(done) == {
            "added": ("readme.md",),
            "notes": {"readme.md": "its name belongs to what came from elsewhere; it is kept as readme.md (two)"},
        }
        ingest(three, index)
        assert told(ingest(one, index)) == {
            "added": ("readme.md (two)",),
            "unchanged": ("readme.md",),
            "notes": {
                "readme.md (two)": "its name belongs to what came from elsewhere; it is kept as readme.md (two) (one)"
            },
        }
        names = ["readme.md", "readme.md (two 2)", "readme.md (two) (one)", "readme.md (two)"]
        assert [item.id for item in index.documents()] == sorted(names)
        kept = store.memory.all()
        for root in (one, two, three, one / "readme.md"):
            assert {"unchanged"} == set(told(ingest(root, index)))
        assert store.memory.all() == kept

        (two / "readme.md").write_text("# Read\n\nWasps now.")
        assert told(ingest(two, index)) == {"changed": ("readme.md",)}
        (one / "readme.md").unlink()
        assert told(ingest(one, index))["removed"] == ("readme.md",)
        assert [item.id for item in index.documents()] == sorted(names[1:])
        assert index.retrieve("wasps", top_k=1)[0].metadata["document"] == "readme.md (two)"
        assert told(ingest(two, index)) == {"unchanged": ("readme.md",)}


def test_what_was_added_by_hand_is_no_folders(folder: Path) -> None:
    index = DocumentIndex(create_memory_store())
    index.add([{"id": "bees.md", "text": "By hand."}])
    assert ingest(folder, index, glob="*.md").added == ("bees.md",)
    ingest(folder, index, namespace="/x", glob="*.md")
    (folder / "bees.md").unlink()
    assert told(ingest(folder, index, glob="*.md")) == {"removed": ("bees.md",)}
    assert [item.id for item in index.documents()] == ["bees.md", "x/bees.md"]


def test_one_file_is_read_alone_and_removes_nothing(folder: Path) -> None:
    memory = create_memory_store()
    ingest(folder, memory)
    (folder / "hive.py").unlink()
    (folder / "bees.md").write_text("Bees hum.")
    assert told(ingest(folder / "bees.md", memory, glob="*.txt")) == {"changed": ("bees.md",)}
    assert told(ingest(str(folder / "bees.md"), memory)) == {"unchanged": ("bees.md",)}
    assert len(DocumentIndex(memory).documents()) == 4


def test_patterns_choose_and_leave_out_and_what_they_leave_out_later_stays(folder: Path) -> None:
    memory = create_memory_store()
    assert told(ingest(folder, memory, glob="*.md"))["added"] == ("bees.md",)
    assert told(ingest(folder, memory, glob=["law/*.html", "*.py"]))["added"] == ("hive.py", "law/page.html")
    assert len(DocumentIndex(memory).documents()) == 3  # bees.md is still in the folder
    assert told(ingest(folder, memory, ignore=["law"])) == {
        "unchanged": ("bees.md", "hive.py"),
        "removed": ("law/page.html",),
    }


def test_a_dry_run_writes_nothing(folder: Path) -> None:
    memory = create_memory_store()
    assert ingest(folder, memory, dry_run=True).added == ("bees.md", "hive.py", "law/page.html", "law/tax/form.pdf")
    assert memory.all() == []
    ingest(folder, memory)
    before = memory.all()
    (folder / "hive.py").unlink()
    (folder / "bees.md").write_text("New.")
    assert told(ingest(folder, memory, dry_run=True, glob="*.md")) == {"changed": ("bees.md",), "removed": ("hive.py",)}
    assert memory.all() == before


def test_what_cannot_be_read_is_told_and_ends_nothing(folder: Path) -> None:
    (folder / "a.txt").write_bytes(b"\0binary")
    (folder / "b.md").write_text(" \n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 nothing")
    (folder / "locked.pdf").write_bytes(encrypted("secret"))
    (folder / "huge.txt").write_text("x" * 5_001)
    (folder / "photo.jpg").write_bytes(b"\xff\xd8\xff\0\0")
    (folder / "old.txt").write_bytes("Größe".encode("latin-1"))
    (folder / "word.txt").write_bytes("Größe".encode("utf-16"))
    memory = create_memory_store()
    report = ingest(folder, memory, max_bytes=5_000)
    assert told(report) == {
        "added": ("bees.md", "hive.py", "old.txt", "word.txt", "law/page.html", "law/tax/form.pdf"),
        "skipped": ("photo.jpg",),
        "empty": ("b.md",),
        "failed": {
            "a.txt": "it is not text",
            "broken.pdf": "it is no PDF that can be read (PdfStreamError)",
            "huge.txt": "it has 5,001 bytes; max_bytes is 5,000",
            "locked.pdf": "it is encrypted, and its password is not known",
        },
        "notes": {"old.txt": LATIN},
    }
    (folder / "bees.md").write_bytes(b"\0broken now")
    assert "bees.md" in told(ingest(folder, memory))["failed"]
    assert DocumentIndex(memory).retrieve("lavender", top_k=1)[0].metadata["path"] == "bees.md"
    assert told(ingest(folder / "photo.jpg", memory)) == {"failed": {"photo.jpg": "it is not text"}}


@pytest.mark.parametrize("data", [b"", b" \n\t\n", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_is_no_failure_and_leaves_nothing_behind(folder: Path, data: bytes) -> None:
    (folder / "new.txt").write_bytes(data)
    memory = create_memory_store()
    report = ingest(folder, memory)
    assert (report.empty, report.failed, len(report.added)) == (("new.txt",), (), 4)
    (folder / "bees.md").write_bytes(data)
    now_empty = {
        "unchanged": ("hive.py", "law/page.html", "law/tax/form.pdf"),
        "removed": ("bees.md",),
        "empty": ("bees.md", "new.txt"),
    }
    assert told(ingest(folder, memory, dry_run=True)) == told(ingest(folder, memory)) == now_empty
    assert DocumentIndex(memory).retrieve("lavender") == []


def test_a_file_of_no_characters_is_no_document(folder: Path) -> None:
    (folder / "bad.txt").write_bytes(b"\xff\xfe\x00")
    memory = create_memory_store()
    assert told(ingest(folder, memory))["failed"] == {"bad.txt": "it is not text"}
    assert not [record for record in memory.all() if "\ufffd" in record.text]


def test_a_pdf_without_its_library_and_a_chunk_that_no_store_takes_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    (folder / "huge.txt").write_text("x" * 1_100_000)
    failed = told(ingest(folder, DocumentIndex(create_memory_store(), size=10**7)))["failed"]
    assert "sapwood[documents]" in failed["law/tax/form.pdf"]
    assert "1,048,576 bytes" in failed["huge.txt"]


def test_hidden_things_and_links_are_left_alone(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (folder / ".git").mkdir()
    (folder / ".git" / "config.txt").write_text("git")
    (folder / ".env").write_text("KEY=1")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "a.js").write_text("x")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.txt")
    report = ingest(folder, create_memory_store())
    assert told(report) == {"added": ("bees.md", "hive.py", "law/page.html", "law/tax/form.pdf")}


def test_a_folder_behind_a_link_is_the_folder_itself(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    memory = create_memory_store()
    ingest(folder, memory)
    assert "added" not in told(ingest(tmp_path / "link", memory))


def test_a_file_that_becomes_a_link_or_a_pipe_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (("link", "cannot be opened"), ("pipe", "no plain file"), ("none", "cannot be opened")):
        with pytest.raises(walk.UnreadableError, match=reason):
            walk.read_file(tmp_path / name, 100)
    with pytest.raises(walk.UnreadableError):
        walk.read_file(tmp_path, 100)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_told_and_keeps_what_was_known(folder: Path) -> None:
    memory = create_memory_store()
    ingest(folder, memory)
    (folder / "law").chmod(0)
    try:
        report = ingest(folder, memory)
    finally:
        (folder / "law").chmod(0o755)
    assert told(report)["failed"] == {"law": "its folder cannot be read (Permission denied)"}
    assert "removed" not in told(report)


def test_a_folder_that_cannot_be_listed_keeps_what_was_known(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = create_memory_store()
    ingest(folder, memory)
    scandir = os.scandir

    def refused(path: Any) -> Any:
        if str(path).endswith("law"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(walk.os, "scandir", refused)
    assert told(ingest(folder, memory)) == {
        "unchanged": ("bees.md", "hive.py"),
        "failed": {"law": "its folder cannot be read (Permission denied)"},
    }


def test_a_name_that_is_no_text_is_told(folder: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.txt")).write_text("x")
    except OSError:
        pytest.skip("this file system takes no such name")
    failed = told(ingest(folder, create_memory_store()))["failed"]
    assert failed == {"caf\ufffd.txt": "its name is not UTF-8; rename it"}


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: ingest(path / "none", create_memory_store()), "there is no file or folder"),
        (lambda path: ingest("a\0b", create_memory_store()), "there is no file or folder"),
        (lambda path: ingest(path, create_memory_store(), max_bytes=0), "max_bytes must be at least 1"),
        (lambda path: ingest(path, "app.db"), "documents are kept in a memory"),
    ],
)
def test_what_cannot_be_ingested_is_refused(tmp_path: Path, make: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make(tmp_path)


def test_documents_are_data_of_an_import_and_tell_no_path_of_the_machine(folder: Path) -> None:
    memory = create_memory_store()
    ingest(folder, memory)
    records = memory.all()
    assert {record.origin for record in records} == {"import"}
    assert str(folder) not in repr(records)
