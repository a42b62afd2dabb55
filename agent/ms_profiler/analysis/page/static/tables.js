// Return a table. A click on a heading sorts it, a word in the search field filters it. It shows `most` rows at first.
// A button shows more rows.
const SHOWN = 60;
function grid(rows, columns, options = {}) {
  let order = options.order || null, down = true, text = "", filters = {}, most = options.most || SHOWN;
  const body = el("tbody"), foot = el("tfoot"), summed = columns.some((column) => column.sum), count = el("span", { class: "note" });
  const largest = Object.fromEntries(columns.filter((column) => column.bar).map((column) =>
    [column.key, rows.reduce((top, row) => Math.max(top, row[column.key] || 0), 0) || 1]));
  const heads = columns.map((column) => el("th", {
    scope: "col", class: column.text ? "name" : "", tabindex: 0, "aria-sort": "none",
    onclick: () => sort(column.key), onkeydown: (event) => { if (event.key === "Enter") sort(column.key); },
  }, word(column.title)));
  const sort = (key) => { down = order === key ? !down : true; order = key; fill(); };
  const fill = () => {
    const found = rows.filter((row) =>
      (!text || columns.some((column) => column.text && String(row[column.key] ?? "").toLowerCase().includes(text))) &&
      Object.entries(filters).every(([key, value]) => value === "" || String(row[key] ?? "") === value));
    if (order !== null) {
      const sign = down ? -1 : 1;
      found.sort((a, b) => {
        const x = a[order], y = b[order];
        if (x === y) return 0;
        if (x === null || x === undefined) return 1;
        if (y === null || y === undefined) return -1;
        return (x < y ? -1 : 1) * sign;
      });
    }
    columns.forEach((column, at) => heads[at].setAttribute("aria-sort", order === column.key ? (down ? "descending" : "ascending") : "none"));
    body.replaceChildren(...found.slice(0, most).map((row) => el("tr", {}, columns.map((column) => {
      const value = row[column.key], shown = column.show ? column.show(value, row) : value ?? "";
      const cell = el("td", { class: column.text ? "name" : "", title: column.text ? value : null }, shown);
      if (column.bar && value > 0) cell.style.backgroundSize = `${(value / largest[column.key]) * 100}% 100%`;
      if (column.bar) cell.classList.add("filled");
      return cell;
    }))));
    // the sums, and the number of rows, cover all rows that match search and filter, also those that are not shown
    const sums = (column) => column.show(found.reduce((sum, row) => sum + (row[column.key] || 0), 0), {});
    foot.replaceChildren(...(summed && found.length > 1 ? [el("tr", {}, columns.map((column, at) =>
      el("td", { class: column.text ? "name" : "" }, column.sum ? sums(column) : at ? "" : word("sum"))))] : []));
    const beyond = (options.count || 0) > rows.length ? ` (${rows.length} ${word("of")} ${options.count})` : "";
    count.textContent = `${Math.min(most, found.length)} ${word("of")} ${found.length} ${word("rows")}${beyond}`;
    more.hidden = found.length <= most;
  };
  const more = el("button", { type: "button", onclick: () => { most += 500; fill(); } }, "+ 500");
  const chooser = (key) => {
    const values = [...new Set(rows.map((row) => row[key]).filter((value) => value !== null && value !== undefined))].sort();
    if (values.length < 2) return null;
    return selector(key, [["", `${word(key)}: ${word("all")}`], ...values.slice(0, 500).map((value) => [value, word(String(value))])], (value) => { filters[key] = value; fill(); });
  };
  const search = rows.length < 4 ? null : el("input", { type: "search", placeholder: word("Search"), "aria-label": word("Search"), oninput: (event) => { text = event.target.value.toLowerCase(); fill(); } });
  fill();
  return el("div", { class: "grid" },
    el("div", { class: "tools" }, search, (options.filters || []).map(chooser), rows.length < 4 ? null : count),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, heads)), body, foot)), more);
}
