"""Which nodes have the images of a Pod, as kube-scheduler's ImageLocality scores it.

https://github.com/kubernetes/kubernetes/blob/v1.36.4/pkg/scheduler/framework/plugins/imagelocality/image_locality.go
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from carico_core.domain import cluster
from carico_scheduler.nodes import lru

# Names kept of a node's images, in 1.2 kB: a kubelet reports its 50 largest images, most with a tag and a digest.
NAMES_MOST = 100
# kube-scheduler's bounds: less to pull than this does not count, nor does more than this for each container.
LEAST_BYTES = 23 * 2.0**20
MOST_BYTES = 1000 * 2.0**20
# The entry of a name that is not there.
_NONE = 0


class Images:
    """The images of all nodes, by slot; of names only hashes are kept."""

    def __init__(self) -> None:
        self._names: npt.NDArray[np.int64] = np.zeros((0, NAMES_MOST), dtype=np.int64)
        self._sizes: npt.NDArray[np.float32] = np.zeros((0, NAMES_MOST), dtype=np.float32)
        self._version = 0
        self._kept: lru.Lru[cluster.Images, tuple[int, int, npt.NDArray[np.float64] | None]] = lru.Lru()

    def put(self, slot: int, images: Sequence[cluster.NodeImage]) -> None:
        """Take in the images of a node; empty: it has none, or is gone."""
        if slot >= len(self._names):
            if not images:
                return
            more = max(slot + 1 - len(self._names), len(self._names))
            self._names = np.concatenate([self._names, np.zeros((more, NAMES_MOST), dtype=np.int64)])
            self._sizes = np.concatenate([self._sizes, np.zeros((more, NAMES_MOST), dtype=np.float32)])
        found = [(hash(name), float(image.size_bytes)) for image in images for name in image.names][:NAMES_MOST]
        row = np.full(NAMES_MOST, _NONE, dtype=np.int64)
        row[: len(found)] = [name for name, _ in found]
        if not np.array_equal(row, self._names[slot]):
            self._version += 1
            self._names[slot] = row
            self._sizes[slot, : len(found)] = [size for _, size in found]

    def present(self, wanted: cluster.Images, nodes: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64] | None:
        """Return per slot how much of the images is there, from 0 to 1; None if it is the same on all `nodes`.

        An image counts by its size and by the share of the nodes that have it, so that the first node that has pulled
        it does not attract all Pods.
        """
        if not self._version:
            return None
        count = int(np.count_nonzero(nodes))
        kept = self._kept.get(wanted)
        if kept is None or kept[:2] != (self._version, count) or (kept[2] is not None and len(kept[2]) != len(nodes)):
            kept = (self._version, count, self._score(wanted, nodes, count))
            self._kept.put(wanted, kept, most=lru.room_for(len(nodes)))
        return kept[2]

    def _score(
        self, wanted: cluster.Images, nodes: npt.NDArray[np.bool_], count: int
    ) -> npt.NDArray[np.float64] | None:  # fmt: skip
        total = np.zeros(len(nodes))
        # Slots beyond the last node with images have none.
        known = min(len(self._names), len(nodes))
        for name in wanted.names:
            held = self._names[:known] == hash(name)
            spread = np.count_nonzero(held.any(axis=1)) / max(count, 1)
            total[:known] += np.where(held, self._sizes[:known], 0.0).max(axis=1) * spread
        most = MOST_BYTES * max(wanted.containers, 1)
        score: npt.NDArray[np.float64] = (np.clip(total, LEAST_BYTES, most) - LEAST_BYTES) / (most - LEAST_BYTES)
        some = score[nodes]
        return score if len(some) and some.max() > some.min() else None
