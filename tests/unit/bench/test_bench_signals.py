"""Figures 4.6 and 4.7 as a closed loop."""

import pytest

from bench.models import signals
from carico_core.numerics.estimators import scalar
from carico_twin.evaluate import contenders

PAPER = contenders.paper(scalar.LOGGED_IDLE_SIGNAL)


@pytest.mark.parametrize("stress", signals.FIGURES)
def test_peers_with_cpu_work_lower_the_signal_of_a_cpu_node_and_raise_that_of_a_memory_node(stress: str) -> None:
    found = signals.measure(stress, PAPER, seed=1)
    change = found.during / found.before
    assert change < 0.95 if stress == signals.CPU else change > 1.3
