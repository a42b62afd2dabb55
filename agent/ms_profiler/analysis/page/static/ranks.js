// Compare the ranks of a job: the own work of each rank, and its wait for other ranks at exchanges of data.
function rankViews(ranks, shown, choose, drawn) {
  if (!ranks) return null;
  const rows = ranks.rows, longest = rows.reduce((most, row) => Math.max(most, row.step_ns || 0), 1);
  const state = (row) => el("span", { class: `state ${row.state === "late" ? "slow" : ""}` }, row.state && row.state !== "even" ? word(row.state) : "");
  const table = el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {},
    ["rank", "host", "state", "", rows.some((row) => row.device) ? "step on the device" : "median step", "own work", "communication", "waits, in all", "finding"].map((title) => el("th", { scope: "col", class: ["rank", "host", "state", "finding"].includes(title) ? "name" : "" }, title ? word(title) : "")))),
  el("tbody", {}, rows.map((row) => el("tr", { "data-rank": row.rank, "data-state": row.state || "" },
    el("td", { class: "name" }, shown.includes(row.rank) ? el("button", { type: "button", onclick: () => choose(row.rank) }, String(row.rank)) : String(row.rank)),
    el("td", { class: "name" }, row.host), el("td", { class: "name" }, state(row)),
    el("td", { class: "split" }, el("div", { class: "bar", style: { width: `${(row.step_ns / longest) * 100}%` }, role: "img", "aria-label": `${word("own work")} ${duration(row.own_ns)}, ${word("communication")} ${duration(row.communication_ns)}` },
      el("span", { style: { background: colour("computing"), flexGrow: row.own_ns } }), el("span", { style: { background: colour("communication"), flexGrow: row.communication_ns } }))),
    el("td", {}, duration(row.step_ns)), el("td", {}, duration(row.own_ns)), el("td", {}, duration(row.communication_ns)), el("td", {}, duration(row.wait_ns)),
    el("td", { class: "name", title: row.verdict }, row.verdict))))));
  const curves = rows.slice(0, 16).map((row) => ({ name: `${word("rank")} ${row.rank}`, x: row.by_step.step, value: row.by_step.own }));
  const chart = curves.some((curve) => curve.x.length > 1) ? lineChart(curves, duration, word("step")) : null;
  if (chart) drawn.push(chart);
  return section("ranks", "Ranks", figure("What a step of each rank is spent on", "A rank that waits does so for the late one, at exchanges.",
    ranks.verdict ? el("p", { class: "told" }, ranks.verdict) : null, ranks.late.map((late) => el("p", { class: "note" }, `${word("rank")} ${late.rank}: ${late.why}${late.step === null ? "" : `, ${word("step")} ${late.step}`}`)), table, el("div", { class: "legend" }, el("span", { class: "chip" }, el("i", { style: { background: colour("computing") } }), word("own work")), chip("communication"))),
  chart ? figure("Own work of each step, by rank", null, chart.place) : null);
}
