"""Kubernetes' own [sig-scheduling] specs against CARICO and against kube-scheduler.

`python -m tests.upstream.scheduling_suite [--nodes kwok|kubelet] [--scheduler carico|kube-scheduler] [--focus TEXT]`
prints the table of docs/kubernetes-tests.md. Each run has a cluster of its own (`played_stage`, `kubelet_stage`), in
which the one scheduler serves every Pod. CARICO runs as where it replaces kube-scheduler: it serves default-scheduler,
and spreads by default.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from carico_local.cluster import processes
from tests.tools import kubernetes
from tests.upstream import kubelet_stage, played_stage, suite_stage

STAGES = {"kwok": played_stage.started, "kubelet": kubelet_stage.started}
# The API server has these APIs behind an alpha gate only.
SKIPPED = "FeatureGate:GenericWorkload"
SUITE_TIMEOUT_S = 5400


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


async def run(scheduler: str, nodes: str, root: pathlib.Path, *, focus: str = "") -> list[Spec]:
    """Run the specs, all or those whose names have `focus` in them; return them by name."""
    program = str(kubernetes.programs(suite_stage.PROGRAM)[suite_stage.PROGRAM].path)
    async with STAGES[nodes](scheduler, root) as stage:
        return await asyncio.to_thread(_specs, program, stage, root, focus)


def table(found: Mapping[str, Sequence[Spec]]) -> list[str]:
    """Format the specs of one run per scheduler as a table of Markdown."""
    by_name = {name: {spec.name: spec for spec in specs} for name, specs in found.items()}
    lines = [f"| spec | conformance | {' | '.join(by_name)} |", f"|---|---|{'---|' * len(by_name)}"]
    for spec in next(iter(found.values())):
        ends = [specs[spec.name].state if spec.name in specs else "" for specs in by_name.values()]
        lines.append(f"| {spec.name} | {'yes' if spec.is_conformance else ''} | {' | '.join(ends)} |")
    return lines


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


def _specs(program: str, stage: suite_stage.Stage, root: pathlib.Path, focus: str) -> list[Spec]:
    """Run the suite, and read its report."""
    report = root / "report.json"
    chosen = [f"-ginkgo.skip={SKIPPED}", *([f"-ginkgo.focus={focus}"] if focus else [])]
    argv = [
        program, f"-kubeconfig={stage.kubeconfig}", "-provider=skeleton", f"-num-nodes={stage.nodes}",
        "-disable-log-dump", f"-ginkgo.json-report={report}", "-ginkgo.no-color", "-ginkgo.v", "-ginkgo.seed=1",
        f"-ginkgo.timeout={SUITE_TIMEOUT_S}s", *chosen,
    ]  # fmt: skip
    with (root / "suite.log").open("wb") as log:
        subprocess.run(
            argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, check=False, cwd=root,
            env={**os.environ, **stage.environ},
        )  # fmt: skip
    assert report.exists(), processes.last_lines(root / "suite.log", 5)
    return parse(json.loads(report.read_text()))


def main() -> int:
    """Run the suite and print the table; return 1 if a spec failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.scheduling_suite", description=__doc__)
    parser.add_argument("--nodes", choices=STAGES, default="kwok", help="played by kwok (default), or real kubelets")
    parser.add_argument("--scheduler", choices=suite_stage.SCHEDULERS, help="only this one (default: both, by turns)")
    parser.add_argument("--focus", default="", help="only the specs whose names match this regular expression")
    parser.add_argument("--logs", type=pathlib.Path, help="keep the logs of all programs in this folder")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        root = asked.logs or pathlib.Path(made)
        found = {}
        for name in (asked.scheduler,) if asked.scheduler else suite_stage.SCHEDULERS:
            (root / name).mkdir(parents=True, exist_ok=True)
            found[name] = asyncio.run(run(name, asked.nodes, root / name, focus=asked.focus))
            if asked.focus:
                found[name] = [each for each in found[name] if each.state != "skipped"]
    print(*table(found), sep="\n")
    failed = [(name, each) for name, specs in found.items() for each in specs if not each.is_fine]
    for name, each in failed:
        print(f"\n{name}: {each.name} ({each.spent_s:.0f} s)\n{each.message}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
