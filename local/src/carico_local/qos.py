"""Quality of service of Pods, as in a kubelet: class, CPU weight, and OOM score.

Source (Kubernetes 1.36): pkg/apis/core/v1/helper/qos/qos.go, pkg/kubelet/cm/helpers_linux.go, pkg/kubelet/qos/policy.go
"""

import math
from collections.abc import Mapping
from typing import Any

from carico_core.domain import amounts as quantities

Object = Mapping[str, Any]
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
# Shares of one CPU, and the kernel's bounds (sched_group_set_shares).
_SHARES_PER_CORE, _SHARES_LEAST, _SHARES_MOST = 1024, 2, 2**18
_COMPUTE = frozenset({"cpu", "memory"})
_GUARANTEED_ADJ, _BEST_EFFORT_ADJ = -997, 1000


def pod_class(spec: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort for the spec of a Pod."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    # Resources of the Pod itself take precedence over those of its containers.
    stated = [spec] if any((spec.get("resources") or {}).values()) else containers
    amounts = [_amounts(each.get("resources") or {}) for each in stated]
    if not any(requests or limits for requests, limits in amounts):
        return BEST_EFFORT
    is_guaranteed = all(limits.keys() == _COMPUTE and requests == limits for requests, limits in amounts)
    return GUARANTEED if is_guaranteed else BURSTABLE


def _amounts(resources: Object) -> tuple[dict[str, float], dict[str, float]]:
    """Return positive requests and limits of CPU and memory; a limit without a request counts as its request."""
    limits = resources.get("limits") or {}
    return _positive({**limits, **(resources.get("requests") or {})}), _positive(limits)


def _positive(amounts: Object) -> dict[str, float]:
    found = {name: quantities.parse_quantity(amount) for name, amount in amounts.items() if name in _COMPUTE}
    return {name: amount for name, amount in found.items() if amount > 0.0}


def cpu_shares(request_cores: float) -> int:
    """Return the CPU weight of a Pod or container for its request: cpu.shares of v1.

    >>> cpu_shares(0.0), cpu_shares(0.1), cpu_shares(1.0)
    (2, 102, 1024)
    """
    # Whole millicores, rounded up; the tolerance is for floating-point errors.
    millicores = math.ceil(request_cores * 1000.0 - 1e-6)
    return min(max(millicores * _SHARES_PER_CORE // 1000, _SHARES_LEAST), _SHARES_MOST)


def oom_score_adj(of_class: str, *, request_bytes: float, node_bytes: float) -> int:
    """Return the oom_score_adj of a process, in thousandths of its node's memory: the kernel kills the highest first.

    >>> oom_score_adj("Burstable", request_bytes=2.0**30, node_bytes=2.0**33)
    875
    """
    if of_class == GUARANTEED:
        return _GUARANTEED_ADJ
    if of_class == BEST_EFFORT:
        return _BEST_EFFORT_ADJ
    # A process that uses more than its request then has a total score above 1000.
    adj = 1000 - int(1000.0 * request_bytes / node_bytes)
    return min(max(adj, 1000 + _GUARANTEED_ADJ), _BEST_EFFORT_ADJ - 1)
