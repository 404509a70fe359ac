"""Waiting Pods by label, so that a term of another Pod is compared only with Pods that it may select."""

from collections.abc import Iterable

from carico_core.domain import cluster

# A Pod of 1.5 MB has 100,000 labels, of which each takes 400 bytes in the index; one with more than this is looked at
# whichever label is asked for.
LABELS_MOST = 64
Label = tuple[str, str]


class LabelIndex:
    """UIDs by label. It is built when first asked, and costs nothing until then."""

    def __init__(self) -> None:
        # None: not asked since the last Pod left.
        self._by_label: dict[Label, dict[str, None]] | None = None
        self._of_many_labels: dict[str, None] = {}

    def find(self, labels: Iterable[Label], pods: Iterable[cluster.Pod]) -> Iterable[str]:
        """Return the UIDs of the Pods that have any of these labels, and of those of very many labels.

        `pods`: all that are indexed, from which the index is built if it is not there.
        """
        if self._by_label is None:
            self._by_label = {}
            for pod in pods:
                self.add(pod)
        return self._of_many_labels | {uid: None for label in labels for uid in self._by_label.get(label, ())}

    def add(self, pod: cluster.Pod) -> None:
        """Add a Pod."""
        if self._by_label is not None and len(pod.labels) > LABELS_MOST:
            self._of_many_labels[pod.uid] = None
        elif self._by_label is not None:
            for label in pod.labels.items():
                self._by_label.setdefault(label, {})[pod.uid] = None

    def remove(self, pod: cluster.Pod) -> None:
        """Remove a Pod, whose labels are those with which it was added."""
        by_label = self._by_label
        if by_label is None:
            return
        if len(pod.labels) > LABELS_MOST:
            del self._of_many_labels[pod.uid]
            return
        for label in pod.labels.items():
            uids = by_label[label]
            del uids[pod.uid]
            if not uids:
                del by_label[label]

    def drop(self) -> None:
        """Forget the index; it is built again when asked."""
        self._by_label = None
        self._of_many_labels.clear()
