// Sixteen calls by openapi-fetch, typed by openapi-typescript: asked is URL, KEY and CID.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [url, key, cid] = process.argv.slice(2) as [string, string, string];
const client = createClient<paths>({ baseUrl: url, headers: { "x-api-key": key } });
const bearer = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });
const stranger = createClient<paths>({ baseUrl: url, headers: { "x-api-key": "nobody" } });

const sure = <T>({ data, error }: { data?: T; error?: unknown }): T => {
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
};

const resolve = (domain: string, coinType?: number) =>
  client.GET("/domain/resolve/{domain}", { params: { path: { domain }, query: { coinType } } });

const list = async (...status: components["schemas"]["PinState"][]) =>
  sure(await client.GET("/ipfs/pin/ls", { params: { query: { status } } }));

const refusal = ({ error }: { error?: components["schemas"]["Problem"] }) =>
  [error?.status, error?.code, error?.detail === error?.message];

const site = sure(await resolve("site.test"));
const blog = sure(await resolve("blog.test")).content;
if (site.content?.type !== "ipfs" || blog?.type !== "ipns") throw new Error("another type");
const ipns = { params: { path: { name: `ipns://${blog.name}` } } };
const started = sure(await client.POST("/ipns/resolve/{name}", ipns)).result;

const kept = (await list("pinned", "failed")).results[0]!;
const others = await list("pinning", "unpinned");
const at = Date.parse(kept.timestamp);
const after = new Date(at - 60_000).toISOString();
const before = new Date(at + 60_000).toISOString();
const meta = '{"commit":"3f2a9c1"}';
const query = { after, before, status: ["pinned" as const, "failed" as const], meta };
const found = sure(await bearer.GET("/psa/pins", { params: { query } }));

const path = { cid };
const named = { name: "site", meta: '{"app":"demo"}' };
const added = sure(await client.POST("/ipfs/pin/add/{cid}", { params: { path, query: named } }));
const status = sure(await client.GET("/ipfs/pin/status/{cid}", { params: { path } })).result;
const removed = sure(await client.DELETE("/ipfs/pin/rm/{cid}", { params: { path } })).result;

console.log(
  JSON.stringify({
    version: sure(await client.GET("/version")).version,
    scopes: sure(await client.GET("/key")).result.scopes,
    site: [site.content.cid, site.walletAddress?.addr],
    coin: sure(await resolve("site.test", 0)).walletAddress?.addr,
    cafe: sure(await resolve("café.test")).walletAddress?.addr,
    blog: [blog.name, started.name],
    missing: refusal(await resolve("nobody.eth")),
    invalid: refusal(await resolve("café_.test")),
    refused: refusal(await stranger.GET("/key")),
    kept: [kept.cid, kept.name, kept.meta, kept.status],
    at,
    others: [others.count, others.results.length],
    found: found.results.map(({ pin }) => pin.name),
    added: [added.message, added.result?.cid],
    status: [status.cid, status.name, status.meta],
    removed: [removed.cid, removed.content],
  }),
);
