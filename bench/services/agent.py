"""What an agent costs: CPU and memory of the process at 10 Hz with a 1 Hz publish, and its numerics per sample."""

import contextlib
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from carico_agent.learning import pipeline, pod_usage
from carico_agent.telemetry import sources
from carico_core.numerics.estimators import base
from carico_core.runtime.process import clock as clocks
from carico_local.cgroups import group as groups
from carico_local.cgroups import layout as layouts
from tests.tools.sites import nats_site

Row = tuple[str, float, str, str]
MEASURE_S = 20.0
WARM_S = 4.0
TARGET_CPU = "at most 1 (stretch 0.5)"
TARGET_RSS = "at most 50"


def run(quick: bool) -> list[Row]:
    """CPU of one core in %, RSS in MB (10^6 bytes), for both scopes, and microseconds per tick of the numerics."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder, server(pathlib.Path(folder)) as url:
        compiled = pathlib.Path(folder) / "bytecode"
        compile_agent(compiled)
        for scope, flags in scopes():
            with flags as extra:
                cpu, rss = process_cost(["--bus-url", url, *extra], compiled=compiled, quick=quick)
            rows.append((f"CPU of one core, {scope}, 10 Hz, 1 Hz publish", cpu, "%", TARGET_CPU))
            rows.append((f"RSS, {scope}", rss, "MB", TARGET_RSS))
    for name in ("footprint", "dual"):
        sample_us, update_us = numerics_us(name, seconds=50 if quick else 300)
        rows.append((f"{name}: one sample through filter and estimator", sample_us, "us", ""))
        rows.append((f"{name}: one update of model and estimate", update_us, "us", ""))
    rows.append(("footprint: a second with 240 classes of one Pod", many_classes_ms(), "ms of CPU", ""))
    ledger_us = pod_us()
    if ledger_us is not None:
        # Of a Pod that is read each second; most are read less often.
        rows.append(("usage of one Pod: read and added up", ledger_us, "us", f"at most {500 // pod_usage.READS_MOST}"))
    return rows


def pod_us() -> float | None:
    """Time of one reading of a Pod, from its cgroup to its class; None where no cgroup can be created."""
    found = layouts.read_layout()
    if os.geteuid() != 0 or not found.trees:
        return None
    uid = "1c9c1f31-3a0e-4b7c-9f0e-2f6a0d5f4c11"
    node = groups.Group(layout=found, path=f"carico-bench-{os.getpid()}")
    node.create()
    pod = groups.Group(layout=found, path=f"{node.path}/pod{uid}")
    pod.create()
    try:
        wanted = sources.Wanted(scope=sources.Scope.CGROUP, cgroup=node.path)
        ledger = sources.open_ledger(wanted, clock=clocks.SystemClock())
        assert ledger is not None
        seen = pod_usage.PodUsage()
        times = []
        for number in range(2000):
            began_s = time.process_time()
            seen.follow({uid: "Job/default/pi"}, float(number), lambda _: None)
            for due in seen.due(float(number)):
                seen.take(due, ledger.read(due), float(number), container=lambda uid, folder: None)
                times.append(time.process_time() - began_s)
        return 1e6 * statistics.median(times)
    finally:
        pod.destroy()
        node.destroy()


@contextlib.contextmanager
def server(folder: pathlib.Path) -> Iterator[str]:
    """The address of a NATS server of its own."""
    made = nats_site.NatsServer(folder / "nats").start()
    try:
        yield made.url
    finally:
        made.stop()


def scopes() -> Iterator[tuple[str, contextlib.AbstractContextManager[list[str]]]]:
    """Host, and one cgroup where they may be made."""
    yield "host", contextlib.nullcontext(["--scope", "host", "--pod-events", "none"])
    found = layouts.read_layout()
    if os.geteuid() == 0 and found.trees:
        yield f"cgroup {found.version}", cgroup(found)


@contextlib.contextmanager
def cgroup(layout: layouts.Layout) -> Iterator[list[str]]:
    """Flags for an emulated node's cgroup, removed afterwards."""
    node = groups.Group(layout=layout, path=f"carico-bench-{os.getpid()}")
    node.create()
    try:
        yield ["--scope", "cgroup", "--cgroup", node.path, "--cores", "4", "--scale", "0.125"]
    finally:
        node.destroy()


def lean(compiled: pathlib.Path) -> dict[str, str]:
    """The environment of an agent as a local cluster and the image start it: without docstrings, from bytecode."""
    return {**os.environ, "PYTHONOPTIMIZE": "2", "PYTHONPYCACHEPREFIX": str(compiled)}


def compile_agent(compiled: pathlib.Path) -> None:
    """Write the bytecode of all that an agent imports: what is compiled at the start takes another megabyte."""
    writing = {name: value for name, value in lean(compiled).items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", "import carico_agent.service"], env=writing, check=True)


def process_cost(flags: list[str], *, compiled: pathlib.Path, quick: bool) -> tuple[float, float]:
    """(% of one core, MB resident) of an agent process; the median of three stretches."""
    command = [sys.executable, "-m", "carico_agent", "--node", "bench", *flags]
    process = subprocess.Popen(command, env=lean(compiled), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(WARM_S)
        stretch_s = MEASURE_S / 3 if quick else MEASURE_S
        shares = [share_of_core(process.pid, stretch_s) for _ in range(1 if quick else 3)]
        return 100.0 * statistics.median(shares), resident_mb(process.pid)
    finally:
        process.terminate()
        process.wait()


def share_of_core(pid: int, seconds: float) -> float:
    """CPU time of all threads over elapsed time, from the scheduler's nanoseconds."""
    before_ns, begun_s = ran_ns(pid), time.monotonic()
    time.sleep(seconds)
    return (ran_ns(pid) - before_ns) / 1e9 / (time.monotonic() - begun_s)


def ran_ns(pid: int) -> int:
    """Nanoseconds that all threads of a process have run."""
    return sum(int(path.read_text().split()[0]) for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    words = pathlib.Path(f"/proc/{pid}/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def numerics_us(estimator: str, *, seconds: int) -> tuple[float, float]:
    """Median microseconds of one sample and of one update."""
    node = base.EstimatorConfig(
        dims=("cpu", "memory"),
        scale=np.array([8.0, 8e9]),
        cores=4.0,
        ceiling=np.array([0.9, 0.95]),
    )
    tested = pipeline.Pipeline(pipeline.PipelineConfig(estimator=estimator, node=node))
    rng = np.random.default_rng(1)
    samples: list[float] = []
    updates: list[float] = []
    for second in range(seconds):
        pods = second // 5 % 4
        for tick in range(10):
            at_s = second + tick / 10
            values = np.clip(np.array([0.02 + 0.12 * pods, 0.1 + 0.05 * pods]) + rng.normal(0, 0.01, 2), 0, 1)
            sample = pipeline.Sample(values=values, parts={}, pods=pods, dt_s=0.1, at_ns=0, at_s=at_s)
            begun = time.perf_counter()
            tested.sample(sample)
            samples.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        tested.update(pods=pods, churning=False)
        updates.append(time.perf_counter() - begun)
    return 1e6 * statistics.median(samples), 1e6 * statistics.median(updates)


def many_classes_ms(*, classes: int = 240, seconds: int = 8) -> float:
    """Median milliseconds of a second's samples and update, with one Pod of each class."""
    node = base.EstimatorConfig(
        dims=("cpu", "memory"), scale=np.array([64.0, 256e9]), cores=32.0, ceiling=np.array([0.8, 0.9]),
        pod_limit=classes,
    )  # fmt: skip
    tested = pipeline.Pipeline(pipeline.PipelineConfig(estimator="footprint", node=node))
    tested.pods_changed({f"uid-{number}": f"Job/default/{number}" for number in range(classes)})
    values = np.array([0.5, 0.4])
    spent_s: list[float] = []
    for second in range(seconds):
        begun_s = time.process_time()
        for tick in range(pipeline.BATCH):
            at_s = second + tick / pipeline.BATCH
            tested.sample(pipeline.Sample(values=values, parts={}, pods=classes, dt_s=0.1, at_ns=0, at_s=at_s))
        tested.update(pods=classes, churning=False)
        spent_s.append(time.process_time() - begun_s)
    return 1e3 * statistics.median(spent_s)
