// @vitest-environment node

import { renderToString } from "react-dom/server";
import { expect, test, vi } from "vitest";

import { useAssistant, type UseAssistantOptions } from "../src/index.js";

function Chat(options: UseAssistantOptions) {
  const { items, input, busy, status } = useAssistant(options);
  return (
    <p data-status={status} data-busy={busy}>
      {items.map((item) => (item.role === "user" ? item.text : item.parts.length)).join(" ")}
      {input}
    </p>
  );
}

test("a page that is made on a server shows what there is, asks nothing, and logs no warning", () => {
  const warnings = vi.spyOn(console, "error");
  const ask = vi.fn();
  const html = renderToString(
    <Chat
      url="https://agents.example"
      threadId="t1"
      fetch={ask}
      initialItems={[
        { role: "user", id: "u1", text: "Hi" },
        { role: "assistant", id: "r1", parts: [{ type: "text", text: "Hello" }] },
      ]}
    />,
  );
  expect(html).toBe('<p data-status="ready" data-busy="false">Hi 1</p>');
  expect([warnings.mock.calls, ask.mock.calls]).toEqual([[], []]);
});
