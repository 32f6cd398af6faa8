// A chat without a page: what `useChat` is made of, driven through a prompt, an approval and its continuation.
//
// Arguments: the address of the API, the id of the thread, and a JSON of options:
//   prompt: what is said first; approve: whether calls that wait are allowed (default true); reason: beside the answer;
//   resume: take up the stream of the thread instead of a prompt; abort_after: leave after so many parts;
//   headers: sent along.
// Prints {status, error, requests, messages}.
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (message) => void (this.messages = [...this.messages, message]);
  popMessage = () => void (this.messages = this.messages.slice(0, -1));
  replaceMessage = (index, message) => {
    this.messages = [...this.messages.slice(0, index), this.snapshot(message), ...this.messages.slice(index + 1)];
  };
  snapshot = (value) => structuredClone(value);
}

export async function converse({ AbstractChat, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses }) {
  const [, , api, id, given = "{}"] = process.argv;
  const options = { prompt: "go", approve: true, ...JSON.parse(given) };
  const state = new State();
  const requests = [];
  const data = [];
  class Chat extends AbstractChat {
    constructor() {
      super({
        id,
        state,
        transport: new DefaultChatTransport({
          api,
          headers: options.headers ?? {},
          fetch: (url, init) => {
            requests.push(`${init?.method ?? "GET"} ${new URL(url).pathname}`);
            if (requests.length > 20) throw new Error("the client posts for ever");
            return fetch(url, init);
          },
        }),
        sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
        onData: (part) => data.push(part.type),
        onError: (error) => void (state.error = error),
      });
    }
  }
  const chat = new Chat();
  const idle = async () => {
    for (;;) {
      if (chat.status === "ready" || chat.status === "error") return;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };
  const waiting = () =>
    (state.messages.at(-1)?.parts ?? []).filter((part) => part.state === "approval-requested").map((part) => part.approval.id);

  await (options.resume ? chat.resumeStream() : chat.sendMessage({ text: options.prompt }));
  await idle();
  for (let turn = 0; turn < 5 && waiting().length > 0 && options.approve !== null; turn += 1) {
    const before = requests.length;
    for (const approval of waiting()) {
      const reason = options.reason === undefined ? {} : { reason: options.reason };
      await chat.addToolApprovalResponse({ id: approval, approved: options.approve, ...reason });
    }
    // The last answer posts by itself, maybe in a later tick than the one in which the promise above is done.
    for (let tries = 0; tries < 500 && requests.length === before; tries += 1) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await idle();
  }
  const error = state.error === undefined ? null : String(state.error.message ?? state.error);
  console.log(JSON.stringify({ status: chat.status, error, requests, data, messages: state.messages }));
  process.exit(0);
}
