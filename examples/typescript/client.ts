// Resolve a name, pin what it points at, and wait until it is pinned. Node 20, no packages.

declare const process: { env: Record<string, string | undefined>; argv: string[]; exitCode: number };

const url = process.env.GATEWAY ?? "http://127.0.0.1:8080";
const key = process.env.CONTENT_GATEWAY_KEY ?? "me";
const pause = (seconds: number) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

type Problem = { type: string; title: string; detail: string }; // RFC 9457
type Resolution = { content?: { cid?: string; ipnsCache?: string } };
type Status = { result: { status: string; reason?: string } };
type Pins = { results: { cid: string; name?: string }[] };

/** What the service says; throws the words of a refusal. */
async function call<T>(method: string, path: string, query: Record<string, string> = {}): Promise<T> {
  for (let triesLeft = 4; ; triesLeft--) {
    const headers = { "x-api-key": key };
    const signal = AbortSignal.timeout(30_000);
    const answer = await fetch(`${url}${path}?${new URLSearchParams(query)}`, { method, headers, signal });
    if (answer.ok) return (await answer.json()) as T;
    const body = await answer.text();
    const wait = Number(answer.headers.get("retry-after"));
    if (triesLeft > 0 && wait > 0) {
      await pause(Math.min(wait, 60)); // nothing was done: the same again
      continue;
    }
    const isProblem = answer.headers.get("content-type")?.startsWith("application/problem+json");
    if (!isProblem) throw new Error(`${answer.status} ${answer.statusText}`); // a proxy's page
    const problem = JSON.parse(body) as Problem;
    throw new Error(`${problem.title}: ${problem.detail} (${url}${problem.type})`);
  }
}

async function main(domain: string): Promise<void> {
  const { content } = await call<Resolution>("GET", `/domain/resolve/${encodeURIComponent(domain)}`);
  const cid = content?.cid ?? content?.ipnsCache;
  if (!cid) throw new Error(`${domain} has no content`);
  console.log(domain, "is", cid);
  const added = await call<{ message: string }>("POST", `/ipfs/pin/add/${cid}`, { name: domain });
  console.log(added.message);
  for (const start = Date.now(); ; await pause(0.5)) {
    const { status, reason } = (await call<Status>("GET", `/ipfs/pin/status/${cid}`)).result;
    if (status === "pinned") break;
    if (Date.now() - start > 60_000) throw new Error(`still ${status}: ${reason ?? "it is being fetched"}`);
  }
  const { results } = await call<Pins>("GET", "/ipfs/pin/ls", { status: "pinned" });
  for (const pin of results) console.log("-", pin.cid, pin.name ?? "");
}

main(process.argv[2] ?? "site.demo").catch((refused: Error) => {
  console.error(refused.message);
  process.exitCode = 1;
});

export {};
