"""Ranks nodes by what is requested of them: the fallback while nobody advertises."""

import numpy as np

from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import demand as demands

# What a Pod without requests counts as, as in kube-scheduler's scoring: 100 millicores.
# https://github.com/kubernetes/kubernetes/blob/v1.30.0/pkg/scheduler/util/pod_resources.go
_UNSTATED_CORES = 0.1


class RequestsScore:
    """The unrequested share of a node's cores, in which every Pod counts at least 0.1 cores."""

    def scores(self, view: snapshot.Snapshot, demand: demands.Demand) -> snapshot.Floats:
        """A score for every slot."""
        cores = np.maximum(view.allocatable_cores, 1e-9)
        scores: snapshot.Floats = 1.0 - np.maximum(view.used_cores, _UNSTATED_CORES * view.placed) / cores
        return scores

    def score(self, row: snapshot.NodeRow, view: snapshot.Snapshot, demand: demands.Demand) -> float:
        """The score of one node."""
        cores = max(row.node.allocatable_cores, 1e-9)
        return 1.0 - max(row.used_cores, _UNSTATED_CORES * row.placed) / cores
