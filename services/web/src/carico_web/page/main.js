// The page: settings, bus, state, and who draws what.

import * as access from "./access.js";
import * as ask from "./ask.js";
import { Bus } from "./bus.js";
import { ClusterPanel } from "./cluster_panel.js";
import { byId, el, say } from "./dom.js";
import { Earlier } from "./earlier.js";
import { Fleet } from "./fleet.js";
import { Flow, PLACED } from "./flow.js";
import * as format from "./format.js";
import { Frames } from "./frames.js";
import { HeatMap } from "./heatmap.js";
import { CLOCKS_MS, History, addressAt, atOf } from "./history.js";
import { HistoryView } from "./history_view.js";
import { listenToKeys } from "./keys.js";
import { Members } from "./members.js";
import { ModelView } from "./model_view.js";
import { NodePanel } from "./node_panel.js";
import { PodPanel } from "./pod_panel.js";
import * as signals from "./signals.js";
import { drawSummary } from "./summary.js";
import { Theme } from "./theme.js";

const AGAIN_MS = 3000;
const FOUND_MOST = 200;
const RESERVED_EVERY_MS = 5000;

class Page {
  constructor(settings) {
    this.settings = settings;
    this.theme = new Theme(() => this.themed());
    this.frames = new Frames();
    this.fleet = new Fleet(settings.lease_s);
    this.map = new HeatMap(byId("map"), {
      fleet: this.fleet, theme: this.theme, frames: this.frames, tip: byId("map-tip"),
      open: (name) => this.openNode(name), said: (text) => say("map-said", text),
    });
    this.flow = new Flow(byId("flow"), byId("flow-list"), { theme: this.theme, frames: this.frames, open: (decision) => this.openDecision(decision) });
    this.model = new ModelView(byId("fan"), byId("strips"), this);
    this.history = new History();
    this.members = new Members();
    // By how much this browser's clock is ahead of the scheduler's; 0 where that does not matter, or is not known yet.
    this.aheadMs = 0;
    // The moment that is looked at; null: now. Like all times here by this browser's clock; an address has the cluster's.
    this.atMs = atOf(location.search);
    this.historyView = new HistoryView(byId("history"), this);
    this.bus = new Bus({ address: access.address(settings), identify: (nonce) => access.identify(settings, nonce), notify: (state) => this.connectionChanged(state) });
    this.decided = new Map();
    // null: all that is shown is of the cluster that is connected.
    this.earlier = null;
    this.listen();
    // Before the rest is built: the connection takes longer.
    this.bus.start();
    this.drawn();
    this.route();
    this.themed();
    setInterval(() => this.tick(), 1000);
    addEventListener("hashchange", () => this.route());
    addEventListener("popstate", () => this.moved());
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
    if (settings.cluster) {
      say("cluster-name", settings.cluster);
      document.title = `${settings.cluster} · CARICO`;
    }
  }

  // ---- what is drawn, and the maximum rate

  drawn() {
    this.frames.add("map", 100, (now) => {
      this.map.draw(now);
      // While nodes join, as in the page's first second, they are counted with each picture of them.
      if (this.fleet.hasNew) this.frames.touchNow("summary");
    });
    this.frames.add("flow", 150, () => this.flow.draw());
    this.frames.add("list", 250, () => this.flow.drawList());
    this.frames.add("panel", 500, () => this.panel?.draw());
    this.frames.add("fan", 1000, () => this.model.drawFan());
    this.frames.add("strips", 1000, () => this.model.drawStrips());
    this.frames.add("history", 1000, () => this.historyView.draw());
    this.frames.add("summary", 250, () => {
      if (this.fleet.hasNew) this.fleet.sum(Date.now());
      drawSummary(this);
    });
  }

  // ---- messages from the bus

  listen() {
    this.bus.subscribe(signals.CAPACITY_ALL, (m) => this.advertised(signals.decodeAdvertisement(m.subject, m.payload)));
    this.bus.subscribe(signals.DECISION_ALL, (m) => this.decide(signals.decodeDecision(m.payload)));
    this.bus.subscribe(signals.MODEL, (m) => this.modelled(signals.decodeModel(m.payload)));
    // Drawn with the panel, twice a second at most.
    this.bus.subscribe(signals.MEMBER_ALL, (m) => this.members.take(signals.decodeHeartbeat(m.payload), Date.now()));
    this.bus.subscribe(signals.SUMMARY, (m) => this.summarised(signals.decodeSummary(m.payload)));
  }

  summarised(summary) {
    this.setClock(Date.now() - summary.atMs);
    if (!this.history.take(this.here(summary), true)) return;
    this.frames.touch("history");
    if (!this.frames.isHeld) this.panel?.askWaiting?.();
  }

  // aheadMs: by the newest summary. What is known already moves by the difference.
  setClock(aheadMs) {
    this.history.aheadMs = aheadMs;
    if (Math.abs(aheadMs - this.aheadMs) < CLOCKS_MS) return;
    const before = this.aheadMs;
    this.aheadMs = Math.abs(aheadMs) < CLOCKS_MS ? 0 : aheadMs;
    this.flow.shift(this.aheadMs - before);
    this.history.shift(this.aheadMs - before);
    this.fleet.recallAll(this.history.summaries);
    this.moved();
    this.frames.touchAll();
  }

  // A message with its times by this browser's clock.
  here(message) {
    const events = message.events?.map((each) => ({ ...each, atMs: each.atMs + this.aheadMs }));
    return { ...message, atMs: message.atMs + this.aheadMs, ...(events && { events }) };
  }

  advertised(advertisement) {
    if (this.earlier?.hears(advertisement, Date.now())) this.earlier = null;
    const node = this.fleet.take(advertisement, Date.now());
    if (!node) return;
    this.offerMetrics();
    this.frames.touch("map");
    if (this.panel?.name === node.name) this.frames.touch("panel");
  }

  decide(said) {
    const decision = this.here(said);
    if (!this.flow.take(decision)) return;
    const node = decision.outcome === PLACED ? this.fleet.nodes.get(decision.node) : null;
    if (node && Date.now() - decision.atMs < 5000) {
      node.placedMs = performance.now();
      this.frames.touch("map");
    }
    for (const part of ["flow", "list", "summary"]) this.frames.touch(part);
  }

  modelled(model) {
    this.model.take(model);
    this.heardModelMs = Date.now();
    this.frames.touch("fan");
    this.frames.touch("strips");
  }

  connectionChanged(state) {
    const words = { live: "live", connecting: "connecting", away: "away" };
    byId("bus-state").dataset.kind = state.kind;
    byId("bus-state").lastElementChild.textContent = words[state.kind];
    if (state.kind === "live") {
      this.awaySince = "";
      banner("");
      if (this.fleet.nodes.size > 0) this.earlier = new Earlier(this, Date.now());
      this.catchUp();
    } else if (state.kind === "away") {
      // Once, as a time of day: a line that changed every second would be read out every second.
      this.awaySince ||= ` since ${format.clock(Date.now())}`;
      const shown = this.fleet.nodes.size > 0 ? " The page shows the last known state." : "";
      banner(`The bus does not answer at ${this.bus.address}${this.awaySince}${state.why ? ` (${state.why})` : ""}: retrying.${shown}`);
    }
    this.frames.touch("summary");
  }

  // What was published before this page subscribed, or while the bus was not available.
  async catchUp() {
    this.panel?.ask?.(...(this.asked || []));
    this.askReserved();
    const late = (what) => (error) => console.warn(`${what} not available: ${error.message}`);
    // Aggregators answer one after the other: what takes longest is asked last.
    await Promise.all([
      // An aggregator of an earlier version does not answer.
      ask.summaries(this.bus).then((all) => this.remember(all)).catch(late("the last quarter of an hour is")),
      ask.model(this.bus).then((model) => model && !this.model.model && this.modelled(model)).catch(late("the model is")),
      ask.recentDecisions(this.bus).then((all) => all.forEach((each) => this.decide(each))).catch(late("earlier decisions are")),
    ]);
    this.frames.touch("panel");
    this.panel?.askWaiting?.();
  }

  remember(summaries) {
    for (const summary of summaries) this.history.take(this.here(summary));
    // Once what it is about is there: who follows a link to a moment should see it first.
    if (this.atMs !== null && !this.hasShownMoment && !location.hash) byId("history-card").scrollIntoView();
    this.hasShownMoment = true;
    this.fleet.recall(this.history.summaries);
    this.offerMetrics();
    this.frames.touchNow("history");
  }

  // Nothing of a cluster that another has replaced under its name may look like this one's; the model states its age.
  forget({ begunMs, decisions, summaries }) {
    this.earlier = null;
    this.decided.clear();
    this.flow.forget(decisions);
    this.history.forget(summaries);
    this.fleet.forget(begunMs);
    this.remember([]);
    this.frames.touchAll();
  }

  // Nodes advertise what they measure: without the Pods that have just come, or do not start.
  async askReserved() {
    this.askedMs = Date.now();
    this.fleet.reserve(await ask.reserved(this.bus).catch(() => null));
    for (const part of ["map", "panel", "summary"]) this.frames.touch(part);
  }

  tick() {
    if (this.earlier?.isOfAnother(Date.now())) this.forget(this.earlier);
    if (this.fleet.tick(Date.now())) this.frames.touch("map");
    if (!document.hidden && !this.frames.isHeld && Date.now() - this.askedMs >= RESERVED_EVERY_MS) this.askReserved();
    for (const part of ["map", "flow", "panel", "summary", "fan", "strips", "history"]) this.frames.touch(part);
  }

  // ---- the page itself

  themed() {
    const isDark = this.theme?.name === "dark";
    byId("theme").textContent = isDark ? "Light" : "Dark";
    byId("theme").setAttribute("aria-label", isDark ? "Change to light" : "Change to dark");
    if (!this.map) return;
    this.map.drawLegend(byId("map-legend"));
    this.frames.touchAll();
  }

  // The first message with a dimension may be an advertisement or one of the past.
  offerMetrics() {
    if (this.offered === this.fleet.dims) return;
    this.offered = this.fleet.dims;
    byId("map-metric").replaceChildren(...this.map.metrics().map(([metric, text]) => el(
      "button", { type: "button", role: "radio", "data-metric": metric, onclick: () => this.measure(metric) }, text,
    )));
    this.markMetric();
  }

  // What is printed states of which cluster it is, and when it was.
  print(isPrinted) {
    say("printed", isPrinted ? `CARICO${this.settings.cluster ? `, cluster ${this.settings.cluster}` : ""}, ${format.day(Date.now())} ${format.clock(Date.now())}` : "");
    this.theme.print(isPrinted);
    this.frames.drawNow();
  }

  // One of them is reached by Tab, the others by arrows, as radio buttons are. They stay the same elements, and so does focus.
  markMetric() {
    for (const button of byId("map-metric").children) {
      const isChosen = button.dataset.metric === this.map.metric;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
  }

  measure(metric) {
    this.map.metric = metric;
    this.map.drawLegend(byId("map-legend"));
    this.markMetric();
    this.frames.touch("map");
  }

  nextMeasure(step = 1) {
    const all = this.map.metrics().map(([metric]) => metric);
    this.measure(all[(all.indexOf(this.map.metric) + step + all.length) % all.length]);
  }

  metricKey(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.nextMeasure(step);
    byId("map-metric").querySelector('[aria-checked="true"]').focus();
  }

  // ---- what is opened: in the address, so that it can be passed on and gone back from

  openNode(name) {
    location.hash = `node/${name}`;
  }

  // Looks at one moment of the last quarter of an hour; null: back to now.
  goTo(ms) {
    history.pushState(null, "", addressAt(location, ms === null ? null : ms - this.aheadMs));
    this.moved();
  }

  moved() {
    const atMs = atOf(location.search);
    this.atMs = atMs === null ? null : atMs + this.aheadMs;
    this.historyView.draw();
    this.panel.draw();
  }

  openPod(key) {
    location.hash = `pod/${key}`;
  }

  openDecision(decision) {
    this.decided.set(decision.key, decision);
    if (location.hash === `#pod/${decision.key}`) this.route();
    else location.hash = `pod/${decision.key}`;
  }

  close() {
    location.hash = "";
  }

  closeButton() {
    return el("button", { type: "button", class: "small", onclick: () => this.close(), "aria-label": "Back to the cluster" }, "Close");
  }

  nodeButton(name) {
    return el("button", { type: "button", class: "link", onclick: () => this.openNode(name) }, name);
  }

  podButton(key) {
    return el("button", { type: "button", class: "link", onclick: () => this.openPod(key) }, key);
  }

  route() {
    const [kind, ...rest] = decoded(location.hash.slice(1)).split("/");
    const isNode = kind === "node" && rest.length === 1;
    const isPod = kind === "pod" && rest.length === 2;
    this.asked = isPod ? rest : [];
    this.panel?.close?.();
    if (isNode) this.panel = new NodePanel(this, rest[0]);
    else if (isPod) this.panel = new PodPanel(this, ...rest, this.decided.get(rest.join("/")) || this.flow.byPod.get(rest.join("/")) || null);
    else this.panel = new ClusterPanel(this);
    this.map.selected = isNode ? rest[0] : null;
    this.model.selected = this.map.selected;
    byId("panel").replaceChildren(this.panel.root);
    // Also while paused: what is opened should show.
    this.panel.draw();
    this.focusOn(isNode || isPod);
    for (const part of ["map", "panel", "fan", "strips"]) this.frames.touch(part);
  }

  // Opening something moves focus to it, and closing moves it back.
  focusOn(isOpened) {
    const panel = byId("panel");
    const focused = document.activeElement;
    if (isOpened) {
      // Not back into a text: there, keys would be letters.
      if (focused !== document.body && !panel.contains(focused)) this.opener = focused.matches("input") ? byId("map") : focused;
      panel.focus({ preventScroll: matchMedia("(min-width: 1000px)").matches });
    } else if (this.opener) {
      (this.opener.isConnected ? this.opener : byId("map")).focus({ preventScroll: true });
      this.opener = null;
    }
  }

  find(text) {
    const wanted = text.trim();
    if (!wanted) return;
    if (this.fleet.nodes.has(wanted)) this.openNode(wanted);
    else {
      const key = wanted.includes("/") ? wanted : [...this.flow.byPod.keys()].find((each) => each.endsWith(`/${wanted}`)) || `default/${wanted}`;
      location.hash = `pod/${key}`;
    }
  }

  suggest(text) {
    const names = [...this.fleet.nodes.keys(), ...this.flow.byPod.keys()].filter((name) => name.includes(text)).slice(0, FOUND_MOST);
    byId("find-names").replaceChildren(...names.map((name) => el("option", { value: name })));
  }

  hold() {
    const isHeld = !this.frames.isHeld;
    byId("pause").setAttribute("aria-pressed", String(isHeld));
    byId("pause").textContent = isHeld ? "Resume" : "Pause";
    this.frames.hold(isHeld);
  }
}

// The address may contain anything, also invalid escapes.
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function banner(text) {
  say("banner", text);
  byId("banner").hidden = !text;
}

async function start() {
  if (!globalThis.WebSocket) {
    banner("This browser has no WebSocket, which the page needs: use another one, or `carico top`.");
    byId("bus-state").dataset.kind = "away";
    byId("bus-state").lastElementChild.textContent = "no WebSocket";
    return;
  }
  let settings;
  try {
    const answer = await (globalThis.firstSettings || fetch("/settings.json"));
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    settings = await answer.json();
  } catch (error) {
    globalThis.firstSettings = null;
    banner(`This page's server does not answer (${error.message}): retrying.`);
    setTimeout(start, AGAIN_MS);
    return;
  }
  banner("");
  listenToKeys(new Page(settings));
}

start();
