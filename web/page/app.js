// The page: sends what the user asks to the worker, and shows what comes back.

import { Group } from "./group.js";
import { Tree, legend } from "./tree.js";
import { showLanes, showTranscript } from "./transcript.js";
import { showNumbers } from "./numbers.js";
import { showToken } from "./token.js";
import { Course } from "./course.js";

const $ = (id) => document.getElementById(id);
const parameters = new URLSearchParams(location.search);

let worker = null;
let state = "loading";
let questions = [];
let group = null;
/// The lane whose text is shown, and the token that is pointed at.
let shown = null;
let drawing = false;

const tree = new Tree($("tree"), select);
const course = new Course($("learning"));

start({ backend: parameters.get("backend") ?? "auto" });
keepForOffline();

// ---- the worker

function start(load) {
  worker?.terminate();
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data }) => receive[data.type]?.(data);
  // What no request is to blame for: files that do not load, a program that ran out of memory while it was awaited.
  worker.onerror = (event) => fail(`The program stopped: ${event.message || "the worker's files did not load"}.`);
  setState("loading");
  send({ type: "load", ...load });
}

function send(message, transfer = []) {
  worker.postMessage(message, transfer);
}

const receive = {
  progress({ text, bytes, total }) {
    $("progress").value = total > 0 ? bytes / total : 0;
    const megabytes = (n) => (n / 1e6).toFixed(1);
    $("progress-text").textContent = total > 1 ? `${text}: ${megabytes(bytes)} of ${megabytes(total)} MB` : text;
  },
  ready({ info, backend, questions: all }) {
    $("backend").textContent = backend.name;
    const model = `${(info.parameters / 1e6).toFixed(2)} M parameters, ${info.passages} passages.`;
    $("backend-reason").textContent = `${backend.reason} ${model}`;
    if (questions.length === 0) fillPicker((questions = all));
    course.clear();
    say(null);
    setState("ready");
    showStored();
  },
  token({ sample, probe, token }) {
    group.token(sample, probe, [token]);
    draw();
  },
  passage({ sample, probe, query, passages, tokens }) {
    group.passages(sample, probe, query, passages, tokens);
    draw();
  },
  branch({ sample, prefix, tokens }) {
    group.branch(sample, prefix, tokens);
    draw();
  },
  drawn({ done, total }) {
    course.drawn(done, total);
  },
  learnt(step) {
    course.learnt(step);
  },
  done(message) {
    const { of } = message;
    if (of === "learn") (course.ended(), setState("ready"));
    if (of === "unlearn") course.clear();
    if (of === "transcript") group.ended(message);
    if (of === "info") group?.weigh(message.weighing);
    if (of === "ask" || of === "probe") {
      group.measured(message);
      setState("ready");
    }
    if (of !== "reset") draw();
  },
  error({ of, message, fatal }) {
    course.ended();
    if (fatal || of === "load") return fail(message);
    say(message);
    setState("ready");
  },
  "device-lost"({ message }) {
    fail(`The graphics device was lost (${message}).`, "Go on with the CPU", () => start({ backend: "cpu" }));
  },
};

// ---- state and messages

function setState(next) {
  state = next;
  $("state-dot").dataset.state = next;
  document.documentElement.dataset.state = next;
  $("loading").hidden = next !== "loading";
  $("fields").disabled = $("lesson-fields").disabled = next !== "ready";
  $("stop").disabled = $("stop-learning").disabled = next !== "busy";
  $("unlearn").disabled = course.steps.length === 0;
  if (next === "loading") $("backend").textContent = "Loading";
}

function fail(message, action = "Start again", retry = () => start({ backend: parameters.get("backend") ?? "auto" })) {
  worker.terminate();
  setState("failed");
  $("backend").textContent = "Stopped";
  $("backend-reason").textContent = "";
  say(message, action, retry);
}

function say(message, action, retry) {
  const box = $("message");
  box.hidden = message === null;
  box.replaceChildren(document.createTextNode(message ?? ""));
  if (!action) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = action;
  button.onclick = () => (say(null), retry());
  box.append(" ", button);
}

// ---- questions

function fillPicker(all) {
  const EACH = 12;
  const sources = [...new Set(all.map((question) => question.data_source))].sort();
  const of = (source) => all.filter((question) => question.data_source === source).slice(0, EACH);
  for (const source of sources) {
    const options = document.createElement("optgroup");
    options.label = source;
    options.append(...of(source).map((question) => new Option(question.question, question.id)));
    $("picker").append(options);
  }
  $("picker").append(new Option("My own question", ""));
  // Questions of two hops are where the model stops short.
  pick(of(sources[1] ?? sources[0])[0]);
}

function pick(question) {
  $("picker").value = question?.id ?? "";
  $("question").value = question?.question ?? "";
  $("gold").value = question?.golden_answers.join(" | ") ?? "";
}

$("picker").onchange = () => pick(questions.find((question) => question.id === $("picker").value));
$("question").oninput = () => {
  if ($("picker").value !== "") ($("picker").value = ""), ($("gold").value = "");
};
for (const id of ["temperature", "originals"]) $(id).oninput = () => ($(`${id}-value`).textContent = id === "temperature" ? Number($(id).value).toFixed(1) : $(id).value);

// ---- asking

$("controls").onsubmit = (event) => {
  event.preventDefault();
  if (state !== "ready") return;
  const type = event.submitter?.value ?? "ask";
  const golds = $("gold").value.split("|").map((gold) => gold.trim()).filter(Boolean);
  const request = {
    type,
    question: $("question").value,
    golds,
    temperature: Number($("temperature").value),
    seed: Number($("seed").value),
    originals: Number($("originals").value),
  };
  if (type === "probe" && golds.length === 0) return say("Mixed sampling probes wrong answers: give the right one, so that they can be told.");
  say(null);
  group = new Group(request);
  shown = { key: "0", place: null };
  $("empty").hidden = true;
  $("tree-view").hidden = type !== "probe";
  $("transcript-view").hidden = false;
  $("numbers-view").hidden = true;
  $("verdict").textContent = "";
  setState("busy");
  draw();
  send(request);
  // Where the output is below the form, it is what one wants to see now.
  if (matchMedia("(max-width: 48rem)").matches) $("output").scrollIntoView();
};

function stop() {
  if (state === "busy") send({ type: "cancel" });
}
$("stop").onclick = $("stop-learning").onclick = stop;
addEventListener("keydown", (event) => event.key === "Escape" && stop());

// ---- learning

const tabs = ["ask", "learn"];
function open(tab) {
  document.documentElement.dataset.tab = tab;
  for (const name of tabs) {
    $(`tab-${name}`).setAttribute("aria-selected", name === tab);
    $(`tab-${name}`).tabIndex = name === tab ? 0 : -1;
  }
}
for (const [place, name] of tabs.entries()) {
  $(`tab-${name}`).onclick = () => open(name);
  $(`tab-${name}`).onkeydown = ({ key }) => {
    if (key !== "ArrowRight" && key !== "ArrowLeft") return;
    const other = tabs[(place + 1) % tabs.length];
    open(other);
    $(`tab-${other}`).focus();
  };
}
open(location.hash === "#learn" ? "learn" : "ask");

$("steps").oninput = () => ($("steps-value").textContent = $("steps").value);
$("lesson").onsubmit = (event) => {
  event.preventDefault();
  if (state !== "ready") return;
  say(null);
  const steps = Number($("steps").value);
  course.begin(steps);
  setState("busy");
  send({ type: "learn", steps, seed: Number($("lesson-seed").value) });
};
$("unlearn").onclick = () => send({ type: "unlearn" });

// ---- showing

/// Once a frame at most, however many tokens arrive.
function draw() {
  if (drawing || !group) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const lane = group.lanes.get(shown.key) ?? group.lanes.values().next().value;
    if (group.request.type === "probe") tree.draw(group, $("colour").value, $("words").checked, shown, state === "busy");
    showLanes($("lanes"), group, shown.key, (key) => select(key, null));
    if (lane) showTranscript($("transcript"), $("verdict"), group, lane, shown.place, select);
    $("numbers-view").hidden = !group.weighing || group.request.golds.length === 0;
    if (!$("numbers-view").hidden) showNumbers($("numbers-view"), group);
    showToken($("token"), group, shown);
  });
}

function select(key, place) {
  shown = { key, place };
  draw();
}

$("close").onclick = () => select(shown.key, null);
$("colour").onchange = () => (legend($("legend"), $("colour").value), draw());
$("words").onchange = draw;
legend($("legend"), "author");

$("alpha").oninput = () => {
  $("alpha-value").textContent = Number($("alpha").value).toFixed(2);
  if (state === "ready") send({ type: "info", alpha: Number($("alpha").value) });
};

// ---- own model, storage

$("folder").onchange = async () => {
  const files = {};
  for (const file of $("folder").files) if (/^(config|generation_config|tokenizer)\.json$|^model\.safetensors$/.test(file.name)) files[file.name] = await file.arrayBuffer();
  $("folder").value = "";
  start({ files, backend: parameters.get("backend") ?? "auto" });
};

async function showStored() {
  const used = await navigator.storage?.estimate?.().catch(() => null);
  const kept = globalThis.caches && (await caches.keys()).some((name) => name.startsWith("rex-"));
  $("forget").disabled = !kept;
  $("stored").textContent = kept ? `Kept for the next visit, without a network too: ${((used?.usage ?? 0) / 1e6).toFixed(1)} MB.` : "Nothing is kept in this browser.";
}

$("forget").onclick = async () => {
  const names = (await caches.keys()).filter((name) => name.startsWith("rex-"));
  await Promise.all(names.map((name) => caches.delete(name)));
  const workers = (await navigator.serviceWorker?.getRegistrations()) ?? [];
  await Promise.all(workers.map((registration) => registration.unregister()));
  showStored();
};

function keepForOffline() {
  // Without it (an old browser, plain http) the page works as well, but not offline.
  navigator.serviceWorker?.register("sw.js").catch(() => {});
}
