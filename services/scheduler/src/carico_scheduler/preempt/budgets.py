"""PodDisruptionBudgets: which Pods can go without violating one."""

from collections.abc import Iterable, Sequence, Set
from typing import NamedTuple, TypeAlias

from carico_core.domain import cluster, selectors
from carico_scheduler.nodes import lru

# A namespace and the labels of a Pod.
_Labels: TypeAlias = tuple[str, frozenset[tuple[str, str]]]


class Spent(NamedTuple):
    """A Pod that is being evicted.

    `deleted_at`: the value of `Budgets.writes` when the API first showed that it is being deleted; None before. With
    its next write a budget counts it: its controller takes a Pod that is being deleted for one that is gone.
    """

    pod: cluster.Pod
    deleted_at: int | None = None


class Budgets:
    """All budgets of the cluster."""

    def __init__(self) -> None:
        # By namespace and name: a search asks for the Pods of many nodes, and a cluster may have thousands of budgets.
        self._budgets: dict[str, dict[str, cluster.DisruptionBudget]] = {}
        # How often budgets have been written so far, and by namespace and name its value at the last write of each.
        self.writes = 0
        self._written: dict[tuple[str, str], int] = {}
        # The names of those that select Pods of these labels: a namespace may have thousands of budgets, too.
        self._selecting: lru.Lru[_Labels, tuple[str, ...]] = lru.Lru()
        # The keys of labels that budgets of a namespace ask about; of others Pods may each have their own.
        self._keys: dict[str, Set[str]] = {}
        # Why they are not known; None if they are. Nothing is evicted while they are not.
        self.lacking: str | None = "not listed yet"

    def put_all(self, found: Iterable[cluster.DisruptionBudget]) -> None:
        """Take in the list of all budgets."""
        before, written = self._budgets, self._written
        self._budgets, self._written = {}, {}
        self._selecting.clear()
        self._keys.clear()
        for each in found:
            self.put(each)
            key = (each.namespace, each.name)
            if key in written and before.get(each.namespace, {}).get(each.name) == each:
                # A list shows also what has not been written since the last one.
                self._written[key] = written[key]

    def put(self, found: cluster.DisruptionBudget) -> None:
        """Take in one budget as it was written."""
        self.writes += 1
        self._written[found.namespace, found.name] = self.writes
        here = self._budgets.setdefault(found.namespace, {})
        before = here.get(found.name)
        here[found.name] = found
        if before is None or before.selector != found.selector:
            # Their status, which changes with Pods, does not change what they select.
            self._forget(found.namespace)

    def remove(self, namespace: str, name: str) -> None:
        """Forget a budget."""
        self._written.pop((namespace, name), None)
        here = self._budgets.get(namespace, {})
        if here.pop(name, None) is not None:
            self._forget(namespace)
        if not here:
            self._budgets.pop(namespace, None)

    def lacks(self, why: str | None) -> None:
        """Note why budgets are not known; None: they are."""
        self.lacking = why

    def violated_by(self, pods: Sequence[cluster.Pod], spent: Iterable[Spent] = ()) -> Set[str]:
        """Return the UIDs of those Pods whose eviction, in this order, would violate a budget.

        As in kube-scheduler, all that a Pod counts against is reduced by it. `spent`: Pods that are being evicted; they
        count against the budgets that may not have counted them yet.
        """
        if not self._budgets:
            return frozenset()
        left: dict[tuple[str, str], int] = {}
        for each in spent:
            self._take(each.pod, left, each.deleted_at)
        return {pod.uid for pod in pods if self._take(pod, left)}

    def _take(self, pod: cluster.Pod, left: dict[tuple[str, str], int], deleted_at: int | None = None) -> bool:
        """Count one eviction, except against budgets written after `deleted_at`; return True if it violates one."""
        violates = False
        for name in self._selecting_of(pod):
            each, key = self._budgets[pod.namespace][name], (pod.namespace, name)
            is_counted = deleted_at is not None and self._written[key] > deleted_at
            if not is_counted and pod.name not in each.disrupted:
                left[key] = left.get(key, each.allowed) - 1
                violates = violates or left[key] < 0
        return violates

    def _selecting_of(self, pod: cluster.Pod) -> tuple[str, ...]:
        """Return the names of the budgets that select a Pod."""
        here = self._budgets.get(pod.namespace)
        # A Pod without labels is matched by no budget: https://github.com/kubernetes/kubernetes/pull/85553
        if here is None or not pod.labels:
            return ()
        keys = self._keys.get(pod.namespace)
        if keys is None:
            keys = self._keys[pod.namespace] = {part.key for each in here.values() for part in each.selector or ()}
        key = (pod.namespace, frozenset(label for label in pod.labels.items() if label[0] in keys))
        found = self._selecting.get(key)
        if found is None:
            found = tuple(name for name, each in here.items() if selectors.matches(each.selector, pod.labels))
            self._selecting.put(key, found, most=lru.room_for(0, entries=len(found)))
        return found

    def _forget(self, namespace: str) -> None:
        self._keys.pop(namespace, None)
        for key in [key for key in self._selecting if key[0] == namespace]:
            self._selecting.drop(key)
