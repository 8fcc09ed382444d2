// The numbers of one token.

import { inLoss, laneName } from "./group.js";

const AUTHORS = { model: "the model", probe: "exploratory prompt", information: "retrieved", notice: "notice" };

export function showToken(box, group, { key, place }) {
  const lane = group.lanes.get(key);
  const token = place === null ? null : lane?.tokens[place];
  const name = token ? `${key} ${place} ${lane.weighed ? group.weighing.alpha : ""} ${token.author}` : "";
  if (box.dataset.token === name) return;
  box.dataset.token = name;
  if (!token) return box.replaceChildren(text("p", "Point at a token, or move to it by the arrow keys.", "quiet"));

  const nodes = [text("p", token.text.trim() || "(nothing visible)", "piece mono"), text("p", `${laneName(lane)}, ${AUTHORS[token.author]}`, "quiet")];
  if (!inLoss(token)) {
    nodes.push(text("p", "Not in the loss: the model did not write it.", "quiet"));
    return box.replaceChildren(...nodes);
  }
  const list = document.createElement("dl");
  const row = (term, value) => value !== null && list.append(text("dt", term), text("dd", value));
  row("probability π", share(Math.exp(token.log_prob)));
  if (lane.weighed) {
    const { log_mu, log_mix, ratio } = lane.weighed;
    row("probe density μ", log_mu[place] === null ? "0" : share(Math.exp(log_mu[place])));
    row(`mixture, α = ${group.weighing.alpha.toFixed(2)}`, share(Math.exp(log_mix[place])));
    row("ratio ρ", number(ratio[place]));
  }
  if (token.aleatoric != null) {
    row("aleatoric", `${token.aleatoric.toFixed(2)} nats`);
    row("epistemic", token.epistemic.toFixed(3));
  }
  nodes.push(list);
  if (token.alternatives?.length > 0) {
    nodes.push(text("h3", "What it thought likeliest"));
    const others = document.createElement("ol");
    for (const [other, probability] of token.alternatives) {
      const item = document.createElement("li");
      const meter = document.createElement("meter");
      Object.assign(meter, { value: probability, textContent: share(probability) });
      meter.setAttribute("aria-hidden", "true");
      item.append(text("span", other.trim() || "␣", "mono"), text("span", share(probability)), meter);
      others.append(item);
    }
    nodes.push(others);
  }
  box.replaceChildren(...nodes);
}

export function number(value) {
  if (value === 0) return "0";
  return value < 0.001 || value >= 1000 ? value.toExponential(1) : value.toFixed(3);
}

function share(probability) {
  return probability < 0.0005 && probability > 0 ? probability.toExponential(1) : `${(100 * probability).toFixed(1)} %`;
}

function text(name, content, className = "") {
  const node = document.createElement(name);
  Object.assign(node, { textContent: content, className });
  return node;
}
