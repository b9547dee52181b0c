// Ten calls by Hey API's client, every answer validated by its zod schemas: asked is URL, KEY, CID.

import { createClient } from "./hey/client/index.js";
import * as gateway from "./hey/sdk.gen.js";
import { zPinState, zProblem } from "./hey/zod.gen.js";

const [url, key, cid] = process.argv.slice(2) as [string, string, string];
const client = createClient({ baseUrl: url, auth: key });
const stranger = createClient({ baseUrl: url, auth: "nobody" });

const sure = <T>({ data, error }: { data?: T; error?: unknown }): T => {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
};

const resolve = (domain: string, coinType?: number) =>
  gateway.resolveDomain({ client, path: { domain }, query: { coinType } });

const site = sure(await resolve("site.test"));
if (site.content?.type !== "ipfs") throw new Error("it is IPFS content");
const missing = zProblem.parse((await resolve("nobody.eth")).error);
const refused = zProblem.parse((await gateway.getKey({ client: stranger })).error);
const states = zPinState.options;
const path = { cid };
const query = { name: "site", meta: '{"commit":"3f2a9c1"}' };
const added = sure(await gateway.addPin({ client, path, query }));
const status = sure(await gateway.getPinStatus({ client, path })).result;
const listed = sure(await gateway.listPins({ client, query: { status: states } })).results[0]!;
const removed = sure(await gateway.removePin({ client, path })).result;

console.log(
  JSON.stringify({
    version: sure(await gateway.getVersion({ client })).version,
    scopes: sure(await gateway.getKey({ client })).result.scopes,
    site: [site.content.cid, site.walletAddress?.addr],
    coin: sure(await resolve("site.test", 0)).walletAddress?.addr,
    cafe: sure(await resolve("café.test")).walletAddress?.addr,
    missing: [missing.status, missing.code],
    refused: [refused.status, refused.code],
    added: [added.message, added.result?.cid],
    status: [status.cid, status.name, status.replicas.pinned >= 0],
    listed: [listed.name, listed.meta, states.includes(listed.status)],
    removed: removed.content,
  }),
);
