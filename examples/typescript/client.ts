// Resolve a name, pin what it points at, and wait until it is pinned. Node 20, no packages.

declare const process: { env: Record<string, string | undefined>; argv: string[] };

const url = process.env.GATEWAY ?? "http://127.0.0.1:8080";
const key = process.env.CONTENT_GATEWAY_KEY ?? "me";
const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

type Problem = { type: string; title: string; status: number; detail: string };
type Resolution = { content?: { cid?: string; ipnsCache?: string } };
type Pin = { cid: string; name?: string };
type Status = { status: string; reason?: string; replicas: { pinned: number; wanted?: number } };

/** The answer of the service; throws the words of a refusal. */
async function call<T>(method: string, path: string, query: Record<string, string> = {}): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const answer = await fetch(`${url}${path}?${new URLSearchParams(query)}`, {
      method,
      headers: { "x-api-key": key },
      signal: AbortSignal.timeout(30_000),
    });
    if (answer.ok) return (await answer.json()) as T;
    const problem = (await answer.json()) as Problem; // RFC 9457
    if (answer.status !== 503 || attempt === 5) {
      throw new Error(`${problem.title}: ${problem.detail} (${url}${problem.type})`);
    }
    await pause(Number(answer.headers.get("retry-after") ?? 1));
  }
}

const domain = process.argv[2] ?? "site.demo";
const path = `/domain/resolve/${encodeURIComponent(domain)}`;
const { content } = await call<Resolution>("GET", path);
const cid = content?.cid ?? content?.ipnsCache;
if (!cid) throw new Error(`${domain} has no content`);
console.log(domain, "is", cid);
const added = await call<{ message: string }>("POST", `/ipfs/pin/add/${cid}`, { name: domain });
console.log(added.message);
const status = async () => (await call<{ result: Status }>("GET", `/ipfs/pin/status/${cid}`)).result;
let pin = await status();
for (const start = Date.now(); pin.status !== "pinned"; pin = await status()) {
  if (Date.now() - start > 60_000) throw new Error(`still ${pin.status}: ${pin.reason ?? "it is being fetched"}`);
  await pause(0.5);
}
console.log("pinned by", pin.replicas.pinned, "of", pin.replicas.wanted);
const { results } = await call<{ results: Pin[] }>("GET", "/ipfs/pin/ls", { status: "pinned" });
for (const listed of results) console.log("-", listed.cid, listed.name ?? "");

export {};
