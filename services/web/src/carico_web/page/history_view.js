// The card of the last quarter of an hour: waiting and placed Pods, what happened, and one moment in words.

import { Chart, roundTop } from "./chart.js";
import { el, set } from "./dom.js";
import * as format from "./format.js";
import { Ring } from "./ring.js";

const ROWS = 60;
const [WAITING, PLACED] = [0, 1];

export class HistoryView {
  // `page`: has `history`, `theme`, `atMs`, `goTo(ms)`, `openNode(name)`.
  constructor(root, page) {
    this.page = page;
    this.waiting = new Chart(page.theme, "Pods waiting for a node");
    this.placed = new Chart(page.theme, "Pods placed a second");
    for (const chart of [this.waiting, this.placed]) chart.onPick((ms) => page.goTo(ms));
    this.moment = el("p", { class: "lead", role: "status" });
    this.copy = el("button", { type: "button", class: "small", onclick: () => this.copyLink() }, "Copy link");
    this.tools = el("p", { class: "row" }, this.copy, el("button", { type: "button", class: "small", onclick: () => page.goTo(null) }, "Back to now"));
    this.list = el("ol", { class: "events", "aria-label": "What happened" });
    this.note = el("p", { class: "soft" });
    root.replaceChildren(
      el("h3", {}, "Pods waiting for a node"), this.waiting.canvas,
      el("h3", {}, "Pods placed a second"), this.placed.canvas,
      this.moment, this.tools,
      el("h3", {}, "What happened"), this.list, this.note,
    );
  }

  draw() {
    const { history, theme, atMs } = this.page;
    const ring = new Ring(Math.max(1, history.summaries.length), 2);
    for (const each of history.summaries) ring.push(each.atMs, [each.waiting, each.span > 0 ? each.placed / each.span : NaN], 0);
    const shown = { nowMs: Date.now(), atMs };
    const area = (column, colour) => [{ kind: "area", colour, value: (at) => ring.columns[column][at] }];
    this.waiting.draw(ring, area(WAITING, theme.warm), { ...shown, top: topOf(ring, WAITING), tick: format.pods });
    this.placed.draw(ring, area(PLACED, theme.accent), { ...shown, top: topOf(ring, PLACED), tick: format.pods });
    this.drawMoment();
    this.drawEvents();
    set(this.note, [history.summaries.length ? "" : "Nothing is kept yet: the scheduler that leads writes a summary every 5 s.", history.clockTrouble()].filter(Boolean).join(" "));
  }

  drawMoment() {
    const { history, atMs } = this.page;
    this.tools.hidden = atMs === null;
    set(this.moment, atMs === null ? "Click a moment in a chart, or an event, to see the cluster then." : momentWords(history, atMs, Date.now()));
  }

  drawEvents() {
    const { history, atMs } = this.page;
    const newest = history.events().slice(-ROWS).reverse();
    const wanted = JSON.stringify([newest.map((each) => [each.atMs, each.words]), atMs]);
    if (this.list.dataset.shown === wanted) return;
    this.list.dataset.shown = wanted;
    const near = atMs === null ? null : newest.reduce((best, each) => (best && Math.abs(best.atMs - atMs) <= Math.abs(each.atMs - atMs) ? best : each), null);
    this.list.replaceChildren(...newest.map((event) => el(
      "li", { "data-kind": event.kind },
      el(
        "button", { type: "button", "aria-current": event === near ? "time" : null, onclick: () => this.page.goTo(event.atMs) },
        el("time", {}, format.clock(event.atMs)), el("span", {}, event.words),
      ),
      event.kind === "node" ? el("button", { type: "button", class: "link", onclick: () => this.page.openNode(event.about), "aria-label": `Open ${event.about}` }, "open") : null,
    )));
    if (newest.length === 0) this.list.append(el("li", { class: "soft" }, "nothing but what the charts show"));
  }

  async copyLink() {
    const address = globalThis.location.href;
    try {
      await navigator.clipboard.writeText(address);
      this.copy.textContent = "Copied";
    } catch {
      // Without HTTPS browsers have no clipboard: the address bar has the same text.
      this.copy.textContent = "Copy it from the address bar";
    }
    setTimeout(() => (this.copy.textContent = "Copy link"), 2000);
  }
}

// The cluster at one moment, in a sentence or two.
export function momentWords(history, atMs, nowMs) {
  if (Number.isNaN(atMs)) return "The time in the address cannot be read: expected ?at=2026-11-23T15:04:05Z.";
  const found = history.at(atMs);
  if (!found) {
    const oldest = history.summaries[0];
    return `Nothing is kept of ${format.moment(atMs, nowMs)}${oldest ? `: history goes back to ${format.clock(oldest.atMs)}, and may have gaps` : ""}.`;
  }
  const nodes = found.nodes.map(([state, number]) => `${format.whole(number)} ${state}`).join(", ") || "none";
  const usage = [...found.usage].map(([dim, [, median]]) => `${format.dimension(dim)} ${format.percent(median)}`).join(", ");
  const waits = found.waiting ? `${format.count(found.waiting, "Pod")} waited, the first for ${format.seconds(found.oldest)}` : "no Pod waited";
  return `At ${format.clock(found.atMs)}: ${format.count(found.pods, "Pod")} ran, with room for ${format.podsAbout(found.capacity, found.sd)} more; ${waits}; ` +
    `${format.count(found.placed, "Pod")} placed${found.span > 0 ? ` in ${format.seconds(found.span)}` : ""}. Nodes: ${nodes}.${usage ? ` Usage of the middle node: ${usage}.` : ""}`;
}

function topOf(ring, column) {
  let most = 0;
  ring.forEach((_, at) => (most = Math.max(most, ring.columns[column][at] || 0)));
  return roundTop(most * 1.05);
}
