"""The twin's node reads and shares as the kernel does: the published table, and conservation of work."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_twin.nodes import machine
from carico_twin.nodes import work as works

SPINNER = works.Work(name="spinner", cpu_s=1000.0)


def loaded(count: int, cores: float = 4.0) -> machine.Machine:
    node = machine.Machine(machine.Hardware(cores=cores))
    for number in range(count):
        node.start(str(number), SPINNER, 1000.0, 0.0)
    node.advance(10.0)
    return node


# One node of 4 vCPU: pi Pods -> utilisation, pressure (design, section 11; measured means over runs).
PUBLISHED = [
    (0, 0.023, 0.010),
    (1, 0.274, 0.006),
    (2, 0.534, 0.007),
    (4, 1.0, 0.062),
    (8, 1.0, 0.971),
    (16, 1.0, 0.990),
]


@pytest.mark.parametrize(("pods", "utilisation", "pressure"), PUBLISHED)
def test_a_node_reads_as_the_published_one(pods: int, utilisation: float, pressure: float) -> None:
    node = loaded(pods)
    assert node.busy_s / 40.0 == pytest.approx(utilisation, abs=0.04)
    assert node.pressure_s / 10.0 == pytest.approx(pressure, abs=0.06)


def test_a_limited_pod_on_an_idle_node_reads_no_pressure() -> None:
    node = machine.Machine(machine.Hardware(cores=2.0))
    node.start("one", works.LIMITED, 1.0, 0.0)
    node.advance(4.0)
    assert node.pressure_s == 0.0
    assert node.running["one"].left == pytest.approx(1.0 - 0.8)


def test_what_a_limited_pod_leaves_goes_to_the_others() -> None:
    node = machine.Machine(machine.Hardware(cores=1.0, baseline_cores=0.0))
    node.start("limited", works.LIMITED, 1.0, 0.0)
    node.start("free", SPINNER, 100.0, 0.0)
    node.start("other", SPINNER, 100.0, 0.0)
    assert node.running["limited"].rate == pytest.approx(0.2)
    assert node.running["free"].rate == pytest.approx(0.4)


@given(st.lists(st.sampled_from([SPINNER, works.LIMITED, works.FOUR_THREADS, works.QUARTER_CORE]), max_size=30))
def test_pods_never_get_more_than_the_node_has_or_they_ask_for(kinds: list[works.Work]) -> None:
    node = machine.Machine(machine.Hardware(cores=4.0, baseline_cores=0.0))
    for number, work in enumerate(kinds):
        node.start(str(number), work, 100.0, 0.0)
    rates = [pod.rate for pod in node.running.values()]
    assert sum(rates) <= 4.0 + 1e-9
    assert all(pod.rate <= pod.asks + 1e-12 for pod in node.running.values())
    # Nothing is left idle while somebody waits.
    asked = sum(pod.asks for pod in node.running.values())
    assert math.isclose(sum(rates), min(asked, 4.0), rel_tol=1e-9, abs_tol=1e-9)


def test_hyperthreads_slow_a_full_node_only() -> None:
    hardware = machine.Hardware(cores=4.0, full_speed=0.7, baseline_cores=0.0)
    node = machine.Machine(hardware)
    for number in range(8):
        node.start(str(number), SPINNER, 1000.0, 0.0)
        rate = node.running["0"].rate
        if number == 1:
            assert rate == pytest.approx(1.0)
    assert node.running["0"].rate == pytest.approx(0.35)
