"""What the Pods wait for that have waited long: one finding for each reason, the oldest first. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from carico_cli.doctor import findings, places
from carico_cli.output import formats, words
from carico_core.domain import cluster, judgement, names

Object = Mapping[str, Any]
LONG_S = 60.0
WHAT = "waiting Pods"
# Reasons that are listed; a cluster has rarely more.
_REASONS_MOST = 8


def report(
    waiting: Sequence[tuple[cluster.Pod, Object]], nodes: Sequence[cluster.Node], now_s: float, place: places.Place,
    held: Sequence[str],
) -> list[findings.Finding]:  # fmt: skip
    """Return the findings about Pods that wait for a node.

    `nodes`: all Nodes; empty where they are not known. `held`: Pods that hold room on a node and have not started.
    """
    long = [(pod, words.waits_for(item)) for pod, item in waiting if now_s - pod.created_at_s > LONG_S]
    # Conditions are written at a limited rate: of thousands of Pods that are alike, many have none for minutes.
    of_alike = {_asked(pod): why for pod, why in long if why}
    groups: dict[str, list[cluster.Pod]] = {}
    for pod, why in sorted(long, key=lambda each: each[0].created_at_s):
        groups.setdefault(why or of_alike.get(_asked(pod), ""), []).append(pod)
    if not groups:
        return [findings.ok(WHAT, f"no Pod has waited for CARICO for more than {LONG_S:.0f} s")]
    found = [_finding(why, group, nodes, now_s, place, held) for why, group in list(groups.items())[:_REASONS_MOST]]
    left = sum(len(group) for group in list(groups.values())[_REASONS_MOST:])
    more = findings.warn(
        WHAT, f"{left} more, for {len(groups) - _REASONS_MOST} other reasons", f"`{place.carico('top')}`, P"
    )
    return [*found, *([more] if left else [])]


def _asked(pod: cluster.Pod) -> tuple[object, ...]:
    """Return what a Pod asks of a node: equal for Pods that wait for the same reason."""
    requests = (pod.request_cores, pod.request_bytes, pod.request_others)
    selector = tuple(sorted(pod.node_selector.items()))
    return names.class_of(pod), pod.scheduler_name, *requests, selector, pod.tolerations, pod.constraints


def _finding(
    why: str, group: Sequence[cluster.Pod], nodes: Sequence[cluster.Node], now_s: float, place: places.Place,
    held: Sequence[str],
) -> findings.Finding:  # fmt: skip
    oldest = group[0]
    keys = findings.names([pod.key for pod in group])
    waited = formats.duration(now_s - oldest.created_at_s)
    detail = f"{len(group)} for up to {waited}: {why or 'no scheduler has looked at them'} ({keys})"
    explain = f"`{place.carico(f'explain {oldest.key}')}`"
    if not why:
        return findings.warn(WHAT, detail, f"is a scheduler running? {place.log('scheduler')}")
    if why == words.AT_CAPACITY and held:
        detail += f"; room is reserved for Pods that their nodes have not started: {findings.names(list(held))}"
        return findings.warn(WHAT, detail, f"`{place.carico(f'explain {held[0]}')}` shows what keeps it from starting")
    if why == words.AT_CAPACITY:
        do = f"the cluster is full, and they start as others end; `{place.carico('capacity')}` shows what limits it"
        return findings.warn(WHAT, detail, do)
    judged = judgement.judge(oldest, nodes)
    if judged.never:
        detail += f"; {oldest.key} can never fit as it is: {judged.why}"
        detail += "".join(f"; {hint}" for hint in judged.hints)
    return findings.warn(WHAT, detail, f"{explain} shows what each node lacks, and what could help")
