"""A process that runs turns with real effects until it is killed, and goes on from the store when it is started again.

`python doomed.py FOLDER SEED TURNS [POINT VISIT]`: it works through numbered turns on one conversation in
FOLDER/agent.db. Each write appends a line with its idempotency key to FOLDER/effects and makes it durable before it
returns. What a turn answered is printed once it is over. POINT and VISIT: kill itself there.
Law: nothing is remembered between two lives but what is in the store and in the effects.
"""

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sapwood import Agent, ApprovalDecision, SubagentDefinition, ToolContext, tool
from sapwood.core.errors import RunPausedError
from sapwood.core.model import ModelProfile, ModelRequest, StreamChunk
from sapwood.llm.scripted import ScriptedReply, call, calls, says
from sapwood.stores.sqlite import SqliteStore
from sapwood.testing.faults import crash_at

CONVERSATION = "c1"
KINDS = ("tools", "approval", "child", "gated child", "compaction", "streaming")
FILLER = "the quick brown fox jumps over the lazy dog " * 12


def prompt_of(number: int) -> str:
    """The prompt of a turn: its number, what kind it is, and enough text to fill a small window in time."""
    kind = KINDS[number % len(KINDS)]
    return f"turn {number} {kind}" + (f" {FILLER}" if kind == "compaction" else "")


class Model:
    """A model whose reply depends on the request alone, and takes a little time for each piece."""

    profile = ModelProfile("scripted", "scripted")

    def __init__(self, pace: float) -> None:
        self._pace = pace

    def stream(self, request: ModelRequest) -> Iterator[StreamChunk]:
        for chunk in _reply(request).chunks():
            time.sleep(self._pace * random.random())
            yield chunk


def _reply(request: ModelRequest) -> ScriptedReply:
    own = [place for place, message in enumerate(request.transcript) if message.role == "user"][-1]
    task = request.transcript[own].text
    replies = sum(message.role == "assistant" for message in request.transcript[own + 1 :])
    words = task.split()
    if words[0] == "child":
        made = call("write", {"what": task}) if words[1] != "gated" else call("guarded", {"what": task})
        return calls(made) if replies == 0 else says(f"{task} is done")
    number, kind = words[1], " ".join(words[2:4]) if words[2] == "gated" else words[2]
    if replies or kind == "compaction":
        return says(f"turn {number} is over") if kind != "streaming" else says(f"turn {number} is over " + "word " * 40)
    match kind:
        case "tools":
            reads = [call("read", {"what": number}), call("read", {"what": f"{number}b"})]
            return calls(call("write", {"what": number}), *reads, call("write", {"what": f"{number}b"}))
        case "approval":
            return calls(call("guarded", {"what": number}), call("read", {"what": number}))
        case "child":
            tasks = [{"agent_name": "helper", "task": f"child plain {number} {letter}"} for letter in "ab"]
            return calls(*(call("task", task) for task in tasks))
        case "gated child":
            return calls(call("task", {"agent_name": "helper", "task": f"child gated {number}"}))
        case _:
            return says(f"turn {number} is over " + "word " * 40)


def tools(effects: Path, pace: float) -> list[Any]:
    def effect(what: str, context: ToolContext) -> str:
        time.sleep(pace * random.random())
        line = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(line, f"{context.idempotency_key}\t{what}\n".encode())
        os.fsync(line)
        os.close(line)
        time.sleep(pace * random.random())
        return f"wrote {context.idempotency_key}"

    @tool
    def write(what: str, context: ToolContext) -> str:
        """Write."""
        return effect(what, context)

    @tool(requires_approval=True)
    def guarded(what: str, context: ToolContext) -> str:
        """Write, if a person agrees."""
        return effect(what, context)

    @tool(read_only=True)
    def read(what: str) -> str:
        """Read."""
        time.sleep(pace * random.random())
        return f"read {what}"

    return [write, guarded, read]


def agent_of(folder: Path, pace: float, store: SqliteStore) -> Agent:
    own = tools(folder / "effects", pace)
    helper = SubagentDefinition(name="helper", description="Helps.", tools=tuple(own))
    agent = Agent(llm=Model(pace), max_tokens=1_500, max_response_tokens=200)
    agent = agent.with_tools(own).with_subagents([helper]).with_approval(defer=True)
    return agent.with_conversation(store, CONVERSATION)


def live(folder: Path, seed: int, turns: int, pace: float = 0.004) -> None:
    """Finish what is open, then work on from the first turn that was not begun."""
    random.seed(seed)
    with SqliteStore(folder / "agent.db") as store:
        agent = agent_of(folder, pace, store)
        while True:
            opened = list(store.runs.waiting(CONVERSATION))
            begun = len(store.runs.list(limit=10_000, conversation_id=CONVERSATION))
            if opened and (opened[0].status == "paused" or begun >= turns or random.random() < 0.8):
                _go_on(agent, store, opened[0].run_id)
                continue
            if begun >= turns:
                return
            try:
                _take(agent, agent.stream(prompt_of(begun)), agent.astream(prompt_of(begun)))
            except RunPausedError:
                # Killed right after an answer was stored: the run belongs to who answered, and no prompt closes it.
                _go_on(agent, store, opened[0].run_id)


def _go_on(agent: Agent, store: SqliteStore, run_id: str) -> None:
    waiting = store.runs.load(run_id).waiting()
    # One at a time, so that a part of the answers is stored while others are still owed.
    answers = {request.id: ApprovalDecision(approved=True, by="ann") for request in waiting[:1]}
    _take(agent, agent.resume(run_id, answers), agent.aresume(run_id, answers))


def _take(agent: Agent, blocking: Any, asynchronous: Any) -> None:
    async def all_of() -> None:
        async for _ in asynchronous:
            pass

    if random.random() < 0.5:
        asyncio.run(all_of())
    else:
        for _ in blocking:
            pass
    assert agent.last_turn is not None
    print(agent.last_turn.stopped_by, flush=True)


if __name__ == "__main__":
    place, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if len(sys.argv) > 4:
        with crash_at(sys.argv[4], visit=int(sys.argv[5]), how="kill"):
            live(place, first, last, pace=0.0)
    else:
        live(place, first, last)
