"""The port of the twin's schedulers."""

from collections.abc import Sequence
from typing import Protocol

from carico_twin import records
from carico_twin.nodes import kubelet


class Cluster(Protocol):
    """What a scheduler may see of the cluster and do there."""

    @property
    def now_s(self) -> float:
        """Virtual time."""
        ...

    @property
    def nodes(self) -> Sequence[kubelet.TwinNode]:
        """The nodes. Only an oracle may read more of them than their hardware."""
        ...

    def bind(self, record: records.PodRecord, node: int, *, overrun: bool = False) -> None:
        """Bind a Pod; `overrun` counts a bind that the scheduler's own rule did not allow."""
        ...


class TwinScheduler(Protocol):
    """Places Pods."""

    def offer(self, record: records.PodRecord) -> None:
        """Queue a Pod."""
        ...

    def ended(self, record: records.PodRecord) -> None:
        """Note that the API shows a bound Pod as terminal."""
        ...

    def joined(self, node: int) -> None:
        """Note that the API shows a node that was not there at the start (`TwinNode.is_up` False)."""
        ...

    def step(self) -> None:
        """Place what can be placed; called after each event that may have freed room."""
        ...
