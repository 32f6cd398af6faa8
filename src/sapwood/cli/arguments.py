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


def add_serve(commands: Any) -> None:
    """Add `serve` to the command."""
    serve = commands.add_parser("serve", help="an agent behind HTTP, with a page to look at it")
    serve.add_argument("agent", nargs="?", help="your agent (or application) as module:name; without it, a plain one")
    serve.add_argument("--model", help="of the plain assistant: provider/model, or the path of a GGUF file")
    serve.add_argument("--base-url", help="another server that speaks the provider's protocol")
    serve.add_argument("--system", help="the system prompt of the plain assistant")
    serve.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    serve.add_argument("--port", type=int, default=8000, help="the port, 0 for a free one (8000)")
    serve.add_argument("--db", help="the SQLite file of runs and threads; without it, the agent's store, or none")
    serve.add_argument("--token-env", metavar="NAME", help="ask for the bearer token in this environment variable")
    serve.add_argument("--origin", action="append", default=[], help="another site whose pages may ask")
    serve.add_argument("--name", action="append", metavar="HOST", help="a name by which this server may be called")
    serve.add_argument("--no-page", action="store_true", help="only the interface, without the page")


def add_ingest(commands: Any) -> None:
    """Add `ingest` to the command."""
    ingest = commands.add_parser("ingest", help="bring the documents of a file or a folder into a store, or up to date")
    ingest.add_argument("path", help="a file or a folder: text, Markdown, HTML, PDF, code")
    ingest.add_argument("--db", default="app.db", help="the SQLite file of the store (app.db)")
    ingest.add_argument("--namespace", default="/", help="where the documents lie; folders below add theirs")
    ingest.add_argument("--glob", action="append", metavar="PATTERN", help="only files that fit, by name or path")
    ingest.add_argument("--ignore", action="append", default=[], metavar="PATTERN", help="leave these out as well")
    ingest.add_argument("--max-bytes", type=int, help="of a file (20,000,000)")
    ingest.add_argument("--dry-run", action="store_true", help="only say what would be done")
    ingest.add_argument("--json", action="store_true", help="as JSON, for a program")


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


def add_memory(commands: Any) -> None:
    """Add `memory` and what it can do to the command."""
    memory = commands.add_parser("memory", help="look into a memory, add to it, correct it, forget")
    actions = memory.add_subparsers(dest="action", metavar="ACTION", required=True)
    add = actions.add_parser("add", help="keep a text")
    add.add_argument("--origin", choices=("user", "model", "tool", "web", "import"), default="user", help="who said it")
    search = actions.add_parser("search", help="what is found for a question")
    why = actions.add_parser("why", help="the same, with why each is found")
    listing = actions.add_parser("list", help="what is remembered, oldest first")
    listing.add_argument("--limit", type=int, help="only the newest so many")
    history = actions.add_parser("history", help="what a record corrected, and what corrected it")
    confirm = actions.add_parser("confirm", help="let a record out of quarantine")
    correct = actions.add_parser("correct", help="say what is true instead")
    correct.add_argument("id", help="of the record that is wrong, or the beginning of it")
    forget = actions.add_parser("forget", help="remove records, and what was derived from them")
    forget.add_argument("id", nargs="*", help="their ids, or the beginnings of them")
    forget.add_argument("--all", action="store_true", help="all of this scope")
    forget.add_argument("--everything", action="store_true", help="with --all and no scope: all of the file")
    export = actions.add_parser("export", help="write every record as a line of JSON")
    export.add_argument("file", nargs="?", help="where to; without it, to the terminal")
    bring = actions.add_parser("import", help="add exported records, each once")
    bring.add_argument("file", help="a file of `export`, - for what is piped in")
    stats = actions.add_parser("stats", help="how much there is")
    check = actions.add_parser("check", help="whether index and records agree")
    reindex = actions.add_parser("reindex", help="make the index anew")
    for action in (add, correct):
        action.add_argument("text")
    for action in (search, why):
        action.add_argument("query")
        action.add_argument("-k", type=int, default=5, help="records at most (5)")
    for action in (history, confirm):
        action.add_argument("id", help="its id, or the beginning of it")
    for action in (add, search, why, listing, forget):
        action.add_argument("--kind", help="of this kind, such as fact or turn")
    for action in (search, why, listing, history, stats):
        action.add_argument("--json", action="store_true", help="as JSON, for a program")
    everywhere = (add, search, why, listing, history, confirm, correct, forget, export, bring, stats, check, reindex)
    for action in everywhere:
        action.add_argument("--db", required=True, help="the SQLite file of the store")
        action.add_argument("--user", help="of this user alone")
        action.add_argument("--agent", help="of this agent alone")
        action.add_argument("--conversation", help="of this conversation alone")
        action.add_argument("--namespace", help="of this namespace and below, its parts with / between them")
        action.add_argument("--vectors", action="store_true", help="by meaning, too; needs sapwood[vectors]")
