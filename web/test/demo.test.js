// The demo in headless Chromium, against the program on this machine.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { lesson } from "../page/lesson.js";
import { launch, native, nativeStep, open, serve, state, worker } from "./site.js";

let browser;
let site;
before(async () => {
  browser = await launch();
  site = await serve();
});
after(async () => {
  await browser?.close();
  await site?.close();
});

const questions = async (page) => (await page.request.get(`${site.url}assets/questions.jsonl`)).text().then((text) => text.trim().split("\n").map((line) => JSON.parse(line)));
const ask = (page, name = "Ask once") => page.getByRole("button", { name }).click();
const finish = (page) => state(page, "ready");

test("loads, names the back end, and says why it is the CPU", async () => {
  const page = await open(browser, site.url);
  await state(page, "ready");
  assert.equal(await page.textContent("#backend"), "CPU (WebAssembly)");
  assert.match(await page.textContent("#backend-reason"), /WebGPU/);
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test("asks, streams, and checks the answer", async () => {
  const page = await open(browser, site.url);
  await state(page, "ready");
  const oneHop = (await questions(page)).find((question) => question.metadata.hops === 1);
  await page.fill("#question", oneHop.question);
  await page.fill("#gold", oneHop.golden_answers[0]);
  await page.fill("#temperature", "0");
  await ask(page);
  await finish(page);
  assert.equal(await page.textContent("#verdict"), `✓ Answer: ${oneHop.golden_answers[0]}. Right.`);
  assert.ok((await page.locator(".passages li").count()) >= 1, "passages are cards");
  const [{ ids }] = native(oneHop.question, oneHop.golden_answers, { seed: 0, temperature: 0 });
  assert.ok(ids.length > 20);
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test("the same seed draws the same tokens as the program, at temperatures 0 and 1", async () => {
  const page = await open(browser, site.url);
  const { request } = await worker(page);
  const all = await questions(page);
  for (let seed = 0; seed < 20; seed++) {
    const { question, golden_answers: golds } = all[seed];
    for (const temperature of [0, 1]) {
      const here = (await request({ type: "ask", question, golds, seed, temperature })).at(-1);
      const [there] = native(question, golds, { seed, temperature });
      assert.deepEqual(here.transcripts[0].ids, there.ids, `seed ${seed}, temperature ${temperature}: ${question}`);
    }
  }
  await page.context().close();
});

test("mixed sampling: a group's first original and its probe are the program's", async () => {
  const page = await open(browser, site.url);
  const { request } = await worker(page);
  const twoHop = (await questions(page)).filter((question) => question.metadata.hops === 2).slice(0, 5);
  let probes = 0;
  for (const [seed, { question, golden_answers: golds }] of twoHop.entries()) {
    const messages = await request({ type: "probe", question, golds, seed, temperature: 1, originals: 3 });
    const { transcripts, weighing } = messages.at(-1);
    const there = native(question, golds, { seed, temperature: 1, mixed: true });
    const here = transcripts.filter(({ sample }) => sample === 0);
    assert.deepEqual(here.map(({ ids }) => ids), there.map(({ ids }) => ids), question);

    assert.equal(transcripts.filter(({ probe }) => !probe).length, 3);
    const failed = transcripts.filter(({ probe, correct }) => !probe && !correct).length;
    assert.equal(weighing.failed, failed);
    assert.equal(messages.filter(({ type }) => type === "branch").length, weighing.probes);
    assert.ok(Math.abs(weighing.alpha - weighing.probes / transcripts.length) < 1e-12);
    for (const { ratio, probe, log_mu } of weighing.transcripts) {
      const expected = 1 / (1 - weighing.alpha);
      if (!probe) assert.ok(ratio.every((ratio) => Math.abs(ratio - expected) < 1e-9), "originals start at 1/(1 − α)");
      if (!probe) assert.ok(log_mu.every((log) => log === null), "the probe policy draws no original");
    }
    probes += weighing.probes;
  }
  assert.ok(probes > 0, "some question is probed");
  await page.context().close();
});

test("stops within a token", async () => {
  const page = await open(browser, site.url);
  const { request } = await worker(page);
  const [{ question }] = await questions(page);
  const messages = await request({ type: "ask", question, golds: [], seed: 0, temperature: 1 }, 5);
  const cancelled = messages.findIndex(({ of }) => of === "cancel");
  const after = messages.slice(cancelled).filter(({ type }) => type === "token").length;
  assert.ok(cancelled > 0 && after <= 1, `${after} tokens after the cancellation`);
  assert.equal(messages.at(-1).cancelled, true);
  const again = (await request({ type: "ask", question, golds: [], seed: 0, temperature: 0 })).at(-1);
  assert.equal(again.transcripts.length, 1, "and goes on with the next question");
  await page.context().close();
});

test("the tree can be read by keyboard, and α weighs it anew", async () => {
  const page = await open(browser, site.url);
  await state(page, "ready");
  await ask(page, "Mixed sampling");
  await finish(page);
  assert.match(await page.textContent("#story"), /originals? (failed|fails?|is|are)|dead end/i);
  const cells = page.locator("#tree .cell");
  assert.ok((await cells.count()) > 20);
  await cells.first().focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowRight");
  await page.waitForSelector("#token dl");
  assert.match(await page.textContent("#token"), /probability π.*ratio ρ.*aleatoric.*epistemic/s);
  assert.match(await page.locator("#tree .cell:focus").getAttribute("aria-label"), /Original 1, model: .*, probability \d+ percent/);
  await page.locator("#alpha").fill("0.5");
  await page.waitForFunction(() => document.querySelector("#token").textContent.includes("α = 0.50"));
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test("a training step in the tab is the trainer's, and is forgotten again", async () => {
  const page = await open(browser, site.url);
  const all = await questions(page);
  const { request } = await worker(page);
  const ask = async () => (await request({ type: "ask", question: all[0].question, golds: [], seed: 0, temperature: 1 })).at(-1).transcripts[0].ids;
  const before = await ask();
  const messages = await request({ type: "learn", steps: 1, seed: 3 });
  const [learnt] = messages.filter(({ type }) => type === "learnt");
  const expected = nativeStep(lesson(all, 0), 3);
  for (const [name, theirs] of [["em", "rex/em"], ["probes", "rex/probes"], ["probe_em", "rex/probe_em"], ["grad_norm", "actor/grad_norm"]]) {
    const close = Math.abs(learnt[name] - expected[theirs]) <= 1e-3 * Math.max(1, Math.abs(expected[theirs]));
    assert.ok(close, `${name}: ${learnt[name]}, natively ${expected[theirs]}`);
  }
  const difference = Math.abs(learnt.pg_loss - expected["actor/pg_loss"]);
  assert.ok(difference <= 1e-4, `policy loss: ${learnt.pg_loss}, natively ${expected["actor/pg_loss"]}`);
  await request({ type: "unlearn" });
  assert.deepEqual(await ask(), before);
  await page.context().close();
});

test("learning is seen, and stops", async () => {
  const page = await open(browser, site.url);
  await state(page, "ready");
  await page.getByRole("tab", { name: "Learn" }).click();
  await page.getByRole("button", { name: "Learn", exact: true }).click();
  await page.waitForFunction(() => document.querySelector("#learning-now").textContent.startsWith("Step 1 of 40"));
  await page.locator("#stop-learning").click();
  await finish(page);
  assert.match(await page.textContent("#learning-now"), /Nothing has been learnt yet|^1 step,/);
  assert.deepEqual(page.errors, []);
  await page.context().close();
});

test("works offline after the first load", async () => {
  const own = await serve();
  const page = await open(browser, own.url);
  await state(page, "ready");
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.waitForFunction(async () => {
    const [name] = await caches.keys();
    const { files, page } = await (await fetch("manifest.json")).json();
    const needed = [...page, ...Object.keys(files).filter((path) => /^assets|^cpu/.test(path))];
    const kept = await Promise.all(needed.map((path) => caches.match(path)));
    return Boolean(name) && kept.every(Boolean);
  });
  await own.close();
  await page.reload();
  await state(page, "ready");
  await ask(page);
  await finish(page);
  assert.match(await page.textContent("#verdict"), /Answer/);

  await page.getByText("Your own model, storage").click();
  await page.getByRole("button", { name: "Remove the files" }).click();
  await page.waitForFunction(() => document.querySelector("#stored").textContent.startsWith("Nothing"));
  assert.deepEqual(await page.evaluate(() => caches.keys()), []);
  await page.context().close();
});

test("a damaged or missing file is a message, and a second try succeeds", async () => {
  let broken = true;
  const own = await serve((path, bytes) => {
    if (!broken || path !== "assets/model/model.safetensors") return bytes;
    const damaged = Buffer.from(bytes);
    damaged[damaged.length >> 1] ^= 1;
    return damaged;
  });
  const page = await open(browser, own.url);
  await state(page, "failed");
  assert.match(await page.textContent("#message"), /model\.safetensors is damaged: its checksum is wrong/);
  broken = false;
  await page.getByRole("button", { name: "Start again" }).click();
  await state(page, "ready");
  await page.context().close();
  await own.close();

  const without = await serve((path, bytes) => (path === "assets/index.bin" ? null : bytes));
  const lacking = await open(browser, without.url);
  await state(lacking, "failed");
  assert.match(await lacking.textContent("#message"), /assets\/index\.bin: the server says 404/);
  await lacking.context().close();
  await without.close();
});

test("a model folder that is no model is a message that names the file", async () => {
  const page = await open(browser, site.url);
  const { request } = await worker(page);
  const get = async (name) => new Uint8Array(await (await page.request.get(`${site.url}assets/model/${name}`)).body());
  const files = { "config.json": await get("config.json"), "tokenizer.json": await get("tokenizer.json") };
  const load = (files) =>
    page.evaluate((files) => {
      const buffers = Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name, new Uint8Array(bytes).buffer]));
      return globalThis.request({ type: "load", backend: "cpu", files: buffers }).then((messages) => messages.at(-1));
    }, Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name, [...bytes]])));
  assert.match((await load(files)).message, /the folder holds no model\.safetensors/);
  const truncated = (await get("model.safetensors")).slice(0, 1000);
  const { type, message, fatal } = await load({ ...files, "model.safetensors": truncated });
  assert.deepEqual([type, fatal], ["error", false]);
  assert.match(message, /model\.safetensors/);
  const [{ question }] = await questions(page);
  const { transcripts } = (await request({ type: "ask", question, golds: [], seed: 0, temperature: 0 })).at(-1);
  assert.equal(transcripts.length, 1, "the model that was loaded before is still there");
  await page.context().close();
});

test("what a model or a user writes never becomes markup", async () => {
  const page = await open(browser, site.url);
  await state(page, "ready");
  await page.fill("#question", "<img src=x onerror=\"document.title='owned'\"> who?");
  await ask(page);
  await finish(page);
  assert.equal(await page.locator("#output img").count(), 0);
  assert.match(await page.textContent("#transcript"), /<img src=x/);
  assert.notEqual(await page.title(), "owned");
  await page.context().close();
});
