// What was known before a connection began: of the same cluster, or of one that another has replaced under its name.
// Agents distinguish them: one that goes on has the boot that it had. What the bus keeps does not, since a NATS server
// that was killed has forgotten it, too.

// Agents advertise once a second: of a cluster that goes on, one is heard by then.
export const OTHER_AFTER_MS = 5000;

export class Earlier {
  constructor({ fleet, flow, history }, nowMs) {
    this.begunMs = nowMs;
    this.boots = new Map(Array.from(fleet.nodes, ([name, node]) => [name, node.ad.boot]));
    this.decisions = new Set(flow.seen);
    this.summaries = new Set(history.known);
    this.othersSinceMs = null;
  }

  // True if this advertisement shows that it is the same cluster.
  hears(ad, nowMs) {
    if (this.boots.get(ad.node) === ad.boot) return true;
    this.othersSinceMs ??= nowMs;
    return false;
  }

  // Whether only agents that were not there before advertise now.
  isOfAnother(nowMs) {
    return this.othersSinceMs !== null && nowMs - this.othersSinceMs >= OTHER_AFTER_MS;
  }
}
