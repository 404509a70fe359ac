// The nodes as their advertisements show them, and their history since the page was opened. What was before comes from
// the scheduler: of the whole cluster with its summaries, of a node that is opened with its answer.

import { HISTORY_MS } from "./history.js";
import { Ring } from "./ring.js";

// A node's own; what was before comes from the scheduler when it is opened.
const NODE_HISTORY_S = 300;
const APART_MS = 900;
const RING = Math.ceil((NODE_HISTORY_S * 1000) / APART_MS);
const TOTALS = Math.ceil(HISTORY_MS / APART_MS);
// A summary this close to a row of the page's own adds nothing.
const SAME_MS = 4000;
// carico_core.wire.freshness.
const FRESH_S = 2.5;
const AGEING_S = 5;
// A node that was absent for this long is removed from the map.
const FORGOTTEN_LEASES = 30;

const compare = new Intl.Collator("en", { numeric: true }).compare;

// Columns of a node's history, before one for each dimension.
export const PODS = 0;
export const CAPACITY = 1;
export const SD = 2;
export const PRESSURE = 3;
export const USAGE = 4;
const PRESSURE_PART = "cpu.pressure";
// What a row of an answer has except for usage.
const ROW = ["ms", "pods", "capacity", "capacity_sd", PRESSURE_PART];

export class Fleet {
  constructor(leaseS) {
    this.leaseS = leaseS;
    this.nodes = new Map();
    // In the order of the map; rebuilt when a node comes or goes.
    this.ordered = [];
    // A node has joined since the last sum.
    this.hasNew = false;
    this.dims = [];
    this.totals = null;
    // Summaries of the time before the page was opened, and of times when it was not connected.
    this.summaries = [];
    this.dropped = 0;
    // The UIDs of the Pods for which room is reserved, by node; null: no scheduler answers.
    this.reserved = null;
  }

  // Takes in the scheduler's reservations, as [node, UID]; null where none answers.
  reserve(found) {
    this.reserved = found && new Map();
    for (const [node, uid] of found || []) this.reserved.set(node, [...(this.reserved.get(node) || []), uid]);
    for (const node of this.nodes.values()) node.reserved = this.reservedOn(node);
  }

  // How many Pods were placed there that its report does not cover; null: not known.
  reservedOn({ name, ad }) {
    const found = this.reserved?.get(name) || [];
    return this.reserved && found.filter((uid) => !ad.covers.includes(uid)).length;
  }

  // The node, or null if the advertisement is not newer.
  take(ad, nowMs) {
    let node = this.nodes.get(ad.node);
    if (node && !isNewer(ad, node, nowMs, this.leaseS)) return null;
    if (!node) {
      node = { name: ad.node, index: 0, ad, heardMs: nowMs, placedMs: -Infinity, history: null, state: "fresh" };
      this.nodes.set(ad.node, node);
      this.isUnordered = true;
      this.hasNew = true;
    }
    if (!node.history || node.ad.dims.length !== ad.dims.length) node.history = new Ring(RING, USAGE + ad.dims.length);
    node.ad = ad;
    node.heardMs = nowMs;
    node.state = "fresh";
    node.reserved = this.reservedOn(node);
    node.history.push(nowMs, [ad.pods, ad.capacity, ad.sd, ad.pressure ?? NaN, ...ad.usage], APART_MS);
    this.learnDims(ad.dims);
    return node;
  }

  // Drops the nodes that were last heard before then, and the history of the cluster.
  forget(beforeMs) {
    for (const node of this.nodes.values()) if (node.heardMs < beforeMs) this.nodes.delete(node.name);
    this.isUnordered = true;
    this.totals = null;
  }

  learnDims(dims) {
    for (const dim of dims) if (!this.dims.includes(dim)) this.dims = [...this.dims, dim].sort(byDim);
  }

  // Fills the cluster's history where the page has none of its own.
  recall(summaries) {
    for (const each of summaries) this.learnDims(each.usage.keys());
    this.summaries = summaries;
    this.begin(this.totals);
  }

  // The same where none of its rows is at its place any more.
  recallAll(summaries) {
    this.totals = null;
    this.recall(summaries);
  }

  // Starts the cluster's history again, with the rows of an earlier one and of the summaries in between.
  begin(before) {
    const wanted = 3 + 3 * this.dims.length;
    const rows = [];
    if (before?.columns.length === wanted) before.forEach((ms, at) => rows.push([ms, before.columns.map((column) => column[at])]));
    const own = rows.map(([ms]) => ms);
    let near = 0;
    for (const each of this.summaries) {
      while (near < own.length && own[near] < each.atMs - SAME_MS) near += 1;
      if (near === own.length || own[near] > each.atMs + SAME_MS) rows.push([each.atMs, this.rowOf(each)]);
    }
    this.totals = new Ring(TOTALS, wanted);
    for (const [ms, values] of rows.sort((a, b) => a[0] - b[0])) this.totals.push(ms, values, 0);
  }

  rowOf({ pods, capacity, sd, usage }) {
    const spread = this.dims.flatMap((dim) => {
      const [low, median, high] = usage.get(dim) || [NaN, NaN, NaN];
      return [median, low, high];
    });
    return [pods, capacity, sd, ...spread];
  }

  order() {
    if (!this.isUnordered) return this.ordered;
    this.isUnordered = false;
    this.ordered = [...this.nodes.values()].sort((a, b) => compare(a.name, b.name));
    this.ordered.forEach((node, index) => (node.index = index));
    return this.ordered;
  }

  // Once a second: the state of each node by age, and the cluster's sums. True if the set of nodes changed.
  tick(nowMs) {
    const before = this.nodes.size;
    for (const node of this.nodes.values()) {
      const age = this.age(node, nowMs);
      node.state = stateOf(age, this.leaseS);
      if (age > this.leaseS * FORGOTTEN_LEASES) this.nodes.delete(node.name);
    }
    this.isUnordered ||= this.nodes.size !== before;
    this.sum(nowMs);
    return this.nodes.size !== before;
  }

  age(node, nowMs) {
    return node.ad.ageAtSending + (nowMs - node.heardMs) / 1000;
  }

  sum(nowMs) {
    this.hasNew = false;
    const present = [...this.nodes.values()].filter((node) => node.state !== "absent");
    let pods = 0;
    let capacity = 0;
    let room = 0;
    let variance = 0;
    for (const node of present) {
      const { ad } = node;
      pods += ad.pods;
      capacity += ad.capacity;
      room += roomOf(node);
      variance += ad.sd ** 2;
    }
    const spread = this.dims.flatMap((dim) => quantiles(present, dim));
    if (!this.totals || this.totals.columns.length !== 3 + spread.length) this.begin(null);
    // No data is not zero: draw a gap.
    if (present.length > 0) this.totals.push(nowMs, [pods, capacity, Math.sqrt(variance), ...spread], APART_MS);
    this.now = { present: present.length, pods, room, sd: Math.sqrt(variance) };
  }
}

// How many more Pods a node takes: what it advertises, without the room that is reserved.
export function roomOf({ ad, reserved }) {
  return reserved ? Math.max(0, ad.capacity - reserved) : ad.capacity;
}

// A node's history: the rows of the scheduler's answer, then the page's own. `node` is null for one that the page has not
// heard of, as one that is dead.
export function joined(node, before) {
  const dims = node ? node.ad.dims : Object.keys(before[0] || {}).filter((column) => !ROW.includes(column)).sort(byDim);
  const own = node ? node.history : new Ring(0, 0);
  const rows = before.filter(({ ms }) => ms < own.oldestMs() - SAME_MS);
  const ring = new Ring(Math.max(1, rows.length + own.size), USAGE + dims.length);
  for (const row of rows) ring.push(row.ms, [row.pods, row.capacity, row.capacity_sd, row[PRESSURE_PART] ?? NaN, ...dims.map((dim) => row[dim] ?? NaN)], 0);
  own.forEach((ms, at) => ring.push(ms, own.columns.map((column) => column[at]), 0));
  return { dims, ring };
}

// Median, 5 % and 95 % of the nodes' usage.
function quantiles(nodes, dim) {
  const values = [];
  for (const { ad } of nodes) {
    const at = ad.dims.indexOf(dim);
    if (at >= 0) values.push(ad.usage[at]);
  }
  if (values.length === 0) return [NaN, NaN, NaN];
  const sorted = Float32Array.from(values).sort();
  const pick = (share) => sorted[Math.round(share * (sorted.length - 1))];
  return [pick(0.5), pick(0.05), pick(0.95)];
}

function isNewer(ad, node, nowMs, leaseS) {
  if (ad.boot === node.ad.boot) return ad.seq > node.ad.seq;
  return ad.boot > node.ad.boot || nowMs - node.heardMs > leaseS * 1000;
}

export function stateOf(age, leaseS) {
  if (age > leaseS) return "absent";
  if (age > AGEING_S) return "stale";
  return age > FRESH_S ? "ageing" : "fresh";
}

const FIRST = ["cpu", "memory"];

// cpu, memory, then the others by name.
function byDim(a, b) {
  const rank = (dim) => (FIRST.includes(dim) ? FIRST.indexOf(dim) : FIRST.length);
  return rank(a) - rank(b) || (a < b ? -1 : 1);
}

export function fullest(ad) {
  let at = 0;
  for (let i = 1; i < ad.usage.length; i += 1) if (ad.usage[i] > ad.usage[at]) at = i;
  return ad.usage.length ? { dim: ad.dims[at], usage: ad.usage[at] } : { dim: "", usage: 0 };
}
