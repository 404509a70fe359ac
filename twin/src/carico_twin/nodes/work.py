"""What a Pod needs of a node: threads, CPU time, memory; the true values, known only to the machine and the oracle."""

import dataclasses

GIB = 2.0**30


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of a program's life: `seconds` alone on a node. threads 0: it waits, for disk, network or time."""

    seconds: float
    threads: float = 0.0
    memory_bytes: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One kind of Pod. Times are seconds on an idle node, memory is bytes.

    threads: runnable threads while it works (a fraction: the share of the time in which one is runnable). cpu_s: total
    core-seconds that it needs; None: it runs for `lifetime_s` of wall-clock time whatever it gets. memory_bytes:
    reached linearly over `ramp_s` of running. limit_cores: CPU limit. busy_threads: replaces threads from `busy_at_s`
    of virtual time on. phases: one after the other; threads, cpu_s and memory_bytes are then their mean, sum and most
    (`phased`).
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
    phases: tuple[Phase, ...] = ()

    def __post_init__(self) -> None:
        if (self.cpu_s is None) == (self.lifetime_s is None):
            raise ValueError(
                f"work {self.name}: expected either cpu_s or lifetime_s, got {self.cpu_s}, {self.lifetime_s}"
            )

    @property
    def most_threads(self) -> float:
        """The maximum of its threads, within its CPU limit."""
        threads = max(self.threads, self.busy_threads)
        # Of phases the mean: their most is rarely all at once.
        return threads if self.limit_cores is None else min(threads, self.limit_cores)

    @property
    def alone_s(self) -> float:
        """How long it runs alone on a node with a core for each thread."""
        if self.phases:
            return sum(phase.seconds for phase in self.phases)
        if self.lifetime_s is not None:
            return self.lifetime_s
        assert self.cpu_s is not None
        return self.cpu_s / (self.threads if self.limit_cores is None else min(self.threads, self.limit_cores))


def phased(name: str, *phases: Phase, rounds: int = 1, first: Phase | None = None) -> Work:
    """Return a program that goes through these phases `rounds` times, after the first one if there is one."""
    every = (*(() if first is None else (first,)), *phases * rounds)
    cpu_s = sum(phase.threads * phase.seconds for phase in every)
    return Work(
        name=name,
        threads=cpu_s / sum(phase.seconds for phase in every),
        cpu_s=cpu_s,
        memory_bytes=max(phase.memory_bytes for phase in every),
        spread=0.03,
        phases=every,
    )


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
# Programs that wait, as most do: a duty cycle (a crawler), threads that change (stages of a pipeline), a peak at the
# start (a runtime that compiles its code), and memory that comes and goes (a cache). `carico_local.workloads.phases`
# runs the same ones.
IO = phased(
    "io",
    Phase(seconds=0.5, threads=1.0, memory_bytes=0.1 * GIB), Phase(seconds=1.0, memory_bytes=0.1 * GIB),
    rounds=8,
)  # fmt: skip
STAGES = phased(
    "stages",
    Phase(seconds=1.0, memory_bytes=0.3 * GIB), Phase(seconds=1.0, threads=1.0, memory_bytes=0.3 * GIB),
    Phase(seconds=1.0, threads=4.0, memory_bytes=0.3 * GIB), Phase(seconds=1.5, memory_bytes=0.3 * GIB),
    Phase(seconds=1.0, threads=2.0, memory_bytes=0.3 * GIB),
    rounds=2,
)  # fmt: skip
BOOT = phased(
    "boot",
    Phase(seconds=0.4, threads=1.0, memory_bytes=0.3 * GIB), Phase(seconds=1.2, memory_bytes=0.3 * GIB),
    rounds=6,
    first=Phase(seconds=1.0, threads=4.0, memory_bytes=0.6 * GIB),
)  # fmt: skip
CACHE = phased(
    "cache",
    Phase(seconds=1.0, threads=1.0, memory_bytes=0.2 * GIB), Phase(seconds=2.0, threads=1.0, memory_bytes=1.2 * GIB),
    Phase(seconds=1.5, memory_bytes=0.2 * GIB),
    rounds=3,
)  # fmt: skip
WAITING = (IO, STAGES, BOOT, CACHE)
