// Build the page: the finding first, then the views that show where the time went, then the timeline of single events.
(async () => {
  const app = document.getElementById("app");
  const { runs: found, differences, ranks } = await held();
  const lines = [], drawn = [];
  for (const run of found) lines.push(run.timeline.count ? await timeline(run.timeline) : null);
  let dark = matchMedia("(prefers-color-scheme: dark)").matches, shown = differences ? found.length - 1 : 0;

  async function build() {
    drawn.length = 0;
    const run = found[shown], line = lines[shown] && new Timeline(lines[shown], table(run.steps), run.curves.curves);
    const show = (step) => { if (line) { line.show(step.start_ns, step.start_ns + step.duration_ns); document.getElementById("timeline").scrollIntoView(); } };
    const choose = (rank) => { shown = found.findIndex((item) => item.summary.rank === rank); build().then(() => document.getElementById("overview").scrollIntoView()); };
    const makers = [
      () => overview(run),
      () => (differences ? compared(differences) : null),
      () => rankViews(ranks, found.map((item) => item.summary.rank), choose, drawn),
      () => stepViews(run, show, drawn),
      () => moduleViews(run), () => operatorViews(run), () => kernelViews(run),
      () => section("timeline", "Timeline", el("div", { class: "card" }, el("div", { class: "tools" }, perfettoButton(run)), line ? line.place : el("p", { class: "note" }, word("No events were recorded.")))),
      () => flameViews(run.flames), () => communicationViews(run, show, drawn), () => memoryViews(run, drawn), () => missing(run),
    ];
    const parts = [];
    // make one view at a time, and pause after each, so that the browser stays responsive
    for (const make of makers) { const part = make(); if (part) parts.push(part); await pause(); }
    const run_of = found.length > 1 ? el("select", { "aria-label": word(ranks ? "rank" : "run"), onchange: (event) => { shown = Number(event.target.value); build(); } },
      found.map((item, at) => el("option", { value: at, selected: at === shown }, ranks ? `${word("rank")} ${item.summary.rank}` : item.summary.directory))) : null;
    document.documentElement.lang = language === "zh" ? "zh-Hans" : "en";
    document.body.classList.toggle("dark", dark);
    const links = parts.map((part) => el("a", { href: `#${part.id}` }, part.querySelector("h2").textContent));
    app.replaceChildren(
      el("header", {}, el("strong", {}, "ms-profiler"), run_of || el("span", { class: "where", title: run.summary.directory }, run.summary.directory),
        el("nav", { "aria-label": "sections" }, links),
        el("button", { type: "button", id: "language", onclick: () => { language = language === "zh" ? "en" : "zh"; build(); } }, language === "zh" ? "English" : "中文"),
        el("button", { type: "button", id: "dark", onclick: () => { dark = !dark; build(); } }, word(dark ? "Light" : "Dark")),
        el("button", { type: "button", onclick: () => print() }, word("Print"))),
      el("main", {}, parts));
    app.removeAttribute("aria-busy");
    const draw = async () => { for (const chart of [...drawn]) { chart.draw(); await pause(); } if (line) line.draw(); };
    await draw();
    window.onresize = () => { clearTimeout(build.waiting); build.waiting = setTimeout(draw, 150); };
    // redraw for print, because paper is narrower than the window
    window.onbeforeprint = () => { for (const chart of drawn) chart.draw(); if (line) line.draw(); };
    const current = new IntersectionObserver((entries) => entries.forEach((entry) => {
      if (entry.isIntersecting) links.forEach((link) => { if (link.hash === `#${entry.target.id}`) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current"); });
    }), { rootMargin: "-15% 0px -80% 0px" });
    parts.forEach((part) => current.observe(part));
    app.dataset.language = language; app.dataset.run = shown; app.dataset.ready = "true";
  }
  await build();
})().catch((error) => { document.getElementById("app").textContent = `The page could not be drawn: ${error}`; });
