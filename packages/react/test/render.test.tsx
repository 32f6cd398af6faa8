// What is rendered again, and what is not.

import { act, cleanup, render } from "@testing-library/react";
import { memo } from "react";
import { afterEach, expect, test } from "vitest";

import { useAssistant, type AssistantItem, type AssistantPart, type UseAssistant } from "../src/index.js";
import { Feed, text } from "./support/replies.js";

afterEach(cleanup);

test("a delta renders the part that it joins, and no other part or item", async () => {
  const feed = new Feed();
  const rendered: string[] = [];
  let now: UseAssistant | null = null;

  const Part = memo(function Part({ part }: { readonly part: AssistantPart }) {
    rendered.push(part.type === "text" ? part.text : part.type);
    return null;
  });
  const Item = memo(function Item({ item }: { readonly item: AssistantItem }) {
    rendered.push(item.role);
    return item.role === "user" ? null : item.parts.map((part, at) => <Part key={at} part={part} />);
  });
  function Chat({ initialItems }: { readonly initialItems: readonly AssistantItem[] }) {
    now = useAssistant({ stream: () => feed, initialItems });
    return now.items.map((item) => <Item key={item.id} item={item} />);
  }

  const past = Array.from({ length: 100 }, (_, at): AssistantItem => ({ role: "user", id: String(at), text: "Hi" }));
  render(<Chat initialItems={past} />);
  let turn: Promise<void> = Promise.resolve();
  act(() => {
    turn = (now as unknown as UseAssistant).send("Hi");
  });
  await act(() => feed.give(text("One."), { type: "tool", name: "a", args: {} }, text("Tw")));
  rendered.length = 0;
  await act(() => feed.give(text("o.")));
  expect(rendered).toEqual(["assistant", "Two."]);
  await act(() => feed.end());
  await turn;
});
