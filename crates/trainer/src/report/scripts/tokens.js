// What is known of a token, and how it is shown.

const isLearnt = (author) => author === "model" || author === "probe";

// The tokens behind the prompt, each with all that is known of it. A probe's prefix stands with its parent.
const tokensOf = (rollout, parent) => {
  const authors = rollout.runs.flatMap(([author, count]) => Array(count).fill(author));
  const prefix = authors.slice(0, rollout.prefix);
  const pieces = [...(parent ? parent.pieces.slice(0, prefix.length) : []), ...rollout.pieces];
  const inherited = parent ? parent.log_probs.slice(0, prefix.filter(isLearnt).length) : [];
  const logProbs = [...inherited, ...rollout.log_probs];
  const logRatios = rollout.log_ratios.flatMap(([count, value]) => Array(count).fill(value));
  let learnt = 0;
  return pieces.map((text, place) => {
    const author = authors[place];
    if (!isLearnt(author)) return { text, author };
    const known = { text, author, logProb: logProbs[learnt], logRatio: logRatios[learnt] };
    learnt += 1;
    return known;
  });
};

const AUTHORS = {
  model: "model", probe: "exploration prompt", information: "retrieved passages", notice: "notice", prompt: "prompt",
};
const SURPRISE = [0.1, 0.5, 1, 2, 4];

const shade = (token, mode) => {
  if (mode === "surprise" && typeof token.logProb === "number") {
    const level = SURPRISE.filter((bound) => -token.logProb >= bound).length;
    return level ? ` q${level}` : "";
  }
  if (mode === "ratio" && typeof token.logRatio === "number") {
    const [low, high] = data.clip ?? [0.8, 1.2];
    const ratio = Math.exp(token.logRatio);
    if (ratio > high) return " u2";
    if (ratio > 1.005) return " u1";
    if (ratio < 0.01) return " d3";
    if (ratio < low) return " d2";
    if (ratio < 0.995) return " d1";
  }
  return "";
};

const colourKey = (mode) => {
  const key = element("p", "colours");
  const entry = (className, label) => key.append(element("span", `t ${className}`, label));
  if (mode === "surprise") {
    key.append("surprise in nats at least:");
    SURPRISE.forEach((bound, level) => entry(`q${level + 1}`, String(bound)));
  } else if (mode === "ratio") {
    const [low, high] = data.clip ?? [0.8, 1.2];
    key.append("ratio at the first update:");
    entry("d3", "below 0.01");
    entry("d2", `below ${number(low)}`);
    entry("d1", "below 1");
    entry("", "1, or not in the loss");
    entry("u1", "above 1");
    entry("u2", `above ${number(high)}`);
  }
  return key;
};

// What a token is, whichever transcript it stands in.
const tokenRows = (token) => {
  const rows = [["token", JSON.stringify(token.text)], ["author", AUTHORS[token.author]]];
  if (isLearnt(token.author)) {
    rows.push(["π_old", typeof token.logProb === "number" ? withLog(token.logProb) : "not finite"]);
  }
  return rows;
};
const withLog = (log) => `${number(Math.exp(log))} (log ${number(log)})`;

// What the loss makes of it.
const lossRows = (token, rollout) => {
  if (!rollout.kept || !isLearnt(token.author)) return [["in the loss", "no"]];
  const rows = [["in the loss", "yes"]];
  if (typeof token.logProb === "number" && typeof token.logRatio === "number") {
    const ratio = Math.exp(token.logRatio);
    rows.push(["π_mix", withLog(token.logProb - token.logRatio)], ["π_old/π_mix", number(ratio)]);
    if (data.clip) {
      const [low, high] = data.clip;
      const clipped = (rollout.advantage > 0 && ratio > high) || (rollout.advantage < 0 && ratio < low);
      rows.push(["first update", clipped ? "clipped: no gradient" : "not clipped"]);
    }
  }
  rows.push(["advantage", number(rollout.advantage)]);
  return rows;
};

const tip = document.getElementById("token");
let shown = null;
const hideTip = () => {
  tip.hidden = true;
  if (shown) shown.classList.remove("on");
  shown = null;
};
const placeTip = () => {
  if (!shown) return;
  const token = shown.getClientRects()[0] ?? shown.getBoundingClientRect();
  const box = tip.getBoundingClientRect();
  const below = token.bottom + 8 + box.height < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(token.left, innerWidth - box.width - 8))}px`;
  tip.style.top = `${Math.max(8, below ? token.bottom + 8 : token.top - box.height - 8)}px`;
};
const showTip = (span, rows, byKey) => {
  hideTip();
  shown = span;
  span.classList.add("on");
  // Pointing would otherwise be read out token by token.
  tip.setAttribute("aria-live", byKey ? "polite" : "off");
  const row = ([name, ...values]) => {
    const cells = values.map((value) => element("td", "", value));
    if (cells.length === 1) cells[0].colSpan = 2;
    return element("tr", "", element("th", "", name), ...cells);
  };
  tip.replaceChildren(element("table", "", ...rows.map(row)));
  tip.hidden = false;
  placeTip();
};
addEventListener("scroll", placeTip, { passive: true, capture: true });
