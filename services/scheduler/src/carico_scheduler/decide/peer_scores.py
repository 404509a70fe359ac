"""The scores for a demand that depends on other Pods, volumes or preferences: a placement may change all of them."""

from collections.abc import Iterable

import numpy as np

from carico_core.domain import cluster, decision
from carico_scheduler.decide import masks
from carico_scheduler.decide import scores as scoring
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands
from carico_scheduler.rules import preferences, protocol, registry


class PeerScores:
    """The scores of all nodes for one demand during one cycle: from each node alone, and from other Pods.

    If a placement may change the scores of other nodes, all are computed again when next asked for. That costs some
    passes over all nodes; plain scores cost one.
    """

    def __init__(
        self,
        plain: scoring.Scores,
        *,
        peers: list[tuple[decision.Reason, protocol.Peers]],
        preferred: preferences.Preferences | None,
    ) -> None:
        self._plain = plain
        self._peers = peers
        self._preferred = preferred
        self._conditions: list[tuple[decision.Reason, protocol.Condition]] = []
        self._whole: scoring.Scores | None = None
        for pod, slot in plain.draft.placed:
            self._count(pod, slot)
        for pod, slot in plain.draft.held:
            self._hold(pod, slot)

    @property
    def demand(self) -> demands.Demand:
        """The demand that is scored."""
        return self._plain.demand

    @property
    def view(self) -> snapshot.Snapshot:
        """The snapshot that is scored."""
        return self._plain.view

    @property
    def stages(self) -> registry.Stages:
        """The stages by which it is scored."""
        return self._plain.stages

    @property
    def mask(self) -> masks.NodeMask:
        """The nodes that pass the filters over Node objects."""
        return self._plain.mask

    @property
    def values(self) -> snapshot.Floats:
        """The score per slot, -inf for a refused node."""
        return self._settled().values

    @property
    def refused(self) -> dict[str, int]:
        """The number of refused nodes by reason."""
        return self._settled().refused

    @property
    def allowed(self) -> snapshot.Bools:
        """See `scores.Scores`."""
        self._settled()
        return self._meeting(condition for _, condition in self._conditions if not condition.yields)

    @property
    def unopposed(self) -> snapshot.Bools:
        """See `scores.Scores`."""
        self._settled()
        return self._meeting(condition for _, condition in self._conditions)

    def _meeting(self, conditions: Iterable[protocol.Condition]) -> snapshot.Bools:
        nodes = self._plain.mask.mask
        for each in conditions:
            nodes = nodes & each.passes
        return nodes

    def hold(self, pod: cluster.Pod | None, slot: int, row: snapshot.NodeRow) -> bool:
        """See `scores.Scores`."""
        self._plain.hold(pod, slot, row)
        if pod is not None and self._peers:
            self._hold(pod, slot)
            self._whole = None
        self._follow(slot, row)
        return True

    def best(self, uid: str) -> int:
        """See `scores.Scores`."""
        return self._settled().best(uid)

    def seen(self) -> scoring.Seen:
        """See `scores.Scores`."""
        return self._settled().seen()

    def take(self, pod: cluster.Pod, slot: int, row: snapshot.NodeRow) -> bool:
        """See `scores.Scores`."""
        self._plain.update(slot, row)
        if self._count(pod, slot):
            self._whole = None
        else:
            self._follow(slot, row)
        return True

    def _hold(self, pod: cluster.Pod, slot: int) -> None:
        """Count a Pod for which room is held."""
        for _, each in self._peers:
            each.hold(pod, slot)

    def rejection(self, row: snapshot.NodeRow) -> decision.Rejection | None:
        """Return why the node is refused, by the first filter that does; None if it has room."""
        plain = self._plain.rejection(row)
        if plain is not None:
            return plain
        self._settled()
        for reason, condition in self._conditions:
            if not condition.passes[row.slot]:
                return decision.Rejection(reason=reason, detail=condition.why(row.slot))
        return None

    def _count(self, pod: cluster.Pod, slot: int) -> bool:
        """Count a Pod that this cycle has placed; return True if other nodes may pass or score otherwise now."""
        for _, each in self._peers:
            each.add(pod, slot)
        is_changed = self._preferred is not None and self._preferred.add(pod, slot)
        return is_changed or bool(self._peers)

    def _follow(self, slot: int, row: snapshot.NodeRow) -> None:
        """Bring one node up to date, which is now as `row`; if that may change others, compute all again."""
        whole = self._whole
        if whole is None or whole.values[slot] == scoring.REFUSED:
            return
        if self._peers or not whole.update(slot, row):
            self._whole = None

    def _settled(self) -> scoring.Scores:
        """Return the scores after all placements so far."""
        if self._whole is None:
            self._whole = self._settle()
        return self._whole

    def _settle(self) -> scoring.Scores:
        plain = self._plain
        values, refused = plain.values.copy(), dict(plain.refused)
        self._conditions = [(reason, each) for reason, peers in self._peers for each in peers.conditions()]
        if self._conditions:
            feasible = values > scoring.REFUSED
            count = int(np.count_nonzero(feasible))
            for reason, condition in self._conditions:
                feasible, count = scoring.narrowed(feasible, count, condition.passes, reason, refused)
            values = np.where(feasible, values, scoring.REFUSED)
        whole = scoring.Scores(
            demand=plain.demand, view=plain.view, stages=plain.stages, mask=plain.mask, values=values, refused=refused,
            draft=plain.draft,
        )  # fmt: skip
        if self._preferred is not None:
            whole.prefer(self._preferred)
        return whole


def slot_for(scores: scoring.Scores | PeerScores, pod: cluster.Pod) -> int:
    """Return the node of the Pod's status.nominatedNodeName if that is feasible, else the best one, or NO_NODE.

    As in kube-scheduler: room was made for the Pod there, or something else than a scheduler wants it there.
    """
    nominated = scores.view.slot_of(pod.nominated_node) if pod.nominated_node else None
    if nominated is not None and scores.values[nominated] > scoring.REFUSED:
        return nominated
    return scores.best(pod.uid)
