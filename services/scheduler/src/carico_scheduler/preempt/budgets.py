"""PodDisruptionBudgets: which Pods can go without violating one."""

from collections.abc import Iterable, Sequence, Set

from carico_core.domain import cluster, selectors


class Budgets:
    """All budgets of the cluster."""

    def __init__(self) -> None:
        # By namespace and name: a search asks for the Pods of many nodes, and a cluster may have thousands of budgets.
        self._budgets: dict[str, dict[str, cluster.DisruptionBudget]] = {}
        # Why they are not known; None if they are. Nothing is evicted while they are not.
        self.lacking: str | None = "not listed yet"

    def put_all(self, found: Iterable[cluster.DisruptionBudget]) -> None:
        """Take in the list of all budgets."""
        self._budgets = {}
        for each in found:
            self.put(each)

    def put(self, found: cluster.DisruptionBudget) -> None:
        """Take in one budget."""
        self._budgets.setdefault(found.namespace, {})[found.name] = found

    def remove(self, namespace: str, name: str) -> None:
        """Forget a budget."""
        here = self._budgets.get(namespace, {})
        here.pop(name, None)
        if not here:
            self._budgets.pop(namespace, None)

    def lacks(self, why: str | None) -> None:
        """Note why budgets are not known; None: they are."""
        self.lacking = why

    def violated_by(self, pods: Sequence[cluster.Pod], spent: Iterable[cluster.Pod] = ()) -> Set[str]:
        """Return the UIDs of those Pods whose eviction, in this order, would violate a budget.

        As in kube-scheduler, all that a Pod counts against is reduced by it. `spent`: Pods that are being evicted and
        that a budget may not have counted yet.
        """
        if not self._budgets:
            return frozenset()
        left: dict[tuple[str, str], int] = {}
        for pod in spent:
            self._take(pod, left)
        return {pod.uid for pod in pods if self._take(pod, left)}

    def _take(self, pod: cluster.Pod, left: dict[tuple[str, str], int]) -> bool:
        """Count one eviction; return True if it violates a budget."""
        violates = False
        # A Pod without labels is matched by no budget: https://github.com/kubernetes/kubernetes/pull/85553
        here = self._budgets.get(pod.namespace, {}) if pod.labels else {}
        for name, each in here.items():
            if pod.name not in each.disrupted and selectors.matches(each.selector, pod.labels):
                key = (pod.namespace, name)
                left[key] = left.get(key, each.allowed) - 1
                violates = violates or left[key] < 0
        return violates
