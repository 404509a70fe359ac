// A chart over the last minutes: areas, bands and lines on one canvas.

import { font, level, PAD, Sheet } from "./canvas.js";
import * as format from "./format.js";
import { APART_MS, HISTORY_MS } from "./history.js";

const HEIGHT = 150;
// The first minute is shown at full width, without an empty past.
const SHORTEST_MS = 60_000;

export class Chart {
  constructor(theme, label) {
    this.theme = theme;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "chart";
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.label = label;
    this.sheet = new Sheet(this.canvas, () => this.again?.());
  }

  // Calls back with the time of each click on the chart.
  onPick(pick) {
    this.canvas.style.cursor = "pointer";
    this.canvas.addEventListener("click", (event) => {
      if (this.shown) pick(this.shown.ms(event.clientX - this.canvas.getBoundingClientRect().left));
    });
  }

  // `layers`: {kind: area|line|band, colour, dash, low, value} with functions index -> number over `ring`'s rows.
  // A longer interval without data than between two summaries is a gap. `atMs`: marked.
  draw(ring, layers, { nowMs, top, tick, words, atMs = null }) {
    this.again = () => this.draw(ring, layers, { nowMs, top, tick, words, atMs });
    this.sheet.width = this.canvas.clientWidth;
    if (this.sheet.width === 0) return;
    const context = this.sheet.begin(HEIGHT);
    const scale = this.scale(nowMs, top, ring.oldestMs());
    this.shown = scale;
    this.axes(context, scale, tick);
    for (const layer of layers) this.layer(context, ring, layer, scale);
    if (atMs >= scale.oldest && atMs <= nowMs) this.mark(context, scale.x(atMs));
    if (words) this.canvas.setAttribute("aria-label", `${this.label}: ${words}`);
  }

  mark(context, x) {
    context.strokeStyle = this.theme.hot;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x, PAD.top);
    context.lineTo(x, HEIGHT - PAD.bottom);
    context.stroke();
  }

  scale(nowMs, top, oldestMs) {
    const width = this.sheet.width - PAD.left - PAD.right;
    const height = HEIGHT - PAD.top - PAD.bottom;
    const span = Math.min(HISTORY_MS, Math.max(SHORTEST_MS, nowMs - Math.min(nowMs, oldestMs)));
    return {
      top,
      span,
      ms: (x) => nowMs - span * (1 - Math.min(1, Math.max(0, (x - PAD.left) / width))),
      x: (ms) => PAD.left + width * (1 - (nowMs - ms) / span),
      y: (value) => PAD.top + height * (1 - Math.min(1.02, Math.max(0, value / top))),
      oldest: nowMs - span,
    };
  }

  axes(context, scale, tick) {
    context.font = font(12);
    const [left, right] = [PAD.left, this.sheet.width - PAD.right];
    for (const share of [0, 0.5, 1]) {
      const y = Math.round(scale.y(share * scale.top)) + 0.5;
      level(context, this.theme, { left, right, y, alpha: share === 0 ? 0.9 : 0.35, text: tick(share * scale.top) });
    }
    context.textBaseline = "alphabetic";
    for (const [text, align, x] of [[`−${format.seconds(scale.span / 1000)}`, "left", left], ["now", "right", right]]) {
      context.textAlign = align;
      context.fillText(text, x, HEIGHT - 4);
    }
  }

  layer(context, ring, layer, scale) {
    const upper = [];
    const lower = [];
    let last = -Infinity;
    const close = () => {
      this.stroke(context, layer, upper, lower);
      upper.length = 0;
      lower.length = 0;
    };
    ring.forEach((ms, at) => {
      const value = layer.value(at);
      if (ms < scale.oldest || Number.isNaN(value)) return;
      if (ms - last > APART_MS) close();
      last = ms;
      const x = scale.x(ms);
      upper.push([x, scale.y(value)]);
      lower.push([x, scale.y(layer.low ? layer.low(at) : 0)]);
    });
    close();
  }

  stroke(context, layer, upper, lower) {
    if (upper.length === 0) return;
    context.beginPath();
    context.setLineDash(layer.dash || []);
    upper.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
    if (layer.kind === "line") {
      context.strokeStyle = layer.colour;
      context.lineWidth = 1.6;
      context.lineJoin = "round";
      context.stroke();
    } else {
      for (const [x, y] of lower.reverse()) context.lineTo(x, y);
      context.closePath();
      context.globalAlpha = layer.kind === "band" ? 0.16 : 0.42;
      context.fillStyle = layer.colour;
      context.fill();
      context.globalAlpha = 1;
    }
    context.setLineDash([]);
  }
}

// A round number at or above the largest value, whose half is a whole number of Pods.
export function roundTop(value) {
  if (!(value > 2)) return 2;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 6, 8, 10].find((step) => step * power >= value) * power;
}
