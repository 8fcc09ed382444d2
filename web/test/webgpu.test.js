// WebGPU through SwiftShader, an emulation on the CPU: whether it is right, not whether it is fast.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before, test } from "node:test";
import { launch, native, open, serve, state, worker } from "./site.js";

const built = existsSync(new URL("../dist/webgpu/rex_web_bg.wasm", import.meta.url));
const skip = built ? false : "this build has no WebGPU program: scripts/web webgpu";

let browser;
let site;
before(async () => {
  browser = await launch("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader");
  site = await serve();
});
after(async () => {
  await browser?.close();
  await site?.close();
});

test("an emulated adapter is told from a real one", async () => {
  const page = await open(browser, site.url);
  await state(page, "ready");
  assert.equal(await page.textContent("#backend"), "CPU (WebAssembly)");
  assert.match(await page.textContent("#backend-reason"), /swiftshader.*(emulation|no WebGPU program)/i);
  await page.context().close();
});

test("a lost device is a message, and the CPU goes on", async () => {
  const page = await open(browser, site.url);
  await state(page, "ready");
  await page.workers()[0].evaluate(async () => {
    const adapter = await navigator.gpu.requestAdapter();
    (await adapter.requestDevice()).destroy();
  });
  await state(page, "failed");
  assert.match(await page.textContent("#message"), /The graphics device was lost/);
  await page.getByRole("button", { name: "Go on with the CPU" }).click();
  await state(page, "ready");
  await page.context().close();
});

test("WebGPU draws the same tokens", { skip }, async () => {
  const page = await open(browser, site.url);
  const { request, loaded } = await worker(page, "webgpu");
  assert.equal(loaded.at(-1).info.backend, "webgpu");
  const question = "Who is the boss of Gemo Zalmo?";
  for (const temperature of [0, 1]) {
    const here = (await request({ type: "ask", question, golds: [], seed: 0, temperature })).at(-1);
    const [there] = native(question, [], { seed: 0, temperature });
    assert.deepEqual(here.transcripts[0].ids, there.ids, `temperature ${temperature}`);
  }
  await page.context().close();
});
