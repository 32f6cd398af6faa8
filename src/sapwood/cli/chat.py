"""`sapwood chat`: talk to an agent in the terminal.

Laws: Ctrl-C stops the turn and not the program; the history of the session is kept, also of a turn that was
stopped; a failure of the model is shown and the session goes on.
"""

import importlib
import logging
import sys
from collections.abc import Generator
from copy import copy
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sapwood.agent.agent import Agent
from sapwood.cli.ask import ask, asked_extension
from sapwood.cli.ask_store import get
from sapwood.cli.first_model import FirstModel, choose_model
from sapwood.cli.view import TurnView, ledger_table
from sapwood.core.approval import ApprovalDecision, ApprovalRequest
from sapwood.core.errors import ConfigError, LLMError, SapwoodError
from sapwood.core.events import AgentEvent
from sapwood.core.ledger import ContextLedger
from sapwood.core.run import Run
from sapwood.core.transcript import Transcript

HELP = "/context: what the model sees · /clear: forget · /exit or Ctrl-D: end · Ctrl-C: stop a turn"
SYSTEM = "You are a helpful assistant in a terminal. Answer briefly, in Markdown where it helps."


def run_chat(
    agent: str | None = None, *, model: str | None = None, base_url: str | None = None, system: str | None = None
) -> int:
    """Talk until the user ends it, and return the exit code.

    agent: the user's own as `module:name`; a plain assistant on the best model there is without it.

    Raises ConfigError for an agent or a model that cannot be had.
    """
    console = Console(highlight=False)
    if agent is not None:
        Session(load_agent(agent), console).run(f"agent {agent}")
        return 0
    chosen = choose_model(model, base_url=base_url)
    try:
        Session(plain_agent(chosen, system), console).run(f"model {chosen.label}")
    finally:
        chosen.close()
    return 0


def plain_agent(chosen: FirstModel, system: str | None) -> Agent:
    """Return an assistant on this model, planned for the window that it has."""
    window = chosen.provider.profile.context_window or 8_192
    return Agent(
        llm=chosen.provider, max_tokens=window, max_response_tokens=min(4_096, window // 4)
    ).with_system_prompt(system or SYSTEM)


def load_agent(name: str) -> Agent:
    """Return the agent that `module:name` names; the current folder is looked in first.

    Raises ConfigError where there is none.
    """
    found = load_object(name)
    if not isinstance(found, Agent):
        raise ConfigError(f"{name} is {type(found).__name__}, not an Agent")
    return found


def load_object(name: str) -> object:
    """Return what `module:name` names; the current folder is looked in first.

    Raises ConfigError where there is none.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigError(f"give your agent as module:name, for example app:agent, not {name!r}")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise ConfigError(f"there is no module {error.name!r}; run this in the folder that holds it") from error
    found: object = getattr(module, attribute, None)
    if found is None:
        raise ConfigError(f"{attribute!r} in {module_name!r} is nothing, not an Agent")
    return found


_log = logging.getLogger(__name__)


class Session:
    """One conversation in the terminal."""

    def __init__(self, agent: Agent, console: Console) -> None:
        self._agent = agent if agent.can_ask else copy(agent).with_approval(self._ask)
        self._console = console
        self._history = Transcript()
        self._ledger: ContextLedger | None = None

    def _ask(self, request: ApprovalRequest) -> ApprovalDecision:
        answer = ask(self._console, request)
        return answer if isinstance(answer, ApprovalDecision) else ApprovalDecision(approved=False)

    def run(self, label: str) -> None:
        """Ask and answer until the user ends it."""
        self._console.print(Text(f"sapwood chat · {label}", style="bold"))
        self._console.print(Text(HELP, style="dim"))
        while True:
            try:
                line = self._console.input("[bold cyan]› [/]").strip()
            except EOFError:
                self._console.print()
                return
            except KeyboardInterrupt:
                self._console.print(Text("\n(/exit or Ctrl-D ends)", style="dim"))
                continue
            if line in ("/exit", "/quit"):
                return
            if line:
                self._answer(line)

    def _answer(self, line: str) -> None:
        match line:
            case "/context":
                self._console.print(ledger_table(self._ledger))
            case "/clear":
                self._history = Transcript()
                self._console.print(Text("Forgotten.", style="dim"))
            case "/help":
                self._console.print(Text(HELP, style="dim"))
            case _ if line.startswith("/"):
                self._console.print(Text(f"There is no command {line.split()[0]}. {HELP}", style="yellow"))
            case _:
                self._turn(line)

    def _turn(self, prompt: str) -> None:
        if not self._went_on():
            return
        keeps = self._agent.keeping.conversations is not None
        events = self._agent.stream(prompt, messages=() if keeps else self._history)
        self._shown(events)
        while (run_id := self._waiting()) is not None:
            try:
                answers = {request.id: ask(self._console, request) for request in self._requests()}
                self._shown(self._agent.resume(run_id, answers))
            except SapwoodError as error:
                self._console.print(Text(f"The turn could not go on: {error}", style="red"))
                return

    def _went_on(self) -> bool:
        """Go on with what waits on the conversation, of this session or an earlier one; False where it still waits."""
        while (run := self._paused()) is not None:
            self._console.print(
                Text("An earlier turn of this conversation waits; first go on with that.", style="yellow")
            )
            requests, extend = run.waiting(), None
            if not requests and not run.can_go_on():
                extend = asked_extension(self._console, run)
            try:
                answers = {request.id: ask(self._console, request) for request in requests}
                went_on = self._shown(self._agent.resume(run.run_id, answers, extend=extend))
            except SapwoodError as error:
                self._console.print(Text(f"The turn could not go on: {error}", style="red"))
                return False
            if not went_on:
                return False
        return True

    def _paused(self) -> Run | None:
        keeping = self._agent.keeping
        if keeping.runs is None or keeping.conversation_id is None or keeping.on_pending == "deny":
            return None
        for item in get(keeping.runs.waiting, keeping.conversation_id):
            run: Run = get(keeping.runs.load, item.run_id)
            if item.status != "running" and run.phase == "paused":
                return run
        return None

    def _requests(self) -> tuple[ApprovalRequest, ...]:
        last = self._agent.last_turn
        return last.waiting if last is not None and last.stopped_by == "approval" else ()

    def _waiting(self) -> str | None:
        """Return the run that waits for the person at the terminal, None where none does."""
        return next((request.run_id for request in self._requests()), None)

    def _shown(self, events: Generator[AgentEvent, None, None]) -> bool:
        """Show a turn, and tell whether it came to an end by itself; a failure is shown, and the session goes on."""
        is_whole = False
        try:
            with TurnView(self._console) as view:
                for event in events:
                    view.show(event)
            is_whole = True
        except KeyboardInterrupt:
            events.close()
            self._console.print(Text("Stopped.", style="yellow"))
        except LLMError as error:
            self._console.print(Text(f"The model did not answer: {error}", style="red"))
        except Exception as error:  # noqa: BLE001 - see below
            # The door of the terminal: whatever a user's agent raises is shown, and the session goes on.
            self._console.print(Text(f"The turn failed: {type(error).__name__}: {error}", style="red"))
            _log.debug("a turn failed", exc_info=error)
        self._history = self._agent.last_messages
        last = self._agent.last_turn
        if last is not None and last.rounds:
            self._ledger = last.rounds[-1].ledger
        return is_whole
