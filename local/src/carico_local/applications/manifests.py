"""The Deployments of the applications."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from carico_core.domain import names
from carico_local.applications import catalog, network, program
from carico_local.jobs import job as jobs
from carico_local.jobs import job_labels

APPLICATION_LABEL = "carico.dev/application"
# Annotation of Pods that no rescheduler moves (docs/rescheduling.md).
STAYS_ANNOTATION = "carico.dev/reschedule"
# Longer than the last requests take; see `network.Server.finish`.
GRACE_S = 30


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """How the applications run. `node_cores`: of a node; with it Pods request the paper's share of one, else nothing.

    `directory`, `delay_ms`, `rate_mbit`: as of `program.PodOptions`.
    """

    namespace: str = "default"
    scheduler_name: str = names.SCHEDULER_NAME
    node_cores: float | None = None
    node_memory_bytes: float = 0.0
    directory: str = ""
    delay_ms: float = 0.0
    rate_mbit: float = 0.0


def deployment(service: catalog.Service, choice: Choice) -> dict[str, Any]:
    """Return the Deployment of a service: one Pod, of which a new one is ready before the old one ends."""
    labels = {job_labels.APP_LABEL: service.name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": service.name, "namespace": choice.namespace, "labels": _labels(service)},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {
                    "labels": _labels(service),
                    "annotations": {STAYS_ANNOTATION: "false"} if service.stays else {},
                },
                "spec": {
                    "schedulerName": choice.scheduler_name,
                    "terminationGracePeriodSeconds": GRACE_S,
                    "automountServiceAccountToken": False,
                    "containers": [_container(service, choice)],
                },
            },
        },
    }  # fmt: skip


def _labels(service: catalog.Service) -> dict[str, str]:
    return {job_labels.APP_LABEL: service.name, APPLICATION_LABEL: service.name.partition("-")[0]}


def _container(service: catalog.Service, choice: Choice) -> dict[str, Any]:
    variables = {
        program.DIRECTORY_VARIABLE: choice.directory,
        program.DELAY_VARIABLE: f"{choice.delay_ms:g}",
        program.RATE_VARIABLE: f"{choice.rate_mbit:g}",
    }
    container: dict[str, Any] = {
        "name": "app",
        "image": jobs.IMAGE,
        "command": ["carico-workload", "app", service.name],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "ports": [{"name": "app", "containerPort": network.PORT}],
        # The kernel accepts connections: a probe that is late shows a busy node, not a Pod that does not answer.
        "readinessProbe": {"tcpSocket": {"port": network.PORT}, "periodSeconds": 1, "timeoutSeconds": 5},
    }
    if choice.node_cores is not None:
        container["resources"] = {"requests": requests(service, choice.node_cores, choice.node_memory_bytes)}
    return container


def requests(service: catalog.Service, node_cores: float, node_memory_bytes: float) -> Mapping[str, str]:
    """Return the paper's requests (table 9), as the same share of a node."""
    millicores = service.cores / catalog.NODE_CORES * node_cores * 1e3
    memory = service.memory_gb / catalog.NODE_GB * node_memory_bytes
    return {"cpu": f"{max(round(millicores), 1)}m", "memory": f"{max(round(memory / 2**20), 1)}Mi"}
