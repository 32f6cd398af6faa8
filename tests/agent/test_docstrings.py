import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.agent.docstrings import description_of, joined, parameter_texts, style_of

TEXTS = {"text": "The text.", "length": "Pick one:\n- brief: a line\n- long: a page"}

GOOGLE = """Do it.

    Args:
        text: The text.
        length: Pick one:
            - brief: a line
            - long: a page

        nobody (int): Ignored.

    Returns:
        text: not this one
    """
FLAT = """Do it.

    Arg:
        text (str): The text.
        length (str, optional): Pick one:
        - brief: a line
        - long: a page
    """
NUMPY = """Do it.

    Parameters
    ----------
    text
        The text.
    length : str, optional
        Pick one:

        - brief: a line
        - long: a page

    Returns
    -------
    text
        not this one
    """
SPHINX = """Do it.

    :param text: The text.
    :type text: str
    :param str length: Pick one:
        - brief: a line
        - long: a page
    :returns: not this one
    """


@pytest.fixture(params=["griffe", "own"])
def _reader(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.param == "griffe":
        pytest.importorskip("griffe")
        yield
        return
    # What Python itself does where a package is not installed.
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "griffe"}
    sys.modules["griffe"] = None  # type: ignore[assignment]
    yield
    del sys.modules["griffe"]
    sys.modules.update(kept)


@pytest.mark.usefixtures("_reader")
@pytest.mark.parametrize("docstring", [GOOGLE, FLAT, NUMPY, SPHINX])
def test_all_styles_say_the_same(docstring: str) -> None:
    assert parameter_texts(docstring, ["text", "length"]) == TEXTS


@pytest.mark.usefixtures("_reader")
@pytest.mark.parametrize(
    ("docstring", "texts"),
    [
        ("Args:\n    *rest: more\n    **others: else", {"rest": "more", "others": "else"}),
        ("Parameters\n----------\na, b : int\n    both", {"a": "both", "b": "both"}),
        ("Other Parameters\n----------------\na : int\n    one", {"a": "one"}),
        ("Args:\n    a: one\n\nKeyword Args:\n    b: two", {"a": "one", "b": "two"}),
        (":param a: one\n:raises X: no\n:param b:", {"a": "one"}),
        ("Args:\n    see the manual", {}),
        ("Args:\n\nReturns:\n    a: no", {}),
        ("Args: none", {}),
        ("Nothing here.", {}),
        (None, {}),
    ],
)
def test_parameters_of(docstring: str | None, texts: dict[str, str]) -> None:
    assert parameter_texts(docstring and f"Do it.\n\n{docstring}", ["a", "b", "rest", "others"]) == texts


def test_nothing_is_read_for_no_parameters() -> None:
    assert parameter_texts(GOOGLE, []) == {}


@pytest.mark.parametrize(
    ("docstring", "description"),
    [
        (None, ""),
        ("", ""),
        ("One\n    two.\n\n    Three.", "One two."),
        ("Note this: it works.\n\nMore.", "Note this: it works."),
        ("Find it.\nArgs:\n    a: b", "Find it."),
        ("Find it.\n:param a: b", "Find it."),
        ("Find it.\n>>> find()", "Find it."),
        ("Args:\n    a: b", ""),
        ("Parameters\n----------\na\n    b", ""),
        ("Find it.\nParameters\n----------\na\n    b", "Find it."),
    ],
)
def test_a_description_is_the_first_paragraph(docstring: str | None, description: str) -> None:
    assert description_of(docstring) == description


def test_styles_are_told_apart() -> None:
    assert [style_of(text) for text in ("Args:", "a:\n", ":param a: b", "Parameters\n---")] == [
        "google",
        None,
        "sphinx",
        "numpy",
    ]


def test_a_line_without_an_entry_above_it_is_dropped() -> None:
    assert joined([("- big", "very")]) == {}


def test_griffe_says_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    parameter_texts(GOOGLE, ["text"])

    assert caplog.records == []


def test_griffe_is_imported_on_first_use_only() -> None:
    code = (
        "import sys; from sapwood.agent.decorator import tool\n"
        "def plain(a: int):\n    'Say.'\n"
        "tool(plain).bind()\n"
        "print('griffe' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (done.stdout, done.stderr) == ("False\n", "")


LINES = st.lists(
    st.sampled_from(
        [
            "Args:",
            "    a: x",
            "    - b: y",
            "Parameters",
            "------",
            "a : int",
            ":param a: z",
            ":type",
            "",
            "  ",
            "text: more",
        ]
    )
    | st.text(max_size=8),
    max_size=10,
).map("\n".join)


@pytest.mark.usefixtures("_reader")
@given(LINES)
def test_no_docstring_raises(docstring: str) -> None:
    found: Any = parameter_texts(docstring, ["a"])

    assert set(found) <= {"a"}
    assert "\n" not in description_of(docstring)
