// Resolve a name, pin what it points at, and wait until it is pinned. Node 20, no packages.

declare const process: { env: Record<string, string | undefined>; argv: string[]; exit(code: number): never };

const url = process.env.GATEWAY ?? "http://127.0.0.1:8080";
const key = process.env.CONTENT_GATEWAY_KEY ?? "me";

type Problem = { type: string; title: string; detail: string }; // RFC 9457
type Resolution = { content?: { cid?: string; ipnsCache?: string } };
type Status = { result: { status: string; reason?: string } };
type Pins = { results: { cid: string; name?: string }[] };

function fail(words: string): never {
  console.error(words);
  process.exit(1);
}

/** What the service says; ends the program with the words of a refusal. */
async function call<T>(method: string, path: string, query: Record<string, string> = {}): Promise<T> {
  const headers = { "x-api-key": key };
  const signal = AbortSignal.timeout(30_000);
  const answer = await fetch(`${url}${path}?${new URLSearchParams(query)}`, { method, headers, signal });
  if (answer.ok) return (await answer.json()) as T;
  const problem = (await answer.json()) as Problem; // after 503, try again in Retry-After seconds
  return fail(`${problem.title}: ${problem.detail} (${url}${problem.type})`);
}

const domain = process.argv[2] ?? "site.demo";
const { content } = await call<Resolution>("GET", `/domain/resolve/${encodeURIComponent(domain)}`);
const cid = content?.cid ?? content?.ipnsCache;
if (!cid) fail(`${domain} has no content`);
console.log(domain, "is", cid);
const added = await call<{ message: string }>("POST", `/ipfs/pin/add/${cid}`, { name: domain });
console.log(added.message);
for (const start = Date.now(); ; await new Promise((resolve) => setTimeout(resolve, 500))) {
  const { status, reason } = (await call<Status>("GET", `/ipfs/pin/status/${cid}`)).result;
  if (status === "pinned") break;
  if (Date.now() - start > 60_000) fail(`still ${status}: ${reason ?? "it is being fetched"}`);
}
const { results } = await call<Pins>("GET", "/ipfs/pin/ls", { status: "pinned" });
for (const pin of results) console.log("-", pin.cid, pin.name ?? "");
