"""The times that a text or a question names.

Laws: pure: what time it is now is handed in; a day begins at midnight, UTC; a span of time is two numbers of
milliseconds since 1970, the second one past its end.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_SHORT_MONTHS = ("jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec")
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
Span = tuple[int, int]
"""From, and up to but not with, in milliseconds since 1970."""

_NUMBERED = (
    r"\d{1,2}:\d{2}|\b(?:19|20)\d\d\b|"
    r"\b\d{1,2}(?:st|nd|rd|th)\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\b\d{1,2} ?[ap]\.?m\b"
)
_NAMED = (
    "yesterday|today|tonight|tomorrow|ago|recently|lately|weekend|weeks?|months?|years?|days?|hours?|minutes?|"
    "morning|afternoon|evening|night|summer|winter|spring|autumn|fall|birthday|anniversary|since|until|"
    "last|next|past|soon|earlier|decade|century"
)
_FOREIGN = (
    "gestern|heute|morgen|woche|monat|jahr|hier|aujourd'hui|demain|semaine|mois|année|ayer|hoy|mañana|semana|mes|año|"
    "ieri|oggi|domani|settimana|mese|anno|ontem|hoje|amanhã|mês|ano|gisteren|vandaag|week|maand|jaar|igår|idag|"
    "вчера|сегодня|завтра|неделю|месяц|год|昨天|今天|明天|昨日|今日|明日|어제|오늘|내일"
)


@lru_cache(maxsize=1)
def _time_words() -> re.Pattern[str]:
    named = "|".join((_NAMED, _FOREIGN, *MONTHS, *_SHORT_MONTHS, *DAYS))
    return re.compile(rf"{_NUMBERED}|\b(?:{named})\b|昨天|今天|明天|昨日|今日|明日|어제|오늘|내일", re.IGNORECASE)


def names_a_time(text: str) -> bool:
    """Tell whether a text names a time: a date, a weekday, `yesterday`, `two years ago`.

    >>> names_a_time("We met last Friday"), names_a_time("We met Ann")
    (True, False)
    """
    return _time_words().search(text) is not None


_WHEN = re.compile(
    r"\bwhen\b|\bhow long\b|\bhow many (?:days|weeks|months|years)\b|"
    r"\b(?:what|which) (?:day|date|time|month|year|week|season)\b|"
    r"\bwann\b|\bquand\b|\bcuándo\b|\bquando\b|\bwanneer\b|\bnär\b|\bnår\b|\bhvornår\b|\bkiedy\b|\bkdy\b|\bmilloin\b|"
    r"\bкогда\b|什么时候|何时|いつ|언제",
    re.IGNORECASE,
)


def asks_when(question: str) -> bool:
    """Tell whether a question asks for a time.

    >>> asks_when("When did Ann move?"), asks_when("Where did Ann move when she was 20?")
    (True, True)
    """
    return _WHEN.search(question) is not None


_ISO = re.compile(r"\b(\d{4})-(\d{1,2})(?:-(\d{1,2}))?\b")
_MONTH = "|".join((*MONTHS, *_SHORT_MONTHS))
_DATED = re.compile(
    rf"(?:\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?)?\b({_MONTH})\b\.?(?:\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d))?(?:,?\s+(?:of\s+)?(\d{{4}})\b)?",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:in|of|during|since|year|from)\s+((?:19|20)\d\d)\b", re.IGNORECASE)
_RELATIVE = re.compile(
    rf"\b(today|yesterday|day before yesterday|(?:this|last|past) (?:week|month|year|weekend)|"
    rf"(?:last|on|past) (?:{'|'.join(DAYS)}))\b|"
    r"\b(\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten) (day|week|month|year)s? ago\b",
    re.IGNORECASE,
)
_NUMBERS = ("", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def spans_of(question: str, now: int) -> tuple[Span, ...]:
    """Return the spans of time that a question names, by the calendar or as seen from now.

    A month without a year is the last one of that name that has begun.

    >>> [(begin, end)] = spans_of("What did we do in May 2023?", now=0)
    >>> datetime.fromtimestamp(begin / 1000, UTC).date(), (end - begin) // 86_400_000
    (datetime.date(2023, 5, 1), 31)
    """
    today = datetime.fromtimestamp(now / 1000, UTC).date()
    found: list[tuple[date, date] | None] = []
    rest = question
    for pattern, read in ((_ISO, _iso), (_DATED, _dated), (_YEAR, _year), (_RELATIVE, _relative)):
        found += [read(match, today) for match in pattern.finditer(rest)]
        rest = pattern.sub(" ", rest)
    return tuple(dict.fromkeys((_milliseconds(span[0]), _milliseconds(span[1])) for span in found if span))


def _iso(match: re.Match[str], today: date) -> tuple[date, date] | None:
    year, month, day = match.groups()
    return _of_calendar(int(year), int(month), int(day) if day else None)


def _dated(match: re.Match[str], today: date) -> tuple[date, date] | None:
    before, name, after, year = match.groups()
    word = name.casefold()
    day = before or after
    if word in ("may", "march") and not (day or year) and not _is_month(match):
        return None
    month = next(at for at, full in enumerate(MONTHS, 1) if full[:3] == word[:3])
    if year:
        return _of_calendar(int(year), month, int(day) if day else None)
    this_year = (month, int(day) if day else 1) <= (today.month, today.day)
    return _of_calendar(today.year - (not this_year), month, int(day) if day else None)


def _is_month(match: re.Match[str]) -> bool:
    """Tell the months May and March from "may I" and "a march": they stand after `in`, or inside with a capital."""
    before = match.string[: match.start()].rstrip().casefold()
    return before.endswith((" in", " of", " last", " this", " since")) or (before != "" and match[2][0].isupper())


def _year(match: re.Match[str], today: date) -> tuple[date, date] | None:
    year = int(match.group(1))
    return date(year, 1, 1), date(year + 1, 1, 1)


def _relative(match: re.Match[str], today: date) -> tuple[date, date] | None:
    named, count, unit = match.groups()
    if count:
        return _ago(_counted(count.casefold()), unit.casefold(), today)
    how, _, what = named.casefold().rpartition(" ")
    one = timedelta(days=1)
    monday = today - today.weekday() * one
    match how, what:
        case "", "today":
            return today, today + one
        case _, "yesterday":
            begin = today - (2 if how else 1) * one
            return begin, begin + one
        case "this", "week":
            return monday, monday + 7 * one
        case _, "week":
            return monday - 7 * one, monday
        case _, "weekend":
            saturday = monday + (5 if how == "this" else -2) * one
            return saturday, saturday + 2 * one
        case _, "month":
            first = today.replace(day=1) if how == "this" else (today.replace(day=1) - one).replace(day=1)
            return _of_calendar(first.year, first.month, None)
        case _, "year":
            year = today.year - (how != "this")
            return date(year, 1, 1), date(year + 1, 1, 1)
        case _:
            back = (today.weekday() - DAYS.index(what) - 1) % 7 + 1
            return today - back * one, today - (back - 1) * one


def _counted(word: str) -> int:
    if word.isdigit():
        return int(word)
    return _NUMBERS.index(word) if word in _NUMBERS else 1  # a, an


def _ago(count: int, unit: str, today: date) -> tuple[date, date] | None:
    """Return a span around a time that lies so far back, as wide as such words are vague."""
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[unit] * count
    slack = {"day": 0, "week": 3, "month": 15, "year": 180}[unit]
    middle = today - timedelta(days=days)
    return middle - timedelta(days=slack), middle + timedelta(days=slack + 1)


def _of_calendar(year: int, month: int, day: int | None) -> tuple[date, date] | None:
    try:
        begin = date(year, month, day or 1)
        if day:
            return begin, begin + timedelta(days=1)
        return begin, date(year + month // 12, month % 12 + 1, 1)
    except (ValueError, OverflowError):
        return None  # no such day


def _milliseconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
