// Sixteen calls by Hey API's client, whose zod schemas validate them: asked is URL, KEY and CID.

import { createClient } from "./hey/client/index.js";
import * as gateway from "./hey/sdk.gen.js";
import type { PinState } from "./hey/types.gen.js";
import { zProblem } from "./hey/zod.gen.js";

const [url, key, cid] = process.argv.slice(2) as [string, string, string];
const client = createClient({ baseUrl: url, auth: key });
const stranger = createClient({ baseUrl: url, auth: "nobody" });

const sure = <T>({ data, error }: { data?: T; error?: unknown }): T => {
  if (data === undefined) throw error;
  return data;
};

const resolve = (domain: string, coinType?: number) =>
  gateway.resolveDomain({ client, path: { domain }, query: { coinType } });

const list = async (...status: PinState[]) =>
  sure(await gateway.listPins({ client, query: { status } }));

// Only answers that are well are validated for us.
const refusal = ({ error }: { error?: unknown }) => {
  const { status, code, detail, message } = zProblem.parse(error);
  return [status, code, detail === message];
};

const site = sure(await resolve("site.test"));
const blog = sure(await resolve("blog.test")).content;
if (site.content?.type !== "ipfs" || blog?.type !== "ipns") throw new Error("another type");
const ipns = { client, path: { name: `ipns://${blog.name}` } };
const started = sure(await gateway.startIpnsResolution(ipns)).result;

const kept = (await list("pinned", "failed")).results[0]!;
const others = await list("pinning", "unpinned");
const at = Date.parse(kept.timestamp);
const after = new Date(at - 60_000).toISOString();
const before = new Date(at + 60_000).toISOString();
const meta = '{"commit":"3f2a9c1"}';
const query = { after, before, status: ["pinned" as const, "failed" as const], meta };
const found = sure(await gateway.psaListPins({ client, query }));

const path = { cid };
const named = { name: "site", meta: '{"app":"demo"}' };
const added = sure(await gateway.addPin({ client, path, query: named }));
const status = sure(await gateway.getPinStatus({ client, path })).result;
const removed = sure(await gateway.removePin({ client, path })).result;

console.log(
  JSON.stringify({
    version: sure(await gateway.getVersion({ client })).version,
    scopes: sure(await gateway.getKey({ client })).result.scopes,
    site: [site.content.cid, site.walletAddress?.addr],
    coin: sure(await resolve("site.test", 0)).walletAddress?.addr,
    cafe: sure(await resolve("café.test")).walletAddress?.addr,
    blog: [blog.name, started.name],
    missing: refusal(await resolve("nobody.eth")),
    invalid: refusal(await resolve("café_.test")),
    refused: refusal(await gateway.getKey({ client: stranger })),
    kept: [kept.cid, kept.name, kept.meta, kept.status],
    at,
    others: [others.count, others.results.length],
    found: found.results.map(({ pin }) => pin.name),
    added: [added.message, added.result?.cid],
    status: [status.cid, status.name, status.meta],
    removed: [removed.cid, removed.content],
  }),
);
