"""The best model there is: the order in which it is looked for, with real servers on loopback."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from sapwood import Agent, ConfigError, ProviderNotInstalledError
from sapwood.cli import first_model
from sapwood.cli.chat import plain_agent, run_chat
from sapwood.cli.first_model import choose_model
from sapwood.cli.main import main
from support.load_module import load_module


class Listing(BaseHTTPRequestHandler):
    body = json.dumps({"data": [{"id": "tiny"}, {"id": "other"}]}).encode()

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture
def listing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def nothing_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(first_model, "LOCAL_SERVERS", ())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_key_in_the_environment_comes_first(monkeypatch: pytest.MonkeyPatch, listing: str) -> None:
    monkeypatch.setattr(first_model, "LOCAL_SERVERS", (first_model.LocalLocation("Fake", listing, "llamacpp"),))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert choose_model().provider.profile.provider == "openai"
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert choose_model().provider.profile.provider == "gemini"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    assert choose_model().provider.profile.provider == "anthropic"
    monkeypatch.setenv("SAPWOOD_MODEL", "claude-opus-4-8")
    assert choose_model().label == "anthropic/claude-opus-4-8"


def test_a_server_that_answers_comes_next(monkeypatch: pytest.MonkeyPatch, listing: str) -> None:
    monkeypatch.setattr(
        first_model,
        "LOCAL_SERVERS",
        (
            first_model.LocalLocation("Nobody", "http://127.0.0.1:9/v1", "ollama"),
            first_model.LocalLocation("Fake", listing, "ollama"),
        ),
    )
    chosen = choose_model()
    assert chosen.label == f"tiny on Fake ({listing})"
    assert chosen.provider.profile.origin == "ollama/tiny"
    assert chosen.is_real
    monkeypatch.setenv("OPENAI_BASE_URL", listing)
    assert choose_model().label == f"openai/tiny at {listing}"


def test_without_anything_a_script_says_so_plainly() -> None:
    chosen = choose_model()
    assert not chosen.is_real
    text = "".join(plain_agent(chosen, None).chat("hello"))
    assert "No model is connected" in text
    for way in ("ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "sapwood[local]"):
        assert way in text
    chosen.close()


def test_what_was_asked_for_is_taken(listing: str) -> None:
    assert choose_model("openai/gpt-4o").provider.profile.model == "gpt-4o"
    assert choose_model(base_url=listing).label.startswith("tiny on server")
    with pytest.raises(ConfigError, match="no server answers"):
        choose_model(base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ProviderNotInstalledError, match="nobody"):
        choose_model("nobody/model")
    with pytest.raises(ConfigError, match="gguf"):
        choose_model("missing.gguf")


def test_a_server_that_answers_nonsense_is_no_server(monkeypatch: pytest.MonkeyPatch, listing: str) -> None:
    monkeypatch.setattr(first_model, "LOCAL_SERVERS", (first_model.LocalLocation("Fake", listing, "llamacpp"),))
    for body in (b"not json", b"[]", b'{"data": "x"}', b'{"data": []}'):
        monkeypatch.setattr(Listing, "body", body)
        assert not choose_model().is_real


def test_a_plain_agent_plans_for_the_models_window() -> None:
    agent = plain_agent(choose_model("anthropic/claude-haiku-4-5"), "Be brief.")
    assert isinstance(agent, Agent)
    assert agent._config.max_tokens == 200_000
    assert agent._config.system_prompt == "Be brief."


def test_the_command_answers_from_a_pipe(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("hi\n"))
    assert run_chat() == 0
    assert "No model is connected" in capsys.readouterr().out


def test_a_problem_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chat", "--model", "nobody/model"]) == 1
    assert capsys.readouterr().err.startswith("sapwood: ")


def test_a_model_file_is_fetched_only_where_there_is_no_other_model(
    monkeypatch: pytest.MonkeyPatch, listing: str
) -> None:
    script = load_module(Path(__file__).parents[2] / "scripts" / "fetch_model.py")
    fetched: list[int] = []
    monkeypatch.setattr(script, "_fetch", lambda: fetched.append(0))
    assert script.main(["--if-needed"]) == 0
    assert fetched == [0]
    monkeypatch.setattr(first_model, "LOCAL_SERVERS", (first_model.LocalLocation("Fake", listing, "llamacpp"),))
    script.main(["--if-needed"])
    monkeypatch.setattr(first_model, "LOCAL_SERVERS", ())
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    script.main(["--if-needed"])
    assert fetched == [0]
