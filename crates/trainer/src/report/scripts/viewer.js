// The groups of the logged steps.

const viewer = document.getElementById("viewer");
if (viewer) {
  const [stepBox, groupBox, colourBox] = ["step", "group", "colour"].map((id) => document.getElementById(id));

  const outcome = ({ dead_end, rescued, rollouts }) => {
    if (rescued) return "dead end, rescued";
    if (dead_end) return "dead end";
    const originals = rollouts.filter(({ origin }) => origin === "original");
    return `${originals.filter(({ em }) => em === 1).length} of ${originals.length} right`;
  };

  const showGroup = () => {
    hideTip();
    const { groups } = data.steps[stepBox.selectedIndex];
    const group = groups[groupBox.selectedIndex];
    const mode = colourBox.value;
    const originals = group.rollouts.filter(({ origin }) => origin === "original");
    const probes = group.rollouts.filter(({ origin }) => origin === "probe").sort((a, b) => b.em - a.em);
    const head = element("p", "", element("span", "question", group.question));
    const golds = element("p", "golds", `Accepted: ${group.golds.join(" · ")}`);
    if (group.source) golds.append(element("span", "source", group.source));
    const prompt = element("details", "", element("summary", "", "Prompt"));
    prompt.append(element("div", "run prompt", group.prompt));
    viewer.replaceChildren(colourKey(mode), head, golds, prompt);

    const paired = new Set();
    probes.forEach((probe) => {
      const parent = originals.find(({ sample }) => sample === probe.sample);
      if (parent) {
        paired.add(parent);
        viewer.append(branching(parent, probe, mode));
      } else {
        viewer.append(transcript(`Probe of original ${probe.sample + 1}`, probe, { mode }));
      }
    });
    const others = originals.filter((rollout) => !paired.has(rollout));
    if (paired.size && others.length) viewer.append(element("h3", "", "The other originals"));
    const cards = others.map((rollout) => transcript(`Original ${rollout.sample + 1}`, rollout, { mode }));
    viewer.append(element("div", "pair", ...cards));
  };
  const fillGroups = () => {
    const { groups } = data.steps[stepBox.selectedIndex];
    groupBox.replaceChildren(...groups.map((group) => new Option(`${group.question} (${outcome(group)})`)));
  };

  stepBox.replaceChildren(...data.steps.map(({ step, groups }) => {
    const rescues = groups.filter(({ rescued }) => rescued).length;
    return new Option(rescues ? `${step} (${rescues} rescued)` : String(step));
  }));
  const withRescue = data.steps.findIndex(({ groups }) => groups.some(({ rescued }) => rescued));
  stepBox.selectedIndex = withRescue >= 0 ? withRescue : data.steps.length - 1;
  fillGroups();
  groupBox.selectedIndex = Math.max(0, data.steps[stepBox.selectedIndex].groups.findIndex(({ rescued }) => rescued));
  stepBox.addEventListener("change", () => { fillGroups(); showGroup(); });
  groupBox.addEventListener("change", showGroup);
  colourBox.addEventListener("change", showGroup);
  showGroup();
}
