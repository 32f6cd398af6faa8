"""Toolsets: what they are made of, the forms they take, and what makes another one of them."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Field

from sapwood import (
    Agent,
    AgentTool,
    ApprovalDecision,
    ConfigError,
    ToolError,
    ToolNameCollision,
    ToolSchema,
    merge_toolsets,
    to_tool_source,
    to_toolset,
    tool,
)
from sapwood.core.errors import ToolInputError
from sapwood.core.tools import BoundTool
from sapwood.testing import call, calls, says, scripted
from support.governed import run
from support.turns import finishes


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class Notes:
    """Notes, as plain methods."""

    def __init__(self) -> None:
        self.items: list[str] = []

    def add(self, text: str) -> str:
        """Add a note."""
        self.items.append(text)
        return "added"

    async def all(self) -> list[str]:
        """List the notes."""
        return self.items

    @classmethod
    def kind(cls) -> str:
        """Tell the kind."""
        return cls.__name__

    @staticmethod
    def limit(most: int) -> int:
        """Tell the limit."""
        return most

    def _hidden(self) -> None:
        raise AssertionError("nobody calls this")

    @property
    def size(self) -> int:
        raise AssertionError("nobody asks for this")


class Diary(Notes):
    """Notes that add differently."""

    def add(self, text: str) -> str:
        """Add to the diary."""
        return super().add(f"dear diary, {text}")


class Marked:
    """Only what is marked counts."""

    @tool(name="marked.one")
    def one(self, x: int) -> int:
        """One."""
        return x

    def two(self) -> None:
        raise AssertionError("not marked")


class SendMail(BaseModel):
    """Send a mail
    to somebody.

    More words.
    """

    to: str = Field(description="who gets it")
    copies: int = Field(1, ge=1)

    def __call__(self) -> str:
        return f"sent {self.copies} to {self.to}"


class AskLater(BaseModel):
    what: str

    async def __call__(self) -> str:
        return f"asked {self.what}"


class Point(BaseModel):
    x: int


def execute(toolset: Any, name: str, **arguments: Any) -> Any:
    return asyncio.run(toolset.execute(name, arguments))


DICT = {"name": "plain", "input_schema": {"type": "object"}}
KINDS: list[tuple[Any, tuple[str, ...]]] = [
    (add, ("add",)),
    ([add], ("add",)),
    ((item for item in [add]), ("add",)),
    ({"math.add": add, "send": SendMail}, ("math.add", "send")),
    (AgentTool(name="x", description="X.", input_schema={"type": "object"}, fn=add), ("x",)),
    (DICT, ("plain",)),
    ({"type": "function", "function": {"name": "nested"}}, ("nested",)),
    ([DICT, ToolSchema("bare")], ("plain", "bare")),
    (Notes(), ("add", "all", "kind", "limit")),
    (Diary(), ("add", "all", "kind", "limit")),
    (Marked(), ("marked.one",)),
    (SendMail, ("send_mail",)),
    ([SendMail, Point, Marked()], ("send_mail", "point", "marked.one")),
    (to_toolset(add), ("add",)),
    ([to_toolset(add), Marked()], ("add", "marked.one")),
    ([], ()),
]


@pytest.mark.parametrize(("given", "names"), KINDS)
def test_a_toolset_is_made_of_what_one_has(given: Any, names: tuple[str, ...]) -> None:
    toolset = to_toolset(given)
    assert toolset.names == names
    assert [entry["name"] for entry in toolset.tools] == list(names)
    assert len(toolset) == len(list(toolset)) == len(names)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (5, "5 is no tool"),
        ("text", "'text' is no tool"),
        (None, "None is no tool"),
        (int, "is no tool"),
        ([[add]], "is no tool"),
        ([5], "5 is no tool"),
        (object(), "has no public methods"),
        ({"a": 5}, "'a' names 5, which is no function"),
        ([{}], "a tool needs a name"),
    ],
)
def test_what_is_no_tool_is_refused(given: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        to_toolset(given)


def test_methods_run_on_their_object() -> None:
    diary = Diary()
    toolset = to_tool_source(diary)
    assert execute(toolset, "add", text="hello") == "added"
    assert execute(toolset, "all") == ["dear diary, hello"]
    assert execute(toolset, "kind") == "Diary"
    assert execute(toolset, "limit", most="3") == 3
    assert toolset.tools[0]["description"] == "Add to the diary."
    assert execute(to_toolset(Marked()), "marked_one", x=1) == 1


def test_a_model_is_a_tool_with_its_fields_as_arguments() -> None:
    toolset = to_toolset([SendMail, Point, AskLater])
    mail = toolset.tools[0]
    assert (mail["name"], mail["description"]) == ("send_mail", "Send a mail to somebody.")
    assert mail["input_schema"]["required"] == ["to"]
    assert mail["input_schema"]["properties"]["to"]["description"] == "who gets it"
    assert execute(toolset, "send_mail", to="me", copies="2") == "sent 2 to me"
    assert execute(toolset, "point", x=3) == Point(x=3)
    assert execute(toolset, "ask_later", what="why") == "asked why"
    assert toolset.tools[2]["description"] == "ask_later"
    with pytest.raises(ToolInputError, match="copies"):
        execute(toolset, "send_mail", to="me", copies=0)
    agent = Agent(llm=scripted(calls(call("point", {"x": 3}), call("ask_later", {"what": "x"})), says("ok")))
    assert [item.result for item in finishes(run(agent.with_tools(toolset)))] == ['{"x":3}', "asked x"]


def test_collisions_are_refused_naming_both() -> None:
    with pytest.raises(ToolNameCollision, match=r"'a\.b' and 'a_b'"):
        to_toolset({"a.b": add, "a_b": add})
    with pytest.raises(ToolNameCollision, match="'add' and 'add'"):
        to_toolset([add, Notes()])
    with pytest.raises(ToolNameCollision, match="'add' and 'add'"):
        merge_toolsets(to_toolset(add), to_toolset(Notes()))
    with pytest.raises(ToolNameCollision, match="'same' and 'same'"):
        to_toolset(Notes()).renamed({"add": "same", "all": "same"})


@pytest.mark.parametrize(
    ("form", "schema_key"),
    [("anthropic", "input_schema"), ("openai", "parameters"), ("gemini", "parametersJsonSchema")],
)
def test_a_client_gets_wire_names_in_its_form(form: Any, schema_key: str) -> None:
    toolset = to_toolset({"math.add": add})
    (entry,) = toolset.to_tools(form)
    inner = entry["function"] if form == "openai" else entry
    assert (inner["name"], inner["description"]) == ("math_add", "Add two numbers.")
    assert inner[schema_key]["required"] == ["a"]
    assert execute(toolset, inner["name"], a=1) == 2
    assert to_toolset({"math.add": add}, format=form).to_tools() == [entry]
    with pytest.raises(ConfigError, match="format must be one of anthropic, openai, gemini"):
        toolset.to_tools("xml")  # type: ignore[arg-type]


def test_prefix_rename_and_filter_make_another_toolset_that_runs() -> None:
    notes = to_toolset(Notes(), format="openai")
    changed = (
        notes.prefixed("notes.").renamed({"notes.all": "notes.list"}).filtered(lambda item: "limit" not in item.name)
    )
    assert changed.names == ("notes.add", "notes.list", "notes.kind")
    assert changed.format == "openai"
    assert execute(changed, "notes_add", text="x") == "added"
    assert execute(changed, "notes.list") == ["x"]
    assert notes.names == ("add", "all", "kind", "limit")
    with pytest.raises(ToolError, match="Unknown tool: add"):
        execute(changed, "add", text="x")
    assert to_toolset([DICT]).prefixed("x.").names == ("x.plain",)
    with pytest.raises(ConfigError, match="renamed: there is no tool 'other' here; there are: add, all, kind, limit"):
        notes.renamed({"other": "x"})


def test_a_person_is_asked_about_guarded_tools() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def person(request: Any) -> ApprovalDecision:
        asked.append((request.name, request.tool_input))
        return ApprovalDecision(approved=request.tool_input.get("a") != 13)

    toolset = to_toolset([add, Marked()]).with_approval(names=["add"])
    model = scripted(calls(*(call("add", {"a": a}) for a in (1, 13)), call("marked_one", {"x": 1})), says("ok"))
    agent = Agent(llm=model).with_tools(toolset).with_approval(person)
    results = [item.result for item in finishes(run(agent))]
    assert results == ["2", "Denied: the person who was asked said no", "1"]
    assert [name for name, _ in asked] == ["add", "add"]
    for wrong, told in ((["other"], "there is no tool 'other'"), (["plain"], "has no function here")):
        with pytest.raises(ConfigError, match=told):
            to_toolset([add, DICT]).with_approval(names=wrong)


async def over_ten(arguments: dict[str, Any]) -> bool:
    return bool(arguments["a"] > 10)


@pytest.mark.parametrize(
    ("first", "second", "asks_for"),
    [
        (False, True, [1, 7, 20]),
        (True, False, [1, 7, 20]),
        (False, False, []),
        (lambda arguments: arguments["a"] == 7, False, [7]),
        (lambda arguments: arguments["a"] == 7, True, [1, 7, 20]),
        (False, lambda arguments: arguments["a"] == 7, [7]),
        (True, lambda arguments: arguments["a"] == 7, [1, 7, 20]),
        (lambda arguments: arguments["a"] == 7, lambda arguments: arguments["a"] == 1, [1, 7]),
        (lambda arguments: arguments["a"] == 7, over_ten, [7, 20]),
        (over_ten, lambda arguments: arguments["a"] == 7, [7, 20]),
    ],
)
def test_of_two_rules_either_is_enough(first: Any, second: Any, asks_for: list[int]) -> None:
    asked: list[int] = []

    def person(request: Any) -> ApprovalDecision:
        asked.append(request.tool_input["a"])
        return ApprovalDecision(approved=True)

    guarded = to_toolset(tool(add, requires_approval=first)).with_approval(second)
    (only,) = guarded
    assert isinstance(only, BoundTool)
    model = scripted(calls(*(call("add", {"a": a}) for a in (1, 7, 20))), says("ok"))
    run(Agent(llm=model).with_tools(guarded).with_approval(person))
    assert asked == asks_for
