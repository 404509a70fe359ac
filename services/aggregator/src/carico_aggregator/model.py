"""Make the model of the cluster from the entries of its nodes, by either merge."""

import dataclasses
from typing import Protocol

from carico_aggregator import evidence, members, merges, trust
from carico_core.domain import messages
from carico_core.wire import codec
from carico_core.wire import messages as wire

# Sets of dimensions for which `sequential` keeps a state: the nodes of one cluster have few, and invented ones must not
# make it grow without limit.
DIMENSIONS_KEPT = 16


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Content:
    """The content of a model, without sender and time. `epoch`: the newest timestamp in it, in ms."""

    epoch: int
    merge: str
    dims: tuple[str, ...]
    gram: messages.Array
    weight: float
    contributors: int
    evidence: dict[str, messages.ClassEvidence]
    peak_pods_per_core: float
    # Nodes of whose reports something was left out, because no other node supports it.
    doubted: tuple[str, ...]


class Merger(Protocol):
    """A way to make the model. `is_led`: one replica makes it, and the others follow."""

    name: str
    is_led: bool

    def arrived(self, entries: list[messages.Entry], live_nodes: int) -> None:
        """Take in entries in the order they became known."""
        ...

    def follow(self, model: messages.GlobalModel) -> None:
        """Take in the model that another replica broadcast."""
        ...

    def gram(self, mergeable: members.Mergeable) -> messages.Array | None:
        """Return the current (d, d) Gram matrix; None if nothing is known."""
        ...


class RoundMerger:
    """Merge `round`: a function of the entries alone, the same on every replica."""

    name = "round"
    is_led = False

    def arrived(self, entries: list[messages.Entry], live_nodes: int) -> None:
        """Do nothing: the entries have it all."""

    def follow(self, model: messages.GlobalModel) -> None:
        """Do nothing: every replica makes the same model."""

    def gram(self, mergeable: members.Mergeable) -> messages.Array | None:
        """Return the weighted mean of the entries."""
        return members.mean_gram(mergeable.entries) if mergeable.entries else None


class SequentialMerger:
    """Merge `sequential`, the paper's: a recursion over arrivals on the leader, which the others follow."""

    name = "sequential"
    is_led = True

    def __init__(self) -> None:
        # By dimensions, so that one node with other dimensions does not end the recursion of the rest.
        self._grams: dict[tuple[str, ...], messages.Array] = {}

    def arrived(self, entries: list[messages.Entry], live_nodes: int) -> None:
        """Merge each arrival by (N - 1) : 1."""
        for entry in entries:
            self._keep(entry.dims, merges.sequential(self._grams.get(entry.dims), entry.gram, max(live_nodes, 1)))

    def follow(self, model: messages.GlobalModel) -> None:
        """Replace our state by the leader's model."""
        self._keep(model.dims, model.gram)

    def gram(self, mergeable: members.Mergeable) -> messages.Array | None:
        """Return the state of the recursion."""
        return self._grams.get(mergeable.dims)

    def _keep(self, dims: tuple[str, ...], gram: messages.Array) -> None:
        # Newest last: the least recently measured is dropped.
        self._grams.pop(dims, None)
        self._grams[dims] = gram
        if len(self._grams) > DIMENSIONS_KEPT:
            del self._grams[next(iter(self._grams))]


def make(mergeable: members.Mergeable, merger: Merger) -> Content | None:
    """Return the model's content now; None if no node is known."""
    gram = merger.gram(mergeable)
    if gram is None or not mergeable.entries:
        return None
    fused, doubted = evidence.fuse(entry.evidence for entry in mergeable.entries)
    peaks = [entry.peak_pods_per_core for entry in mergeable.entries]
    peak = trust.borne_out(peaks, alone=trust.PEAK_ALONE)
    if max(peaks) > peak:
        # Only one node can be that far ahead.
        doubted.add(peaks.index(max(peaks)))
    return Content(
        epoch=max(entry.ts_ns for entry in mergeable.entries) // 1_000_000,
        merge=merger.name,
        dims=mergeable.dims,
        gram=gram,
        weight=sum(entry.weight for entry in mergeable.entries),
        contributors=len(mergeable.entries),
        evidence=fused,
        peak_pods_per_core=peak,
        doubted=tuple(mergeable.entries[place].node for place in sorted(doubted)),
    )


def encode(found: messages.GlobalModel) -> bytes:
    """Encode a model, with fewer classes where all of them would exceed what readers accept."""
    payload = wire.encode_model(found)
    while len(payload) > codec.MODEL_MAX_BYTES:
        found = dataclasses.replace(found, evidence=evidence.largest(found.evidence, len(found.evidence) // 2))
        payload = wire.encode_model(found)
    return payload
