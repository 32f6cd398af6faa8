// The smallest page with `useChat`: a prompt, what comes of it, and a yes or no where it is asked.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses } from "ai";
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";

const thread = new URLSearchParams(location.search).get("thread");

function Part({ part, answer }) {
  if (part.type === "text") return <p data-part="text">{part.text}</p>;
  if (part.type === "reasoning") return <p data-part="reasoning">{part.text}</p>;
  if (part.type !== "dynamic-tool") return null;
  return (
    <div data-part="tool" data-state={part.state}>
      {part.toolName} {JSON.stringify(part.output ?? part.errorText ?? part.input)}
      {part.state === "approval-requested" && (
        <>
          <button data-answer="yes" onClick={() => answer(part.approval.id, true)}>
            yes
          </button>
          <button data-answer="no" onClick={() => answer(part.approval.id, false)}>
            no
          </button>
        </>
      )}
    </div>
  );
}

function Page({ messages: held }) {
  const [prompt, setPrompt] = useState("");
  const chat = useChat({
    id: thread,
    messages: held,
    resume: true,
    transport: new DefaultChatTransport({ api: "/api/chat" }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  });
  window.chat = { messages: chat.messages, status: chat.status, error: chat.error?.message ?? null };
  const submit = (event) => {
    event.preventDefault();
    chat.sendMessage({ text: prompt });
    setPrompt("");
  };
  return (
    <main data-status={chat.status}>
      {chat.messages.map((message) => (
        <section key={message.id} data-role={message.role}>
          {message.parts.map((part, index) => (
            <Part key={index} part={part} answer={(id, approved) => chat.addToolApprovalResponse({ id, approved })} />
          ))}
        </section>
      ))}
      <form onSubmit={submit}>
        <input aria-label="prompt" value={prompt} onChange={(event) => setPrompt(event.target.value)} />
      </form>
    </main>
  );
}

const stored = await fetch(`/api/threads/${thread}`);
const messages = stored.ok ? (await stored.json()).messages : [];
createRoot(document.getElementById("root")).render(
  <StrictMode>
    <Page messages={messages} />
  </StrictMode>,
);
