// The figures on top: nodes, Pods, room, what was placed, and how old the cluster's model is.

import { say } from "./dom.js";
import * as format from "./format.js";

// By the newest summary, which counts every Pod. Where none is that new, by the decisions that this page knows; null:
// summaries come no more, and Pods that no scheduler has looked at are not known.
export function waitingPods(history, flow, nowMs) {
  const newest = history.at(nowMs);
  if (newest) return newest.waiting;
  return flow.figures(nowMs).waiting || (history.summaries.length ? null : 0);
}

export function drawSummary({ fleet, flow, history, bus, model, heardModelMs }) {
  if (!fleet.now) return;
  const states = { fresh: 0, ageing: 0, stale: 0, absent: 0 };
  for (const node of fleet.nodes.values()) states[node.state] += 1;
  const odd = ["ageing", "stale", "absent"].filter((state) => states[state]).map((state) => `${format.whole(states[state])} ${state}`);
  const { present, pods, room: more, sd } = fleet.now;
  say("sum-nodes", format.whole(present));
  say("sum-nodes-sub", odd.length ? odd.join(", ") : present ? "all fresh" : "none reported yet");
  // Without reports the number is unknown, which is not zero.
  say("sum-pods", present ? format.whole(pods) : "–");
  say("sum-pods-sub", present ? `${format.pods(pods / present)} a node` : "not known");
  const [room, about] = format.podsAbout(more, sd).split(" ± ");
  say("sum-room", present ? room : "–");
  say("sum-room-sub", present ? `± ${about} Pods${fleet.reserved ? "" : ", advertised"}` : "not known");
  const waiting = waitingPods(history, flow, Date.now());
  say("sum-placed", bus.isLive ? format.perSecond(flow.figures(Date.now()).rate) : "–");
  say("sum-placed-sub", waiting == null ? "waiting: not known" : waiting ? `${format.whole(waiting)} waiting` : "none waiting");
  const newest = model.model;
  if (newest) say("model-note", `of ${format.count(newest.contributors, "node")}, ${newest.merge} merge, received ${ago(Date.now() - heardModelMs)}`);
}

function ago(ms) {
  return ms < 2000 ? "just now" : `${format.seconds(ms / 1000)} ago`;
}
