"""A real Prometheus that has run for a week, with the time that Compose keeps: the dashboards go back for as long."""

import asyncio
import itertools
import pathlib
import time
from collections.abc import Iterator

import pytest
import yaml

from carico_cli.reference import metric_catalogue
from carico_core.runtime.observe import metrics
from tests.e2e import prometheus_server
from tests.tools import debian, observe

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
    pytest.mark.timeout(300),
]
# On each of these days, counted back from today, services were scraped for an hour.
DAYS_AGO = range(7)
DAY_S, SCRAPED_FOR_S, SCRAPED_EVERY_S = 86_400, 3600, 60
# As Grafana asks for a week on a panel of a thousand pixels.
STEP_S = 600
RATE_INTERVAL = "15m"
# The last quarter of an hour of the page: the cluster's dashboard shows the same for longer.
ON_THE_PAGE = {
    "Capacity against what runs", "Usage", "Pods placed", "Pods", "Nodes by age of their advertisement",
    "What happened",
}  # fmt: skip
# Labels by whose values queries select; any other has a single value.
VALUES = {
    "freshness": ("fresh", "absent"), "outcome": ("bound", "evicted"), "code": ("200", "403"), "node": ("node-1",),
}  # fmt: skip


async def test_the_dashboards_go_back_for_days(tmp_path: pathlib.Path) -> None:
    now_s = int(time.time()) // STEP_S * STEP_S
    (tmp_path / "scraped.txt").write_text("\n".join([*scraped(now_s), "# EOF\n"]))
    backfill = ("tsdb", "create-blocks-from", "openmetrics", tmp_path / "scraped.txt", tmp_path / "data")
    await asyncio.to_thread(observe.promtool, *backfill)
    (tmp_path / "prometheus.yml").write_text("{}")
    async with prometheus_server.running(tmp_path / "prometheus.yml", tmp_path / "data", *kept_for()) as server:
        shown = {path.stem: await days_shown(server, path, now_s) for path in observe.DASHBOARDS}
    assert shown["carico-cluster"].keys() >= ON_THE_PAGE
    found = [(name, title, days) for name, panels in shown.items() for title, days in panels.items()]
    assert [each for each in found if each[2] != set(DAYS_AGO)] == [], "panels without these days"


def kept_for() -> list[str]:
    """Return the flags of Compose's Prometheus that limit how long it keeps what it has scraped."""
    services = yaml.safe_load((observe.ROOT / "docker-compose.yml").read_text())["services"]
    return [flag for flag in services["prometheus"]["command"] if "retention" in flag]


async def days_shown(server: prometheus_server.Server, path: pathlib.Path, now_s: int) -> dict[str, set[int]]:
    """Return of which days each panel of a dashboard shows something, of all that are asked for at once."""
    shown: dict[str, set[int]] = {}
    began_s = now_s - DAYS_AGO[-1] * DAY_S - SCRAPED_FOR_S
    for title, query in observe.queries(path, rate_interval=RATE_INTERVAL):
        found = await server.get("/api/v1/query_range", query=query, start=began_s, end=now_s, step=STEP_S)
        times = [float(at) for series in found["result"] for at, _ in series["values"]]
        shown.setdefault(title, set()).update(int((now_s - at) // DAY_S) for at in times)
    return shown


def scraped(now_s: int) -> Iterator[str]:
    """Yield, as OpenMetrics, an hour a day of every metric that services declare, and of those of processes."""
    declared = [each for group in metric_catalogue.catalogue().values() for each in group]
    series = [*itertools.chain.from_iterable(series_of(each) for each in declared)]
    series += [(name, name.endswith("_total")) for name, _ in metric_catalogue.PROCESS]
    for day in reversed(DAYS_AGO):
        for at_s in range(now_s - day * DAY_S - SCRAPED_FOR_S, now_s - day * DAY_S + 1, SCRAPED_EVERY_S):
            for name, grows in series:
                labelled = name if "{" in name else name + "{}"
                target = labelled.replace("{", '{job="carico",instance="one",', 1).replace(",}", "}")
                yield f"{target} {at_s - now_s + 10 * DAY_S if grows else 1} {at_s}"


def series_of(each: metrics.Declared) -> Iterator[tuple[str, bool]]:
    """Yield each series of a metric, and whether it is one that only grows."""
    names = [each.name]
    labels = [[f'{label}="{value}"' for value in VALUES.get(label, ("any",))] for label in each.labels]
    if each.kind is metrics.Kind.HISTOGRAM:
        names = [f"{each.name}_{part}" for part in ("bucket", "sum", "count")]
    for name in names:
        bounds = [['le="0.1"', 'le="+Inf"']] if name.endswith("_bucket") else []
        for chosen in itertools.product(*labels, *bounds):
            yield f"{name}{{{','.join(chosen)}}}", each.kind is not metrics.Kind.GAUGE
