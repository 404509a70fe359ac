// The last quarter of an hour: the summaries of the scheduler that leads, and what happened in that time.

import * as format from "./format.js";

export const HISTORY_MS = 900_000;
// A summary comes every 5 s; the time between two that are further apart is not known.
export const APART_MS = 16_000;
const KEPT = 400;
// Pods that wait for a shorter time are no event: most wait for a moment.
const WAITS_FROM_S = 10;
// A clock that differs by less does not matter here.
export const CLOCKS_MS = 2000;

export class History {
  constructor() {
    this.summaries = [];
    this.known = new Set();
    // How far this browser's clock is ahead of the scheduler's, by the newest summary; null before the first.
    this.aheadMs = null;
  }

  // True if it is new. isLive: it was just published.
  take(summary, isLive = false) {
    if (this.known.has(summary.id)) return false;
    this.known.add(summary.id);
    const all = this.summaries;
    // None is later than one that was just published: those whose time is were written by another clock.
    while (isLive && all.length && all.at(-1).atMs - summary.atMs > APART_MS) this.known.delete(all.pop().id);
    all.push(summary);
    if (all.length > 1 && all.at(-2).atMs > summary.atMs) all.sort((a, b) => a.atMs - b.atMs);
    while (all.length > KEPT || all[0].atMs < all.at(-1).atMs - HISTORY_MS) this.known.delete(all.shift().id);
    return true;
  }

  // Moves all times by so much.
  shift(ms) {
    this.summaries = this.summaries.map((each) => ({
      ...each, atMs: each.atMs + ms, events: each.events.map((event) => ({ ...event, atMs: event.atMs + ms })),
    }));
  }

  // Drops the summaries with these ids.
  forget(ids) {
    this.summaries = this.summaries.filter((each) => !ids.has(each.id));
    this.known = new Set(this.summaries.map((each) => each.id));
  }

  // The newest summary that is not after this second; null if none is from about then.
  at(ms) {
    const found = this.summaries.findLast((each) => each.atMs <= ms + 1000) || null;
    return found && ms - found.atMs < APART_MS ? found : null;
  }

  // What happened, oldest first.
  events() {
    const found = [];
    let before = null;
    for (const each of this.summaries) {
      if (before && each.atMs - before.atMs > APART_MS) {
        found.push({ atMs: before.atMs, kind: "gap", words: `nothing is kept until ${format.clock(each.atMs)}: no scheduler wrote its summaries, or the bus was away` });
      }
      for (const event of each.events) found.push({ ...event, words: wordsOf(event) });
      if (each.leftOff) found.push({ atMs: each.atMs, kind: "more", words: `and ${format.whole(each.leftOff)} more events` });
      const [waited, waits] = [isLong(before), isLong(each)];
      if (waits && !waited) found.push({ atMs: each.atMs, kind: "waits", words: `${format.count(each.waiting, "Pod")} ${each.waiting === 1 ? "waits" : "wait"} for a node, the first for ${format.seconds(each.oldest)}` });
      if (waited && !waits) found.push({ atMs: each.atMs, kind: "placed", words: "no Pod waits for longer than 10 s any more" });
      before = each;
    }
    return found;
  }

  // What is wrong with the clocks, in words; "" if nothing is.
  clockTrouble() {
    if (this.aheadMs === null || Math.abs(this.aheadMs) < CLOCKS_MS) return "";
    return `The scheduler's clock is ${format.seconds(Math.abs(this.aheadMs) / 1000)} ${this.aheadMs > 0 ? "behind" : "ahead of"} this browser's, by which all times here are.`;
  }
}

function isLong(summary) {
  return summary !== null && summary.oldest >= WAITS_FROM_S;
}

const NODE_WORDS = {
  joined: "joined", gone: "is gone", ready: "is ready", unready: "is not ready", cordon: "is cordoned",
  stale: "reports late", absent: "no longer reports",
};

export function wordsOf({ kind, about, state }) {
  if (kind === "node") return `${about} ${NODE_WORDS[state] || state}`;
  if (kind === "evicted") return `${about} was evicted from ${state}, for a Pod of higher priority`;
  if (kind === "moved") return `${about} was moved to ${state} by the rescheduler`;
  if (kind === "leader") return `${format.replica(about)} leads`;
  return `${kind}: ${about} ${state}`;
}

// The time in a page's address; null without one, NaN for one that is no time.
export function atOf(search) {
  const text = new URLSearchParams(search).get("at");
  return text === null ? null : Date.parse(text);
}

// The page's address with a time (null: without one), for links.
export function addressAt(location, ms) {
  const query = new URLSearchParams(location.search);
  if (ms === null) query.delete("at");
  else query.set("at", `${new Date(ms).toISOString().slice(0, 19)}Z`);
  // Colons may stand in a query: a link that people read.
  const text = query.toString().replaceAll("%3A", ":");
  return `${location.pathname}${text ? `?${text}` : ""}${location.hash}`;
}
