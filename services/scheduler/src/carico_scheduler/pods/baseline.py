"""Which Pods belong to their node, and are not workloads: they take room, and are neither refused nor reserved.

By what the API server vouches for, and nothing that whoever creates a Pod may write on it:

- Pods whose controller is a DaemonSet that exists, by its UID, in the Pod's namespace;
- the API's copies of static Pods (`api_objects.is_mirror`);
- Pods of the namespaces that the operator names.
"""

from collections.abc import Iterable, Set

from carico_core.domain import cluster


class Baseline:
    """The rule, with the DaemonSets that exist."""

    def __init__(self, namespaces: Set[str]) -> None:
        self._namespaces = namespaces
        self._daemon_sets: dict[str, str] = {}

    def includes(self, pod: cluster.Pod) -> bool:
        """Return whether a Pod belongs to its node."""
        if pod.is_mirror or pod.namespace in self._namespaces:
            return True
        owner = pod.owner
        return owner is not None and pod.claims_daemon_set and self._daemon_sets.get(owner.uid) == pod.namespace

    def put_all(self, found: Iterable[cluster.DaemonSet]) -> bool:
        """Take in the list of all DaemonSets. True if it changed."""
        listed = {each.uid: each.namespace for each in found}
        changed, self._daemon_sets = listed != self._daemon_sets, listed
        return changed

    def put(self, found: cluster.DaemonSet) -> bool:
        """Take in a DaemonSet. True if it is new."""
        is_new = found.uid not in self._daemon_sets
        self._daemon_sets[found.uid] = found.namespace
        return is_new

    def remove(self, uid: str) -> bool:
        """Forget a DaemonSet. True if it was known."""
        return self._daemon_sets.pop(uid, None) is not None
