// The details of the whole cluster, shown while nothing is opened.

import { Chart, roundTop } from "./chart.js";
import { el, set } from "./dom.js";
import { fullest, roomOf } from "./fleet.js";
import * as format from "./format.js";
import { MembersView } from "./members.js";
import { TrafficView } from "./traffic.js";
import { WaitingList } from "./waiting_list.js";

const FULLEST_SHOWN = 6;
const TRAFFIC_EVERY_MS = 2000;

export class ClusterPanel {
  constructor(page) {
    this.page = page;
    this.askedMs = -Infinity;
    this.truth = new Chart(page.theme, "Capacity against what runs, in Pods");
    this.usage = new Chart(page.theme, "Usage of the nodes");
    for (const chart of [this.truth, this.usage]) chart.onPick((ms) => page.goTo(ms));
    this.usageLegend = el("p", { class: "keyline" });
    this.fullest = el("ul", { class: "plain" });
    this.waiting = new WaitingList(page);
    this.members = new MembersView(page.members);
    this.traffic = new TrafficView(page);
    this.root = el(
      "div", {},
      el("div", { class: "head" }, el("h2", {}, "The cluster")),
      el("h3", {}, "Capacity against what runs, in Pods"),
      truthLegend(),
      this.truth.canvas,
      el("h3", {}, "Usage: median, and where 90 % of the nodes are"),
      this.usageLegend,
      this.usage.canvas,
      this.waiting.root,
      this.members.root,
      this.traffic.root,
      el("h3", {}, "Fullest nodes"),
      this.fullest,
    );
    this.askWaiting();
  }

  // When it is opened, and with each summary of the cluster while it is shown.
  askWaiting() {
    const newest = this.page.history.summaries.at(-1);
    if (newest && !document.hidden) this.waiting.refresh(newest.waiting);
  }

  // While it is shown: moves are shown as they happen.
  askTraffic() {
    const nowMs = Date.now();
    if (document.hidden || this.page.frames.isHeld || nowMs - this.askedMs < TRAFFIC_EVERY_MS) return;
    this.askedMs = nowMs;
    this.traffic.refresh(nowMs);
  }

  draw() {
    const { fleet, theme } = this.page;
    const ring = fleet.totals;
    if (!ring || !fleet.now) return;
    const shown = { nowMs: Date.now(), atMs: this.page.atMs };
    drawTruth(this.truth, ring, [0, 1, 2], { ...shown, theme, words: `${format.count(fleet.now.pods, "Pod")} run, room for ${format.pods(fleet.now.room)} more` });
    const layers = fleet.dims.flatMap((_, i) => {
      const [median, low, high] = [0, 1, 2].map((part) => ring.columns[3 + 3 * i + part]);
      const colour = theme.lines[i % theme.lines.length];
      return [
        { kind: "band", colour, value: (at) => high[at], low: (at) => low[at] },
        { kind: "line", colour, value: (at) => median[at] },
      ];
    });
    this.usage.draw(ring, layers, { ...shown, top: 1, tick: format.percent });
    keyline(this.usageLegend, fleet.dims, theme);
    this.list(fleet);
    this.members.draw(Date.now());
    this.askTraffic();
  }

  list(fleet) {
    const order = fleet.order().filter((node) => node.state !== "absent").map((node) => [node, fullest(node.ad)]);
    const top = order.sort((a, b) => b[1].usage - a[1].usage).slice(0, FULLEST_SHOWN);
    // Buttons stay the same elements: only their words change.
    while (this.fullest.children.length < top.length) {
      this.fullest.append(el("li", {}, el("button", { type: "button", onclick: (event) => this.page.openNode(event.currentTarget.dataset.node) }, el("span"), el("span", { class: "soft" }))));
    }
    while (this.fullest.children.length > top.length) this.fullest.lastChild.remove();
    top.forEach(([node, { dim, usage }], i) => {
      const button = this.fullest.children[i].firstChild;
      button.dataset.node = node.name;
      set(button.children[0], node.name);
      set(button.children[1], `${format.dimension(dim)} ${format.percent(usage)}, ${format.count(node.ad.pods, "Pod")}, room for ${format.pods(roomOf(node))}`);
    });
  }
}

export function truthLegend() {
  return el(
    "p", { class: "keyline" },
    el("span", { class: "key area" }, "Pods running"),
    el("span", { class: "key line" }, "Pods running + room advertised, ± its standard deviation"),
  );
}

export function keyline(place, dims, theme) {
  const wanted = `${theme.name} ${dims.join(" ")}`;
  if (place.dataset.shown === wanted) return;
  place.dataset.shown = wanted;
  place.replaceChildren(...dims.map((dim, i) => {
    const key = el("span", { class: "key" }, format.dimension(dim));
    key.style.setProperty("--key", theme.lines[i % theme.lines.length]);
    return key;
  }));
}

// Running Pods as an area; with the advertised room as a line, with its uncertainty.
export function drawTruth(chart, ring, [pods, capacity, sd], { theme, limit, ...shown }) {
  const [n, c, s] = [pods, capacity, sd].map((column) => ring.columns[column]);
  let most = limit || 0;
  ring.forEach((_, at) => (most = Math.max(most, n[at] + c[at] + s[at])));
  const top = roundTop(most * 1.05);
  chart.draw(ring, [
    { kind: "area", colour: theme.accent, value: (at) => n[at] },
    { kind: "band", colour: theme.warm, value: (at) => n[at] + c[at] + s[at], low: (at) => n[at] + Math.max(0, c[at] - s[at]) },
    { kind: "line", colour: theme.warm, value: (at) => n[at] + c[at] },
  ], { ...shown, top, tick: format.pods });
}
