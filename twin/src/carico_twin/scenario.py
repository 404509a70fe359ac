"""What is run in the twin: a cluster, jobs, and faults."""

import dataclasses
import math

from carico_twin import virtual_time
from carico_twin.nodes import kubelet, machine
from carico_twin.nodes import work as works


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A Pod of a recorded job: seconds from the job's start to its creation, and its own core-seconds."""

    after_s: float
    cpu_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`pods` Pods of one kind, created from `at_s` on (`create_per_s` None: all at once).

    arrivals: one for each Pod, in place of create_per_s and of the work's cpu_s. request_cores, request_bytes: each
    Pod's requests, which only schedulers that place by requests use.
    """

    name: str
    work: works.Work
    pods: int
    at_s: float = 0.0
    create_per_s: float | None = None
    arrivals: tuple[Arrival, ...] = ()
    request_cores: float = 0.0
    request_bytes: float = 0.0

    def __post_init__(self) -> None:
        if self.pods < 1:
            raise ValueError(f"job {self.name}: pods: expected 1 or more, got {self.pods}")
        if not self.at_s >= 0.0:
            raise ValueError(f"job {self.name}: at_s: expected 0 or more seconds, got {self.at_s}")
        if self.create_per_s is not None and not 0.0 < self.create_per_s < math.inf:
            raise ValueError(f"job {self.name}: create_per_s: expected more than 0, got {self.create_per_s}")
        if self.arrivals and len(self.arrivals) != self.pods:
            raise ValueError(f"job {self.name}: arrivals: expected {self.pods}, one a Pod, got {len(self.arrivals)}")

    def arrival(self, number: int) -> tuple[float, works.Work]:
        """Return when a Pod is created, in seconds of virtual time, and its work."""
        if self.arrivals:
            each = self.arrivals[number]
            return self.at_s + each.after_s, dataclasses.replace(self.work, cpu_s=each.cpu_s)
        every_s = 0.0 if self.create_per_s is None else 1.0 / self.create_per_s
        return self.at_s + number * every_s, self.work


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """Work outside Kubernetes on a node: `tasks` runnable tasks between two instants."""

    node: int
    tasks: float
    at_s: float
    until_s: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LyingAgent:
    """An agent that advertises excessive room. covers False: its advertisements cover none of its Pods."""

    node: int
    covers: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """limit_s: virtual time after which a run is stopped. dead_agents: share of nodes whose agent never advertises.

    lying_agents: at most one per node. agents_die_at_s: (node, when its agent stops). nodes_join_at_s: (node, when it
    joins the cluster). oom_kills: exceeding a node's memory kills the Pod that holds most, and its Job creates it
    again; otherwise it is only counted (kills hide for how long and by how much a node was overrun).
    """

    name: str
    hardware: tuple[machine.Hardware, ...]
    jobs: tuple[Job, ...]
    runtime: kubelet.Runtime = dataclasses.field(default_factory=kubelet.Runtime)
    link: virtual_time.Link = dataclasses.field(default_factory=virtual_time.Link)
    neighbours: tuple[Neighbour, ...] = ()
    dead_agents: float = 0.0
    lying_agents: tuple[LyingAgent, ...] = ()
    agents_die_at_s: tuple[tuple[int, float], ...] = ()
    nodes_join_at_s: tuple[tuple[int, float], ...] = ()
    oom_kills: bool = False
    # Jobs whose Pods are judged; if empty, all that end.
    measured: tuple[str, ...] = ()
    limit_s: float = 3600.0

    def __post_init__(self) -> None:
        if not self.hardware:
            raise ValueError(f"scenario {self.name}: nodes: expected at least one")
        if not self.jobs:
            raise ValueError(f"scenario {self.name}: jobs: expected at least one")
        if len({job.name for job in self.jobs}) < len(self.jobs):
            raise ValueError(f"scenario {self.name}: jobs: expected distinct names, got {[j.name for j in self.jobs]}")
        self._check_nodes("neighbours", [each.node for each in self.neighbours])
        self._check_nodes("lying_agents", [each.node for each in self.lying_agents])
        self._check_nodes("agents_die_at_s", [node for node, _ in self.agents_die_at_s])
        self._check_nodes("nodes_join_at_s", [node for node, _ in self.nodes_join_at_s])
        for job in self.jobs:
            if self.oom_kills and job.work.memory_bytes > max(
                each.memory_bytes - each.baseline_bytes for each in self.hardware
            ):
                raise ValueError(
                    f"scenario {self.name}: job {job.name}: memory: more than any node has free when empty"
                )

    def _check_nodes(self, field: str, nodes: list[int]) -> None:
        for node in nodes:
            if not 0 <= node < len(self.hardware):
                raise ValueError(f"scenario {self.name}: {field}: node {node}, expected 0 to {len(self.hardware) - 1}")
