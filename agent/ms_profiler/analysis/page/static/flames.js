// Draw a tree as blocks, for the flame graph and for the icicle of modules. A block is as wide as its share of the
// total, and lies below its parent. nodes: a list of { label, parent, total, colour, text }, with parents first.
function blocks(nodes, options = {}) {
  const ROWS = 20, SHOWN = 4000, place = el("div", { class: "blocks" });
  const children = nodes.map(() => []), roots = [];
  nodes.forEach((node, at) => (node.parent < 0 ? roots : children[node.parent]).push(at));
  let zoomed = null, found = null;
  const draw = () => {
    const made = [];
    let deepest = 0;
    const put = (at, left, width, depth) => {
      if (width < 0.0008 || made.length >= SHOWN) return;
      deepest = Math.max(deepest, depth);
      const node = nodes[at];
      made.push(el("button", {
        type: "button", class: `${found && !found[at] ? "dim" : ""} ${node.light ? "light" : ""}`.trim(), title: node.text, "aria-label": node.text,
        style: { left: `${left * 100}%`, width: `calc(${width * 100}% - 1px)`, top: `${depth * ROWS}px`, background: node.colour },
        "data-at": at, onclick: () => { zoomed = at; draw(); const own = place.querySelector(`[data-at="${at}"]`); if (own) own.focus(); }, onmouseenter: () => options.tell && options.tell(node.text),
      }, width > 0.015 ? node.label : ""));
      let x = left;
      for (const child of children[at]) {
        const part = node.total ? (width * nodes[child].total) / node.total : 0;
        put(child, x, part, depth + 1);
        x += part;
      }
    };
    const above = [];
    for (let at = zoomed; at !== null && at >= 0; at = nodes[at].parent) above.unshift(at);
    const whole = roots.reduce((sum, at) => sum + nodes[at].total, 0) || 1;
    if (zoomed === null) { let x = 0; for (const at of roots) { put(at, x, nodes[at].total / whole, 0); x += nodes[at].total / whole; } }
    else above.forEach((at, depth) => { if (depth < above.length - 1) { const saved = children[at]; children[at] = []; put(at, 0, 1, depth); children[at] = saved; } else put(at, 0, 1, depth); });
    place.replaceChildren(...made);
    place.style.height = `${(deepest + 1) * ROWS}px`;
    place.dataset.shapes = made.length;
  };
  place.addEventListener("keydown", (event) => { if (event.key === "Escape") { zoomed = null; draw(); } });
  draw();
  return { place, all: () => { zoomed = null; draw(); }, find: (text) => { found = text ? nodes.map((node) => node.text.toLowerCase().includes(text)) : null; draw(); } };
}

// Make the view with the flame graph: the Python functions of the sampled stacks.
function flameViews(flames) {
  if (!flames) return null;
  const names = Object.keys(flames.samples), holder = el("div"), note = el("p", { class: "note", "aria-live": "polite" }, " ");
  let graph = null;
  const build = (phase) => {
    const own = flames.labels.map((_, at) => (phase ? flames.samples[phase][at] : names.reduce((sum, name) => sum + flames.samples[name][at], 0)));
    const total = [...own];
    for (let at = own.length - 1; at >= 0; at--) if (flames.caller[at] >= 0) total[flames.caller[at]] += total[at];
    const whole = total.reduce((sum, count, at) => sum + (flames.caller[at] < 0 ? count : 0), 0) || 1;
    const nodes = flames.labels.map((label, at) => ({
      label, parent: flames.caller[at], total: total[at], colour: flames.caller[at] < 0 ? colour("host") : flameColour(label), light: flames.caller[at] >= 0,
      text: `${label}: ${percent(total[at] / whole)}, ${whole === total[at] ? "" : `${total[at]} ${word("of")} `}${whole} ${word("samples")}, ${duration(total[at] * flames.period_ns)}`,
    }));
    graph = blocks(nodes, { tell: (text) => { note.textContent = text; } });
    holder.replaceChildren(graph.place);
  };
  build("");
  const search = el("input", { type: "search", placeholder: word("Search"), "aria-label": word("Search"), oninput: (event) => graph.find(event.target.value.toLowerCase()) });
  const choose = selector("phase", [["", `${word("phase")}: ${word("all")}`], ...names.map((name) => [name, word(name)])], build);
  return section("stacks", "Stacks", figure("Python stacks that were sampled", "A click on a part shows it alone; Escape shows all.",
    el("div", { class: "tools" }, search, choose, el("button", { type: "button", onclick: () => graph.all() }, word("Everything"))), holder, note));
}
// Return a light blue for a name. The shade has no meaning: different names get different shades to tell blocks apart.
function flameColour(label) {
  let sum = 0;
  for (let place = 0; place < label.length; place++) sum = (sum * 31 + label.charCodeAt(place)) >>> 0;
  return ["#a8d5f2", "#8ec7ec", "#c3e2f6", "#9bcef0", "#b5dbf4"][sum % 5];
}
