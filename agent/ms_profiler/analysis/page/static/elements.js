// Make HTML elements, and format numbers. Text of a run becomes only text nodes, never markup.
function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") Object.assign(made.style, value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined).map((child) =>
    child instanceof Node ? child : document.createTextNode(String(child))));
  return made;
}

function duration(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "";
  const size = Math.abs(ns);
  if (size >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
  if (size >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
  if (size >= 1e3) return `${(ns / 1e3).toFixed(1)} us`;
  return `${Math.round(ns)} ns`;
}
const milliseconds = (ms) => (ms === null || ms === undefined ? "" : duration(ms * 1e6));
const percent = (share) => (share === null || share === undefined ? "" : `${(share * 100).toFixed(1)} %`);
const whole = (number) => (number === null || number === undefined ? "" : number.toLocaleString("en-US"));
function bytes(size) {
  if (size === null || size === undefined) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; Math.abs(size) >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return `${unit ? size.toFixed(1) : size} ${units[unit]}`;
}

// Return the colour of a part, phase or category, the same in all views. COLOURS is part of the page, and has the
// colours that the terminal uses, too. Any other name gets one of the SPARE colours.
const SPARE = ["#4e79a7", "#76b7b2", "#59a14f", "#edc948", "#9c755f", "#bab0ac", "#86bcb6", "#f1ce63", "#d4a6c8", "#79706e"];
function colour(name) {
  if (Object.hasOwn(COLOURS, name)) return COLOURS[name];
  let sum = 0;
  for (let place = 0; place < name.length; place++) sum = (sum * 31 + name.charCodeAt(place)) >>> 0;
  return SPARE[sum % SPARE.length];
}

function chip(name, value) {
  return el("span", { class: "chip" }, el("i", { style: { background: colour(name) } }), word(name), value ? el("b", {}, value) : null);
}

// Return a bar that is divided into parts, with a legend. A part is [name, share, text]; the shares add up to 1.
function bar(parts) {
  const shown = parts.filter(([, share]) => share > 0);
  return el("div", { class: "stack" },
    el("div", { class: "bar", role: "img", "aria-label": shown.map(([name, share]) => `${name} ${percent(share)}`).join(", ") },
      shown.map(([name, share]) => el("span", { title: `${name} ${percent(share)}`, style: { width: `${share * 100}%`, background: colour(name) } }))),
    el("div", { class: "legend" }, shown.map(([name, share, text]) => chip(name, `${percent(share)}${text ? `, ${text}` : ""}`))));
}

function section(id, title, ...children) {
  return el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, word(title)), ...children);
}

// Return a card with a title, a sentence that says what the picture shows, and the picture.
function figure(title, note, ...children) {
  return el("div", { class: "card" }, el("h3", {}, word(title)), note ? el("p", { class: "note" }, word(note)) : null, ...children);
}

function selector(label, values, chosen) {
  return el("select", { "aria-label": word(label), onchange: (event) => chosen(event.target.value) },
    values.map(([value, text]) => el("option", { value }, text)));
}
