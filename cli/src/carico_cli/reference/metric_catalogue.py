"""Every metric that CARICO's services export, as their code declares it."""

from collections.abc import Mapping

from carico_agent.pod_events import rosters
from carico_agent.reporting import instruments as agent
from carico_agent.reporting import traffic_reports
from carico_aggregator import instruments as aggregator
from carico_auth import instruments as auth
from carico_core.runtime.observe import client_metrics, health
from carico_core.runtime.observe import metrics as metric
from carico_core.runtime.process import clock as clocks
from carico_recommender import instruments as recommender
from carico_rescheduler import instruments as rescheduler
from carico_scheduler.report import instruments as scheduler
from carico_web import site as web

TITLES = {
    "every": "Every service that is on the bus",
    "kube": "Every service that asks the Kubernetes API (agent, scheduler, auth callout, recommender, rescheduler)",
    "agent": "Agent",
    "aggregator": "Aggregator",
    "scheduler": "Scheduler",
    "auth": "Auth callout",
    "recommender": "Recommender",
    "rescheduler": "Rescheduler",
    "web": "Page server",
}
# Of the process itself: prometheus_client exports them on Linux.
PROCESS = (
    ("process_cpu_seconds_total", "CPU time used"),
    ("process_resident_memory_bytes", "memory in RAM"),
    ("process_virtual_memory_bytes", "memory mapped"),
    ("process_open_fds", "open files and sockets"),
    ("process_max_fds", "limit of open files and sockets"),
    ("process_start_time_seconds", "start time, Unix time"),
)


def catalogue() -> Mapping[str, tuple[metric.Declared, ...]]:
    """Return the metrics by service; `every` and `kube` hold those that several services share."""
    found = {name: metric.Metrics(name) for name in TITLES if name not in ("every", "kube")}
    clock = clocks.FakeClock()
    agent.Instruments(found["agent"]).read_ages(_Ages())
    traffic_reports.Counters(found["agent"])
    rosters.RosterClasses(clock=clock, metrics=found["agent"])
    aggregator.Instruments(found["aggregator"], clock=clock).read_recommended(list)
    scheduler.Instruments(found["scheduler"])
    auth.Instruments(found["auth"], clock=clock)
    recommender.Instruments(found["recommender"]).read_certificate(lambda: None)
    rescheduler.Instruments(found["rescheduler"])
    web.Instruments(found["web"])
    every = metric.Metrics("every")
    client_metrics.BusMetrics(every)
    health.watched(health.Health({}), every)
    kube = metric.Metrics("kube")
    client_metrics.KubeMetrics(kube)
    return {"every": every.declared, "kube": kube.declared, **{name: each.declared for name, each in found.items()}}


def tables() -> str:
    """Return the catalogue as Markdown, with a table for each service."""
    parts = []
    for name, group in catalogue().items():
        rows = [_row(each) for each in group]
        if name == "every":
            rows += [f"| `{process}` | | | {meaning} |" for process, meaning in PROCESS]
        parts.append(
            "\n".join((f"## {TITLES[name]}", "| metric | kind | labels | meaning |", "|---|---|---|---|", *rows))
        )
    return "\n\n".join(parts)


def _row(found: metric.Declared) -> str:
    labels = ", ".join(f"`{label}`" for label in found.labels)
    bounds = f"; buckets {', '.join(f'{bound:g}' for bound in found.buckets)}" if found.buckets else ""
    return f"| `{found.name}` | {found.kind.value} | {labels} | {found.meaning}{bounds} |"


class _Ages:
    """Ages before there is any: the catalogue needs only the names."""

    def sample_age_s(self) -> float | None:
        """Return None: not known."""
        return None

    def model_age_s(self) -> float | None:
        """Return None: not known."""
        return None
