"""Kubernetes' scheduler_perf workloads, read from the Go module of the pinned Kubernetes; nothing of it is copied.

Each case of a performance-config.yaml is a list of operations with parameters, and has workloads that set these:
https://github.com/kubernetes/kubernetes/tree/master/test/integration/scheduler_perf
"""

import dataclasses
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from carico_core.domain import errors
from carico_local.binaries import catalog, toolchain

FOLDER = "test/integration/scheduler_perf"
# Not played: devices (DRA).
PLAYED = frozenset(
    {
        "createNodes", "createNamespaces", "createPods", "createPodSets", "createAny", "updateAny", "deletePods",
        "churn", "barrier", "sleep", "startCollectingMetrics", "stopCollectingMetrics",
    }
)  # fmt: skip
# Gates that only change how kube-scheduler works, and those that are always on.
_KNOWN_GATES = frozenset(
    {
        "SchedulerQueueingHints", "SchedulerAsyncAPICalls", "SchedulerAsyncPreemption", "OpportunisticBatching",
        "NodeInclusionPolicyInPodTopologySpread", "DynamicResourceAllocation", "InPlacePodVerticalScaling",
    }
)  # fmt: skip
_NOT_PLAYED = ("steadyState",)
_PATHS = (
    "podTemplatePath", "nodeTemplatePath", "namespaceTemplatePath", "templatePath", "persistentVolumeTemplatePath",
    "persistentVolumeClaimTemplatePath",
)  # fmt: skip
# The sizes that are played unless large ones are asked for.
SHORT_NODES, SHORT_PODS = 1000, 3000

Op = Mapping[str, Any]
# An expression of a Go template: a value, or a function of two of them.
_EXPRESSION = re.compile(r"{{ *(?:(Mod|DivideInt) +)?(\.Index|\.Count|\d+)(?: +(\.Index|\.Count|\d+))? *}}")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A case with its parameters set.

    `ops`: with absolute paths of templates. `floor`: the fewest Pods a second with which upstream's run passes.
    """

    case: str
    name: str
    ops: tuple[Op, ...]
    floor: float | None = None

    @property
    def nodes(self) -> int:
        """How many Nodes it creates."""
        return sum(op["count"] for op in self.ops if op["opcode"] == "createNodes")

    @property
    def pods(self) -> int:
        """How many Pods it creates, without those of churn."""
        single = sum(op["count"] for op in self.ops if op["opcode"] == "createPods")
        sets = (op["count"] * op["createPodsOp"]["count"] for op in self.ops if op["opcode"] == "createPodSets")
        return int(single + sum(sets))

    @property
    def size(self) -> int:
        """By which workloads of one case are ordered."""
        return self.nodes + self.pods

    @property
    def is_short(self) -> bool:
        """Whether it is over in a minute."""
        return self.nodes <= SHORT_NODES and self.pods <= SHORT_PODS


def folder() -> pathlib.Path:
    """Return the folder of the workloads in Go's module cache; fetch the module where it is missing."""
    go = toolchain.go(dict(os.environ), lambda line: print(line.text, file=sys.stderr))
    command = [str(go), "mod", "download", "-json", catalog.KUBERNETES.requires]
    environ = {**os.environ, "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
    done = subprocess.run(
        command, cwd=catalog.KUBERNETES.directory, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise errors.EnvironmentUnfit(f"the Go module {catalog.KUBERNETES.requires} is not available: {done.stderr}")
    return pathlib.Path(json.loads(done.stdout)["Dir"]) / FOLDER


def read(root: pathlib.Path) -> dict[str, list[Workload]]:
    """Return the workloads that can be played by case, each case's from the smallest to the largest."""
    found: dict[str, list[Workload]] = {}
    for path in sorted(root.glob("*/performance-config.yaml")):
        for case in yaml.safe_load(path.read_text()):
            made = {json.dumps(each["params"], sort_keys=True): each for each in reversed(case["workloads"])}
            some = (_workload(path.parent, case, each) for each in made.values() if _is_played(path.parent, case, each))
            found[case["name"]] = sorted(some, key=lambda each: each.size)
    return {name: workloads for name, workloads in found.items() if workloads}


def smallest(workloads: list[Workload]) -> Workload:
    """Return the smallest workload of a case."""
    return workloads[0]


def short(workloads: list[Workload]) -> Workload:
    """Return the largest workload of a case that is over soon; the smallest if none is."""
    return ([each for each in workloads if each.is_short] or workloads[:1])[-1]


def largest(workloads: list[Workload]) -> Workload:
    """Return the largest workload of a case that upstream has a floor for; the largest if there is none."""
    return ([each for each in workloads if each.floor is not None] or workloads)[-1]


def template(path: pathlib.Path, index: int = 0, count: int = 1) -> dict[str, Any]:
    """Return the object of a template, by its number of so many; the caller copies it."""
    text = _text(path)
    return _parsed(filled(text, index, count)) if "{{" in text else _plain(path)


def filled(text: str, index: int, count: int) -> str:
    """Return a template's text with the values of its expressions.

    >>> filled("port: 8{{ Mod .Index 12 }}", 13, 20)
    'port: 81'
    """
    names = {".Index": index, ".Count": count}

    def value(found: re.Match[str]) -> str:
        function, *words = found.groups()
        first, second = (names[each] if each in names else int(each) for each in (words[0], words[1] or "1"))
        return str(first % second if function == "Mod" else first // second)

    return _EXPRESSION.sub(value, text)


@functools.cache
def _text(path: pathlib.Path) -> str:
    return path.read_text()


@functools.cache
def _plain(path: pathlib.Path) -> dict[str, Any]:
    return _parsed(_text(path))


def _parsed(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(text, Loader=_LOADER)
    return found


def _workload(base: pathlib.Path, case: Mapping[str, Any], found: Mapping[str, Any]) -> Workload:
    ops = tuple(_ops(base, case, found["params"]))
    return Workload(case=case["name"], name=found["name"], ops=ops, floor=found.get("threshold"))


def _ops(base: pathlib.Path, case: Mapping[str, Any], params: Mapping[str, Any]) -> Iterator[Op]:
    for op in case["workloadTemplate"]:
        yield _resolved(op, base, case.get("defaultPodTemplatePath"), params)


def _resolved(op: Op, base: pathlib.Path, pod_template: str | None, params: Mapping[str, Any]) -> Op:
    """Return the operation with values for its parameters (`countParam: $initNodes`), and absolute paths."""
    made: dict[str, Any] = {}
    if op["opcode"] == "createPods" and pod_template is not None:
        made["podTemplatePath"] = base / pod_template
    for key, value in op.items():
        if key.endswith("Param"):
            made[key.removesuffix("Param")] = params[value.removeprefix("$")]
        elif key in _PATHS:
            made[key] = base / value
        elif key == "templatePaths":
            made[key] = [base / each for each in value]
        elif key == "createPodsOp":
            made[key] = _resolved(value, base, pod_template, params)
        else:
            made[key] = value
    return made


def _is_played(base: pathlib.Path, case: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    gates = {**case.get("featureGates", {}), **found.get("featureGates", {})}
    if {name for name, is_on in gates.items() if is_on} - _KNOWN_GATES:
        return False
    ops = [*case["workloadTemplate"], *(op["createPodsOp"] for op in case["workloadTemplate"] if "createPodsOp" in op)]
    if any(op["opcode"] not in PLAYED for op in ops):
        return False
    resolved = list(_ops(base, case, found["params"]))
    if any(op["opcode"] == "createAny" and template(op["templatePath"])["kind"] != "Service" for op in resolved):
        return False
    return not any(op.get(key) for op in resolved for key in _NOT_PLAYED) and not any(
        "{{" in filled(_text(path), 0, 1) for path in _templates(resolved)
    )


def _templates(ops: Iterable[Op]) -> Iterator[pathlib.Path]:
    for op in ops:
        yield from (op[key] for key in _PATHS if key in op)
        yield from op.get("templatePaths", ())
        if "createPodsOp" in op:
            yield from _templates([op["createPodsOp"]])
