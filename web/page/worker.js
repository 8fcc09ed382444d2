// Holds the model and answers the page, one request at a time.
//
// In:  {type: "load", files?, backend?}   files: {name: ArrayBuffer}, a model folder that takes the place of the kept one
//      {type: "ask" | "probe", question, golds, temperature, seed, originals}
//      {type: "learn", steps, seed}   REX steps on the kept questions, each time others
//      {type: "unlearn"}        goes back to the model as it was loaded
//      {type: "info", alpha?}   what is loaded, and the last group weighed with a share alpha of probes
//      {type: "cancel"}         ends what is being sampled, within a token, or learnt, within a token or an update
//      {type: "reset"}          forgets the model
// Out: {type: "progress", text, bytes, total}
//      {type: "ready", info, backend, questions}
//      {type: "token", sample, probe, token}, {type: "passage", …}, {type: "branch", …}
//      {type: "drawn", done, total}   while learning: originals of the step that have ended
//      {type: "learnt", …}      a step in numbers
//      {type: "done", of, …}    of: "transcript" while sampling, else the request that is done
//      {type: "error", of, message, fatal}   fatal: this worker is of no more use
//      {type: "device-lost", message}

import { KeptFiles } from "./files.js";
import { choose, watch } from "./backend.js";
import { lesson } from "./lesson.js";

let demo = null;
let cancelled = false;
let running = false;
let questions = [];
/// Lessons since the model was loaded.
let lessons = 0;

watch((message) => post({ type: "device-lost", message }));

const handlers = { load, ask, probe, learn, unlearn, info, cancel, reset };

addEventListener("message", async ({ data }) => {
  const handler = Object.hasOwn(handlers, data.type) ? handlers[data.type] : null;
  if (!handler) return post({ type: "error", of: String(data.type), message: `no such request: ${data.type}`, fatal: false });
  try {
    await handler(data);
  } catch (error) {
    // A trap in the program leaves its memory in an unknown state, an error that it returned does not.
    const fatal = error instanceof WebAssembly.RuntimeError || error instanceof RangeError;
    const message = fatal ? `The program stopped: ${error.message}. The tab may be out of memory.` : error.message;
    post({ type: "error", of: data.type, message, fatal });
  }
});

async function load({ files: folder, backend: wanted }) {
  if (running) throw new Error("the model is at work: stop it first");
  const files = await KeptFiles.open((bytes, total) => post({ type: "progress", text: "Fetching", bytes, total }));
  const backend = await choose(wanted ?? "auto", files);
  const own = (name) => folder?.[name] && new Uint8Array(folder[name]);
  const needed = folder ? ["config.json", "tokenizer.json", "model.safetensors"].filter((name) => !folder[name]) : [];
  if (needed.length > 0) throw new Error(`the folder holds no ${needed.join(", no ")}: choose one that \`rex export\` wrote`);

  const names = ["config.json", "generation_config.json", "tokenizer.json", "model.safetensors"];
  const kept = folder ? [] : names.map((name) => `assets/model/${name}`);
  const around = ["assets/hopworld.toml", "assets/exploration.txt", "assets/index.bin", "assets/questions.jsonl"];
  const program = `${backend.bundle}/rex_web_bg.wasm`;
  await files.fetch([program, ...kept, ...around]);

  post({ type: "progress", text: "Starting", bytes: 1, total: 1 });
  const text = (bytes) => new TextDecoder().decode(bytes);
  const model = (name) => (folder ? own(name) : files.take(`assets/model/${name}`));
  const { default: start, Demo } = await import(`./${backend.bundle}/rex_web.js`);
  await start({ module_or_path: files.take(program) });
  const generation = model("generation_config.json");
  const texts = {
    config: text(model("config.json")),
    generation_config: generation ? text(generation) : null,
    settings: text(files.take("assets/hopworld.toml")),
    exploration: text(files.take("assets/exploration.txt")),
  };
  questions = text(files.take("assets/questions.jsonl")).split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const loaded = await Demo.load(JSON.stringify(texts), model("tokenizer.json"), model("model.safetensors"), files.take("assets/index.bin"));
  demo?.free();
  demo = loaded;
  lessons = 0;
  post({ type: "ready", info: JSON.parse(demo.info()), backend, questions });
}

function ask(request) {
  return sample(request, { originals: 1, mixed: false });
}

function probe(request) {
  return sample(request, { originals: request.originals, mixed: true });
}

function sample({ type, question, golds, temperature, seed }, how) {
  return busy(async (started) => {
    const request = { question, golds, temperature, seed, ...how };
    const result = JSON.parse(await demo.sample(JSON.stringify(request), happened, goOn));
    const seconds = (performance.now() - started) / 1000;
    post({ type: "done", of: type, ...result, seconds, weighing: JSON.parse(demo.weigh()) });
  });
}

function learn({ steps, seed }) {
  return busy(async () => {
    const drawn = (done, total) => post({ type: "drawn", done, total });
    for (let step = 0; step < steps && !cancelled; step++) {
      const started = performance.now();
      const asked = lesson(questions, lessons++).map(({ question, golden_answers: golds }) => ({ question, golds }));
      const learnt = JSON.parse(await demo.learn(JSON.stringify({ questions: asked, seed }), drawn, goOn));
      if (learnt) post({ type: "learnt", ...learnt, seconds: (performance.now() - started) / 1000 });
      await goOn();
    }
    post({ type: "done", of: "learn" });
  });
}

function unlearn() {
  if (running) throw new Error("the model is at work: stop it first");
  demo?.unlearn();
  lessons = 0;
  post({ type: "done", of: "unlearn" });
}

/// Does one thing at a time.
async function busy(work) {
  if (!demo) throw new Error("no model is loaded");
  if (running) throw new Error("the model is at work already");
  running = true;
  cancelled = false;
  try {
    await work(performance.now());
  } finally {
    running = false;
  }
}

function happened(json) {
  const happening = JSON.parse(json);
  post(happening.type === "ended" ? { ...happening, type: "done", of: "transcript" } : happening);
}

// Lets messages in, so that a cancellation is seen between two tokens. A message to oneself, unlike a timer, is not delayed.
const channel = new MessageChannel();
const waiting = [];
channel.port1.onmessage = () => waiting.shift()(!cancelled);
const goOn = () =>
  new Promise((resolve) => {
    waiting.push(resolve);
    channel.port2.postMessage(null);
  });

function info({ alpha }) {
  if (!demo) throw new Error("no model is loaded");
  post({ type: "done", of: "info", info: JSON.parse(demo.info()), weighing: JSON.parse(demo.weigh(alpha)) });
}

function cancel() {
  cancelled = true;
  post({ type: "done", of: "cancel" });
}

function reset() {
  if (running) throw new Error("the model is at work: stop it first");
  demo?.free();
  demo = null;
  post({ type: "done", of: "reset" });
}

function post(message) {
  postMessage(message);
}
