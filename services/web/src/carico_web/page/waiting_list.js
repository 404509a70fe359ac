// The Pods that wait, grouped by the reason; each opens its explanation.

import * as ask from "./ask.js";
import { el } from "./dom.js";
import * as format from "./format.js";

export class WaitingList {
  // `page`: has `bus`, `openPod(key)`.
  constructor(page) {
    this.page = page;
    this.root = el("div", { class: "waits" });
    this.isAsking = false;
  }

  // Asks the scheduler, unless the last question is still open. waiting: how many Pods wait by the newest summary.
  async refresh(waiting) {
    if (this.isAsking) return;
    if (waiting === 0) {
      this.draw({ pods: 0, reasons: [] });
      return;
    }
    this.isAsking = true;
    try {
      this.draw(await ask.waiting(this.page.bus));
    } catch {
      // No scheduler leads, or it is of an older version: an old list would name Pods that no longer wait.
      this.draw({ pods: 0, reasons: [] });
    } finally {
      this.isAsking = false;
    }
  }

  draw({ pods, reasons }) {
    const wanted = JSON.stringify(reasons.map(({ reason, pods: count, oldest_s, named }) => [reason, count, Math.round(oldest_s), named.map((each) => each.pod)]));
    if (this.root.dataset.shown === wanted) return;
    this.root.dataset.shown = wanted;
    // A list that is drawn again keeps what is unfolded.
    const open = new Set(Array.from(this.root.querySelectorAll("details[open]"), (each) => each.dataset.reason));
    if (pods === 0) {
      this.root.replaceChildren();
      return;
    }
    this.root.replaceChildren(
      el("h3", {}, `Waiting: ${format.count(pods, "Pod")}`),
      ...reasons.map((group, i) => this.group(group, this.root.dataset.drawn ? open.has(group.reason) : i === 0)),
    );
    this.root.dataset.drawn = "1";
  }

  group({ reason, pods, oldest_s: oldest, named }, isOpen) {
    const rest = pods - named.length;
    return el(
      "details", { open: isOpen, "data-reason": reason },
      el("summary", {}, `${format.count(pods, "Pod")}: ${reason}`, el("span", { class: "soft" }, ` the first for ${format.seconds(oldest)}`)),
      el(
        "ul", { class: "plain" },
        ...named.map((each) => el("li", {}, el(
          "button", { type: "button", onclick: () => this.page.openPod(`${each.namespace}/${each.pod}`) },
          el("span", {}, `${each.namespace}/${each.pod}`), el("span", { class: "soft" }, format.seconds(each.waited_s)),
        ))),
        rest > 0 ? el("li", { class: "soft" }, `and ${format.whole(rest)} more`) : null,
      ),
    );
  }
}
