"""estimate_tokens: about how many tokens a text takes, by character class, without a tokenizer.

Law: counting never raises, whatever the text. The weights were fitted to o200k_base: the errors are in
docs/token_estimates.md.
"""

_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123))
_DIGITS = b"0123456789"
_SPACES = b" \t\r\n\x0b\x0c"
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_NO_LEADS = bytes(range(0xC0))


def _classes(upper: bytes) -> bytes:
    """Return a table that maps each byte to its class: letter, digit, blank, line break, mark, or not ASCII."""
    table = bytearray(b"." * 256)
    for members, name in (
        (bytes(range(97, 123)), b"a"),
        (bytes(range(65, 91)), upper),
        (_DIGITS, b"0"),
        (b" \t", b" "),
        (b"\r\n\x0b\x0c", b"\n"),
        (_BEYOND_ASCII, b"n"),
    ):
        for byte in members:
            table[byte] = name[0]
    return bytes(table)


_BY_CASE = _classes(upper=b"A")
_BY_KIND = _classes(upper=b"a")
_DIGIT_OR_NOT = bytes(48 if byte in _DIGITS else 32 for byte in range(256))

# Tokens for one character by the first byte of its UTF-8 form, the commonest scripts first.
_SCRIPTS: tuple[tuple[bytes, float], ...] = (
    (bytes(range(0xE4, 0xEE)), 0.79),  # Chinese and Japanese characters, Korean
    (b"\xe3", 0.67),  # kana and the punctuation of East Asia
    (b"\xd0\xd1\xd2\xd3", 0.345),  # Cyrillic
    (bytes(range(0xC3, 0xCC)), 1.13),  # Latin letters with marks, which break a word
    (b"\xd4\xd5\xd8\xd9\xda\xdb", 0.39),  # Armenian, Arabic
    (b"\xce\xcf\xe0\xe1", 0.415),  # Greek, India, Thai, Georgian
    (b"\xd6\xd7", 0.49),  # Hebrew
    (b"\xf0", 2.09),  # emoji and rare characters
    (b"\xc2\xe2", 0.5),  # typographic marks and symbols
)
_OTHER_SCRIPTS = 0.75


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text takes; 0 for an empty one, at least 1 for any other.

    >>> estimate_tokens("The quick brown fox jumps over the lazy dog.")
    9
    """
    if not text:
        return 0
    raw = text.encode("utf-8", "surrogatepass")
    is_ascii = text.isascii()
    tokens = 0.0 if is_ascii else _beyond_ascii(raw)
    plain = raw if is_ascii else raw.translate(None, _BEYOND_ASCII)
    letters, digits, spaces = _count(plain, _LETTERS), _count(plain, _DIGITS), _count(plain, _SPACES)
    marks = len(plain) - letters - digits - spaces
    tokens += 0.225 * letters + 0.3 * digits + 0.08 * marks + 0.027 * spaces
    # Tokens begin where the class changes, so the most telling of these places are counted too.
    by_case, by_kind = raw.translate(_BY_CASE), raw.translate(_BY_KIND)
    tokens += 0.6 * by_kind.count(b"a.") + 1.45 * by_kind.count(b"a\n") + 1.28 * by_kind.count(b" .")
    tokens += 2.4 * by_case.count(b"0A") + 1.43 * raw.translate(_DIGIT_OR_NOT).count(b"0 ")
    return max(1, round(tokens))


def _count(raw: bytes, members: bytes) -> int:
    return len(raw) - len(raw.translate(None, members))


def _beyond_ascii(raw: bytes) -> float:
    tokens = 0.0
    leads = raw.translate(None, _NO_LEADS)
    for members, weight in _SCRIPTS:
        if not leads:
            return tokens
        rest = leads.translate(None, members)
        tokens += weight * (len(leads) - len(rest))
        leads = rest
    return tokens + _OTHER_SCRIPTS * len(leads)
