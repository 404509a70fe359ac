"""What a source of telemetry is: it is read at every sample and says what share of the node was in use since."""

from typing import Protocol

from carico_core.domain import errors


class Absent(errors.CaricoError):
    """This machine does not have it: a kernel without PSI, a group that was never made, no right to read."""

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        self.why = why
        super().__init__(f"{what}: {why}")


class Broken(errors.CaricoError):
    """It is there and cannot be understood: a truncated file, a group that went away. The sample is skipped."""

    def __init__(self, what: str, got: object) -> None:
        self.what = what
        shown = got[:80] if isinstance(got, bytes | str) else got
        super().__init__(f"{what}: got {shown!r}, expected what the kernel documents")


class Gauge(Protocol):
    """One share of a node, 0 (free) to 1 (exhausted)."""

    def read(self) -> float | None:
        """Return the share since the last read; None where there is no sample (first read, a counter that went back).

        Raises `Broken`.
        """
        ...


class Utilisation(Gauge, Protocol):
    """A share of CPU time; `cores` says how many real CPUs a share of 1 is."""

    @property
    def cores(self) -> float: ...


class Dimension(Gauge, Protocol):
    """The gauge of a dimension other than CPU and memory; `full` says what a share of 1 is, in physical units."""

    @property
    def full(self) -> float: ...
