"""TurnSpec: everything that a turn needs, resolved; and LiveTurn, what one segment of it keeps in memory.

Laws: a spec is never changed; what must outlive the process is in the Run, and nothing of it here.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import msgspec

from sapwood.context.manager import ContextManager
from sapwood.context.meter import Meter, Totals
from sapwood.context.offered import Executor, Offered
from sapwood.context.render import Fixed
from sapwood.context.source import ContextSource, Turn
from sapwood.core.cancel import CancelToken
from sapwood.core.decide import Policy, Spent
from sapwood.core.events import MessageInterrupted, Placement
from sapwood.core.ledger import ContextLedger
from sapwood.core.limits import WRAP_UP_TOKENS, LimitBreach, Tally, refuses_call
from sapwood.core.messages import Message
from sapwood.core.model import CacheTtl, LLMProvider, ModelRequest, OutputMode, ToolLoading
from sapwood.core.partial_json import GrowingJson
from sapwood.core.run import Run
from sapwood.core.scope import RetrievalScope
from sapwood.core.tools import CALL_TOOL, FINAL_RESULT, MaybeAwaitable
from sapwood.core.transcript import Joined, Running, Transcript, active_skills, carried_names, loaded_names
from sapwood.core.usage import Usage
from sapwood.llm.fallback import FallbackProvider
from sapwood.llm.pricing import cost_of
from sapwood.llm.retry import RetryPolicy
from sapwood.loop.cache_watch import CacheWatch
from sapwood.loop.gate import Gate
from sapwood.loop.pool import Reservation, UsagePool
from sapwood.loop.start import past_of
from sapwood.loop.words import budget_note

DEFAULT_RESULT_TOKENS = 10_000
MAX_DEFERRED_TOKENS = 20_000
"""Definitions that are larger than this together do not travel with every request; they are dispatched instead."""
_NOTHING = Tally()


class OutputReader(Protocol):
    """What reads and describes a structured output: `agent/output.py` has the one that agents use."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the output; an object at its root."""
        ...

    def ask_again(self, error: str, mode: OutputMode) -> str:
        """Return the word to a model whose text was not the output, or was a wrong one (error says why)."""
        ...

    def read(self, arguments: dict[str, Any], *, expose_errors: bool) -> tuple[Any, str]:
        """Return the validated instance and its JSON text; raises ToolError with what is wrong."""
        ...

    def read_text(self, text: str, *, expose_errors: bool) -> tuple[Any, str]:
        """Return the same for a reply in text; raises ToolError."""
        ...

    def growing(self) -> GrowingJson:
        """Return what shows the output while it streams."""
        ...


class ChildTurnSpec(msgspec.Struct, frozen=True):
    """The turn of a subagent: its name, what it needs, and what it is asked."""

    name: str
    spec: "TurnSpec"
    prompt: Message


Spawn: TypeAlias = "Callable[[Mapping[str, Any], LiveTurn, tuple[str, ...]], ChildTurnSpec]"
"""Makes the turn of a subagent: (checked arguments, the turn that calls it, the path of the child) -> its spec.

Raises ToolError where there can be none: its message goes to the model.
"""


Inspector: TypeAlias = Callable[[ModelRequest, ContextLedger], None]
"""Is shown what a model call sends, and the ledger of it."""


class TurnSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a turn needs.

    history: the past messages, valid. executor: runs the tools that bring no function of their own.
    window: tokens that a request may take, 0 where it is not known.
    expose_errors: a tool's exception shows its type and message to the model; else "Internal error".
    tool_timeout_seconds, tool_result_max_tokens: for tools that say nothing themselves; None for no limit.
    cache: how long the provider keeps the prompt's prefix; None to say nothing of caching. watch: notices when
    that cache is no longer hit.
    gate: hooks and approval. pool: what the whole tree of agents uses. children: the tools that are subagents.
    output: reads the structured output, where the policy asks for one. agent: the name of a subagent.
    path: the ids of the calls that lead to this turn; root_id: the run at the top of the tree, empty there.
    tells_budget: the model is told what is left of the limits. max_depth: agents below agents.
    record: keeps the messages of the turn at its end, before the sources are told; what it raises ends the turn.
    inspectors: are shown each request before it is sent. inherited: sources that subagents get as well, where they have
    none of that name. context_edits: what the provider itself does about a long context. retrieval_scope: which
    documents sources and tools may search; None for all.
    """

    provider: LLMProvider
    context: ContextManager
    policy: Policy
    meter: Meter
    history: Transcript
    window: int = 0
    tool_loading: ToolLoading = "relist"
    placement: Placement = "turn"
    max_response_tokens: int | None = None
    executor: Executor | None = None
    expose_errors: bool = False
    tool_timeout_seconds: float | None = None
    tool_result_max_tokens: int | None = DEFAULT_RESULT_TOKENS
    retry: RetryPolicy = RetryPolicy()
    cancel: CancelToken | None = None
    keep_thinking: bool = True
    cache: CacheTtl | None = "5m"
    watch: CacheWatch = msgspec.field(default_factory=CacheWatch)
    gate: Gate = Gate()
    pool: UsagePool = msgspec.field(default_factory=UsagePool)
    children: Mapping[str, Spawn] = {}
    output: OutputReader | None = None
    agent: str = ""
    path: tuple[str, ...] = ()
    root_id: str = ""
    tells_budget: bool = False
    max_depth: int = 3
    record: Callable[[Run], MaybeAwaitable[int]] | None = None
    inherited: tuple[ContextSource, ...] = ()
    retrieval_scope: RetrievalScope | None = None
    context_edits: tuple[dict[str, Any], ...] = ()
    inspectors: Sequence[Inspector] = ()

    def output_schema(self, mode: OutputMode | None) -> dict[str, Any] | None:
        """Return the schema that goes to the provider itself, where the output is asked for in this way."""
        return self.output.schema if self.output is not None and mode == "native" else None

    def is_output(self, name: str) -> bool:
        """Tell whether a call of this tool hands over the output."""
        return name == FINAL_RESULT and self.output is not None and self.policy.output == "tool"


class LiveTurn:
    """What one segment of a turn keeps in memory: derived things, and the draft of the reply that streams.

    run: the run as folded so far, for whoever needs it when the turn raises. error: what it raised. loading: how found
    tools become callable in this segment.
    on_end: called once when the segment is over, however it ended. output: the validated instance, has_output: there
    is one.
    """

    __slots__ = (
        "_past",
        "_place",
        "_prompt",
        "_reserved",
        "_sent",
        "_sent_count",
        "_source",
        "_started",
        "draft",
        "draft_usage",
        "error",
        "fixed",
        "has_output",
        "interrupted",
        "loading",
        "offered",
        "on_end",
        "output",
        "run",
        "spec",
    )

    def __init__(self, run: Run, spec: TurnSpec, *, on_end: "Callable[[LiveTurn], None] | None" = None) -> None:
        self.run = run
        self.on_end = on_end
        self.spec = spec
        self.loading: ToolLoading = spec.tool_loading
        self.offered = Offered()
        self.fixed = Fixed(self.offered, spec.meter)
        self.draft: list[str] = []
        self.draft_usage: Usage | None = None
        self._place = 0
        self.interrupted: MessageInterrupted | None = None
        self._source: tuple[tuple[Message, ...] | None, int, int] | None = None
        self._prompt: tuple[Message, Totals] | None = None
        self.error: BaseException | None = None
        self._past = spec.history
        self._sent = spec.history
        self._sent_count = 0
        self.output: Any = None
        self.has_output = False
        self._reserved: set[str] = set()
        self._started: float | None = None

    @property
    def is_limited(self) -> bool:
        """Something limits this turn, or the tree that it is in."""
        return self.spec.pool.limits is not None or self.spec.policy.limits is not None

    @property
    def root_id(self) -> str:
        """The id of the run at the top of the tree."""
        return self.spec.root_id or self.run.run_id

    def seconds(self, run: Run, now: float) -> float:
        """Return how long the turn took so far, earlier segments included, without waiting for a person."""
        elapsed = self.spec.pool.clock.read(now)
        if self._started is None:
            self._started = elapsed - run.tally.seconds
        return elapsed - self._started

    def take_output(self, instance: Any) -> None:
        """Keep the output as it was validated, for whoever runs this turn in this process."""
        self.output, self.has_output = instance, True

    def waits(self, now: float) -> None:
        """Stop the clock: a person is asked."""
        self.spec.pool.clock.wait(now)

    def goes_on(self, now: float) -> None:
        """Let the clock go on."""
        self.spec.pool.clock.go_on(now)

    def reserve_call(self, key: str, name: str) -> LimitBreach | None:
        """Set a tool call aside against the limits of this turn and of the tree; return the one that refuses it."""
        if not self.is_limited or self.spec.is_output(name):
            return None
        run, policy = self.run, self.spec.policy
        if policy.limits is not None:
            tally = run.tally
            for item in run.calls:
                is_set_aside = item.call.key in self._reserved or item.has_passed_limits
                if item.state != "done" and item.call.key != key and is_set_aside:
                    tally = tally.with_call(item.name)
            breach = refuses_call(policy.limits.extended(run.extra("turn")), tally, name, "turn")
            if breach is not None:
                return breach
        breach = self.spec.pool.reserve_call(name)
        if breach is None:
            self._reserved.add(key)
        return breach

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until a limit of time is reached, None where there is none."""
        pool, limits = self.spec.pool, self.spec.policy.limits
        left: list[float] = []
        if limits is not None and (own := limits.extended(self.run.extra("turn")).seconds_limit) is not None:
            left.append(own - self.seconds(self.run, now))
        if pool.limits is not None and pool.limits.seconds_limit is not None:
            left.append(pool.limits.seconds_limit - pool.spent(now).seconds)
        return max(0.001, min(left)) if left else None

    def reserved(self, estimate: int) -> Reservation:
        """Set aside what a model call may use."""
        pool = self.spec.pool
        if pool.limits is None:
            return Reservation(None, _NOTHING)
        return pool.reserve_model_call(self.next_call(estimate))

    def spent(self, run: Run, now: float, estimate: int) -> Spent:
        """Return what was used, for decide where something is limited."""
        pool = self.spec.pool
        tally = run.tally.replace(seconds=self.seconds(run, now))
        return Spent(tally, pool.spent(now), pool.limits, estimate, self.next_call(estimate))

    def budget_note(self, run: Run, now: float) -> str:
        """Return the word on what is left of the limits."""
        spent = self.spent(run, now, 0)
        limits = self.spec.policy.limits
        own = limits.extended(run.extra("turn")) if limits is not None else None
        return budget_note((own, spent.tally), (spent.pool_limits, spent.pool))

    def next_call(self, estimate: int) -> Tally:
        """Return what a model call with a request of so many tokens is thought to use."""
        cap = self.spec.max_response_tokens or WRAP_UP_TOKENS
        usage = Usage(estimate, min(cap, WRAP_UP_TOKENS))
        limits = (self.spec.pool.limits, self.spec.policy.limits)
        if all(item is None or item.cost_limit is None for item in limits):
            return Tally(usage, 1)
        provider, _, model = self.provider.profile.origin.partition("/")
        return Tally(usage, 1, cost_usd=cost_of(usage, provider, model) or 0.0)

    def ended(self) -> None:
        """Tell whoever asked to know that the segment is over; once."""
        tell, self.on_end = self.on_end, None
        if tell is not None:
            tell(self)

    @property
    def provider(self) -> LLMProvider:
        """The model that is asked: the first of a chain, or the one that took over in this segment."""
        provider = self.spec.provider
        return provider.providers[self._place] if isinstance(provider, FallbackProvider) else provider

    def hand_over(self, error: BaseException) -> bool:
        """Let the next model of the chain take over for the rest of this segment; tell whether one does."""
        provider = self.spec.provider
        place = provider.next_place(self._place, error) if isinstance(provider, FallbackProvider) else None
        if place is None:
            return False
        self._place = place
        return True

    def can_shorten(self, run: Run) -> bool:
        """Tell whether a request that the provider found too long can be made shorter, which is done once a turn."""
        has_more = len(self.past(run)) > 0 or any(message.tool_results for message in run.messages)
        return not run.room and has_more and self.spec.context.shortens

    def offer(self, offered: Offered) -> None:
        """Take what the sources contribute for this segment."""
        self.offered = offered
        profile = self.spec.provider.profile
        self.fixed = Fixed(
            offered,
            self.spec.meter,
            overhead=profile.tool_overhead_tokens,
            count_tools=self.spec.context.count_tools,
            output_schema=self.spec.output_schema(self.spec.policy.output),
            defers=profile.tool_loading == "deferred",
        )

    def is_too_large_to_defer(self, offered: Offered) -> bool:
        """Tell whether some are deferred, and all definitions together take more tokens than go with each request."""
        size = 0
        for tool in offered.by_wire.values() if any(schema.defer for schema in offered.sent) else ():
            size += self.spec.meter.schema(tool.schema)
            if self.spec.meter.scaled(size) >= MAX_DEFERRED_TOKENS:
                return True
        return False

    def past(self, run: Run) -> Transcript:
        """Return the past messages that are still in the window."""
        source = self._source
        if source is None or source[0] is not run.past or source[1:] != (run.dropped, run.edits):
            self._source = (run.past, run.dropped, run.edits)
            self._past = self._sent = past_of(self.spec.history, run)
            self._sent_count = 0
        return self._past

    def transcript(self, run: Run) -> Transcript:
        """Return the past messages and this turn's; only what is new since the last call is added."""
        self.past(run)
        new = run.messages[self._sent_count :]
        if new:
            self._sent = self._sent.extend(new)
            self._sent_count = len(run.messages)
        return self._sent

    def totals(self, run: Run) -> tuple[Totals, Totals]:
        """Return raw token totals: of the past alone, and of the past with this turn's messages."""
        past = self.spec.meter.transcript(self.past(run))
        if not run.prepared:
            # The prompt may still get a block beside it, so it must not enter the transcript yet.
            total = past
            for message in run.messages:
                size = self.spec.meter.raw_message(message)
                total = total + size
            return past, total
        return past, self.spec.meter.transcript(self.transcript(run))

    def prompt_totals(self, run: Run) -> Totals:
        """Return the raw tokens of the prompt, counted once."""
        prompt = run.prompt
        if prompt is None:
            return Totals()
        if self._prompt is None or self._prompt[0] is not prompt:
            self._prompt = (prompt, self.spec.meter.raw_message(prompt))
        return self._prompt[1]

    def source_room(self, run: Run) -> int:
        """Return the tokens to keep free for what the sources will select, 0 once they have.

        A source with a share of its own counts with it, any other with a tenth of the window; together at most
        a third, so that history keeps the larger part.
        """
        if run.prepared or not self.spec.window:
            return 0
        return self.spec.context.wanted_room(self.spec.window)

    def size(self, message: Message) -> int:
        """Return the tokens of one message."""
        return self.spec.meter.scaled(self.spec.meter.raw_message(message).total)

    def forget(self) -> None:
        """Forget what was derived of a run, before one is looked at that does not follow from it."""
        self._source = None

    def history_excess(self, run: Run) -> int:
        """Return by how many tokens past messages are over the share that the budget gives them."""
        window = self.spec.window
        limit = self.spec.context.history_limit(window)
        if not self.spec.context.trim_history or not window or limit >= window:
            return 0
        return self.spec.meter.scaled(self.spec.meter.transcript(self.past(run)).total) - limit

    def messages(self, run: Run) -> Joined:
        """Return past and present messages as one sequence, without copying them."""
        return Joined(self.past(run), run.messages)

    def loaded(self, run: Run) -> tuple[str, ...]:
        """Return the lazy tools that are callable, by own name: by past messages, then by this turn's."""
        past = self.past(run)
        known = past.derived("loaded", _loaded_running).upto(past)
        names = (*known, *(name for name in run.loaded if name not in known)) if run.loaded else known
        return tuple(map(self.offered.original, names)) if self.offered.by_wire else names

    def bare(self, run: Run) -> frozenset[str]:
        """Return the loaded tools of which no message tells this model any more, only a summary their names."""
        past, origin = self.past(run), self.provider.profile.origin
        known = past.derived("loaded", _loaded_running).upto(past)
        if not known:
            return frozenset()
        dispatches = CALL_TOOL in self.offered.by_wire
        told = past.derived(("carried", origin, dispatches), partial(_carried_running, origin, dispatches)).upto(past)
        return frozenset(map(self.offered.original, known)) - frozenset(map(self.offered.original, told))

    def skills(self, run: Run) -> tuple[str, ...]:
        """Return the skills whose instructions are in the transcript: in past messages, then in this turn's."""
        past = self.past(run)
        known = past.derived("skills", _skills_running).upto(past)
        return (*known, *(name for name in run.skills if name not in known)) if run.skills else known

    def turn(self, run: Run, *, room: int = 0) -> Turn:
        """Return what the sources are told of the run; room: the tokens they may fill."""
        spec = self.spec
        return Turn(
            run_id=run.run_id,
            text=run.prompt.text if run.prompt is not None else "",
            reply=run.text,
            messages=self.messages(run),
            room=room,
            loaded=self.loaded(run),
            skills=self.skills(run),
            tool_loading=self.loading,
            placement=spec.placement,
            count=spec.meter.text,
            scope=spec.retrieval_scope,
            free_objects=self.takes_free_objects,
            conversation=run.conversation_id or "",
        )

    @property
    def takes_free_objects(self) -> bool:
        """Every model of the chain takes arguments that are objects without declared properties."""
        provider = self.spec.provider
        chain = provider.providers if isinstance(provider, FallbackProvider) else (provider,)
        return all(item.profile.free_objects for item in chain)

    def next_call_estimate(self, run: Run) -> int:
        """Return about how many tokens the next request will take."""
        _, total = self.totals(run)
        fixed = self.fixed
        messages = self.spec.meter.scaled(total.messages + total.tool_results)
        tools = fixed.tool_tokens(self.offered.with_loaded(self.loaded(run), self.bare(run)))
        return messages + fixed.system_tokens + tools + fixed.recalled_tokens(run)


def _loaded_running() -> Running[tuple[str, ...]]:
    return Running((), _with_loaded)


def _with_loaded(before: tuple[str, ...], message: Message) -> tuple[str, ...]:
    new = tuple(name for name in loaded_names((message,)) if name not in before)
    return (*before, *new) if new else before


def _carried_running(origin: str, dispatches: bool) -> Running[tuple[str, ...]]:
    def carried(before: tuple[str, ...], message: Message) -> tuple[str, ...]:
        new = carried_names(message, origin, reads_recalled=dispatches)
        return (*before, *new) if new else before

    return Running((), carried)


def _skills_running() -> Running[tuple[str, ...]]:
    return Running((), _with_skills)


def _with_skills(before: tuple[str, ...], message: Message) -> tuple[str, ...]:
    new = tuple(name for name in active_skills((message,)) if name not in before)
    return (*before, *new) if new else before
