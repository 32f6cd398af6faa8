"""Configured: what an Agent can be told, each as one `with_*`, and the model that follows from it.

Law: a `with_*` replaces fields of a frozen config, so a turn that runs is never changed by one.
"""

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import UNSET, UnsetType

from sapwood.agent.assemble import agent_tools, require_prices, unpriced
from sapwood.agent.config import AgentConfig
from sapwood.agent.context_management import checked_edits
from sapwood.agent.distinct import require_distinct_names
from sapwood.agent.durable import Keeps, OnBusy, OnPending, keeping_of, with_runs
from sapwood.agent.output import output_of
from sapwood.agent.skills import (
    Scope,
    in_scope,
    joined,
    skill_sources,
    standard_folders,
    tools_of,
    warn_of_length,
)
from sapwood.agent.subagents import Subagent, SubagentDefinition, agent_of, require_distinct
from sapwood.agent.told import Told
from sapwood.context.pipeline import ContextPipeline
from sapwood.context.source import ContextSource, SourceLike
from sapwood.context.summarise import Summariser
from sapwood.core.budget import TokenBudget
from sapwood.core.errors import ConfigError
from sapwood.core.limits import UsageLimits
from sapwood.core.memory_files import MemoryFileLimits, MemoryFiles
from sapwood.core.model import LLMProvider, OutputMode
from sapwood.core.ports import ConversationStore, RunStore
from sapwood.core.require import MOST_SECONDS, require_bool, require_callables, require_number, require_series, shown
from sapwood.core.scope import RetrievalScope
from sapwood.core.tool_forms import ToolLike, to_tool
from sapwood.core.tools import ApprovalRule
from sapwood.loop.gate import Approve, PostHook, PreHook
from sapwood.loop.spec import Inspector
from sapwood.sources.compaction import CompactionOptions, Pin
from sapwood.sources.memory_tool import memory_tool_source
from sapwood.sources.skill_files import load_skill, load_skills
from sapwood.sources.skills import MENU_TOKENS

if TYPE_CHECKING:
    from sapwood.agent.memory_manager import MemoryManager
    from sapwood.core.ports import MemoryStore
    from sapwood.core.skill import Skill


class Configured(Told):
    """The fluent half of `Agent`."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        self._warned: set[str] = set()

    def with_system_prompt(self, prompt: str) -> Self:
        """Set the system prompt; the last one counts. Braces in it are just text."""
        return self._set(system_prompt=prompt)

    def with_tools(self, tools: Iterable[ToolLike]) -> Self:
        """Add tools: AgentTools (functions under `@tool`), or schemas in a provider's form.

        Raises ConfigError for what is no tool, ToolNameCollision where two names become one.
        """
        require_series("with_tools", tools, "tools")
        return self._set_tools(tools=(*self._config.tools, *(to_tool(item) for item in tools)))._priced()

    def with_skill(self, skill: "Skill") -> Self:
        """Add a skill: instructions and tools, active from the start or once the model asks for them.

        Raises ConfigError where two skills have one name, ToolNameCollision where two tools do.
        """
        return self.with_skills([skill])

    def with_skills(self, skills: "Iterable[Skill]") -> Self:
        """Add skills; what waits is listed in the system prompt and activated by `activate_skill`.

        What is active is read from the conversation, so it lasts as long as that and belongs to it alone.
        Raises ConfigError where two skills have one name, ToolNameCollision where two tools do.
        """
        require_series("with_skills", skills, "Skills")
        return self._with_skills(joined(self._config.skills, skills))

    def with_skill_from_path(self, path: str | os.PathLike[str], *, tools: Iterable[ToolLike] = ()) -> Self:
        """Add the skill in a folder that holds a SKILL.md. tools: those that belong to it; a file brings none.

        Nothing of the folder is run. Raises ConfigError, with the file and the rule, for what is no skill.
        """
        return self.with_skills([load_skill(path, tools=tuple(tools))])

    def with_skills_directory(self, path: str | os.PathLike[str], *, scope: Scope = "project") -> Self:
        """Add all skills below a folder; what is no skill is left out with a warning.

        scope: whose folder it is; where both have a skill of one name, that of the project counts, with a warning.
        A folder that came with somebody's code may hold instructions of theirs, so name only what you trust. Nothing
        of it is run, unless the agent was made with `allow_skill_scripts=True` and the model runs a script.

        Raises ConfigError where there is no such folder, or a skill has the name of one that was added in code.
        """
        if scope not in ("project", "user"):
            raise ConfigError(f'scope is "project" or "user", not {scope!r}')
        config = self._config
        skills, scopes = in_scope(config.skills, config.skill_scopes, load_skills(path), scope)
        return self._with_skills(skills, scopes)

    def with_standard_skills(
        self, project: str | os.PathLike[str] | None = None, *, user: bool = True, claude: bool = False
    ) -> Self:
        """Add the skills in `.agents/skills` and `.sapwood/skills`, as far as there are such folders.

        project: the folder of a project that you trust; None reads none. user: those in the home folder, too.
        claude: `.claude/skills` as well.
        """
        roots: dict[Scope, Path | None] = {
            "project": None if project is None else Path(project).expanduser(),
            "user": Path.home() if user else None,
        }
        for scope, root in roots.items():
            for folder in standard_folders(root, claude=claude) if root is not None else ():
                self.with_skills_directory(folder, scope=scope)
        return self

    def with_sources(self, sources: Iterable[ContextSource | SourceLike]) -> Self:
        """Add context sources, such as `memory_source(...)` or `lazy_tool_source(...)`; asked in this order."""
        require_series("with_sources", sources, "context sources")
        return self._set(sources=(*self._config.sources, *sources))

    def with_pipeline(self, pipeline: ContextPipeline) -> Self:
        """Use a pipeline: its system prompts follow this agent's, what its memory and steps bring is chosen each turn.

        It is the pipeline itself, so what is added to it later counts, from the next turn on. Its budget holds within
        this agent's; its formatter has no part in a turn. The last call counts. Raises ConfigError for another thing.
        """
        if not isinstance(pipeline, ContextPipeline):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"with_pipeline takes a ContextPipeline, not {type(pipeline).__name__}")
        return self._set(pipeline=pipeline)

    def with_scope(self, scope: RetrievalScope | None) -> Self:
        """Say which documents may be searched: by the steps of a pipeline, `rag_skill`, and tools that read `scope`.

        Subagents are held to it, and may only narrow it. None takes it away. Raises ConfigError for another thing.
        """
        if scope is not None and not isinstance(scope, RetrievalScope):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
            raise ConfigError(f"with_scope takes a RetrievalScope, not {type(scope).__name__}")
        return self._set(retrieval_scope=scope)

    def with_budget(self, budget: TokenBudget) -> Self:
        """Set the window, the reserve for the reply and the shares of the sources."""
        return self._set(budget=budget)

    def with_compaction(
        self,
        trigger_tokens: float = 0.8,
        *,
        keep_last: int = 4,
        compact_fn: Summariser | Literal["checklist"] | None = None,
        keep_results: int = 3,
        pin: Pin | None = None,
        pin_first: bool = True,
    ) -> Self:
        """Shorten a long history in time, the cheapest way first: old tool results, then a summary of old messages.

        trigger_tokens: the size of a request from which on it is due, in tokens, or as a share of the window up to 1.
        keep_last: past messages at the end that no summary takes in. compact_fn: writes the summary: a function of
        the messages, plain or async, that returns a text; "checklist" for one without a model; None asks this agent's
        model. keep_results: the newest exchanges with tool results that are never cleared. pin: messages that stay.
        pin_first: the first message of the conversation stays.

        What is cleared can be read again by the model (`read_result`). A summary that fails changes nothing.
        Subagents do the same, unless they have a compaction of their own. Raises ConfigError for what cannot work.
        """
        options = CompactionOptions(
            at=trigger_tokens,
            keep_messages=keep_last,
            keep_results=keep_results,
            summarise="checklist" if compact_fn is None else compact_fn,
            pin=pin,
            pin_first=pin_first,
        )
        return self._set(compaction=options, compacts_itself=compact_fn is not None)

    def with_context_management(self, config: Mapping[str, Any]) -> Self:
        """Have a long context edited by the provider, else by our ladder: Anthropic's `{"edits": [...]}`.

        Raises ConfigError for a config that is none; in a turn, for an edit that nobody can make."""
        return self._set(context_edits=checked_edits(config))

    def with_usage_limits(
        self,
        limits: UsageLimits | UnsetType | None = UNSET,
        *,
        turn: UsageLimits | UnsetType | None = UNSET,
        remaining_budget: bool | UnsetType = UNSET,
    ) -> Self:
        """Limit what a turn may use. What is not named stays as it was; None takes a limit away.

        limits: of the turn and of all subagents below it, one pool for the tree. turn: of this agent's own part
        alone; as a subagent, it is held to both, beside the pool of whoever asks it. remaining_budget: the model is
        told with each request what is left.

        A cost limit with a model whose price is not known, here or in a subagent, gives a warning, or with
        `strict_cost` ConfigError.
        """
        for given in (limits, turn):
            if given is not None and not isinstance(given, UsageLimits | UnsetType):  # pyright: ignore[reportUnnecessaryIsInstance] - people are not typed
                raise ConfigError(f"with_usage_limits takes UsageLimits, not {type(given).__name__}")
        if remaining_budget is not UNSET:
            require_bool("remaining_budget", remaining_budget)
        named = {"usage_limits": limits, "turn_limits": turn, "remaining_budget": remaining_budget}
        return self._set(**{name: value for name, value in named.items() if value is not UNSET})._priced()

    def with_hooks(
        self,
        *,
        pre_tool_use: PreHook | Sequence[PreHook] | None = None,
        post_tool_use: PostHook | Sequence[PostHook] | None = None,
    ) -> Self:
        """Add hooks around every tool call, those of subagents too; plain or async, asked in the order given.

        pre_tool_use: (name, arguments) -> HookResult or None, before approval and the function; what it makes of the
        arguments is checked again. post_tool_use: (name, arguments, text) -> HookResult or None, after the function,
        also after an error: `updated_output` is what the model sees instead. A plain one runs on the thread of the
        loop. A pre-hook that fails, or answers with something else, denies the call.

        Raises ConfigError for what cannot be called.
        """
        config = self._config
        pre, post = require_callables("pre_tool_use", pre_tool_use), require_callables("post_tool_use", post_tool_use)
        return self._set(pre_hooks=(*config.pre_hooks, *pre), post_hooks=(*config.post_hooks, *post))

    def with_approval(
        self,
        callback: Approve | None = None,
        *,
        defer: bool = False,
        expires_seconds: float | None = None,
        on_unknown: Literal["error", "ask"] = "error",
    ) -> Self:
        """Say who is asked about calls of tools with `requires_approval`, and about those that a hook sends here.

        callback: gets an ApprovalRequest and returns an ApprovalDecision, plain or async, and may take any time;
        anything else than a decision is a no. defer: nobody is asked here: the turn ends with
        `stopped_by="approval"`, and `resume` goes on with the answers, in this process or in another one.
        expires_seconds: after so long, a deferred call counts as denied; None for never.
        on_unknown: what becomes of a call that was running when the process died: `error` tells the model that its
        outcome is unknown, `ask` puts it before a person, who may have it run again.

        Raises ConfigError unless there is either a callback or `defer`, and for a time that has no end on a calendar.
        """
        require_bool("defer", defer)
        if (callback is None) == (not defer):
            raise ConfigError("with_approval needs a callback, or defer=True to pause the turn; not both")
        if callback is not None and not callable(callback):
            raise ConfigError(f"the approval callback must be a function, not {callback!r}")
        if expires_seconds is not None:
            require_number("expires_seconds", expires_seconds, most=MOST_SECONDS, rule="is None for never, or seconds")
        if on_unknown not in ("error", "ask"):
            raise ConfigError(f'on_unknown is "error" or "ask", not {on_unknown!r}')
        return self._set(
            approve=callback, defers=defer, expires_seconds=expires_seconds, asks_unknown=on_unknown == "ask"
        )

    def with_output_model(self, model: Any, *, mode: OutputMode = "tool", max_output_retries: int = 1) -> Self:
        """Have the turn end with a value of this type: `run` returns it, `last_output` is its JSON.

        model: a pydantic model, a dataclass, a TypedDict, a list, a union, a Literal, a plain type, or a dictionary
        that is a JSON Schema. mode: `tool` demands a call of `final_result`; `native` uses the provider's own way
        where the model has one, else `tool`; `prompted` asks in words, for models without tools. max_output_retries:
        tries after the first that is refused.

        Raises ConfigError for what cannot be an output, ToolNameCollision where a tool is called `final_result`.
        """
        if type(max_output_retries) is not int or max_output_retries < 0:
            raise ConfigError(f"max_output_retries must be 0 or more, not {max_output_retries!r}")
        return self._set_tools(output=output_of(model, mode), max_output_retries=max_output_retries)

    def with_subagents(self, agents: Iterable[SubagentDefinition], *, max_depth: int | None = None) -> Self:
        """Offer agents that the model may hand tasks to, through one tool, `task(agent_name, task)`.

        They share this agent's hooks, approval, limits, time-outs and caps. max_depth: agents below agents; None
        leaves it as it is, at first 3. Raises ConfigError where two have one name.
        """
        require_series("with_subagents", agents, "SubagentDefinitions")
        known = (*self._config.subagents, *(self._subagent(item) for item in agents))
        require_distinct(item.name for item in known)
        depth = self._config.max_depth if max_depth is None else max_depth
        if type(depth) is not int or depth < 1:
            raise ConfigError(f"max_depth must be a whole number of at least 1, not {shown(depth)}")
        return self._set_tools(subagents=known, max_depth=depth)._priced()

    def with_memory_tool(
        self,
        files: str | os.PathLike[str] | MemoryFiles,
        *,
        limits: MemoryFileLimits | None = None,
        requires_approval: bool | ApprovalRule = False,
    ) -> Self:
        """Let the model keep notes of its own, through one tool named `memory`; the last call counts.

        files: the path of a folder, made where it is missing (Linux and macOS), or another place for files, such as
        `InProcessFiles()`. Agents and processes may share one. limits: how much is kept and shown.
        requires_approval: a person is asked before each call, or before those of which a function of the arguments
        says so.

        Raises ConfigError for what cannot hold files, ToolNameCollision where a tool is called `memory`.
        """
        source = memory_tool_source(files, limits=limits, requires_approval=requires_approval)
        return self._set_tools(memory_tool=source)

    def with_memory(self, memory: "MemoryManager | MemoryStore") -> Self:
        """Remember: the newest turns of the conversation, and the facts that fit a prompt, after the process too.

        memory: a `MemoryManager`, which several agents may share; their turns then follow each other. A store alone is
        a manager with that store. With `with_conversation` the history comes from there, and the facts from here.

        Raises ConfigError for what is neither.

        >>> from sapwood import Agent, InMemoryEntryStore, MemoryManager
        >>> from sapwood.testing import says, scripted
        >>> agent = Agent(llm=scripted(says("Hello."))).with_memory(MemoryManager(store=InMemoryEntryStore()))
        """
        from sapwood.agent.memory_manager import MemoryManager

        return self._set(memory=memory if isinstance(memory, MemoryManager) else MemoryManager(memory))

    def with_conversation(
        self,
        store: ConversationStore | Keeps,
        conversation_id: str,
        *,
        on_pending: OnPending = "raise",
        on_busy: OnBusy = "raise",
    ) -> Self:
        """Take the history from a store, and add each turn to it; one turn at a time.

        store: such as `SqliteStore(path)`, which keeps the runs as well, so that a turn can be resumed after a crash
        or a pause. on_pending: what a prompt does while an earlier turn waits for a person: `raise` RunPausedError, or
        `deny` what it waits for and go on. on_busy: `raise` ConversationBusyError while another turn runs, or `wait`
        for its end. A turn that a crash or an error broke off is closed by the next prompt, unless it was resumed
        before; what it had done is in the history.

        Raises ConfigError for what is no store.
        """
        if not conversation_id:
            raise ConfigError("a conversation needs an id, such as the one of the chat it belongs to")
        keeping = keeping_of(
            store, conversation_id, before=self._config.keeping, on_pending=on_pending, on_busy=on_busy
        )
        return self._set(keeping=keeping)

    def with_run_store(self, store: RunStore | Keeps) -> Self:
        """Keep the events of each turn as they come, so that `resume` can go on with it in any process.

        store: such as `SqliteStore(path)`. With a conversation in the same store this is done already.
        Raises ConfigError for what is no store.
        """
        return self._set(keeping=with_runs(self._config.keeping, store))

    def with_inspector(self, inspector: Inspector) -> Self:
        """Show each request to a function, with its ledger, just before the model gets it; further ones may be added.

        For logs, tests and pages that show what a model saw; a request is frozen, so nothing can be changed. What the
        function raises ends the turn. Subagents show theirs to their own inspectors.
        """
        return self._set(inspectors=(*self._config.inspectors, inspector))

    # -- inside ----------------------------------------------------------------------------------

    def _priced(self) -> Self:
        """Warn of each model in the tree that a cost limit cannot hold; raises ConfigError where that is strict."""
        for limits, provider in self._held_to_cost(self._llm, (), set()):
            require_prices(limits, provider)
            for origin in unpriced(provider):
                if origin in self._warned:
                    continue
                self._warned.add(origin)
                warnings.warn(
                    f"the price of {origin} is not known, so cost_limit does not count its tokens; name it in "
                    "MODEL_PRICING, or set total_tokens_limit beside it",
                    stacklevel=3,
                )
        return self

    def _held_to_cost(
        self,
        model: Callable[[], LLMProvider],
        above: tuple[UsageLimits, ...],
        seen: set[tuple[int, Callable[[], LLMProvider], frozenset[int]]],
    ) -> Iterator[tuple[UsageLimits, LLMProvider]]:
        """Yield each limit of cost with a model that is held to it, of this agent and of those below it.

        model: makes the one that this agent asks, only where a limit wants it. above: the limits of the callers.
        seen: agents that were looked at, with the model and the limits they then had; they may ask each other in a
        circle, down to `max_depth`.
        """
        config = self._config
        here = (item for item in (config.usage_limits, config.turn_limits) if item is not None)
        own = (*above, *(item for item in here if all(item is not other for other in above)))
        place = (id(self), model, frozenset(id(item) for item in own))
        if place in seen:
            return
        seen.add(place)
        for limits in own:
            if limits.cost_limit is not None:
                yield limits, model()
        for child in (*config.subagents, *agent_tools(config).values()):
            asked = model if child.inherits_model else child.agent._llm
            yield from child.agent._held_to_cost(asked, own, seen)

    def _subagent(self, item: object) -> Subagent:
        if not isinstance(item, SubagentDefinition):
            raise ConfigError(f"with_subagents takes SubagentDefinitions, not {type(item).__name__}")
        agent = agent_of(item)
        if item.usage_limits is not None:  # prices are looked at once it is known which model it asks
            agent._set(usage_limits=item.usage_limits)
        own_model = item.model is not None or item.llm is not None
        return Subagent(item.name, agent, item.timeout, item.description, inherits_model=not own_model)

    def _with_skills(self, skills: "tuple[Skill, ...]", scopes: dict[str, Scope] | None = None) -> Self:
        config = self._config
        allow_scripts = config.allow_skill_scripts
        menu_tokens = max(MENU_TOKENS, config.max_tokens // 100)
        known = {skill.name for skill in config.skills}
        warn_of_length((skill for skill in skills if skill.name not in known), config.max_tokens)
        return self._set_tools(
            skills=skills,
            skill_scopes=config.skill_scopes if scopes is None else scopes,
            skill_sources=skill_sources(skills, menu_tokens=menu_tokens, allow_scripts=allow_scripts),
            skill_tools=tools_of(skills),
        )._priced()

    def _set_tools(self, **changes: Any) -> Self:
        """Change what the model may call; raises ToolNameCollision where two names become one for it."""
        require_distinct_names(self._config.changed(**changes))
        return self._set(**changes)
