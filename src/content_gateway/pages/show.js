// How the console shows things: facts, problems, dates, sizes.
//
// Puts everything in as text: names and metadata are others' words, and may be made of markup. What
// is shown where is left to console.js.

import { Problem } from "/assets/api.js";

export const at = (id) => document.getElementById(id);

/** A new element with `text` in it. */
export function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = className;
  return made;
}

/** Put [term, description] pairs into a list; a description is text or an element. */
export function showFacts(list, facts) {
  list.replaceChildren(
    ...facts.flatMap(([term, said]) => {
      const description = element("dd");
      description.append(said);
      return [element("dt", term), description];
    }),
  );
}

/** Say in `place` what was refused, and where to read about it. Throws what is no Problem. */
export function showProblem(place, problem) {
  if (!(problem instanceof Problem)) throw problem;
  const box = element("div", "", "problem");
  box.append(element("p", `${problem.title}: ${problem.message}`));
  if (problem.retryAfter) box.append(element("p", `Try again after ${problem.retryAfter} s.`));
  if (problem.code) {
    const line = element("p", "", "quiet");
    const link = element("a", problem.code);
    link.href = `/docs/errors#${encodeURIComponent(problem.code)}`;
    line.append(link, ` · request ${problem.requestId}`);
    box.append(line);
  }
  place.replaceChildren(box);
}

const dateFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** An RFC 3339 timestamp, as this reader writes dates and times. */
export function shownDate(text) {
  const time = element("time", dateFormat.format(new Date(text)));
  time.dateTime = text;
  return time;
}

/** A number with its noun: 1 pin, 2 pins. */
export const count = (number, one, many) => `${number.toLocaleString()} ${number === 1 ? one : many}`;

/** A size as people read it: 1.5 MiB. */
export function shownBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(Math.floor(Math.log2(bytes || 1) / 10), units.length - 1);
  return `${(bytes / 1024 ** power).toLocaleString(undefined, { maximumFractionDigits: 1 })} ${units[power]}`;
}
