"""What became of a job, in a few lines: how long it took, how long its Pods ran and waited, and where they ran."""

import collections
import statistics
from collections.abc import Sequence

from carico_cli.output import formats
from carico_core.domain import amounts
from carico_local.jobs import facts

# Nodes that are named; a large cluster has thousands.
_NODES_MOST = 8


def lines(name: str, pods: Sequence[facts.PodFacts]) -> list[str]:
    """Return the summary of a job whose Pods have all ended."""
    succeeded = sum(pod.phase == "Succeeded" for pod in pods)
    ends = [pod.terminal_s for pod in pods if pod.terminal_s is not None]
    took = f" in {max(ends) - min(pod.created_s for pod in pods):.1f} s" if ends else ""
    found = [f"job {name}: {succeeded} of {amounts.plural(len(pods), 'Pod')} succeeded{took}"]
    times_s = [pod.time_s for pod in pods if pod.time_s is not None]
    # A Pod waits for a node and then for its process to start.
    waits_s = [pod.started_s - pod.created_s for pod in pods if pod.started_s is not None]
    if times_s:
        found.append(f"  a Pod ran {_spread(times_s)}")
    if waits_s:
        found.append(f"  and waited {_spread([max(each, 0.0) for each in waits_s])} before it started")
    on = collections.Counter(pod.node for pod in pods if pod.node is not None)
    if on:
        named = sorted(on, key=formats.natural)
        more = f" and on {len(named) - _NODES_MOST} more nodes" if len(named) > _NODES_MOST else ""
        found.append(f"  Pods by node: {', '.join(f'{node} {on[node]}' for node in named[:_NODES_MOST])}{more}")
    return found


def _spread(values_s: Sequence[float]) -> str:
    """Return mean and largest.

    >>> _spread([1.0, 2.0])
    '1.5 s on average, 2.0 s at most'
    """
    return f"{statistics.fmean(values_s):.1f} s on average, {max(values_s):.1f} s at most"
