"""`python -m carico_local.kubelets.metrics_api KUBECONFIG PORT COMMAND...`: metrics.k8s.io, for `kubectl top`.

Registers the API, then becomes Kubernetes' metrics-server, which asks the kubelets. It runs next to the API server and
not in a Pod: the API server finds it by a Service whose external name is this machine's own.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_client, cluster_access
from carico_core.runtime.process import clock as clocks

_NAMESPACE, _NAME = "kube-system", "metrics-server"
_GROUP, _VERSION = "metrics.k8s.io", "v1beta1"
_SERVICES = f"/api/v1/namespaces/{_NAMESPACE}/services"
_API_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_AGAIN_S = 0.5


def objects(port: int) -> dict[str, dict[str, Any]]:
    """Return the Service and the APIService by the path at which they are created."""
    service = {
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": _NAME, "namespace": _NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }  # fmt: skip
    registered = {
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": f"{_VERSION}.{_GROUP}"},
        "spec": {
            "group": _GROUP, "version": _VERSION, "groupPriorityMinimum": 100, "versionPriority": 100,
            # Its certificate is its own, and it listens on loopback alone.
            "insecureSkipTLSVerify": True,
            "service": {"namespace": _NAMESPACE, "name": _NAME, "port": port},
        },
    }  # fmt: skip
    return {_SERVICES: service, _API_SERVICES: registered}


def command(binary: str, *, kubeconfig: str, port: int, directory: str) -> tuple[str, ...]:
    """Return the command of metrics-server, with the reason for each flag that is not a default."""
    return (
        binary, f"--kubeconfig={kubeconfig}", f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}", "--bind-address=127.0.0.1", f"--secure-port={port}",
        f"--cert-dir={directory}",
        # As the API server: kubelets sign their certificates themselves, and their names are not in DNS.
        "--kubelet-insecure-tls", "--kubelet-preferred-address-types=InternalIP",
        # Its least: figures are there 20 s after a Pod's start. A question must take less.
        "--metric-resolution=10s", "--kubelet-request-timeout=5s",
    )  # fmt: skip


async def register(api: api_client.KubeClient, port: int) -> None:
    """Create the objects; one that exists, from an earlier start, keeps its name and gets this port."""
    for path, wanted in objects(port).items():
        with contextlib.suppress(errors.Conflict):
            await api.request("POST", path, body=wanted)
            continue
        name = wanted["metadata"]["name"]
        found = await api.request("GET", f"{path}/{name}")
        await api.request("PUT", f"{path}/{name}", body={**found, "spec": {**found["spec"], **wanted["spec"]}})


async def _insist(kubeconfig: str, port: int) -> None:
    """Register, again until the API has what it takes."""
    settings = cluster_access.KubeSettings(kubeconfig=kubeconfig)
    api = await api_client.connect(settings, clock=clocks.SystemClock(), user_agent="carico-metrics-api")
    try:
        while True:
            # A namespace that is yet to come; an APIService whose status changed between our reading and writing.
            with contextlib.suppress(errors.ApiUnavailable, errors.NotFound, errors.Conflict):
                return await register(api, port)
            await asyncio.sleep(_AGAIN_S)
    finally:
        await api.close()


def main(argv: Sequence[str]) -> None:
    """Register the API, and become metrics-server. Raises `CaricoError` where the API refuses it."""
    kubeconfig, port, *program = argv
    asyncio.run(_insist(kubeconfig, int(port)))
    os.execv(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
