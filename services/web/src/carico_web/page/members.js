// Schedulers that share the work: what each has committed. Nothing is shown where one leads.

import { el, set } from "./dom.js";
import * as format from "./format.js";

// A member sends a heartbeat every .4 s.
export const GONE_MS = 3000;

// The newest heartbeat of each member that is alive.
export class Members {
  constructor() {
    this.newest = new Map();
  }

  take(heartbeat, nowMs) {
    this.newest.set(heartbeat.name, { heartbeat, atMs: nowMs });
  }

  // By name. Their parts of all claims of the last minute are `part`, from 0 to 1, or null while there is none.
  rows(nowMs) {
    for (const [name, { atMs }] of this.newest) if (nowMs - atMs > GONE_MS) this.newest.delete(name);
    const all = [...this.newest.values()].map(({ heartbeat }) => heartbeat).sort((a, b) => (a.name < b.name ? -1 : 1));
    const recent = all.reduce((sum, { report }) => sum + (report ? report.recent : 0), 0);
    return all.map((each) => ({ ...each, part: each.report && recent > 0 ? each.report.recent / recent : null }));
  }
}

export function together(rows) {
  const reports = rows.map((each) => each.report).filter(Boolean);
  const sum = (of) => reports.reduce((total, each) => total + of(each), 0);
  const sent = sum((each) => each.stored + each.conflicts);
  const all = (of) => rows.reduce((total, each) => total + of(each), 0);
  const [handed, held] = [all((each) => each.handed), all((each) => each.held)];
  const orphans = Math.max(0, ...reports.map((each) => each.orphans));
  return [
    `${rows.filter((each) => !each.leaving).length} of ${rows.length} decide`,
    `${format.count(sum((each) => each.recent), "claim")} in the last minute`,
    ...(sent > 0 ? [`${format.percent(sum((each) => each.conflicts) / sent)} conflicts`] : []),
    ...(handed > 0 ? [`${format.count(handed, "Pod")} to correct`] : []),
    ...(held > 0 ? [`room held for ${format.count(held, "Pod")}`] : []),
    ...(orphans > 0 ? [`${format.count(orphans, "claim")} without a Pod`] : []),
    ...(reports.some((each) => each.lease) ? [] : ["none holds the Lease"]),
  ].join(", ");
}

export function words({ leaving, report, part }) {
  if (!report) return leaving ? "leaves" : "does not report";
  if (report.whyNot) return `takes no Pods: ${report.whyNot}`;
  return [
    ...(part === null ? [] : [`${format.percent(part)} of the claims`]),
    format.count(report.conflicts, "conflict"),
    `${format.whole(report.requeued)} waits`,
    ...(report.viewAge === null ? [] : [`view ${format.seconds(report.viewAge)} old`]),
    ...(report.lease ? ["holds the Lease"] : []),
  ].join(", ");
}

// Names without the id of their start, where no two are of the same replica.
export function shown(rows) {
  const replicas = rows.map(({ name }) => format.replica(name));
  return rows.map(({ name }, i) => (replicas.indexOf(replicas[i]) === replicas.lastIndexOf(replicas[i]) ? replicas[i] : name));
}

export class MembersView {
  constructor(members) {
    this.members = members;
    this.head = el("p", { class: "soft" });
    this.list = el("ul", { class: "plain" });
    this.root = el("div", { class: "members", hidden: true }, el("h3", {}, "Schedulers that share the work"), this.head, this.list);
  }

  draw(nowMs) {
    const rows = this.members.rows(nowMs);
    this.root.hidden = rows.length === 0;
    if (rows.length === 0) return;
    set(this.head, together(rows));
    // Rows stay the same elements: only their words change.
    while (this.list.children.length < rows.length) this.list.append(el("li", {}, el("span"), el("span", { class: "soft" })));
    while (this.list.children.length > rows.length) this.list.lastChild.remove();
    const names = shown(rows);
    rows.forEach((row, i) => {
      set(this.list.children[i].children[0], names[i]);
      set(this.list.children[i].children[1], words(row));
    });
  }
}
