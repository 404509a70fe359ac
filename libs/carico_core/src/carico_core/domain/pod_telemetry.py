"""What agents report of single Pods: the load of each Pod, for views too, and the traffic between Pods."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

# The port of an endpoint whose port the kernel chose for a client: it says nothing, and endpoints are added up.
ANY_PORT = 0


class PodLoad(NamedTuple):
    """The load of one Pod, the mean since it was last read for a report.

    `cores` and `waiting` are in tasks: CPU used in cores of the node, and tasks that waited for a CPU, without those
    that the Pod's own limit held back. `waiting` counts at most one task of a Pod, and is 0 where the kernel does not
    measure it.
    """

    pod_class: str
    cores: float
    waiting: float
    memory_bytes: float

    @property
    def tasks(self) -> float:
        """Runnable tasks: running or waiting."""
        return self.cores + self.waiting


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodLoads:
    """The load of each workload Pod of a node: subject `carico.v1.pods.<node>`. Each report replaces the last one."""

    node: str
    boot: str
    seq: int
    ts_ns: int
    # UID in the node's runtime -> load. Pods of less than a second are not measured yet.
    loads: Mapping[str, PodLoad]
    # Pods with the smallest load that did not fit into the message.
    left_out: int = 0


class Endpoint(NamedTuple):
    """One end of connections: an IP address, and a port or `ANY_PORT`."""

    address: str
    port: int


class PodFlow(NamedTuple):
    """Bytes of all connections between two endpoints in an interval, seen from one of them.

    `pod`: UID of the Pod that has the local end; None if only its address is known. A server's end has its port, a
    client's `ANY_PORT`. The same bytes are in the report of the other end, if its node reports traffic.
    """

    pod: str | None
    local: Endpoint
    remote: Endpoint
    sent_bytes: int
    received_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodTraffic:
    """The traffic of a node's Pods since its last report: subject `carico.v1.traffic.<node>`. Reports add up."""

    node: str
    boot: str
    seq: int
    ts_ns: int
    interval_s: float
    # The network namespace of the host: loopback addresses mean the same in reports with the same one.
    network: str
    flows: tuple[PodFlow, ...]
    # Bytes of the smallest flows, which did not fit into the message.
    left_out_bytes: int = 0
    # Readings that were skipped since the agent started, by reason.
    skipped: Mapping[str, int] = dataclasses.field(default_factory=dict)
