"""Traffic from a file: each report after its interval, and lines that cannot be used are skipped and counted."""

import asyncio
import collections
import dataclasses
import pathlib

import pytest

from carico_agent.traffic import recorded
from carico_core.domain import errors, pod_telemetry
from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from tests.fixtures.golden import records


def opened(file: pathlib.Path, skipped: collections.Counter[str]) -> recorded.Recorded:
    log = logs.RateLimited(logs.get("test"), clock=clocks.FakeClock())

    def skip(reason: str, count: int) -> None:
        skipped[reason] += count

    return recorded.Recorded(file, node=records.NODE, skipped=skip, log=log)


async def test_reports_are_passed_on_and_bad_lines_are_counted(tmp_path: pathlib.Path) -> None:
    good = wire.encode_traffic(dataclasses.replace(records.TRAFFIC, interval_s=0.0))
    foreign = wire.encode_traffic(dataclasses.replace(records.TRAFFIC, node="another", interval_s=0.0))
    file = tmp_path / "traffic.json"
    file.write_bytes(b"\n".join((good, good[:40], good.replace(b"5000]", b"NaN]"), foreign, b"", good)) + b"\n")
    skipped: collections.Counter[str] = collections.Counter()
    got: list[pod_telemetry.PodFlow] = []
    task = asyncio.create_task(opened(file, skipped).run(got.extend))
    for _ in range(20):
        await asyncio.sleep(0)
    assert got == [*records.TRAFFIC.flows, *records.TRAFFIC.flows]
    assert skipped == {"undecodable": 4}
    assert not task.done(), "a source that ends would stop the agent"
    task.cancel()


def test_a_file_that_is_missing_is_the_users_mistake(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.EnvironmentUnfit, match="one report in each line"):
        opened(tmp_path / "missing", collections.Counter())
