// One transcript as text: tokens coloured by author, passages as cards. Everything is set as text, never as markup.

import { laneName, outcome } from "./group.js";

/// A button for each transcript of a group of several.
export function showLanes(box, group, current, select) {
  const lanes = [...group.lanes.values()];
  if (lanes.length < 2) return box.replaceChildren();
  const judged = group.request.golds.length > 0;
  const buttons = lanes.map((lane) => {
    const button = box.querySelector(`[data-key="${lane.key}"]`) ?? document.createElement("button");
    Object.assign(button, { type: "button", role: "tab", textContent: `${laneName(lane)} ${!lane.ended ? "…" : !judged ? "" : lane.ended.correct ? "✓" : "✗"}` });
    button.dataset.key = lane.key;
    button.title = outcome(lane, judged);
    button.setAttribute("aria-selected", lane.key === current);
    button.onclick = () => select(lane.key);
    return button;
  });
  if (buttons.some((button, i) => box.children[i] !== button) || box.children.length !== buttons.length) box.replaceChildren(...buttons);
}

/// Draws what is new of `lane`, or all of it where another lane was shown.
export function showTranscript(box, verdict, group, lane, place, select) {
  const state = box.state;
  const same = state?.group === group && state.key === lane.key && state.measured === Boolean(group.seconds);
  if (!same) {
    box.replaceChildren(line("prompt", group.request.question));
    box.state = { group, key: lane.key, drawn: 0, measured: Boolean(group.seconds), text: null };
    box.onpointerover = ({ target }) => target.dataset.place && select(lane.key, Number(target.dataset.place));
  }
  const now = box.state;
  while (now.drawn < lane.tokens.length) {
    const search = lane.searches.get(now.drawn);
    const token = lane.tokens[now.drawn];
    if (search && token.author === "information") {
      box.append(cards(search));
      now.text = null;
      while (lane.tokens[now.drawn]?.author === "information") now.drawn += 1;
      continue;
    }
    now.text ??= box.appendChild(line("", ""));
    now.text.append(piece(token, now.drawn, lane));
    now.drawn += 1;
  }
  box.querySelector(".current")?.classList.remove("current");
  if (place !== null) box.querySelector(`[data-place="${place}"]`)?.classList.add("current");
  showVerdict(verdict, group, lane);
}

function piece(token, place, lane) {
  const span = document.createElement("span");
  const tag = /^\s*<[^>]*>\s*$/.test(token.text) ? "tag" : "";
  span.className = `token ${token.author} ${tag} ${place < lane.inherited ? "inherited" : ""}`;
  span.dataset.place = place;
  span.textContent = token.text;
  return span;
}

function cards({ query, passages }) {
  const box = document.createElement("div");
  box.append(line("query", passages.length > 0 ? `Found for “${query}”:` : `Nothing found for “${query}”.`));
  const list = document.createElement("ul");
  list.className = "passages";
  for (const { title, text, score } of passages) {
    const card = document.createElement("li");
    const head = document.createElement("b");
    const points = document.createElement("span");
    points.textContent = score.toFixed(1);
    points.title = "BM25 score";
    head.append(title.replace(/^"|"$/g, ""), points);
    card.append(head, document.createTextNode(text));
    list.append(card);
  }
  box.append(list);
  return box;
}

function showVerdict(box, group, lane) {
  const { golds } = group.request;
  const { ended } = lane;
  const text = () => {
    if (!ended) return group.cancelled ? "Stopped." : "";
    const answer = ended.answer === null ? "No answer." : `Answer: ${ended.answer}.`;
    if (golds.length === 0) return answer;
    return ended.correct ? `✓ ${answer} Right.` : `✗ ${answer} Wrong: it is ${golds.join(" or ")}.`;
  };
  if (box.textContent !== text()) box.textContent = text();
  box.className = !ended || golds.length === 0 ? "" : ended.correct ? "right" : "wrong";
}

function line(name, text) {
  const node = document.createElement("div");
  node.className = name;
  node.textContent = text;
  return node;
}
