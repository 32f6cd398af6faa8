"""JSON with a version: what is read back, and what is refused with a reason."""

import pytest

from sapwood.core.codec import VERSION, dump_run, event_from_json, from_json, load_run, to_json
from sapwood.core.events import TextDelta
from sapwood.core.messages import Message, Text
from sapwood.core.run import Run

RUN = Run("r", phase="idle", messages=(Message.user("go"),))


def test_a_run_is_stored_with_its_version() -> None:
    assert dump_run(Run("r")) == b'{"v":1,"value":{"type":"run","run_id":"r"}}'
    assert load_run(dump_run(RUN)) == load_run(dump_run(RUN).decode()) == RUN


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (b"", "not a stored run"),
        (b"{", "not a stored run"),
        (b'"run"', "not a stored run"),
        (b'{"value":{}}', "not a stored run"),
        (b'{"v":"1","value":{}}', "not a stored run"),
        (b"\xff", "not a stored run"),
        (f'{{"v":{VERSION + 1},"value":{{}}}}', rf"newer version \({VERSION + 1}\); this one reads up to {VERSION}"),
        (b'{"v":1,"value":{"type":"message"}}', "not a Run"),
        (b'{"v":1,"value":{"type":"run","phase":"asleep"}}', "not a Run"),
    ],
)
def test_what_is_no_run_is_refused_with_a_reason(source: bytes | str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        load_run(source)


@pytest.mark.parametrize("source", [b"", b"[]", b'{"type":"text"}', b'{"type":"text_delta"}', b'{"text":"hi"}', "{"])
def test_what_is_no_event_is_refused(source: bytes | str) -> None:
    with pytest.raises(ValueError, match="not an event"):
        event_from_json(source)


@pytest.mark.parametrize("source", [b"", b'{"type":"thinking","text":"a"}', b'{"type":"text","text":1}'])
def test_what_is_of_another_class_is_refused(source: bytes) -> None:
    with pytest.raises(ValueError, match="not a Text"):
        from_json(source, Text)


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert event_from_json('{"type":"text_delta","text":"a","later":1}') == TextDelta(text="a")
    assert from_json(to_json(Text("a"))[:-1] + b',"later":1}', Text) == Text("a")
