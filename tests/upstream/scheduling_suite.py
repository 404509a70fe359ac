"""Kubernetes' own [sig-scheduling] specs against CARICO and against kube-scheduler, on kwok's nodes.

`python -m tests.upstream.scheduling_suite [--scheduler carico|kube-scheduler] [--focus TEXT]` prints the table of
docs/kubernetes-tests.md. Each run has a control plane of its own, in which the one scheduler serves every Pod. CARICO
runs as where it replaces kube-scheduler: it serves default-scheduler, and spreads by default.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local import nats_server
from carico_local.cluster import processes
from carico_local.cluster.services import ready_nodes
from carico_local.control_plane import commands, standalone
from carico_local.played_nodes import nodes as played
from tests.tools import kubernetes, waiting

CARICO, KUBE = "carico", commands.SCHEDULER
SCHEDULERS = (CARICO, KUBE)
PROGRAM = "sched-e2e"
# The API server has these APIs behind an alpha gate only.
SKIPPED = "FeatureGate:GenericWorkload"
NODES, CORES, PODS = 4, 16, 110
# The first zone has one node, the second has the others.
ZONES = ("a", "b", "b", "b")
# Specs start up to ten Pods a node that use nothing.
PODS_PER_CORE = 8
# Without a Pod on each node whose name has all of these, each spec waits a minute for them (test/e2e/framework/node).
SYSTEM_POD = "kube-proxy-fluentd-elasticsearch-node-problem-detector"
SUITE_TIMEOUT_S = 5400
CLOCK = clocks.SystemClock()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One spec, and how it ended: "passed", "skipped", or how it failed, in the words of ginkgo."""

    name: str
    is_conformance: bool
    state: str
    spent_s: float
    message: str

    @property
    def is_fine(self) -> bool:
        """True if it did not fail."""
        return self.state in ("passed", "skipped")


async def run(scheduler: str, root: pathlib.Path, *, focus: str = "") -> list[Spec]:
    """Run the specs, all or those whose names have `focus` in them; return them by name."""
    found = kubernetes.programs(*standalone.ALL, PROGRAM)
    parts = set(standalone.ALL) - (set() if scheduler == KUBE else {commands.SCHEDULER})
    plane = standalone.Standalone(
        root / "plane", environ=settings.environment(), clock=CLOCK, found=found, parts=parts, name="upstream"
    )
    plane.start()
    try:
        async with _nodes(plane):
            with contextlib.ExitStack() as stack:
                if scheduler == CARICO:
                    stack.enter_context(_carico(plane, root))
                return await asyncio.to_thread(_specs, str(found[PROGRAM].path), plane, root, focus)
    finally:
        plane.stop()


def table(found: Mapping[str, Sequence[Spec]]) -> list[str]:
    """Format the specs of one run per scheduler as a table of Markdown."""
    by_name = {name: {spec.name: spec for spec in specs} for name, specs in found.items()}
    lines = [f"| spec | conformance | {' | '.join(by_name)} |", f"|---|---|{'---|' * len(by_name)}"]
    for spec in next(iter(found.values())):
        ends = [specs[spec.name].state if spec.name in specs else "" for specs in by_name.values()]
        lines.append(f"| {spec.name} | {'yes' if spec.is_conformance else ''} | {' | '.join(ends)} |")
    return lines


def node(number: int) -> dict[str, Any]:
    """Return a Node that kwok plays, with what the specs require of one."""
    name = played.names(NODES)[number]
    amounts = {"cpu": str(CORES), "memory": "64Gi", "ephemeral-storage": "100Gi", "pods": str(PODS)}
    labels = {
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": ZONES[number],
    }  # fmt: skip
    addresses = [{"type": "InternalIP", "address": f"10.0.0.{number + 1}"}, {"type": "Hostname", "address": name}]
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {commands.KWOK_ANNOTATION: "fake"}, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "addresses": addresses},
    }  # fmt: skip


def parse(report: Any) -> list[Spec]:
    """Return the specs of a report (ginkgo's --json-report), by name."""
    specs = [each for part in report for each in part["SpecReports"] or () if each["LeafNodeType"] == "It"]
    return sorted((_spec(each) for each in specs), key=lambda each: each.name)


def _spec(found: Mapping[str, Any]) -> Spec:
    texts = [*(found["ContainerHierarchyTexts"] or ()), found["LeafNodeText"]]
    hierarchy = found["ContainerHierarchyLabels"] or ()
    labels = [*(found["LeafNodeLabels"] or ()), *(each for some in hierarchy for each in some or ())]
    failure = found.get("Failure") or {}
    # Without labels in brackets.
    name = " ".join(re.sub(r"\[[^]]*\]", "", " ".join(texts)).split())
    return Spec(
        name=name, is_conformance="Conformance" in labels, state=found["State"], spent_s=found["RunTime"] / 1e9,
        message=failure.get("Message", ""),
    )  # fmt: skip


@contextlib.asynccontextmanager
async def _nodes(plane: standalone.Standalone) -> AsyncIterator[None]:
    """Create the Nodes, and a Pod of the system on each."""
    wanted = api_client.KubeSettings(kubeconfig=str(plane.kubeconfig))
    api = await api_client.connect(wanted, clock=CLOCK, user_agent="test")
    try:
        for number in range(NODES):
            await api.request("POST", played.NODES_PATH, body=node(number))
        await waiting.answered(lambda: api.request("GET", played.NODES_PATH), _are_ready)
        for name in played.names(NODES):
            await _system_pod(api, name)
        yield
    finally:
        await api.close()


def _are_ready(found: Mapping[str, Any]) -> bool:
    return all(ready_nodes.is_ready(each) and not each["spec"].get("taints") for each in found["items"])


async def _system_pod(api: api_client.KubeClient, node_name: str) -> None:
    """Create a Pod of the system and bind it: the specs require the condition PodScheduled of every Pod."""
    name, path = f"{SYSTEM_POD}-{node_name}", "/api/v1/namespaces/kube-system/pods"
    body = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "pause"}]},
    }  # fmt: skip

    async def create() -> bool:
        # Refused until a controller has created the namespace's ServiceAccount.
        with contextlib.suppress(errors.Forbidden, errors.NotFound):
            await api.request("POST", path, body=body)
            return True
        return False

    await waiting.answered(create)
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    await api.request("POST", f"{path}/{name}/binding", body={"metadata": {"name": name}, "target": target})


@contextlib.contextmanager
def _carico(plane: standalone.Standalone, root: pathlib.Path) -> Iterator[None]:
    """Run CARICO's scheduler, which serves every Pod, and what plays the agents of all nodes."""
    nats = nats_server.NatsServer(root / "nats").start()
    common = ["--bus-url", nats.url, "--kubeconfig", str(plane.kubeconfig), "--http-port", "-1"]
    size = ["--nodes", str(NODES), "--cores", str(CORES), "--pods-per-core", str(PODS_PER_CORE)]
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start(root, "carico_local.played_nodes", *common, *size))
        flags = ("--names", "carico,default-scheduler", "--no-leader-election")
        started.append(_start(root, "carico_scheduler", *common, *flags))
        yield
        ended = {each.args[2]: each.returncode for each in started if each.poll() is not None}  # type: ignore[index]
        assert not ended, ended
    finally:
        for each in started:
            each.kill()
            each.wait()
        nats.stop()


def _start(root: pathlib.Path, module: str, *flags: str) -> "subprocess.Popen[bytes]":
    with (root / f"{module}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", module, *flags], stdout=log, stderr=log,
            preexec_fn=processes.end_with_parent(signal.SIGKILL),
        )  # fmt: skip


def _specs(program: str, plane: standalone.Standalone, root: pathlib.Path, focus: str) -> list[Spec]:
    """Run the suite, and read its report."""
    report = root / "report.json"
    chosen = [f"-ginkgo.skip={SKIPPED}", *([f"-ginkgo.focus={focus}"] if focus else [])]
    argv = [
        program, f"-kubeconfig={plane.kubeconfig}", "-provider=skeleton", f"-num-nodes={NODES}", "-disable-log-dump",
        f"-ginkgo.json-report={report}", "-ginkgo.no-color", "-ginkgo.v", "-ginkgo.seed=1",
        f"-ginkgo.timeout={SUITE_TIMEOUT_S}s", *chosen,
    ]  # fmt: skip
    with (root / "suite.log").open("wb") as log:
        subprocess.run(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False, cwd=root)
    assert report.exists(), processes.last_lines(root / "suite.log", 5)
    return parse(json.loads(report.read_text()))


def main() -> int:
    """Run the suite and print the table; return 1 if a spec failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.scheduling_suite", description=__doc__)
    parser.add_argument("--scheduler", choices=SCHEDULERS, help="only this one (default: both, by turns)")
    parser.add_argument("--focus", default="", help="only the specs whose names match this regular expression")
    parser.add_argument("--logs", type=pathlib.Path, help="keep the logs of all programs in this folder")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        root = asked.logs or pathlib.Path(made)
        found = {}
        for name in (asked.scheduler,) if asked.scheduler else SCHEDULERS:
            (root / name).mkdir(parents=True, exist_ok=True)
            found[name] = asyncio.run(run(name, root / name, focus=asked.focus))
            if asked.focus:
                found[name] = [each for each in found[name] if each.state != "skipped"]
    print(*table(found), sep="\n")
    failed = [(name, each) for name, specs in found.items() for each in specs if not each.is_fine]
    for name, each in failed:
        print(f"\n{name}: {each.name} ({each.spent_s:.0f} s)\n{each.message}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
