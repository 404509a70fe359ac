"""What `carico compare` measured on emulated nodes, from its JSON: the setting, and each scheduler's times.

Every mistake in such a file is reported in one line with its path.
"""

import dataclasses
import json
import re
from collections.abc import Mapping

from carico_twin.evaluate import file_mistake

VERSION = 1
WORKLOAD = "pi"
# The schedulers: `carico` (`carico-500m`: with requests), `kube-500m` (`-bare`: without running agents), `constant-8`
# (Pods per node).
_CONTENDER = re.compile(
    r"carico(?P<own>-[1-9]\d{0,5}m)?|kube-(?P<request>[1-9]\d{0,5})m(-bare)?|constant-(?P<pods>[1-9]\d{0,2})"
)
# Figures that the twin also has; all in seconds except the last.
SPREADS = ("job_s", "pod_mean_s", "pod_p95_s")
MOST_RUNNING = "max_running_per_node"
_NODES_MOST = 5000
_PODS_MOST = 100_000


class RecordedError(file_mistake.FileMistake):
    """A comparison that the twin cannot run."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A figure's median, minimum and maximum over the runs."""

    median: float
    least: float
    most: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scheduler's figures. request_millicores: the CPU request of each Pod; None: CARICO without requests."""

    name: str
    request_millicores: int | None
    runs: int
    figures: Mapping[str, Spread]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One job of pi Pods on emulated nodes, under each scheduler. estimator, ceiling_cpu None: CARICO's default.

    scale: real CPUs per emulated core. pod_alone_s: CPU time of a Pod on an idle core. left_out: schedulers of the file
    that cannot be compared, each with the reason.
    """

    nodes: int
    cores: int
    scale: float
    pods: int
    pod_alone_s: float
    estimator: str | None
    ceiling_cpu: float | None
    rows: tuple[Row, ...]
    left_out: tuple[str, ...]


class _Object(file_mistake.Section):
    """A JSON object."""

    kind = "an object"
    mistake = RecordedError

    def inner(self, key: str) -> "_Object":
        return _Object(self.file, self.at(key), self.take(key))

    def text(self, key: str) -> str:
        value = self.take(key)
        if not isinstance(value, str):
            raise self.wrong(self.at(key), value, "a text")
        return value


def read(file: str, content: bytes) -> Comparison:
    """Return the comparison in a file that `carico compare` wrote. Raises `RecordedError`."""
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RecordedError(file, "file", got=str(error), expected="JSON as `carico compare` writes it") from None
    whole = _Object(file, "", parsed)
    version = whole.whole("version", least=0, most=10**9)
    if version != VERSION:
        raise whole.wrong(whole.at("version"), version, f"{VERSION}, the only version that is supported")
    setting = whole.inner("setting")
    cores = setting.whole("cores", least=1, most=4096)
    if (workload := setting.values.get("workload", WORKLOAD)) != WORKLOAD:
        raise setting.wrong(setting.at("workload"), workload, f"{WORKLOAD!r}, whose Pods the twin knows")
    rows, left_out = _rows(whole.inner("contenders"), cores)
    return Comparison(
        nodes=setting.whole("nodes", least=1, most=_NODES_MOST),
        cores=cores,
        scale=setting.number("scale", least=1e-6),
        pods=setting.whole("pods", least=1, most=_PODS_MOST),
        pod_alone_s=setting.number("pod_alone_s", least=1e-3),
        estimator=None if (named := setting.text("estimator")) == "default" else named,
        ceiling_cpu=setting.optional_number("ceiling_cpu", least=0.01, most=1.0),
        rows=rows,
        left_out=left_out,
    )


def _rows(found: _Object, cores: int) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """Return the schedulers that can be compared, and which others there are and why they cannot."""
    rows, left_out = [], []
    for name in found.values:
        row = _row(found, name, cores)
        if isinstance(row, Row):
            rows.append(row)
        else:
            left_out.append(f"{name}: {row}")
    if not found.values:
        raise found.wrong(found.path, {}, "at least one scheduler")
    if not rows:
        raise found.wrong(found.path, list(found.values), f"one that can be compared ({'; '.join(left_out)})")
    return tuple(rows), tuple(left_out)


def _row(found: _Object, name: str, cores: int) -> Row | str:
    """Return the scheduler's figures, or why they cannot be compared."""
    matched = _CONTENDER.fullmatch(name)
    if matched is None:
        raise found.wrong(found.path, name, "carico, carico-500m, kube-500m, kube-500m-bare or constant-8")
    each = found.inner(name)
    if all(each.inner(figure).take("median") is None for figure in SPREADS):
        return "it has no times: in each of its runs, a Pod failed"
    if matched["own"]:
        return "in the twin, CARICO's Pods have no requests"
    millicores = None
    if matched["request"] or matched["pods"]:
        # `constant-8`: requests with which eight Pods fill a node.
        millicores = int(matched["request"]) if matched["request"] else cores * 1000 // int(matched["pods"])
    most = each.number(MOST_RUNNING)
    return Row(
        name=name,
        request_millicores=millicores,
        runs=each.whole("runs", least=1, most=10**6),
        figures={
            **{figure: _spread(each.inner(figure)) for figure in SPREADS},
            MOST_RUNNING: Spread(median=most, least=most, most=most),
        },
    )


def _spread(found: _Object) -> Spread:
    return Spread(median=found.number("median"), least=found.number("least"), most=found.number("most"))
