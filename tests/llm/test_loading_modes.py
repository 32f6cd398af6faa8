"""How a tool that was found becomes callable, on the wire: four modes, four protocols, one transcript."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from wire_files import whole_set

from sapwood import Agent, ApprovalDecision, Message, Skill, UsageLimits, lazy_tool_source, tool
from sapwood.core.events import AgentEvent, ApprovalRequested, CompactionFinished, ToolFinished
from sapwood.core.messages import Opaque, Summary, Text
from sapwood.core.model import ModelRequest, ToolLoading
from sapwood.core.tools import ToolSchema
from sapwood.core.transcript import Transcript
from sapwood.llm.anthropic import AnthropicCodec, AnthropicProvider
from sapwood.llm.openai.responses import OpenAIResponsesProvider
from sapwood.llm.profiles import profile_of
from sapwood.testing.prefix import prefix_shares
from sapwood.testing.strict import check_anthropic_body, check_chat_body, check_gemini_body, check_responses_body
from support.serving import Serve
from support.wire_script import Said, Script, provider_for

CHECKS: dict[str, Any] = {
    "anthropic": check_anthropic_body,
    "chat": check_chat_body,
    "responses": check_responses_body,
    "gemini": check_gemini_body,
}


class Way(NamedTuple):
    """A model, and how it is served. loading: None leaves it to what is known of the model."""

    protocol: str
    model: str
    mode: ToolLoading
    loading: ToolLoading | None = None

    @property
    def is_dispatched(self) -> bool:
        return self.mode == "dispatch"

    def __str__(self) -> str:
        return f"{self.protocol}-{self.mode}"


CLAUDE = Way("anthropic", "claude-sonnet-4-5", "deferred")
GPT = Way("responses", "gpt-5.4", "deferred")
CHAT = Way("chat", "gpt-4.1", "dispatch")
INLINE = Way("responses", "gpt-5.6-sol", "inline", "inline")
GEMINI = Way("gemini", "gemini-3-flash-preview", "dispatch")
RELIST = Way("chat", "gpt-4.1", "relist", "relist")
KEEPING = [
    CLAUDE,
    GPT,
    CHAT,
    INLINE,
    GEMINI,
    Way("anthropic", "claude-sonnet-4-5", "dispatch", "dispatch"),
    Way("anthropic", "claude-sonnet-4-5", "inline", "inline"),
    Way("responses", "gpt-5.1", "dispatch"),
]
ALL = [*KEEPING, RELIST, Way("anthropic", "claude-sonnet-4-5", "relist", "relist")]
SEARCH: Said = [("search_tools", {"query": "create invoice"})]
PAID = "ACME pays 5"


@tool(name="invoices.create")
def create(customer: str, euros: int) -> str:
    """Create an invoice."""
    return f"{customer} pays {euros}"


@tool(name="invoices.create", requires_approval=True)
def guarded(customer: str, euros: int) -> str:
    """Create an invoice."""
    return f"{customer} pays {euros}"


@tool(name="invoices.list")
def list_all() -> list[str]:
    """List what is owed."""
    return []


@tool(name="notes.add")
def add(text: str) -> str:
    """Add a note."""
    return text


def uses(way: Way) -> Said:
    """The call of the tool, as a model makes it that is served in this way."""
    arguments: dict[str, Any] = {"customer": "ACME", "euros": 5}
    if not way.is_dispatched:
        return [("invoices_create", arguments)]
    args: Any = json.dumps(arguments) if way.protocol == "gemini" else arguments
    return [("call_tool", {"name": "invoices_create", "args": args})]


def agent(way: Way, replies: Sequence[Said], *, preload: int = 0, **options: Any) -> tuple[Agent, Script]:
    script = Script(way.protocol, replies)
    source = lazy_tool_source(
        [create, list_all, add], pin=["notes.add"], k=1, loading=way.loading, vectors=False, preload=preload
    )
    provider = provider_for(way.protocol, script, model=way.model)
    return Agent(llm=provider, **options).with_sources([source]), script


def results(events: Sequence[AgentEvent]) -> list[tuple[str, str, bool]]:
    return [(event.name, event.result, event.is_error) for event in events if isinstance(event, ToolFinished)]


def checked(way: Way, script: Script) -> list[dict[str, Any]]:
    found = [json.loads(body) for body in script.bodies]
    for body in found:
        CHECKS[way.protocol](body)
    return found


def test_the_mode_is_a_fact_of_the_model() -> None:
    for way in KEEPING:
        if way.loading is None:
            assert provider_for(way.protocol, Script(way.protocol), model=way.model).profile.tool_loading == way.mode


@pytest.mark.parametrize("way", KEEPING, ids=str)
def test_a_search_moves_no_byte_that_was_sent(way: Way) -> None:
    own, script = agent(way, [SEARCH, uses(way), "done", uses(way), "done"])
    events = list(own.stream("Bill ACME."))
    events += own.stream("Again.", messages=own.last_messages)

    assert [name for name, _, _ in results(events)] == ["search_tools", "invoices.create", "invoices.create"]
    assert results(events)[1:] == [("invoices.create", PAID, False)] * 2
    assert prefix_shares(script.bodies) == [1.0] * 4
    checked(way, script)


@pytest.mark.parametrize("way", [way for way in ALL if way.mode == "relist"], ids=str)
def test_a_list_that_grows_moves_the_prefix_once_for_each_load(way: Way) -> None:
    own, script = agent(way, [SEARCH, uses(way), "done", uses(way), "done"])
    events = list(own.stream("Bill ACME."))
    events += own.stream("Again.", messages=own.last_messages)

    assert results(events)[1:] == [("invoices.create", PAID, False)] * 2
    assert [share == 1.0 for share in prefix_shares(script.bodies)] == [False, True, True, True]
    checked(way, script)


@pytest.mark.parametrize("way", ALL, ids=str)
def test_a_tool_that_was_never_loaded_says_how_to_find_it(way: Way) -> None:
    own, script = agent(way, [uses(way), "done"])
    told = results(list(own.stream("Bill ACME.")))
    assert told == [
        ("invoices.create", "invoices.create is not loaded. Call search_tools first to find it, then call it.", True)
    ]
    checked(way, script)


@pytest.mark.parametrize("way", ALL, ids=str)
def test_what_turn_one_loaded_is_callable_in_turn_five_after_a_compaction(way: Way) -> None:
    long = "We spoke of many words. " * 120
    replies = [SEARCH, "found", long, long, long, uses(way), "done"]
    own, script = agent(way, replies, max_tokens=3_000, max_response_tokens=200)
    own = own.with_compaction(0.6, keep_last=1, compact_fn="checklist", pin_first=False)
    events: list[AgentEvent] = []
    for number in range(5):
        events += own.stream(f"turn {number}. {long[:1_500]}", messages=own.last_messages if number else ())

    assert any(isinstance(event, CompactionFinished) and event.past is not None for event in events)
    assert results(events)[-1] == ("invoices.create", PAID, False)
    bodies = checked(way, script)
    assert b"Summary of the earlier" in script.bodies[-1]
    if way.mode == "relist":
        assert "invoices_create" in json.dumps(bodies[-1]["tools"])


SUMMED = [
    Message("user", (Summary("They made invoices.", ("invoices.create",)),)),
    Message.assistant("yes"),
]


@pytest.mark.parametrize("way", ALL, ids=str)
def test_of_what_only_a_summary_knows_the_definition_is_sent_whole(way: Way) -> None:
    own, script = agent(way, [uses(way), "done"])
    events = list(own.stream("Bill ACME.", messages=SUMMED))
    (body, _) = checked(way, script)
    assert results(events) == [("invoices.create", PAID, False)]
    listed = (
        {item.get("name", ""): item for item in body["tools"]} if way.protocol in ("anthropic", "responses") else {}
    )
    if way.mode in ("deferred", "inline"):
        assert "defer_loading" not in listed["invoices_create"]
    if way.mode == "deferred":
        assert listed["invoices_list"]["defer_loading"] is True
    if way.is_dispatched:
        assert "invoices_create" not in listed
    assert prefix_shares(script.bodies) == [1.0]


def test_claude_gets_references_and_all_tools_from_the_first_call() -> None:
    own, script = agent(CLAUDE, [SEARCH, uses(CLAUDE), "done"])
    list(own.stream("Bill ACME."))
    first, second, _ = checked(CLAUDE, script)
    names = [(item["name"], item.get("defer_loading", False)) for item in first["tools"]]
    assert names == [
        ("search_tools", False),
        ("notes_add", False),
        ("invoices_create", True),
        ("invoices_list", True),
    ]
    assert not [item for item in first["tools"] if item.get("defer_loading") and "cache_control" in item]
    (result,) = second["messages"][-1]["content"]
    assert result["content"] == [{"type": "tool_reference", "tool_name": "invoices_create"}]


def test_no_mark_stands_on_a_deferred_tool_where_nothing_else_can_bear_it() -> None:
    way = CLAUDE
    script = Script(way.protocol, ["done"])
    tools = [{"name": f"tool_{number}", "description": "Looks at a place. " * 300} for number in range(3)]
    source = lazy_tool_source(tools, pin=[item["name"] for item in tools[:2]], menu_tokens=0, vectors=False)
    own = Agent(llm=provider_for(way.protocol, script, model=way.model)).with_sources([source])
    list(own.chat("Hi."))
    (body,) = checked(way, script)
    assert "system" in body, "the search is told of there, so the mark stands there too"
    assert [item["name"] for item in body["tools"] if "cache_control" in item] == []
    request = ModelRequest(Transcript.of([Message.user("hi")]), tools=(ToolSchema("a"), ToolSchema("b", defer=True)))
    call = AnthropicCodec().encode(request, profile_of(way.protocol, way.model), base_url="http://x", api_key="k")
    assert ["cache_control" in item for item in json.loads(call.body)["tools"]] == [True, False]


def test_gpt_gets_the_definitions_after_the_result_in_the_form_of_a_search_by_the_caller() -> None:
    own, script = agent(GPT, [SEARCH, uses(GPT), "done"])
    list(own.stream("Bill ACME."))
    first, second, third = checked(GPT, script)
    assert [item.get("name", item["type"]) for item in first["tools"]] == [
        "search_tools",
        "notes_add",
        "invoices_create",
        "invoices_list",
        "tool_search",
    ]
    output, searched, found = second["input"][-3:]
    assert output["output"] == "Found, and callable now: invoices_create."
    shared = {"call_id": "call_1_0_tools", "execution": "client", "status": "completed"}
    assert searched == {"type": "tool_search_call", "arguments": {"queries": ["invoices_create"]}, **shared}
    assert found == {"type": "tool_search_output", "tools": [first["tools"][2]], **shared}
    assert [item["namespace"] for item in third["input"] if item.get("name") == "invoices_create"] == [
        "invoices_create"
    ]


def test_inline_definitions_follow_the_result() -> None:
    own, script = agent(INLINE, [SEARCH, uses(INLINE), "done"])
    list(own.stream("Bill ACME."))
    first, second, third = checked(INLINE, script)
    assert first["tools"] == second["tools"] == third["tools"]
    added = second["input"][-1]
    assert (added["type"], added["role"]) == ("additional_tools", "developer")
    assert [(item["name"], item["strict"]) for item in added["tools"]] == [("invoices_create", False)]


def test_a_model_without_free_objects_sends_the_arguments_as_text() -> None:
    own, script = agent(GEMINI, [[("call_tool", {})], "done"])
    told = results(list(own.stream("Bill ACME.")))
    (body, _) = checked(GEMINI, script)
    (listed,) = [item for item in body["tools"][0]["functionDeclarations"] if item["name"] == "call_tool"]
    assert '"args"' in json.dumps(listed)
    assert '"string"' in json.dumps(listed).lower()
    assert told == [("call_tool", 'call_tool needs {"name": "...", "args": "{...}"} (args as JSON text)', True)]


def test_definitions_over_twenty_thousand_tokens_are_dispatched() -> None:
    many = [{"name": f"tool_{number}", "description": "A long description. " * 60} for number in range(100)]
    script = Script("anthropic", ["done"])
    source = lazy_tool_source(many, vectors=False)
    own = Agent(llm=provider_for("anthropic", script, model=CLAUDE.model)).with_sources([source])
    list(own.chat("Hi."))
    (body,) = checked(CLAUDE, script)
    assert [item["name"] for item in body["tools"]] == ["search_tools", "call_tool"]


def test_deferred_definitions_do_not_count_as_tools() -> None:
    sizes: dict[str, int] = {}
    for way in (CLAUDE, Way("anthropic", CLAUDE.model, "dispatch", "dispatch")):
        own, _ = agent(way, ["done"])
        list(own.chat("Hi."))
        assert own.last_turn is not None
        ledger = own.last_turn.rounds[0].ledger
        assert ledger is not None
        sizes[way.mode] = ledger.sections["tools"]
    assert sizes["deferred"] < sizes["dispatch"], "call_tool is the difference"


def test_a_conversation_goes_from_one_mode_to_another_and_back() -> None:
    ways = [CLAUDE, CHAT, CLAUDE, GPT, GEMINI, INLINE, RELIST, CLAUDE]
    messages: Sequence[Message] = ()
    for number, way in enumerate(ways):
        replies = [uses(way), "done"] if number else [SEARCH, uses(way), "done"]
        own, script = agent(way, replies)
        events = list(own.stream("Bill ACME.", messages=messages))
        assert results(events)[-1] == ("invoices.create", PAID, False), way
        checked(way, script)
        messages = own.last_messages


def test_a_habit_of_call_tool_is_understood_where_it_is_not_offered() -> None:
    own, _ = agent(CHAT, [SEARCH, "found"])
    list(own.chat("Find it."))
    other, script = agent(CLAUDE, [uses(CHAT), [("call_tool", {"name": "notes_add", "args": {"text": "x"}})], "done"])
    told = results(list(other.stream("Bill ACME.", messages=own.last_messages)))
    assert told[0] == ("invoices.create", PAID, False)
    assert (told[1][0], told[1][2]) == ("call_tool", True), "what is listed is called by its own name"
    checked(CLAUDE, script)


@pytest.mark.parametrize("way", [CLAUDE, GPT, CHAT, INLINE, RELIST], ids=str)
def test_a_skills_tools_work_in_each_mode(way: Way) -> None:
    skill = Skill(name="billing", description="Make bills.", instructions="Be polite.", tools=(create,))
    is_dispatched = way.mode in ("dispatch", "deferred")
    call = uses(CHAT) if is_dispatched else uses(way)
    script = Script(way.protocol, [[("activate_skill", {"skill_name": "billing"})], call, "done"])
    provider = provider_for(way.protocol, script, model=way.model)
    if way.loading is not None:
        profile = provider.profile.replace(tool_loading=way.loading)
        provider = provider_for(way.protocol, script, model=way.model, profile=profile)
    own = Agent(llm=provider).with_skill(skill)
    told = results(list(own.stream("Bill ACME.")))
    assert told[-1] == ("invoices.create", PAID, False)
    assert "Be polite." in told[0][1]
    assert b"Be polite." in script.bodies[-1]
    shares = prefix_shares(script.bodies)
    assert shares == ([1.0, 1.0] if way.mode != "relist" else [shares[0], 1.0])
    checked(way, script)


@pytest.mark.parametrize("way", ALL, ids=str)
def test_the_best_matches_are_offered_without_a_search(way: Way) -> None:
    call = uses(way) if way.mode in ("relist", "dispatch") else uses(CHAT)
    own, script = agent(way, [call, "done", call, "done"], preload=1)
    events = list(own.stream("Please create an invoice for ACME"))
    assert own.last_turn is not None
    ledger = own.last_turn.rounds[0].ledger
    assert ledger is not None
    assert [
        line.label for line in ledger.lines if line.source == "tools" and line.reason == "" and ":" in line.label
    ] == ["tools for this request: invoices.create"]
    events += own.stream("Thanks, again", messages=own.last_messages)
    assert results(events) == [("invoices.create", PAID, False)] * 2
    bodies = checked(way, script)
    assert bodies[0]["tools"] == bodies[-1]["tools"]
    assert prefix_shares(script.bodies) == [1.0] * 3


@pytest.mark.parametrize("way", ALL, ids=str)
def test_a_pause_keeps_what_was_loaded_and_approval_hooks_and_limits_see_the_real_name(way: Way) -> None:
    script = Script(way.protocol, [SEARCH, uses(way), uses(way), "done"])
    source = lazy_tool_source([guarded, list_all, add], k=1, loading=way.loading, vectors=False)
    seen: list[str] = []
    own = (
        Agent(llm=provider_for(way.protocol, script, model=way.model))
        .with_sources([source])
        .with_hooks(pre_tool_use=lambda name, arguments: seen.append(name))
        .with_approval(defer=True)
        .with_usage_limits(UsageLimits(tool_limits={"invoices.create": 1}))
    )
    paused = list(own.stream("Bill ACME."))
    (asked,) = [event for event in paused if isinstance(event, ApprovalRequested)]
    assert asked.name == "invoices.create"
    assert own.last_turn is not None
    (waiting,) = own.last_turn.waiting
    told = results(list(own.resume(waiting.run_id, {waiting.id: ApprovalDecision(True)})))
    assert told[0] == ("invoices.create", PAID, False)
    assert told[1][0::2] == ("invoices.create", True), "one call is all that the limit allows"
    assert seen == ["search_tools", "invoices.create"]
    checked(way, script)


def test_what_the_providers_own_search_found_is_callable() -> None:
    found = Opaque("tool_search_output", {"openai": {"type": "tool_search_output"}}, "", ("invoices_create",))
    history = [Message.user("hi"), Message("assistant", (found, Text("yes")), origin=f"openai/{GPT.model}")]
    for way in (GPT, CLAUDE):
        own, script = agent(way, [uses(way), "done"])
        told = results(list(own.stream("Bill ACME.", messages=history)))
        assert told == [("invoices.create", PAID, False)]
        body = json.loads(script.bodies[0])
        (listed,) = [item for item in body["tools"] if item.get("name") == "invoices_create"]
        assert listed.get("defer_loading", False) is (way is GPT), "another model cannot read what that search said"


# ---------------------------------------------------------------- recorded traffic


def recording(name: str) -> dict[str, Any]:
    folder = whole_set()
    if folder is None:
        pytest.skip("the recordings are not here")
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return found


def items_of(name: str, kind: str) -> list[dict[str, Any]]:
    """All items and blocks of a kind in the requests of a recording."""

    def walk(value: Any) -> list[dict[str, Any]]:
        inner: list[Any] = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        own = [value] if isinstance(value, dict) and value.get("type") == kind else []
        return [*own, *(item for part in inner for item in walk(part))]

    return walk([exchange["request"].get("body") for exchange in recording(name)["exchanges"]])


@pytest.mark.parametrize(
    ("way", "name", "kinds"),
    [
        (CLAUDE, "anthropic-messages-fable5-three-rounds", ["tool_reference"]),
        (GPT, "multi-anthropic-openai-anthropic-handoff", ["tool_search_call", "tool_search_output", "function_call"]),
        (INLINE, "openai-responses-tool-search-deferred", ["additional_tools"]),
    ],
    ids=str,
)
def test_what_is_sent_has_the_form_that_was_recorded(way: Way, name: str, kinds: list[str]) -> None:
    own, script = agent(way, [SEARCH, uses(way), "done"])
    list(own.stream("Bill ACME."))
    sent = json.loads(script.bodies[-1])
    for kind in kinds:
        known = {frozenset(item) - {"id"} for item in items_of(name, kind)}
        (item,) = [item for item in _walk(sent) if item.get("type") == kind and item.get("name") != "search_tools"]
        assert frozenset(item) - {"id", "status"} in {keys - {"status"} for keys in known}, kind


def _walk(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value, *(item for part in value.values() for item in _walk(part))]
    return [item for part in value for item in _walk(part)] if isinstance(value, list) else []


@tool
def get_exchange_rate(from_currency: str, to_currency: str) -> str:
    """Look up the current exchange rate between two currencies."""
    return f"1 {from_currency} = 0.92 {to_currency}"


@tool
def stock_lookup(symbol: str) -> str:
    """Look up stock price by ticker symbol."""
    return symbol


@pytest.mark.parametrize(
    ("name", "kind", "model", "extra"),
    [
        (
            "anthropic-messages-tool-search-stream",
            AnthropicProvider,
            "claude-sonnet-4-6",
            {"tools": [{"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}]},
        ),
        ("openai-responses-tool-search-stream", OpenAIResponsesProvider, "gpt-5.4", {}),
    ],
)
def test_over_http_the_providers_search_loads_what_is_deferred(
    serve: Serve, name: str, kind: Any, model: str, extra: dict[str, Any]
) -> None:
    server = serve(recording(name))
    provider = kind(model, base_url=server.url, api_key="k", extra_body=extra)
    source = lazy_tool_source([get_exchange_rate, stock_lookup], vectors=False)
    own = Agent(llm=provider).with_sources([source])
    told = results(list(own.stream("What is the current USD to EUR exchange rate?")))
    assert told == [("get_exchange_rate", "1 USD = 0.92 EUR", False)]
    first, second = (request["body"] for request in server.requests)
    assert [item["name"] for item in first["tools"] if item.get("defer_loading")] == [
        "get_exchange_rate",
        "stock_lookup",
    ]
    shares = prefix_shares([json.dumps(body).encode() for body in (first, second)])
    assert shares == [1.0]
