"""A real Prometheus scrapes a running cluster: every query of the dashboards is answered, and alerts fire."""

import asyncio
import contextlib
import os
import pathlib
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from carico_cli.reference import metric_catalogue
from carico_local.cluster import state
from tests.e2e import carico_command, prometheus_server
from tests.integration import observe
from tests.tools import debian

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(debian.allowed() is not None, reason=str(debian.allowed())),
    pytest.mark.timeout(900),
]
WITHIN_S = carico_command.WITHIN_S
NAME = "e2e-metrics"
# What no cluster of this kind has: kube-scheduler beside it, the callout; and what has not happened there.
EMPTY = {
    "Requests of kube-scheduler", "Time to answer", "Let in", "Refused", "Checks that fail", "What it does without",
    "Messages dropped", "Why nodes are refused", "Requests of browsers", "Time to answer browsers",
    "Refused by it, or not answered",
}  # fmt: skip
# Families that a quiet cluster has no series of: nothing of their kind has happened, or the machine offers all.
UNUSED = {
    "carico_agent_degraded", "carico_agent_publish_errors_total", "carico_agent_model_drops_total",
    "carico_aggregator_drops_total", "carico_aggregator_publish_errors_total", "carico_scheduler_rejections_total",
    "carico_scheduler_dropped_messages_total", "carico_scheduler_lost_events_total",
    "carico_scheduler_bad_objects_total", "carico_scheduler_extender_requests_total",
    "carico_scheduler_extender_seconds", "carico_scheduler_extender_binds_total",
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
    await everything_is_scraped(server)
    await every_query_is_answered(server)
    await silent_services_raise_alerts(shell, server)


async def nothing_left(ask: Callable[[], Awaitable[set[str]]], what: str) -> None:
    """Returns once `ask` gives nothing more; fails with what it gave last."""
    left: set[str] = set()
    try:
        async with asyncio.timeout(WITHIN_S):
            while left := await ask():
                await asyncio.sleep(0.5)
    except TimeoutError:
        raise AssertionError(f"{what}: {sorted(left)}") from None


async def everything_is_scraped(server: prometheus_server.Server) -> None:
    """Each service answers, and what the code declares is what comes."""
    wanted = {"agent/node-1", "agent/node-2", "aggregator", "scheduler"}

    async def away() -> set[str]:
        return wanted - {labels["service"] for labels, value in await server.query('up{job=~"carico-.+"}') if value}

    await nothing_left(away, "not scraped")
    groups = metric_catalogue.catalogue()
    declared = [each for name, group in groups.items() if name not in ("auth", "web") for each in group]

    async def missing() -> set[str]:
        # Some come with the first Pod that is covered, or the first look at the streams.
        names = set(await server.get("/api/v1/label/__name__/values"))
        found = {each.name for each in declared if each.name in names or f"{each.name}_bucket" in names}
        return {each.name for each in declared} - found - UNUSED

    await nothing_left(missing, "declared and not exported")


async def every_query_is_answered(server: prometheus_server.Server) -> None:
    """No query of a dashboard is refused, and each panel shows something, unless nothing of its kind is there."""

    async def empty() -> set[str]:
        panels, shown = set(), set()
        for path in observe.DASHBOARDS:
            for title, query in observe.queries(path):
                panels.add(title)
                if await server.query(query):
                    shown.add(title)
        return panels - shown - EMPTY

    await nothing_left(empty, "panels that show nothing")


async def silent_services_raise_alerts(shell: carico_command.Shell, server: prometheus_server.Server) -> None:
    """An agent, the aggregator and the scheduler stand still, and whoever watches is told so; then all is well."""
    agent, services = {"CaricoNodesStale", "CaricoTargetDown"}, {"CaricoNoScheduler", "CaricoNoAggregator"}

    async def firing() -> set[str]:
        return (agent | services) & await server.firing()

    await nothing_left(firing, "alerts of a healthy cluster")
    with stopped(shell, "agent/node-1"):
        await until_firing(server, agent)
    with stopped(shell, "scheduler"), stopped(shell, "aggregator"):
        await until_firing(server, services)
    await nothing_left(firing, "alerts that go on")


async def until_firing(server: prometheus_server.Server, names: set[str]) -> None:
    """Returns once all of these alerts fire."""

    async def silent() -> set[str]:
        return names - await server.firing()

    await nothing_left(silent, "alerts that do not fire")


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
