"""Time, as an argument: the only place that reads the machine's clocks."""

import secrets
import time
from typing import Protocol

# Number of random low bits in a boot id: two starts within 65 us of each other still differ.
BOOT_RANDOM_BITS = 16


class Clock(Protocol):
    """Monotonic seconds for intervals, wall-clock nanoseconds for what other machines read."""

    def monotonic_s(self) -> float: ...

    def wall_ns(self) -> int: ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def monotonic_s(self) -> float:
        """Return seconds since an arbitrary start; they never decrease."""
        return time.monotonic()

    def wall_ns(self) -> int:
        """Return Unix time in nanoseconds; it may jump."""
        return time.time_ns()


class BootClock(SystemClock):
    """The machine's clocks; the monotonic time continues while the machine is suspended.

    CLOCK_MONOTONIC stops during suspension: a scheduler that wakes up after an hour would still consider itself the
    leader, and its nodes' messages fresh. (https://man7.org/linux/man-pages/man2/clock_gettime.2.html)
    """

    __slots__ = ()

    def monotonic_s(self) -> float:
        """Return the seconds since the machine was booted, including suspension."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class FakeClock:
    """A clock that only moves by `advance`; both times move together.

    >>> clock = FakeClock()
    >>> clock.advance(1.5)
    >>> clock.monotonic_s()
    1.5
    """

    __slots__ = ("_monotonic_ns", "_wall_offset_ns")

    def __init__(self, *, monotonic_s: float = 0.0, wall_ns: int = 1_700_000_000_000_000_000) -> None:
        self._monotonic_ns = round(monotonic_s * 1e9)
        self._wall_offset_ns = wall_ns - self._monotonic_ns

    def monotonic_s(self) -> float:
        """Return the seconds since the given start."""
        return self._monotonic_ns / 1e9

    def wall_ns(self) -> int:
        """Return Unix time in nanoseconds."""
        return self._monotonic_ns + self._wall_offset_ns

    def advance(self, seconds: float) -> None:
        """Move both clocks forward. Raises `ValueError` if `seconds` is negative."""
        if seconds < 0:
            raise ValueError(f"got {seconds} s, expected 0 or more: monotonic time does not go backwards")
        self._monotonic_ns += round(seconds * 1e9)

    def step_wall(self, seconds: float) -> None:
        """Move only the wall clock, as when the time of a machine is set."""
        self._wall_offset_ns += round(seconds * 1e9)


def boot_id(clock: Clock) -> str:
    """Return 16 hex digits that sort by start time: the start in ns, with 16 random low bits.

    >>> boot_id(FakeClock(wall_ns=0x17979CFE362A0000))[:12]
    '17979cfe362a'
    """
    start = clock.wall_ns() >> BOOT_RANDOM_BITS << BOOT_RANDOM_BITS
    return f"{start | secrets.randbits(BOOT_RANDOM_BITS):016x}"
