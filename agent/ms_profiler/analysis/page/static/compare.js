// Show the differences of two runs, the largest change first.
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
