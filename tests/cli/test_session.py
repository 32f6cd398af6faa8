"""The session of `sapwood chat` in this process: what is typed and what shows."""

import io
from typing import Any

import pytest
from rich.console import Console

from sapwood import Agent, ContextLedger, LedgerLine, tool
from sapwood.cli.chat import Session, load_agent, run_chat
from sapwood.cli.main import main
from sapwood.cli.view import TurnView, ledger_table
from sapwood.core.diagnostics import TurnDiagnostics
from sapwood.core.errors import ServerError
from sapwood.core.events import (
    CompactionFinished,
    ContextUpdated,
    MessageInterrupted,
    ProviderWaiting,
    RoundRestarted,
    ServerToolStarted,
    TextDelta,
    TurnFinished,
)
from sapwood.core.messages import Message
from sapwood.testing import call, calls, fails, says, scripted


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def session(agent: Agent, lines: list[str], monkeypatch: pytest.MonkeyPatch, *, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, highlight=False)
    typed = iter(lines)

    def read(*arguments: Any, **options: Any) -> str:
        line = next(typed, None)
        if line is None:
            raise EOFError
        if line == "^C":
            raise KeyboardInterrupt
        return line

    monkeypatch.setattr(console, "input", read)
    Session(agent, console).run("model test")
    return out.getvalue()


@pytest.mark.parametrize("terminal", [False, True])
def test_a_session_answers_keeps_its_history_and_shows_its_context(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    repeat = lambda request: says(f"{len(request.transcript)} messages")  # noqa: E731
    agent = Agent(llm=scripted(calls(call("add", {"a": 1, "b": 2}), text="let me"), says("**3**"), repeat)).with_tools(
        [add]
    )
    shown = session(
        agent, ["1+2?", "/context", "/help", "^C", "/odd", "and?", "/clear", "/exit"], monkeypatch, terminal=terminal
    )
    for text in ("add", "3", "total (estimated)", "/exit", "There is no command /odd", "messages", "Forgotten."):
        assert text in shown


def test_a_failure_and_an_interrupt_are_shown_and_the_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(request: Any) -> Any:
        raise KeyboardInterrupt

    agent = Agent(llm=scripted(fails(ServerError("down", is_transient=False), after="half"), interrupt, says("fine")))
    shown = session(agent, ["a", "b", "c"], monkeypatch)
    for text in ("half", "interrupted", "The model did not answer: down", "Stopped.", "fine"):
        assert text in shown


def test_the_view_shows_what_happens_beside_the_text() -> None:
    out = io.StringIO()
    console = Console(file=out, width=100)
    with TurnView(console) as view:
        view.show(TextDelta(text="hello"))
        view.show(ContextUpdated(source="tools", op="loaded", tools=("a",)))
        view.show(ContextUpdated(source="memory", op="failed", error="OSError"))
        view.show(CompactionFinished(tokens_before=10, tokens_after=5))
        view.show(MessageInterrupted(message=Message.assistant("x")))
        view.show(ProviderWaiting(round=0, seconds=2.0, reason="overloaded"))
        view.show(RoundRestarted(round=0, model="b/m"))
        view.show(ServerToolStarted(tool_call_id="s", name="web_search"))
        view.show(TurnFinished(text="", diagnostics=TurnDiagnostics(stopped_by="max_rounds")))
    shown = out.getvalue()
    for text in (
        "hello",
        "tools: loaded a",
        "memory: failed OSError",
        "from 10 to 5",
        "interrupted",
        "waiting 2.0 s: overloaded",
        "starts again with b/m",
        "the provider runs web_search",
        "ended: max_rounds",
    ):
        assert text in shown


def test_a_ledger_shows_what_was_left_out_and_why() -> None:
    out = io.StringIO()
    line = LedgerLine("memory", "3 memories", "memory", 900, "skipped", "900 tokens do not fit the 10 that are left")
    ledger = ContextLedger({"prompt": 5, "tools": 0}, (line,), window=100, reported_tokens=7, cached_tokens=2)
    Console(file=out, width=120).print(ledger_table(ledger))
    shown = out.getvalue()
    for text in ("prompt", "5.0 %", "memory: 3 memories", "skipped: 900 tokens", "2 cached"):
        assert text in shown
    assert "tools " not in shown


def test_an_agent_of_ones_own_is_loaded_and_talked_to(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_app.py").write_text(
        "from sapwood import Agent\nfrom sapwood.testing import says, scripted\nagent = Agent(llm=scripted(says('own')))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("hi\n"))
    assert run_chat("own_app:agent") == 0
    assert "own" in capsys.readouterr().out
    assert isinstance(load_agent("own_app:agent"), Agent)
    assert main(["chat", "own_app:nothing"]) == 1


def test_whatever_an_agent_raises_is_shown_and_the_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = session(Agent(llm=scripted(fails(ValueError("boom")), says("fine"))), ["a", "b"], monkeypatch)
    assert "The turn failed: ValueError: boom" in shown
    assert "fine" in shown
