"""Search does not get worse: recall on a small sample of public requests. See sample/README.md."""

import json
from pathlib import Path

import pytest

from sapwood import lazy_toolset
from sapwood.retrieval.static_vectors import installed_folder
from support.load_module import load_module

ROOT = Path(__file__).parent.parent.parent
DATA = ROOT.parent / "shared" / "data"
SAMPLE = json.loads((Path(__file__).parent / "sample" / "metatool.json").read_text(encoding="utf-8"))


def recall_at_5(vectors: bool) -> float:
    toolset = lazy_toolset(SAMPLE["tools"], vectors=vectors)
    hits = 0.0
    for text, needed in SAMPLE["requests"]:
        found = {tool.name for tool in toolset.search(text, loaded=())}
        hits += len(found & set(needed)) / len(needed)
    return hits / len(SAMPLE["requests"])


def test_words_alone_find_what_they_found() -> None:
    assert recall_at_5(vectors=False) >= WORDS_FLOOR


@pytest.mark.skipif(installed_folder() is None, reason="the extra vectors is not installed")
def test_words_and_meaning_find_what_they_found() -> None:
    assert recall_at_5(vectors=True) >= BOTH_FLOOR


WORDS_FLOOR = 0.655
BOTH_FLOOR = 0.720


@pytest.mark.skipif(not (DATA / "metatool").is_dir(), reason="the data is not here")
@pytest.mark.parametrize("name", ["metatool", "sealtools", "livemcp", "locomo", "chunkeval"])
def test_the_committed_halves_are_those_that_the_rule_gives(name: str) -> None:
    made = load_module(ROOT / "benchmarks" / "splits" / "make.py").splits(DATA)
    committed = json.loads((ROOT / "benchmarks" / "splits" / f"{name}.json").read_text(encoding="utf-8"))
    assert made[name] == committed
