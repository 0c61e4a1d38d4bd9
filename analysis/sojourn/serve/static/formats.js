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

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400]; // s
const MOST_TICKS = 7;

// Instants at whole steps between two, in µs, with their time of the day, to the digits that the step needs.
export function ticks(from, to) {
  const least = (to - from) / 1e6 / MOST_TICKS;
  const power = 10 ** Math.floor(Math.log10(least));
  const fine = [1, 2, 5, 10].map((digit) => digit * power).find((step) => step >= least);
  const step = least < 1 ? fine : STEPS.find((one) => one >= least) ?? Math.ceil(least / 86_400) * 86_400;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const width = Math.round(step * 1e6);
  const result = [];
  for (let time = Math.ceil(from / width) * width; time < to; time += width) {
    const label = instant(time).slice(0, 19);
    const fraction = digits ? `.${String(time % 1_000_000).padStart(6, "0").slice(0, digits)}` : "";
    result.push({ time, label: step >= 86_400 ? label.slice(0, 10) : `${label.slice(11)}${fraction}` });
  }
  return result;
}
