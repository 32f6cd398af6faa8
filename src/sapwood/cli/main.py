"""The `sapwood` command: its arguments and the table of its commands.

Law: nothing heavy is imported before a command runs, so that `--help` is at once.
"""

import argparse
import sys
from collections.abc import Callable, Sequence

from sapwood.cli.arguments import add_context, add_ingest, add_memory, add_runs, add_serve


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = _parser().parse_args(arguments)
    if options.command is None:
        _parser().print_help()
        return 2
    commands = {"runs": _runs, "context": _context, "memory": _memory, "ingest": _ingest, "serve": _serve}
    return commands.get(options.command, _chat)(options)


def _parser() -> argparse.ArgumentParser:
    import sapwood

    parser = argparse.ArgumentParser(prog="sapwood", description="Agents whose context always fits.")
    parser.add_argument("--version", action="version", version=f"sapwood {sapwood.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    chat = commands.add_parser("chat", help="talk to an agent in the terminal")
    chat.add_argument("agent", nargs="?", help="your own agent as module:name; without it, a plain assistant")
    chat.add_argument("--model", help="provider/model, or the path of a GGUF file; without it, the best there is")
    chat.add_argument("--base-url", help="another server that speaks the provider's protocol")
    chat.add_argument("--system", help="the system prompt of the plain assistant")
    add_serve(commands)
    add_context(commands)
    add_memory(commands)
    add_ingest(commands)
    add_runs(commands)
    return parser


def _chat(options: argparse.Namespace) -> int:
    def chat() -> int:
        from sapwood.cli.chat import run_chat

        return run_chat(options.agent, model=options.model, base_url=options.base_url, system=options.system)

    return _told(chat)


def _context(options: argparse.Namespace) -> int:
    def context() -> int:
        from sapwood.cli.context import run_context

        return run_context(options)

    return _told(context)


def _memory(options: argparse.Namespace) -> int:
    def memory() -> int:
        from sapwood.cli.memory import run_memory

        return run_memory(options)

    return _told(memory)


def _ingest(options: argparse.Namespace) -> int:
    def ingest() -> int:
        from sapwood.cli.ingest import run_ingest

        return run_ingest(options)

    return _told(ingest)


def _serve(options: argparse.Namespace) -> int:
    def serve() -> int:
        from sapwood.cli.serve import run_serve

        return run_serve(options)

    return _told(serve, extra="server")


def _runs(options: argparse.Namespace) -> int:
    def runs() -> int:
        from sapwood.cli.runs import run_runs

        return run_runs(options)

    return _told(runs)


def _told(command: Callable[[], int], *, extra: str = "cli") -> int:
    """Run a command; what it cannot do is told in one line. extra: what it needs of this package."""
    from sapwood.core.errors import SapwoodError

    try:
        return command()
    except ModuleNotFoundError as error:
        print(f'{error.name} is not installed; run: pip install "sapwood[{extra}]"', file=sys.stderr)
        return 1
    except SapwoodError as error:
        print(f"sapwood: {error}", file=sys.stderr)
        return 1
