"""Tools as the loop sees them, without pydantic: schemas, bound functions, batches of calls.

Laws: a tool's function never sees the recorded arguments, only a checked copy; consecutive read-only
calls form one batch and a write stands alone.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast

import msgspec

from sapwood.core.json_object import read_object
from sapwood.core.messages import ToolCall
from sapwood.core.scope import RetrievalScope
from sapwood.core.struct import Data

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]
JsonObject: TypeAlias = dict[str, Any]

CALL_TOOL = "call_tool"
"""The one fixed tool through which `dispatch` reaches all others."""
SEARCH_TOOLS = "search_tools"
"""The meta-tool by which a model finds tools that are not in its list."""
ACTIVATE_SKILL = "activate_skill"
"""The meta-tool by which a model gets a skill's instructions and tools."""
READ_SKILL_FILE = "read_skill_file"
"""The tool that reads a file of a skill's folder."""
RUN_SKILL_SCRIPT = "run_skill_script"
"""The tool that runs a script of a skill's folder, where that is allowed."""
FINAL_RESULT = "final_result"
"""The tool by which a model hands in a structured output."""


class ToolSchema(Data, frozen=True, tag="tool_schema"):
    """What a model is told of a tool, in no provider's words.

    input_schema: a JSON Schema of type object. defer: the provider may keep it out of the prompt until
    it is searched for. native: the provider's own word for just this tool, sent in place of description and
    schema where the model's profile has it (`native_tools`).
    """

    type: ClassVar[Literal["tool_schema"]] = "tool_schema"
    name: str
    description: str = ""
    input_schema: JsonObject = msgspec.field(default_factory=lambda: {"type": "object", "properties": {}})
    input_examples: tuple[JsonObject, ...] = ()
    defer: bool = False
    native: str = ""


CALL_SCHEMA = ToolSchema(
    CALL_TOOL,
    "Run a tool that was found or activated before, by its name, with arguments that fit its schema.",
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "args": {"type": "object"}},
        "required": ["name", "args"],
    },
)
"""The definition of `call_tool`; sources that dispatch their tools share it."""


def call_schema(*, free_objects: bool = True) -> ToolSchema:
    """Return the definition of `call_tool`, in one of two forms.

    free_objects: the arguments are an object; else, for a model that takes no object without declared properties,
    they are a string of JSON.

    >>> call_schema(free_objects=False).input_schema["properties"]["args"]["type"]
    'string'
    """
    if free_objects:
        return CALL_SCHEMA
    args = {"type": "string", "description": 'the arguments as one JSON object, such as {"city": "Paris"}'}
    properties = {"name": {"type": "string"}, "args": args}
    return CALL_SCHEMA.replace(input_schema={**CALL_SCHEMA.input_schema, "properties": properties})


def call_form(*, free_objects: bool = True) -> str:
    """Return how a call of `call_tool` is written, as a model is told.

    >>> call_form()
    '{"name": "...", "args": {...}}'
    """
    return '{"name": "...", "args": {...}}' if free_objects else '{"name": "...", "args": "{...}"} (args as JSON text)'


class ToolContext:
    """What a tool may know of the call that runs it.

    A parameter annotated with this class is filled by the loop and is absent from the schema.
    idempotency_key: the same for every attempt at this call; hand it to the service that is called.
    path: ids of the calls that lead to the turn that made this call; empty at the top.
    scope: which documents the tool may search (`Agent.with_scope`); None for all.
    """

    __slots__ = ("_cancelled", "idempotency_key", "name", "path", "run_id", "scope", "tool_call_key")

    def __init__(
        self,
        *,
        run_id: str = "",
        name: str = "",
        tool_call_key: str = "",
        path: tuple[str, ...] = (),
        scope: RetrievalScope | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        self.run_id = run_id
        self.name = name
        self.tool_call_key = tool_call_key
        self.path = path
        self.scope = scope
        self.idempotency_key = f"{run_id}/{'/'.join((*path, tool_call_key))}"
        self._cancelled = cancelled

    @property
    def cancelled(self) -> bool:
        """The turn was asked to stop; a long plain function should look at this and return."""
        return self._cancelled is not None and self._cancelled()


ApprovalRule: TypeAlias = Callable[[JsonObject], MaybeAwaitable[bool]]
"""Tells whether a call with these arguments needs a person's approval."""


class BoundTool(msgspec.Struct, frozen=True):
    """A tool that can be run: its schema and the functions behind it.

    run: called with the checked arguments and a ToolContext.
    check: raw arguments -> checked and converted ones; raises ToolInputError. It gets a copy.
    read_only: has no effect, so calls may overlap and may be run again after a crash.
    idempotent: has an effect, but repeating it with the same key does no harm.
    requires_approval: a person is asked first; or a rule, given the arguments as JSON, plain or async.
    timeout_seconds: None takes the agent's. max_result_tokens: None takes the agent's.
    external: there is no function here; the result comes from outside while the turn is paused.
    agent: a subagent that is asked in place of a function.
    """

    schema: ToolSchema
    run: Callable[[Mapping[str, Any], ToolContext], Any]
    check: Callable[[JsonObject], Mapping[str, Any]] | None = None
    is_async: bool = False
    read_only: bool = False
    idempotent: bool = False
    requires_approval: bool | ApprovalRule = False
    timeout_seconds: float | None = None
    max_result_tokens: int | None = None
    external: bool = False
    agent: Any = None

    @property
    def name(self) -> str:
        """The tool's own name."""
        return self.schema.name


def effective(call: ToolCall) -> ToolCall:
    """Return the call that is meant: `call_tool(name, args)` becomes a call of that tool.

    Any other call is returned as it is. Arguments that came as a string of JSON are parsed here.

    >>> effective(ToolCall("call_tool", {"name": "add", "args": {"a": 1}})).name
    'add'
    """
    if call.name != CALL_TOOL or call.problem is not None:
        return call
    name: Any = call.arguments.get("name")
    inner: Any = call.arguments.get("args", {})
    if not isinstance(name, str) or not name:
        return call
    if isinstance(inner, str):
        found = read_object(inner) if inner.strip() else {}
        if not isinstance(found, dict):
            return call.replace(name=name, arguments={}, raw=inner, problem=found)
        return call.replace(name=name, arguments=found)
    if not isinstance(inner, dict):
        return call.replace(name=name, arguments={}, raw=repr(inner), problem="not_an_object")
    return call.replace(name=name, arguments=cast("JsonObject", inner))  # JSON objects have text keys


def copy_arguments(arguments: JsonObject) -> JsonObject:
    """Return arguments that may be changed without changing these; flat ones, the usual kind, cheaply."""
    if any(isinstance(value, dict | list) for value in arguments.values()):
        return deepcopy(arguments)
    return dict(arguments)


def batches(calls: Iterable[T], read_only: Callable[[T], bool]) -> Iterator[Sequence[T]]:
    """Yield the calls in batches that may run together.

    Consecutive read-only calls form one batch, a write stands alone, and order is kept.

    >>> [list(batch) for batch in batches([1, 3, 2, 5], lambda n: n % 2 == 1)]
    [[1, 3], [2], [5]]
    """
    batch: list[T] = []
    for call in calls:
        if read_only(call):
            batch.append(call)
            continue
        if batch:
            yield batch
            batch = []
        yield [call]
    if batch:
        yield batch
