// The chunks of a run, put together to the assistant's message as the server stores it. Written apart from the page's
// own reducer, so that the two can disagree.

export function messageOf(run) {
  const parts = [];
  const byId = (id) => parts.find((part) => part.toolCallId === id);
  const open = new Map();
  let metadata;
  for (const { chunk } of run.events) {
    switch (chunk.type) {
      case "start": metadata ??= chunk.messageMetadata; break;
      case "start-step": parts.push({ type: "step-start" }); break;
      case "text-start": case "reasoning-start": {
        const part = { type: chunk.type.split("-")[0], text: "", state: "streaming" };
        parts.push(part); open.set(chunk.id, part); break;
      }
      case "text-delta": case "reasoning-delta": open.get(chunk.id).text += chunk.delta; break;
      case "text-end": case "reasoning-end": open.get(chunk.id).state = "done"; break;
      case "tool-input-available":
        parts.push({
          type: "dynamic-tool", toolName: chunk.toolName, toolCallId: chunk.toolCallId, state: "input-available", input: chunk.input,
          ...(chunk.providerExecuted ? { providerExecuted: true } : {}),
        });
        break;
      case "tool-approval-request":
        Object.assign(byId(chunk.toolCallId), { state: "approval-requested", approval: { id: chunk.approvalId } }); break;
      case "tool-output-available": Object.assign(byId(chunk.toolCallId), { state: "output-available", output: chunk.output }); break;
      case "tool-output-error": Object.assign(byId(chunk.toolCallId), { state: "output-error", errorText: chunk.errorText }); break;
      case "tool-output-denied": Object.assign(byId(chunk.toolCallId), { state: "output-denied" }); break;
      case "data-void": for (const id of chunk.data.ids) parts.splice(parts.indexOf(open.get(id)), 1); break;
      case "finish": metadata = { ...metadata, ...chunk.messageMetadata }; break;
      default:
        if (chunk.type.startsWith("data-") && !chunk.transient) {
          const { transient, ...part } = chunk;
          const at = parts.findIndex((other) => other.type === part.type && other.id !== undefined && other.id === part.id);
          if (at >= 0) parts[at] = part; else parts.push(part);
        }
    }
  }
  return { id: run.id, role: "assistant", parts, ...(metadata ? { metadata } : {}) };
}
