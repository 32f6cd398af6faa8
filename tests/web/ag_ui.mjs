// An AG-UI client: runs, answers the interrupts, and runs on.
//
// Arguments: the address of the API, and a JSON of options:
//   thread: its id; prompt: what is said first; payload: what every interrupt is answered with (null: cancelled);
//   repeat: send each resume twice; ignore: start a new run over an interrupt, without answers.
// Without an address, streams that were made before come from stdin as JSON, a list of {prompt?, lines}.
// Prints {runs: [{error, events, interrupts}], messages, state}.
import { HttpAgent, buildResumeArray } from "@ag-ui/client";

const [, , url, given = "{}"] = process.argv;
const options = { thread: "t1", prompt: "go", payload: { approved: true }, ...JSON.parse(given) };
const recorded = url === "-" ? JSON.parse(await read(process.stdin)) : null;
const runs = [];
let next = 0;

const agent = new HttpAgent({
  url: recorded ? "http://recorded.invalid" : url,
  threadId: options.thread,
  ...(recorded ? { fetch: async () => stream(recorded[next++].lines) } : {}),
});

async function run(parameters) {
  const found = { error: null, events: [], interrupts: [], outcome: null };
  runs.push(found);
  try {
    await agent.runAgent(parameters, {
      onEvent: ({ event }) => void found.events.push(event.type),
      onRunErrorEvent: ({ event }) => void (found.error = event.message),
      onRunFinishedEvent: ({ event }) => void (found.outcome = event.outcome ?? null),
    });
  } catch (error) {
    found.error ??= String(error.message ?? error);
  }
  found.interrupts = structuredClone(agent.pendingInterrupts);
  return found;
}

function answers(interrupts) {
  const said = options.payload === null ? { status: "cancelled" } : { status: "resolved", payload: options.payload };
  return buildResumeArray(interrupts, Object.fromEntries(interrupts.map((item) => [item.id, said])));
}

function stream(lines) {
  const body = lines.map((line) => `data: ${line}\n\n`).join("");
  return new Response(body, { status: 200, headers: { "content-type": "text/event-stream" } });
}

async function read(input) {
  let text = "";
  for await (const piece of input) text += piece;
  return text;
}

agent.addMessage({ id: `${options.thread}-m1`, role: "user", content: options.prompt });
let last = await run({});
if (options.ignore && last.interrupts.length > 0) {
  agent.addMessage({ id: `${options.thread}-m2`, role: "user", content: "and now?" });
  agent.pendingInterrupts = []; // a client that does not keep the rule
  last = await run({});
}
for (let turn = 0; turn < 5 && last.error === null && last.interrupts.length > 0; turn += 1) {
  const resume = answers(last.interrupts);
  const asked = last.interrupts;
  last = await run({ resume });
  if (options.repeat && turn === 0) {
    agent.pendingInterrupts = asked;
    await run({ resume });
  }
}
console.log(JSON.stringify({ runs, messages: agent.messages, state: agent.state }));
process.exit(0);
