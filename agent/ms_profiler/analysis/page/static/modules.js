// The tree of modules: forward, backward, optimizer; and the same as an icicle.
const KINDS = ["forward", "backward", "optimizer"];
function moduleTree(tree) {
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
        el("td", {}, whole(row.calls))));
      if (shut) at = until - 1;
    }
    body.replaceChildren(...shown);
  };
  fill();
  const heads = ["module", "share", "", "total", "self", ...KINDS, "calls"];
  return el("div", { class: "scroll" }, el("table", { class: "tree" }, el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col", class: head === "module" ? "name" : "" }, head ? word(head) : "")))), body));
}

function icicle(tree) {
  const rows = tree.rows, place = el("div", { class: "icicle" }), whole = tree.whole_ms || 1, height = 22;
  const deepest = rows.reduce((most, row) => Math.max(most, row.depth), 0);
  place.style.height = `${(deepest + 1) * height}px`;
  const lefts = [];
  let left = 0;
  for (const row of rows) {
    const at = row.depth === 0 ? left : lefts[row.depth] ?? lefts[row.depth - 1] ?? 0;
    const width = row.total_ms / whole;
    lefts.length = row.depth + 1;
    lefts[row.depth] = at + width;
    lefts[row.depth + 1] = at;
    if (row.depth === 0) left = at + width;
    if (width < 0.001) continue;
    const most = KINDS.reduce((best, kind) => (row[`${kind}_ms`] > row[`${best}_ms`] ? kind : best), "forward");
    place.append(el("div", {
      title: `${row.module}\n${percent(row.share)}, ${milliseconds(row.total_ms)}`,
      style: { left: `${at * 100}%`, width: `${width * 100}%`, top: `${row.depth * height}px`, background: colour(most) },
    }, row.depth ? row.module.split(".").slice(-1)[0] : row.module));
  }
  return place;
}
