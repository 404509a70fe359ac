"""What happened in a run: the instants of each Pod's life, and what the nodes carried meanwhile."""

import dataclasses
import math

from carico_twin import work as works


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class PodRecord:
    """One Pod: what it is, and its instants in seconds of virtual time; NaN: has not happened."""

    uid: str
    job: str
    work: works.Work
    cpu_s: float
    created_s: float
    # What its owner requests of Kubernetes; only schedulers that go by requests look at it.
    request_cores: float = 0.0
    request_bytes: float = 0.0
    node: int = -1
    # The advertisement that it was placed by; 0: none.
    advertised_seq: int = 0
    binds: int = 0
    bound_s: float = math.nan
    started_s: float = math.nan
    ended_s: float = math.nan
    terminal_s: float = math.nan
    # Killed for memory.
    failed: bool = False

    @property
    def pod_s(self) -> float:
        """Pod time: process start to exit."""
        return self.ended_s - self.started_s


@dataclasses.dataclass(slots=True, eq=False)
class NodeRecord:
    """What one node carried, as integrals over time.

    contended_s: more runnable tasks than cores. doubled_s: more than twice as many. memory_over_s: more memory asked
    for than there is. server_s, server_contended_s: of the time with a server on it.
    """

    cores: float
    most_pods: int = 0
    pod_s: float = 0.0
    tasks_s: float = 0.0
    contended_s: float = 0.0
    doubled_s: float = 0.0
    doubled_running_s: float = 0.0
    memory_over_s: float = 0.0
    peak_memory_share: float = 0.0
    server_s: float = 0.0
    server_contended_s: float = 0.0
    # Pods bound while the node already had more runnable tasks than cores / than its memory carries.
    bound_when_full: int = 0
    oom_kills: int = 0
