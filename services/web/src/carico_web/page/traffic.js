// Traffic between nodes as a picture, and moves of Pods as they happen: what the rescheduler says, where one runs.

import * as ask from "./ask.js";
import { fitted, font, Sheet } from "./canvas.js";
import { el, set } from "./dom.js";
import * as format from "./format.js";

const HEIGHT = 250;
// Nodes with a place on the circle, links as words, and moves.
const [NODES_MOST, LINKS_SHOWN, MOVES_SHOWN] = [24, 5, 6];
// Most clusters have no rescheduler: one that starts later is found.
const AGAIN_MS = 30_000;
const LABEL = 92;

// Numbers and names of an answer, or nothing of what is neither: readers of the bus could send anything.
export function toTraffic(answer) {
  const links = (Array.isArray(answer.links) ? answer.links : [])
    .filter((each) => isName(each?.one) && isName(each.other) && amount(each.bytes_per_s) > 0)
    .map((each) => ({ one: each.one, other: each.other, rate: each.bytes_per_s }));
  return { isKnown: answer.has_traffic === true, between: amount(answer.between_bytes), within: amount(answer.within_bytes), links };
}

export function toMoves(answer) {
  const read = (each) => ({
    pod: text(each.pod), from: text(each.from), to: text(each.to), state: text(each.state), why: text(each.why), age: amount(each.age_s),
    took: each.took_s === null ? null : amount(each.took_s),
  });
  const isMove = (each) => typeof each === "object" && each !== null;
  return {
    current: isMove(answer.current) ? read(answer.current) : null,
    ended: (Array.isArray(answer.ended) ? answer.ended : []).filter(isMove).slice(0, MOVES_SHOWN).map(read),
    paused: text(answer.paused),
  };
}

const isName = (value) => typeof value === "string" && value !== "";
const amount = (value) => (Number.isFinite(value) && value > 0 ? value : 0);
const text = (value) => (typeof value === "string" ? value : "");

// The nodes of the picture, at their angles: those of the move under way, then those with most traffic, by name.
export function places(links, current) {
  const chosen = new Set(current ? [current.from, current.to].filter(isName) : []);
  for (const { one, other } of links) for (const name of [one, other]) if (chosen.size < NODES_MOST) chosen.add(name);
  const names = [...chosen].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return new Map(names.map((name, i) => [name, (2 * Math.PI * i) / names.length - Math.PI / 2]));
}

export function together({ isKnown, between, within }) {
  if (!isKnown) return "no agent reports traffic between Pods";
  const rate = (bytes) => format.quantity("network", bytes);
  const all = between + within;
  return `${rate(between)} between nodes${all > 0 ? `, ${format.percent(within / all)} of all traffic stays on a node` : ""}`;
}

export function moveWords({ state, why, age, took }, isUnderWay) {
  const when = isUnderWay ? `for ${format.seconds(age)}` : `${format.seconds(Math.max(0, age - (took || 0)))} ago`;
  return [isUnderWay ? "under way" : state, when, ...(why ? [why] : [])].join(", ");
}

export class TrafficView {
  // `page`: has `bus`, `theme`, `frames`.
  constructor(page) {
    this.page = page;
    this.canvas = el("canvas", { role: "img" });
    this.sheet = new Sheet(this.canvas, () => this.draw());
    this.head = el("p", { class: "soft" });
    this.links = el("ul", { class: "plain" });
    this.moves = el("ul", { class: "plain" });
    this.root = el("div", { class: "traffic", hidden: true }, el("h3", {}, "Traffic between nodes"), this.head, this.canvas, this.links, el("h3", {}, "Pods that are moved"), this.moves);
    this.found = null;
    this.isAsking = false;
    this.againMs = 0;
  }

  // Asks the rescheduler, unless the last question is still open or none answered a short time ago.
  async refresh(nowMs) {
    if (this.isAsking || nowMs < this.againMs) return;
    this.isAsking = true;
    try {
      const [traffic, moves] = await Promise.all([ask.traffic(this.page.bus), ask.moves(this.page.bus)]);
      this.found = { traffic: toTraffic(traffic), moves: toMoves(moves) };
    } catch {
      this.found = null;
      this.againMs = nowMs + AGAIN_MS;
    } finally {
      this.isAsking = false;
    }
    this.draw();
  }

  draw() {
    this.root.hidden = this.found === null;
    if (this.found === null) return;
    const { traffic, moves } = this.found;
    set(this.head, together(traffic));
    rows(this.links, traffic.links.slice(0, LINKS_SHOWN).map((each) => [`${each.one} ↔ ${each.other}`, format.quantity("network", each.rate)]));
    const shown = moves.ended.map((each) => [`${each.pod}: ${each.from} → ${each.to}`, moveWords(each, false)]);
    if (moves.current) shown.unshift([`${moves.current.pod}: ${moves.current.from} → ${moves.current.to}`, moveWords(moves.current, true)]);
    rows(this.moves, shown.length > 0 ? shown : [[moves.paused ? `moves are ${moves.paused}` : "none since the rescheduler began to lead", ""]]);
    this.picture(traffic.links, moves.current);
  }

  picture(links, current) {
    const at = places(links, current);
    this.canvas.hidden = at.size === 0;
    if (at.size === 0) return;
    this.canvas.setAttribute("aria-label", `Traffic between ${format.count(at.size, "node")} as lines: wider is more`);
    // Hidden until now, it had no width.
    this.sheet.width = this.canvas.clientWidth || this.sheet.width;
    const context = this.sheet.begin(HEIGHT);
    const [x, y] = [this.sheet.width / 2, HEIGHT / 2];
    const reach = [Math.max(30, x - LABEL), HEIGHT / 2 - 22];
    const point = (name) => [x + reach[0] * Math.cos(at.get(name)), y + reach[1] * Math.sin(at.get(name))];
    const most = links.length > 0 ? links[0].rate : 1;
    for (const { one, other, rate } of [...links].reverse()) {
      if (at.has(one) && at.has(other)) this.line(context, point(one), point(other), [x, y], { width: 1 + 7 * (rate / most), colour: this.page.theme.accent, alpha: 0.35 + 0.5 * (rate / most) });
    }
    if (current && at.has(current.from) && at.has(current.to)) {
      this.line(context, point(current.from), point(current.to), [x, y], { width: 2.5, colour: this.page.theme.warm, alpha: 1, dash: [6, 4] });
      this.dot(context, point(current.to), this.page.theme.warm, 6);
    }
    for (const name of at.keys()) this.node(context, name, point(name), at.get(name));
  }

  line(context, from, to, middle, { width, colour, alpha, dash = [] }) {
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(...from);
    context.quadraticCurveTo(...middle, ...to);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  node(context, name, [x, y], angle) {
    this.dot(context, [x, y], this.page.theme.ink, 3.5);
    const side = Math.cos(angle);
    context.font = font(12);
    context.fillStyle = this.page.theme.soft;
    context.textAlign = Math.abs(side) < 0.2 ? "center" : side > 0 ? "left" : "right";
    context.textBaseline = Math.abs(side) < 0.2 ? (Math.sin(angle) > 0 ? "top" : "bottom") : "middle";
    const away = Math.abs(side) < 0.2 ? [0, 7 * Math.sign(Math.sin(angle))] : [8 * Math.sign(side), 0];
    context.fillText(fitted(context, name, LABEL - 10), x + away[0], y + away[1]);
  }

  dot(context, [x, y], colour, size) {
    context.fillStyle = colour;
    context.beginPath();
    context.arc(x, y, size, 0, 7);
    context.fill();
  }
}

// Rows stay the same elements: only their words change.
function rows(list, wanted) {
  while (list.children.length < wanted.length) list.append(el("li", {}, el("span"), el("span", { class: "soft" })));
  while (list.children.length > wanted.length) list.lastChild.remove();
  wanted.forEach(([name, words], i) => {
    set(list.children[i].children[0], name);
    set(list.children[i].children[1], words);
  });
}
