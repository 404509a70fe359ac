// Queries to the services: sent when a user opens something, and for what is kept once a connection is there.

import { LateAnswer } from "./bus.js";
import * as signals from "./signals.js";

const NEWEST = 200;
// Of 3,000 reservations each: more than there are, so that no answer keeps the page asking.
const PAGES_MOST = 64;

// Schedulers share the queries, and a standby says so: a retry reaches the leader.
const TIMES = 6;
// How long the first and the last question about what is kept wait for their answer.
const FIRST_WITHIN_MS = 4000;
const LAST_WITHIN_MS = 16000;

// The page asks for it only when it connects: a busy machine's late answer would be missing until it is loaded again. An
// aggregator that NATS answers too late says TimeoutError.
async function kept(question) {
  for (let time = 1; ; time += 1) {
    try {
      // An answer that needs longer than the last question waited would be late again, and each question delays the next.
      return await question(Math.min(FIRST_WITHIN_MS * 2 ** (time - 1), LAST_WITHIN_MS));
    } catch (error) {
      const isLate = error instanceof LateAnswer || /TimeoutError/.test(error.message);
      if (time === TIMES || !isLate) throw error;
    }
  }
}

async function scheduler(bus, verb, fields) {
  for (let time = 1; ; time += 1) {
    try {
      return signals.parse(await bus.request(signals.query("scheduler", verb), fields));
    } catch (error) {
      if (time === TIMES || !/is a standby/.test(error.message)) throw error;
    }
  }
}

// Why a node's capacity is what it is, and its last quarter of an hour.
export async function node(bus, name) {
  const answer = await scheduler(bus, "node.explain", { node: name, limit: 20, history: true });
  return { ...answer, history: signals.toRows(answer.history, Date.now()) };
}

// The nodes that may be meant by a name.
export async function nodesLike(bus, name) {
  const { known, nearest = [] } = await node(bus, name);
  return known ? [name] : nearest;
}

// What the Pods of a node use, as its agent last reported it; bytes, as those of its reports.
export async function loads(bus, node) {
  const [answer] = await bus.requestAll(signals.queryAgent(node, "loads.get"), {}, () => true);
  return answer.payload;
}

// Why a Pod is where it is, or why it waits; `decision` is null if none is stored.
export async function pod(bus, namespace, name) {
  const explained = await scheduler(bus, "pod.explain", { namespace, pod: name, limit: 20 });
  return { explained, decision: explained.decision ? signals.toDecision(explained.decision) : null };
}

// Node and UID of each placed Pod that its node's reports do not cover yet.
export async function reserved(bus) {
  const found = [];
  let after = "";
  for (let pages = 0; pages === 0 || (after && pages < PAGES_MOST); pages += 1) {
    const answer = await scheduler(bus, "reservations.list", { after });
    found.push(...answer.reservations.map(({ node, uid }) => [node, uid]));
    after = answer.next;
  }
  return found;
}

// The Pods that wait, by reason: a few of each are named.
export async function waiting(bus) {
  const answer = await scheduler(bus, "waiting.list", {});
  return { pods: answer.pods, reasons: answer.reasons };
}

// The traffic between nodes, and the moves of Pods, where a rescheduler leads.
export async function traffic(bus) {
  return signals.parse(await bus.request(signals.query("rescheduler", "traffic.list"), {}));
}

export async function moves(bus) {
  return signals.parse(await bus.request(signals.query("rescheduler", "moves.list"), {}));
}

// The newest decision of each Pod that the stream keeps, oldest first.
export async function recentDecisions(bus) {
  const answer = signals.parse(await kept((withinMs) => bus.request(signals.query("aggregator", "kept.decisions"), { limit: NEWEST }, withinMs)));
  return answer.kept.map(([, text]) => signals.decodeDecision(text));
}

// The summaries of the last quarter of an hour, oldest first.
export async function summaries(bus) {
  const answer = signals.parse(await kept((withinMs) => bus.request(signals.query("aggregator", "kept.summaries"), {}, withinMs)));
  return answer.kept.map(([, text]) => signals.decodeSummary(text));
}

// The latest model; null if there is none.
export async function model(bus) {
  const [found] = await kept((withinMs) => bus.requestAll(signals.query("aggregator", "kept.model"), {}, () => true, withinMs));
  return found.payload.length === 0 ? null : signals.decodeModel(found.payload);
}
