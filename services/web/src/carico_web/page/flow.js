// Decisions as they arrive: one dot each, by the Pod's waiting time, and the newest ones as text.

import { font, level, PAD, Sheet } from "./canvas.js";
import { el } from "./dom.js";
import * as format from "./format.js";

const WINDOW_MS = 120_000;
const HEIGHT = 132;
const KEPT = 6000;
const ROWS = 40;
const WAITED = { least: 0.001, most: 600 };
const TICKS = [WAITED.least, 0.1, 10, WAITED.most];
export const PLACED = "bound";
const WAITS = "unschedulable";
const OUTCOMES = {
  bound: "placed",
  unschedulable: "waits",
  bind_conflict: "bind conflict",
  bind_failed: "bind failed",
  dropped: "gone",
};

export class Flow {
  constructor(canvas, list, { theme, frames, open }) {
    Object.assign(this, { canvas, list, theme, frames, open });
    this.sheet = new Sheet(canvas, () => frames.touch("flow"));
    this.decisions = [];
    this.seen = new Set();
    // The latest state of each Pod: which of them wait.
    this.byPod = new Map();
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("pointermove", (event) => {
      canvas.style.cursor = this.near(event) ? "pointer" : "default";
    });
  }

  // True if the decision is new.
  take(decision) {
    if (this.seen.has(decision.id)) return false;
    this.seen.add(decision.id);
    this.decisions.push(decision);
    if (this.decisions.length > 1 && decision.atMs < this.decisions.at(-2).atMs) this.decisions.sort((a, b) => a.atMs - b.atMs);
    if (this.decisions.length > KEPT) for (const old of this.decisions.splice(0, KEPT / 10)) this.seen.delete(old.id);
    const known = this.byPod.get(decision.key);
    if (!known || known.atMs <= decision.atMs) {
      this.byPod.delete(decision.key);
      this.byPod.set(decision.key, decision);
    }
    if (this.byPod.size > KEPT) this.byPod.delete(this.byPod.keys().next().value);
    return true;
  }

  // Moves all times by so much.
  shift(ms) {
    for (const each of new Set([...this.decisions, ...this.byPod.values()])) each.atMs += ms;
    // Rows keep their words otherwise.
    this.list.replaceChildren();
  }

  // Drops the decisions with these ids.
  forget(ids) {
    this.decisions = this.decisions.filter((each) => !ids.has(each.id));
    this.seen = new Set(this.decisions.map((each) => each.id));
    for (const [key, each] of this.byPod) if (ids.has(each.id)) this.byPod.delete(key);
  }

  // Placed in the last 10 s, each second; Pods whose newest decision of the last ten minutes did not place them.
  figures(nowMs) {
    let placed = 0;
    for (let i = this.decisions.length - 1; i >= 0 && this.decisions[i].atMs > nowMs - 10_000; i -= 1) {
      if (this.decisions[i].outcome === PLACED) placed += 1;
    }
    let waiting = 0;
    for (const { outcome, atMs } of this.byPod.values()) if (outcome !== PLACED && outcome !== "dropped" && atMs > nowMs - 600_000) waiting += 1;
    return { rate: placed / 10, waiting };
  }

  draw() {
    const context = this.sheet.begin(HEIGHT);
    this.nowMs = Date.now();
    this.axes(context);
    this.dots = [];
    const size = this.decisions.length > 1500 ? 2 : 3;
    for (let i = this.decisions.length - 1; i >= 0; i -= 1) {
      const decision = this.decisions[i];
      if (decision.atMs < this.nowMs - WINDOW_MS) break;
      const x = this.x(decision.atMs);
      const y = this.y(decision.waited);
      this.dots.push([x, y, decision]);
      context.beginPath();
      context.arc(x, y, size, 0, 7);
      if (decision.outcome === PLACED) {
        context.fillStyle = this.theme.accent;
        context.globalAlpha = 0.75;
        context.fill();
        context.globalAlpha = 1;
      } else {
        context.strokeStyle = decision.outcome === WAITS ? this.theme.warm : this.theme.hot;
        context.lineWidth = 1.3;
        context.stroke();
      }
    }
  }

  axes(context) {
    context.font = font(12);
    const [left, right] = [PAD.left, this.sheet.width - PAD.right];
    for (const waited of TICKS) {
      level(context, this.theme, { left, right, y: Math.round(this.y(waited)) + 0.5, alpha: 0.4, text: tickOf(waited) });
    }
    context.textBaseline = "alphabetic";
    context.textAlign = "left";
    context.fillText("−2 min", PAD.left, HEIGHT - 4);
    context.textAlign = "right";
    context.fillText("now", this.sheet.width - PAD.right, HEIGHT - 4);
  }

  x(ms) {
    const width = this.sheet.width - PAD.left - PAD.right;
    return PAD.left + width * Math.min(1, 1 - (this.nowMs - ms) / WINDOW_MS);
  }

  y(waited) {
    const bounded = Math.min(WAITED.most, Math.max(WAITED.least, waited));
    const share = Math.log(bounded / WAITED.least) / Math.log(WAITED.most / WAITED.least);
    return HEIGHT - PAD.bottom - share * (HEIGHT - PAD.top - PAD.bottom);
  }

  near(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - bounds.left, event.clientY - bounds.top];
    let best = null;
    let nearest = 14 ** 2;
    for (const [x, y, decision] of this.dots || []) {
      const distance = (x - px) ** 2 + (y - py) ** 2;
      if (distance < nearest) [nearest, best] = [distance, decision];
    }
    return best;
  }

  click(event) {
    const found = this.near(event);
    if (found) this.open(found);
  }

  // The newest rows. Existing rows keep their elements, so that focus and clicks are not lost.
  drawList() {
    const newest = newestRows(this.decisions, this.byPod, ROWS);
    const known = new Map(Array.from(this.list.children, (row) => [row.dataset.id, row]));
    const rows = newest.map((decision) => known.get(decision.id) || this.row(decision));
    // A Pod that still waits has waited longer than when it was decided.
    newest.forEach((decision, i) => {
      if (decision.outcome === WAITS) rows[i].querySelector(".waited").textContent = format.seconds(waitedNow(decision, Date.now()));
    });
    const isSame = rows.length === this.list.children.length && rows.every((row, i) => row === this.list.children[i]);
    if (isSame) return;
    for (const [id, row] of known) if (!newest.some((decision) => decision.id === id)) row.remove();
    rows.forEach((row, i) => {
      if (this.list.children[i] !== row) this.list.insertBefore(row, this.list.children[i] || null);
    });
  }

  row(decision) {
    return el(
      "li", { "data-id": decision.id, "data-outcome": decision.outcome },
      el(
        "button", { type: "button", onclick: () => this.open(decision) },
        el("time", {}, format.clock(decision.atMs)),
        el("span", { class: "pod" }, decision.key),
        el("span", { class: "where" }, decision.node ? `→ ${decision.node}` : outcome(decision)),
        el("span", { class: "waited" }, format.seconds(decision.waited)),
      ),
    );
  }
}

// The newest decisions, without those on a Pod that was decided again: "waits" would contradict its placement.
export function newestRows(decisions, byPod, most) {
  const found = [];
  for (let i = decisions.length - 1; i >= 0 && found.length < most; i -= 1) {
    const decision = decisions[i];
    const last = byPod.get(decision.key);
    if (decision.outcome !== WAITS || !last || last.id === decision.id) found.push(decision);
  }
  return found;
}

export function waitedNow(decision, nowMs) {
  return decision.waited + Math.max(0, nowMs - decision.atMs) / 1000;
}

// Values outside of the axis are drawn on its lowest or highest line.
function tickOf(waited) {
  const mark = { [WAITED.least]: "≤ ", [WAITED.most]: "≥ " }[waited] || "";
  return mark + format.seconds(waited);
}

export function outcome(decision) {
  return OUTCOMES[decision.outcome] || decision.outcome;
}
