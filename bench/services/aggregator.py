"""How many local subspaces a second one replica takes in, from JetStream's file store to the model it broadcasts."""

import asyncio
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

import nats
import numpy as np
import orjson
import uvloop

from bench import __main__ as runner
from carico_aggregator import app, instruments, members, model, recommendations, usage
from carico_aggregator import settings as setting
from carico_core.domain import messages
from carico_core.domain import usage as usages
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock, memory_use
from carico_core.wire import messages as wire
from carico_core.wire import streams, subjects
from tests.tools.sites import nats_site

DIMS = ("cpu", "memory", "io")
NODES = 30_000
NODES_QUICK = 5_000
# So long that no waiting message runs out of its lease between its publication and the measurement.
LEASE_S = 600.0
ROUND_TIMEOUT_S = 60.0


def run(quick: bool) -> list[runner.Row]:
    """Messages a second end to end, and what their parts cost."""
    with memory_use.rare_collections():  # as the service runs
        return _rows(nodes=NODES_QUICK if quick else NODES, rounds=1 if quick else 5)


def _rows(*, nodes: int, rounds: int) -> list[runner.Row]:
    with tempfile.TemporaryDirectory() as folder:
        server = nats_site.NatsServer(pathlib.Path(folder) / "nats").start()
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loop:
                rates = loop.run(_rates(server.url, nodes=nodes, rounds=rounds))
        finally:
            server.stop()
    return [
        ("subspaces through one replica, from JetStream", statistics.median(rates), "1/s", "at least 20000"),
        ("one subspace, bytes to record", _decode_us(), "us", ""),
        ("entries of 1,000 subspaces, per subspace", _entries_us(1000), "us", ""),
        ("model of 1,000 nodes", _model_ms(1000), "ms", ""),
        *(
            (
                f"recommended requests of 1,000 classes{of}",
                _recommendations_ms(1000, images, containers),
                "ms",
                "at most 100",
            )
            for of, images, containers in (("", 1, 1), (", each of 2 images with 2 containers", 2, 2))
        ),
    ]


def subspace(number: int, seq: int = 1) -> messages.LocalSubspace:
    """What node `number` would send: three dimensions, full rank, evidence of one class."""
    rng = np.random.default_rng(number)
    u, _ = np.linalg.qr(rng.normal(size=(len(DIMS), len(DIMS))))
    cost = {name: messages.Estimate(mean=float(rng.uniform(0.1, 1.0)), sd=0.1) for name in DIMS}
    return messages.LocalSubspace(
        node=f"node-{number}", boot="0123456789abcdef", seq=seq, ts_ns=10**18 + seq * 10**9,
        sampled_at_ns=10**18 + seq * 10**9, dims=DIMS, u=u, sigma=rng.uniform(0.1, 1.0, len(DIMS)), samples=10,
        weight=4.0, scale=np.array([8.0, 8.0 * 2**30, 1.0]),
        evidence={messages.ANY_CLASS: messages.ClassEvidence(pods=4, cost=cost)}, peak_pods_per_core=1.5,
    )  # fmt: skip


async def _rates(url: str, *, nodes: int, rounds: int) -> list[float]:
    chosen = buses.BusSettings(url=url, lease_s=LEASE_S)
    bus = await nats_bus.connect(chosen, name="bench", clock=clock.SystemClock())
    try:
        return [await _rate(bus, chosen, nodes=nodes, seq=seq) for seq in range(1, rounds + 1)]
    finally:
        await bus.close()


async def _rate(bus: nats_bus.NatsBus, chosen: buses.BusSettings, *, nodes: int, seq: int) -> float:
    await _fill(chosen.url, nodes=nodes, seq=seq)
    series = instruments.Instruments(metrics.Metrics("aggregator"), clock=clock.SystemClock())
    replica = app.Aggregator(
        setting.AggregatorSettings(bus=chosen), bus, series, replica="bench", boot=f"{seq:016x}",
        clock=clock.SystemClock(),
    )  # fmt: skip
    await replica.listen()
    started = time.perf_counter()
    async with asyncio.timeout(ROUND_TIMEOUT_S), asyncio.TaskGroup() as group:
        works = (replica.intake_forever(), replica.exchange_forever(), replica.broadcast_forever())
        tasks = [group.create_task(work) for work in works]
        while replica.members.version < nodes:
            await asyncio.sleep(0.001)
        rate = nodes / (time.perf_counter() - started)
        for task in tasks:
            task.cancel()
    return rate


async def _fill(url: str, *, nodes: int, seq: int) -> None:
    """Publish what each node would, and wait until the stream has it; the stream does not acknowledge messages."""
    client = await nats.connect(url)
    stream = client.jetstream()
    stored = (await stream.stream_info(streams.SUBSPACES)).state.last_seq + nodes
    for number in range(nodes):
        found = subspace(number, seq)
        headers = {"Nats-Msg-Id": f"{found.node}-{found.boot}-{seq}"}
        await client.publish(subjects.subspace(found.node), wire.encode_subspace(found), headers=headers)
    async with asyncio.timeout(ROUND_TIMEOUT_S):
        while (await stream.stream_info(streams.SUBSPACES)).state.last_seq < stored:
            await asyncio.sleep(0.01)
    await client.close()


def _decode_us() -> float:
    payload, subject = wire.encode_subspace(subspace(1)), subjects.subspace("node-1")
    return _median_us(lambda: wire.decode_subspace(payload, subject=subject), per_call=1)


def _entries_us(count: int) -> float:
    reports = [subspace(number) for number in range(count)]
    return _median_us(lambda: members.Members(lease_s=10.0, horizon_s=10.0).take(reports, 0.0), per_call=count)


def _recommendations_ms(count: int, images: int, containers: int) -> float:
    """All pages of the answer, as bytes; each class has 40 buckets in use, more than most."""
    known = usage.Usages(lease_s=10.0)
    rng = np.random.default_rng(0)
    known.resume([_kept_class(f"Job/default/class-{number}", rng, images, containers) for number in range(count)])

    def ask() -> None:
        after = ""
        while True:
            question = orjson.dumps({"after": after})
            answer = orjson.loads(recommendations.answer(known, {}, question, 1))
            if answer["complete"]:
                return
            after = answer["classes"][-1]["class"]

    return _median_us(ask, per_call=1) / 1000.0


def _kept_class(name: str, rng: np.random.Generator, images: int, containers: int) -> usages.KeptClass:
    places = rng.choice(usages.BUCKETS, 40, replace=False).tolist()
    buckets = dict(zip(places, (100.0 * rng.random(40)).tolist(), strict=True))
    names, peaks = tuple(f"part-{number}" for number in range(containers)), {"cpu": 1.0, "memory": 1e8}
    return usages.KeptClass(
        name=name, at_ns=images * 10**9, first_ns=0, last_ns=0, pods=20, failed=0, recent_pods=20.0, recent_failed=0.0,
        node_size={}, measured_s=1000.0,
        seconds=dict.fromkeys(usages.DIMS, buckets), pod_means=buckets, peaks=peaks,
        nodes=frozenset(range(10)), images={f"x{images}": 0},
        template=usages.Template(image=f"x{images}", containers=names, requests={"cpu": 1.0}),
        containers=dict.fromkeys(names if containers > 1 else (), usages.ContainerUsage(cpu=buckets, peaks=peaks)),
        earlier=_kept_class(name, rng, images - 1, containers) if images > 1 else None,
    )  # fmt: skip


def _model_ms(count: int) -> float:
    held = members.Members(lease_s=10.0, horizon_s=10.0)
    held.take([subspace(number) for number in range(count)], 0.0)
    return _median_us(lambda: model.make(held.mergeable(), model.RoundMerger()), per_call=1) / 1000.0


def _median_us(call: Callable[[], object], *, per_call: int) -> float:
    """Microseconds a piece: the median of repetitions that take about half a second together."""
    times: list[float] = []
    until = time.perf_counter() + 0.5
    while time.perf_counter() < until or len(times) < 3:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times) / per_call * 1e6
