// Numbers and instants as text.
export function seconds(value) {
  if (value === null || value === undefined) return "unknown";
  const size = Math.abs(value);
  if (size >= 60) return `${(value / 60).toFixed(1)} min`;
  if (size >= 1) return `${value.toFixed(size >= 10 ? 1 : 2)} s`;
  if (size >= 0.001) return `${(value * 1000).toFixed(size >= 0.1 ? 0 : 1)} ms`;
  return `${Math.round(value * 1e6)} µs`;
}

export const count = (value) => value.toLocaleString("en-US");
export const counted = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
export const percent = (value) => `${(value * 100).toFixed(value < 0.1 ? 1 : 0)} %`;

// Unix time in µs as 2026-01-31T12:00:00.000001Z; without the fraction if it is 0.
export function instant(value) {
  const text = new Date(Math.floor(value / 1000)).toISOString();
  const micros = String(Math.floor(value) % 1_000_000).padStart(6, "0");
  return micros === "000000" ? `${text.slice(0, 19)}Z` : `${text.slice(0, 19)}.${micros}Z`;
}

// The inverse; NaN if the text is no instant in UTC.
export function parseInstant(text) {
  const match = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,6}))?Z?$/.exec(text.trim());
  if (!match) return NaN;
  return Date.parse(`${match[1]}T${match[2]}Z`) * 1000 + Number((match[3] ?? "").padEnd(6, "0"));
}
