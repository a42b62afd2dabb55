// Open the timeline in Perfetto, as https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui describes. This
// is the only request to another host, and happens only when the user presses the button. If the page comes from a
// disk, it cannot read the file of the timeline, so it shows the name of the file instead.
const PERFETTO = "https://ui.perfetto.dev";
function perfettoButton(run) {
  if (!run.trace) return null;
  const served = location.protocol.startsWith("http");
  const dialog = el("dialog", { "aria-label": word("Open in Perfetto") });
  const say = (...content) => {
    dialog.replaceChildren(...content, el("p", {}, el("button", { type: "button", onclick: () => dialog.close() }, word("Close"))));
    if (!dialog.open) dialog.showModal();
  };
  const named = () => say(el("p", {}, word("Open this file at https://ui.perfetto.dev:")), el("p", {}, el("code", {}, `${run.summary.directory}${run.trace === run.summary.directory ? "" : `/${run.trace}`}`)),
    el("p", {}, "ms-profiler view ", el("code", {}, run.summary.directory)), el("p", { class: "note" }, word("The timeline goes to Perfetto's page in this browser and to no server.")));
  const open = async () => {
    // open the window before any await, because a browser opens windows only directly in the handler of a click
    const opened = window.open(PERFETTO);
    const answer = await fetch("timeline");
    if (!opened || !answer.ok) return named();
    const buffer = await answer.arrayBuffer();
    const asking = setInterval(() => opened.postMessage("PING", PERFETTO), 100);
    const heard = (event) => {
      if (event.origin !== PERFETTO || event.source !== opened || event.data !== "PONG") return;
      clearInterval(asking); window.removeEventListener("message", heard);
      opened.postMessage({ perfetto: { buffer, title: run.summary.directory, fileName: run.trace.split("/").pop() } }, PERFETTO, [buffer]);
    };
    window.addEventListener("message", heard);
    setTimeout(() => clearInterval(asking), 120000);
    return null;
  };
  return [el("button", { type: "button", class: "main", onclick: () => (served ? open() : named()) }, word("Open in Perfetto")), dialog];
}
