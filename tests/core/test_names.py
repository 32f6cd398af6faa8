"""Wire names: valid for every provider, the same everywhere, and never two for one."""

import re
import subprocess
import sys

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sapwood.core.errors import ConfigError, ToolNameCollision
from sapwood.core.names import MAX_WIRE_NAME, name_map, wire_name

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=90)
LONG = "a" * 64

TABLE = [
    ("add", "add"),
    ("notes.list", "notes_list"),
    ("get weather", "get_weather"),
    ("a-b_C9", "a-b_C9"),
    ("größe", "gr__e"),
    (LONG, LONG),
    ("trailing\n", "trailing_"),
    (LONG + "b", "a" * 55 + "_" + "3e63da2d"),
    ("天气", "___" + "4d947325"),
    ("_", "_"),
    ("..", "___" + "5ec1f7e7"),
]


@pytest.mark.parametrize(("name", "wire"), TABLE)
def test_wire_name(name: str, wire: str) -> None:
    assert wire_name(name) == wire


@given(name=ANY_TEXT)
def test_every_name_becomes_one_that_every_provider_takes(name: str) -> None:
    assume(name)
    wire = wire_name(name)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire)
    assert wire_name(wire) == wire
    assert len(wire) <= MAX_WIRE_NAME


@given(
    start=st.text("ab.", min_size=64, max_size=70), first=st.text("xy", max_size=5), second=st.text("xy", max_size=5)
)
def test_long_names_that_differ_at_their_end_stay_distinct(start: str, first: str, second: str) -> None:
    assume(first != second)
    assert wire_name(start + first) != wire_name(start + second)


def test_another_process_gives_the_same_names() -> None:
    code = f"from sapwood.core.names import wire_name; print(wire_name('{LONG}b'), wire_name('\\u5929'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [wire_name(LONG + "b"), wire_name("天")]


def test_a_map_leads_from_wire_to_original() -> None:
    assert name_map(["notes.list", "add"]) == {"notes_list": "notes.list", "add": "add"}
    assert name_map([]) == {}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a.b", "c", "a b"], "'a.b' and 'a b' both become 'a_b' for the model; rename one of them"),
        (["add", "add"], "'add' and 'add' both become 'add' for the model; rename one of them"),
    ],
)
def test_two_that_become_one_are_refused_naming_both(names: list[str], message: str) -> None:
    with pytest.raises(ToolNameCollision, match=re.escape(message)):
        name_map(names)
    assert issubclass(ToolNameCollision, ConfigError)
