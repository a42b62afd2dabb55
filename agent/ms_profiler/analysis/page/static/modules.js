// Show the tree of modules with forward, backward and optimizer time: as a table, and as an icicle graph (blocks).
const KINDS = ["forward", "backward", "optimizer"];
function moduleTree(tree) {
  const onHost = tree.host ? ["host", "host_self"] : [];
  const rows = tree.rows, body = el("tbody"), closed = new Set();
  rows.forEach((row, at) => { if (row.depth === 2 && rows.length > 60) closed.add(at); });
  const inside = (at) => { let until = at + 1; while (until < rows.length && rows[until].depth > rows[at].depth) until++; return until; };
  const fill = () => {
    const shown = [];
    for (let at = 0; at < rows.length; at++) {
      const row = rows[at], until = inside(at), has = until > at + 1, shut = closed.has(at), own = at;
      const label = row.depth ? row.module.split(".").slice(-1)[0] : row.module;
      shown.push(el("tr", {},
        el("td", { class: "name", title: row.module, style: { paddingLeft: `${8 + row.depth * 16}px` } },
          has ? el("button", { type: "button", class: "fold", "aria-expanded": String(!shut), "aria-label": row.module, onclick: () => { if (shut) closed.delete(own); else closed.add(own); fill(); } }, shut ? "▸" : "▾") : el("span", { class: "fold" }), label),
        el("td", {}, percent(row.share)),
        el("td", { class: "split" }, el("div", { class: "bar", style: { width: `${Math.max(row.share * 100, 0)}%` } },
          KINDS.map((kind) => el("span", { style: { background: colour(kind), flexGrow: row[`${kind}_ms`] } })))),
        el("td", {}, milliseconds(row.total_ms)), el("td", {}, milliseconds(row.self_ms)),
        KINDS.map((kind) => el("td", {}, row[`${kind}_ms`] ? milliseconds(row[`${kind}_ms`]) : "")),
        onHost.map((name) => el("td", {}, row[`${name}_ms`] ? milliseconds(row[`${name}_ms`]) : "")),
        el("td", {}, whole(row.calls))));
      if (shut) at = until - 1;
    }
    body.replaceChildren(...shown);
  };
  fill();
  const heads = ["module", "share", "", "total", "self", ...KINDS, ...onHost.map((name) => name.replace("_", " ")), "calls"];
  return el("div", { class: "scroll" }, el("table", { class: "tree" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: head === "module" ? "name" : "" }, head ? word(head) : "")))), body));
}

function icicle(tree) {
  const lasts = [], nodes = tree.rows.map((row, at) => {
    lasts[row.depth] = at;
    const most = KINDS.reduce((best, kind) => (row[`${kind}_ms`] > row[`${best}_ms`] ? kind : best), "forward");
    return { label: row.depth ? row.module.split(".").slice(-1)[0] : row.module, parent: row.depth ? lasts[row.depth - 1] ?? -1 : -1, total: row.total_ms, colour: colour(most),
      text: `${row.module}: ${percent(row.share)}, ${milliseconds(row.total_ms)} (${KINDS.map((kind) => `${word(kind)} ${milliseconds(row[`${kind}_ms`])}`).join(", ")})` };
  });
  return blocks(nodes);
}
