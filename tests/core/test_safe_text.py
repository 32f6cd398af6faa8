import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood.core.errors import ToolError, ToolInputError
from sapwood.core.safe_text import safe_error_text, scrubbed


class Quiet(Exception):
    pass


class Broken(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("expose", [True, False])
def test_a_tool_error_shows_its_message_always(expose: bool) -> None:
    assert safe_error_text(ToolError("see /srv/x, token=1"), expose=expose) == "see /srv/x, token=1"
    assert safe_error_text(ToolInputError(" "), expose=expose) == "ToolInputError"


def test_any_other_error_is_generic_unless_exposed() -> None:
    assert safe_error_text(RuntimeError("token=abc123"), expose=False) == "Internal error"
    assert safe_error_text(RuntimeError("token=abc123"), expose=True) == "RuntimeError: token=***"


def test_an_error_without_a_message_gives_its_class() -> None:
    assert [safe_error_text(error, expose=True) for error in (Quiet(), Quiet("  "), Broken())] == [
        "Quiet",
        "Quiet",
        "Broken",
    ]


def test_a_traceback_is_left_out() -> None:
    error = RuntimeError('worker died\nTraceback (most recent call last):\n  File "x.py", line 3')

    assert safe_error_text(error, expose=True) == "RuntimeError: worker died"


def test_half_a_character_is_replaced() -> None:
    assert safe_error_text(ToolError("a\ud800é"), expose=False) == "a?é"


SECRETS = [
    ("token=abc123", "token=***"),
    ("key=abc, next", "key=***, next"),
    ('{"password": "p w d", "a": 1}', '{"password": ***, "a": 1}'),
    ("OPENAI_API_KEY=sk-proj-abcdef", "OPENAI_API_KEY=***"),
    ("x-api-key: 12; y", "x-api-key: ***; y"),
    ("client_secret => 'a b'", "client_secret => ***"),
    ("Authorization: Bearer abc.def-g", "Authorization: Bearer ***"),
    ("authorization: Basic dXNlcjpw", "authorization: Basic ***"),
    ("sent sk-ant-api03-abcdef to it", "sent *** to it"),
    ("ghp_0123456789abcdef", "***"),
    ("bad AKIAABCDEFGHIJKLMNOP", "bad ***"),
    ("AIzaSyA0123456789abcdefghij", "***"),
    ("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.abc", "***"),
    ("https://ann:pw@host/x?sig=abc&y=2", "https://ann:***@host/x?sig=***&y=2"),
    ("redis://:pw@host:6379/0", "redis://:***@host:6379/0"),
    ("invalid api key 0123456789abcdef01", "invalid api key ***"),
    ("the token is 'QUJDREVGR0hJSktMTU5P'", "the token is '***'"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY----- x", "*** x"),
]
PATHS = [
    ("[Errno 2] No such file: '/home/ann doe/x.txt'", "[Errno 2] No such file: '<path>'"),
    ("cannot open /srv/app/x.py, line 3", "cannot open <path>, line 3"),
    ("not found:/home/ann", "not found:<path>"),
    ("PATH=/usr/bin:/usr/local/bin", "PATH=<path>:<path>"),
    ("(~/.ssh/id_rsa)", "(<path>)"),
    ("C:\\Users\\ann\\x.txt failed", "<path> failed"),
    ("\\\\server\\share\\x failed", "<path> failed"),
    ('"C:/Program Files/x"', '"<path>"'),
    ("file:///home/ann/x failed", "<path> failed"),
]
HARMLESS = [
    "see https://example.com/a/b.html#c",
    "and/or 3/4 ./here ../there a/b/c",
    "max_tokens=5 monkey=3 tokens: 12",
    "<div>a</div>",
    "KeyError: 'abc'",
    "10:30 at a: b",
]


@pytest.mark.parametrize(("text", "shown"), SECRETS + PATHS + [(text, text) for text in HARMLESS])
def test_secrets_and_host_paths_are_not_shown(text: str, shown: str) -> None:
    assert scrubbed(text) == shown


@given(st.text(), st.booleans())
def test_an_error_text_is_never_blank_and_can_be_sent(text: str, expose: bool) -> None:
    for error in (RuntimeError(text), ToolError(text)):
        shown = safe_error_text(error, expose=expose)
        assert shown.strip()
        shown.encode()


@given(st.text(alphabet="/\\:=~'\" abkeytoknsr.@-", max_size=60))
def test_scrubbing_twice_is_scrubbing_once_for_paths(text: str) -> None:
    assert "/home/ann" not in scrubbed(f"{text} /home/ann/{text}")


@pytest.mark.parametrize(
    "piece", ["a", "/", "token", "key ", "://", "eyJ", '"', "'/", "token   ", "-----BEGIN A KEY-----"]
)
def test_a_very_long_message_takes_no_long_time(piece: str) -> None:
    started = time.perf_counter()

    scrubbed(piece * (200_000 // len(piece)))

    assert time.perf_counter() - started < 5
