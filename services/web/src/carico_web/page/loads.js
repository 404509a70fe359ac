// What the Pods of one node use: its agent is asked once somebody looks, and its reports are listened to from then on.

import * as ask from "./ask.js";
import { NoAnswer } from "./bus.js";
import * as format from "./format.js";
import { decodeLoads, loadsOf } from "./signals.js";

// Agents report every 10 s: an older report, after two that were lost, is not what a Pod uses now.
const HOLDS_MS = 30_000;

export class Loads {
  constructor(bus) {
    this.bus = bus;
    this.node = null;
    this.report = null;
  }

  // Listens to this node in place of the one before; null: to none.
  follow(node) {
    if (node === this.node) return;
    if (this.sid) this.bus.unsubscribe(this.sid);
    this.node = node;
    this.report = null;
    this.sid = node === null ? null : this.bus.subscribe(loadsOf(node), (message) => this.take(message.subject, message.payload));
  }

  take(subject, payload) {
    this.report = { loads: decodeLoads(subject, payload), heardMs: Date.now() };
  }

  // The next report comes within ten seconds: the answer has the last one's figures, and Pods that have started since.
  async ask() {
    const node = this.node;
    if (node === null) return;
    try {
      const answer = await ask.loads(this.bus, node);
      if (this.node === node) this.take(loadsOf(node), answer);
    } catch (error) {
      // No agent, or one of an earlier version, which only reports; or the bus is not there yet.
      if (!(error instanceof NoAnswer)) console.warn(`dropped what Pods of ${node} use: ${error.message}`);
    }
  }

  // What a Pod uses, in words.
  words(uid) {
    const isNew = this.report !== null && Date.now() - this.report.heardMs < HOLDS_MS;
    const load = isNew ? this.report.loads.get(uid) : undefined;
    return load ? `${format.millicores(load.cores)} CPU, ${format.quantity("memory", load.memory)}` : "no reading yet";
  }
}
