"""The fake clock and the boot id."""

import time

import pytest

from carico_core.runtime.process import clock as clocks


def test_fake_clock_moves_both_times_together() -> None:
    clock = clocks.FakeClock(monotonic_s=5.0, wall_ns=1_000)
    clock.advance(0.25)
    assert clock.monotonic_s() == 5.25
    assert clock.wall_ns() == 1_000 + 250_000_000


def test_a_thousand_small_steps_do_not_drift() -> None:
    clock = clocks.FakeClock()
    for _ in range(1000):
        clock.advance(0.1)
    assert clock.monotonic_s() == pytest.approx(100.0, abs=1e-9)


def test_wall_clock_may_jump_back_and_monotonic_does_not() -> None:
    clock = clocks.FakeClock()
    before_ns = clock.wall_ns()
    clock.step_wall(-3600)
    assert clock.wall_ns() < before_ns
    assert clock.monotonic_s() == 0.0
    with pytest.raises(ValueError, match="expected 0 or more"):
        clock.advance(-1)


def test_boot_ids_are_16_hex_digits_and_sort_by_start() -> None:
    clock = clocks.FakeClock()
    first = clocks.boot_id(clock)
    clock.advance(0.001)
    later = [clocks.boot_id(clock) for _ in range(20)]
    assert all(len(boot) == 16 and int(boot, 16) > int(first, 16) and boot > first for boot in later)
    assert len(set(later)) > 1, "two starts at the same instant differ"


def test_system_clock_runs() -> None:
    clock: clocks.Clock = clocks.SystemClock()
    before_s, before_ns = time.monotonic(), time.time_ns()
    assert before_s <= clock.monotonic_s() <= time.monotonic()
    assert before_ns <= clock.wall_ns() <= time.time_ns()


def test_the_boot_clock_counts_what_the_machine_slept() -> None:
    # Nothing here can suspend a machine; CLOCK_BOOTTIME is never behind CLOCK_MONOTONIC, and moves as it does.
    boot, plain = clocks.BootClock(), clocks.SystemClock()
    before_s, before_boot_s = plain.monotonic_s(), boot.monotonic_s()
    assert before_boot_s >= before_s - 1.0
    after_boot_s, after_s = boot.monotonic_s(), plain.monotonic_s()
    assert 0.0 <= after_boot_s - before_boot_s <= after_s - before_s + 0.1
