import { useEffect, useRef, useState, type ReactNode } from "react";
import { keepToken, readToken } from "./api";

/** Ask for the token that the server wants. It is kept for this window only. */
export function TokenForm({ onDone }: { readonly onDone: () => void }): ReactNode {
  const [token, setToken] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const wasRefused = readToken() !== "";
  useEffect(() => field.current?.focus(), []);
  return (
    <main className="gate">
      <h1>This server asks who you are</h1>
      <form onSubmit={(event) => { event.preventDefault(); if (token.trim()) { keepToken(token.trim()); onDone(); } }}>
        <label htmlFor="token">Bearer token</label>
        <input id="token" ref={field} type="password" autoComplete="off" value={token} onChange={(event) => setToken(event.target.value)} />
        <p className="muted">It is sent with each request, and forgotten when this window closes.</p>
        {wasRefused && <p className="problem" role="alert">The server did not accept the token that it was given.</p>}
        <div className="row"><button type="submit" className="button primary">Go on</button></div>
      </form>
    </main>
  );
}
