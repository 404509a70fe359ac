"""How utilisation and pressure become one share, on a machine of its own and on a share of one."""

import pytest

from carico_agent.telemetry import cpu
from carico_core.runtime.process import clock as clocks


class Fixed:
    """A gauge that always reads the same."""

    cores = 4.0

    def __init__(self, value: float) -> None:
        self._value = value

    def read(self) -> float:
        return self._value


@pytest.mark.parametrize(
    ("utilisation", "pressure", "host", "shared"),
    [
        (0.5, 0.0, 0.25, 0.25),
        (1.0, 0.06, 0.53, 0.53),
        (1.0, 1.0, 1.0, 1.0),
        # Starved by others: all its tasks wait, and it runs on a third of its quota.
        (0.32, 1.0, 0.66, 1.0),
        (0.4, 0.7, 0.55, 0.7),
    ],
)
def test_a_starved_share_of_a_machine_reads_as_full_as_its_tasks_wait(
    utilisation: float, pressure: float, host: float, shared: float
) -> None:
    for is_shared, expected in ((False, host), (True, shared)):
        gauge = cpu.Cpu(Fixed(utilisation), Fixed(pressure), clock=clocks.FakeClock(), shared=is_shared)
        assert gauge.read() == pytest.approx(expected)
        assert gauge.parts == {"cpu.utilisation": utilisation, "cpu.pressure": pressure}, "the parts stay as read"


def test_without_pressure_it_is_utilisation_alone() -> None:
    gauge = cpu.Cpu(Fixed(0.3), None, clock=clocks.FakeClock(), shared=True)
    assert gauge.read() == pytest.approx(0.3)
    assert gauge.tasks_per_core == 1.0
