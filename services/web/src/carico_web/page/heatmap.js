// The cluster as a heat map with a cell per node: cells with text for few nodes, squares for thousands.

import { font, fitted, Sheet } from "./canvas.js";
import { fullest, roomOf } from "./fleet.js";
import * as format from "./format.js";

const WORDS_MOST = 30;
const WORD_CELL = { width: 132, widest: 300, height: 86, gap: 8 };
const PULSE_MS = 900;
const FLASH_ALPHA = 0.45;
const FULLEST = "fullest";
const ROOM = "room";

export class HeatMap {
  constructor(canvas, { fleet, theme, frames, open, said, tip }) {
    Object.assign(this, { canvas, fleet, theme, frames, open, said, tip });
    this.sheet = new Sheet(canvas, () => frames.touch("map"));
    this.metric = FULLEST;
    this.cursor = null;
    this.selected = null;
    this.isCalm = matchMedia("(prefers-reduced-motion: reduce)");
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => frames.touch("map"));
    canvas.addEventListener("blur", () => frames.touch("map"));
  }

  metrics() {
    return [[FULLEST, "Fullest"], ...this.fleet.dims.map((dim) => [dim, format.dimension(dim)]), [ROOM, "Pods of room"]];
  }

  // A value from 0 to 1, and its text.
  value(node) {
    const { ad } = node;
    if (this.metric === ROOM) {
      const room = roomOf(node);
      const all = ad.pods + ad.capacity;
      return { share: all > 0 ? 1 - room / all : 1, text: `${format.pods(room)} Pods` };
    }
    const at = ad.dims.indexOf(this.metric);
    const share = this.metric === FULLEST ? fullest(ad).usage : at < 0 ? 0 : ad.usage[at];
    return { share, text: format.percent(share) };
  }

  layout(count) {
    // The rings of cells at the edges need their own pixels.
    const width = Math.max(40, this.sheet.width - 4);
    if (count <= WORDS_MOST) {
      const { gap, height } = WORD_CELL;
      const columns = Math.max(1, Math.min(count, Math.floor((width + gap) / (WORD_CELL.width + gap))));
      const wide = Math.min(WORD_CELL.widest, (width - gap * (columns - 1)) / columns);
      return { columns, wide, high: height, gap, hasWords: true };
    }
    const tallest = Math.min(460, Math.max(240, width * 0.62));
    for (let size = 48; size > 4; size -= 1) {
      const gap = size >= 18 ? 3 : size >= 9 ? 2 : 1;
      const columns = Math.floor((width + gap) / (size + gap));
      if (Math.ceil(count / columns) * (size + gap) <= tallest || size === 5) {
        return { columns, wide: size, high: size, gap, hasWords: false };
      }
    }
    return null;
  }

  draw(now) {
    const nodes = this.fleet.order();
    const grid = this.layout(nodes.length);
    this.grid = grid;
    const rows = Math.max(1, Math.ceil(nodes.length / grid.columns));
    const context = this.sheet.begin(rows * (grid.high + grid.gap) - grid.gap + 4);
    context.translate(2, 2);
    let isMoving = false;
    const hasFocus = document.activeElement === this.canvas && this.canvas.matches(":focus-visible");
    const at = (node) => [(node.index % grid.columns) * (grid.wide + grid.gap), Math.floor(node.index / grid.columns) * (grid.high + grid.gap)];
    if (!grid.hasWords) this.squares(context, nodes, at, grid);
    for (const node of nodes) {
      const [x, y] = at(node);
      if (grid.hasWords) this.cell(context, node, x, y, grid);
      isMoving = this.pulse(context, node, x, y, grid, now) || isMoving;
      if (node.name === this.selected) this.ring(context, x, y, grid, this.theme.ink, 2);
      else if (hasFocus && node.name === this.cursor) this.ring(context, x, y, grid, this.theme.accent, 2);
    }
    if (isMoving) this.frames.touch("map");
  }

  // All squares of one colour at once: a thousand separate fills take most of a frame.
  squares(context, nodes, at, grid) {
    const byStep = new Map();
    for (const node of nodes) {
      if (node.state !== "fresh") {
        this.cell(context, node, ...at(node), grid);
        continue;
      }
      const step = this.theme.step(this.value(node).share);
      if (!byStep.has(step)) byStep.set(step, []);
      byStep.get(step).push(node);
    }
    for (const [step, same] of byStep) {
      context.beginPath();
      for (const node of same) trace(context, ...at(node), grid);
      context.fillStyle = this.theme.heat[step];
      context.fill();
    }
  }

  cell(context, node, x, y, grid) {
    const { share, text } = this.value(node);
    const step = this.theme.step(share);
    box(context, x, y, grid);
    if (node.state === "stale" || node.state === "absent") {
      // Hollow: its report is too old.
      context.strokeStyle = node.state === "stale" ? this.theme.warm : this.theme.faint;
      context.lineWidth = 1;
      context.stroke();
      if (grid.hasWords) this.words(context, node, x, y, grid, node.state, this.theme.soft);
      return;
    }
    const [colours, inks] = node.state === "ageing" ? [this.theme.aged, this.theme.agedInk] : [this.theme.heat, this.theme.heatInk];
    context.fillStyle = colours[step];
    context.fill();
    if (grid.hasWords) this.words(context, node, x, y, grid, text, inks[step]);
  }

  words(context, node, x, y, grid, text, ink) {
    const { ad } = node;
    const inner = grid.wide - 20;
    context.fillStyle = ink;
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.font = font(12, 600);
    context.fillText(fitted(context, node.name, inner), x + 10, y + 20);
    context.font = font(20, 500);
    context.fillText(text, x + 10, y + 48);
    context.font = font(12);
    const room = this.metric === ROOM ? " running" : `, ${format.pods(roomOf(node))} ${node.reserved === null ? "advertised" : "more"}`;
    context.fillText(fitted(context, `${format.count(ad.pods, "Pod")}${room}`, inner), x + 10, y + 72);
  }

  // The cell flashes for a Pod that was just placed; a ring would look like the selection. True while it needs further
  // frames; it is static if the user prefers no motion.
  pulse(context, node, x, y, grid, now) {
    const age = now - node.placedMs;
    if (!(age < PULSE_MS)) return false;
    context.globalAlpha = FLASH_ALPHA * (this.isCalm.matches ? 0.7 : 1 - age / PULSE_MS);
    context.fillStyle = this.theme.ink;
    box(context, x, y, grid);
    context.fill();
    context.globalAlpha = 1;
    return !this.isCalm.matches;
  }

  ring(context, x, y, grid, colour, width) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    box(context, x - 0.5, y - 0.5, { ...grid, wide: grid.wide + 1, high: grid.high + 1 });
    context.stroke();
  }

  // ---- pointer and keys

  nodeAt(event) {
    if (!this.grid) return null;
    const bounds = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - bounds.left - 2) / (this.grid.wide + this.grid.gap));
    const row = Math.floor((event.clientY - bounds.top - 2) / (this.grid.high + this.grid.gap));
    if (column < 0 || row < 0 || column >= this.grid.columns) return null;
    return this.fleet.order()[row * this.grid.columns + column] || null;
  }

  hover(event) {
    const node = this.nodeAt(event);
    this.canvas.style.cursor = node ? "pointer" : "default";
    this.tip.hidden = !node;
    if (!node) return;
    const text = this.describe(node);
    if (this.tip.textContent !== text) this.tip.textContent = text;
    const bounds = this.canvas.getBoundingClientRect();
    const left = Math.min(event.clientX - bounds.left + 14, Math.max(0, this.sheet.width - 230));
    this.tip.style.transform = `translate(${left}px, ${event.clientY - bounds.top + 18}px)`;
  }

  leave() {
    this.tip.hidden = true;
  }

  click(event) {
    const node = this.nodeAt(event);
    if (!node) return;
    this.cursor = node.name;
    this.open(node.name);
  }

  key(event) {
    const nodes = this.fleet.order();
    if (!this.grid || nodes.length === 0) return;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.grid.columns, ArrowDown: this.grid.columns }[event.key];
    const at = this.fleet.nodes.get(this.cursor)?.index ?? -1;
    if (step !== undefined || event.key === "Home" || event.key === "End") {
      const wanted = event.key === "Home" ? 0 : event.key === "End" ? nodes.length - 1 : at < 0 ? 0 : at + step;
      const next = nodes[wanted] || nodes[Math.max(0, at)];
      this.cursor = next.name;
      this.said(this.describe(next));
      this.frames.touch("map");
    } else if ((event.key === "Enter" || event.key === " ") && at >= 0) this.open(this.cursor);
    else return;
    event.preventDefault();
  }

  describe(node) {
    const { ad } = node;
    const usage = ad.dims.map((dim, i) => `${format.dimension(dim)} ${format.percent(ad.usage[i])}`).join(", ");
    const reserved = node.reserved === null ? " (advertised)" : node.reserved ? ` (${format.whole(node.reserved)} reserved)` : "";
    return `${node.name}: ${usage}; ${format.count(ad.pods, "Pod")}, room for ${format.pods(roomOf(node))} more${reserved}; ${node.state}`;
  }

  drawLegend(place) {
    const colours = [0, 0.25, 0.5, 0.75, 1].map((share) => this.theme.heat[this.theme.step(share)]);
    const [low, high] = this.metric === ROOM ? ["all free", "no room"] : ["free", "exhausted"];
    const bar = document.createElement("i");
    bar.style.background = `linear-gradient(90deg, ${colours.join(", ")})`;
    const hollow = document.createElement("b");
    place.replaceChildren(low, bar, high, hollow, "stale or absent");
  }
}

function box(context, x, y, grid) {
  context.beginPath();
  trace(context, x, y, grid);
}

function trace(context, x, y, grid) {
  if (grid.wide >= 14) context.roundRect(x, y, grid.wide, grid.high, grid.hasWords ? 8 : 3);
  else context.rect(x, y, grid.wide, grid.high);
}
