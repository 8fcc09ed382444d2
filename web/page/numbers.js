// What a training step would make of the group: dead end, rescue, α, advantages, ratios.

import { inLoss, laneName } from "./group.js";
import { number } from "./token.js";

export function showNumbers(view, group) {
  const { weighing } = group;
  if (view.drawn === weighing) return;
  view.drawn = weighing;
  view.querySelector("#story").textContent = story(weighing, group);
  const alpha = view.querySelector("#alpha");
  if (document.activeElement !== alpha) alpha.value = weighing.alpha;
  view.querySelector("#alpha-value").textContent = weighing.alpha.toFixed(2);
  const rows = weighing.transcripts.map((weighed) => {
    const lane = group.lane(weighed.sample, weighed.probe);
    const ratios = weighed.ratio.filter((_, place) => inLoss(lane.tokens[place]));
    const row = document.createElement("tr");
    const cell = (text, className = "") => Object.assign(row.insertCell(), { textContent: text, className });
    cell(laneName(weighed));
    cell(lane.ended?.answer ?? "none", lane.ended?.correct ? "right" : "wrong");
    cell(weighed.reward.toFixed(0));
    cell(weighed.advantage.toFixed(2));
    cell(`${ratios.length} of ${lane.tokens.length}`);
    cell([...new Set([Math.min(...ratios), Math.max(...ratios)].map(number))].join(" – "));
    return row;
  });
  view.querySelector("tbody").replaceChildren(...rows);
}

function story({ originals, failed, probes, rescued, failure_rate, transcripts }, { seconds, counts, cancelled }) {
  const of = (n, all, what) => `${n} of ${all} ${what}${all === 1 ? "" : "s"}`;
  const parts = [];
  if (cancelled) parts.push("Stopped: only what had ended is counted.");
  if (failed === 0) parts.push(`${originals === 1 ? "The original is" : `All ${originals} originals are`} right: nothing to probe.`);
  else if (failed === originals) parts.push(`A dead end: ${originals === 1 ? "the original fails" : `all ${originals} originals fail`} (z = 1). Alone they have advantage 0 and teach nothing.`);
  else parts.push(`${of(failed, originals, "original")} failed (z = ${failure_rate.toFixed(2)}).`);
  if (probes > 0) {
    const went = rescued > 0 ? (failed === originals ? "a rescue" : "more to learn from") : "no rescue this time";
    parts.push(`${of(rescued, probes, "probe")} reached the right answer: ${went}.`);
    parts.push(`With all of them kept, α = ${probes}/${transcripts.length}; training's filter keeps only the likeliest probes, at most 15 %.`);
  }
  const rate = (counts.prefilled + counts.decoded) / seconds;
  parts.push(`${counts.prefilled + counts.decoded} tokens in ${seconds.toFixed(2)} s (${Math.round(rate)} a second).`);
  return parts.join(" ");
}
