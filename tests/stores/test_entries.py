"""Stores under guide A's names; a file of JSON lines that is whole whatever happens while it is written."""

import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sapwood import InMemoryEntryStore, JsonFileMemoryStore, MemoryManager, StoreError
from support.child_process import child_of, line

CHILDREN = Path(__file__).parent / "entry_children.py"
child = partial(child_of, CHILDREN)


def texts(store: Any) -> list[str]:
    return [record.text for record in store.all()]


def test_what_is_kept_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    store = JsonFileMemoryStore(path)
    assert not path.exists()
    first = store.save("Ann likes tea", kind="taste", meta={"from": "chat"}, origin="web", key="k1")
    store.scoped(user="ann", namespace=("team",)).save("Ann likes rain")
    corrected = store.correct(first.id, "Ann likes green tea")
    assert corrected is not None
    again = JsonFileMemoryStore(path)
    assert texts(again) == texts(store)
    assert [record.text for record in again.history(corrected.id)] == ["Ann likes tea", "Ann likes green tea"]
    assert [record.text for record in again.scoped(user="ann").search("rain")] == ["Ann likes rain"]
    assert again.save("Ann likes tea", key="k1", kind="taste").id == first.id, "a key is kept"
    assert again.check() == []


def test_what_is_forgotten_is_gone_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    store = JsonFileMemoryStore(path)
    record = store.save("the secret of Noor")
    store.save("something else")
    assert store.forget(record.id)
    assert b"Noor" not in path.read_bytes()
    assert store.forget_all() == 1
    assert texts(JsonFileMemoryStore(path)) == []


def test_the_file_is_lines_of_json_that_an_export_is_too(tmp_path: Path) -> None:
    path, other = tmp_path / "facts.jsonl", tmp_path / "other.jsonl"
    JsonFileMemoryStore(path).save("crème brûlée")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(item).get("text") for item in lines] == [None, "crème brûlée"]
    other.write_text(lines[1] + "\n\n", encoding="utf-8")
    assert texts(JsonFileMemoryStore(other)) == ["crème brûlée"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{\n", "line 1 of .* is no JSON"),
        (b"\xff\xfe\n", "line 1 of .* is no JSON"),
        (b'{"sapwood_memory": 2}\n', "a newer version of sapwood"),
        (b"[]\n", "a record that cannot be read"),
        (b'{"id": "1"}\n', "a record that cannot be read"),
    ],
)
def test_a_file_of_another_kind_is_refused_and_left_alone(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=problem):
        JsonFileMemoryStore(path)
    assert path.read_bytes() == content


def test_a_file_that_another_program_changed_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    first, second = JsonFileMemoryStore(path), JsonFileMemoryStore(path)
    first.save("of the first")
    with pytest.raises(StoreError, match="changed by another program"):
        second.save("of the second")
    assert texts(second) == ["of the first"], "it has read it anew"
    second.save("of the second")
    assert texts(JsonFileMemoryStore(path)) == ["of the first", "of the second"]


def test_a_folder_that_is_not_there_or_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="could not be written"):
        JsonFileMemoryStore(tmp_path / "none" / "facts.jsonl").save("x")
    with pytest.raises(StoreError, match="cannot be read"):
        JsonFileMemoryStore(tmp_path)


def test_what_cannot_be_written_has_not_happened(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    with child("file_limit", path) as process:
        assert json.loads(line(process)) == ["StoreError", True, 20]
        assert line(process) == "done"
    assert len(texts(JsonFileMemoryStore(path))) == 21


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_while_writing_leaves_all_that_was_acknowledged(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "facts.jsonl"
    with child("work", path) as process:
        assert line(process) == "0"
        time.sleep(0.1 + seed / 7)
        process.send_signal(signal.SIGKILL)
        assert process.stdout is not None
        acknowledged = len(process.stdout.read().splitlines())
    store = JsonFileMemoryStore(path)
    assert acknowledged + 1 <= len(texts(store)) <= acknowledged + 2
    assert store.check() == []
    store.save("goes on")
    assert [item.name for item in tmp_path.iterdir()] == ["facts.jsonl"], "nothing is left beside it"


def test_a_manager_keeps_its_facts_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    MemoryManager(store=JsonFileMemoryStore(path)).add_fact("Ann likes tea")
    memory = MemoryManager(store=JsonFileMemoryStore(path))
    facts: Any = memory.get_relevant_facts("tea?")
    assert [fact.text for fact in facts] == ["Ann likes tea"]
    memory.clear()
    assert texts(JsonFileMemoryStore(path)) == []


def test_an_entry_store_has_one_owner_who_may_forget_all() -> None:
    store = InMemoryEntryStore()
    store.save("a fact")
    store.save("another", kind="note")
    assert store.forget_all(kind="note") == 1
    assert store.forget_all() == 1


def test_it_is_imported_without_an_embedder() -> None:
    code = "import sys; from sapwood import JsonFileMemoryStore as S; S('x.jsonl'); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
