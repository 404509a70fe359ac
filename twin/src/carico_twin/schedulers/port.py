"""What a scheduler of the twin is given and asked."""

from collections.abc import Sequence
from typing import Protocol

from carico_twin import kubelet, records


class Cluster(Protocol):
    """What a scheduler may do and see of the cluster through the API."""

    @property
    def now_s(self) -> float:
        """Virtual time."""
        ...

    @property
    def nodes(self) -> Sequence[kubelet.TwinNode]:
        """The nodes. Only an oracle may look into them; others go by their hardware."""
        ...

    def bind(self, record: records.PodRecord, node: int, *, overrun: bool = False) -> None:
        """Binds a Pod; `overrun` where the scheduler's own rule did not allow it (to be counted)."""
        ...


class Scheduler(Protocol):
    """Places Pods."""

    def offer(self, record: records.PodRecord) -> None:
        """A Pod waits for a node."""
        ...

    def ended(self, record: records.PodRecord) -> None:
        """The API shows a bound Pod as terminal."""
        ...

    def joined(self, node: int) -> None:
        """The API shows a node that was not there at the start (`TwinNode.is_up` False)."""
        ...

    def step(self) -> None:
        """Places what can be placed; called after each event that may have made room."""
        ...
