// What a visitor pays and gets: bytes, time to ready, speed, memory. `node web/test/measure.js [cpu|webgpu]`, after scripts/web.

import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { launch, open, serve, state, worker } from "./site.js";

const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const backend = process.argv[2] ?? "cpu";
const megabytes = (bytes) => `${(bytes / 1e6).toFixed(2)} MB`;
const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

const files = readdirSync(DIST, { recursive: true }).map((name) => join(DIST, name)).filter((path) => statSync(path).isFile());
const size = (paths) => paths.reduce((sum, path) => sum + statSync(path).size, 0);
const gzipped = (paths) => paths.reduce((sum, path) => sum + gzipSync(readFileSync(path), { level: 9 }).length, 0);
for (const name of ["cpu", "webgpu"]) {
  const program = files.filter((path) => path.endsWith(`${name}/rex_web_bg.wasm`));
  if (program.length) console.log(`${name} program: ${megabytes(size(program))}, gzipped ${megabytes(gzipped(program))}`);
}
const others = files.filter((path) => !path.includes("/webgpu/"));
console.log(`all files of a CPU visit: ${megabytes(size(others))}, gzipped ${megabytes(gzipped(others))}`);

const flags = backend === "webgpu" ? ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"] : [];
const browser = await launch(...flags);
const site = await serve();

const starts = [];
for (let i = 0; i < 5; i++) {
  const started = performance.now();
  const page = await open(browser, `${site.url}?backend=${backend}`);
  await state(page, "ready", 300_000);
  starts.push(performance.now() - started);
  if (i === 0) console.log(`${await page.textContent("#backend")}: ${await page.textContent("#backend-reason")}`);
  await page.context().close();
}
console.log(`nothing kept to ready: median ${Math.round(median(starts))} ms of ${starts.map(Math.round).join(", ")}`);

const page = await open(browser, site.url);
const { request } = await worker(page, backend);
const questions = readFileSync(join(DIST, "assets/questions.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
const alone = [];
const together = [];
const count = backend === "webgpu" ? 2 : 10;
for (const [seed, { question, golden_answers: golds }] of questions.slice(0, count).entries()) {
  for (const [type, rates] of [["ask", alone], ["probe", together]]) {
    const { tokens, seconds } = (await request({ type, question, golds, seed, temperature: 1, originals: 5 })).at(-1);
    rates.push(tokens.decoded / seconds);
  }
}
console.log(`drawn tokens a second, medians of ${count} questions: ${median(alone).toFixed(0)} asking once, ${median(together).toFixed(0)} in mixed sampling of 5`);

if (backend === "cpu") {
  const memory = [];
  for (let i = 0; i < 100; i++) {
    const { question, golden_answers: golds } = questions[i % questions.length];
    await request({ type: "ask", question, golds, seed: i, temperature: 1 });
    memory.push((await request({ type: "info" })).at(-1).info.memory_bytes);
  }
  console.log(`memory of the program after 1, 20, 50, 100 more questions: ${[0, 19, 49, 99].map((i) => megabytes(memory[i])).join(", ")}`);
}
await browser.close();
await site.close();
