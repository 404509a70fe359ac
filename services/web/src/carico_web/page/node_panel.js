// The details of one node: its history, what a Pod costs on it, and why its capacity is what it is.

import * as ask from "./ask.js";
import { Chart } from "./chart.js";
import { drawTruth, keyline, truthLegend } from "./cluster_panel.js";
import { el, set, similar, table } from "./dom.js";
import { CAPACITY, PODS, PRESSURE, SD, USAGE, joined, roomOf } from "./fleet.js";
import * as format from "./format.js";
import { Loads } from "./loads.js";

const RECENT = 6;
const ASK_AFTER_MS = 2000;
const MODES = {
  measured: "as measured",
  predicted: "ahead of the measurement, since Pods have just started or ended",
  warming: "cautious, since it has measured little yet",
  saturated: "full, so that readings are only a lower bound",
};

export class NodePanel {
  constructor(page, name) {
    this.page = page;
    this.name = name;
    this.line = el("p", { class: "lead" });
    this.state = el("span", { class: "chip" });
    this.against = el("p", { class: "soft" });
    this.truth = new Chart(page.theme, `Capacity of ${name} against what runs, in Pods`);
    this.usage = new Chart(page.theme, `Usage of ${name}`);
    // What the scheduler kept of the time before the page was opened.
    this.before = [];
    for (const chart of [this.truth, this.usage]) chart.onPick((ms) => page.goTo(ms));
    this.usageLegend = el("p", { class: "keyline" });
    this.costs = el("div");
    this.why = el("div", { class: "asked", "aria-live": "polite" }, el("p", { class: "soft" }, "asking the scheduler ..."));
    this.pods = el("ul", { class: "plain" });
    // What each of them uses, by UID.
    this.uses = new Map();
    this.loads = new Loads(page.bus);
    this.loads.follow(name);
    this.askedMs = 0;
    this.recent = el("ul", { class: "plain" });
    this.root = el(
      "div", {},
      el("div", { class: "head" }, el("h2", {}, name, " ", this.state), page.closeButton()),
      this.line,
      el("h3", {}, "Capacity against what runs, in Pods"), truthLegend(), this.truth.canvas,
      el("h3", {}, "Usage, and (dashed) the share of time in which work waited for a CPU"), this.usageLegend, this.usage.canvas,
      el("h3", {}, "Pods here, the newest first, and what each uses"), this.pods,
      el("h3", {}, "What a Pod costs here"), this.costs,
      el("div", { class: "head" }, el("h3", {}, "The scheduler's view"), el("button", { type: "button", class: "small", onclick: () => this.ask() }, "Ask again")),
      this.why,
      el("h3", {}, "Against the cluster's model"), this.against,
      el("h3", {}, "Newest decisions for it"), this.recent,
    );
    this.ask();
  }

  close() {
    this.loads.follow(null);
  }

  draw() {
    const { fleet, theme } = this.page;
    const node = fleet.nodes.get(this.name) || null;
    this.drawHistory(node, theme);
    this.drawUses();
    if (!node) {
      set(this.line, "No report from this node since the page was opened.");
      return;
    }
    set(this.state, node.state);
    this.state.dataset.state = node.state;
    set(this.line, sentence(node, fleet.age(node, Date.now())));
    this.drawCosts(node.ad);
    this.drawAgainst(node);
    this.drawRecent();
    // The list names Pods: it is asked for again when the node has others, but not at each of many that come and go.
    if (node.ad.covers.join() !== this.covered && Date.now() - this.askedMs > ASK_AFTER_MS) this.ask();
  }

  // A scheduler of an earlier version does not name UIDs. A Pod that waits to run uses nothing now.
  useOf({ uid, stuck }) {
    const shown = el("span", { class: "soft uses" });
    if (uid && !stuck) this.uses.set(uid, shown);
    return shown;
  }

  drawUses() {
    for (const [uid, shown] of this.uses) set(shown, this.loads.words(uid));
  }

  drawPods({ pods = [], placed = 0, baseline_pods: own = 0 }) {
    const rest = placed - own - pods.length;
    this.uses.clear();
    this.pods.replaceChildren(
      ...pods.map((each) => el("li", {}, el(
        "button", { type: "button", onclick: () => this.page.openPod(`${each.namespace}/${each.pod}`) },
        el("span", {}, `${each.namespace}/${each.pod}`, el("br"), el("span", { class: "soft" }, each.class), ...stuck(each)), this.useOf(each),
      ))),
      ...(rest > 0 ? [el("li", { class: "soft" }, `and ${format.whole(rest)} more`)] : []),
      ...(placed - own === 0 ? [el("li", { class: "soft" }, "none")] : []),
    );
  }

  drawHistory(node, theme) {
    const { ring, dims } = joined(node, this.before);
    const shown = { nowMs: Date.now(), atMs: this.page.atMs };
    const ink = (dim) => theme.lines[Math.max(0, this.page.fleet.dims.indexOf(dim)) % theme.lines.length];
    drawTruth(this.truth, ring, [PODS, CAPACITY, SD], { ...shown, theme, words: node ? sentence(node, 0) : "" });
    const layers = dims.map((dim, i) => ({ kind: "line", colour: ink(dim), value: (at) => ring.columns[USAGE + i][at] }));
    layers.push({ kind: "line", colour: ink("cpu"), dash: [3, 3], value: (at) => ring.columns[PRESSURE][at] });
    this.usage.draw(ring, layers, { ...shown, top: 1, tick: format.percent });
    keyline(this.usageLegend, this.page.fleet.dims, theme);
  }

  drawCosts(ad) {
    const rows = ad.dims.map((dim, i) => [
      format.dimension(dim), format.percent(ad.usage[i]), format.estimate(dim, ad.baseline[i]), format.estimate(dim, ad.cost[i]),
      ad.headroom ? format.quantity(dim, ad.headroom[i]) : "–",
    ]);
    const wanted = JSON.stringify(rows);
    if (this.costs.dataset.shown === wanted) return;
    this.costs.dataset.shown = wanted;
    this.costs.replaceChildren(table(`What a Pod costs on ${this.name}`, ["dimension", "usage", "idle", "one Pod", "left"], rows));
  }

  drawAgainst(node) {
    const found = this.page.model.against(node);
    set(this.against, found
      ? `Its work points ${format.degrees(found.angle)} away from the cluster's, and is ${format.times(found.strength)} as strong.`
      : "Not known yet: the node or the cluster has no direction.");
  }

  drawRecent() {
    const found = this.page.flow.decisions.filter((decision) => decision.node === this.name).slice(-RECENT).reverse();
    const wanted = found.map((decision) => decision.id).join();
    if (this.recent.dataset.shown === wanted) return;
    this.recent.dataset.shown = wanted;
    this.recent.replaceChildren(...found.map((decision) => el("li", {}, el(
      "button", { type: "button", onclick: () => this.page.openDecision(decision) },
      el("span", {}, decision.key), el("span", { class: "soft" }, `${format.clock(decision.atMs)}, after ${format.seconds(decision.waited)}`),
    ))));
    if (found.length === 0) this.recent.append(el("li", { class: "soft" }, "none since the page was opened"));
  }

  async ask() {
    this.askedMs = Date.now();
    this.covered = this.page.fleet.nodes.get(this.name)?.ad.covers.join();
    this.loads.ask();
    try {
      const answer = await ask.node(this.page.bus, this.name);
      this.before = answer.history;
      this.why.replaceChildren(...explained(this.page, answer));
      this.drawPods(answer);
      this.draw();
    } catch (error) {
      this.why.replaceChildren(el("p", { class: "soft" }, `No answer from the scheduler: ${error.message}.`));
    }
  }
}

function sentence(node, age) {
  const { ad, state, reserved } = node;
  const held = reserved === null ? " (advertised)" : reserved ? ` (${format.whole(reserved)} reserved)` : "";
  const room = `Room for ${format.podsAbout(roomOf(node), ad.sd)} more Pods${held}`;
  const by = ad.bottleneck ? `; ${format.dimension(ad.bottleneck)} sets it` : "";
  const limit = ad.limit === null ? "" : `, ${format.whole(ad.limit)} at most for now`;
  const old = state === "fresh" ? "" : ` Reported ${format.seconds(age)} ago.`;
  return `${format.count(ad.pods, "Pod")} ${ad.pods === 1 ? "runs" : "run"} here. ${room}${by}${limit}; ${MODES[ad.mode] || ad.mode}.${old}`;
}

// Why a Pod here does not run; nothing where none of its containers waits.
function stuck({ stuck: why }) {
  return why ? [el("br"), el("span", { class: "trouble" }, why)] : [];
}

export function explained(page, answer) {
  if (!answer.known) return [el("p", {}, `${format.capital(answer.why)}.`), ...similar((answer.nearest || []).map((name) => page.nodeButton(name)))];
  const facts = [
    ["free by its rules", answer.free === null ? "nothing advertised" : `${format.pods(answer.free)} Pods`],
    ["reserved", answer.reserved_by.length ? `${format.count(answer.reserved, "Pod")}: ${answer.reserved_by.map((each) => each.pod).slice(0, 5).join(", ")}` : format.count(answer.reserved, "Pod")],
    ["placed there", `${format.count(answer.placed, "Pod")}${answer.baseline_pods ? `, ${format.whole(answer.baseline_pods)} of them the node's own` : ""}`],
    ["refused by", answer.refused_by ? `${answer.refused_by.means}: ${answer.refused_by.detail}` : "nothing"],
    ["trusted", answer.trust.is_suspect ? "no: its reports do not include its Pods" : "yes"],
  ];
  const bounds = answer.bounds.slice(0, 6).map((each) => [format.dimension(each.what), format.pods(each.pods), each.detail]);
  return [
    el("dl", { class: "facts" }, ...facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
    ...(bounds.length ? [table("What bounds the Pods of this node", ["bound", "Pods", "because"], bounds)] : []),
  ];
}
