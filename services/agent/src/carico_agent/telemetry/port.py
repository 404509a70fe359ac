"""What a source of telemetry is: at every sample it returns the share of the node in use since the last one."""

from typing import Protocol

from carico_core.domain import errors


class Absent(errors.CaricoError):
    """This machine does not have the source: no PSI in the kernel, no such cgroup, no right to read it."""

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        self.why = why
        super().__init__(f"{what}: {why}")


class Broken(errors.CaricoError):
    """The source exists but cannot be read: a truncated file, a cgroup that was removed. The sample is skipped."""

    def __init__(self, what: str, got: object) -> None:
        self.what = what
        shown = got[:80] if isinstance(got, bytes | str) else got
        super().__init__(f"{what}: got {shown!r}, expected what the kernel documents")


class Resized(errors.CaricoError):
    """The node got other limits: shares are of the new ones, and what was learnt is of the old ones."""

    def __init__(self, *, was: tuple[float, float], now: tuple[float, float]) -> None:
        self.was = was
        self.now = now
        before, after = (f"{cores:g} CPUs and {memory / 2**20:.0f} MiB" for cores, memory in (was, now))
        super().__init__(f"the node was resized from {before} to {after}: restart the agent")


class Gauge(Protocol):
    """One share of a node, 0 (free) to 1 (exhausted)."""

    def read(self) -> float | None:
        """Return the share since the last read; None without a sample (first read, or a counter that decreased).

        Raises `Broken`.
        """
        ...


class Utilisation(Gauge, Protocol):
    """A share of CPU time; a share of 1 is `cores` real CPUs."""

    @property
    def cores(self) -> float: ...


class Dimension(Gauge, Protocol):
    """The gauge of a dimension other than CPU and memory; a share of 1 is `full`, in physical units."""

    @property
    def full(self) -> float: ...
