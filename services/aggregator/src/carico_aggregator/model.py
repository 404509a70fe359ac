"""The model of the cluster from the fleet's entries, by either merge."""

import dataclasses
from typing import Protocol

from carico_aggregator import evidence, fleet
from carico_core.domain import messages
from carico_core.numerics import merge as merges
from carico_core.wire import codec
from carico_core.wire import messages as wire


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Content:
    """What a model says, without who says it and when. `epoch`: the newest stamp it contains, in ms."""

    epoch: int
    merge: str
    dims: tuple[str, ...]
    gram: messages.Array
    weight: float
    contributors: int
    evidence: dict[str, messages.ClassEvidence]
    peak_pods_per_core: float


class Merger(Protocol):
    """One way to make the model."""

    name: str

    def arrived(self, entries: list[messages.Entry], live_nodes: int) -> None:
        """Takes in entries in the order they became known."""
        ...

    def follow(self, model: messages.GlobalModel) -> None:
        """Takes in the model that another replica broadcast."""
        ...

    def gram(self, gathered: fleet.Gathered) -> messages.Array | None:
        """The (d, d) Gram matrix now, or None where nothing is known."""
        ...


class Round:
    """A function of the entries alone."""

    name = "round"

    def arrived(self, entries: list[messages.Entry], live_nodes: int) -> None:
        """Nothing: the entries hold all."""

    def follow(self, model: messages.GlobalModel) -> None:
        """Nothing: every replica makes the same."""

    def gram(self, gathered: fleet.Gathered) -> messages.Array | None:
        """The weighted mean of the entries."""
        return fleet.mean_gram(gathered.entries) if gathered.entries else None


class Sequential:
    """The paper's: a recursion over arrivals. The leader's counts; the others follow it, to go on when it is gone."""

    name = "sequential"

    def __init__(self) -> None:
        self._rule = merges.Sequential()
        self._gram: messages.Array | None = None
        self._dims: tuple[str, ...] = ()

    def arrived(self, entries: list[messages.Entry], live_nodes: int) -> None:
        """Merges each arrival by (N - 1) : 1."""
        for entry in entries:
            if entry.dims != self._dims:
                self._gram, self._dims = None, entry.dims
            self._gram = self._rule.arrive(self._gram, entry.gram, max(live_nodes, 1))

    def follow(self, model: messages.GlobalModel) -> None:
        """The leader's model in place of ours."""
        self._gram, self._dims = model.gram, model.dims

    def gram(self, gathered: fleet.Gathered) -> messages.Array | None:
        """The state of the recursion."""
        return self._gram if self._dims == gathered.dims else None


def make(gathered: fleet.Gathered, merger: Merger) -> Content | None:
    """What the model says now; None where no node is known."""
    gram = merger.gram(gathered)
    if gram is None or not gathered.entries:
        return None
    return Content(
        epoch=max(entry.ts_ns for entry in gathered.entries) // 1_000_000,
        merge=merger.name,
        dims=gathered.dims,
        gram=gram,
        weight=sum(entry.weight for entry in gathered.entries),
        contributors=len(gathered.entries),
        evidence=evidence.fuse(entry.evidence for entry in gathered.entries),
        peak_pods_per_core=max(entry.peak_pods_per_core for entry in gathered.entries),
    )


def encode(found: messages.GlobalModel) -> bytes:
    """The bytes of a model; with fewer classes where all of them are more than readers take."""
    payload = wire.encode_model(found)
    while len(payload) > codec.MODEL_MAX_BYTES:
        found = dataclasses.replace(found, evidence=evidence.largest(found.evidence, len(found.evidence) // 2))
        payload = wire.encode_model(found)
    return payload
