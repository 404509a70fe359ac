"""Rates from counters, with the ways a kernel counter misbehaves."""

from hypothesis import given
from hypothesis import strategies as st

from carico_agent.telemetry.proc import kernel_file

numbers = st.floats(min_value=0, max_value=1e15)


def test_rate_is_difference_over_elapsed_time() -> None:
    assert kernel_file.rate(1_000.0, 1_500.0, 0.25) == 2_000.0


@given(numbers, numbers, numbers)
def test_a_counter_that_goes_back_or_no_time_gives_no_sample(before: float, after: float, elapsed: float) -> None:
    value = kernel_file.rate(before, after, elapsed)
    if after < before or elapsed <= 0:
        assert value is None
    else:
        assert value is not None
        assert value >= 0


@given(numbers, numbers, numbers, numbers)
def test_ratio_and_share_stay_between_0_and_1(a: float, b: float, c: float, d: float) -> None:
    for value in (kernel_file.ratio(a, b, c), kernel_file.share(a, b, c, d)):
        assert value is None or 0.0 <= value <= 1.0


def test_a_full_counter_read_a_moment_late_is_full_and_no_more() -> None:
    assert kernel_file.ratio(0, 100_400, 100_000) == 1.0


def test_share_needs_the_whole_to_move() -> None:
    assert kernel_file.share(5, 5, 100, 100) is None
    assert kernel_file.share(5, 4, 100, 110) is None
    assert kernel_file.share(5, 8, 100, 110) == 0.3
