"""Aggregator replicas as processes on a real NATS: one model, whichever replica dies."""

import asyncio
import contextlib
import pathlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable

import nats
import numpy as np
import pytest

from carico_core.domain import messages
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock
from carico_core.wire import messages as wire
from carico_core.wire import streams, subjects
from tests.tools import service_process, waiting
from tests.tools.sites import nats_site
from tests.unit.aggregator import reports

# Four interpreters start at once, on a machine that may do much besides.
WAIT_S = 90.0
NODES = 12
# What a report may wait for while interpreters start: no test but one waits for the end of a lease.
LEASE_S = 300.0
# Where the end of a lease is waited for; reports come more often than that.
SHORT_LEASE_S = 3.0


class Rig:
    """A NATS server, replicas, and an agent of every node in one."""

    def __init__(self, directory: pathlib.Path, *, lease_s: float) -> None:
        self.server = nats_site.NatsServer(directory / "nats")
        self.replicas: dict[str, subprocess.Popen[bytes]] = {}
        self.models: dict[str, messages.GlobalModel] = {}
        self.boots: dict[str, str] = {}
        self._directory = directory
        self._lease_s = lease_s
        self.seq = 0

    async def open(self) -> None:
        self.server.start()
        settings = buses.BusSettings(url=self.server.url, lease_s=self._lease_s)
        self.bus = await nats_bus.connect(settings, name="rig", clock=clock.SystemClock())
        await self.bus.subscribe(subjects.MODEL, self._on_model)

    def start(self, name: str, *flags: str) -> None:
        own = ("--bus-url", self.server.url, "--bus-lease-s", f"{self._lease_s:g}", "--replica", name)
        log = self._directory / f"{name}.log"
        self.replicas[name] = service_process.start(log, "carico_aggregator", *own, *flags)

    async def report(self, nodes: range = range(NODES)) -> None:
        self.seq += 1
        # A server that is only just back has no streams yet.
        await waiting.answered(self.bus.backlog)
        for number in nodes:
            found = reports.report(f"n{number}", self.seq)
            await self.bus.publish(subjects.subspace(found.node), wire.encode_subspace(found))

    async def until(self, condition: Callable[[], bool]) -> None:
        try:
            await waiting.until(condition, within_s=WAIT_S)
        except TimeoutError:
            raise AssertionError(f"not within {WAIT_S:g} s: {self._said()}") from None

    def _said(self) -> str:
        told = {name: (model.epoch, model.contributors) for name, model in self.models.items()}
        logs = "\n".join(path.read_text() for path in sorted(self._directory.glob("*.log")))
        return f"models {told} of report {self.seq}\n{logs}"

    @contextlib.asynccontextmanager
    async def reporting(self) -> AsyncIterator[None]:
        """Every node reports once a second, as agents do."""

        async def forever() -> None:
            while True:
                await self.report()
                await asyncio.sleep(1.0)

        reporter = asyncio.create_task(forever())
        try:
            yield
        finally:
            reporter.cancel()
            await asyncio.gather(reporter, return_exceptions=True)

    def agree(self, names: list[str], *, contributors: int = NODES) -> bool:
        """Whether these replicas broadcast one model to the bit, with the newest report of every node."""
        found = [self.models[name] for name in names if name in self.models]
        return (
            len(found) == len(names)
            and all(model.epoch == self.seq * 1000 and model.contributors == contributors for model in found)
            and all(np.array_equal(found[0].gram, model.gram) for model in found)
        )

    def _on_model(self, subject: str, payload: bytes) -> None:
        model = wire.decode_model(payload)
        self.models[model.replica] = model

    async def close(self) -> None:
        for process in self.replicas.values():
            process.terminate()
        for process in self.replicas.values():
            process.wait(WAIT_S)
        await self.bus.close()
        self.server.kill()


@pytest.fixture
async def rig(tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    found = Rig(tmp_path, lease_s=getattr(request, "param", LEASE_S))
    await found.open()
    try:
        yield found
    finally:
        await found.close()


@pytest.mark.parametrize("count", [1, 2, 4])
async def test_replicas_broadcast_the_same_model_to_the_bit(rig: Rig, count: int) -> None:
    names = [f"r{number}" for number in range(count)]
    for name in names:
        rig.start(name)
    for _ in range(3):
        await rig.report()
    await rig.until(lambda: rig.agree(names))
    assert len({rig.models[name].gram.tobytes() for name in names}) == 1


async def test_a_killed_replica_takes_no_contribution_along(rig: Rig) -> None:
    rig.start("r0")
    rig.start("r1")
    await rig.report()
    await rig.until(lambda: rig.agree(["r0", "r1"]))
    rig.replicas["r0"].kill()
    await rig.until(lambda: rig.replicas["r0"].poll() is not None)
    assert rig.models["r1"].contributors == NODES, "what r0 had taken, r1 holds too"
    # What was in flight at the kill is redelivered or replaced by the next report.
    await rig.report()
    await rig.until(lambda: rig.agree(["r1"]))


async def test_a_late_replica_gets_the_others_entries(rig: Rig) -> None:
    rig.start("r0")
    await rig.report()
    await rig.until(lambda: rig.agree(["r0"]))
    rig.start("r1")
    await rig.until(lambda: rig.agree(["r0", "r1"]))
    assert rig.models["r1"].contributors == NODES, "without another report"


async def test_nats_killed_and_back_nothing_is_restarted(rig: Rig) -> None:
    rig.start("r0")
    rig.start("r1")
    await rig.report()
    await rig.until(lambda: rig.agree(["r0", "r1"]))
    rig.server.kill()
    await rig.until(lambda: not rig.bus.connected)
    rig.server.start()
    await rig.until(lambda: rig.bus.connected)
    await rig.report()
    await rig.until(lambda: rig.agree(["r0", "r1"]))
    assert all(process.poll() is None for process in rig.replicas.values())


async def test_deleted_streams_are_back_with_their_contents_and_nothing_is_restarted(rig: Rig) -> None:
    rig.start("r0")
    administrator = await nats.connect(rig.server.url)
    try:
        async with rig.reporting():
            await waiting.answered(rig.bus.get_model)
            for name in streams.ALL:
                await administrator.jetstream().delete_stream(name)
            reported = rig.seq
            # Required within 10 s.
            stored = await waiting.answered(rig.bus.get_model, within_s=4 * 10.0)
            await rig.until(lambda: rig.models["r0"].epoch > reported * 1000)
        assert stored is not None
        assert rig.replicas["r0"].poll() is None
    finally:
        await administrator.close()


async def test_malformed_reports_end_nothing(rig: Rig) -> None:
    rig.start("r0")
    for number, junk in enumerate((b"", b"junk", b"\x81\xa1v\x02", b"\xff" * 1000)):
        await rig.bus.publish(subjects.subspace(f"bad{number}"), junk)
    await rig.report()
    await rig.until(lambda: rig.agree(["r0"]))
    assert rig.replicas["r0"].poll() is None


@pytest.mark.parametrize("rig", [SHORT_LEASE_S], indirect=True)
async def test_sequential_has_one_leader_and_another_takes_over(rig: Rig) -> None:
    rig.start("r0", "--merge", "sequential")
    rig.start("r1", "--merge", "sequential")
    async with rig.reporting():
        # Once both know each other only the first by name broadcasts.
        await rig.until(lambda: "r0" in rig.models and rig.models["r0"].contributors == NODES)
        rig.replicas["r0"].kill()
        await rig.until(lambda: rig.replicas["r0"].poll() is not None)
        rig.models.clear()
        await rig.until(lambda: "r1" in rig.models)
    assert rig.replicas["r1"].poll() is None


async def test_a_wrong_flag_is_one_line_and_exit_code_2() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "carico_aggregator", "--merg", "round",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"--merge" in said and said.count(b"\n") == 1
