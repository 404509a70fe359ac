"""An emulated node's usage and pressure next to those of a real node with as many cores and Pods."""

import time

import pytest

from bench.cluster import node as bench
from tests.integration.nodes import node_site

pytestmark = pytest.mark.skipif(bool(node_site.why_no_cgroups()), reason=node_site.why_no_cgroups())
# How long a machine that is busy with something else is measured again.
PATIENCE_S = 90.0


@pytest.mark.parametrize(("pods", "utilisation", "pressure"), [(1, 0.25, 0.0), (4, 1.0, 0.1), (8, 1.0, 0.75)])
async def test_a_node_reads_as_loaded_as_a_real_one(pods: int, utilisation: float, pressure: float) -> None:
    # Wide, and tried again: the machine is shared. The shape is what matters: linear in use, then linear in pressure.
    readings: list[bench.Reading] = []
    end_s = time.monotonic() + PATIENCE_S
    while not any(abs(r.utilisation - utilisation) < 0.12 and abs(r.pressure - pressure) < 0.45 for r in readings):
        assert time.monotonic() < end_s, readings
        readings.append(await bench.measure(pods, seconds=1.5))
