"""The arguments of the larger commands; nothing heavy is imported here, so that `--help` is at once."""

from typing import Any


def add_context(commands: Any) -> None:
    """Add `context` to the command."""
    context = commands.add_parser("context", help="what a model sees of an agent's context, or saw in a stored run")
    context.add_argument("prompt", nargs="?", help="what the user would say; no model is asked")
    context.add_argument("--agent", help="your agent as module:name")
    context.add_argument("--run", help="a stored run, by its id or the beginning of it")
    context.add_argument("--round", type=int, help="one round of it, counted from 0")
    context.add_argument("--db", help="the SQLite file of the store; without it, the agent's store")
    context.add_argument("--json", action="store_true", help="as JSON, for a program")


def add_runs(commands: Any) -> None:
    """Add `runs` and what it can do to the command."""
    runs = commands.add_parser("runs", help="look at stored runs, answer them, go on with them")
    actions = runs.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the runs that are not over")
    listing.add_argument("--all", action="store_true", help="those that are over as well")
    listing.add_argument("--conversation", help="of this conversation alone")
    listing.add_argument("--json", action="store_true", help="as JSON, for a program")
    show = actions.add_parser("show", help="one run: its events, and what it waits for")
    approve = actions.add_parser("approve", help="say yes to a call")
    approve.add_argument("--input", help="run it with this input, as JSON")
    approve.add_argument("--result", help="of a tool that runs outside: its result, as JSON or text")
    deny = actions.add_parser("deny", help="say no to a call")
    deny.add_argument("--reason", help="shown to the model")
    resume = actions.add_parser("resume", help="go on with a run; needs --agent")
    resume.add_argument("--extend", action="append", default=[], metavar="KIND=AMOUNT", help="raise a limit")
    cancel = actions.add_parser("cancel", help="end a run that nobody goes on with")
    for action in (show, approve, deny, resume, cancel):
        action.add_argument("run", help="its id, or the beginning of it")
    for action in (approve, deny):
        action.add_argument("call", nargs="?", help="which call, by its whole id; may be left out where only one waits")
        action.add_argument("--by", help="who answers, for the record")
    for action in (listing, show, approve, deny, resume, cancel):
        action.add_argument("--db", help="the SQLite file of the store")
        action.add_argument("--agent", help="your agent as module:name; its store is used")
