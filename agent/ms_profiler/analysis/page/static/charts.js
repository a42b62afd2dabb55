// Draw curves with uPlot, and stacked bars on a canvas.
const ink = () => getComputedStyle(document.body).getPropertyValue("--ink").trim();
const faint = () => getComputedStyle(document.body).getPropertyValue("--line").trim();

function axes(values, steps) {
  const look = { stroke: ink(), grid: { stroke: faint(), width: 1 }, ticks: { stroke: faint() }, font: "12px system-ui" };
  return [steps ? { ...look, incrs: steps } : { ...look }, { ...look, size: 96, values: (_, marks) => marks.map(values) }];
}

// Draw the times of the steps. A click on a step, or Enter with the cursor on it, shows the step in the timeline.
function stepChart(steps, chosen) {
  const place = el("div", { class: "chart" });
  const x = steps.map((step) => step.number), y = steps.map((step) => step.duration_ns / 1e6);
  let plot = null;
  const draw = () => {
    place.replaceChildren();
    plot = new uPlot({
      width: Math.max(place.clientWidth, 320), height: 200, legend: { show: true }, cursor: { points: { size: 7 } },
      scales: { x: { time: false, range: (_, low, high) => (low === high ? [low - 0.5, high + 0.5] : [low, high]) }, y: { range: (_, low, high) => [0, high * 1.05 || 1] } },
      axes: axes((ms) => milliseconds(ms), [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7]),
      series: [{ label: word("step") }, { label: word("Step time"), stroke: colour("computing"), width: 1.5, points: { show: x.length < 200, size: 5 }, value: (_, ms) => milliseconds(ms) },
        { label: word("slow"), stroke: colour("sync"), fill: colour("sync"), paths: () => null, points: { show: true, size: 8, fill: colour("sync") }, value: (_, ms) => milliseconds(ms) }],
    }, [x, y, outliers(y)], place);
    plot.over.addEventListener("click", () => { if (plot.cursor.idx !== null && plot.cursor.idx !== undefined) chosen(steps[plot.cursor.idx]); });
  };
  return { place, draw };
}

// Return the times of slow steps, null for others. Slow: time > third quartile + 3 * (third quartile - first quartile).
function outliers(times) {
  const sorted = [...times].sort((a, b) => a - b), at = (part) => sorted[Math.floor((sorted.length - 1) * part)];
  const limit = at(0.75) + 3 * (at(0.75) - at(0.25));
  return times.map((time) => (times.length > 7 && time > limit ? time : null));
}

// Draw curves over one axis. A curve is { name, x, value }; x and value are lists of numbers.
const LINES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a63b8", "#6b7280"];
function lineChart(curves, text, title, shownAt = (x) => String(x), height = 180) {
  const place = el("div", { class: "chart" });
  const draw = () => {
    place.replaceChildren();
    const all = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b), at = new Map(all.map((x, row) => [x, row]));
    const columns = curves.map((curve) => {
      const values = new Array(all.length).fill(undefined);
      curve.x.forEach((x, row) => { values[at.get(x)] = curve.value[row]; });
      return values;
    });
    new uPlot({
      width: Math.max(place.clientWidth, 320), height, scales: { x: { time: false } }, axes: axes(text),
      series: [{ label: title, value: (_, x) => (x === null ? "" : shownAt(x)) },
        ...curves.map((curve, row) => ({ label: curve.name, stroke: LINES[row % LINES.length], dash: row < LINES.length ? [] : [6, 3], width: 1.5, spanGaps: true, points: { show: all.length < 100 }, value: (_, value) => (value === null || value === undefined ? "" : text(value)) }))],
    }, [all, ...columns], place);
  };
  return { place, draw };
}

const EDGE = 84;  // px of the axis at the left
// Draw a stacked bar for each step. If there are more steps than pixels, a bar is the mean of neighbouring steps.
function stackChart(content, chosen) {
  const names = Object.keys(content.columns).filter((name) => name !== "step");
  const numbers = content.columns.step || [];
  const canvas = el("canvas", { class: "stacked", tabindex: 0 });
  const note = el("div", { class: "note" }, " ");
  const place = el("div", { class: "chart" }, canvas, el("div", { class: "legend" }, names.map((name) => chip(name))), note);
  let each = 1;
  const draw = () => {
    const width = Math.max(place.clientWidth, 320) - EDGE, height = 160, ratio = window.devicePixelRatio || 1;
    canvas.width = (width + EDGE) * ratio; canvas.height = height * ratio;
    canvas.style.width = `${width + EDGE}px`; canvas.style.height = `${height}px`;
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
    const wide = Math.min(width / bars, 80);
    paint.font = "12px system-ui"; paint.textAlign = "right"; paint.textBaseline = "middle";
    for (const part of [0.5, 1]) {
      const y = height - part * (height - 8);
      paint.fillStyle = faint(); paint.fillRect(EDGE, y, width, 1);
      paint.fillStyle = ink(); paint.fillText(duration(most * part), EDGE - 8, Math.max(y, 8));
    }
    sums.forEach((parts, index) => {
      let y = height;
      parts.forEach((part, kind) => {
        const tall = (part / most) * (height - 8);
        paint.fillStyle = colour(names[kind]);
        paint.fillRect(EDGE + index * wide, y - tall, Math.max(wide - (wide > 4 ? 1 : 0), 0.7), tall);
        y -= tall;
      });
    });
  };
  const row = (event) => Math.min(numbers.length - 1, Math.floor((Math.max(event.offsetX - EDGE, 0) / (canvas.clientWidth - EDGE)) * Math.max(Math.ceil(numbers.length / each), (canvas.clientWidth - EDGE) / 80)) * each);
  canvas.addEventListener("mousemove", (event) => {
    if (row(event) >= 0) tell(row(event));
  });
  const tell = (at) => {
    const parts = names.map((name) => [name, content.columns[name][at]]).filter(([, time]) => time > 0);
    note.textContent = `${word("step")} ${numbers[at]}: ${parts.map(([name, time]) => `${word(name)} ${duration(time)}`).join(", ")}`;
  };
  canvas.addEventListener("click", (event) => { const at = row(event); if (at >= 0) chosen(numbers[at]); });
  let cursor = 0;
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && numbers.length) return chosen(numbers[cursor]);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return null;
    event.preventDefault();
    cursor = Math.min(Math.max(cursor + (event.key === "ArrowRight" ? each : -each), 0), numbers.length - 1);
    return tell(cursor);
  });
  return { place, draw };
}
