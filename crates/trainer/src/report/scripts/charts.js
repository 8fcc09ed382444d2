// Reads the values of a chart at the step under the pointer, or at the one that the arrow keys chose.

const charts = data.sections.flatMap((section) => section.charts);
document.querySelectorAll("figure.chart").forEach((figure, index) => {
  const { plot: [left, right], domain: [first, last], lines, width } = charts[index];
  const svg = figure.querySelector("svg");
  const cursor = figure.querySelector(".cursor");
  const at = figure.querySelector(".at");
  const outputs = [...figure.querySelectorAll("output")];
  const values = lines.map((line) => new Map(line.points));
  const steps = [...new Set(lines.flatMap((line) => line.points.map(([step]) => step)))].sort((a, b) => a - b);
  let chosen = steps.length - 1;

  const choose = (place) => {
    chosen = Math.max(0, Math.min(steps.length - 1, place));
    const step = steps[chosen];
    const x = left + (right - left) * (step - first) / (last - first);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    at.textContent = `step ${step}`;
    outputs.forEach((output, line) => {
      output.textContent = values[line].has(step) ? number(values[line].get(step)) : "–";
    });
  };
  const leave = () => {
    cursor.setAttribute("visibility", "hidden");
    chosen = steps.length - 1;
    at.textContent = "last step";
    outputs.forEach((output, line) => {
      const points = lines[line].points;
      output.textContent = points.length ? number(points[points.length - 1][1]) : "–";
    });
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * width;
    const step = first + (x - left) / (right - left) * (last - first);
    const distance = (place) => Math.abs(steps[place] - step);
    choose(steps.reduce((best, _, place) => (distance(place) < distance(best) ? place : best), 0));
  });
  svg.addEventListener("pointerleave", leave);
  figure.addEventListener("blur", leave);
  figure.addEventListener("keydown", (event) => {
    const to = { ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: steps.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(to);
  });
});
