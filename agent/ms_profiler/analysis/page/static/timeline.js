// Draw the timeline of threads and streams, with a row for each nesting depth. At most SHAPES rectangles are drawn.
const SHAPES = 20000, FLOWS = 500, ROW = 16, GAP = 8, HEAD = 24, LABEL = 190;
const LANES = { 1: "op", 2: "stream", 3: "calls" };
class Timeline {
  constructor(line, steps, curves) {
    Object.assign(this, line);
    this.strips = new Strips(curves);
    this.steps = steps;
    this.canvas = el("canvas", { tabindex: 0, role: "img", "aria-label": word("Timeline") });
    this.detail = el("div", { class: "detail", "aria-live": "polite" }, " ");
    this.search = "";
    const find = el("input", { type: "search", placeholder: word("Search"), "aria-label": word("Search"), oninput: (event) => this.find(event.target.value) });
    this.place = el("div", { class: "timeline" },
      el("div", { class: "tools" }, find, el("button", { type: "button", onclick: () => this.fit() }, word("Fit")),
        el("span", { class: "note" }, ["W", "S", "A", "D", "F", "+", "−", "←", "→", "N", "P"].map((key) => [el("kbd", {}, key), " "]))),
      this.notes.map((note) => el("p", { class: "note" }, note)), el("div", { class: "scroll tall" }, this.canvas), this.detail);
    this.low = Infinity; this.high = 0;
    for (const row of this.rows) {
      if (row.until === row.from) continue;
      this.low = Math.min(this.low, this.events.start[row.from]);
      for (let at = Math.max(row.from, row.until - 1000); at < row.until; at++) this.high = Math.max(this.high, this.events.start[at] + this.events.dur[at]);
    }
    this.y = []; let y = HEAD, last = null;
    for (const row of this.rows) {
      const lane = `${row.process} ${row.kind} ${row.thread}`;
      if (last !== null && lane !== last) y += GAP;
      row.first = lane !== last; last = lane;
      this.y.push(y); y += ROW;
    }
    this.bottom = y + GAP;
    this.height = this.bottom + this.strips.height + GAP;
    this.selected = null;
    const kinds = new Map(), light = (hex) => { const part = (at) => parseInt(hex.slice(at, at + 2), 16); return 0.299 * part(1) + 0.587 * part(3) + 0.114 * part(5) > 140; };
    this.shades = this.categories.map((name) => kinds.get(name) || kinds.set(name, colour(name || "")).get(name));
    this.bright = this.shades.map(light);
    this.listen();
    this.fit(false);
  }

  fit(draw = true) { this.from = this.low; this.until = Math.max(this.high, this.low + 1); if (draw) this.later(); }

  show(from, until) { const room = (until - from) * 0.03; this.from = from - room; this.until = until + room; this.later(); }

  later() { if (!this.waiting) { this.waiting = true; requestAnimationFrame(() => { this.waiting = false; this.draw(); }); } }

  find(text) {
    this.search = text.toLowerCase();
    this.found = this.search ? this.names.map((name) => (name || "").toLowerCase().includes(this.search)) : null;
    this.later();
  }

  // Return the index of the first event of a row that ends at a time or later. Events of a row do not overlap.
  after(row, time) {
    let low = row.from, high = row.until;
    const { start, dur } = this.events;
    while (low < high) { const middle = (low + high) >> 1; if (start[middle] + dur[middle] < time) low = middle + 1; else high = middle; }
    return low;
  }

  draw() {
    const width = Math.max(this.canvas.parentElement.clientWidth, 400), ratio = window.devicePixelRatio || 1, canvas = this.canvas;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(this.height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(this.height * ratio);
      canvas.style.width = `${width}px`; canvas.style.height = `${this.height}px`;
    }
    const paint = canvas.getContext("2d");
    paint.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint.clearRect(0, 0, width, this.height);
    const room = width - LABEL, scale = room / (this.until - this.from), { start, dur, kind, launch } = this.events;
    // Smallest width of a shape, ns. Arrows and curves take some of the SHAPES; all rows get an equal part of the rest.
    const least = Math.max(1, (this.rows.length * room) / (SHAPES - FLOWS - STRIP_SHAPES - 2 * this.rows.length)) / scale, flows = [];
    paint.font = "11px system-ui"; paint.textBaseline = "middle";
    this.grid(paint, width, scale);
    this.shapes = 0;
    this.rows.forEach((row, index) => {
      const y = this.y[index];
      let at = this.after(row, this.from);
      while (at < row.until && start[at] < this.until) {
        const begin = start[at]; let end = begin + dur[at];
        let next = at + 1, single = true;
        if (end - begin < least) {
          // an event narrower than the smallest width becomes one shape with the events that follow within that width
          const limit = begin + least;
          let low = at + 1, high = row.until;
          while (low < high) { const middle = (low + high) >> 1; if (start[middle] < limit) low = middle + 1; else high = middle; }
          next = Math.max(low, at + 1); single = next === at + 1; end = Math.max(end, begin + least);
        }
        const x = Math.max(LABEL, LABEL + (begin - this.from) * scale), right = Math.min(width, LABEL + (end - this.from) * scale);
        paint.globalAlpha = this.found && !(single && this.found[kind[at]]) ? 0.18 : 1;
        paint.fillStyle = this.shades[kind[at]];
        paint.fillRect(x, y, Math.max(right - x - (right - x > 3 ? 0.5 : 0), 0.6), ROW - 2);
        this.shapes++;
        if (single && launch[at] && (right - x > 2 || this.selected !== null) && flows.length < FLOWS) flows.push(at);
        if (single && at === this.selected) { paint.strokeStyle = ink(); paint.lineWidth = 2; paint.strokeRect(x, y, Math.max(right - x, 2), ROW - 2); paint.lineWidth = 1; }
        if (single && right - x > 30) {
          paint.fillStyle = this.bright[kind[at]] ? "#1f2933" : "#fff";
          const text = this.names[kind[at]] || "", fits = Math.floor((right - x - 6) / 6);
          paint.fillText(text.length > fits ? text.slice(0, Math.max(fits - 1, 0)) : text, x + 3, y + ROW / 2 - 1);
        }
        at = next;
      }
      paint.globalAlpha = 1;
      if (row.first) {
        paint.fillStyle = ink();
        const title = row.kind === 2 ? `${word("stream")} ${row.thread ?? ""}` : `${row.name || `thread ${row.thread ?? ""}`}${LANES[row.kind] ? `: ${word(LANES[row.kind])}` : ""}`;
        paint.fillText(title.slice(0, 30), 4, y + ROW / 2 - 1);
      }
    });
    this.arrows(paint, flows, width, scale);
    this.shapes += this.strips.draw(paint, this.bottom, width, this.from, this.until, LABEL);
    canvas.dataset.shapes = this.shapes; canvas.dataset.flows = flows.length; canvas.dataset.curves = this.strips.curves.length;
  }

  // Draw arrows from launching calls to tasks on streams. If an event is selected, draw only its arrows, and darker.
  arrows(paint, flows, width, scale) {
    const { start, row, launch } = this.events, x = (time) => LABEL + (time - this.from) * scale;
    for (const at of flows) {
      const by = launch[at] - 1, chosen = this.selected !== null && (at === this.selected || by === this.selected);
      if (this.selected !== null && !chosen) continue;
      const left = x(start[by]), right = x(start[at]), above = this.y[row[by]] + ROW - 2, below = this.y[row[at]] + (this.y[row[at]] < above ? ROW - 2 : 0);
      if (right < LABEL || left > width) continue;
      paint.strokeStyle = ink(); paint.globalAlpha = chosen ? 0.9 : 0.25;
      paint.save(); paint.beginPath(); paint.rect(LABEL, 0, width - LABEL, this.bottom); paint.clip();
      paint.beginPath(); paint.moveTo(left, above); paint.bezierCurveTo(left, (above + below) / 2, right, (above + below) / 2, right, below); paint.stroke();
      paint.restore();
      this.shapes++;
    }
    paint.globalAlpha = 1;
  }

  select(at) { this.selected = at; this.tell(at); this.later(); }

  // Select the next event (by = 1) or the previous event (by = -1) in the row of the selected event.
  beside(by) {
    const at = this.selected === null ? this.rows.findIndex((row) => row.until > row.from) : this.selected + by;
    if (this.selected === null) return at < 0 ? null : this.select(this.after(this.rows[at], this.from));
    if (at < 0 || at >= this.events.count || this.events.row[at] !== this.events.row[this.selected]) return null;
    const time = this.events.start[at], length = this.until - this.from;
    if (time < this.from || time > this.until) { this.from = time - length / 2; this.until = time + length / 2; }
    return this.select(at);
  }

  grid(paint, width, scale) {
    paint.strokeStyle = faint(); paint.fillStyle = ink();
    for (const step of this.steps) {
      const x = LABEL + (step.start_ns - this.from) * scale;
      if (x < LABEL || x > width) continue;
      paint.beginPath(); paint.moveTo(x, 12); paint.lineTo(x, this.height); paint.stroke();
      if (step.duration_ns * scale > 34) paint.fillText(String(step.number), x + 2, 8);
    }
  }

  at(event) {
    const time = this.from + ((event.offsetX - LABEL) / (this.canvas.clientWidth - LABEL)) * (this.until - this.from);
    const index = this.y.findIndex((y) => event.offsetY >= y && event.offsetY < y + ROW);
    if (index < 0 || event.offsetX < LABEL) return null;
    const row = this.rows[index], at = this.after(row, time), near = (3 * (this.until - this.from)) / this.canvas.clientWidth;
    return at < row.until && this.events.start[at] <= time + near ? at : null;
  }

  tell(at) {
    if (at === null) return;
    const { start, dur, kind, launch } = this.events;
    const owner = this.modules[kind[at]], by = launch[at] ? launch[at] - 1 : null;
    this.detail.textContent = `${this.names[kind[at]]}: ${duration(dur[at])}, ${this.categories[kind[at]]}, ${(start[at] / 1e9).toFixed(6)} s${owner ? `, ${owner}` : ""}${by === null ? "" : ` ← ${this.names[kind[by]]}, ${duration(start[at] - start[by])}`}`;
  }

  zoom(by, around = (this.from + this.until) / 2) {
    const least = 100;
    if ((this.until - this.from) * by < least) return;
    this.from = around - (around - this.from) * by; this.until = around + (this.until - around) * by;
    this.later();
  }

  move(part) { const by = (this.until - this.from) * part; this.from += by; this.until += by; this.later(); }

  listen() {
    let held = null;
    this.canvas.addEventListener("wheel", (event) => {
      if (event.shiftKey) return;
      event.preventDefault();
      const around = this.from + ((event.offsetX - LABEL) / (this.canvas.clientWidth - LABEL)) * (this.until - this.from);
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, around);
    }, { passive: false });
    let moved = false;
    this.canvas.addEventListener("mousedown", (event) => { held = event.offsetX; moved = false; });
    this.canvas.addEventListener("click", (event) => { if (!moved) this.select(this.at(event)); });
    window.addEventListener("mouseup", () => { held = null; });
    this.canvas.addEventListener("mousemove", (event) => {
      if (held !== null) { this.move((held - event.offsetX) / (this.canvas.clientWidth - LABEL)); held = event.offsetX; moved = true; } else this.tell(this.at(event) ?? this.selected);
    });
    this.canvas.addEventListener("dblclick", (event) => {
      const at = this.at(event);
      if (at !== null) this.show(this.events.start[at], this.events.start[at] + this.events.dur[at]);
    });
    const keys = { w: () => this.zoom(0.8), "+": () => this.zoom(0.8), s: () => this.zoom(1.25), "-": () => this.zoom(1.25),
      a: () => this.move(-0.2), ArrowLeft: () => this.move(-0.2), d: () => this.move(0.2), ArrowRight: () => this.move(0.2), f: () => this.fit(),
      n: () => this.beside(1), p: () => this.beside(-1), Escape: () => this.select(null),
      Enter: () => { if (this.selected !== null) this.show(this.events.start[this.selected], this.events.start[this.selected] + this.events.dur[this.selected]); } };
    this.canvas.addEventListener("keydown", (event) => { if (Object.hasOwn(keys, event.key)) { keys[event.key](); event.preventDefault(); } });
  }
}
