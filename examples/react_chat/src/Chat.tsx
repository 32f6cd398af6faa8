import { useAssistant, type AssistantError } from "@sapwood/react";
import { useEffect, useState } from "react";

import { Item } from "./Item.js";

/** The thread stands in the address, so that a reload finds it again. */
function threadInAddress(): string | undefined {
  return window.location.hash.slice(1) || undefined;
}

export function Chat() {
  const [threadId] = useState(threadInAddress);
  const assistant = useAssistant({ url: "", ...(threadId ? { threadId } : {}) });
  const { items, input, busy, status, error } = assistant;

  useEffect(() => {
    if (assistant.threadId) window.history.replaceState(null, "", `#${assistant.threadId}`);
  }, [assistant.threadId]);

  // What goes wrong is shown from `error`; a rejected promise needs no second word.
  const send = (): void => void assistant.send().catch(() => undefined);

  return (
    <>
      <header>
        <h1>Shop</h1>
        <span data-testid="status">{status}</span>
        <button onClick={() => void assistant.load().then(() => window.history.replaceState(null, "", "#"))}>
          New chat
        </button>
      </header>
      <ol aria-live="polite">
        {items.map((item) => (
          <Item key={item.id} item={item} onApprove={assistant.approve} onDeny={assistant.deny} />
        ))}
      </ol>
      {assistant.retry && <p>The model is asked again in {assistant.retry.seconds} s.</p>}
      {assistant.interrupted && <button onClick={() => void assistant.resume()}>Go on</button>}
      {error !== null && <p role="alert">{(error as AssistantError).message}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send();
        }}
      >
        <input
          aria-label="Message"
          value={input}
          onChange={(event) => assistant.setInput(event.target.value)}
          placeholder="refund 25 · brew 5"
        />
        {busy ? (
          <button type="button" onClick={() => void assistant.stop()}>
            Stop
          </button>
        ) : (
          <button>Send</button>
        )}
      </form>
    </>
  );
}
