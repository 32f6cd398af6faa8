"""What may be shown of an exception: no traceback, no host path, nothing that looks like a secret.

Laws: a ToolError's message was written for the model and is shown as it is; of anything else type and message
are shown only where the caller allows it. Source: decision 4.
Secrets are told by their shape, so this is a second fence: a message should not hold them in the first place.
"""

import re
from typing import NamedTuple

from sapwood.core.errors import ToolError

GENERIC = "Internal error"

_WORDS = (
    r"api[-_ ]?key|access[-_ ]?key|secret[-_ ]?key|private[-_ ]?key|signing[-_ ]?key|(?:client[-_ ]?)?secret"
    r"|pass(?:word|wd|phrase|code)|pwd|token|credentials?|authorization|cookie|session[-_ ]?id|signature"
)
_WORD_MARKS = ("key", "secret", "pass", "pwd", "token", "credential", "authorization", "cookie", "session", "signature")
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s\"',;&)}\]]+)"
_NO_CASE = re.IGNORECASE


class _Rule(NamedTuple):
    """What is replaced, and by what; tried only where the lower-case text holds one of the marks."""

    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    shown: str


def _rule(marks: tuple[str, ...], pattern: str, shown: str, flags: int = 0) -> _Rule:
    return _Rule(marks, re.compile(pattern, flags), shown)


_RULES = (
    _rule(("-----begin",), r"-----BEGIN [A-Z ]{1,40}KEY-----.*?(?:-----END [A-Z ]{1,40}KEY-----|\Z)", "***", re.DOTALL),
    _rule(("://",), r"(?<=://)([^\s/:@]{0,200}):[^\s/@]{1,500}@", r"\1:***@"),
    _rule(("bearer", "basic"), r"\b(bearer|basic)\s+[\w.~+/=-]{4,}", r"\1 ***", _NO_CASE),
    _rule(
        _WORD_MARKS,
        rf"((?:{_WORDS})[\"']?\s{{0,8}}(?:=>|[=:])\s{{0,8}})(?!bearer |basic ){_VALUE}",
        r"\1***",
        _NO_CASE,
    ),
    _rule(
        ("key", "sig", "auth", "jwt", "pat"),
        rf"((?<![a-z])(?:key|sig|auth|jwt|pat)[\"']?\s{{0,8}}=\s{{0,8}}){_VALUE}",
        r"\1***",
        _NO_CASE,
    ),
    # Long hex or base64 after a key-like word, as in `invalid api key 3f9c...`.
    _rule(
        _WORD_MARKS,
        rf"((?:{_WORDS}|\bkey)(?:\s+is)?\s+[\"'(]?)[A-Za-z0-9+/_=-]{{16,}}",
        r"\1***",
        _NO_CASE,
    ),
    _rule(
        ("-", "_"),
        r"\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abeprs]|hf|npm|pypi)[-_][\w-]{6,}",
        "***",
    ),
    _rule(("akia", "asia"), r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}", "***"),
    _rule(("aiza", "ya29."), r"\bAIza[\w-]{20,}|\bya29\.[\w.-]{10,}", "***"),
    _rule(("eyj",), r"\beyJ[\w-]{8,4000}\.[\w-]{4,8000}(?:\.[\w-]{0,2000})?", "***"),
    # A quoted path may hold spaces; others end at one. URLs and relative paths stay.
    _rule(
        ("/", "\\"),
        r"(?<=['\"])(?:file:/{1,3}|~/|/(?!/)|[A-Za-z]:[\\/]|\\\\)[^'\"\n]*(?=['\"])",
        "<path>",
    ),
    _rule(("file:/",), r"\bfile:/{1,3}[^\s'\"]+", "<path>"),
    _rule(("/",), r"(?<![A-Za-z0-9_./~\]}<-])~?/(?=[^\s/])[^\s'\",;:)\]}>]*", "<path>"),
    _rule((":\\", ":/", "\\\\"), r"(?<![A-Za-z0-9_])(?:[A-Za-z]:[\\/]|\\\\\w)[^\s'\",;:)\]}>]*", "<path>"),
)
_TRACEBACK = "Traceback (most recent call last)"


def safe_error_text(exc: BaseException, *, expose: bool) -> str:
    """Return what a model may read of an exception; never blank.

    expose: show type and message of what is no ToolError, scrubbed; otherwise it is "Internal error".

    >>> safe_error_text(OSError("cannot read /home/ann/x, token=abc123"), expose=True)
    'OSError: cannot read <path>, token=***'
    >>> safe_error_text(OSError("cannot read /home/ann/x"), expose=False)
    'Internal error'
    """
    name = type(exc).__name__
    if isinstance(exc, ToolError):
        message = _message(exc)
        return message if message.strip() else name
    if not expose:
        return GENERIC
    message = scrubbed(_message(exc).partition(_TRACEBACK)[0]).strip()
    return f"{name}: {message}" if message else name


def scrubbed(text: str) -> str:
    """Return the text with host paths as `<path>` and what looks like a secret as `***`.

    >>> scrubbed("postgres://ann:pw@db/x refused, see https://example.com/a/b")
    'postgres://ann:***@db/x refused, see https://example.com/a/b'
    """
    lower = text.lower()
    for marks, pattern, shown in _RULES:
        # Finding a mark is many times cheaper than trying a pattern at each of two million places.
        if any(mark in lower for mark in marks):
            text = pattern.sub(shown, text)
    return text


def _message(exc: BaseException) -> str:
    try:
        text = str(exc)
    except (TypeError, ValueError, AttributeError, LookupError, RuntimeError, ArithmeticError, OSError):
        return ""  # a broken `__str__` must not hide the error itself
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
