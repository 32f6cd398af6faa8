"""The rungs by which a history becomes shorter, each for itself."""

import pytest

from sapwood.context.ladder import clear_results, drop_superseded, is_kept, is_summary, result_id, trim_results
from sapwood.context.source import Exchange, History
from sapwood.core.messages import Image, Message, Summary, Text, ToolCall, ToolResult
from sapwood.core.transcript import as_it_was, shortened, with_results

LONG = "word " * 300
LATER = (Message.user("and then?"),)


def asked(key: str, n: object = 1, text: str = LONG, **more: object) -> Exchange:
    result = ToolResult(key, "look", (Text(text),), **more)  # type: ignore[arg-type]
    return (Message.assistant(ToolCall("look", {"n": n}, key)), Message("tool", (result,)))


def texts(history: History) -> list[str]:
    return [result.text for exchange in history for message in exchange for result in message.tool_results]


def word(result: ToolResult, tokens: int) -> str:
    return f"[{result.name}: {tokens}]"


@pytest.mark.parametrize(("keep", "cleared"), [(0, 3), (1, 3), (2, 2), (9, 0)])
def test_all_results_but_the_newest_are_cleared_and_never_one_that_was_not_seen(keep: int, cleared: int) -> None:
    history = History([asked(f"r{place}c0", place) for place in range(4)])
    shown = texts(clear_results(history, word, keep=keep))
    assert [text.startswith("[look") for text in shown] == [True] * cleared + [False] * (4 - cleared)


def test_what_is_short_pinned_or_loaded_tools_is_not_cleared() -> None:
    pinned = tuple(message.replace(pinned=True) for message in asked("r1c0"))
    history = History([asked("r0c0", text="short"), pinned, asked("r2c0", loaded=("tool",)), asked("r3c0"), LATER])
    shown = clear_results(history, word, keep=0)
    assert texts(shown)[:3] == ["short", LONG, LONG]
    assert texts(shown)[3].startswith("[look")
    assert list(shown[:3]) == list(history[:3])


def test_a_word_that_is_no_shorter_than_the_result_is_not_put_in_its_place() -> None:
    history = History([asked("r0c0"), LATER])
    assert list(clear_results(history, lambda result, tokens: LONG * 2, keep=0)) == list(history)


def test_a_cleared_result_keeps_what_it_said_and_its_name() -> None:
    history = History([asked("r0c0"), LATER])
    (before,) = history[0][1].tool_results
    shown = clear_results(trim_results(history, limit=50, note=word), word, keep=0)
    (after,) = shown[0][1].tool_results
    assert after.whole == before.content
    assert result_id(after) == result_id(before)
    assert as_it_was(shown[0][1]) == history[0][1]
    assert as_it_was(history[0][0]) is history[0][0]


def test_a_result_over_the_limit_keeps_its_beginning_and_its_end() -> None:
    text = "begin " + LONG + " end"
    shown = trim_results(History([asked("r0c0", text=text), LATER]), limit=120, note=word)
    assert texts(shown)[0].startswith("begin word")
    assert " end\n[look" in texts(shown)[0]
    assert shown.tokens < 180


def test_an_older_answer_to_the_same_call_is_left_out_once_there_is_a_newer_one_that_worked() -> None:
    history = History([
        asked("r0c0", 1), asked("r1c0", 2), asked("r2c0", 1), asked("r3c0", 2, is_error=True),
    ])  # fmt: skip
    assert [text.startswith("[") for text in texts(drop_superseded(history, word))] == [True, False, False, False]


def test_calls_whose_arguments_have_no_json_are_told_apart_too() -> None:
    history = History([asked("r0c0", "\ud800"), asked("r1c0", "\ud800"), asked("r2c0", "\ud801")])
    assert [text.startswith("[") for text in texts(drop_superseded(history, word))] == [True, False, False]


def test_a_result_without_its_call_is_left_alone() -> None:
    history = History([(Message("tool", (ToolResult("k", "look", (Text(LONG),)),)),), asked("r0c0")])
    assert list(drop_superseded(history, word)) == list(history)


def test_what_is_pinned_or_loaded_tools_is_kept_out_of_summaries() -> None:
    assert is_kept((Message.user("hi", pinned=True),))
    assert is_kept(asked("r0c0", loaded=("tool",)))
    assert not is_kept(asked("r0c0"))
    assert is_summary((Message("user", (Summary("They met."),)),))
    assert not is_summary((Message.user("hi"),))


def test_a_shortened_result_can_be_shortened_again_and_keeps_the_first() -> None:
    result = ToolResult("k", "look", (Text(LONG), Image("aGk=")))
    once = shortened(result, "once")
    assert shortened(once, "twice").whole == result.content
    message = Message("tool", (once, result.replace(key="other")))
    assert with_results(message, {"other": "x"}).tool_results[0] is once
    assert with_results(message, {"third": "x"}) is message
    assert with_results(Message.user("hi"), {"k": "x"}) == Message.user("hi")


def test_a_history_is_a_sequence_that_knows_its_size() -> None:
    history = History([asked("r0c0"), asked("r1c0")], beside=7)
    assert (len(history), history.current, history.beside) == (2, 2, 7)
    assert history.tokens > 600
    assert history.replace(history[:1], current=0).current == 0


def test_what_the_model_has_not_seen_yet_is_cut_only_where_that_is_asked_for() -> None:
    history = History([asked("r0c0")])
    assert list(trim_results(history, limit=50, note=word)) == list(history)
    assert trim_results(history, limit=50, note=word, with_last=True).tokens < 120


def test_pictures_are_not_lost_to_a_cut() -> None:
    shot = ToolResult("r0c0", "draw", (Text(LONG), Image("aGk=")))
    history = History([(Message.assistant(ToolCall("draw", {}, "r0c0")), Message("tool", (shot,))), LATER])
    assert list(trim_results(history, limit=50, note=word)) == list(history)
