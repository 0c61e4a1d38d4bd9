// Requests for data. The token comes with the first address; it is kept for the tab, and leaves the address.
const KEY = "sojourn-token";

export function takeToken() {
  const query = new URLSearchParams(location.search);
  const token = query.get("token");
  if (token) {
    sessionStorage.setItem(KEY, token);
    history.replaceState(null, "", `${location.pathname}${location.hash}`);
  }
  return sessionStorage.getItem(KEY) ?? "";
}

export const address = () => `${location.origin}/?token=${sessionStorage.getItem(KEY) ?? ""}${location.hash}`;

const pending = new Map();

// Of several requests with one name only the latest is answered; the earlier ones are cancelled.
export async function ask(name, query = new URLSearchParams(), { body, as = "json" } = {}) {
  pending.get(name)?.abort();
  const controller = new AbortController();
  pending.set(name, controller);
  const response = await fetch(`api/${name}?${query}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "X-Sojourn-Token": sessionStorage.getItem(KEY) ?? "" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: controller.signal,
  });
  if (response.ok) {
    const answer = await response[as]();
    if (answer.unavailable) throw new Error(answer.unavailable); // these requests do not allow an answer
    return answer;
  }
  const text = await response.text();
  throw new Error(text.startsWith("{") ? JSON.parse(text).error : text.trim());
}

export const isCancelled = (error) => error.name === "AbortError";

// Calls a function with the latest arguments, one call at a time: while it runs, only the latest waits.
export function oneAtATime(work) {
  let running = false;
  let next;
  return async (...values) => {
    next = values;
    if (running) return;
    running = true;
    try {
      while (next) {
        const now = next;
        next = undefined;
        await work(...now);
      }
    } finally {
      running = false;
    }
  };
}
