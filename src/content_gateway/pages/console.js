// The console: names and pins by hand, with a key that stays in this tab.
//
// Shows what the API says as text, never as markup. What is being shown is asked for again while it
// can change: one pin in view, and one page of the list. The key is in sessionStorage, which no
// other tab and no server reads.

import { ask } from "/assets/api.js";
import { at, count, element, shownBytes, shownDate, showFacts, showProblem } from "/assets/show.js";

const PAGE = 50;
const KEY = "content-gateway key";
const UNSETTLED = new Set(["queued", "pinning"]);
const SHORTEST_WAIT = 1_000; // milliseconds between two questions about the same
const LONGEST_WAIT = 15_000;

let key = "";
let pinnable = ""; // the CID that "Pin this content" is for
let cursors = [""]; // of the pages up to the one that is shown
let next = "";
let watched = ""; // the CID of the pin in view
let watch = new AbortController(); // ends what asks about it
let listing = new AbortController(); // ends what asks for the page of the list

// -- asking ----------------------------------------------------------------------------------

/** Run `work` for a form: its button waits, and a refusal stands in `place`. */
async function submitted(form, place, work) {
  const button = form.querySelector("button[type=submit]");
  button.disabled = true;
  try {
    await work();
  } catch (problem) {
    showProblem(place, problem);
  } finally {
    button.disabled = false;
  }
}

/**
 * Run `step` until it says that it is done, or `signal` aborts: slower each time, and only while the
 * page is looked at. What is refused ends it; an outage is told in `place` and outlasted.
 */
async function untilDone(step, place, signal) {
  for (let wait = SHORTEST_WAIT; !signal.aborted; wait = Math.min(wait * 1.5, LONGEST_WAIT)) {
    try {
      if (await step()) return;
    } catch (problem) {
      if (signal.aborted) return;
      showProblem(place, problem);
      if (problem.status >= 400 && problem.status < 500) return;
    }
    do {
      await new Promise((resolve) => setTimeout(resolve, wait));
    } while (document.hidden && !signal.aborted);
  }
}

// -- the key ---------------------------------------------------------------------------------

async function openWith(candidate) {
  const scopes = await showKey(candidate);
  key = candidate;
  sessionStorage.setItem(KEY, key);
  at("key").value = "";
  at("key-said").replaceChildren();
  at("key-form").hidden = true;
  at("key-card").hidden = false;
  const mayPin = scopes.includes("pin");
  at("resolve-section").hidden = !scopes.includes("resolve");
  for (const id of ["pin-section", "list-section"]) at(id).hidden = !mayPin;
  if (mayPin) await showPage([""]);
}

/** Show what `candidate` may do and has; returns its scopes. */
async function showKey(candidate) {
  const { result } = (await ask(candidate, "GET", "/key")).body;
  showFacts(at("key-facts"), keyFacts(result));
  return result.scopes;
}

function keyFacts({ name, scopes, created, expires, pins }) {
  const facts = [["May", scopes.join(", ") || "nothing"]];
  if (name !== undefined) facts.unshift(["Name", name]);
  if (created) facts.push(["Issued", shownDate(created)]);
  if (expires) facts.push(["Expires", shownDate(expires)]);
  if (pins !== undefined) facts.push(["Holds", count(pins, "pin", "pins")]);
  return facts;
}

function forget() {
  sessionStorage.removeItem(KEY);
  location.reload(); // nothing of the key's is left on the page
}

// -- names -----------------------------------------------------------------------------------

async function resolve() {
  const domain = at("domain").value.trim();
  at("pin-resolved").hidden = true;
  const { body, headers } = await ask(key, "GET", `/domain/resolve/${encodeURIComponent(domain)}`, {
    coinType: at("coin-type").value.trim(),
  });
  const facts = [["Answer", body.message]];
  const { content, walletAddress } = body;
  if (content) facts.push([content.type === "ipfs" ? "CID" : "IPNS name", content.cid ?? content.name]);
  if (content?.ipnsCache) facts.push(["CID behind it", content.ipnsCache]);
  if (content?.path) facts.push(["Path", content.path]);
  if (walletAddress) {
    const isOwner = headers.get("content-gateway-wallet") === "owner";
    facts.push([isOwner ? "Owner's wallet" : "Wallet", walletAddress.addr]);
  }
  if (headers.has("age")) facts.push(["As of", `${headers.get("age")} s ago`]);
  const list = element("dl");
  showFacts(list, facts);
  at("resolve-said").replaceChildren(list);
  pinnable = content?.cid ?? content?.ipnsCache ?? "";
  at("pin-resolved").hidden = !pinnable || at("pin-section").hidden;
}

// -- pins ------------------------------------------------------------------------------------

async function pin(cid, name) {
  const { body } = await ask(key, "POST", `/ipfs/pin/add/${encodeURIComponent(cid)}`, { name });
  at("pin-said").replaceChildren(element("p", body.message));
  showPin(cid);
  await Promise.all([showPage([""]), showKey(key)]);
}

/** Show how far the pin of `cid` is, until it is there. */
function showPin(cid) {
  watch.abort();
  watch = new AbortController();
  watched = cid;
  const { signal } = watch;
  const state = at("watch-state");
  at("watch-section").hidden = false;
  state.replaceChildren();
  at("watch-facts").replaceChildren();
  const path = `/ipfs/pin/status/${encodeURIComponent(cid)}`;
  const step = async () => {
    const { body } = await ask(key, "GET", path, {}, signal);
    const { status } = body.result;
    // Said again only where it has changed: readers of the screen would hear it each time.
    if (state.textContent !== `${status} ${body.message}`) {
      state.replaceChildren(element("strong", status, status), ` ${body.message}`);
    }
    showFacts(at("watch-facts"), statusFacts(body.result));
    return status === "pinned";
  };
  untilDone(step, state, signal);
}

function statusFacts(pin) {
  const { pinned, wanted } = pin.replicas;
  const facts = [["CID", pin.cid]];
  if (pin.name) facts.push(["Name", pin.name]);
  for (const [term, said] of Object.entries(pin.meta ?? {})) facts.push([term, said]);
  facts.push(["Replicas", wanted ? `${pinned} of ${wanted}` : `${pinned}`]);
  if (pin.progress) {
    const { blocks, bytes } = pin.progress;
    facts.push(["Brought in", `${count(blocks, "block", "blocks")}, ${shownBytes(bytes)}`]);
  }
  if (pin.attempts) facts.push(["Attempts", `${pin.attempts}`]);
  if (pin.reason) facts.push(["Reason", pin.reason]);
  if (pin.nextAttempt) facts.push(["Next attempt", shownDate(pin.nextAttempt)]);
  for (const peer of pin.peers) {
    facts.push([peer.name, peer.error ? `${peer.status}: ${peer.error}` : peer.status]);
  }
  return facts;
}

/** Show the page of the list behind the last of `trail`, and keep it fresh while pins are unsettled. */
async function showPage(trail) {
  listing.abort();
  listing = new AbortController();
  const { signal } = listing;
  const step = async () => {
    const pins = await readPage(trail, signal);
    return !pins.some((pin) => UNSETTLED.has(pin.status));
  };
  try {
    if (!(await step())) untilDone(step, at("list-said"), signal);
  } catch (problem) {
    if (!signal.aborted) throw problem; // else another page is shown by now
  }
}

async function readPage(trail, signal) {
  const query = { status: at("filter").value, cursor: trail.at(-1), limit: `${PAGE}` };
  const { body } = await ask(key, "GET", "/ipfs/pin/ls", query, signal);
  signal.throwIfAborted();
  [cursors, next] = [trail, body.next ?? ""];
  const total = count(body.count, "pin", "pins");
  const said = body.results.length ? `${total}, page ${trail.length}` : total;
  if (at("list-said").textContent !== said) at("list-said").textContent = said;
  const focused = document.activeElement?.dataset?.of;
  at("list").replaceChildren(...body.results.map(row));
  if (focused) at("list").querySelector(`[data-of="${CSS.escape(focused)}"]`)?.focus();
  at("list-table").hidden = !body.results.length;
  at("newer").disabled = trail.length < 2;
  at("older").disabled = !next;
  return body.results;
}

function row(pin) {
  const line = element("tr");
  line.role = "row";
  const view = action("View", pin, () => {
    showPin(pin.cid);
    at("watch-title").focus();
  });
  const remove = action("Remove", pin, () => askToRemove(pin.cid));
  const status = element("span", pin.status, pin.status);
  const cells = [[element("code", pin.cid)], [pin.name ?? ""], [status]];
  for (const parts of [...cells, [shownDate(pin.timestamp)], [view, remove]]) {
    const cell = element("td");
    cell.role = "cell";
    cell.append(...parts);
    line.append(cell);
  }
  return line;
}

function action(word, pin, act) {
  const button = element("button", word, "second");
  button.type = "button";
  button.ariaLabel = `${word} ${pin.name || pin.cid}`;
  button.dataset.of = `${word} ${pin.cid}`; // finds it again when the list is drawn again
  button.addEventListener("click", act);
  return button;
}

function askToRemove(cid) {
  at("removal-cid").textContent = cid;
  at("removal").returnValue = "";
  at("removal").showModal();
}

async function remove(cid) {
  try {
    await ask(key, "DELETE", `/ipfs/pin/rm/${encodeURIComponent(cid)}`);
    if (watched === cid) {
      watch.abort();
      at("watch-section").hidden = true;
    }
    await Promise.all([showPage(cursors), showKey(key)]);
  } catch (problem) {
    showProblem(at("list-said"), problem);
  }
}

// -- the page --------------------------------------------------------------------------------

function on(id, event, act) {
  at(id).addEventListener(event, (happened) => {
    if (event === "submit") happened.preventDefault();
    act();
  });
}

const turn = (trail) => showPage(trail).catch((problem) => showProblem(at("list-said"), problem));

on("key-form", "submit", () =>
  submitted(at("key-form"), at("key-said"), () => openWith(at("key").value.trim())),
);
on("forget", "click", forget);
on("resolve-form", "submit", () => submitted(at("resolve-form"), at("resolve-said"), resolve));
on("pin-resolved", "click", () =>
  submitted(at("pin-form"), at("pin-said"), () => pin(pinnable, at("domain").value.trim())),
);
on("pin-form", "submit", () =>
  submitted(at("pin-form"), at("pin-said"), () => pin(at("cid").value.trim(), at("pin-name").value)),
);
on("filter-form", "submit", () => turn([""]));
on("filter", "change", () => turn([""]));
on("older", "click", () => turn([...cursors, next]));
on("newer", "click", () => turn(cursors.slice(0, -1)));
on("removal", "close", () => {
  if (at("removal").returnValue === "remove") remove(at("removal-cid").textContent);
});

const kept = sessionStorage.getItem(KEY);
if (kept) submitted(at("key-form"), at("key-said"), () => openWith(kept));
