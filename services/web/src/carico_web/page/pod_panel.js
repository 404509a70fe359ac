// Why a Pod is where it is, or why it waits: the decision's own record first, then the scheduler's current answer.

import * as ask from "./ask.js";
import { el, set, similar, table } from "./dom.js";
import { outcome } from "./flow.js";
import * as format from "./format.js";
import { Loads } from "./loads.js";

const SIMILAR_MOST = 5;

export class PodPanel {
  // `decision`: the record that was clicked, or null if only the name is known.
  constructor(page, namespace, name, decision) {
    this.page = page;
    this.now = el("div", { class: "asked", "aria-live": "polite" }, el("p", { class: "soft" }, "asking the scheduler ..."));
    this.record = el("div");
    this.uses = el("p", { class: "soft" });
    this.loads = new Loads(page.bus);
    this.root = el(
      "div", {},
      el("div", { class: "head" }, el("h2", {}, `${namespace}/${name}`), page.closeButton()),
      this.record,
      el("div", { class: "head" }, el("h3", {}, "The Pod now"), el("button", { type: "button", class: "small", onclick: () => this.ask(namespace, name) }, "Ask again")),
      this.now, this.uses,
    );
    this.show(decision);
    this.ask(namespace, name);
  }

  close() {
    this.loads.follow(null);
  }

  draw() {
    set(this.uses, this.runs ? `It uses ${this.loads.words(this.runs)}.` : "");
  }

  show(decision) {
    this.shown = decision;
    this.record.replaceChildren(...(decision ? recorded(this.page, decision) : []));
  }

  async ask(namespace, name) {
    try {
      const { explained, decision } = await ask.pod(this.page.bus, namespace, name);
      // What is looked for by name may be a node.
      const nodes = explained.state === "unknown" ? await ask.nodesLike(this.page.bus, name).catch(() => []) : [];
      if (this.page.panel !== this) return;
      if (decision && !this.shown) this.show(this.page.here(decision));
      this.now.replaceChildren(...standing(this.page, explained, nodes));
      // One that waits to run again uses nothing now.
      this.runs = explained.phase === "Running" && !explained.stuck ? explained.uid : "";
      this.loads.follow(this.runs ? explained.node : null);
      this.loads.ask();
      this.draw();
    } catch (error) {
      this.now.replaceChildren(el("p", { class: "soft" }, `No answer from the scheduler: ${error.message}.`));
    }
  }
}

function recorded(page, decision) {
  const facts = [
    ["decided", format.clock(decision.atMs) + (decision.decidedUs > 0 ? `, in ${format.seconds(decision.decidedUs / 1e6)}` : "")],
    ["waited until then", format.seconds(decision.waited) + (decision.attempt > 0 ? `, ${format.count(decision.attempt, "attempt")}` : "")],
    ...(decision.free === null ? [] : [["free there", `${format.pods(decision.free)} Pods, ${format.pods(decision.threshold)} needed`]]),
  ];
  const rows = decision.candidates.map((each) => [
    page.nodeButton(each.node),
    each.capacity === null ? "–" : format.pods(each.capacity),
    format.pods(each.reserved),
    each.age === null ? "–" : format.seconds(each.age),
    each.rejection ? `${each.rejection.reason.replaceAll("_", " ")}: ${each.rejection.detail}` : each.node === decision.node ? "chosen" : `score ${each.score === null ? "–" : format.score(each.score)}`,
  ]);
  return [
    el("p", { class: "lead" }, el("span", { class: "chip", "data-outcome": decision.outcome }, outcome(decision)), " ", `${decision.message}.`),
    el("dl", { class: "facts" }, ...facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text)))),
    ...(decision.refused.length ? [el("p", { class: "soft" }, `Refused: ${decision.refused.map(([reason, nodes]) => `${format.whole(nodes)} by ${reason.replaceAll("_", " ")}`).join(", ")}.`)] : []),
    el("h3", {}, "Candidates at the decision"),
    table("Candidates at the decision", ["node", "capacity, Pods", "reserved, Pods", "age", "verdict"], rows),
  ];
}

// `nodes`: the nodes that may be meant by a name that no Pod has.
export function standing(page, answer, nodes = []) {
  const place = answer.node ? [" on ", page.nodeButton(answer.node)] : [];
  // A scheduler of an earlier version does not judge.
  const { why: never = "", hints = [] } = answer.judgement || {};
  const found = [el("p", {}, el("b", {}, never ? `${answer.state}, and can never fit as it is` : answer.state), ...place, `: ${answer.why}.`)];
  if (never) found.push(el("p", {}, `${format.capital(never)}.`));
  // A scheduler of an earlier version does not state it.
  if (answer.stuck) found.push(el("p", { class: "trouble" }, `${format.capital(answer.stuck)}.`));
  if (answer.state === "bound" && answer.covered === false) found.push(el("p", { class: "soft" }, "Its node's reports do not count it yet: its room is reserved."));
  for (const hint of hints) found.push(el("p", { class: "soft" }, hint));
  if (answer.state === "unknown") found.push(...similar([...nodes.map((name) => page.nodeButton(name)), ...podsLike(page, answer).map((key) => page.podButton(key))]));
  const waiting = waitWords(answer);
  if (waiting) found.push(el("p", { class: "soft" }, waiting));
  if (answer.next_try_s != null) found.push(el("p", { class: "soft" }, `Next try in ${format.seconds(answer.next_try_s)}.`));
  const waits = answer.state === "waiting" || answer.state === "gated";
  if (waits && answer.candidates?.length) {
    const rows = answer.candidates.map((each) => [
      page.nodeButton(each.node), each.free === null ? "–" : format.pods(each.free), each.freshness,
      each.rejected_by ? `${each.rejected_by.means}: ${each.rejected_by.detail}` : "has room",
    ]);
    found.push(table("Nodes now", ["node", "free, Pods", "state", "why"], rows));
  }
  return found;
}

// Pods of this name in other namespaces, those with names like it, and those of which the page has heard, as of a job.
function podsLike(page, { namespace, pod, nearest = [], namespaces = [] }) {
  const key = `${namespace}/${pod}`;
  const known = [...page.flow.byPod.keys()].filter((each) => each.startsWith(key) && each !== key);
  const found = [...namespaces.map((each) => `${each}/${pod}`), ...nearest.map((each) => `${namespace}/${each}`), ...known];
  return [...new Set(found)].slice(0, SIMILAR_MOST);
}

// For how long a Pod has waited, and how many wait before it; empty where it does not wait.
export function waitWords({ state, waited_s: waited, before }) {
  if (state !== "waiting" || waited == null) return "";
  // A scheduler that shares the work knows no place for a Pod that another one decides on.
  const queue = before == null ? "" : before === 0 ? "; no Pod waits before it" : `; ${format.count(before, "Pod")} ${before === 1 ? "waits" : "wait"} before it`;
  return `For ${format.seconds(waited)}${queue}.`;
}
