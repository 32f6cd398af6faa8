"""Images and files that nobody could read are refused where they come in."""

from typing import Any

import pytest

from sapwood import Agent
from sapwood.core.errors import ConfigError
from sapwood.core.media import media_problem
from sapwood.core.messages import File, Image, Text
from sapwood.core.render_result import render_result
from sapwood.testing import says, scripted

WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "neither data nor url"),
    ({"data": b"\x89PNG"}, "its data is bytes; give base64"),
    ({"data": ""}, "its data is empty"),
    ({"data": "not base64!"}, "no base64"),
    ({"data": "aGk"}, "no base64"),
    ({"data": "aGk=\naGk="}, "no base64"),
    ({"data": "data:image/png;base64,aGk="}, "is a data: URL"),
    ({"data": "é" * 4}, "no base64"),
    ({"url": ""}, "is no address on the web"),
    ({"url": "file:///etc/passwd"}, "is no address on the web"),
    ({"url": "/tmp/a.png"}, "is no address on the web"),
    ({"url": "https://e.org/a b"}, "is no address on the web"),
    ({"url": "https://e.org/a\r\nb"}, "is no address on the web"),
    ({"url": 5}, "is no address on the web"),
    ({"data": "aGk=", "media_type": "image/png\r\nx: y"}, "media_type"),
    ({"data": "aGk=", "media_type": "png"}, "media_type"),
    ({"data": "aGk=", "media_type": None}, "media_type"),
]


@pytest.mark.parametrize("kind", [Image, File])
@pytest.mark.parametrize(("fields", "said"), WRONG)
def test_what_nobody_could_read_is_refused_in_a_prompt_and_told_in_a_result(kind: Any, fields: Any, said: str) -> None:
    part = kind(**fields)
    word = part.type
    model = scripted(says("A chart."))
    with pytest.raises(ConfigError, match=f"the {word} in the prompt cannot be sent: .*{said}"):
        list(Agent(llm=model).chat(["What is it?", part]))
    assert not model.requests
    shown = render_result(part)
    assert shown.parts == ()
    assert shown.text.startswith(f"[The {word} is left out: ")
    assert said in shown.text
    assert render_result([Text("see"), part]).text.startswith("see\n[The ")


@pytest.mark.parametrize(
    "part",
    [
        Image("aGk="),
        Image(url="HTTPS://e.org/a.png?b=c"),
        File(url="gs://bucket/a.pdf"),
        File("aGk=", "text/plain; charset=utf-8"),
        File("aGk=", "application/vnd.ms-excel"),
    ],
)
def test_what_can_be_read_is_taken_as_it_is(part: Image | File) -> None:
    assert media_problem(part) == ""
    assert render_result(part).parts == (part,)
