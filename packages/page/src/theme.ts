// Owns light and dark: the system's choice until a person makes one, which this browser then keeps.

import { useCallback, useEffect, useState } from "react";

export type Theme = "light" | "dark";

const KEY = "sapwood.theme";
const DARK = "(prefers-color-scheme: dark)";

function chosen(): Theme | undefined {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : undefined;
}

const current = (): Theme => chosen() ?? (matchMedia(DARK).matches ? "dark" : "light");

export function applyTheme(): void {
  document.documentElement.dataset["theme"] = current();
}

export function useTheme(): readonly [Theme, () => void] {
  const [theme, setTheme] = useState<Theme>(current);
  useEffect(() => {
    const query = matchMedia(DARK);
    const follow = (): void => setTheme(current());
    query.addEventListener("change", follow);
    return () => query.removeEventListener("change", follow);
  }, []);
  useEffect(applyTheme, [theme]);
  const toggle = useCallback(() => {
    const next: Theme = current() === "dark" ? "light" : "dark";
    localStorage.setItem(KEY, next);
    setTheme(next);
  }, []);
  return [theme, toggle];
}
