// The messages of the bus as records: carico.v1.capacity.<node>, carico.v1.decision.<namespace>.<pod>, carico.v1.model,
// carico.v1.summary, carico.v1.member.<scheduler>, carico.v1.pods.<node>.
// Malformed messages are refused with an Error, as in carico_core.wire.

import * as msgpack from "./msgpack.js";

const decoder = new TextDecoder();

export const CAPACITY_ALL = "carico.v1.capacity.*";
export const DECISION_ALL = "carico.v1.decision.*.*";
export const MODEL = "carico.v1.model";
export const SUMMARY = "carico.v1.summary";
export const MEMBER_ALL = "carico.v1.member.*";

// The subject on which a node's agent reports what its Pods use.
export function loadsOf(node) {
  return `carico.v1.pods.${token(node)}`;
}

export function query(service, verb) {
  return `carico.v1.query.${service}.${verb}`;
}

export function queryAgent(node, verb) {
  return `carico.v1.query.agent.${token(node)}.${verb}`;
}

// A node's advertisement. Maps of dimensions are arrays in the order of `dims`.
export function decodeAdvertisement(subject, payload) {
  const m = parse(payload);
  const node = name(m.node);
  if (subject !== `carico.v1.capacity.${token(node)}`) throw new Error("a node that differs from its subject");
  const dims = Object.keys(object(m.usage)).sort();
  return {
    node,
    boot: String(m.boot),
    seq: finite(m.seq),
    // (ts - sampled_at): its age when it was sent. The receiver adds the time since its arrival.
    ageAtSending: Math.max(0, (finite(m.ts) - finite(m.sampled_at)) / 1e9),
    capacity: finite(m.capacity),
    sd: finite(m.capacity_sd),
    bottleneck: m.bottleneck == null ? null : String(m.bottleneck),
    mode: String(m.mode),
    pods: finite(m.pods),
    covers: list(m.covers),
    limit: m.limit == null ? null : finite(m.limit),
    dims,
    usage: dims.map((dim) => Math.min(1, Math.max(0, finite(m.usage[dim])))),
    direction: numbers(m.direction, dims),
    headroom: m.headroom == null ? null : numbers(m.headroom, dims),
    baseline: estimates(m.baseline, dims),
    cost: estimates(m.cost, dims),
    pressure: m.parts?.["cpu.pressure"] == null ? null : finite(m.parts["cpu.pressure"]),
    parts: Object.entries(object(m.parts || {})).map(([key, value]) => [key, finite(value)]),
    classes: m.classes == null ? [] : Object.entries(object(m.classes)).map(([key, item]) => [key, finite(item.pods)]),
  };
}

// A node's history in an answer, as {ms, <column>: value}, oldest first; a scheduler of an earlier version sends none.
export function toRows(answer, nowMs) {
  if (answer == null) return [];
  const columns = list(answer.columns).map(String);
  const rows = list(answer.rows).map((row) => Object.fromEntries(columns.map((column, i) => [column, finite(row[i])])));
  return rows.map(({ age_s, ...figures }) => ({ ms: nowMs - 1000 * age_s, ...figures }));
}

// What a node's Pods use, by UID: means of the last seconds, and memory.
export function decodeLoads(subject, payload) {
  const m = parse(payload);
  if (subject !== loadsOf(name(m.node))) throw new Error("a node that differs from its subject");
  return new Map(Object.entries(object(m.pods)).map(([uid, row]) => {
    const [, cores, , memory] = list(row);
    return [uid, { cores: finite(cores), memory: finite(memory) }];
  }));
}

export function decodeDecision(payload) {
  return toDecision(parse(payload));
}

// From JSON's fields, of a message or of an answer.
export function toDecision(m) {
  return {
    key: `${name(m.namespace)}/${name(m.pod)}`,
    namespace: m.namespace,
    pod: m.pod,
    id: String(m.id),
    atMs: finite(m.ts) / 1e6,
    outcome: String(m.outcome),
    node: m.node == null ? null : name(m.node),
    free: m.free == null ? null : finite(m.free),
    threshold: finite(m.threshold),
    attempt: finite(m.attempt),
    waited: finite(m.waited_s),
    decidedUs: finite(m.decided_us),
    message: String(m.message),
    refused: Object.entries(object(m.refused)),
    candidates: list(m.candidates).map((c) => ({
      node: name(c.node),
      capacity: c.capacity == null ? null : finite(c.capacity),
      reserved: finite(c.reserved),
      age: c.age_s == null ? null : finite(c.age_s),
      score: c.score == null ? null : finite(c.score),
      rejection: c.rejection == null ? null : { reason: String(c.rejection.reason), detail: String(c.rejection.detail) },
    })),
  };
}

// The model of the cluster: msgpack, its Gram matrix as raw little-endian float64.
export function decodeModel(payload) {
  const m = msgpack.decode(payload);
  const dims = list(m.get("dims")).map(String);
  const packed = m.get("gram");
  const data = packed.get("data");
  const size = dims.length;
  if (data.length !== size * size * 8) throw new Error("a matrix of another size");
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  const gram = dims.map((_, i) => dims.map((__, j) => finite(view.getFloat64(8 * (i * size + j), true))));
  return {
    dims,
    gram,
    replica: String(m.get("replica")),
    merge: String(m.get("merge")),
    contributors: finite(m.get("contributors")),
    weight: finite(m.get("weight")),
    epochMs: finite(m.get("epoch")),
  };
}

// The cluster at one moment, and what happened in the seconds before. Usage: 5 %, median, 95 % of the nodes.
export function decodeSummary(payload) {
  const m = parse(payload);
  return {
    id: `${String(m.boot)}-${finite(m.seq)}`,
    atMs: finite(m.ts) / 1e6,
    span: finite(m.span_s),
    nodes: Object.entries(object(m.nodes)).map(([state, number]) => [state, finite(number)]),
    pods: finite(m.pods),
    capacity: finite(m.capacity),
    sd: finite(m.capacity_sd),
    usage: new Map(Object.entries(object(m.usage)).map(([dim, spread]) => [dim, list(spread).map(finite)])),
    waiting: finite(m.waiting),
    oldest: finite(m.oldest_s),
    placed: finite(m.placed),
    placedWaited: finite(m.placed_waited_s),
    events: list(m.events).map((e) => ({ atMs: finite(e.at) / 1e6, kind: String(e.kind), about: String(e.about), state: String(e.state) })),
    leftOff: finite(m.left_off),
  };
}

// The heartbeat of a scheduler that shares the work with others. report: null if it does not report of itself.
export function decodeHeartbeat(payload) {
  const m = parse(payload);
  const r = m.report == null ? null : object(m.report);
  const passed = m.corrections == null ? { handed: {}, held: {} } : object(m.corrections);
  return {
    name: name(m.replica),
    leaving: m.leaving === true,
    // Pods that the holder of the Lease is to decide on, and Pods for which it holds room.
    handed: Object.keys(object(passed.handed)).length,
    held: Object.keys(object(passed.held)).length,
    report: r && {
      lease: r.lease === true,
      whyNot: String(r.why_not),
      stored: finite(r.stored),
      conflicts: finite(r.conflicts),
      requeued: finite(r.requeued),
      recent: finite(r.recent),
      viewAge: r.view_age_s == null ? null : finite(r.view_age_s),
      orphans: finite(r.orphans),
    },
  };
}

export function parse(payload) {
  return object(JSON.parse(typeof payload === "string" ? payload : decoder.decode(payload)));
}

// A node's name in a subject: dots would split it.
function token(node) {
  return node.replaceAll(".", "_");
}

function object(value) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("expected an object");
  return value;
}

function list(value) {
  if (!Array.isArray(value)) throw new Error("expected a list");
  return value;
}

function finite(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) throw new Error("expected a number");
  return value;
}

function name(value) {
  if (typeof value !== "string" || !/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(value)) throw new Error("expected a name");
  return value;
}

function numbers(values, dims) {
  const found = object(values || {});
  return dims.map((dim) => (Object.hasOwn(found, dim) ? finite(found[dim]) : 0));
}

function estimates(values, dims) {
  const found = object(values || {});
  return dims.map((dim) => (Object.hasOwn(found, dim) ? { mean: finite(found[dim].mean), sd: finite(found[dim].sd) } : null));
}
