// The transcripts as a tree: what several have in common is drawn once, a probe leaves its original where that failed.

import { inLoss, laneName, outcome } from "./group.js";

const SVG = "http://www.w3.org/2000/svg";
const ROW = 36;
const CELL = 22;
const LEFT = 10;
const NARROW = 9;
const AUTHORS = { model: "model", probe: "exploratory prompt", information: "retrieved passages", notice: "notice" };

export class Tree {
  constructor(svg, select) {
    Object.assign(this, { svg, select, cells: [] });
    svg.addEventListener("keydown", (event) => this.#move(event));
    svg.addEventListener("focusin", ({ target }) => this.#choose(target));
    svg.addEventListener("pointerover", ({ target }) => this.#choose(target));
    svg.addEventListener("click", ({ target }) => target.focus?.());
  }

  draw(group, colour, words, shown, growing) {
    const judged = group.request.golds.length > 0;
    const { lanes, rows } = layout([...group.lanes.values()], words);
    this.cells = [];
    const nodes = lanes.filter(({ from }) => from).map(connector);
    const ends = new Map();
    for (const lane of lanes) {
      nodes.push(...lane.own.flatMap((cell) => this.#cell(cell, lane, colour, words, shown)));
      const end = lane.cells.at(-1);
      const key = end && `${end.row} ${end.x}`;
      if (end) ends.set(key, [...(ends.get(key) ?? []), lane]);
    }
    let width = 300;
    for (const together of ends.values()) {
      const { cells, lane } = together[0];
      const end = cells.at(-1);
      const times = together.length > 1 ? `  ×${together.length}` : "";
      const mark = !lane.ended ? "…" : !judged ? "" : lane.ended.correct ? "✓ " : "✗ ";
      const label = element("text", { x: end.x + end.width + 7, y: end.row * ROW + CELL / 2 + 11, class: `end ${!lane.ended || !judged ? "open" : lane.ended.correct ? "right" : "wrong"}` });
      label.textContent = lane.ended ? `${mark}${lane.ended.answer ?? "no answer"}${times}` : `${mark}${times}`;
      nodes.push(label);
      width = Math.max(width, end.x + end.width + 24 + 8.5 * label.textContent.length);
    }
    const focused = document.activeElement?.dataset?.token;
    this.svg.replaceChildren(...nodes);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", Math.max(1, rows) * ROW + 8);
    if (focused) this.cells.find((cell) => cell.dataset.token === focused)?.focus({ preventScroll: true });
    if (this.cells.length && !this.cells.some((cell) => cell.tabIndex === 0)) this.cells[0].setAttribute("tabindex", 0);
    const box = this.svg.parentElement;
    if (growing) box.scrollLeft = box.scrollWidth;
    else if (this.growing) box.scrollLeft = 0;
    this.growing = growing;
  }

  #cell(cell, { lane }, colour, words, shown) {
    const { token, author, x, row, width, place } = cell;
    const current = shown.place === place && shown.key === lane.key;
    const probability = token.log_prob == null ? "" : `, probability ${Math.round(100 * Math.exp(token.log_prob))} percent`;
    const rect = element("rect", {
      x, y: row * ROW + 7, width, height: CELL, rx: 3, tabindex: current ? 0 : -1, role: "img",
      class: `cell ${current ? "current" : ""} ${shade(token, colour)}`,
      "aria-label": `${laneName(lane)}, ${AUTHORS[author]}: ${author === "information" ? "passages" : token.text.trim()}${probability}`,
      "fill-opacity": strength(token, lane, place, colour),
    });
    Object.assign(rect.dataset, { token: `${lane.key} ${place}`, key: lane.key, place, row });
    this.cells.push(rect);
    const text = author === "information" ? "docs" : words ? cell.token.text.trim() : "";
    if (!text) return [rect];
    const label = element("text", { x: x + width / 2, y: row * ROW + 22, "text-anchor": "middle", class: shade(token, colour) !== "outside" && strength(token, lane, place, colour) > 0.55 ? "on-dark" : "" });
    label.textContent = text;
    return [rect, label];
  }

  #choose(target) {
    const { key, place } = target.dataset ?? {};
    if (place !== undefined && !target.classList.contains("current")) this.select(key, Number(place));
  }

  #move(event) {
    const at = this.cells.indexOf(document.activeElement);
    if (at < 0) return;
    const x = (cell) => Number(cell.getAttribute("x"));
    const here = this.cells[at];
    const rows = (step) => this.cells.filter((cell) => Number(cell.dataset.row) === Number(here.dataset.row) + step);
    const nearest = (cells) => cells.sort((a, b) => Math.abs(x(a) - x(here)) - Math.abs(x(b) - x(here)))[0];
    const next = {
      ArrowRight: () => this.cells[at + 1],
      ArrowLeft: () => this.cells[at - 1],
      ArrowUp: () => nearest(rows(-1)),
      ArrowDown: () => nearest(rows(1)),
      Home: () => this.cells[0],
      End: () => this.cells.at(-1),
    }[event.key]?.();
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

/// Gives every lane its cells, its row, and the place where it leaves an earlier lane.
function layout(lanes, words) {
  const placed = [];
  let rows = 0;
  for (const lane of lanes) {
    const cells = toCells(lane.tokens, words);
    let parent = null;
    let shared = 0;
    for (const other of placed) {
      let same = 0;
      while (same < cells.length && same < other.cells.length && cells[same].name === other.cells[same].name) same += 1;
      if (same > shared) [parent, shared] = [other, same];
    }
    const own = cells.slice(shared);
    const row = own.length > 0 ? rows++ : null;
    let x = LEFT;
    for (const [i, cell] of cells.entries()) {
      Object.assign(cell, { x, row: i < shared ? parent.cells[i].row : row });
      x += cell.width;
    }
    placed.push({ lane, cells, own, from: own.length > 0 && shared > 0 ? cells[shared - 1] : null, row });
  }
  return { lanes: placed, rows };
}

/// One cell a token; what the environment wrote in one go is one cell.
function toCells(tokens, words) {
  const cells = [];
  for (const [place, token] of tokens.entries()) {
    const last = cells.at(-1);
    if (!inLoss(token) && last?.author === token.author) {
      last.name += ` ${token.id}`;
      continue;
    }
    const text = token.author === "information" ? "docs" : words ? token.text.trim() : "";
    cells.push({ token, place, author: token.author, name: `${token.author} ${token.id}`, width: text ? 8 + 6.7 * text.length : NARROW });
  }
  return cells;
}

function connector({ from, own, lane }) {
  const [x, y] = [from.x + from.width, from.row * ROW + 7 + CELL / 2];
  const [toX, toY] = [own[0].x, own[0].row * ROW + 7 + CELL / 2];
  const d = `M${x - 5} ${y + CELL / 2}C${x - 5} ${toY},${toX - 8} ${toY},${toX} ${toY}`;
  return element("path", { d, class: lane.probe ? "to-probe" : "", "aria-hidden": "true" });
}

/// Hue: the author; grey for what is not in the loss where that has no number.
function shade(token, colour) {
  return colour === "author" || inLoss(token) ? token.author : "outside";
}

/// From 0.12 to 1; for authors how likely the token was.
function strength(token, lane, place, colour) {
  if (!inLoss(token)) return colour === "author" ? 0.85 : 1;
  const probability = Math.exp(token.log_prob ?? 0);
  const value = {
    author: 0.45 + 0.55 * probability,
    probability,
    ratio: (lane.weighed?.ratio[place] ?? 0) / 1.5,
    aleatoric: (token.aleatoric ?? 0) / Math.log(10),
    epistemic: token.epistemic ?? 0,
  }[colour];
  return Math.min(1, Math.max(0.12, value)).toFixed(3);
}

/// What the colours mean.
export function legend(list, colour) {
  const high = { probability: "1", ratio: "1.5 or more", aleatoric: "ln 10 nats", epistemic: "1" }[colour];
  const entries =
    colour === "author"
      ? [["model", "model (paler: less likely)"], ["probe", "exploratory prompt"], ["information", "passages"], ["notice", "notice"]]
      : [["low", "0"], ["high", high], ["probe", "exploratory prompt"]];
  list.replaceChildren(
    ...entries.map(([name, text]) => {
      const item = document.createElement("li");
      const swatch = document.createElement("span");
      swatch.className = `swatch-${name}`;
      item.append(swatch, text);
      return item;
    }),
  );
}

function element(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}
