"""sapwood: agents whose context always fits.

Every public name is imported on first use, so `import sapwood` itself costs next to nothing.
"""

from sapwood._lazy import lazy_names
from sapwood._names import NAMES as _NAMES

TYPE_CHECKING = False  # what type checkers take for typing's own, without its import

if TYPE_CHECKING:
    from sapwood.agent.agent import Agent as Agent
    from sapwood.agent.assistant_session import AssistantSession as AssistantSession
    from sapwood.agent.built_in_skills import memory_skill as memory_skill
    from sapwood.agent.built_in_skills import rag_skill as rag_skill
    from sapwood.agent.decorator import tool as tool
    from sapwood.agent.memory_manager import MemoryManager as MemoryManager
    from sapwood.agent.run_agent import RunAgentOptions as RunAgentOptions
    from sapwood.agent.run_agent import run_agent as run_agent
    from sapwood.agent.skills import SkillRegistry as SkillRegistry
    from sapwood.agent.subagents import SubagentDefinition as SubagentDefinition
    from sapwood.agent.toolsets import to_tool_source as to_tool_source
    from sapwood.agent.toolsets import to_toolset as to_toolset
    from sapwood.context.formatters import AnthropicFormatter as AnthropicFormatter
    from sapwood.context.formatters import GenericTextFormatter as GenericTextFormatter
    from sapwood.context.formatters import OpenAIFormatter as OpenAIFormatter
    from sapwood.context.manager import ContextManager as ContextManager
    from sapwood.context.manager import ContextManagerOptions as ContextManagerOptions
    from sapwood.context.manager import HistoryOptions as HistoryOptions
    from sapwood.context.manager import PreparedContext as PreparedContext
    from sapwood.context.manager import create_context_manager as create_context_manager
    from sapwood.context.pipeline import ContextPipeline as ContextPipeline
    from sapwood.context.result import ContextResult as ContextResult
    from sapwood.context.result import ContextWindow as ContextWindow
    from sapwood.context.source import ContextSource as ContextSource
    from sapwood.context.source import Contribution as Contribution
    from sapwood.context.source import Loaded as Loaded
    from sapwood.context.source import Saved as Saved
    from sapwood.context.source import Selection as Selection
    from sapwood.context.source import Turn as Turn
    from sapwood.context.steps import PipelineStep as PipelineStep
    from sapwood.context.steps import filter_step as filter_step
    from sapwood.context.steps import reranker_step as reranker_step
    from sapwood.context.steps import retriever_step as retriever_step
    from sapwood.core.agent_tool import AgentTool as AgentTool
    from sapwood.core.approval import ApprovalDecision as ApprovalDecision
    from sapwood.core.approval import ApprovalGrant as ApprovalGrant
    from sapwood.core.approval import ApprovalRequest as ApprovalRequest
    from sapwood.core.approval import ExternalResult as ExternalResult
    from sapwood.core.approval import HookResult as HookResult
    from sapwood.core.budget import Allocation as Allocation
    from sapwood.core.budget import Budget as Budget
    from sapwood.core.budget import TokenBudget as TokenBudget
    from sapwood.core.budget import default_agent_budget as default_agent_budget
    from sapwood.core.budget import default_chat_budget as default_chat_budget
    from sapwood.core.budget import default_rag_budget as default_rag_budget
    from sapwood.core.cancel import CancelToken as CancelToken
    from sapwood.core.context_item import ContextItem as ContextItem
    from sapwood.core.context_item import QueryBundle as QueryBundle
    from sapwood.core.context_item import SourceType as SourceType
    from sapwood.core.context_item import conversation_items as conversation_items
    from sapwood.core.diagnostics import ChildTurn as ChildTurn
    from sapwood.core.diagnostics import TurnDiagnostics as TurnDiagnostics
    from sapwood.core.errors import AuthenticationError as AuthenticationError
    from sapwood.core.errors import BlockingCallError as BlockingCallError
    from sapwood.core.errors import CompactionError as CompactionError
    from sapwood.core.errors import ConfigError as ConfigError
    from sapwood.core.errors import ConflictError as ConflictError
    from sapwood.core.errors import ContentFilterError as ContentFilterError
    from sapwood.core.errors import ContextOverflowError as ContextOverflowError
    from sapwood.core.errors import ConversationBusyError as ConversationBusyError
    from sapwood.core.errors import DiskFullError as DiskFullError
    from sapwood.core.errors import HistoryDiverged as HistoryDiverged
    from sapwood.core.errors import LLMError as LLMError
    from sapwood.core.errors import LLMTimeoutError as LLMTimeoutError
    from sapwood.core.errors import ModelNotFoundError as ModelNotFoundError
    from sapwood.core.errors import OutputMissingError as OutputMissingError
    from sapwood.core.errors import PipelineExecutionError as PipelineExecutionError
    from sapwood.core.errors import ProviderNotInstalledError as ProviderNotInstalledError
    from sapwood.core.errors import RateLimitError as RateLimitError
    from sapwood.core.errors import RunCancelledError as RunCancelledError
    from sapwood.core.errors import RunPausedError as RunPausedError
    from sapwood.core.errors import SapwoodError as SapwoodError
    from sapwood.core.errors import ServerError as ServerError
    from sapwood.core.errors import StoreError as StoreError
    from sapwood.core.errors import TooLargeError as TooLargeError
    from sapwood.core.errors import ToolError as ToolError
    from sapwood.core.errors import ToolNameCollision as ToolNameCollision
    from sapwood.core.errors import UsageLimitError as UsageLimitError
    from sapwood.core.events import AgentEvent as AgentEvent
    from sapwood.core.events import ApprovalRequested as ApprovalRequested
    from sapwood.core.events import ApprovalResolved as ApprovalResolved
    from sapwood.core.events import CompactionFinished as CompactionFinished
    from sapwood.core.events import CompactionStarted as CompactionStarted
    from sapwood.core.events import ContextPrepared as ContextPrepared
    from sapwood.core.events import ContextUpdated as ContextUpdated
    from sapwood.core.events import LimitExtended as LimitExtended
    from sapwood.core.events import MessageAdded as MessageAdded
    from sapwood.core.events import MessageInterrupted as MessageInterrupted
    from sapwood.core.events import OutputChecked as OutputChecked
    from sapwood.core.events import OutputDelta as OutputDelta
    from sapwood.core.events import ProviderWaiting as ProviderWaiting
    from sapwood.core.events import RoundFinished as RoundFinished
    from sapwood.core.events import RoundRestarted as RoundRestarted
    from sapwood.core.events import RoundStarted as RoundStarted
    from sapwood.core.events import ServerToolFinished as ServerToolFinished
    from sapwood.core.events import ServerToolStarted as ServerToolStarted
    from sapwood.core.events import TextDelta as TextDelta
    from sapwood.core.events import ThinkingDelta as ThinkingDelta
    from sapwood.core.events import ToolFinished as ToolFinished
    from sapwood.core.events import ToolRunning as ToolRunning
    from sapwood.core.events import ToolStarted as ToolStarted
    from sapwood.core.events import TurnFinished as TurnFinished
    from sapwood.core.events import TurnResumed as TurnResumed
    from sapwood.core.events import TurnStarted as TurnStarted
    from sapwood.core.events import UsageLimitReached as UsageLimitReached
    from sapwood.core.ledger import ContextLedger as ContextLedger
    from sapwood.core.ledger import LedgerLine as LedgerLine
    from sapwood.core.limits import LimitBreach as LimitBreach
    from sapwood.core.limits import Tally as Tally
    from sapwood.core.limits import UsageLimits as UsageLimits
    from sapwood.core.memory import MemoryRecord as MemoryRecord
    from sapwood.core.memory import MemoryScope as MemoryScope
    from sapwood.core.memory import RecallOptions as RecallOptions
    from sapwood.core.memory_files import MemoryEntry as MemoryEntry
    from sapwood.core.memory_files import MemoryFileLimits as MemoryFileLimits
    from sapwood.core.memory_files import MemoryFiles as MemoryFiles
    from sapwood.core.memory_files import MemoryFolder as MemoryFolder
    from sapwood.core.messages import File as File
    from sapwood.core.messages import Image as Image
    from sapwood.core.messages import Message as Message
    from sapwood.core.messages import Summary as Summary
    from sapwood.core.messages import Text as Text
    from sapwood.core.messages import Thinking as Thinking
    from sapwood.core.messages import ToolCall as ToolCall
    from sapwood.core.messages import ToolResult as ToolResult
    from sapwood.core.model import LLMProvider as LLMProvider
    from sapwood.core.model import ModelProfile as ModelProfile
    from sapwood.core.model import ModelRequest as ModelRequest
    from sapwood.core.model import NamedTool as NamedTool
    from sapwood.core.model import Reply as Reply
    from sapwood.core.model import RestartChunk as RestartChunk
    from sapwood.core.model import ServerCallChunk as ServerCallChunk
    from sapwood.core.model import ServerResultChunk as ServerResultChunk
    from sapwood.core.model import TextChunk as TextChunk
    from sapwood.core.model import ThinkingChunk as ThinkingChunk
    from sapwood.core.model import ToolDeltaChunk as ToolDeltaChunk
    from sapwood.core.model import UsageChunk as UsageChunk
    from sapwood.core.output_type import OutputType as OutputType
    from sapwood.core.parts import AgentContextPart as AgentContextPart
    from sapwood.core.parts import AgentMemoryPart as AgentMemoryPart
    from sapwood.core.parts import AgentPart as AgentPart
    from sapwood.core.parts import AgentTextPart as AgentTextPart
    from sapwood.core.parts import AgentToolPart as AgentToolPart
    from sapwood.core.past_request import PastRequest as PastRequest
    from sapwood.core.ports import ConversationStore as ConversationStore
    from sapwood.core.ports import Embedder as Embedder
    from sapwood.core.ports import MemoryStore as MemoryStore
    from sapwood.core.ports import PastRequestStore as PastRequestStore
    from sapwood.core.ports import RunStore as RunStore
    from sapwood.core.ports import Runtime as Runtime
    from sapwood.core.run import Run as Run
    from sapwood.core.scope import RetrievalScope as RetrievalScope
    from sapwood.core.skill import Skill as Skill
    from sapwood.core.stored import Compacted as Compacted
    from sapwood.core.stored import Conversation as Conversation
    from sapwood.core.stored import ConversationSummary as ConversationSummary
    from sapwood.core.stored import RunSummary as RunSummary
    from sapwood.core.stored import StoredRun as StoredRun
    from sapwood.core.tools import ToolContext as ToolContext
    from sapwood.core.tools import ToolSchema as ToolSchema
    from sapwood.core.transcript import Transcript as Transcript
    from sapwood.core.usage import RoundUsage as RoundUsage
    from sapwood.core.usage import Usage as Usage
    from sapwood.llm.anthropic.client import AnthropicClientLike as AnthropicClientLike
    from sapwood.llm.base import BaseLLMProvider as BaseLLMProvider
    from sapwood.llm.fallback import FallbackProvider as FallbackProvider
    from sapwood.llm.pricing import MODEL_PRICING as MODEL_PRICING
    from sapwood.llm.pricing import Price as Price
    from sapwood.llm.profiles import register_model as register_model
    from sapwood.llm.registry import create_provider as create_provider
    from sapwood.llm.registry import register_provider as register_provider
    from sapwood.loop.gate import Grants as Grants
    from sapwood.memory.by_model import model_consolidator as model_consolidator
    from sapwood.memory.by_model import model_extractor as model_extractor
    from sapwood.memory.consolidate import Decision as Decision
    from sapwood.memory.consolidate import NewFact as NewFact
    from sapwood.memory.learn import TurnText as TurnText
    from sapwood.memory.recall import format_memory_block as format_memory_block
    from sapwood.memory.recall import recall_memory as recall_memory
    from sapwood.memory.remember import remember_facts as remember_facts
    from sapwood.retrieval.chunk import Chunk as Chunk
    from sapwood.retrieval.chunk import chunk_recursive as chunk_recursive
    from sapwood.retrieval.chunk import chunk_sentences as chunk_sentences
    from sapwood.retrieval.chunk_code import chunk_code as chunk_code
    from sapwood.retrieval.chunk_markdown import chunk_markdown as chunk_markdown
    from sapwood.retrieval.documents import Document as Document
    from sapwood.retrieval.static_vectors import StaticVectors as StaticVectors
    from sapwood.sources.compaction import CompactionOptions as CompactionOptions
    from sapwood.sources.compaction import compaction_source as compaction_source
    from sapwood.sources.lazy_tools import LazyToolset as LazyToolset
    from sapwood.sources.lazy_tools import LazyToolsetOptions as LazyToolsetOptions
    from sapwood.sources.lazy_tools import LazyToolSourceOptions as LazyToolSourceOptions
    from sapwood.sources.lazy_tools import lazy_tool_source as lazy_tool_source
    from sapwood.sources.lazy_tools import lazy_toolset as lazy_toolset
    from sapwood.sources.memory import MemorySourceOptions as MemorySourceOptions
    from sapwood.sources.memory import memory_source as memory_source
    from sapwood.sources.memory_tool import memory_tool_source as memory_tool_source
    from sapwood.sources.retrieval import retrieval_source as retrieval_source
    from sapwood.sources.toolset import Toolset as Toolset
    from sapwood.sources.toolset import merge_toolsets as merge_toolsets
    from sapwood.stores.documents import DocumentIndex as DocumentIndex
    from sapwood.stores.entries import InMemoryEntryStore as InMemoryEntryStore
    from sapwood.stores.entries import JsonFileMemoryStore as JsonFileMemoryStore
    from sapwood.stores.folder_files import FolderFiles as FolderFiles
    from sapwood.stores.in_process import create_memory_store as create_memory_store
    from sapwood.stores.in_process_files import InProcessFiles as InProcessFiles
    from sapwood.stores.in_process_runs import InProcessStore as InProcessStore
    from sapwood.stores.ingest import IngestReport as IngestReport
    from sapwood.stores.ingest import ingest as ingest
    from sapwood.stores.memory import Memory as Memory
    from sapwood.stores.memory import MemoryStats as MemoryStats
    from sapwood.stores.memory_values import NewMemory as NewMemory
    from sapwood.stores.retrievers import DenseRetriever as DenseRetriever
    from sapwood.stores.retrievers import HybridRetriever as HybridRetriever
    from sapwood.stores.retrievers import SparseRetriever as SparseRetriever
    from sapwood.stores.sqlite import SqliteStore as SqliteStore

__version__ = "0.1.0"
__all__ = [
    "MODEL_PRICING",
    "Agent",
    "AgentContextPart",
    "AgentEvent",
    "AgentMemoryPart",
    "AgentPart",
    "AgentTextPart",
    "AgentTool",
    "AgentToolPart",
    "Allocation",
    "AnthropicClientLike",
    "AnthropicFormatter",
    "ApprovalDecision",
    "ApprovalGrant",
    "ApprovalRequest",
    "ApprovalRequested",
    "ApprovalResolved",
    "AssistantSession",
    "AuthenticationError",
    "BaseLLMProvider",
    "BlockingCallError",
    "Budget",
    "CancelToken",
    "ChildTurn",
    "Chunk",
    "Compacted",
    "CompactionError",
    "CompactionFinished",
    "CompactionOptions",
    "CompactionStarted",
    "ConfigError",
    "ConflictError",
    "ContentFilterError",
    "ContextItem",
    "ContextLedger",
    "ContextManager",
    "ContextManagerOptions",
    "ContextOverflowError",
    "ContextPipeline",
    "ContextPrepared",
    "ContextResult",
    "ContextSource",
    "ContextUpdated",
    "ContextWindow",
    "Contribution",
    "Conversation",
    "ConversationBusyError",
    "ConversationStore",
    "ConversationSummary",
    "Decision",
    "DenseRetriever",
    "DiskFullError",
    "Document",
    "DocumentIndex",
    "Embedder",
    "ExternalResult",
    "FallbackProvider",
    "File",
    "FolderFiles",
    "GenericTextFormatter",
    "Grants",
    "HistoryDiverged",
    "HistoryOptions",
    "HookResult",
    "HybridRetriever",
    "Image",
    "InMemoryEntryStore",
    "InProcessFiles",
    "InProcessStore",
    "IngestReport",
    "JsonFileMemoryStore",
    "LLMError",
    "LLMProvider",
    "LLMTimeoutError",
    "LazyToolSourceOptions",
    "LazyToolset",
    "LazyToolsetOptions",
    "LedgerLine",
    "LimitBreach",
    "LimitExtended",
    "Loaded",
    "Memory",
    "MemoryEntry",
    "MemoryFileLimits",
    "MemoryFiles",
    "MemoryFolder",
    "MemoryManager",
    "MemoryRecord",
    "MemoryScope",
    "MemorySourceOptions",
    "MemoryStats",
    "MemoryStore",
    "Message",
    "MessageAdded",
    "MessageInterrupted",
    "ModelNotFoundError",
    "ModelProfile",
    "ModelRequest",
    "NamedTool",
    "NewFact",
    "NewMemory",
    "OpenAIFormatter",
    "OutputChecked",
    "OutputDelta",
    "OutputMissingError",
    "OutputType",
    "PastRequest",
    "PastRequestStore",
    "PipelineExecutionError",
    "PipelineStep",
    "PreparedContext",
    "Price",
    "ProviderNotInstalledError",
    "ProviderWaiting",
    "QueryBundle",
    "RateLimitError",
    "RecallOptions",
    "Reply",
    "RestartChunk",
    "RetrievalScope",
    "RoundFinished",
    "RoundRestarted",
    "RoundStarted",
    "RoundUsage",
    "Run",
    "RunAgentOptions",
    "RunCancelledError",
    "RunPausedError",
    "RunStore",
    "RunSummary",
    "Runtime",
    "SapwoodError",
    "Saved",
    "Selection",
    "ServerCallChunk",
    "ServerError",
    "ServerResultChunk",
    "ServerToolFinished",
    "ServerToolStarted",
    "Skill",
    "SkillRegistry",
    "SourceType",
    "SparseRetriever",
    "SqliteStore",
    "StaticVectors",
    "StoreError",
    "StoredRun",
    "SubagentDefinition",
    "Summary",
    "Tally",
    "Text",
    "TextChunk",
    "TextDelta",
    "Thinking",
    "ThinkingChunk",
    "ThinkingDelta",
    "TokenBudget",
    "TooLargeError",
    "ToolCall",
    "ToolContext",
    "ToolDeltaChunk",
    "ToolError",
    "ToolFinished",
    "ToolNameCollision",
    "ToolResult",
    "ToolRunning",
    "ToolSchema",
    "ToolStarted",
    "Toolset",
    "Transcript",
    "Turn",
    "TurnDiagnostics",
    "TurnFinished",
    "TurnResumed",
    "TurnStarted",
    "TurnText",
    "Usage",
    "UsageChunk",
    "UsageLimitError",
    "UsageLimitReached",
    "UsageLimits",
    "__version__",
    "chunk_code",
    "chunk_markdown",
    "chunk_recursive",
    "chunk_sentences",
    "compaction_source",
    "conversation_items",
    "create_context_manager",
    "create_memory_store",
    "create_provider",
    "default_agent_budget",
    "default_chat_budget",
    "default_rag_budget",
    "filter_step",
    "format_memory_block",
    "ingest",
    "lazy_tool_source",
    "lazy_toolset",
    "memory_skill",
    "memory_source",
    "memory_tool_source",
    "merge_toolsets",
    "model_consolidator",
    "model_extractor",
    "rag_skill",
    "recall_memory",
    "register_model",
    "register_provider",
    "remember_facts",
    "reranker_step",
    "retrieval_source",
    "retriever_step",
    "run_agent",
    "to_tool_source",
    "to_toolset",
    "tool",
]

__getattr__ = lazy_names(__name__, _NAMES, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
