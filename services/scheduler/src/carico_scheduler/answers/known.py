"""What answers are made from."""

import dataclasses
from collections.abc import Iterator, Mapping

from carico_core.domain import messages, names
from carico_core.wire import subjects
from carico_scheduler.answers import history as histories
from carico_scheduler.decide import cycle as cycles
from carico_scheduler.decide import turns as queue_turns
from carico_scheduler.nodes import headroom, snapshot
from carico_scheduler.report import decisions
from carico_scheduler.state import state


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The scheduler's live state, its records, and a cycle of its own, so that queries do not displace cached masks."""

    state: state.State
    log: decisions.Log
    cycle: cycles.Cycle
    lease_s: float
    # None: no node is held for Pods that have waited for long.
    turns: queue_turns.Turns | None = None
    # None: nothing is kept of single nodes.
    history: histories.History | None = None
    # Others decide at the same time, on Pods that do not wait here.
    is_shared: bool = False

    @property
    def names(self) -> list[str]:
        """The schedulerNames whose Pods are placed."""
        return sorted(self.state.fleet.policy.names)

    def advertisement(self, node: str) -> messages.Advertisement | None:
        """Return the newest advertisement of a node; None if there is none."""
        heard = self.state.heard.get(node)
        return None if heard is None else heard.advertisement

    def is_early(self, node: str) -> bool:
        """Return True if a node advertises that the API does not show."""
        return names.is_subdomain(node) and subjects.capacity(node) in self.state.early

    def measured(self, pod_class: str) -> str:
        """Return the class if some node names it, else the class that stands for all others.

        The free room of a class is cached between cycles and updated at each change: questions about invented classes
        must not add to that.
        """
        return pod_class if self.is_named(pod_class) else headroom.UNNAMED

    def is_named(self, pod_class: str) -> bool:
        """Return True if some node names the class."""
        return any(pod_class in each for each in self._named())

    def classes(self) -> set[str]:
        """Return every class that some node names."""
        return self._names() - headroom.GENERAL

    def general(self) -> str:
        """Return the class that stands for those that no node names."""
        return headroom.general_of(self._names())

    def view(self, now_s: float) -> snapshot.Snapshot:
        """Return a snapshot of the fleet, valid until its next change."""
        return self.state.fleet.snapshot(now_s)

    def _names(self) -> set[str]:
        return {name for each in self._named() for name in each}

    def _named(self) -> Iterator[Mapping[str, messages.ClassCapacity]]:
        for each in self.state.heard.values():
            if each.advertisement.classes is not None:
                yield each.advertisement.classes
