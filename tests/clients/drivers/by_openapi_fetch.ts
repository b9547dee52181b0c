// Ten calls by openapi-fetch, typed by openapi-typescript: asked is URL, KEY and CID.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [url, key, cid] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths>({ baseUrl: url, headers: { "x-api-key": key } });
const stranger = createClient<paths>({ baseUrl: url, headers: { "x-api-key": "nobody" } });

const sure = <T>({ data }: { data?: T }): T => {
  if (data === undefined) throw new Error("it was refused");
  return data;
};

const resolve = (domain: string, coinType?: number) =>
  client.GET("/domain/resolve/{domain}", { params: { path: { domain }, query: { coinType } } });

const site = sure(await resolve("site.test"));
if (site.content?.type !== "ipfs") throw new Error("it is IPFS content");
const missing = (await resolve("nobody.eth")).error;
const refused = (await stranger.GET("/key")).error;
const states: components["schemas"]["PinState"][] = ["queued", "pinning", "pinned", "failed", "unpinned"];
const path = { cid };
const query = { name: "site", meta: '{"commit":"3f2a9c1"}' };
const added = sure(await client.POST("/ipfs/pin/add/{cid}", { params: { path, query } }));
const status = sure(await client.GET("/ipfs/pin/status/{cid}", { params: { path } })).result;
const pins = await client.GET("/ipfs/pin/ls", { params: { query: { status: states } } });
const listed = sure(pins).results[0]!;
const removed = sure(await client.DELETE("/ipfs/pin/rm/{cid}", { params: { path } })).result;

console.log(
  JSON.stringify({
    version: sure(await client.GET("/version")).version,
    scopes: sure(await client.GET("/key")).result.scopes,
    site: [site.content.cid, site.walletAddress?.addr],
    coin: sure(await resolve("site.test", 0)).walletAddress?.addr,
    cafe: sure(await resolve("café.test")).walletAddress?.addr,
    missing: [missing?.status, missing?.code],
    refused: [refused?.status, refused?.code],
    added: [added.message, added.result?.cid],
    status: [status.cid, status.name, status.replicas.pinned >= 0],
    listed: [listed.name, listed.meta, states.includes(listed.status)],
    removed: removed.content,
  }),
);
