"""A real Prometheus scrapes a running cluster: every query of the dashboards is answered, and alerts fire."""

import asyncio
import contextlib
import os
import pathlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Set

import pytest

from carico_cli.reference import metric_catalogue
from carico_local.cluster import state
from tests.e2e import carico_command, prometheus_server
from tests.tools import debian, observe

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
    pytest.mark.timeout(900),
]
WITHIN_S = carico_command.WITHIN_S
NAME = "e2e-metrics"
# What a silent agent raises, and what a silent scheduler and aggregator raise.
AGENT_ALERTS, SERVICE_ALERTS = {"CaricoNodesStale", "CaricoTargetDown"}, {"CaricoNoScheduler", "CaricoNoAggregator"}
# Panels of what no cluster of this kind has (kube-scheduler, the callout) or what has not happened there.
EMPTY = {
    "Requests from kube-scheduler", "Time to answer", "Accepted", "Refused", "Failing checks", "Degraded features",
    "Messages dropped", "Why nodes are refused", "Requests from browsers", "Response time to browsers",
    "Refused or not answered", "Recommended CPU requests", "Recommended memory requests", "Dropped rosters",
    "Traffic not measured",
    "VerticalPodAutoscaler objects", "Statuses written", "New Pods reviewed", "Time to review new Pods",
    "Moves", "Moves planned", "Traffic between nodes", "Overload", "Gain of moves",
    "Pods that may not move, and moves left out", "Longest wait by class",
}  # fmt: skip
# Families that a quiet cluster has no series of: nothing of their kind has happened, or the machine offers all.
UNUSED = {
    "carico_agent_degraded", "carico_agent_publish_errors_total", "carico_agent_model_drops_total",
    "carico_aggregator_drops_total", "carico_aggregator_publish_errors_total", "carico_scheduler_rejections_total",
    "carico_scheduler_dropped_messages_total", "carico_scheduler_lost_events_total",
    "carico_scheduler_bad_objects_total", "carico_scheduler_extender_requests_total",
    "carico_scheduler_extender_seconds", "carico_scheduler_extender_binds_total", "carico_agent_roster_drops_total",
    "carico_agent_traffic_skipped_total", "carico_bus_troubles_total",
    "carico_aggregator_recommended_cpu_cores", "carico_aggregator_recommended_memory_bytes",
    "carico_scheduler_claims_total", "carico_scheduler_conditions_total", "carico_scheduler_preemptions_total",
    "carico_scheduler_preemption_victims_total", "carico_scheduler_gangs_total",
    "carico_scheduler_gang_evictions_total", "carico_scheduler_class_oldest_waiting_seconds",
}  # fmt: skip


def configured(folder: pathlib.Path, targets: str) -> pathlib.Path:
    """The configuration for a local cluster as it stands in deploy/, but quicker: a test cannot wait for minutes."""
    text = (observe.OBSERVE / "prometheus-local.yml").read_text()
    for slow, quick in (("scrape_interval: 5s", "scrape_interval: 1s"), ("scrape_timeout: 4s", "scrape_timeout: 1s"),
                        ("evaluation_interval: 15s", "evaluation_interval: 1s")):  # fmt: skip
        assert slow in text
        text = text.replace(slow, quick)
    rules = observe.RULES.read_text().replace("interval: 15s", "interval: 1s")
    (folder / "rules").mkdir()
    (folder / "rules" / "carico.yml").write_text("\n".join(_at_once(line) for line in rules.splitlines()))
    (folder / "targets.json").write_text(targets)
    (folder / "prometheus.yml").write_text(text)
    return folder / "prometheus.yml"


def _at_once(line: str) -> str:
    """A line of a rule that does not wait."""
    return line.split("for:")[0] + "for: 0s" if line.strip().startswith("for:") else line


@pytest.fixture
async def watched(tmp_path: pathlib.Path) -> AsyncIterator[tuple[carico_command.Shell, prometheus_server.Server]]:
    """A cluster of two nodes with a job behind it, and the Prometheus that scrapes it."""
    shell = carico_command.Shell(tmp_path)
    async with carico_command.cluster(shell, NAME, "--nodes", "2"):
        code, targets, err = await shell.run("targets", "--name", NAME)
        assert code == 0, err
        config = configured(tmp_path, targets)
        async with prometheus_server.running(config, tmp_path / "data") as server:
            job = ("submit", "pi", "--name", NAME, "--pods", "6", "--seconds", "0.5", "--wait")
            code, out, err = await shell.run(*job)
            assert code == 0, out + err
            yield shell, server


async def test_metrics_are_scraped_and_alerts_fire(
    watched: tuple[carico_command.Shell, prometheus_server.Server],
) -> None:
    shell, server = watched
    assert await left(lambda: not_scraped(server)) == set()
    assert await left(lambda: not_exported(server)) == set()
    assert await left(lambda: empty_panels(server)) == set()
    assert await left(lambda: firing(server)) == set(), "alerts of a healthy cluster"
    with stopped(shell, "agent/node-1"):
        assert await left(lambda: silent(server, AGENT_ALERTS)) == set(), "alerts that do not fire"
    with stopped(shell, "scheduler"), stopped(shell, "aggregator"):
        assert await left(lambda: silent(server, SERVICE_ALERTS)) == set(), "alerts that do not fire"
    assert await left(lambda: firing(server)) == set(), "alerts that do not end"


async def left(ask: Callable[[], Awaitable[set[str]]]) -> set[str]:
    """Ask until nothing is left, and return what is left when the time is over."""
    found = {"no answer yet"}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(WITHIN_S):
            while found := await ask():
                await asyncio.sleep(0.5)
    return found


async def not_scraped(server: prometheus_server.Server) -> set[str]:
    """Return the services that Prometheus does not reach."""
    wanted = {"agent/node-1", "agent/node-2", "aggregator", "scheduler"}
    return wanted - {labels["service"] for labels, value in await server.query('up{job=~"carico-.+"}') if value}


async def not_exported(server: prometheus_server.Server) -> set[str]:
    """Return the metrics that the code declares and no service exports.

    Some are exported with the first Pod that is covered, or after the first look at the streams.
    """
    groups = metric_catalogue.catalogue()
    running = [group for name, group in groups.items() if name not in ("auth", "recommender", "rescheduler", "web")]
    declared = {each.name for group in running for each in group}
    names = set(await server.get("/api/v1/label/__name__/values"))
    return {name for name in declared if name not in names and f"{name}_bucket" not in names} - UNUSED


async def empty_panels(server: prometheus_server.Server) -> set[str]:
    """Return the panels of the dashboards that show nothing; fails where a query is refused."""
    panels, shown = set(), set()
    for path in observe.DASHBOARDS:
        for title, query in observe.queries(path):
            panels.add(title)
            if await server.query(query):
                shown.add(title)
    return panels - shown - EMPTY


async def firing(server: prometheus_server.Server) -> set[str]:
    """Return those of the tested alerts that fire."""
    return (AGENT_ALERTS | SERVICE_ALERTS) & await server.firing()


async def silent(server: prometheus_server.Server, names: Set[str]) -> set[str]:
    """Return those of these alerts that do not fire."""
    return set(names - await server.firing())


@contextlib.contextmanager
def stopped(shell: carico_command.Shell, service: str) -> Iterator[None]:
    """A service that stands still."""
    found = state.read(shell.paths(NAME))
    assert found is not None
    (victim,) = [each for each in found.services if each.name == service]
    assert victim.process is not None
    os.kill(victim.process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim.process.pid, signal.SIGCONT)
