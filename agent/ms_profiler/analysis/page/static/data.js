// Unpack the data of the page: JSON that is deflated without a header, in base 64. The columns of the timeline are
// packed numbers; analysis/page/packing.py describes their form.
async function inflated(text) {
  const parts = [];
  // decode in pieces of some 10 ms, and pause after each, so that the browser stays responsive
  for (let place = 0; place < text.length; place += 1 << 21) {
    const binary = atob(text.slice(place, place + (1 << 21)));
    const piece = new Uint8Array(binary.length);
    for (let at = 0; at < binary.length; at++) piece[at] = binary.charCodeAt(at);
    parts.push(piece);
    await pause();
  }
  return new Response(new Blob(parts).stream().pipeThrough(new DecompressionStream("deflate-raw")));
}
const pause = () => new Promise((done) => setTimeout(done));

async function held() {
  const element = document.getElementById("run");
  const text = element.textContent;
  element.remove();
  return (await inflated(text)).json();
}

// Unpack a column of the timeline. The result has 64-bit floating-point numbers, which are exact up to 2^53.
async function column(packed) {
  const count = packed.count, values = new Float64Array(count), element = document.getElementById(packed.data);
  if (packed.planes) {
    const planes = new Uint8Array(await (await inflated(element.textContent)).arrayBuffer());
    let factor = 1;
    for (let plane = 0; plane < packed.planes; plane++, factor *= 256) {
      for (let row = 0, at = plane * count; row < count; row++, at++) values[row] += planes[at] * factor;
    }
  }
  element.remove();
  for (const [row, high] of packed.wide) values[row] += high * 4294967296;
  await pause();
  return values;
}

// Return the events of the timeline, row after row. In a row, events are sorted by start, and do not overlap.
async function timeline(content) {
  const events = { count: content.count };
  for (const name of ["start", "dur", "kind", "launch"]) events[name] = await column(content.packed[name]);
  content.packed = null;
  events.row = new Uint32Array(events.count);
  let from = 0;
  const rows = content.lanes.map((lane) => ({ ...lane, from, until: (from += lane.count) }));
  rows.forEach((row, number) => {
    events.row.fill(number, row.from, row.until);
    for (let at = row.from + 1; at < row.until; at++) events.start[at] += events.start[at - 1];
  });
  return { events, rows, names: content.names, categories: content.categories, modules: content.modules, notes: content.notes };
}

const table = (packed) => {
  const names = Object.keys(packed.columns);
  const length = names.length ? packed.columns[names[0]].length : 0;
  return Array.from({ length }, (_, row) => Object.fromEntries(names.map((name) => [name, packed.columns[name][row]])));
};
