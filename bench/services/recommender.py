"""The recommender at 5,000 VerticalPodAutoscaler objects, and its webhook at 500 new Pods a second over TLS.

Both run in processes of their own, since the load is made in another. The statuses are written to an API in memory,
whose own cost is part of the figures.
"""

import asyncio
import multiprocessing
import multiprocessing.connection
import pathlib
import ssl
import tempfile
import time

import aiohttp
import numpy as np
import orjson

from bench import _process
from carico_core.domain import usage
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_recommender import classes, instruments, namespaces
from carico_recommender import settings as setting
from carico_recommender.admission import certificates, webhook
from carico_recommender.vpa import keeper
from tests.tools.memory import memory_kube
from tests.tools.sites import security_site
from tests.unit.recommender import learnt
from tests.unit.recommender.admission import test_admission_review as reviews

Row = tuple[str, float, str, str]
OBJECTS, CLASSES = 5000, 1000
PODS_PER_S = 500
RUN_S = 5.0
# As many as an API server keeps open under this load.
CONNECTIONS = 16
NAME = "127.0.0.1"


class Known(classes.Classes):
    """Classes that are known from the start; `factor` changes all amounts."""

    def __init__(self, counted: instruments.Instruments) -> None:
        super().__init__({}, counted, clock=clocks.SystemClock())
        self.set(1.0)

    def set(self, factor: float) -> None:
        """Recommend other amounts."""
        names = [f"ReplicaSet/shop/web-{number}" for number in range(CLASSES)]
        self._known = {name: learnt.recommended(name, cpu=0.23 * factor) for name in names}
        self._answered_s = self._clock.monotonic_s()


def run(quick: bool) -> list[Row]:
    """CPU time and memory of the rounds, and the webhook's percentiles."""
    rounds = _rounds_apart(3 if quick else 10)
    with tempfile.TemporaryDirectory() as folder:
        return [*rounds, *asyncio.run(_reviews(pathlib.Path(folder), runs=2 if quick else 7))]


def _rounds_apart(rounds: int) -> list[Row]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_rounds, args=(theirs, rounds))
    process.start()
    rows: list[Row] = ours.recv()
    process.join()
    return rows


def _rounds(out: multiprocessing.connection.Connection, rounds: int) -> None:
    out.send(asyncio.run(_measure_rounds(rounds)))


async def _measure_rounds(rounds: int) -> list[Row]:
    clock = clocks.SystemClock()
    kube = memory_kube.MemoryKube(clock=clock)
    counted = instruments.Instruments(metrics.Metrics("recommender"))
    known = Known(counted)
    chosen = setting.RecommenderSettings(writes_per_s=1000.0)
    rules = namespaces.Namespaces(kube, clock=clock).rules
    kept = keeper.Keeper(chosen, kube, known, rules=rules, counted=counted, leads=lambda: True, clock=clock)
    for number in range(OBJECTS):
        obj = learnt.vpa(f"vpa-{number}", name=f"web-{number % CLASSES}")
        del obj["metadata"]["resourceVersion"]
        kube.objects.create("verticalpodautoscalers", obj, "bench")
    following = asyncio.create_task(kept.follow_forever())
    while len(kept) < OBJECTS:
        await asyncio.sleep(0.05)
    began_s = time.process_time()
    written = await kept.write()
    write_s = (time.process_time() - began_s) / written
    idle: list[float] = []
    for _ in range(rounds):
        began_s = time.process_time()
        assert await kept.write() == 0
        idle.append(time.process_time() - began_s)
    following.cancel()
    own = _process.memory_bytes(multiprocessing.current_process().pid or 0, "VmHWM")
    # The settings' own pace of writing, and a round each interval.
    default = setting.RecommenderSettings()
    most = float(np.median(idle)) / default.interval_s + write_s * default.writes_per_s
    return [
        ("a round over 5,000 objects, nothing to write", 1e3 * float(np.median(idle)), "ms of CPU", ""),
        ("a status written (with the API in memory)", 1e3 * write_s, "ms of CPU", ""),
        ("while it writes as fast as it may", most, "cores", "at most 0.2"),
        ("once written", float(np.median(idle)) / default.interval_s, "cores", "at most 0.2"),
        ("memory, peak (with the API in memory)", own / 1e6, "MB", "at most 200"),
    ]


def _serve(out: multiprocessing.connection.Connection, folder: pathlib.Path) -> None:
    asyncio.run(_listen(out, folder))


def _certificate(folder: pathlib.Path) -> certificates.Certificate:
    return certificates.Certificate(
        cert=str(folder / "tls.crt"), key=str(folder / "tls.key"), ca=str(folder / "ca.crt"), name=NAME,
        clock=clocks.SystemClock(),
    )  # fmt: skip


async def _listen(out: multiprocessing.connection.Connection, folder: pathlib.Path) -> None:
    counted = instruments.Instruments(metrics.Metrics("recommender"))
    used = _certificate(folder)
    used.read()
    handler = webhook.Webhook(
        Known(counted).get, counted, clock=clocks.SystemClock(), rules=reviews.no_rules,
        dimensions=usage.DIMS,
    )  # fmt: skip
    async with webhook.listening(handler, used, host=NAME, port=0) as port:
        out.send(port)
        await asyncio.to_thread(out.recv)


async def _reviews(folder: pathlib.Path, *, runs: int) -> list[Row]:
    security_site.make_certificates(folder, NAME)
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, folder))
    process.start()
    port = ours.recv()
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    pod = reviews.pod()
    pod["metadata"]["ownerReferences"][0]["name"] = "web-7-5d9c7"
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": pod}})
    took: list[float] = []
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=context)

    async def ask(session: aiohttp.ClientSession) -> None:
        began_s = time.perf_counter()
        async with session.post(f"https://{NAME}:{port}{webhook.PATH}", data=body) as response:
            answer = await response.read()
        took.append(time.perf_counter() - began_s)
        assert b"patch" in answer

    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(ask(session) for _ in range(CONNECTIONS)))
        assert process.pid is not None
        cpu_s, all_began_s = _process.cpu_s(process.pid), time.perf_counter()
        found: list[tuple[float, float]] = []
        for _ in range(runs):
            took.clear()
            began_s = time.perf_counter()
            async with asyncio.TaskGroup() as group:
                for number in range(int(RUN_S * PODS_PER_S)):
                    # By the clock, not after the answer before: a slow answer must not slow down the load.
                    await asyncio.sleep(max(began_s + number / PODS_PER_S - time.perf_counter(), 0.0))
                    group.create_task(ask(session))
            found.append((float(np.median(took)), float(np.percentile(took, 99.0))))
        cpu_s = (_process.cpu_s(process.pid) - cpu_s) / (time.perf_counter() - all_began_s)
    middle, high = (1e3 * float(np.median(each)) for each in zip(*found, strict=True))
    ours.send("end")
    process.join()
    return [
        ("webhook at 500/s, median", middle, "ms", ""),
        ("webhook at 500/s, p99", high, "ms", "at most 20"),
        ("webhook at 500/s", cpu_s, "cores", ""),
    ]
