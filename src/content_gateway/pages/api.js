// The API as the console calls it: one function that asks, and what a refusal says.
//
// Knows problem documents (RFC 9457). What is asked for, and how an answer is shown, is left to
// console.js.

const SECONDS = 30;

/** An answer that is no success. `status` is 0 where none came. */
export class Problem extends Error {
  constructor(status, body, retryAfter) {
    super(body.detail ?? body.message ?? `The service answered ${status}.`);
    this.status = status;
    this.title = body.title ?? "The service cannot be reached";
    this.code = body.code;
    this.requestId = body.requestId;
    this.retryAfter = retryAfter;
  }
}

/**
 * The body of the answer to `method` on `path` with `key`, and its header fields.
 * `query` may have members that are undefined or empty: they are not sent.
 * Throws Problem; an abort by `signal` throws what it was aborted with.
 */
export async function ask(key, method, path, query = {}, signal = undefined) {
  const sent = Object.entries(query).filter(([, value]) => value);
  const address = sent.length ? `${path}?${new URLSearchParams(sent)}` : path;
  const timeout = AbortSignal.timeout(SECONDS * 1000);
  let headers, response, body;
  try {
    headers = new Headers({ "x-api-key": key });
  } catch {
    throw new Problem(0, { title: "Not a key", detail: "No key has characters like these." });
  }
  try {
    response = await fetch(address, {
      method,
      headers,
      cache: "no-store",
      credentials: "omit",
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
    body = await response.json();
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    if (response) throw new Problem(response.status, { title: "Not an answer of this service" });
    const detail = error.name === "TimeoutError"
      ? `No answer came within ${SECONDS} seconds.`
      : "No answer came. Is the service running, and this machine online?";
    throw new Problem(0, { detail });
  }
  if (!response.ok) throw new Problem(response.status, body, response.headers.get("retry-after"));
  return { body, headers: response.headers };
}
