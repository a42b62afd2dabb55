// The page: the finding first, then where the time went, then single events.
(async () => {
  const app = document.getElementById("app");
  const { runs: found, differences } = await held();
  const lines = [];
  for (const run of found) lines.push(run.timeline.count ? await timeline(run.timeline) : null);
  const drawn = [];
  let dark = matchMedia("(prefers-color-scheme: dark)").matches;

  function overview(run) {
    const told = run.summary, steps = told.steps, framework = ["name", "version", "mode", "device"].map((key) => told.framework[key]).filter(Boolean).join(" ");
    const facts = [[framework, ""], [`${told.rank ?? 0} / ${told.world_size ?? 1}`, "rank"], [told.host, "host"],
      [`${told.run.duration_s.toFixed(2)} s`, "run"], [whole(steps.count), "steps"], [milliseconds(steps.steady.median_ms), "median"],
      [milliseconds(steps.steady.p95_ms), "p95"], [milliseconds(steps.first_ms), "first step"]];
    const shares = (content) => Object.entries(content || {}).sort((a, b) => b[1] - a[1]);
    const bounds = told.bounds ? bar(shares(told.bounds.shares)) : null;
    const phases = bar(Object.entries(told.phases).map(([name, phase]) => [name, phase.steady_share, milliseconds(phase.steady_per_step_ms)]).sort((a, b) => b[1] - a[1]));
    const first = (told.whole_run || [])[0];
    return section("overview", "Overview",
      el("p", { class: "verdict" }, told.verdict),
      el("div", { class: "facts" }, facts.filter(([value]) => value).map(([value, name]) => el("div", {}, el("b", {}, value), el("span", {}, word(name))))),
      el("h3", {}, word("Advice")),
      told.advice.length ? el("ol", { class: "advice" }, told.advice.map((item) => el("li", {}, el("b", {}, item.evidence), el("div", {}, item.action)))) : el("p", { class: "note" }, word("Nothing stands out that could be done better.")),
      bounds ? [el("h3", {}, word("What bounds a step")), bounds] : null,
      el("h3", {}, word("Phases of a steady step")), phases,
      first ? [el("h3", {}, word("Whole run")), bar(first.parts.map((part) => [part.part, part.share, duration(part.total_ns)]))] : null);
  }

  function stepViews(run, show) {
    const steps = table(run.steps);
    if (!steps.length) return null;
    const charts = [["Step time", stepChart(steps, show)]];
    const byNumber = (number) => { const step = steps.find((item) => item.number === number); if (step) show(step); };
    for (const [title, content] of [["Phases of each step", run.phases], ["What bounds each step", run.bounds]]) {
      if (content.count) charts.push([title, stackChart(content, byNumber)]);
    }
    drawn.push(...charts.map(([, chart]) => chart));
    const note = run.steps.count > steps.length ? el("p", { class: "note" }, `${steps.length} ${word("of")} ${run.steps.count} ${word("steps")}`) : null;
    const slow = [...steps].sort((a, b) => b.duration_ns - a.duration_ns).slice(0, 8);
    return section("steps", "Steps", note, charts.map(([title, chart]) => [el("h3", {}, word(title)), chart.place]),
      el("div", { class: "legend" }, `${word("slowest")}: `, slow.map((step) => el("button", { type: "button", onclick: () => show(step) }, `${step.number}: ${duration(step.duration_ns)}`))));
  }

  function moduleViews(run) {
    const tree = run.summary.module_tree;
    if (!tree || !tree.rows.length) return section("modules", "Modules", el("p", { class: "note" }, word("No modules were recorded.")));
    const slow = tree.slow_step;
    return section("modules", "Modules",
      el("div", { class: "legend" }, KINDS.map((kind) => chip(word(kind)))), icicle(tree), moduleTree(tree),
      tree.count > tree.rows.length ? el("p", { class: "note" }, `${tree.rows.length} ${word("of")} ${tree.count} ${word("rows")}`) : null,
      slow ? el("p", {}, `${word("slowest")}: ${word("step")} ${slow.step}, +${milliseconds(slow.longer_ms)}${slow.module ? `, ${slow.module} +${milliseconds(slow.module_longer_ms)}` : ""}`) : null);
  }

  const name = { key: "name", title: "name", text: true };
  const times = [{ key: "count", title: "count", show: whole }, { key: "total", title: "total", show: duration, bar: true }];
  function operatorViews(run) {
    const rows = table(run.operators).map((row) => ({ ...row, average: row.count ? row.total / row.count : null }));
    if (!rows.length) return null;
    return section("operators", "Operators", grid(rows, [name, ...times, { key: "self", title: "self", show: duration, bar: true },
      { key: "average", title: "average", show: duration }, { key: "max", title: "longest", show: duration }], { order: "self" }));
  }
  function kernelViews(run) {
    const rows = table(run.kernels).map((row) => ({ ...row, average: row.count ? row.total / row.count : null }));
    if (!rows.length) return null;
    return section("kernels", "Kernels", grid(rows, [name, { key: "type", title: "type", text: true }, { key: "module", title: "module", text: true },
      { key: "part", title: "part", text: true }, ...times, { key: "average", title: "average", show: duration }, { key: "max", title: "longest", show: duration }],
    { order: "total", filters: ["part", "module", "type"] }));
  }
  function communicationViews(run) {
    const rows = table(run.communication);
    if (!rows.length) return null;
    return section("communication", "Communication", grid(rows, [name, { key: "ranks", title: "ranks", text: true }, ...times,
      { key: "max", title: "longest", show: duration }, { key: "bytes", title: "bytes", show: bytes }], { order: "total" }));
  }
  function memoryViews(run) {
    const held = run.memory.time.length ? [{ name: "allocated", time: run.memory.time, value: run.memory.value }, { name: "reserved", time: run.memory.time, value: run.memory.reserved }] : [];
    const process = run.counters.curves.filter((curve) => /memory|held/i.test(curve.name));
    const charts = [];
    if (held.length) charts.push(curveChart(held, bytes));
    if (process.length) charts.push(curveChart(process.map((curve) => ({ ...curve, name: `${curve.name} (${curve.process})` })), bytes));
    drawn.push(...charts);
    const others = run.counters.curves.filter((curve) => !process.includes(curve)).slice(0, 12).map((curve) => curveChart([curve], (value) => value.toLocaleString("en-US"), 110));
    drawn.push(...others);
    if (!charts.length && !others.length) return section("memory", "Memory", el("p", { class: "note" }, word("No memory was recorded.")));
    return section("memory", "Memory", charts.map((chart) => chart.place), others.map((chart) => chart.place));
  }
  function missing(run) {
    const told = run.summary;
    return section("missing", "Missing",
      told.not_collected.length ? el("ul", {}, told.not_collected.map((item) => el("li", {}, el("b", {}, item.what), `: ${item.why}`))) : el("p", { class: "note" }, word("Everything that was asked for was collected.")),
      el("h3", {}, word("How it ended")), el("ul", {}, told.run.processes.map((process) => el("li", {}, `${process.name || process.role} ${process.pid}: ${process.state}`))),
      told.cost.share_of_run === null ? null : [el("h3", {}, word("Cost of profiling")), el("p", {}, `${percent(told.cost.share_of_run)}, ${milliseconds(told.cost.estimated_ms)}`)]);
  }

  const signed = (ns) => `${ns > 0 ? "+" : ""}${duration(ns)}`;
  function compared(told) {
    const why = told.causes, amounts = (show) => [{ key: "before", title: "before", show }, { key: "after", title: "after", show }];
    const rows = [...told.phases.map((row) => ({ kind: "phase", ...row })), ...told.bounds.map((row) => ({ kind: "bound", ...row }))];
    const operators = told.kernels.length ? told.kernels : told.operators;
    const text = (value, row) => (value === null || value === undefined ? "" : row.unit === "ns" ? duration(value) : row.unit === "bytes" ? bytes(value) : value.toLocaleString("en-US"));
    return section("compare", "Compare",
      el("p", { class: "note" }, `${told.before.source} → ${told.after.source}, ${word("largest change first")}`),
      el("p", { class: "verdict" }, `${word("median")}: ${duration(why.before_ns)} → ${duration(why.after_ns)}, ${signed(why.change_ns)}`),
      grid(why.contributors, [{ key: "name", title: "name", text: true }, ...amounts(duration), { key: "change_ns", title: "change", show: signed },
        { key: "share", title: "share", show: percent }, { key: "evidence", title: "evidence", text: true }]),
      el("h3", {}, word("Phases of a steady step")),
      grid(rows, [{ key: "kind", title: "type", text: true }, { key: "name", title: "name", text: true }, ...amounts(duration), { key: "difference", title: "change", show: signed }], { filters: ["kind"] }),
      el("h3", {}, word(told.kernels.length ? "Kernels" : "Operators")),
      grid(operators.map((row) => ({ ...row, change: (row.after_ns ?? 0) - (row.before_ns ?? 0) })), [{ key: "name", title: "name", text: true },
        ...Object.keys(operators[0] || {}).filter((key) => key.endsWith("_ns")).map((key) => ({ key, title: key.replace("_ns", ""), show: duration }))]),
      el("h3", {}, word("count")),
      grid([...told.counts, ...told.memory], [{ key: "name", title: "name", text: true }, ...amounts(text), { key: "difference", title: "change", show: text }]),
      told.differences.length ? el("ul", {}, told.differences.map((item) => el("li", {}, `${item.name}: ${item.before} → ${item.after}`))) : null,
      told.notes.map((note) => el("p", { class: "note" }, note)));
  }

  let shown = found.length - 1;
  function build() {
    drawn.length = 0;
    const run = found[shown], line = lines[shown] && new Timeline(lines[shown], table(run.steps));
    const show = (step) => { if (line) { line.show(step.start_ns, step.start_ns + step.duration_ns); document.getElementById("timeline").scrollIntoView({ behavior: "smooth" }); } };
    const parts = [overview(run), differences ? compared(differences) : null, stepViews(run, show), moduleViews(run), operatorViews(run), kernelViews(run),
      section("timeline", "Timeline", line ? line.place : el("p", { class: "note" }, word("No events were recorded."))),
      communicationViews(run), memoryViews(run), missing(run)].filter(Boolean);
    const choose = found.length > 1 ? el("select", { "aria-label": word("run"), onchange: (event) => { shown = Number(event.target.value); build(); } },
      found.map((item, at) => el("option", { value: at, selected: at === shown }, item.summary.directory))) : null;
    document.documentElement.lang = language;
    document.body.classList.toggle("dark", dark);
    app.replaceChildren(
      el("header", {}, el("strong", {}, "ms-profiler"), el("span", { class: "where" }, run.summary.directory), choose,
        el("nav", { "aria-label": "sections" }, parts.map((part) => el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent))),
        el("button", { type: "button", onclick: () => { language = language === "zh" ? "en" : "zh"; build(); } }, language === "zh" ? "English" : "中文"),
        el("button", { type: "button", onclick: () => { dark = !dark; build(); } }, word(dark ? "Light" : "Dark")),
        el("button", { type: "button", onclick: () => print() }, word("Print"))),
      el("main", {}, parts));
    app.removeAttribute("aria-busy");
    const draw = () => { for (const chart of drawn) chart.draw(); if (line) line.draw(); };
    draw();
    window.onresize = () => { clearTimeout(build.waiting); build.waiting = setTimeout(draw, 150); };
    app.dataset.ready = "true";
  }
  build();
})().catch((error) => { document.getElementById("app").textContent = `The page could not be drawn: ${error}`; });
