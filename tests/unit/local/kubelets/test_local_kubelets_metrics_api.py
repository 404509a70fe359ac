"""metrics.k8s.io of real kubelets: what is registered, also again after a restart, and what becomes of the process."""

import os
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from carico_local.kubelets import metrics_api


class Api:
    """Keeps objects by path; a second POST of one is a conflict."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Any]] = {}

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.kept:
                raise errors.Conflict(status=409, reason="AlreadyExists", message="exists", request=path)
            body["spec"]["defaulted"] = True
        if method != "GET":
            self.kept[path] = body
        return self.kept[path]


async def test_the_api_is_registered_at_the_port_of_this_start() -> None:
    api = Api()
    for port in (4001, 4002):
        await metrics_api.register(api, port)  # type: ignore[arg-type]
    service = api.kept["/api/v1/namespaces/kube-system/services/metrics-server"]
    assert service["spec"] == {"type": "ExternalName", "externalName": "localhost", "defaulted": True}
    registered = api.kept["/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io"]["spec"]
    assert registered["service"] == {"namespace": "kube-system", "name": "metrics-server", "port": 4002}
    assert registered["defaulted"], "what the API server added stays"


async def test_what_changes_meanwhile_is_registered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals: list[errors.CaricoError] = [
        errors.Conflict(status=409, reason="Conflict", message="modified", request="PUT"),
        errors.NotFound(status=404, reason="NotFound", message="namespaces kube-system", request="POST"),
        errors.ApiUnavailable("refused"),
    ]
    asked = []

    async def register(api: object, port: int) -> None:
        asked.append(port)
        if refusals:
            raise refusals.pop()

    class Closed:
        async def close(self) -> None:
            asked.append(0)

    async def connect(*_: object, **__: object) -> Closed:
        return Closed()

    monkeypatch.setattr(metrics_api, "register", register)
    monkeypatch.setattr(metrics_api, "_AGAIN_S", 0.0)
    monkeypatch.setattr(api_client, "connect", connect)
    await metrics_api._insist("/k", 4001)
    assert asked == [4001, 4001, 4001, 4001, 0]


def test_the_process_becomes_metrics_server(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []

    async def insist(kubeconfig: str, port: int) -> None:
        done.append((kubeconfig, port))

    monkeypatch.setattr(metrics_api, "_insist", insist)
    monkeypatch.setattr(os, "execv", lambda program, argv: done.append((program, argv)))
    argv = metrics_api.command("/x/metrics-server", kubeconfig="/k", port=4001, directory="/d")
    metrics_api.main(["/k", "4001", *argv])
    assert done == [("/k", 4001), ("/x/metrics-server", list(argv))]
    assert "--secure-port=4001" in argv
    assert "--bind-address=127.0.0.1" in argv
