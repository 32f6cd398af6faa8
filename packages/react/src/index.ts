export type { Decision, DoneTurn, Outcome, PartStream, UseAssistantOptions } from "./options.js";
export type {
  AssistantItem,
  AssistantPart,
  CompactionPart,
  ContextPart,
  FilePart,
  LedgerPart,
  LimitPart,
  MemoryPart,
  OutputPart,
  ReplyItem,
  SubagentPart,
  TextPart,
  ThinkingPart,
  ToolPart,
  ToolState,
  UIMessage,
  UIMessagePart,
  UserItem,
} from "./parts.js";
export {
  EMPTY_THREAD,
  fromUIMessages,
  itemsOf,
  partOf,
  reduce,
  threadOf,
  withPrompt,
  withReplay,
  type Thread,
} from "./reducer.js";
export type { AssistantOperation, AssistantSnapshot, AssistantStatus } from "./snapshot.js";
export { AssistantStore } from "./store.js";
export { AssistantError, readChunks } from "./stream.js";
export { useAssistant, type UseAssistant } from "./useAssistant.js";
export type * from "./wire.js";
