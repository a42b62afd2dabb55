// Draw curves under the timeline, on the same axis of time: metrics of the host and of devices.
const STRIP = 40, STRIPS = 24, STRIP_SHAPES = 4000;
class Strips {
  constructor(curves) { this.curves = curves.filter((curve) => curve.time.length).slice(0, STRIPS); }

  get height() { return this.curves.length * (STRIP + 8); }

  // Return the index of the last value before a time: drawing begins with this value.
  static from(times, time) {
    let low = 0, high = times.length;
    while (low < high) { const middle = (low + high) >> 1; if (times[middle] < time) low = middle + 1; else high = middle; }
    return Math.max(low - 1, 0);
  }

  draw(paint, top, width, from, until, label) {
    const scale = (width - label) / (until - from);
    // smallest width, in pixels, of a piece of a curve that is drawn with one value
    const narrow = Math.max(1, (this.curves.length * (width - label)) / STRIP_SHAPES);
    let shapes = 0;
    this.curves.forEach((curve, index) => {
      const y = top + index * (STRIP + 8) + STRIP, least = Math.min(0, ...[curve.low ??= curve.value.reduce((a, b) => Math.min(a, b), Infinity)]);
      const most = (curve.high ??= curve.value.reduce((a, b) => Math.max(a, b), -Infinity)) || 1;
      const first = Strips.from(curve.time, from), tall = (value) => ((value - least) / (most - least || 1)) * STRIP;
      paint.beginPath();
      paint.moveTo(Math.max(label, label + (curve.time[first] - from) * scale), y);
      let last = -1, highest = 0;
      for (let at = first; at < curve.time.length && curve.time[at] <= until; at++) {
        const x = Math.max(label, label + (curve.time[at] - from) * scale), next = at + 1 < curve.time.length ? Math.min(width, label + (curve.time[at + 1] - from) * scale) : x + 1;
        // if several values share a piece, draw the highest
        highest = Math.max(highest, tall(curve.value[at]));
        if (next - last < narrow) continue;
        paint.lineTo(x, y - highest); paint.lineTo(Math.min(next, width), y - highest);
        last = next; highest = 0; shapes++;
      }
      paint.lineTo(Math.max(last, label), y);
      paint.closePath();
      paint.fillStyle = colour("op"); paint.globalAlpha = 0.55; paint.fill(); paint.globalAlpha = 1;
      paint.fillStyle = ink();
      const unit = /bytes|memory|held/i.test(curve.name) ? bytes : (value) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });
      paint.fillText(curve.name.slice(0, 28), 4, y - STRIP + 8);
      paint.fillText(`≤ ${unit(most)}`, 4, y - STRIP + 24);
      paint.fillStyle = faint(); paint.fillRect(label, y, width - label, 1);
    });
    return shapes;
  }
}
