import { useEffect, useState, type ReactNode } from "react";

/** A button that puts a text on the clipboard, and says for a moment that it did. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }): ReactNode {
  const [state, setState] = useState<"" | "Copied" | "Not copied">("");
  useEffect(() => {
    if (state === "") return undefined;
    const timer = setTimeout(() => setState(""), 1600);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = (): void => {
    // Outside of https and localhost there is no clipboard.
    const done = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
    done.then(() => setState("Copied"), () => setState("Not copied"));
  };
  return (
    <button type="button" className="quiet" onClick={copy} aria-label={state || label}>
      <span aria-live="polite">{state || "Copy"}</span>
    </button>
  );
}
