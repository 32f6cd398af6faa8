"""memory_skill and rag_skill, with plain and with async parts."""

from typing import Any

import pytest

from sapwood import Agent, ConfigError, MemoryRecord, ToolError, create_memory_store, memory_skill, rag_skill
from sapwood.testing import call, calls, says, scripted
from support.governed import run
from support.turns import finishes

RUNTIMES = pytest.mark.parametrize("runtime", ["blocking", "asyncio"])


class AsyncStore:
    """The store in this process, as if far away."""

    def __init__(self, *seed: MemoryRecord) -> None:
        self.inner = create_memory_store(seed)

    async def save(self, text: str, *, kind: str | None = None, meta: Any = None) -> MemoryRecord:
        return self.inner.save(text, kind=kind, meta=meta)

    async def search(self, query: str, *, k: int = 5, kind: str | None = None, min_score: float = 0.0) -> Any:
        return self.inner.search(query, k=k, kind=kind, min_score=min_score)

    async def forget(self, id: str) -> bool:
        return self.inner.forget(id)


FACT = MemoryRecord("id-1", "The user likes tea.", 0, "fact")


def results(agent: Agent, runtime: str) -> list[tuple[str, bool]]:
    return [(item.result, item.is_error) for item in finishes(run(agent, runtime))]


@RUNTIMES
@pytest.mark.parametrize("is_async", [False, True])
def test_facts_are_kept_found_changed_and_forgotten(runtime: str, is_async: bool) -> None:
    store: Any = AsyncStore(FACT) if is_async else create_memory_store([FACT])
    inner = store.inner if is_async else store
    model = scripted(
        calls(call("search_facts", {"query": "tea?"})),
        calls(call("search_facts", {"query": "planes"}), call("save_fact", {"fact": "  "})),
        calls(call("update_fact", {"fact_id": "id-1", "content": "The user likes coffee."})),
        calls(
            call("update_fact", {"fact_id": "id-1", "content": "Anything."}), call("delete_fact", {"fact_id": "id-1"})
        ),
        calls(call("save_fact", {"fact": " The user flies. "})),
        says("ok"),
    )
    agent = Agent(llm=model).with_skill(memory_skill(store))
    found = results(agent, runtime)
    records = {record.text: record.id for record in inner.all()}
    assert found[:3] == [
        ("- [id-1] The user likes tea.", False),
        ("No fact was found.", False),
        ("the fact is empty", True),
    ]
    assert found[3][0].startswith("Updated: The user likes coffee. (id: ")
    assert found[6] == (f"Saved: The user flies. (id: {records['The user flies.']})", False)
    if is_async:  # a store of texts alone has forgotten the old id
        missing = "there is no fact with the id 'id-1'; search_facts shows the ids"
        assert found[4:6] == [(missing, True), (missing, True)]
        assert list(records) == ["The user likes coffee.", "The user flies."]
    else:  # one that keeps corrections knows what the old id became
        assert found[4][0].startswith("Updated: Anything. (id: ")
        assert found[5] == ("Deleted id-1", False)
        assert list(records) == ["The user flies."]


@RUNTIMES
def test_a_fact_is_deleted_by_the_id_that_was_shown(runtime: str) -> None:
    store = create_memory_store([FACT])
    model = scripted(calls(call("delete_fact", {"fact_id": "id-1"})), says("ok"))
    assert results(Agent(llm=model).with_skill(memory_skill(store)), runtime) == [("Deleted id-1", False)]
    assert store.all() == []


def test_the_memory_skill_is_there_from_the_start() -> None:
    skill = memory_skill(create_memory_store())
    assert (skill.name, skill.activation, skill.tags) == ("memory", "always", ("core", "memory"))
    with pytest.raises(ConfigError, match=r"takes a memory store .* not str"):
        memory_skill("memory")  # type: ignore[arg-type]


class Hit:
    def __init__(self, content: str, section: str = "") -> None:
        self.content = content
        self.metadata = {"section": section} if section else None


class Retriever:
    """An object as the guide's retrievers are."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []

    def retrieve(self, query: str, top_k: int = 5) -> list[Hit]:
        self.asked.append((query, top_k))
        return [Hit("About bees.", "insects"), Hit("About birds.")]


async def later(query: str) -> list[str]:
    return [f"{query} {number}" for number in range(9)]


async def with_vector(query: str, *, embedding: Any = None, top_k: int = 0) -> list[dict[str, Any]]:
    return [{"text": f"{query} {embedding} {top_k}", "section": "s"}]


async def embed_later(text: str) -> list[float]:
    return [1.0, 2.0]


@RUNTIMES
@pytest.mark.parametrize(
    ("retriever", "options", "shown"),
    [
        (Retriever(), {}, "[insects] About bees.\n---\nAbout birds."),
        (later, {}, "\n---\n".join(f"bees {number}" for number in range(5))),
        (later, {"top_k": 2}, "bees 0\n---\nbees 1"),
        (lambda query: [], {}, "Nothing was found."),
        (lambda query: [3], {}, "3"),
        (lambda query: ["x" * 501], {}, "x" * 500 + "…"),
        (lambda query: [{"metadata": {"section": "m"}, "content": "c"}], {}, "[m] c"),
        (with_vector, {}, "[s] bees None 5"),
        (with_vector, {"embed_fn": lambda text: [0.5]}, "[s] bees [0.5] 5"),
        (with_vector, {"embed_fn": embed_later}, "[s] bees [1.0, 2.0] 5"),
        (lambda query, **more: [str(sorted(more))], {"embed_fn": lambda text: [0.5]}, "['embedding', 'top_k']"),
        (lambda query: [f"{query} {query.embedding}"], {"embed_fn": embed_later}, "bees [1.0, 2.0]"),
    ],
)
def test_documents_are_searched_once_the_skill_is_active(
    runtime: str, retriever: Any, options: dict[str, Any], shown: str
) -> None:
    model = scripted(
        calls(call("activate_skill", {"skill_name": "rag"})),
        calls(call("call_tool", {"name": "search_docs", "args": {"query": "bees"}})),
        says("ok"),
    )
    agent = Agent(llm=model).with_skill(rag_skill(retriever, **options))
    assert results(agent, runtime)[1] == (shown, False)


def test_a_function_of_c_gets_the_question_alone() -> None:
    found: list[Any] = []
    assert rag_skill(found.append).tools[0].name == "search_docs"
    assert rag_skill(type("Odd", (), {"retrieve": max})()).tools[0].fn("ab") == "b"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"retriever": 5}, "function or an object with retrieve"),
        ({"retriever": later, "top_k": 0}, "top_k must be at least 1"),
    ],
)
def test_what_is_no_retriever_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        rag_skill(**options)


VAULTS = {"law": lambda query: [{"text": "Tax.", "section": "s"}, "Law."], "art": later}


@RUNTIMES
@pytest.mark.parametrize(
    ("given", "shown", "is_error"),
    [
        ({"query": "x"}, "[law: s] Tax.\n---\n[art] x 0\n---\n[law] Law.", False),
        ({"query": "x", "vault": "law"}, "[law: s] Tax.\n---\n[law] Law.", False),
        ({"query": "x", "vault": "art"}, "[art] x 0\n---\n[art] x 1\n---\n[art] x 2", False),
        ({"query": "x", "vault": "attic"}, "law, art", True),
    ],
)
def test_several_retrievers_are_searched_by_name(
    runtime: str, given: dict[str, str], shown: str, is_error: bool
) -> None:
    model = scripted(
        calls(call("activate_skill", {"skill_name": "rag"})),
        calls(call("call_tool", {"name": "search_docs", "args": given})),
        says("ok"),
    )
    (_, found) = results(Agent(llm=model).with_skill(rag_skill(VAULTS, top_k=3)), runtime)
    assert found[1] == is_error
    assert found[0] == shown if not is_error else all(name in found[0] for name in VAULTS)


def test_an_unknown_vault_is_told_with_those_there_are() -> None:
    tool = rag_skill({"law": lambda query: ["Tax."], "art": lambda query: []}).tools[0]
    assert tool.input_schema["properties"]["vault"]["enum"] == ["law", "art"]
    assert tool.input_schema["required"] == ["query"]
    with pytest.raises(ToolError, match="there is no vault 'attic'; there are law, art"):
        tool.fn("x", "attic")
    assert tool.fn("x", "art") == "Nothing was found."
