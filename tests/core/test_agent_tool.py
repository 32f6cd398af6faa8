import copy
import subprocess
import sys
from datetime import date
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sapwood.core.agent_tool import AgentTool, copied
from sapwood.core.call_plan import CallPlan, bound_keywords, is_async_callable, is_context, plan_of
from sapwood.core.errors import ConfigError, ToolInputError
from sapwood.core.input_problems import MAX_LENGTH, input_error, pydantic_problems
from sapwood.core.tools import BoundTool, ToolContext, ToolSchema

KEY: dict[str, Any] = {
    "type": "object",
    "properties": {"key": {"type": "string"}, "limit": {"type": "integer"}, "more": {"type": "object"}},
    "required": ["key"],
}


def by_hand(fn: Any = lambda **given: given, **fields: Any) -> AgentTool:
    return AgentTool(**{"name": "lookup", "description": "Look up", "input_schema": KEY, "fn": fn, **fields})


def call(tool: AgentTool, **arguments: Any) -> Any:
    bound = tool.bind()
    assert bound.check is not None
    return bound.run(bound.check(arguments), ToolContext(run_id="run"))


def refusal(tool: AgentTool, arguments: Any) -> str:
    bound = tool.bind()
    assert bound.check is not None
    with pytest.raises(ToolInputError) as caught:
        bound.check(arguments)
    assert tool.validate_input(arguments) == (False, str(caught.value))
    return str(caught.value)


class Search(BaseModel):
    """Not for the model."""

    query: str = Field(alias="q", description="What to find")
    limit: int = 5


def test_a_tool_by_hand_is_described_and_called() -> None:
    tool = by_hand(input_examples=({"key": "a"},), defer_loading=True)

    assert tool.to_tool_schema() == ToolSchema("lookup", "Look up", KEY, ({"key": "a"},), True)
    assert tool.validate_input({"key": "a"}) == (True, "")
    assert call(tool, key="a", limit=2) == {"key": "a", "limit": 2}


def test_settings_reach_the_bound_tool() -> None:
    bound = by_hand(timeout=2.5, read_only=True, idempotent=True, requires_approval=True, max_result_tokens=9).bind()

    assert isinstance(bound, BoundTool)
    assert (bound.name, bound.timeout_seconds, bound.max_result_tokens) == ("lookup", 2.5, 9)
    assert (bound.read_only, bound.idempotent, bound.requires_approval, bound.is_async) == (True, True, True, False)


def test_a_schema_without_a_type_becomes_one_of_an_object() -> None:
    assert by_hand(input_schema={"properties": {}}).to_tool_schema().input_schema == {
        "type": "object",
        "properties": {},
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"require_approval": True},
        {"readonly": True},
        {"timeout": 0},
        {"max_result_tokens": 0},
        {"name": ""},
        {"fn": 5},
        {"input_schema": {"enum": {1, 2}}},
        {"input_examples": ({"a": object()},)},
    ],
)
def test_a_wrong_setting_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        by_hand(**wrong)


def test_a_tool_is_frozen_and_hashable() -> None:
    tool = by_hand(len)

    with pytest.raises(ValidationError):
        tool.name = "other"  # type: ignore[misc]
    assert {tool: 1}[by_hand(len)] == 1
    assert tool != by_hand(print)
    assert tool != "lookup"


def test_the_function_gets_a_deep_copy() -> None:
    def change(key: str, more: Any) -> None:
        more["deep"].append(key)

    arguments: Any = {"key": "a", "more": {"deep": []}}
    call(by_hand(change), **arguments)

    assert arguments == {"key": "a", "more": {"deep": []}}


def test_the_check_is_the_same_for_validate_input_and_a_call() -> None:
    assert refusal(by_hand(), {}) == "key: is required but missing"
    assert refusal(by_hand(), {"key": 5, "limit": "x"}) == (
        "key: must be a string, not an integer; limit: must be an integer, not a string"
    )
    assert refusal(by_hand(), [1]) == "the arguments must be a JSON object, not list"
    assert refusal(by_hand(input_schema={"type": "array"}), {}) == "must be an array, not an object"


def test_a_refused_null_of_an_optional_argument_counts_as_left_out() -> None:
    assert call(by_hand(), key="a", limit=None) == {"key": "a"}
    assert refusal(by_hand(), {"key": None, "limit": None}) == "key: must be a string, not null"


def test_arguments_nested_without_end_are_refused() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"a": deep}

    assert refusal(by_hand(), {"key": "a", "more": deep}) == "the arguments are nested more than 200 levels deep"


def test_the_context_is_filled_in() -> None:
    def with_context(key: str, context: ToolContext) -> tuple[str, str]:
        return key, context.run_id

    assert call(by_hand(with_context), key="a") == ("a", "run")


def test_a_function_that_does_not_tell_its_parameters_gets_keywords() -> None:
    schema = {"properties": {"a": {"type": "integer"}}}
    assert call(by_hand(dict, input_schema=schema), a=1) == {"a": 1}


def test_a_raw_default_fills_a_gap_before_a_positional_value() -> None:
    def pair(key: str = "k", limit: int = 1, /) -> tuple[str, int]:
        return key, limit

    assert call(by_hand(pair, input_schema={"type": "object"}), limit=2) == ("k", 2)

    def needy(key: str, /) -> str:
        return key

    with pytest.raises(TypeError):
        call(by_hand(needy, input_schema={"type": "object"}))


def test_an_input_model_gives_schema_check_and_values() -> None:
    tool = AgentTool(name="s", description="", fn=lambda query, limit=99: (query, limit), input_model=Search)

    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "q": {"description": "What to find", "type": "string"},
            "limit": {"default": 5, "type": "integer"},
        },
        "required": ["q"],
    }
    assert call(tool, q="x") == ("x", 5)
    assert call(tool, q="x", limit="7") == ("x", 7)
    assert call(tool, q="x", limit=None) == ("x", 5)
    assert refusal(tool, {"query": "x"}) == "q: is required but missing"


def test_a_single_parameter_of_the_model_gets_the_model() -> None:
    def search(request: Search, context: ToolContext) -> Search:
        return request

    def search_by_name(request: "Search") -> Search:
        return request

    for fn in (search, search_by_name):
        tool = AgentTool(name="s", description="", fn=fn, input_model=Search)
        assert call(tool, q="x") == Search(q="x")


def test_extra_fields_of_a_model_reach_keywords() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        a: int

    tool = AgentTool(name="s", description="", fn=lambda **given: given, input_model=Open)

    assert call(tool, a="1", b=2) == {"a": 1, "b": 2}


def test_a_closed_model_says_so_and_refuses_others() -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: int

    tool = AgentTool(name="s", description="", fn=lambda a: a, input_model=Closed)

    assert tool.input_schema["additionalProperties"] is False
    assert refusal(tool, {"a": 1, "b": 2}) == "b: is not a parameter; allowed: a"


def test_a_strict_model_takes_what_json_can_say() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(strict=True)
        due: date
        count: int = 1

    tool = AgentTool(name="s", description="", fn=lambda due, count: (due, count), input_model=Strict)

    assert call(tool, due="2024-05-06") == (date(2024, 5, 6), 1)
    assert refusal(tool, {"due": "2024-05-06", "count": "2"}) == "count: Input should be a valid integer"
    assert refusal(tool, {"due": "\ud800"}).startswith("due: Input should be a valid date")
    assert refusal(tool, {"due": object()}).startswith("due: Input should be a valid date")


def test_a_model_that_holds_itself_keeps_its_references() -> None:
    class Node(BaseModel):
        children: list["Node"] = []

    tool = AgentTool(name="s", description="", fn=lambda children: children, input_model=Node)

    assert tool.input_schema["type"] == "object"
    assert tool.input_schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
    assert "Node" in tool.input_schema["$defs"]
    assert len(call(tool, children=[{"children": []}])) == 1


def test_a_model_and_a_function_that_do_not_match_are_refused() -> None:
    for fn in (lambda query: query, lambda query, limit, more: query):
        with pytest.raises(ConfigError, match=r"limit|more"):
            AgentTool(name="s", description="", fn=fn, input_model=Search).bind()


def test_an_input_model_in_front_of_a_function_of_c() -> None:
    assert call(AgentTool(name="s", description="", fn=dict, input_model=Search), q="x") == {"query": "x", "limit": 5}


def test_an_example_that_does_not_fit_is_refused_at_configuration() -> None:
    with pytest.raises(ConfigError, match=r"lookup.*key: is required"):
        by_hand(input_examples=({},)).bind()


def test_a_schema_is_needed_without_a_model() -> None:
    with pytest.raises(ValidationError, match="input_schema"):
        AgentTool(name="s", description="", fn=len)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        AgentTool.model_validate("nonsense")


def test_a_tool_can_be_copied_and_dumped() -> None:
    tool = by_hand(len)

    assert tool.model_copy(update={"requires_approval": True}).bind().requires_approval
    assert copy.copy(tool) == tool
    assert tool.model_dump()["input_schema"] == KEY
    with pytest.raises(AttributeError):
        _ = tool.nothing


def test_an_error_is_short_and_does_not_repeat_the_arguments() -> None:
    many = refusal(by_hand(input_schema={"properties": {"a": {"items": {"type": "null"}}}}), {"a": ["secret"] * 400})
    long = refusal(by_hand(input_schema={"additionalProperties": False}), {"x" * 300_000: 1})

    assert "secret" not in many
    assert "38 more problems" in many
    assert max(len(many), len(long)) <= MAX_LENGTH


def test_a_message_never_holds_half_a_character() -> None:
    assert str(input_error([("a\ud800", "wrong")])) == "a?: wrong"
    assert str(input_error([("x", "y" * 400)] * 30)).endswith("; and 18 more problems")


def test_a_problem_below_the_top_is_named_by_its_path() -> None:
    errors = [{"type": "extra_forbidden", "loc": ("a", 0, "b"), "msg": "Extra inputs are not permitted"}]

    assert pydantic_problems(errors, ["a"]) == [("a[0].b", "Extra inputs are not permitted")]


def test_plans_and_questions_about_functions() -> None:
    class Called:
        async def __call__(self) -> None: ...

    async def waits() -> None: ...

    assert plan_of(lambda a: a) == CallPlan()
    assert bound_keywords(partial(partial(print, end=""), sep="")) == {"end", "sep"}
    assert [is_async_callable(fn) for fn in (waits, partial(waits), Called(), Called, print)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert [is_context(hint) for hint in (ToolContext, "ToolContext | None", "Optional[ToolContext]", int, "int")] == [
        True,
        True,
        True,
        False,
        False,
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["key", "limit", "more", "q", "x"]), JSON, max_size=4))
def test_arguments_are_taken_or_refused_and_nothing_else(arguments: Any) -> None:
    by_model = AgentTool(name="s", description="", fn=lambda query, limit: 1, input_model=Search)
    for tool in (by_hand(), by_model):
        fits, message = tool.validate_input(arguments)
        assert (message == "") is fits
        assert len(message) <= MAX_LENGTH


@given(JSON)
def test_a_copy_is_equal(value: Any) -> None:
    assert repr(copied(value)) == repr(value)


def test_the_core_imports_without_pydantic() -> None:
    names = ["render_result", "safe_text", "call_plan", "check_schema", "input_problems", "tools"]
    code = "import sys;" + "".join(f"import sapwood.core.{name};" for name in names)
    done = subprocess.run(
        [sys.executable, "-c", code + "print('pydantic' in sys.modules)"], capture_output=True, text=True
    )

    assert done.stdout == "False\n"
