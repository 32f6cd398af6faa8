// @vitest-environment node
import { describe, expect, test } from "vitest";

import { errorOf, readBatches, streamOf } from "../src/stream.js";
import { AssistantError, readChunks, type AnyChunk } from "../src/index.js";

const encoder = new TextEncoder();

function bodyOf(pieces: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
}

async function chunksOf(pieces: readonly Uint8Array[]): Promise<AnyChunk[]> {
  const found: AnyChunk[] = [];
  for await (const chunk of readChunks(bodyOf(pieces))) found.push(chunk);
  return found;
}

function cut(text: string, size: number): Uint8Array[] {
  const bytes = encoder.encode(text);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) => bytes.slice(at * size, (at + 1) * size));
}

const DELTA = { type: "text-delta", id: "0", delta: "Ærlig talt 🍲\r\nevent: x\n\n" };
const FRAMES = `: ping\n\nid: 1\ndata: ${JSON.stringify({ type: "start", messageId: "r" })}\n\n: ping\n\nid: 2\ndata: ${JSON.stringify(DELTA)}\n\ndata: [DONE]\n\n`;

describe("a stream of events is read the same however it is cut", () => {
  test.each([1, 2, 3, 5, 7, 16, 64, 10_000])("in pieces of %i bytes", async (size) => {
    for (const lines of ["\n", "\r\n", "\r"]) {
      const text = FRAMES.replaceAll("\n", lines);
      expect(await chunksOf(cut(text, size))).toEqual([{ type: "start", messageId: "r" }, DELTA]);
    }
  });

  test("with a byte order mark, other fields, no blank after the colon, and data over several lines", async () => {
    const text = '\uFEFFretry: 5\nevent: x\nnothing\ndata:{"type":\ndata: "start-step"}\n\ndata: [DONE]\n\n';
    expect(await chunksOf(cut(text, 4))).toEqual([{ type: "start-step" }]);
  });

  test("a frame that the end cuts off is no chunk, and the stream is not complete", async () => {
    const ending = { complete: false };
    const found: string[] = [];
    const text = 'id: 7\ndata: {"type":"start-step"}\n\nid: 8\ndata: {"type":"fin';
    for await (const batch of readBatches(bodyOf(cut(text, 1_000)), ending)) {
      found.push(...batch.map((item) => `${item.id} ${item.chunk.type}`));
    }
    expect([found, ending]).toEqual([["7 start-step"], { complete: false }]);
  });

  test("what comes after the last line is not read, and the connection is given back", async () => {
    let cancelled = false;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(encoder.encode('data: [DONE]\n\ndata: {"type":"start-step"}\n\n')),
      cancel: () => {
        cancelled = true;
      },
    });
    const found = [];
    for await (const chunk of readChunks(body)) found.push(chunk);
    expect([found, cancelled]).toEqual([[], true]);
  });
});

describe("an answer that is none is an error that says what", () => {
  test("in the server's own words", async () => {
    const error = { code: "busy", message: "a run is going on", requestId: "q1", runId: "r1" };
    const found = await errorOf(new Response(JSON.stringify({ error }), { status: 409 }));
    expect(found).toBeInstanceOf(AssistantError);
    expect({ ...found, message: found.message }).toMatchObject({ ...error, status: 409 });
  });

  test.each(["<html>Bad gateway</html>", "", "null", '{"error":"busy"}'])("in a proxy's words: %s", async (text) => {
    const headers = { "x-request-id": "q2" };
    const found = await errorOf(new Response(text, { status: 502, headers }));
    expect({ ...found, message: found.message }).toMatchObject({
      code: "http_502",
      message: "the server answered 502",
      status: 502,
      requestId: "q2",
    });
  });

  test("where there is nothing to stream", async () => {
    await expect(streamOf(new Response(null, { status: 200 }))).rejects.toMatchObject({ code: "not_a_stream" });
  });
});
