// Owns how numbers and times are written.

const WHOLE = new Intl.NumberFormat("en-GB");

export const count = (value: number): string => WHOLE.format(Math.round(value));

/** Write a number short: 940, 3.2k, 128k. */
export function short(value: number): string {
  if (value < 1000) return String(Math.round(value));
  const thousands = value / 1000;
  return thousands < 9.95 ? `${thousands.toFixed(1)}k` : `${Math.round(thousands)}k`;
}

export const percent = (part: number, whole: number): string => {
  if (whole <= 0) return "";
  const share = (part / whole) * 100;
  return share > 0 && share < 1 ? "<1 %" : `${Math.round(share)} %`;
};

export const signed = (value: number): string => (value > 0 ? `+${count(value)}` : value < 0 ? `−${count(-value)}` : "0");

/** Write a price with as many places as tell something. */
export function cost(usd: number): string {
  if (usd === 0) return "$0";
  const places = usd >= 1 ? 2 : Math.min(8, 1 - Math.floor(Math.log10(Math.abs(usd))));
  return `$${usd.toFixed(Math.max(2, places)).replace(/(\.\d\d\d*?)0+$/, "$1")}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** Write when something was, seen from now: minutes, then a time, then a date. */
export function since(then: number, now: number): string {
  const minutes = Math.floor((now - then) / 60_000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h`;
  return new Date(then).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
}

export const json = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  if (size < 1024 ** 2) return `${Math.round(size / 1024)} kB`;
  return `${(size / 1024 ** 2).toFixed(1)} MB`;
}
