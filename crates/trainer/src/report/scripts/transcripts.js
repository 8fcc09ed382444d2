// Transcripts: blocks of one author, made of tokens that can be pointed at.

// The tokens as blocks; `rowsOf` says what is known of each.
const tokenBody = (tokens, label, rowsOf, mode) => {
  const body = element("div", "tokens");
  body.tabIndex = 0;
  body.setAttribute("role", "group");
  body.setAttribute("aria-label", `${label}: ${tokens.length} tokens; arrow keys read them`);
  const spans = tokens.map((token) => element("span", `t${shade(token, mode)}`, token.text));
  let block = null;
  tokens.forEach((token, place) => {
    if (!block || token.author !== tokens[place - 1].author) {
      block = element("div", `run ${token.author}`, element("b", "who", AUTHORS[token.author]));
      body.append(block);
    }
    block.append(spans[place]);
  });

  const show = (place, byKey) => showTip(spans[place], rowsOf(tokens[place]), byKey);
  body.addEventListener("pointerover", (event) => {
    const place = spans.indexOf(event.target);
    if (place >= 0) show(place, false);
  });
  body.addEventListener("pointerleave", hideTip);
  body.addEventListener("blur", hideTip);
  body.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hideTip();
    const now = spans.indexOf(shown);
    const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: spans.length - 1 }[event.key];
    if (to === undefined || !spans.length) return;
    event.preventDefault();
    const place = Math.max(0, Math.min(spans.length - 1, to));
    show(place, true);
    spans[place].scrollIntoView({ block: "nearest", inline: "nearest" });
    placeTip();
  });
  return body;
};

// Of a log without tokens: the text alone.
const textBody = (rollout) => {
  const block = ({ author, text }) => element("div", `run ${author}`, element("b", "who", AUTHORS[author]), text);
  const body = element("div", "tokens", ...rollout.text.map(block));
  body.tabIndex = 0;
  return body;
};

// What a transcript came to.
const verdict = (rollout) => {
  const right = rollout.em === 1;
  const said = [element("b", right ? "right" : "wrong", right ? "✓ right" : "✗ wrong")];
  said.push(rollout.answer === null ? rollout.outcome : `answer: ${rollout.answer}`);
  said.push(`reward ${number(rollout.reward)}`);
  if (rollout.advantage !== null) said.push(`advantage ${number(rollout.advantage)}`);
  if (rollout.origin === "probe" && !rollout.kept) said.push("filtered out: not in the loss");
  return element("p", "facts", ...said.map((part) => element("span", "", part)));
};

// A transcript from token `from` on.
const transcript = (title, rollout, { tokens = tokensOf(rollout, null), from = 0, mode = "author" } = {}) => {
  const rowsOf = (token) => [...tokenRows(token), ...lossRows(token, rollout)];
  const body = rollout.text.length ? textBody(rollout) : tokenBody(tokens.slice(from), title, rowsOf, mode);
  return element("article", "transcript", element("h4", "", title), verdict(rollout), body);
};

// A failed original and the probe that left it: what they share, then both ends side by side.
const branching = (parent, probe, mode) => {
  const [ours, theirs] = [tokensOf(parent, null), tokensOf(probe, parent)];
  const name = `Original ${parent.sample + 1}`;
  const from = probe.prefix;
  const ends = element("div", "pair",
    transcript(from ? `${name} went on and failed` : `${name}, failed`, parent, { tokens: ours, from, mode }),
    transcript("Its probe", probe, { tokens: theirs, from, mode }));
  if (!from) return ends;
  const places = new Map(ours.map((token, place) => [token, place]));
  const both = (token) => {
    const ofProbe = lossRows(theirs[places.get(token)], probe);
    const rows = lossRows(token, parent).map(([key, value], row) => [key, value, ofProbe[row]?.[1] ?? ""]);
    return [...tokenRows(token), ["", "original", "probe"], ...rows];
  };
  const title = `${name} and its probe share ${from} tokens`;
  const trunk = element("article", "transcript trunk", element("h4", "", title));
  trunk.append(tokenBody(ours.slice(0, from), title, both, mode));
  const fork = element("p", "branch", "↳ Here the original was left, and an exploration prompt put in.");
  return element("section", "tree", trunk, fork, ends);
};

document.querySelectorAll("details.sample").forEach((details) => {
  details.addEventListener("toggle", () => {
    const pair = details.querySelector(".pair");
    if (!details.open || pair.childElementCount) return;
    const { before, after } = data.samples.rows[Number(details.dataset.sample)];
    const [first, last] = data.samples.steps;
    pair.append(transcript(`After step ${first}`, before), transcript(`After step ${last}`, after));
  });
});
