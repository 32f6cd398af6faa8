// What the fixture's agent does, by a word in the prompt. Each script is an async generator of chunks; `ask` pauses the
// run as the contract says and gives back the answers.

const WINDOW = 12_000;

const FIXED = { system: 420, tools: 960, skills: 310 };

export const cachedOf = (context, round) => context.cached ?? (round === 0 ? 1690 : context.estimatedTokens - 700);

/** The ledger of a round, and the pieces behind it. */
export function contextOf(round, prompt, history) {
  if (prompt.includes("parcel")) return storyOf(round, prompt);
  const results = round * 640;
  const summarised = history > 1500;
  const sections = {
    ...FIXED,
    memory: 180,
    retrieval: round === 0 ? 720 : 410,
    ...(summarised ? { summary: 260 } : {}),
    history: summarised ? 600 : history,
    ...(round > 0 ? { tool_results: results } : {}),
    prompt: 20 + Math.ceil(prompt.length / 4),
  };
  const estimatedTokens = Object.values(sections).reduce((sum, tokens) => sum + tokens, 0);
  const line = (source, label, section, tokens, verdict = "kept", reason = "") => ({
    source, label, section, tokens, verdict, reason,
  });
  const lines = [
    line("agent", "system prompt", "system", FIXED.system),
    line("tools", "get_weather", "tools", 310),
    line("tools", "refund_order", "tools", 340),
    line("tools", "search_orders", "tools", 310),
    line("tools", "14 more tools", "tools", 2100, "skipped", "loaded only when a search asks for them"),
    line("skills", "customer-care", "skills", FIXED.skills),
    line("memory", "prefers short answers", "memory", 90),
    line("memory", "lives in Lisbon", "memory", 90),
    line("handbook", "refunds.md, part 2", "retrieval", 410),
    round === 0
      ? line("handbook", "shipping.md, part 1", "retrieval", 310)
      : line("handbook", "shipping.md, part 1", "retrieval", 310, "cleared", "not used in the last round"),
    line("handbook", "returns-2019.md, part 7", "retrieval", 480, "skipped", "score 0.21 is below 0.3"),
    ...(summarised
      ? [line("history", "12 older messages", "summary", 260, "summarised", "1,480 tokens became 260"),
         line("history", "last 4 messages", "history", 600)]
      : history > 0 ? [line("history", "the conversation so far", "history", history)] : []),
    ...(round > 0 ? [line("tools", "get_weather result", "tool_results", results, "trimmed", "cut from 2,310 tokens to its ends")] : []),
    line("user", "prompt", "prompt", sections.prompt),
  ];
  const texts = [
    { section: "system", label: "system prompt", text: "You are the assistant of a small shop.\nAnswer shortly. Never promise what a tool has not confirmed." },
    { section: "tools", label: "get_weather", text: JSON.stringify({ name: "get_weather", input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] } }, null, 2) },
    { section: "tools", label: "refund_order", text: JSON.stringify({ name: "refund_order", input_schema: { type: "object", properties: { order: { type: "string" }, amount: { type: "number" } } } }, null, 2) },
    { section: "skills", label: "customer-care", text: "Greet once. Name the order by its number." },
    { section: "memory", label: "prefers short answers", text: "prefers short answers" },
    { section: "memory", label: "lives in Lisbon", text: "lives in Lisbon" },
    { section: "retrieval", label: "refunds.md, part 2", text: "A refund over 50 EUR needs the word of a person. It is paid within five days." },
    ...(history > 0 ? [{ section: "history", label: "the conversation so far", text: "user: hello\nassistant: Hello." }] : []),
    ...(round > 0 ? [{ section: "tool_results", label: "get_weather result", text: '{"city": "Lisbon", "celsius": 21, "sky": "clear"}' }] : []),
    { section: "prompt", label: "prompt", text: prompt },
  ];
  return { sections, window: WINDOW, estimatedTokens, lines, texts };
}

// A turn of four requests in which all happens that can happen to a window; [tokens, verdict, reason] where not kept.
const STORY = [
  { system: 620, tools: 1480, skills: 540, memory: 260, retrieval: 1900, history: 3350, prompt: 46 },
  { system: 620, tools: 1480, skills: 540, memory: 260, retrieval: 1900, history: 3350, tool_results: 1240, prompt: 46 },
  { system: 620, tools: 2210, skills: 540, memory: 260, retrieval: 980, history: 3350, tool_results: 2380, prompt: 46 },
  { system: 620, tools: 2210, skills: 540, memory: 260, retrieval: 980, summary: 410, history: 860, tool_results: 1560, prompt: 46 },
];
const STORY_CACHED = [3020, 8150, 2640, 2640];

function storyOf(round, prompt) {
  const sections = STORY[round];
  const line = (source, label, section, tokens, verdict = "kept", reason = "") => ({ source, label, section, tokens, verdict, reason });
  const lines = [
    line("agent", "system prompt", "system", 620),
    ...[["find_order", 380], ["refund_order", 420], ["ship_order", 360], ["search_tools", 320]].map(([name, size]) => line("tools", name, "tools", size)),
    ...(round >= 2 ? [line("tools", "track_parcel", "tools", 730)] : []),
    line("tools", "31 more tools", "tools", 9840, "skipped", "found by search_tools when they are needed"),
    line("skills", "returns", "skills", 540),
    line("memory", "prefers e-mail to calls", "memory", 90), line("memory", "order A-1042 was a gift", "memory", 170),
    line("handbook", "returns.md, part 3", "retrieval", 980),
    line("handbook", "carriers.md, part 1", "retrieval", 920, ...(round >= 2 ? ["cleared", "not quoted in two requests"] : [])),
    line("handbook", "returns-2019.md, part 7", "retrieval", 870, "skipped", "score 0.21 is below 0.30"),
    ...(round === 3
      ? [line("compaction", "messages 1 to 14", "summary", 410, "summarised", "2,490 tokens became 410"), line("history", "earlier messages and replies", "history", 860)]
      : [line("history", "earlier messages and replies", "history", 3350)]),
    ...(round >= 1 ? [line("find_order", "order A-1042", "tool_results", round === 3 ? 420 : 1240, ...(round === 3 ? ["trimmed", "1,240 tokens, cut to its beginning and end"] : []))] : []),
    ...(round >= 2 ? [line("track_parcel", "parcel 00340", "tool_results", 1140)] : []),
    line("user", "prompt", "prompt", 46),
  ];
  const texts = [
    { section: "system", label: "system prompt", text: "You are the assistant of a small shop. Answer shortly, name orders by their number, and never promise what a tool has not confirmed." },
    { section: "tools", label: "refund_order", text: "Give the money for an order back.\n\n{\n \"type\": \"object\",\n \"properties\": {\"order\": {\"type\": \"string\"}, \"amount\": {\"type\": \"number\"}}\n}" },
    { section: "memory", label: "prefers e-mail to calls", text: "The customer prefers e-mail to calls." },
    { section: "memory", label: "order A-1042 was a gift", text: "Order A-1042 was a gift for a friend in Porto; the receipt must not show its price." },
    { section: "retrieval", label: "returns.md, part 3", text: "A parcel that the carrier has lost counts as returned after ten days. The money goes back to the card it came from. Above 50 EUR a person confirms." },
    ...(round === 3 ? [{ section: "summary", label: "messages 1 to 14", text: "The customer ordered A-1042 on 3 May as a gift. The parcel left on 4 May and was last seen in Porto on 7 May. Two calls to the carrier brought nothing. The customer asked not to be called." }] : []),
    { section: "prompt", label: "prompt", text: prompt },
  ];
  const estimatedTokens = Object.values(sections).reduce((sum, tokens) => sum + tokens, 0);
  return { sections, window: WINDOW, estimatedTokens, lines, texts, cached: STORY_CACHED[round] };
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const ANSWER = `It is **21 °C** and clear in Lisbon, so the walk can go ahead.

| When | Sky | °C |
|---|---|---|
| Morning | clear | 17 |
| Noon | clear | 21 |
| Evening | light wind | 18 |

Two things to take along:

1. water,
2. a light jacket for the evening.

\`\`\`python
weather = get_weather("Lisbon")
assert weather.sky == "clear"
\`\`\`

More in the [handbook](https://example.org/handbook). <script>alert("no")</script>
`;

export async function* script(run) {
  const { prompt } = run;
  const word = (list) => list.some((item) => prompt.toLowerCase().includes(item));
  yield { type: "start", messageId: run.id, messageMetadata: { runId: run.id, threadId: run.threadId, startedAt: Date.now() } };
  const ledger = (round, reported) => {
    const context = run.context(round);
    return {
      type: "data-ledger", id: `round-${round}`,
      data: {
        round, maxRounds: 10, sections: context.sections, window: context.window, estimatedTokens: context.estimatedTokens,
        ...(reported ? { reportedTokens: context.estimatedTokens + 13, cachedTokens: cachedOf(context, round), costUsd: 0.0031 + round * 0.0009 } : {}),
      },
    };
  };
  const usage = { inputTokens: 0, outputTokens: 0, cachedTokens: 0, costUsd: 0 };
  const count = (round) => {
    const { data } = ledger(round, true);
    usage.inputTokens += data.reportedTokens; usage.cachedTokens += data.cachedTokens;
    usage.costUsd += data.costUsd; usage.outputTokens += 104;
  };
  const begin = (round) => [{ type: "start-step" }, ledger(round, false)];
  const end = (round) => (count(round), [ledger(round, true), { type: "finish-step" }]);
  const finish = (stoppedBy = "stop", finishReason = "stop") => ({
    type: "finish", finishReason, messageMetadata: { runId: run.id, threadId: run.threadId, stoppedBy, usage: { ...usage } },
  });
  async function* say(id, text, pace = 4, piece = /[\s\S]{1,14}/g) {
    yield { type: "text-start", id };
    for (const delta of text.match(piece) ?? []) {
      if (run.stopped) return;
      await sleep(pace);
      yield { type: "text-delta", id, delta };
    }
    yield { type: "text-end", id };
  }
  async function* think(id, text) {
    yield { type: "reasoning-start", id };
    for (const delta of text.match(/[\s\S]{1,20}/g) ?? []) { await sleep(3); yield { type: "reasoning-delta", id, delta }; }
    yield { type: "reasoning-end", id };
  }
  function* call(id, name, input, external = false) {
    yield { type: "tool-input-start", toolCallId: id, toolName: name, dynamic: true };
    yield { type: "tool-input-available", toolCallId: id, toolName: name, input, dynamic: true, ...(external ? {} : { providerExecuted: true }) };
  }
  function* returned(id, output, ms = 240) {
    yield { type: "tool-output-available", toolCallId: id, output, dynamic: true, providerExecuted: true };
    yield { type: "data-tool-time", id: `time-${id}`, data: { toolCallId: id, startedAt: Date.now() - ms, ms } };
  }
  const note = (id, name, input, extra = {}) => ({ id, toolCallId: id, name, input, kind: "approval", ...extra });

  yield* begin(0);
  if (word(["fail"])) {
    yield* say("t0", "I will look that");
    if (run.tries === 0) { yield { type: "error", errorText: "The run failed. Request req-5f3a." }; return; }
    yield { type: "data-void", data: { ids: ["t0"] } };
    yield* say("t1", "The second try worked.");
    yield* end(0); yield finish(); return;
  }
  if (word(["nested"])) {
    yield* say("t0", `${"> ".repeat(2500)}end`, 1, /[\s\S]{1,500}/g);
    yield* end(0); yield finish(); return;
  }
  if (word(["broken note"])) {
    yield* say("t0", "These words are shown.");
    yield { type: "data-context", data: { source: "memory", op: "recalled", records: { length: 1 } } };
    yield* end(0); yield finish(); return;
  }
  if (word(["wide table"])) {
    const row = (cell) => `| ${Array.from({ length: 20 }, (_, at) => cell(at)).join(" | ")} |\n`;
    yield* say("t0", `${row((at) => `column ${at}`)}${row(() => "---")}${row((at) => `cell ${at}`)}${row((at) => `cell ${at}`)}`, 1, /[\s\S]{1,80}/g);
    yield* end(0); yield finish(); return;
  }
  if (word(["epic"])) {
    const paragraph = (number) => `### Part ${number}\n\n${"Some **words** and \`code\` of it. ".repeat(8)}\n\n- one\n- two\n\n`;
    yield* say("t0", Array.from({ length: 120 }, (_, number) => paragraph(number)).join(""), 1, /[\s\S]{1,60}/g);
    yield* end(0); yield finish(); return;
  }
  if (word(["endless"])) {
    for (let part = 0; !run.stopped; part += 1) yield* say(`t${part}`, "An endless answer. ".repeat(40), 12);
    yield { type: "abort" }; return;
  }
  if (word(["long"])) {
    yield* say("t0", "A long answer. ".repeat(400), 12);
    if (run.stopped) { yield { type: "abort" }; return; }
    yield* end(0); yield finish(); return;
  }
  if (word(["weather"])) {
    yield { type: "data-context", data: { source: "memory", op: "recalled", records: [{ id: "m1", text: "lives in Lisbon", createdAt: 1 }] } };
    yield* think("r0", "The user asks about the weather. The memory says that they live in Lisbon, so the tool gets that city.");
    yield* call("c1", "get_weather", { city: "Lisbon" });
    yield* call("c2", "get_weather", { city: "Atlantis" });
    await sleep(60);
    yield* returned("c1", { city: "Lisbon", celsius: 21, sky: "clear" });
    yield { type: "tool-output-error", toolCallId: "c2", errorText: "no such city: 'Atlantis'", dynamic: true, providerExecuted: true };
    yield { type: "data-tool-time", id: "time-c2", data: { toolCallId: "c2", startedAt: Date.now(), ms: 31 } };
    yield* end(0);
    yield* begin(1);
    yield* say("t1", ANSWER);
    yield* end(1); yield finish(); return;
  }
  if (word(["parcel"])) {
    yield { type: "data-context", data: { source: "memory", op: "recalled", records: [{ id: "m1", text: "prefers e-mail to calls", createdAt: 1 }, { id: "m2", text: "order A-1042 was a gift", createdAt: 1 }] } };
    yield* think("r0", "The customer asks about a parcel that has not come. The order has to be looked up first, then the carrier.");
    yield* call("p1", "find_order", { order: "A-1042" });
    yield* returned("p1", { order: "A-1042", total: 64.5, sent: "4 May", parcel: "00340" }, 180);
    yield* end(0); yield* begin(1);
    yield* call("p2", "search_tools", { query: "where is a parcel" });
    yield { type: "data-context", data: { source: "tools", op: "loaded", tools: ["track_parcel"] } };
    yield* returned("p2", "track_parcel is loaded", 12);
    yield* end(1); yield* begin(2);
    yield* call("p3", "track_parcel", { parcel: "00340" });
    yield* returned("p3", { last_seen: "Porto, 7 May", state: "lost" }, 1240);
    yield* end(2);
    yield { type: "data-compaction", data: { tokensBefore: 3350, tokensAfter: 1270 } };
    yield* begin(3);
    yield* say("p4", "The parcel of order **A-1042** was last seen in Porto on 7 May, and the carrier calls it **lost**.\n\n- It counts as returned since 17 May.\n- 64.50 EUR can go back to the card; above 50 EUR that needs your word.\n\nShall I ask for the refund?");
    yield* end(3); yield finish(); return;
  }
  if (word(["both"])) {
    const notes = [["d1", 20], ["d2", 90]].map(([id, amount]) => note(id, "refund_order", { order: id, amount }));
    for (const { id, name, input } of notes) yield* call(id, name, input);
    for (const data of notes) {
      yield { type: "data-approval", id: data.id, data };
      yield { type: "tool-approval-request", approvalId: data.id, toolCallId: data.id };
    }
    const { decisions } = yield* run.ask(notes, [], end(0));
    for (const { id } of notes) {
      if (decisions[id].approved) yield* returned(id, "paid");
      else yield { type: "tool-output-denied", toolCallId: id };
    }
    yield* begin(1); yield* say("t1", "Both are answered."); yield* end(1); yield finish(); return;
  }
  if (word(["refund"])) {
    yield* say("t0", "I can refund that. It needs your word first.");
    const input = { order: "A-1042", amount: 80 };
    yield* call("c3", "refund_order", input);
    yield { type: "data-approval", id: "c3", data: note("c3", "refund_order", input, { reason: "refunds over 50 EUR are confirmed by a person" }) };
    yield { type: "tool-approval-request", approvalId: "c3", toolCallId: "c3" };
    const answers = yield* run.ask([note("c3", "refund_order", input, { reason: "refunds over 50 EUR are confirmed by a person" })], [], end(0));
    const answer = answers.decisions.c3;
    if (answer.approved) yield* returned("c3", { refunded: (answer.input ?? input).amount, order: "A-1042" }, 1310);
    else yield { type: "tool-output-denied", toolCallId: "c3" };
    yield* begin(1);
    yield* say("t1", answer.approved ? `Done: ${(answer.input ?? input).amount} EUR are on their way.` : `Then I leave it. You said: ${answer.reason ?? "no"}.`);
    yield* end(1); yield finish(); return;
  }
  if (word(["external"])) {
    yield* call("c4", "read_thermometer", { room: "attic" }, true);
    yield { type: "data-approval", id: "c4", data: note("c4", "read_thermometer", { room: "attic" }, { kind: "external" }) };
    const answers = yield* run.ask([note("c4", "read_thermometer", { room: "attic" }, { kind: "external" })], [], end(0));
    yield* returned("c4", answers.decisions.c4.result);
    yield* begin(1);
    yield* say("t1", `The attic says ${JSON.stringify(answers.decisions.c4.result)}.`);
    yield* end(1); yield finish(); return;
  }
  if (word(["limit"])) {
    const limit = { kind: "tool_calls", name: "tool_calls", used: 5, limit: 5, scope: "turn", asks: true };
    yield* say("t0", "Five searches, and not there yet.");
    yield { type: "data-limit", id: "limit-tool_calls", data: limit };
    const answers = yield* run.ask([], [limit], end(0));
    yield* begin(1);
    yield* say("t1", answers.extend?.tool_calls ? `Thank you for ${answers.extend.tool_calls} more.` : "This is what I have.");
    yield* end(1); yield finish(answers.extend ? "stop" : "usage_limit"); return;
  }
  if (word(["research"])) {
    yield* call("c5", "ask_researcher", { topic: "opening hours" });
    const nested = [
      { type: "start", messageId: "c5" }, { type: "start-step" }, { type: "text-start", id: "n0" },
      ...("I look at the opening hours of the last year, ".repeat(6).match(/[\s\S]{1,18}/g) ?? []).map((delta) => ({ type: "text-delta", id: "n0", delta })),
      { type: "text-end", id: "n0" },
      { type: "tool-input-start", toolCallId: "c9", toolName: "search_orders", dynamic: true },
      { type: "tool-input-available", toolCallId: "c9", toolName: "search_orders", input: { year: 2025 }, dynamic: true, providerExecuted: true },
      { type: "tool-output-available", toolCallId: "c9", output: { found: 212 }, dynamic: true, providerExecuted: true },
      { type: "finish-step" }, { type: "finish", finishReason: "stop" },
    ];
    for (const chunk of nested) { await sleep(10); yield { type: "data-subagent-chunk", data: { path: ["c5"], agent: "researcher", chunk }, transient: true }; }
    yield { type: "data-subagent", id: "c5", data: { path: ["c5"], agent: "researcher", parts: [
      { type: "step-start" }, { type: "text", text: "I look at the opening hours of the last year, ".repeat(6), state: "done" },
      { type: "dynamic-tool", toolName: "search_orders", toolCallId: "c9", state: "output-available", input: { year: 2025 }, output: { found: 212 }, providerExecuted: true },
    ] } };
    yield* returned("c5", "Open from nine to six; closed on Sundays.", 2210);
    yield* end(0);
    yield* begin(1);
    yield* say("t1", "The shop is open from nine to six.");
    yield* end(1); yield finish(); return;
  }
  yield* say("t0", run.files > 0 ? `I see ${run.files} attachment(s): ${run.fileNames.join(", ")}.` : `You said: ${prompt}`);
  yield* end(0); yield finish();
}
