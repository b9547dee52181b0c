// Reads DNS messages with npm's dns-packet: `node dns_packet.mjs MODULES`.
//
// Takes a JSON list of messages in base64 on standard input, and writes one JSON line each, in that
// order: {id, code, questions, answers, authorities}, records as [name, type, ttl, data]. Fails on the
// first that it cannot read to its last byte.

import { createRequire } from "node:module";
import { join } from "node:path";
import { readFileSync } from "node:fs";

const packet = createRequire(join(process.argv[2], "any.js"))("dns-packet");
const text = (data) => (Array.isArray(data) ? Buffer.concat(data.map((one) => Buffer.from(one))).toString() : data);
const record = ({ name, type, ttl, data }) => [name, type, ttl, type === "SOA" ? data.minimum : text(data)];

for (const encoded of JSON.parse(readFileSync(0, "utf8"))) {
  const bytes = Buffer.from(encoded, "base64");
  const read = packet.decode(bytes);
  if (packet.decode.bytes !== bytes.length) throw new Error(`${bytes.length - packet.decode.bytes} bytes are left`);
  console.log(
    JSON.stringify({
      id: read.id,
      code: read.rcode,
      questions: read.questions.map(({ name, type }) => [name, type]),
      answers: read.answers.map(record),
      authorities: read.authorities.map(record),
    }),
  );
}
