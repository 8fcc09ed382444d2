// What the model learns in this tab: a row and a point of each curve for every step.

const WIDTH = 460;
const HEIGHT = 200;
const LEFT = 44;
const BOTTOM = 22;
const TOP = 8;
const RIGHT = 10;
/// Steps that the thick curve averages.
const WINDOW = 5;

export class Course {
  constructor(view) {
    this.view = view;
    this.steps = [];
    this.until = 0;
    this.clear();
  }

  clear() {
    this.steps = [];
    this.until = 0;
    this.say("Nothing has been learnt yet.");
    this.draw();
  }

  /// `count` more steps are to come.
  begin(count) {
    this.until = (this.steps.at(-1)?.step ?? 0) + count;
    this.drawn(0, 1);
  }

  drawn(done, total) {
    const bar = this.view.querySelector("#learning-progress");
    bar.hidden = false;
    bar.value = done / total;
    const step = (this.steps.at(-1)?.step ?? 0) + 1;
    const rest = this.steps.length > 0 ? `, about ${duration((this.until - step + 1) * this.steps.at(-1).seconds)} to go` : "";
    this.say(done < total ? `Step ${step} of ${this.until}: answering${rest}.` : `Step ${step} of ${this.until}: learning${rest}.`);
  }

  learnt(step) {
    this.steps.push(step);
    this.draw();
  }

  ended() {
    this.view.querySelector("#learning-progress").hidden = true;
    if (this.steps.length === 0) return this.say("Nothing has been learnt yet.");
    const mean = (steps) => (100 * steps.reduce((sum, { em }) => sum + em, 0)) / steps.length;
    const [first, last] = [this.steps.slice(0, WINDOW), this.steps.slice(-WINDOW)];
    const tokens = this.steps.reduce((sum, step) => sum + step.tokens, 0);
    const seconds = this.steps.reduce((sum, step) => sum + step.seconds, 0);
    this.say(
      `${this.steps.length} step${this.steps.length === 1 ? "" : "s"}, ${tokens.toLocaleString("en")} tokens in ${duration(seconds)}. ` +
        `Right answers: ${mean(first).toFixed(0)} % in the first ${first.length}, ${mean(last).toFixed(0)} % in the last ${last.length}.`,
    );
  }

  say(text) {
    this.view.querySelector("#learning-now").textContent = text;
  }

  draw() {
    const table = this.view.querySelector("#steps-table");
    table.hidden = this.steps.length === 0;
    const percent = (share) => (share === null ? "" : (100 * share).toFixed(0));
    const rows = this.steps.toReversed().map((step) => {
      const row = document.createElement("tr");
      const cells = [step.step, percent(step.em), step.probes, percent(step.probe_em), step.kept, step.pg_loss.toFixed(4), step.grad_norm.toFixed(2), Math.round(step.tokens / step.seconds)];
      for (const cell of cells) row.insertCell().textContent = cell;
      return row;
    });
    table.querySelector("tbody").replaceChildren(...rows);
    const last = Math.max(this.until, 2);
    const em = this.steps.map(({ step, em }) => [step, 100 * em]);
    chart(this.view.querySelector("#chart-em"), last, [0, 100], em, averaged(em));
    const loss = this.steps.map(({ step, pg_loss }) => [step, pg_loss]);
    const most = Math.max(0.01, ...loss.map(([, value]) => Math.abs(value)));
    chart(this.view.querySelector("#chart-loss"), last, [-most, most], loss, averaged(loss));
  }
}

/// Means over the last steps.
function averaged(points) {
  return points.map(([step], at) => {
    const window = points.slice(Math.max(0, at - WINDOW + 1), at + 1);
    return [step, window.reduce((sum, [, value]) => sum + value, 0) / window.length];
  });
}

function chart(svg, steps, [low, high], points, means) {
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  const x = (step) => LEFT + ((step - 1) / (steps - 1)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - BOTTOM - TOP);
  const parts = [];
  const digits = high - low >= 10 ? 0 : high - low >= 0.5 ? 2 : 3;
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const value = low + share * (high - low);
    parts.push(element("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    parts.push(element("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, value.toFixed(digits)));
  }
  for (const step of new Set([1, Math.round((1 + steps) / 2), steps])) parts.push(element("text", { x: x(step), y: HEIGHT - 6, "text-anchor": "middle" }, step));
  const line = (points) => points.map(([step, value]) => `${x(step)},${y(value)}`).join(" ");
  parts.push(element("polyline", { points: line(points) }));
  for (const [step, value] of points) parts.push(element("circle", { cx: x(step), cy: y(value), r: 2.5 }));
  parts.push(element("polyline", { points: line(means), class: "mean" }));
  svg.replaceChildren(...parts);
}

function element(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function duration(seconds) {
  const whole = Math.round(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}
