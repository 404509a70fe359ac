"""The model of the cluster from the fleet's entries, by either merge."""

import dataclasses
from typing import Protocol

from carico_aggregator import evidence, fleet, trust
from carico_core.domain import messages
from carico_core.numerics import merge as merges
from carico_core.wire import codec
from carico_core.wire import messages as wire

# Sets of dimensions of which `sequential` keeps a state: nodes of one cluster have few, and who makes up more must not
# grow it for ever.
DIMENSIONS_KEPT = 16


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
    # Nodes of which something was left out, as no other bears it out.
    doubted: tuple[str, ...]


class Merger(Protocol):
    """One way to make the model. `is_led`: one replica's counts, and the others follow it."""

    name: str
    is_led: bool

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
    is_led = False

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
    is_led = True

    def __init__(self) -> None:
        self._rule = merges.Sequential()
        # By dimensions, so that one node that measures others does not end the recursion of all.
        self._grams: dict[tuple[str, ...], messages.Array] = {}

    def arrived(self, entries: list[messages.Entry], live_nodes: int) -> None:
        """Merges each arrival by (N - 1) : 1."""
        for entry in entries:
            self._keep(entry.dims, self._rule.arrive(self._grams.get(entry.dims), entry.gram, max(live_nodes, 1)))

    def follow(self, model: messages.GlobalModel) -> None:
        """The leader's model in place of ours."""
        self._keep(model.dims, model.gram)

    def gram(self, gathered: fleet.Gathered) -> messages.Array | None:
        """The state of the recursion."""
        return self._grams.get(gathered.dims)

    def _keep(self, dims: tuple[str, ...], gram: messages.Array) -> None:
        # Newest last: what is dropped is what no node has measured for longest.
        self._grams.pop(dims, None)
        self._grams[dims] = gram
        if len(self._grams) > DIMENSIONS_KEPT:
            del self._grams[next(iter(self._grams))]


def make(gathered: fleet.Gathered, merger: Merger) -> Content | None:
    """What the model says now; None where no node is known."""
    gram = merger.gram(gathered)
    if gram is None or not gathered.entries:
        return None
    fused, doubted = evidence.fuse(entry.evidence for entry in gathered.entries)
    peaks = [entry.peak_pods_per_core for entry in gathered.entries]
    peak = trust.borne_out(peaks, alone=trust.PEAK_ALONE)
    if max(peaks) > peak:
        # One alone can be that far ahead.
        doubted.add(peaks.index(max(peaks)))
    return Content(
        epoch=max(entry.ts_ns for entry in gathered.entries) // 1_000_000,
        merge=merger.name,
        dims=gathered.dims,
        gram=gram,
        weight=sum(entry.weight for entry in gathered.entries),
        contributors=len(gathered.entries),
        evidence=fused,
        peak_pods_per_core=peak,
        doubted=tuple(gathered.entries[place].node for place in sorted(doubted)),
    )


def encode(found: messages.GlobalModel) -> bytes:
    """The bytes of a model; with fewer classes where all of them are more than readers take."""
    payload = wire.encode_model(found)
    while len(payload) > codec.MODEL_MAX_BYTES:
        found = dataclasses.replace(found, evidence=evidence.largest(found.evidence, len(found.evidence) // 2))
        payload = wire.encode_model(found)
    return payload
