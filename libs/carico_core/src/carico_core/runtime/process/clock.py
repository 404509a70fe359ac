"""Time, as an argument: the only place that reads the machine's clocks."""

import secrets
import time
from typing import Protocol

# The low bits of a boot id that are random: two starts within 65 us of each other still differ.
BOOT_RANDOM_BITS = 16


class Clock(Protocol):
    """Monotonic seconds for intervals, wall-clock nanoseconds for what other machines read."""

    def monotonic_s(self) -> float: ...

    def wall_ns(self) -> int: ...


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()

    def monotonic_s(self) -> float:
        """Seconds that never go backwards, from an arbitrary start."""
        return time.monotonic()

    def wall_ns(self) -> int:
        """Unix time in nanoseconds; may jump."""
        return time.time_ns()


class BootClock(SystemClock):
    """The machine's clocks; its monotonic time goes on while the machine is suspended.

    CLOCK_MONOTONIC stands still then, so that a scheduler that wakes up after an hour would still take itself for the
    leader, and what its nodes said an hour ago for fresh. (https://man7.org/linux/man-pages/man2/clock_gettime.2.html)
    """

    __slots__ = ()

    def monotonic_s(self) -> float:
        """Seconds since the machine was started, suspended ones included."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)


class FakeClock:
    """A clock that stands still until `advance`; both times move together.

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
        """Seconds since the start it was given."""
        return self._monotonic_ns / 1e9

    def wall_ns(self) -> int:
        """Unix time in nanoseconds."""
        return self._monotonic_ns + self._wall_offset_ns

    def advance(self, seconds: float) -> None:
        """Move both clocks forward. Raises `ValueError` where `seconds` is negative."""
        if seconds < 0:
            raise ValueError(f"got {seconds} s, expected 0 or more: monotonic time does not go backwards")
        self._monotonic_ns += round(seconds * 1e9)

    def step_wall(self, seconds: float) -> None:
        """Move the wall clock alone, as when a machine's time is set."""
        self._wall_offset_ns += round(seconds * 1e9)


def boot_id(clock: Clock) -> str:
    """16 hex digits that sort by start time: the start in ns, its low 16 bits random.

    >>> boot_id(FakeClock(wall_ns=0x17979CFE362A0000))[:12]
    '17979cfe362a'
    """
    start = clock.wall_ns() >> BOOT_RANDOM_BITS << BOOT_RANDOM_BITS
    return f"{start | secrets.randbits(BOOT_RANDOM_BITS):016x}"
