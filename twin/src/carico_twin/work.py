"""What a Pod needs of a node: threads, CPU time, memory; the true values, known only to the machine and the oracle."""

import dataclasses

GIB = 2.0**30


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One kind of Pod. Times are seconds on an idle node, memory is bytes.

    threads: runnable threads while it works (a fraction: the share of the time in which one is runnable). cpu_s: total
    core-seconds that it needs; None: it runs for `lifetime_s` of wall-clock time whatever it gets. memory_bytes:
    reached linearly over `ramp_s` of running. limit_cores: CPU limit. busy_threads: replaces threads from `busy_at_s`
    of virtual time on.
    """

    name: str
    threads: float = 1.0
    cpu_s: float | None = None
    lifetime_s: float | None = None
    memory_bytes: float = 0.0
    ramp_s: float = 0.0
    limit_cores: float | None = None
    # Standard deviation of cpu_s between Pods of a kind, as a share.
    spread: float = 0.0
    busy_at_s: float | None = None
    busy_threads: float = 0.0

    def __post_init__(self) -> None:
        if (self.cpu_s is None) == (self.lifetime_s is None):
            raise ValueError(
                f"work {self.name}: expected either cpu_s or lifetime_s, got {self.cpu_s}, {self.lifetime_s}"
            )

    @property
    def most_threads(self) -> float:
        """The maximum of its threads, within its CPU limit."""
        threads = max(self.threads, self.busy_threads)
        return threads if self.limit_cores is None else min(threads, self.limit_cores)

    @property
    def alone_s(self) -> float:
        """How long it runs alone on a node with a core for each thread."""
        if self.lifetime_s is not None:
            return self.lifetime_s
        assert self.cpu_s is not None
        return self.cpu_s / (self.threads if self.limit_cores is None else min(self.threads, self.limit_cores))


# The dissertation's workloads (design, section 11): about 5 s and 25 s alone; sklearn holds 0.75 GB. Variants: memory
# held from the start, memory that grows to the end, four threads, and other kinds of CPU work.
PI = Work(name="pi", cpu_s=4.8, spread=0.03)
SKLEARN = Work(name="sklearn", cpu_s=25.0, memory_bytes=0.75 * GIB, ramp_s=2.0, spread=0.03)
HOLDS_MEMORY = Work(name="holds", cpu_s=20.0, memory_bytes=1.5 * GIB, ramp_s=1.0, spread=0.03)
GROWS_MEMORY = Work(name="grows", cpu_s=20.0, memory_bytes=1.5 * GIB, ramp_s=20.0, spread=0.03)
QUARTER_CORE = Work(name="quarter", threads=0.25, cpu_s=3.75, spread=0.03)
FOUR_THREADS = Work(name="fourfold", threads=4.0, cpu_s=20.0, spread=0.03)
SERVER = Work(name="server", threads=0.02, lifetime_s=1e6)
LIMITED = Work(name="limited", cpu_s=1.0, limit_cores=0.2, spread=0.03)
