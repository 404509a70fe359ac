"""Tables 8 to 12 of the rescheduling paper (Bracke et al., section 5.3), by the names of our services and nodes."""

import dataclasses
from collections.abc import Mapping

# Table 8: messages a second of the hub, clients of the others.
TABLE_8 = {
    "low": {"boutique": 6, "vrp": 6, "hub": 6},
    "high": {"boutique": 30, "vrp": 30, "hub": 30},
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Requests, and the limit of memory; the limit of CPU is always the node's 24 cores."""

    cores: float
    memory_gb: float
    limit_gb: float = 24.0


# Table 9, by application and service; `OTHERS`: each of the others.
OTHERS = "others"
TABLE_9: Mapping[tuple[str, str], Resources] = {
    ("boutique", "redis"): Resources(cores=0.5, memory_gb=0.5, limit_gb=4.0),
    ("boutique", OTHERS): Resources(cores=0.1, memory_gb=0.12),
    ("vrp", "frontend"): Resources(cores=1.0, memory_gb=0.5),
    ("vrp", "optimizer"): Resources(cores=4.0, memory_gb=0.5),
    ("vrp", "plotter"): Resources(cores=2.0, memory_gb=0.5),
    ("hub", "tsdb"): Resources(cores=0.5, memory_gb=0.25, limit_gb=1.0),
    **{("hub", f"broker-{number}"): Resources(cores=0.5, memory_gb=2.0, limit_gb=8.0) for number in range(3)},
    ("hub", OTHERS): Resources(cores=0.1, memory_gb=0.25),
}

# Table 10: ms before and after.
SERVICE_TIMES_MS = {
    "low": {"boutique": (447.0, 378.0), "vrp": (1847.0, 1740.0), "hub": (7.56, 5.97)},
    "high": {"boutique": (910.0, 755.0), "vrp": (3257.0, 2372.0), "hub": (5.35, 4.2)},
}
# Table 10: the nodes before (`catalog.Service.node`), after under low load, and after under high load. Those that stay
# are where they were.
TABLE_10_NODES: Mapping[str, tuple[int, int, int]] = {
    "boutique-frontend": (2, 2, 2), "boutique-currency": (6, 2, 2), "boutique-ad": (1, 2, 2),
    "boutique-catalog": (1, 2, 2), "boutique-recommendation": (3, 2, 2), "boutique-checkout": (3, 2, 2),
    "boutique-payment": (6, 2, 2), "boutique-shipping": (4, 2, 2), "boutique-email": (5, 2, 2),
    "boutique-cart": (5, 2, 2), "boutique-redis": (2, 2, 2),
    "vrp-frontend": (5, 6, 6), "vrp-optimizer": (4, 6, 1), "vrp-plotter": (4, 6, 6),
    "hub-ingest": (1, 4, 4), "hub-sink": (1, 4, 4), "hub-query": (2, 3, 3), "hub-streamer": (2, 5, 5),
    "hub-streaming": (3, 5, 5), "hub-tsdb": (3, 3, 3), "hub-broker-0": (4, 4, 4), "hub-broker-1": (5, 5, 5),
    "hub-broker-2": (6, 6, 6),
}  # fmt: skip
# Figure 13: by which share the traffic between nodes fell.
TRAFFIC = {"low": 0.875, "high": 0.5651}

# Table 11: per cent of nodes 1 to 6 that are requested before the descheduler acts, with Kubernetes' own Pods.
TABLE_11 = {
    "CPU": (2.51, 4.29, 2.63, 29.18, 7.93, 3.76),
    "memory": (20.83, 22.57, 22.3, 32.09, 29.04, 27.0),
}
# Table 12: where the descheduler's evicted Pods come to, and by which share service times fall: the worst and the best.
TABLE_12_NODES = {"vrp-optimizer": (5, 6), "vrp-plotter": (5, 5), "boutique-shipping": (5, 3)}
DESCHEDULER = {"boutique": (-0.93, 0.012), "vrp": (-0.265, 0.244), "hub": (-0.044, 0.071)}


def resources(service: str) -> Resources:
    """Return table 9's row of a service.

    >>> resources("boutique-ad").cores, resources("hub-broker-1").memory_gb
    (0.1, 2.0)
    """
    application, _, name = service.partition("-")
    return TABLE_9.get((application, name)) or TABLE_9[application, OTHERS]
