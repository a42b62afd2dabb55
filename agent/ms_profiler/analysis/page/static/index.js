// Show the list of results that `ms-profiler view` serves, each with its finding.
(async () => {
  const app = document.getElementById("app"), { index } = await held();
  document.body.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
  const titles = ["result", "rank", "started", "run", "steps", "median step", "finding"], named = ["result", "finding", "started"];
  app.replaceChildren(el("header", {}, el("strong", {}, "ms-profiler"), el("nav", {})), el("main", {}, section("results", "Results", el("div", { class: "card" },
    el("div", { class: "scroll tall" }, el("table", {}, el("thead", {}, el("tr", {}, titles.map((title) => el("th", { scope: "col", class: named.includes(title) ? "name" : "" }, word(title))))),
      el("tbody", {}, index.map((row) => el("tr", {},
        el("td", { class: "name", title: row.name }, el("a", { href: `${row.page}/` }, row.name.split("/").filter(Boolean).pop())),
        el("td", {}, row.ranks ? `${word("All ranks")} (${row.ranks})` : row.rank === null ? "" : `${row.rank} / ${row.world_size ?? 1}`),
        el("td", { class: "name" }, (row.started || "").slice(0, 19).replace("T", " ")), el("td", {}, row.duration_s === null || row.duration_s === undefined ? "" : `${row.duration_s.toFixed(2)} s`),
        el("td", {}, whole(row.steps)), el("td", {}, milliseconds(row.median_ms)), el("td", { class: "name", title: row.verdict }, row.verdict || "")))))))))); 
  app.dataset.ready = "true";
})();
