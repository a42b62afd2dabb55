// Make the first view (verdict, advice, bounds of a step, phases), and the last view (data that was not collected).
const shares = (content) => Object.entries(content || {}).sort((a, b) => b[1] - a[1]);

function overview(run) {
  const told = run.summary, steps = told.steps, usual = told.sampling ? steps : steps.steady, framework = ["name", "version", "mode", "device"].map((key) => told.framework[key]).filter(Boolean).join(" ");
  const counted = steps.source !== "whole_run", took = (value) => counted ? milliseconds(value) : null;
  const facts = [[framework, "framework"], [told.world_size > 1 ? `${told.rank} / ${told.world_size}` : null, "rank"], [told.host, "host"],
    [`${told.run.duration_s.toFixed(2)} s`, "run"], [counted ? whole(steps.count) : null, "steps"], [took(usual.median_ms), "median"],
    [took(usual.p95_ms), "p95"], [took(steps.first_ms), "first step"]];
  const phases = Object.entries(told.phases).map(([name, phase]) => [name, phase.steady_share, milliseconds(phase.steady_per_step_ms)]).sort((a, b) => b[1] - a[1]);
  const first = (told.whole_run || [])[0];
  const advice = told.advice.length
    ? el("ol", { class: "advice" }, told.advice.map((item) => el("li", {}, el("b", {}, item.evidence), el("div", {}, item.action))))
    : el("p", { class: "note" }, word("Nothing stands out that could be done better."));
  return section("overview", "Overview",
    el("div", { class: "card" }, el("p", { class: "verdict" }, told.verdict),
      el("div", { class: "facts" }, facts.filter(([value]) => value).map(([value, name]) => el("div", {}, el("b", {}, value), el("span", {}, word(name)))))),
    figure("Advice", null, advice),
    el("div", { class: "pair" },
      told.bounds ? figure("What bounds a step", null, bar(shares(told.bounds.shares))) : null,
      phases.length ? figure("Phases of a steady step", null, bar(phases)) : null),
    first ? figure("Whole run", null, bar(first.parts.map((part) => [part.part, part.share, duration(part.total_ns)]))) : null);
}

function missing(run) {
  const told = run.summary;
  return section("missing", "Missing", el("div", { class: "pair" },
    figure("What is missing", null, told.not_collected.length
      ? el("ul", {}, told.not_collected.map((item) => el("li", {}, el("b", {}, item.what), `: ${item.why}`)))
      : el("p", { class: "note" }, word("All requested data was collected."))),
    figure("How it ended", null, el("ul", {}, told.run.processes.map((process) => el("li", {}, `${process.name || process.role} ${process.pid}: ${process.state}`))),
      told.cost.share_of_run === null ? null : el("p", { class: "note" }, `${word("Cost of profiling")}: ${percent(told.cost.share_of_run)}, ${milliseconds(told.cost.estimated_ms)}`))));
}
