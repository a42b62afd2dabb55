// Make the views of steps, modules, operators, kernels, communication and memory.
function stepViews(run, show, drawn) {
  const steps = table(run.steps);
  if (!steps.length) return section("steps", "Steps", el("p", { class: "note" }, word("No steps were recorded.")));
  const charts = [["Step time", stepChart(steps, show), "A click on a step shows it in the timeline; slow ones are orange."]];
  const byNumber = (number) => { const step = steps.find((item) => item.number === number); if (step) show(step); };
  for (const [title, content] of [["Phases of each step", run.phases], ["What bounds each step", run.bounds]]) {
    if (content.count) charts.push([title, stackChart(content, byNumber), null]);
  }
  drawn.push(...charts.map(([, chart]) => chart));
  const note = run.steps.count > steps.length ? el("p", { class: "note" }, `${steps.length} ${word("of")} ${run.steps.count} ${word("steps")}`) : null;
  const slow = [...steps].sort((a, b) => b.duration_ns - a.duration_ns).slice(0, 8);
  const buttons = el("div", { class: "legend" }, `${word("slowest")}: `, slow.map((step) => el("button", { type: "button", onclick: () => show(step) }, `${step.number}: ${duration(step.duration_ns)}`)));
  return section("steps", "Steps", note, charts.map(([title, chart, text], at) => figure(title, text, chart.place, at ? null : buttons)));
}

function moduleViews(run) {
  const tree = run.summary.module_tree;
  if (!tree || !tree.rows.length) return section("modules", "Modules", el("p", { class: "note" }, word("No modules were recorded.")));
  const slow = tree.slow_step, graph = icicle(tree);
  return section("modules", "Modules",
    figure("Modules by time", "A click on a part shows it alone; Escape shows all.", graph.place, el("div", { class: "legend" }, KINDS.map((kind) => chip(kind)), el("button", { type: "button", onclick: () => graph.all() }, word("Everything")))),
    el("div", { class: "card" }, moduleTree(tree),
      tree.count > tree.rows.length ? el("p", { class: "note" }, `${tree.rows.length} ${word("of")} ${tree.count} ${word("rows")}`) : null,
      slow ? el("p", { class: "note" }, `${word("slowest")}: ${word("step")} ${slow.step}, +${milliseconds(slow.longer_ms)}${slow.module ? `, ${slow.module} +${milliseconds(slow.module_longer_ms)}` : ""}`) : null));
}

const NAME = { key: "name", title: "name", text: true };
const TIMES = [{ key: "count", title: "count", show: whole, sum: true }, { key: "total", title: "total", show: duration, bar: true, sum: true }];
const AVERAGES = [{ key: "average", title: "average", show: duration }, { key: "max", title: "longest", show: duration }];
const averaged = (rows) => rows.map((row) => ({ ...row, average: row.count ? row.total / row.count : null }));
const known = (rows, columns) => columns.filter((column) => !["module", "phase", "part", "stream", "type"].includes(column.key) || rows.some((row) => row[column.key] !== null && row[column.key] !== undefined));

// If only some steps of the run were sampled, the tables cover only these steps. Return a note that says so.
const sampled = (run) => run.summary.sampling
  ? el("p", { class: "note" }, `${word("Recorded steps")}: ${whole(run.summary.sampling.sampled)} ${word("of")} ${whole(run.summary.sampling.steps)}. ${word("The table counts these; the summary has estimates for all steps.")}`) : null;

function operatorViews(run) {
  const rows = averaged(table(run.operators));
  if (!rows.length) return section("operators", "Operators", el("p", { class: "note" }, word("No operators were recorded.")));
  const columns = [NAME, { key: "module", title: "module", text: true }, { key: "phase", title: "phase", text: true }, ...TIMES, { key: "self", title: "self", show: duration, bar: true, sum: true }, ...AVERAGES];
  return section("operators", "Operators", el("div", { class: "card" }, sampled(run), grid(rows, known(rows, columns), { order: "self", filters: ["module", "phase"], count: run.operators.count })));
}

function kernelViews(run) {
  const rows = averaged(table(run.kernels));
  if (!rows.length) return section("kernels", "Kernels", el("p", { class: "note" }, word("No kernels were recorded.")));
  // if a device reports no types of kernels, each kernel has its name as its type: leave out these types
  if (rows.every((row) => row.type === row.name)) rows.forEach((row) => { row.type = null; });
  const columns = [NAME, ...["type", "module", "part", "stream"].map((key) => ({ key, title: key, text: true })), ...TIMES, ...AVERAGES];
  return section("kernels", "Kernels", el("div", { class: "card" }, sampled(run), grid(rows, known(rows, columns), { order: "total", filters: ["module", "part", "stream", "type"], count: run.kernels.count })));
}

function communicationViews(run, show, drawn) {
  const rows = table(run.communication), parts = run.parts.columns, sum = (name) => (parts[name] || []).reduce((total, part) => total + part, 0);
  const exchanged = sum("communication") + sum("overlapped"), total = Object.keys(parts).filter((name) => name !== "step").reduce((all, name) => all + sum(name), 0);
  if (!rows.length && !exchanged) return section("communication", "Communication", el("p", { class: "note" }, word("No communication was recorded.")));
  const steps = table(run.steps), byNumber = (number) => { const step = steps.find((item) => item.number === number); if (step) show(step); };
  const chart = stackChart(run.parts, byNumber);
  drawn.push(chart);
  return section("communication", "Communication",
    figure("Computing and communication", exchanged ? null : "", bar(Object.keys(parts).filter((name) => name !== "step").map((name) => [name, sum(name) / total, duration(sum(name))])),
      exchanged ? el("p", { class: "told" }, `${percent(sum("overlapped") / exchanged)} ${word("of the communication is beside computing")}`) : null),
    figure("Computing and communication of each step", null, chart.place),
    rows.length ? figure("Exchanges", null, grid(rows, [NAME, { key: "ranks", title: "ranks", text: true }, ...TIMES, { key: "max", title: "longest", show: duration }, { key: "bytes", title: "bytes", show: bytes }], { order: "total", count: run.communication.count })) : null);
}

function memoryViews(run, drawn) {
  const own = run.memory, process = run.curves.curves.filter((curve) => /memory|held|bytes/i.test(curve.name)), charts = [];
  if (own.time.length) charts.push([own.component, lineChart([{ name: "allocated", x: own.time.map((time) => time / 1e9), value: own.value }, { name: "reserved", x: own.time.map((time) => time / 1e9), value: own.reserved }], bytes, word("time"), (s) => `${s.toFixed(3)} s`)]);
  if (process.length) charts.push([null, lineChart(process.slice(0, 8).map((curve) => ({ name: curve.process ? `${curve.name} (${curve.process})` : curve.name, x: curve.time.map((time) => time / 1e9), value: curve.value })), bytes, word("time"), (s) => `${s.toFixed(3)} s`)]);
  if (!charts.length) return section("memory", "Memory", el("p", { class: "note" }, word("No memory was recorded.")));
  drawn.push(...charts.map(([, chart]) => chart));
  const peak = own.peak, sized = (title) => [{ key: "name", title, text: true }, { key: "bytes", title: "bytes", show: bytes, bar: true }];
  const growth = peak ? peak.growth.map((row) => ({ name: row.phase === null ? word("when the step began") : word(row.phase), bytes: row.bytes })) : [];
  return section("memory", "Memory", charts.map(([name, chart]) => figure("Memory over time", name, chart.place)),
    peak ? el("div", { class: "pair" },
      figure("The peak", null, el("p", { class: "told" }, `${bytes(peak.bytes)}, ${(peak.time / 1e9).toFixed(3)} s${peak.step === null ? "" : `, ${word("step")} ${peak.step}`}`),
        growth.length ? [el("h3", {}, word("Changes by phase of the step")), grid(growth, sized("phase"))] : null),
      peak.owners.length ? figure("Allocations held at the peak, by operator", null, grid(peak.owners, [...sized("name"), { key: "count", title: "count", show: whole }]))
        : figure("Parameters, by module", peak.why, peak.parameters.length ? grid(peak.parameters.map((row) => ({ name: row.module, bytes: row.bytes })), sized("module")) : null)) : null);
}
