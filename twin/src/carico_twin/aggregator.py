"""The aggregator of the twin: the aggregator service's own members and model, once a second."""

from collections.abc import Callable

from carico_aggregator import members, model
from carico_core.domain import messages
from carico_core.wire import messages as wire
from carico_twin import agents, virtual_time

LEASE_S = 10.0
HORIZON_S = 10.0
BROADCAST_EVERY_S = 1.0


class TwinAggregator:
    """Takes in subspaces and broadcasts the model. `broadcast` is called with the model as its readers decode it."""

    def __init__(
        self, merge: str, timeline: virtual_time.Timeline, broadcast: Callable[[messages.GlobalModel], None]
    ) -> None:
        is_round = merge == "round"
        self._merger: model.Merger = model.RoundMerger() if is_round else model.SequentialMerger()
        self._members = members.Members(lease_s=LEASE_S, horizon_s=HORIZON_S if is_round else None)
        self._timeline = timeline
        self._broadcast = broadcast
        self._arrived: list[messages.LocalSubspace] = []
        self._seq = 0
        self.last: messages.GlobalModel | None = None
        timeline.after(BROADCAST_EVERY_S, self._beat)

    def hear(self, said: messages.LocalSubspace) -> None:
        """Take in a node's local subspace."""
        self._arrived.append(said)

    def _beat(self) -> None:
        now_s = self._timeline.now_s
        self._timeline.after(BROADCAST_EVERY_S, self._beat)
        self._merger.arrived(self._members.take(self._arrived, now_s), len(self._members))
        self._arrived = []
        self._members.expire(now_s)
        content = model.make(self._members.mergeable(), self._merger)
        if content is None:
            return
        self._seq += 1
        self.last = messages.GlobalModel(
            replica="aggregator", boot="0" * 16, seq=self._seq, ts_ns=agents.EPOCH_NS + round(now_s * 1e9),
            epoch=content.epoch, merge=content.merge, contributors=content.contributors, weight=content.weight,
            dims=content.dims, gram=content.gram, evidence=content.evidence,
            peak_pods_per_core=content.peak_pods_per_core,
        )  # fmt: skip
        # Encoding limits the size and may leave out classes: readers get what is in the bytes.
        self._broadcast(wire.decode_model(model.encode(self.last)))
