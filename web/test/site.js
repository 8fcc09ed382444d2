// What the tests stand on: a static server, a browser, and the program whose transcripts are the reference.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DIST = new URL("../dist/", import.meta.url);
const TYPES = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml", wasm: "application/wasm", json: "application/json" };

/// Serves web/dist. `change(path, bytes)` may give other bytes, or null for a 404.
export async function serve(change = (path, bytes) => bytes) {
  const server = createServer(async (request, response) => {
    const path = new URL(request.url, "http://x").pathname.slice(1) || "index.html";
    const bytes = change(path, await readFile(new URL(path, DIST)).catch(() => null));
    if (bytes === null) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": TYPES[path.split(".").at(-1)] ?? "application/octet-stream" }).end(bytes);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    close: () => new Promise((closed) => (server.closeAllConnections(), server.close(closed))),
  };
}

export function launch(...args) {
  const executablePath = process.env.CHROMIUM || "/usr/bin/chromium";
  return chromium.launch({ executablePath, args: ["--headless=new", "--no-sandbox", ...args] });
}

/// A page that has nothing kept, with what it says on its console.
export async function open(browser, url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.errors.push(message.text()));
  await page.goto(url);
  return page;
}

export const state = (page, wanted, timeout = 120_000) =>
  page.waitForFunction((wanted) => document.documentElement.dataset.state === wanted, wanted, { timeout });

/// The transcripts of `rex ask`, each with its ids.
export function native(question, golds, { seed, temperature, mixed }) {
  const words = ["--quiet", "--json", "ask", question, "-c", "configs/hopworld.toml", "--seed", seed, "--temperature", temperature];
  for (const gold of golds) words.push("--gold", gold);
  if (mixed) words.push("--mixed");
  const output = execFileSync(process.env.REX, words.map(String), { cwd: ROOT, encoding: "utf8" });
  return output.trim().split("\n").map((line) => JSON.parse(line));
}

/// The numbers of one `rex train` step on these questions, in their order, by the settings of configs/hopworld.toml.
export function nativeStep(questions, seed) {
  const folder = mkdtempSync(join(tmpdir(), "rex-"));
  const file = join(folder, "questions.jsonl");
  writeFileSync(file, questions.map((question) => JSON.stringify(question)).join("\n"));
  const words = [`data.train_files=["${file}"]`, "data.shuffle=false", `trainer.run_dir="${folder}/run"`, `trainer.seed=${seed}`, "trainer.total_steps=1", "trainer.test_freq=0"];
  execFileSync(process.env.REX, ["--quiet", "train", "-c", "configs/hopworld.toml", ...words], { cwd: ROOT });
  const metrics = JSON.parse(readFileSync(`${folder}/run/metrics.jsonl`, "utf8").trim());
  rmSync(folder, { recursive: true });
  return metrics;
}

/// Talks to a worker without a page's form in between: `request(message)` resolves to the messages up to the one that ends it.
export async function worker(page, backend = "cpu") {
  await page.evaluate(() => {
    const worker = new Worker("worker.js", { type: "module" });
    globalThis.request = (message, stopAt) =>
      new Promise((resolve) => {
        const messages = [];
        worker.onmessage = ({ data }) => {
          messages.push(data);
          if (stopAt && messages.filter(({ type }) => type === "token").length === stopAt) {
            stopAt = null;
            worker.postMessage({ type: "cancel" });
          }
          if (data.type === "ready" || data.type === "error" || (data.type === "done" && !["transcript", "cancel"].includes(data.of))) resolve(messages);
        };
        worker.postMessage(message);
      });
  });
  const request = (message, stopAt) => page.evaluate(([message, stopAt]) => globalThis.request(message, stopAt), [message, stopAt]);
  const loaded = await request({ type: "load", backend });
  return { request, loaded };
}
