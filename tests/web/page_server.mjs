// Serves a folder, and hands what lies under /api to another server, as its own: no request crosses an origin.
import { createServer, request } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };

export async function servePage(folder, target) {
  const { hostname, port, host, origin } = new URL(target);
  const server = createServer(async (incoming, outgoing) => {
    const { pathname } = new URL(incoming.url, "http://page");
    if (pathname.startsWith("/api/")) {
      const headers = { ...incoming.headers, host };
      if (headers.origin) headers.origin = origin;
      const passed = request({ hostname, port, path: incoming.url, method: incoming.method, headers }, (answer) => {
        outgoing.writeHead(answer.statusCode, answer.headers);
        answer.pipe(outgoing);
      });
      passed.on("error", () => outgoing.destroy());
      outgoing.on("close", () => passed.destroy());
      incoming.pipe(passed);
      return;
    }
    try {
      const path = normalize(pathname === "/" ? "/index.html" : pathname);
      const body = await readFile(join(folder, path));
      outgoing.writeHead(200, { "content-type": TYPES[extname(path)] ?? "application/octet-stream" });
      outgoing.end(body);
    } catch {
      outgoing.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => server.close() };
}
