"""What one viewer of `carico top` costs a cluster of 1,000 nodes, and how long a frame of its screen takes.

CPU times throughout: of the NATS server with and without the viewer, of the scheduler's answers about what is reserved
at the rate at which they are asked for, and of the viewer's own process. `python -m bench top`
"""

import asyncio
import contextlib
import pathlib
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from bench import _process
from bench.services import scheduler as fleet_bench
from carico_cli.live import addresses, ports, signals
from carico_cli.live import loads as live_loads
from carico_cli.live import picture as pictures
from carico_cli.live import pods as live_pods
from carico_cli.live import reader as readers
from carico_cli.top import screen
from carico_core.domain import decision, pod_telemetry
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client, list_watch
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.answers import known, queries
from carico_scheduler.decide import cycle
from carico_scheduler.report import decisions
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.tools.sites import nats_site

Row = tuple[str, float, str, str]
NODES = 1000
PODS_A_NODE = 20
PODS = 10_000
# When a summary arrives, one each five seconds.
PAGE_ASKS_EVERY_S = 5.0
SIZE = (80, 24)


def run(quick: bool = False) -> list[Row]:
    """The table of this module."""
    seconds = 5.0 if quick else 20.0
    payloads = [_payload(index, seq=1) for index in range(NODES)]
    answer_s, waiting_s = asyncio.run(_answers_s(10 if quick else 50))
    a_second = min(1.0 / readers.RESERVED_EVERY_S, 1.0 / (readers.RESERVED_EVERY_S_PER_NODE * NODES))
    asked = 100.0 * answer_s * a_second
    table, pods_view = asyncio.run(_server_percent(seconds))
    picture = _picture(payloads)
    frame_ms, key_ms = asyncio.run(_frame_ms(picture, 20 if quick else 100))
    pods_ms = asyncio.run(_pods_ms(20 if quick else 100, node=None))
    used_ms = asyncio.run(_pods_ms(20 if quick else 100, node="node-0"))
    return [
        (f"{NODES} nodes: one more viewer, the NATS server's CPU", table.server, "% of a core", ""),
        (f"{NODES} nodes: ... while it shows what {PODS} Pods use", pods_view.server, "% of a core", ""),
        (f"{NODES} nodes: an answer of the scheduler about what is reserved", answer_s * 1e3, "ms", ""),
        (f"{NODES} nodes: those answers, as often as they are asked for", asked, "% of a core", ""),
        (f"{NODES} nodes: both together", table.server + asked, "% of a core", "at most 2"),
        (f"{PODS} waiting Pods: an answer about them, for which the page asks", waiting_s * 1e3, "ms", ""),
        (f"{PODS} waiting Pods: ... as often as it asks", 100.0 * waiting_s / PAGE_ASKS_EVERY_S, "% of a core", ""),
        (
            f"{NODES} nodes: ... while it shows what {PODS} Pods use",
            pods_view.server + asked,
            "% of a core",
            "at most 2",
        ),
        (f"{NODES} nodes: the viewer's own CPU for what it hears", table.own, "% of a core", ""),
        (f"{NODES} nodes: ... while it shows what {PODS} Pods use", pods_view.own, "% of a core", ""),
        (f"{NODES} nodes: a new picture taken, sorted and drawn at 80x24", frame_ms, "ms", "at most 50"),
        (f"{NODES} nodes: a key that sorts again and draws", key_ms, "ms", "at most 50"),
        (f"{PODS} waiting Pods: 20 of them change, a new picture drawn at 80x24", pods_ms, "ms", "at most 50"),
        (f"{PODS} running Pods: the same, with 100 reports of what they use", used_ms, "ms", "at most 50"),
    ]


def _payload(index: int, *, seq: int) -> tuple[str, bytes]:
    said = fleet_bench._advertisement(f"node-{index}", seq, random.Random(index), PODS_A_NODE)
    said = said._replace(ts_ns=time.time_ns(), sampled_at_ns=time.time_ns())
    return subjects.capacity(said.node), wire.encode_advertisement(said)


def _picture(payloads: list[tuple[str, bytes]]) -> pictures.Picture:
    heard = signals.Signals(clock=clocks.SystemClock(), lease_s=10.0)
    for subject, payload in payloads:
        heard.on_capacity(subject, payload)
    return heard.picture(jobs=(), links=())


async def _never_silent() -> None:
    """The API answers."""


async def _answers_s(repetitions: int) -> tuple[float, float]:
    """CPU seconds of one `capacity.list`, and of one `waiting.list`."""
    rules = policy.Policy()
    found = state.State(rules, random.Random(0))
    for index in range(NODES):
        found.put_node(fleet_bench._node(index))
        subject, payload = _payload(index, seq=1)
        said = wire.decode_advertisement(payload, subject=subject)
        found.put_advertisement(node_state.Heard(advertisement=said, sampled_s=time.monotonic()), time.monotonic())
    for number in range(PODS):
        pod = fleet_bench._pod(number)
        found.queue.offer(pod, time.monotonic())
        waiting = found.queue.find(pod.uid)
        assert waiting is not None
        waiting.reported["record"] = frozenset({decision.Reason.CAPACITY, decision.Reason.TAINT}), 0.0
    clock = clocks.SystemClock()
    log = decisions.Log(boot="0" * 16, threshold=1.0, clock=clock, on_record=lambda _: None, on_drop=lambda: None)
    from_these = known.Known(state=found, log=log, cycle=cycle.Cycle(rules), lease_s=10.0)
    answers = queries.Answers(
        known=from_these, clock=clock, led_by=lambda: None, away=dict, silent_s=_never_silent
    )  # fmt: skip
    endpoints, medians = answers.endpoints(), []
    for verb in ("capacity.list", "waiting.list"):
        took = []
        for _ in range(repetitions):
            began = time.process_time()
            await endpoints[verb](b"")
            took.append(time.process_time() - began)
        medians.append(statistics.median(took))
    return medians[0], medians[1]


class _Spent(NamedTuple):
    """CPU in percent of a core: of the NATS server, and of the viewer."""

    server: float
    own: float


async def _server_percent(seconds: float) -> tuple[_Spent, _Spent]:
    """What a viewer adds, without and with what Pods use; at the rates at which agents report."""
    with tempfile.TemporaryDirectory() as folder:
        server = nats_site.NatsServer(pathlib.Path(folder)).start()
        try:
            settings, clock = buses.BusSettings(url=server.url), clocks.SystemClock()
            bus = await nats_bus.connect(settings, name="bench", clock=clock)
            try:
                return await _with_and_without(server, bus, settings, seconds)
            finally:
                await bus.close()
        finally:
            server.stop()


async def _with_and_without(
    server: nats_site.NatsServer, bus: nats_bus.NatsBus, settings: buses.BusSettings, seconds: float
) -> tuple[_Spent, _Spent]:
    pid = server.pid
    sending = asyncio.ensure_future(_send(bus))
    try:
        await asyncio.sleep(1.0)
        table, pods_view = [], []
        # In turns, so that a machine that grows slower or faster meanwhile does so for all.
        for _ in range(3):
            without = await _spent(pid, seconds)
            async with _viewer(settings) as reader:
                await asyncio.sleep(1.0)
                table.append(_more(await _spent(pid, seconds), without))
                reader.loads.watch()
                await asyncio.sleep(1.0)
                pods_view.append(_more(await _spent(pid, seconds), without))
        return _median(table), _median(pods_view)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


@contextlib.asynccontextmanager
async def _viewer(settings: buses.BusSettings) -> AsyncIterator[readers.Reader]:
    """A reader as `carico top` has one, without an API and a screen; its requests get no answer."""
    clock = clocks.SystemClock()
    here = addresses.Address(name="bench", bus=settings, kube=api_client.KubeSettings())

    @contextlib.asynccontextmanager
    async def connect(address: addresses.Address) -> AsyncIterator[tuple[ports.Bus, ports.Api | str]]:
        bus = await nats_bus.connect(address.bus, name="viewer", clock=clock, owns_streams=False)
        try:
            yield bus, "no API here"
        finally:
            await bus.close()

    reader = readers.Reader(lambda: here, connect, clock=clock, lease_s=settings.lease_s)
    task = asyncio.ensure_future(reader.run())
    try:
        yield reader
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _send(bus: nats_bus.NatsBus) -> None:
    """Publish each node's advertisement once a second and its loads every ten, evenly, until cancelled."""
    seq = 0
    while True:
        seq += 1
        payloads = [_payload(index, seq=seq) for index in range(NODES)]
        began = time.monotonic()
        for index, (subject, payload) in enumerate(payloads):
            await bus.publish(subject, payload)
            if index % 10 == seq % 10:
                await bus.publish(*_loads(f"node-{index}", PODS // NODES, seq=seq))
            if index % 20 == 19:
                await asyncio.sleep(max(0.0, began + (index + 1) / NODES - time.monotonic()))


def _loads(node: str, pods: int, *, seq: int) -> tuple[str, bytes]:
    load = pod_telemetry.PodLoad("app/default/server", 0.25, 0.05, 8e7)
    loads = {_uid(number): load for number in range(pods)}
    found = pod_telemetry.PodLoads(node=node, boot="0" * 16, seq=seq, ts_ns=time.time_ns(), loads=loads)
    return subjects.pods(node), wire.encode_loads(found)


def _more(spent: _Spent, without: _Spent) -> _Spent:
    return _Spent(spent.server - without.server, spent.own - without.own)


def _median(found: list[_Spent]) -> _Spent:
    return _Spent(*map(statistics.median, zip(*found, strict=True)))


async def _spent(pid: int, seconds: float) -> _Spent:
    """What the process with this id and this one spend over so many seconds."""
    before, own, began = _process.cpu_s(pid), time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    return _Spent(100.0 * (_process.cpu_s(pid) - before) / took, 100.0 * (time.process_time() - own) / took)


class _Still:
    """A reader without a cluster."""

    bus = api = None

    def __init__(self, take: Callable[[], pictures.Picture]) -> None:
        self.picture = take
        self.loads = live_loads.Loads(
            clock=clocks.SystemClock(), lease_s=10.0, on_drop=lambda _: None, names=lambda: ()
        )

    def where(self) -> addresses.Address:
        """Return an address that is not used."""
        return addresses.Address(name="bench", bus=buses.BusSettings(), kube=api_client.KubeSettings())

    async def detail(self, node: str) -> None:
        """Return no answer."""

    async def standing(self, node: str) -> None:
        """Return no answer."""


async def _frame_ms(picture: pictures.Picture, repetitions: int) -> tuple[float, float]:
    """CPU milliseconds of (a frame with a new picture, a key that sorts), by the real screen without a terminal."""
    heard = signals.Signals(clock=clocks.SystemClock(), lease_s=10.0)
    for node in picture.nodes:
        assert node.advertisement is not None
        heard.on_capacity(subjects.capacity(node.name), wire.encode_advertisement(node.advertisement))
    top = screen.Top(_Still(lambda: picture), name="bench", clock=clocks.SystemClock(), every_s=3600.0)
    async with top.run_test(size=SIZE) as keys:

        async def frame() -> None:
            top.shown = heard.picture(jobs=(), links=())
            top._draw()
            await keys.pause()

        async def sort() -> None:
            await keys.press("s")

        return await _median_ms(frame, repetitions), await _median_ms(sort, repetitions)


async def _pods_ms(repetitions: int, *, node: str | None) -> float:
    """CPU milliseconds of a frame of the Pods' screen in which some of them have changed.

    node: on which they run; each frame then takes in the reports of a hundred nodes. None: they wait.
    """
    found = [_pod(number, node) for number in range(PODS)]
    table = live_pods.Pods()
    table.on_event(list_watch.Listed(objects=found, resource_version="1"))
    heard = signals.Signals(clock=clocks.SystemClock(), lease_s=10.0)
    rng, seq = random.Random(0), 0
    reader = _Still(
        lambda: heard.picture(jobs=(), links=(), pods=table.rows(heard.scheduler_names), loads=reader.loads.now())
    )
    top = screen.Top(reader, name="bench", clock=clocks.SystemClock(), every_s=3600.0)
    async with top.run_test(size=SIZE) as keys:
        await keys.press("P")

        async def frame() -> None:
            nonlocal seq
            seq += 1
            for name in () if node is None else [f"node-{number}" for number in range(100)]:
                reader.loads.take(*_loads(name, PODS // NODES, seq=seq))
            for pod in rng.choices(found, k=20):
                table.on_event(list_watch.Changed(type="MODIFIED", object=pod))
            top._tick()
            await keys.pause()

        return await _median_ms(frame, repetitions)


def _uid(number: int) -> str:
    return f"6f1c7f0a-0000-4000-8000-{number:012d}"


def _pod(number: int, node: str | None) -> dict[str, Any]:
    created = f"2026-11-21T10:{number // 60 % 60:02}:{number % 60:02}Z"
    name = f"job-{number}"
    metadata = {"name": name, "namespace": "default", "uid": _uid(number), "creationTimestamp": created}
    spec = {"schedulerName": "carico", "containers": [{"image": "x"}], **({} if node is None else {"nodeName": node})}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending" if node is None else "Running"}}


async def _median_ms(work: Callable[[], Awaitable[None]], repetitions: int) -> float:
    took = []
    for _ in range(repetitions):
        began = time.process_time()
        await work()
        took.append(time.process_time() - began)
    return statistics.median(took) * 1e3
