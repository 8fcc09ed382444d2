// Whether a back end draws what `rex ask` draws: 20 transcripts at temperature 0 and 20 (with their probes) at temperature 1.
// `node web/test/transcripts.js [cpu|webgpu]`, after scripts/web; REX names the program. A transcript that differs is told with the
// log-probabilities at the first token that does.

import { readFileSync } from "node:fs";
import { launch, native, open, serve, worker } from "./site.js";

const backend = process.argv[2] ?? "cpu";
const flags = backend === "webgpu" ? ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"] : [];
const browser = await launch(...flags);
const site = await serve();
const page = await open(browser, site.url);
const { request, loaded } = await worker(page, backend);
console.log(JSON.stringify(loaded.at(-1).backend));
const questions = readFileSync(new URL("../dist/assets/questions.jsonl", import.meta.url), "utf8").trim().split("\n").map((line) => JSON.parse(line));

let largest = 0;
let [same, all] = [0, 0];
function compare(name, here, there) {
  all++;
  const at = here.ids.findIndex((id, place) => id !== there.ids[place]);
  for (const { place, log_prob } of here.tokens) {
    if (log_prob !== null && (at < 0 || place < at)) largest = Math.max(largest, Math.abs(log_prob - there.log_probs[place]));
  }
  if (at < 0 && here.ids.length === there.ids.length) return same++;
  const token = here.tokens.find(({ place }) => place === at);
  console.log(`${name}: differs at token ${at}: ${here.ids[at]} (log-probability ${token?.log_prob}), not ${there.ids[at]} (${there.log_probs[at]})`);
}

const started = performance.now();
for (const [seed, { question, golden_answers: golds }] of questions.slice(0, 20).entries()) {
  const { transcripts } = (await request({ type: "ask", question, golds, seed, temperature: 0 })).at(-1);
  compare(`temperature 0, ${question}`, transcripts[0], native(question, golds, { seed, temperature: 0 })[0]);
}
console.log(`temperature 0: ${same} of ${all} equal, ${Math.round((performance.now() - started) / 1000)} s`);
[same, all] = [0, 0];
for (const [seed, { question, golden_answers: golds }] of questions.slice(100, 120).entries()) {
  const { transcripts } = (await request({ type: "probe", question, golds, seed, temperature: 1, originals: 1 })).at(-1);
  const expected = native(question, golds, { seed, temperature: 1, mixed: true });
  for (const [place, transcript] of transcripts.entries()) compare(`temperature 1, seed ${seed}, ${question}`, transcript, expected[place]);
}
console.log(`temperature 1: ${same} of ${all} equal, ${Math.round((performance.now() - started) / 1000)} s`);
console.log(`largest difference of a log-probability before the first difference of an id: ${largest.toExponential(1)}`);
await browser.close();
await site.close();
