"""The times that texts and questions name."""

from datetime import UTC, datetime

import pytest

from sapwood.memory.times import asks_when, names_a_time, spans_of

NOW = int(datetime(2024, 3, 14, 15, tzinfo=UTC).timestamp()) * 1000  # a Thursday

SPANS = {
    "What did we say on 2023-05-07?": "2023-05-07 2023-05-08",
    "What did we say in 2023-05?": "2023-05-01 2023-06-01",
    "What happened on 7 May 2023?": "2023-05-07 2023-05-08",
    "What happened on the 7th of May, 2023?": "2023-05-07 2023-05-08",
    "What happened on May 7th, 2023?": "2023-05-07 2023-05-08",
    "What happened in December 2023?": "2023-12-01 2024-01-01",
    "Who came in december?": "2023-12-01 2024-01-01",
    "Who came in February?": "2024-02-01 2024-03-01",
    "Who came on March 20?": "2023-03-20 2023-03-21",
    "Who came in March?": "2024-03-01 2024-04-01",
    "who came in may": "2023-05-01 2023-06-01",
    "Who came last May?": "2023-05-01 2023-06-01",
    "Whom did Ann and May meet?": "2023-05-01 2023-06-01",  # a name that is a month is taken for one
    "May I go?": "",
    "may I go on a march?": "",
    "What did we do in 2022?": "2022-01-01 2023-01-01",
    "What did I say today?": "2024-03-14 2024-03-15",
    "What did I say yesterday?": "2024-03-13 2024-03-14",
    "What did I say the day before yesterday?": "2024-03-12 2024-03-13",
    "And this week?": "2024-03-11 2024-03-18",
    "And last week?": "2024-03-04 2024-03-11",
    "And last weekend?": "2024-03-09 2024-03-11",
    "And this weekend?": "2024-03-16 2024-03-18",
    "And last month?": "2024-02-01 2024-03-01",
    "And this month?": "2024-03-01 2024-04-01",
    "And last year?": "2023-01-01 2024-01-01",
    "And this year?": "2024-01-01 2025-01-01",
    "On Monday?": "2024-03-11 2024-03-12",
    "Last Thursday?": "2024-03-07 2024-03-08",
    "Two days ago?": "2024-03-12 2024-03-13",
    "3 days ago?": "2024-03-11 2024-03-12",
    "a week ago": "2024-03-04 2024-03-11",
    "an hour ago": "",
    "On 2023-02-30?": "",
    "In 0000-01?": "",
    "In December 9999?": "",
    "Which tea?": "",
}


@pytest.mark.parametrize(("question", "span"), SPANS.items())
def test_a_question_names_a_span_of_time(question: str, span: str) -> None:
    found = [
        f"{datetime.fromtimestamp(begin / 1000, UTC).date()} {datetime.fromtimestamp(end / 1000, UTC).date()}"
        for begin, end in spans_of(question, NOW)
    ]
    assert " ".join(found) == span


def test_a_question_may_name_several_times() -> None:
    assert len(spans_of("Between May 2023 and 2023-08-01, or in 2021, or yesterday?", NOW)) == 4


@pytest.mark.parametrize(
    "text", ["at 7:30", "on the 3rd", "in 1999", "3.4.2024", "7 pm", "gestern", "昨天去了", "next summer"]
)
def test_texts_with_a_time(text: str) -> None:
    assert names_a_time(text)


@pytest.mark.parametrize("text", ["at seven", "1 2 3", "maybe", "monolith", ""])
def test_texts_without_a_time(text: str) -> None:
    assert not names_a_time(text)


@pytest.mark.parametrize(
    "question", ["When did she come?", "What year was it?", "Wann kam sie?", "How long ago?", "いつ来ましたか"]
)
def test_questions_for_a_time(question: str) -> None:
    assert asks_when(question)


def test_a_whenever_is_not_a_when() -> None:
    assert not asks_when("Whenever she came, we had tea")
