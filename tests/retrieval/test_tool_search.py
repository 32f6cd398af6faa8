"""Caches, past requests and embedders of a tool search."""

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import pytest

from sapwood import ConfigError, PastRequest, StaticVectors, ToolSchema
from sapwood.core.errors import ProviderNotInstalledError
from sapwood.retrieval import index_cache, static_vectors
from sapwood.retrieval.past_requests import PastRequests
from sapwood.retrieval.tool_search import ToolSearch

TOOLS = [ToolSchema(f"notes.task{n}", f"Task number{n} about topic{n}") for n in range(20)]


class Counting:
    """An embedder that counts what it is asked; every text means the same."""

    def __init__(self, name: str = "counting") -> None:
        self.name = name
        self.texts = 0

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.texts += len(texts)
        return [[1.0, 0.5] for _ in texts]


def search_of(tools: list[ToolSchema] = TOOLS, **options: object) -> ToolSearch:
    options.setdefault("vectors", False)
    return ToolSearch(lambda: tools, **options)  # type: ignore[arg-type]


def test_a_cache_file_is_written_once_and_read_after_that(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    file = tmp_path / "deep" / "tools.index"
    first, second = Counting(), Counting()
    expected = search_of(cache=file, vectors=first).search("topic7", k=3)
    written = file.stat().st_mtime_ns, file.read_bytes()
    assert search_of(cache=str(file), vectors=second).search("topic7", k=3) == expected
    assert (file.stat().st_mtime_ns, file.read_bytes()) == written
    assert first.texts > second.texts == 1, "only the question was embedded"
    assert os.listdir(file.parent) == ["tools.index"]


@pytest.mark.parametrize(
    "other",
    [
        {"tools": TOOLS[1:]},
        {"tools": [*TOOLS[:-1], ToolSchema("notes.task19", "Something else, topic19")]},
        {"tools": [*TOOLS[:-1], ToolSchema("notes.task19", TOOLS[-1].description, {"properties": {"new": {}}})]},
        {"groups": {"notes": "What was written down"}},
        {"vectors": Counting("other")},
    ],
    ids=["tools", "description", "parameters", "groups", "vectors"],
)
def test_a_cache_of_something_else_is_made_anew(tmp_path: Path, other: dict) -> None:
    pytest.importorskip("numpy")
    file = tmp_path / "tools.index"
    search_of(cache=file).prepare()
    before = file.read_bytes()
    search = search_of(**{"cache": file, **other})
    assert search.search("topic19", k=1) == ["notes.task19"]
    assert file.read_bytes() != before


@pytest.mark.parametrize("how", ["cut", "flipped", "empty", "garbage", "huge head"])
def test_a_broken_cache_is_made_anew_and_never_trusted(tmp_path: Path, how: str) -> None:
    file = tmp_path / "tools.index"
    search_of(cache=file).prepare()
    good = file.read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    broken = {
        "cut": good[:-10],
        "flipped": bytes(flipped),
        "empty": b"",
        "garbage": b"\x80\x04.",
        "huge head": good[:90],
    }
    file.write_bytes(broken[how])
    assert search_of(cache=file).search("topic3", k=1) == ["notes.task3"]
    assert file.read_bytes() == good
    assert search_of(cache=broken[how]).search("topic3", k=1) == ["notes.task3"], "given as bytes"


def test_a_cache_with_the_right_key_and_a_wrong_inside_is_made_anew() -> None:
    search = search_of()
    digest = index_cache.digest_of(TOOLS, {}, "")
    assert index_cache.from_bytes(search.to_bytes(), digest) is not None
    packed = search_of(TOOLS[:3]).to_bytes()
    other = index_cache.from_bytes(packed, index_cache.digest_of(TOOLS[:3], {}, ""))
    assert other is not None
    forged = index_cache.to_bytes(other, digest)
    assert search_of(cache=forged).search("topic9", k=1) == ["notes.task9"]
    head = forged[: len(b"sapwood tool index 1\n")]
    body = b"\x93\x01\x02\x03"
    sealed = head + digest + index_cache._hash(body) + body
    assert index_cache.from_bytes(sealed, digest) is None


def test_the_bytes_of_an_index_are_a_cache() -> None:
    data = search_of().to_bytes()
    assert search_of().to_bytes() == data, "the same tools give the same bytes"
    assert search_of(cache=data).search("topic5", k=1) == ["notes.task5"]


def test_a_cache_that_cannot_be_kept_is_told_and_the_search_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("x")
    with caplog.at_level(logging.WARNING):
        assert search_of(cache=in_the_way / "tools.index").search("topic5", k=1) == ["notes.task5"]
        assert search_of(cache=tmp_path).search("topic5", k=1) == ["notes.task5"]
    assert "cannot be read" in caplog.text
    assert "cannot be written" in caplog.text


class Kept:
    """A store of past requests."""

    def __init__(self) -> None:
        self.rows: list[PastRequest] = []

    def load(self) -> Sequence[PastRequest]:
        return list(self.rows)

    def save(self, requests: Sequence[PastRequest]) -> None:
        self.rows += requests


def test_what_was_learnt_outlives_the_process_and_a_run_is_learnt_from_once(tmp_path: Path) -> None:
    store, file = Kept(), tmp_path / "tools.index"
    search = search_of(store=store, cache=file)
    assert search.learn(["notes.task4"], "water the plants", run_id="r1") == ["notes.task4"]
    assert search.search("plants", k=1) == ["notes.task4"]
    again = search_of(store=store, cache=file)
    assert again.learn(["notes.task4", "notes.task5"], "feed the cat", run_id="r1") == []
    assert again.search("plants", k=1) == ["notes.task4"]
    assert again.learn(["notes.task5"], "feed the cat", run_id="r2") == ["notes.task5"]
    assert again.search("cat", k=1) == ["notes.task5"]
    assert [row.run_id for row in store.rows] == ["r1", "r2"]
    assert again.learn(["notes.task5"], "feed the cat", run_id="r3") == [], "no text twice"


def test_past_requests_are_bounded() -> None:
    past = PastRequests(keep_requests=2, keep_characters=12)
    for text in ("first words", "second   words of many", "third words", " ", "x" * 100):
        past.learn(["a"], text)
    assert past.of("a") == ("third words", "x" * 12)
    assert list(past) == ["a"]
    assert past.learn(["a"], "word " * 9) == ["a"]
    assert past.of("a")[-1] == "word word"


def test_run_ids_are_bounded_and_the_oldest_goes() -> None:
    past = PastRequests()
    for number in range(1_001):
        past.learn(["a"], f"text {number}", run_id=f"r{number}")
    assert past.learn(["a"], "new text", run_id="r1000") == []
    assert past.learn(["a"], "new text", run_id="r0") == ["a"]


def test_tools_that_come_and_go_after_the_first_question_are_followed() -> None:
    tools = list(TOOLS)
    search = search_of(tools)
    search.add([])
    search.remove("nothing yet")
    assert search.search("umbrella", k=1) == []
    search.learn(["shop.umbrella"], "it rains cats")
    search.add([ToolSchema("shop.umbrella", "Buy an umbrella")])
    assert search.search("umbrella", k=1) == ["shop.umbrella"]
    assert search.search("rains cats", k=1) == ["shop.umbrella"], "learnt before it came back"
    search.remove("shop.umbrella")
    assert search.search("umbrella", k=1) == []


def test_vectors_are_taken_where_they_are_installed_and_refused_where_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_vectors, "installed_folder", lambda: None)
    assert static_vectors.embedder_for("auto") is None
    with pytest.raises(ProviderNotInstalledError, match="sapwood\\[vectors\\]"):
        search_of(vectors=True)
    monkeypatch.setattr(static_vectors, "installed_folder", lambda: Path())
    assert isinstance(static_vectors.embedder_for("auto"), StaticVectors)
    assert isinstance(static_vectors.embedder_for(True), StaticVectors)
    with pytest.raises(ConfigError, match="vectors must be"):
        search_of(vectors="on")


def test_turns_that_learn_while_others_search_disturb_nobody() -> None:
    vectors = Counting() if find_spec("numpy") else False
    search = search_of(vectors=vectors)

    def ask(number: int) -> list[str]:
        if number % 2:
            return search.learn([f"notes.task{number % 20}"], f"errand{number} of the day")
        search.add([ToolSchema(f"more.job{number}", f"Job{number}")])
        return search.search(f"number{number % 20} notes", k=3)

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(200)))
    assert all(answers)
    assert search.search("errand199", k=1) == ["notes.task19"]
    assert search.search("job198", k=1) == ["more.job198"]


def test_while_another_thread_makes_the_changes_a_question_is_answered_from_what_is_there() -> None:
    def schemas() -> list[ToolSchema]:
        if not asked:
            asked.append("from inside")
            asked.extend(search.search("topic3", k=1))
        return TOOLS

    asked: list[str] = []
    search = ToolSearch(schemas, vectors=False)
    assert search.search("topic7", k=1) == ["notes.task7"]
    assert asked == ["from inside", "notes.task3"]
