// Asks one client library about names: `node clients.mjs viem|ethers MODULES RPC_URL`.
//
// Reads a JSON list of {name, coin} on standard input, and writes one JSON line each, in that order:
// {address, content}, where a record is text, null (not set), {failed: why} or {invalid: why}. What a
// client has no way to ask for is left out. Judging is left to the tests.

import { createRequire } from "node:module";
import { join } from "node:path";
import { readFileSync } from "node:fs";

const [client, modules, url] = process.argv.slice(2);
const require = createRequire(join(modules, "any.js"));
const REGISTRY = "0x00000000000C2E074eC69A0dFb2997BA6C7d2e1e";
const UNIVERSAL_RESOLVER = "0xeEeEEEeE14D718C2B47D9923Deab1335E144EeEe";
const ABSENT = ["ResolverNotFound", "ResolverNotContract", "UnsupportedResolverProfile"];
const AT_ONCE = 8;

function viem() {
  const { createPublicClient, defineChain, http, BaseError, ContractFunctionRevertedError } = require("viem");
  const { getEnsAddress } = require("viem/actions");
  const { normalize } = require("viem/ens");
  const chain = defineChain({
    id: 31337,
    name: "test",
    nativeCurrency: { name: "Ether", symbol: "ETH", decimals: 18 },
    rpcUrls: { default: { http: [url] } },
    contracts: { ensUniversalResolver: { address: UNIVERSAL_RESOLVER } },
  });
  const chainClient = createPublicClient({ chain, transport: http(url, { retryCount: 0, timeout: 20_000 }) });
  return async ({ name, coin }) => {
    let normalized;
    try {
      normalized = normalize(name);
    } catch (wrong) {
      return { address: { invalid: String(wrong.message) } };
    }
    try {
      const coinType = coin === 60 ? undefined : BigInt(coin);
      return { address: await getEnsAddress(chainClient, { name: normalized, coinType, strict: true }) };
    } catch (error) {
      const reverted = error instanceof BaseError && error.walk((e) => e instanceof ContractFunctionRevertedError);
      const said = (reverted && (reverted.data?.errorName || reverted.signature)) || error.name || String(error);
      return { address: ABSENT.includes(said) ? null : { failed: said } };
    }
  };
}

function ethers() {
  const { JsonRpcProvider, Network, EnsPlugin, ensNormalize } = require("ethers");
  const network = new Network("test", 31337n).attachPlugin(new EnsPlugin(REGISTRY, 1, UNIVERSAL_RESOLVER));
  const provider = new JsonRpcProvider(url, network, { staticNetwork: network, batchMaxCount: 1, cacheTimeout: -1 });
  const settled = async (record) => {
    try {
      return await record;
    } catch (error) {
      return { failed: error.revert?.name || error.code || String(error) };
    }
  };
  return async ({ name, coin }) => {
    try {
      ensNormalize(name);
    } catch (wrong) {
      return { address: { invalid: String(wrong.message) }, content: { invalid: String(wrong.message) } };
    }
    const resolver = await settled(provider.getResolver(name));
    if (resolver === null || ABSENT.includes(resolver.failed)) return { address: null, content: null };
    if (resolver.failed) return { address: resolver, content: resolver };
    const [address, content] = await Promise.all([settled(resolver.getAddress(coin)), settled(resolver.getContentHash())]);
    return { address, content };
  };
}

const ask = { viem, ethers }[client]();
const questions = JSON.parse(readFileSync(0, "utf8"));
const answers = new Array(questions.length);
let next = 0;
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    while (next < questions.length) {
      const position = next++;
      answers[position] = await ask(questions[position]);
    }
  }),
);
for (const answer of answers) console.log(JSON.stringify(answer));
process.exit(0);
