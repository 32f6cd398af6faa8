"""The local server: what is refused without a model, and a real model where one is in the cache."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx2
import pytest

from sapwood.core.errors import ConfigError, ProviderNotInstalledError
from sapwood.llm.local import LocalServer, default_chat_template, default_threads
from sapwood.llm.model_files import DEFAULT_MODEL, find_model

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "City name"}},
            "required": ["city"],
        },
    },
}


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    if find_spec("xllamacpp") is None:
        pytest.skip("xllamacpp is not installed: pip install 'sapwood[local]'")
    path = find_model()
    if path is None:
        pytest.skip(f"{DEFAULT_MODEL.name} is not in the cache: python scripts/fetch_model.py")
    with LocalServer(path) as started:
        yield started


def chunks(server: LocalServer, messages: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
    """Ask for a stream and return its JSON events."""
    body = {
        "model": server.model,
        "messages": messages,
        "temperature": 0,
        "max_tokens": 80,
        "stream": True,
        "stream_options": {"include_usage": True},
        **options,
    }
    with httpx2.stream("POST", f"{server.base_url}/chat/completions", json=body, timeout=60) as response:
        assert response.status_code == 200
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def deltas(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [choice["delta"] for event in events for choice in event["choices"]]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(delta.get("content") or "" for delta in deltas(events))


def calls_of(events: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Join the streamed fragments of each tool call."""
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for fragment in (fragment for delta in deltas(events) for fragment in delta.get("tool_calls") or ()):
        index, function = fragment["index"], fragment["function"]
        names[index] = names.get(index, "") + (function.get("name") or "")
        arguments[index] = arguments.get(index, "") + (function.get("arguments") or "")
    return [(names[index], json.loads(arguments[index])) for index in names]


def finish_of(events: list[dict[str, Any]]) -> list[str]:
    return [choice["finish_reason"] for event in events for choice in event["choices"] if choice["finish_reason"]]


def test_a_missing_file_is_a_set_up_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no model file at"):
        LocalServer(tmp_path / "none.gguf")


def test_a_file_of_another_kind_is_a_set_up_error(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>")

    with pytest.raises(ConfigError, match="is not a GGUF file"):
        LocalServer(tmp_path / "page.gguf")


def test_a_damaged_file_is_a_set_up_error(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp")
    (tmp_path / "half.gguf").write_bytes(b"GGUF" + bytes(64))

    with pytest.raises(ConfigError, match="does not load as a model"):
        LocalServer(tmp_path / "half.gguf")


def test_without_the_engine_the_error_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(b"GGUF")
    program = f"""
import sys
sys.modules["xllamacpp"] = None  # how Python notes a module that cannot be imported
from sapwood.llm.local import LocalServer
LocalServer({str(tmp_path / "tiny.gguf")!r})
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert ProviderNotInstalledError.__name__ in done.stderr
    assert 'pip install "sapwood[local]"' in done.stderr


def test_the_threads_leave_room_for_others() -> None:
    assert 1 <= default_threads() <= max(1, (os.cpu_count() or 1) // 2)


def test_the_template_avoids_the_models_own_call_token() -> None:
    assert "<function_call>" in default_chat_template()
    assert "<tool_call>" not in default_chat_template()


def test_it_tells_its_model_and_listens_on_loopback(server: LocalServer) -> None:
    assert server.base_url.startswith("http://127.0.0.1:")
    assert server.base_url.endswith("/v1")

    listed = httpx2.get(f"{server.base_url}/models").json()

    assert [model["id"] for model in listed["data"]] == [server.model]


def test_text_streams_with_usage(server: LocalServer) -> None:
    events = chunks(server, [{"role": "user", "content": "Say hello."}])

    assert text_of(events)
    assert finish_of(events) == ["stop"]
    assert events[-1]["usage"]["completion_tokens"] > 0


def test_a_call_streams_as_a_call_and_only_one(server: LocalServer) -> None:
    events = chunks(server, [{"role": "user", "content": "What's the weather in Paris?"}], tools=[WEATHER])

    assert calls_of(events) == [("get_weather", {"city": "Paris"})]
    assert finish_of(events) == ["tool_calls"]
    assert not text_of(events).strip()


def test_a_result_is_answered_in_words(server: LocalServer) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    messages = [
        {"role": "user", "content": "What's the weather in Paris?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": '{"temperature": 14, "sky": "light rain"}'},
    ]

    events = chunks(server, messages, tools=[WEATHER])

    assert calls_of(events) == []
    assert "14" in text_of(events)


def test_the_same_beginning_is_read_from_the_cache(server: LocalServer) -> None:
    first = [{"role": "user", "content": "Hello! I am Ada, from Lisbon."}]
    chunks(server, first, tools=[WEATHER])

    again = chunks(server, [*first, {"role": "assistant", "content": "Hello Ada!"}, first[0]], tools=[WEATHER])

    usage = again[-1]["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > 0.8 * usage["prompt_tokens"]


def test_a_prompt_beyond_the_context_is_refused_with_its_size(server: LocalServer) -> None:
    body = {"messages": [{"role": "user", "content": "word " * 9000}]}

    refused = httpx2.post(f"{server.base_url}/chat/completions", json=body, timeout=60)

    assert refused.status_code == 400
    assert refused.json()["error"]["type"] == "exceed_context_size_error"


@pytest.mark.soak
def test_it_prints_nothing_and_ends_in_mid_reply(server: LocalServer) -> None:
    program = f"""
import httpx2
from sapwood.llm.local import LocalServer
server = LocalServer({str(server.path)!r})
body = {{"messages": [{{"role": "user", "content": "Tell a long story."}}], "stream": True, "max_tokens": 2000}}
with httpx2.stream("POST", server.base_url + "/chat/completions", json=body, timeout=60) as response:
    next(response.iter_lines())
    server.close()
server.close()
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
