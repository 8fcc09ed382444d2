// The transcripts of one question as they grow: what the tree, the text and the numbers are drawn from.

export class Group {
  constructor(request) {
    Object.assign(this, { request, weighing: null, prompt: null, seconds: null, counts: null, cancelled: false });
    /// By key: "0", "1", … the originals, "0p" the probe that left original 0.
    this.lanes = new Map();
  }

  lane(sample, probe) {
    const key = probe ? `${sample}p` : `${sample}`;
    if (!this.lanes.has(key)) {
      // `inherited`: tokens that are the original's. `searches`: by the place behind the search that they answer.
      this.lanes.set(key, { key, sample, probe, tokens: [], inherited: 0, searches: new Map(), ended: null, weighed: null });
      this.lanes = new Map([...this.lanes].sort(([, a], [, b]) => a.sample - b.sample || a.probe - b.probe));
    }
    return this.lanes.get(key);
  }

  token(sample, probe, tokens) {
    this.prompt ??= tokens[0].place;
    this.lane(sample, probe).tokens.push(...tokens);
  }

  passages(sample, probe, query, passages, tokens) {
    const lane = this.lane(sample, probe);
    lane.searches.set(lane.tokens.length, { query, passages });
    lane.tokens.push(...tokens);
  }

  branch(sample, prefix, tokens) {
    const parent = this.lane(sample, false);
    const lane = this.lane(sample, true);
    lane.inherited = prefix - this.prompt;
    lane.tokens = [...parent.tokens.slice(0, lane.inherited), ...tokens];
    lane.searches = new Map([...parent.searches].filter(([place]) => place < lane.inherited));
  }

  ended({ sample, probe, answer, correct }) {
    this.lane(sample, probe).ended = { answer, correct };
  }

  /// The end of sampling: every token of the finished transcripts with alternatives and uncertainty.
  measured({ transcripts, seconds, tokens, cancelled, weighing }) {
    Object.assign(this, { seconds, counts: tokens, cancelled });
    for (const { sample, probe, tokens, ids } of transcripts) Object.assign(this.lane(sample, probe), { tokens, ids });
    this.weigh(transcripts.length > 0 ? weighing : null);
  }

  weigh(weighing) {
    this.weighing = weighing;
    for (const weighed of weighing?.transcripts ?? []) this.lane(weighed.sample, weighed.probe).weighed = weighed;
  }
}

export const inLoss = (token) => token.author === "model" || token.author === "probe";

export function laneName({ sample, probe }) {
  return probe ? `Probe of ${sample + 1}` : `Original ${sample + 1}`;
}

export function outcome({ ended }, judged) {
  if (!ended) return "under way";
  const answer = ended.answer ?? "no answer";
  return judged ? `${ended.correct ? "right" : "wrong"}: ${answer}` : answer;
}
