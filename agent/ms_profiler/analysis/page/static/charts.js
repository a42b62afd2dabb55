// Curves by uPlot, stacked bars by canvas.
const ink = () => getComputedStyle(document.body).getPropertyValue("--ink").trim();
const faint = () => getComputedStyle(document.body).getPropertyValue("--faint").trim();

function axes(values, steps) {
  const look = { stroke: ink(), grid: { stroke: faint(), width: 1 }, ticks: { stroke: faint() }, font: "12px system-ui" };
  return [steps ? { ...look, incrs: steps } : { ...look }, { ...look, size: 84, values: (_, marks) => marks.map(values) }];
}

// Step times; a click on a step, or Enter with the cursor on it, shows it
function stepChart(steps, chosen) {
  const place = el("div", { class: "chart" });
  const x = steps.map((step) => step.number), y = steps.map((step) => step.duration_ns / 1e6);
  let plot = null;
  const draw = () => {
    place.replaceChildren();
    plot = new uPlot({
      width: Math.max(place.clientWidth, 320), height: 200, legend: { show: true }, cursor: { points: { size: 7 } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, high * 1.05 || 1] } },
      axes: axes((ms) => milliseconds(ms), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7]),
      series: [{ label: word("step") }, { label: word("Step time"), stroke: colour("computing"), width: 1.5, points: { show: x.length < 200, size: 5 }, value: (_, ms) => milliseconds(ms) }],
    }, [x, y], place);
    plot.over.addEventListener("click", () => { if (plot.cursor.idx !== null && plot.cursor.idx !== undefined) chosen(steps[plot.cursor.idx]); });
  };
  return { place, draw };
}

function curveChart(curves, text, height = 180) {
  const place = el("div", { class: "chart" });
  const draw = () => {
    place.replaceChildren();
    const known = [...new Set(curves.flatMap((curve) => curve.time))].sort((a, b) => a - b);
    const at = new Map(known.map((time, row) => [time, row]));
    const columns = curves.map((curve) => {
      const values = new Array(known.length).fill(undefined);
      curve.time.forEach((time, row) => { values[at.get(time)] = curve.value[row]; });
      return values;
    });
    new uPlot({
      width: Math.max(place.clientWidth, 320), height, scales: { x: { time: false } },
      axes: axes(text),
      series: [{ label: word("time"), value: (_, s) => (s === null ? "" : `${s.toFixed(3)} s`) },
        ...curves.map((curve, row) => ({ label: curve.name, stroke: SPARE[row % SPARE.length], width: 1.5, spanGaps: true, value: (_, value) => (value === null || value === undefined ? "" : text(value)) }))],
    }, [known.map((time) => time / 1e9), ...columns], place);
  };
  return { place, draw };
}

// A stacked bar for each step: of many steps, as many as there are pixels, each the mean of its neighbours
function stackChart(content, chosen) {
  const names = Object.keys(content.columns).filter((name) => name !== "step");
  const numbers = content.columns.step || [];
  const canvas = el("canvas", { class: "stacked", tabindex: 0 });
  const note = el("div", { class: "note" }, " ");
  const place = el("div", { class: "chart" }, canvas, el("div", { class: "legend" }, names.map((name) => chip(name))), note);
  let each = 1;
  const draw = () => {
    const width = Math.max(place.clientWidth, 320), height = 160, ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio; canvas.height = height * ratio;
    canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    const paint = canvas.getContext("2d");
    paint.scale(ratio, ratio);
    each = Math.max(1, Math.ceil(numbers.length / width));
    const bars = Math.ceil(numbers.length / each), sums = [];
    for (let index = 0; index < bars; index++) {
      const until = Math.min((index + 1) * each, numbers.length);
      sums.push(names.map((name) => {
        let sum = 0;
        for (let row = index * each; row < until; row++) sum += content.columns[name][row];
        return sum / (until - index * each);
      }));
    }
    const most = Math.max(1, ...sums.map((parts) => parts.reduce((sum, part) => sum + part, 0)));
    const wide = width / bars;
    sums.forEach((parts, index) => {
      let y = height;
      parts.forEach((part, kind) => {
        const tall = (part / most) * (height - 4);
        paint.fillStyle = colour(names[kind]);
        paint.fillRect(index * wide, y - tall, Math.max(wide - (wide > 4 ? 1 : 0), 0.7), tall);
        y -= tall;
      });
    });
  };
  const row = (event) => Math.min(numbers.length - 1, Math.floor((event.offsetX / canvas.clientWidth) * Math.ceil(numbers.length / each)) * each);
  canvas.addEventListener("mousemove", (event) => {
    const at = row(event);
    if (at < 0) return;
    const parts = names.map((name) => [name, content.columns[name][at]]).filter(([, time]) => time > 0);
    note.textContent = `${word("step")} ${numbers[at]}: ${parts.map(([name, time]) => `${name} ${duration(time)}`).join(", ")}`;
  });
  canvas.addEventListener("click", (event) => { const at = row(event); if (at >= 0) chosen(numbers[at]); });
  return { place, draw };
}
