// Queries to the services, sent when a user opens something, and not repeated.

import * as signals from "./signals.js";

const NEWEST = 200;
const END_OF_BATCH = 204;

// Schedulers share the queries, and a standby says so: a retry reaches the leader.
const TIMES = 6;

async function scheduler(bus, verb, fields) {
  for (let time = 1; ; time += 1) {
    try {
      return signals.parse(await bus.request(signals.query("scheduler", verb), fields));
    } catch (error) {
      if (time === TIMES || !/stands by/.test(error.message)) throw error;
    }
  }
}

// Why a node's capacity is what it is.
export function node(bus, name) {
  return scheduler(bus, "node.explain", { node: name, limit: 20 });
}

// Why a Pod is where it is, or why it waits; `decision` is null if none is stored.
export async function pod(bus, namespace, name) {
  const explained = await scheduler(bus, "pod.explain", { namespace, pod: name, limit: 20 });
  return { explained, decision: explained.decision ? signals.toDecision(explained.decision) : null };
}

// The newest decisions that the stream keeps, oldest first: https://github.com/nats-io/nats-architecture-and-design ADR-31.
export async function recentDecisions(bus) {
  const [last] = await bus.requestAll(signals.DECISIONS_GET, { last_by_subj: "carico.v1.decision.>" }, () => true);
  if (last.status >= 400) return [];
  const newest = Number(last.headers.get("Nats-Sequence"));
  const wanted = { seq: Math.max(1, newest - NEWEST + 1), batch: NEWEST, next_by_subj: "carico.v1.decision.>" };
  const found = await bus.requestAll(signals.DECISIONS_GET, wanted, (m) => m.status === END_OF_BATCH || m.status >= 400);
  return found.filter((m) => m.status === 0).map((m) => signals.decodeDecision(m.payload));
}

// The latest model; null if there is none.
export async function model(bus) {
  const [found] = await bus.requestAll(signals.MODEL_GET, {}, () => true);
  return found.status >= 400 ? null : signals.decodeModel(found.payload);
}
