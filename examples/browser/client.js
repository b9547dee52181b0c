// Resolve a name, pin what it points at, and wait until it is pinned, from a page of any origin that
// the service lists in `cors.origins`. The key is the reader's own: none belongs into a page.

const at = (id) => document.getElementById(id);
const say = (text) => (at("said").textContent = text);
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

async function call(method, path, query = {}) {
  const answer = await fetch(`${at("gateway").value}${path}?${new URLSearchParams(query)}`, {
    method,
    headers: { "x-api-key": at("key").value },
    signal: AbortSignal.timeout(30_000),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(`${body.title}: ${body.detail}`); // RFC 9457
  return body;
}

at("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const domain = at("domain").value;
    const { content } = await call("GET", `/domain/resolve/${encodeURIComponent(domain)}`);
    const cid = content?.cid ?? content?.ipnsCache;
    if (!cid) throw new Error(`${domain} has no content`);
    say((await call("POST", `/ipfs/pin/add/${cid}`, { name: domain })).message);
    for (let tries = 0, status = ""; status !== "pinned" && tries < 60; tries++) {
      ({ status } = (await call("GET", `/ipfs/pin/status/${cid}`)).result);
      say(`${domain} is ${status}`);
      await pause(status === "pinned" ? 0 : 1);
    }
    const { results } = await call("GET", "/ipfs/pin/ls");
    at("pins").replaceChildren(...results.map((pin) => {
      const item = document.createElement("li");
      item.textContent = `${pin.cid} ${pin.name ?? ""}`; // text, never markup: names are others' words
      return item;
    }));
  } catch (error) {
    say(error.message);
  }
});
