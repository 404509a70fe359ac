"""Keep the newest entry of every live node, from which the model follows. Pure: time is an argument.

Why every replica computes the same model. The shared queue hands a node's successive subspaces to different replicas,
so a recursion over a replica's own arrivals would differ from replica to replica. Here the recursion of `round`,

    G <- rho G + (1 - rho) mean_n(G_n),   rho = exp(-dt / T),

is taken into the entries, where it is linear: G_n' <- rho G_n' + (1 - rho) G_n with dt from the node's own stamps, and
the model is mean_n(G_n'). Each message is filtered by the one replica that took it, and all others adopt its entry, so
the model is a function of the entries alone: the same entries, summed in the order of node names, give the same bits.
A node that reports twice moves its own entry only; a node that leaves takes its weight along.
"""

import collections
import dataclasses
import math
import sys
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from carico_aggregator import merges, trust
from carico_core.domain import errors, messages
from carico_core.numerics import subspace

# Of memory for entries: 5,000 nodes that report 20 classes each take 150 MiB. With a key of all nodes' agents one can
# report under any number of names, which must not keep out larger reports of nodes that are known.
ENTRIES_MOST_BYTES = 192 << 20
LARGER_MOST_BYTES = 32 << 20
# What Python takes, measured: an entry, a class, and an estimate under a name of its own, which has 15 bytes in a
# message.
_ENTRY_BYTES = 1500
_CLASS_BYTES = 450
_ESTIMATE_BYTES = 210


@dataclasses.dataclass(slots=True, eq=False)
class _Held:
    """An entry, when its content was new by this replica's clock, and about how much memory it takes."""

    entry: messages.Entry
    heard_s: float
    size_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Mergeable:
    """The live entries that share the dimensions of most nodes, in the order of their names."""

    dims: tuple[str, ...]
    entries: tuple[messages.Entry, ...]
    # Nodes with other dimensions: they are left out of the model.
    odd: tuple[str, ...]


class Members:
    """Entries by node. `horizon_s` None: entries are kept as they came (merge `sequential`)."""

    def __init__(self, *, lease_s: float, horizon_s: float | None) -> None:
        self._lease_s = lease_s
        self._horizon_s = horizon_s
        self._held: dict[str, _Held] = {}
        self._size_bytes = 0
        # Grows with every change of the entries.
        self.version = 0
        # Nodes of the last `take` whose report was refused, and why. What no node can have measured: agents would drop
        # a model that contains it, so one wrong node would leave all without a model.
        self.refused: list[tuple[str, errors.MessageError]] = []

    def __len__(self) -> int:
        return len(self._held)

    def names(self) -> list[str]:
        """Return the nodes that have an entry."""
        return list(self._held)

    def take(
        self, reports: Sequence[messages.LocalSubspace], now_s: float, sizes: Sequence[int] | None = None
    ) -> list[messages.Entry]:  # fmt: skip
        """Take in reports; return the entries that they changed, in order of arrival.

        A report that is not newer, or that is `refused`, changes nothing. `sizes`: of their messages in bytes; None:
        they are not counted.
        """
        changed: list[messages.Entry] = []
        self.refused = []
        grams, largest = measured(reports)
        sizes = [0] * len(reports) if sizes is None else sizes
        for report, gram, most, message_bytes in zip(reports, grams, largest, sizes, strict=True):
            held = self._held.get(report.node)
            size_bytes = _size_of(report.evidence, gram, message_bytes)
            wrong = trust.impossible(report, most) or self._too_much(held, size_bytes)
            if wrong is not None:
                self.refused.append((report.node, wrong))
                continue
            if held is not None and not _is_newer(report, held.entry):
                continue
            entry = self._entry(report, gram, None if held is None else held.entry)
            self._hold(entry, now_s, size_bytes)
            changed.append(entry)
        return changed

    def adopt(self, entry: messages.Entry, now_s: float, message_bytes: int = 0) -> bool:
        """Adopt another replica's entry if it is newer than ours, within its lease, and plausible; return whether.

        `message_bytes`: its part of the message.
        """
        held = self._held.get(entry.node)
        size_bytes = _size_of(entry.evidence, entry.gram, message_bytes)
        if entry.age_s >= self._lease_s or (held is not None and not _is_newer(entry, held.entry)):
            return False
        # Plain Python: of a few numbers it finds the largest in half of numpy's time, and entries come by thousands.
        if trust.impossible(entry, max(map(max, entry.gram.tolist()))) or self._too_much(held, size_bytes):
            return False
        self._hold(entry, now_s - entry.age_s, size_bytes)
        return True

    def expire(self, now_s: float) -> list[str]:
        """Remove the nodes that were silent for a lease, and return them."""
        gone = [node for node, held in self._held.items() if now_s - held.heard_s >= self._lease_s]
        for node in gone:
            self._size_bytes -= self._held.pop(node).size_bytes
        self.version += len(gone)
        return gone

    def oldest_s(self, now_s: float) -> float:
        """Return the age of the oldest entry; 0 without entries."""
        return max((now_s - held.heard_s for held in self._held.values()), default=0.0)

    def entry(self, node: str) -> messages.Entry | None:
        """Return a node's newest entry; its age is that of its arrival."""
        held = self._held.get(node)
        return None if held is None else held.entry

    def entries(self, now_s: float, nodes: Iterable[str] | None = None) -> tuple[messages.Entry, ...]:
        """Return the entries of `nodes` (None: all), ordered by name, with their current age."""
        wanted = sorted(self._held if nodes is None else self._held.keys() & set(nodes))
        return tuple(
            dataclasses.replace(self._held[node].entry, age_s=max(0.0, now_s - self._held[node].heard_s))
            for node in wanted
        )

    def mergeable(self) -> Mergeable:
        """Return the entries that the model is made of."""
        ordered = [self._held[node].entry for node in sorted(self._held)]
        if not ordered:
            return Mergeable(dims=(), entries=(), odd=())
        counts = collections.Counter(entry.dims for entry in ordered)
        # The most common dimensions; among equals the first by name, so that replicas agree.
        dims = min(counts, key=lambda found: (-counts[found], found))
        return Mergeable(
            dims=dims,
            entries=tuple(entry for entry in ordered if entry.dims == dims),
            odd=tuple(entry.node for entry in ordered if entry.dims != dims),
        )

    def _too_much(self, before: _Held | None, size_bytes: int) -> errors.MessageError | None:
        """Return why an entry finds no room, in place of the one `before`; None if it does."""
        if before is None:
            more, most = size_bytes, ENTRIES_MOST_BYTES
        else:
            more, most = size_bytes - before.size_bytes, ENTRIES_MOST_BYTES + LARGER_MOST_BYTES
        if more <= 0 or self._size_bytes + more <= most:
            return None
        detail = f"entries of {len(self._held)} nodes fill the {most >> 20} MiB that there are for them"
        return errors.MessageError(errors.Drop.TOO_MANY, "", detail)

    def _hold(self, entry: messages.Entry, heard_s: float, size_bytes: int) -> None:
        before = self._held.get(entry.node)
        self._size_bytes += size_bytes - (0 if before is None else before.size_bytes)
        self._held[entry.node] = _Held(entry, heard_s, size_bytes)
        self.version += 1

    def _entry(
        self, report: messages.LocalSubspace, gram: messages.Array, before: messages.Entry | None
    ) -> messages.Entry:
        return messages.Entry(
            node=report.node,
            boot=report.boot,
            seq=report.seq,
            ts_ns=report.ts_ns,
            age_s=0.0,
            dims=report.dims,
            gram=self._filtered(report, gram, before),
            weight=report.weight,
            scale=report.scale,
            evidence=report.evidence,
            peak_pods_per_core=report.peak_pods_per_core,
        )

    def _filtered(
        self, report: messages.LocalSubspace, gram: messages.Array, before: messages.Entry | None
    ) -> messages.Array:
        if self._horizon_s is None or before is None or before.boot != report.boot or before.dims != report.dims:
            return gram
        span_s = (report.ts_ns - before.ts_ns) / 1e9
        if span_s < 0.0:
            # The node's clock was set back: its reports would have no weight until the clock has caught up.
            return gram
        # rho = exp(-dt / T);   G_n' <- rho G_n' + (1 - rho) G_n
        rho = math.exp(-span_s / self._horizon_s)
        filtered: messages.Array = rho * before.gram + (1.0 - rho) * gram
        return filtered


def measured(reports: Sequence[messages.LocalSubspace]) -> tuple[list[messages.Array], list[float]]:
    """Return the (d, d) Gram matrix of each report and its largest element; equal shapes are computed in one step."""
    found: list[messages.Array | None] = [None] * len(reports)
    largest = [0.0] * len(reports)
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for index, report in enumerate(reports):
        by_shape.setdefault(report.u.shape, []).append(index)
    for indices in by_shape.values():
        stacked = subspace.stack_to_gram(
            np.stack([reports[i].u for i in indices]), np.stack([reports[i].sigma for i in indices])
        )
        for index, gram, most in zip(indices, stacked, stacked.max(axis=(1, 2)).tolist(), strict=True):
            found[index], largest[index] = gram, most
    return [gram for gram in found if gram is not None], largest


def _size_of(
    evidence: Mapping[str, messages.ClassEvidence], gram: messages.Array, message_bytes: int
) -> int:  # fmt: skip
    """Return about how many bytes of memory an entry takes: decoded, a message may take twelve times its bytes."""
    estimates = sum([len(each.cost) + len(each.growth) for each in evidence.values()])
    # A name with one character beyond ASCII takes up to four times its bytes.
    classes = sum(map(sys.getsizeof, evidence)) + _CLASS_BYTES * len(evidence)
    return message_bytes + _ENTRY_BYTES + gram.nbytes + classes + _ESTIMATE_BYTES * estimates


def mean_gram(entries: Sequence[messages.Entry]) -> messages.Array:
    """Return the mean of the entries' Gram matrices, weighted by live cores, summed in the given order."""
    grams = np.stack([entry.gram for entry in entries])
    weights = trust.weights(np.array([entry.weight for entry in entries]))
    if not weights.sum() > 0.0:
        weights = np.ones(len(entries))
    return merges.mean(grams, weights)


def _is_newer(found: messages.LocalSubspace | messages.Entry, held: messages.Entry) -> bool:
    # A later boot sorts higher; an older one is refused until the lease of the later has ended and it is not held.
    return (found.boot, found.seq) > (held.boot, held.seq)
