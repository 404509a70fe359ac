"""The Lease of an election at the Kubernetes API."""

from typing import Protocol

from carico_core.runtime.kube import api_actions
from carico_core.wire.kubernetes import lease as kubernetes_lease


class Leases(Protocol):
    """Where the Lease is kept. Both raise `ApiError` or `ApiUnavailable`."""

    async def read(self) -> kubernetes_lease.Lease | None:
        """The Lease as it is; None where there is none."""

    async def write(self, lease: kubernetes_lease.Lease) -> kubernetes_lease.Lease:
        """The Lease as written: created without a `resource_version`, else only in place of that version."""


class ApiLeases:
    """A Lease of coordination.k8s.io."""

    def __init__(self, api: api_actions.Api, *, namespace: str, name: str, timeout_s: float) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name
        self._timeout_s = timeout_s

    async def read(self) -> kubernetes_lease.Lease | None:
        """The Lease as it is: never an older one, as a read of one object without a version asks the store."""
        return await api_actions.get_lease(
            self._api, namespace=self._namespace, name=self._name, timeout_s=self._timeout_s
        )

    async def write(self, lease: kubernetes_lease.Lease) -> kubernetes_lease.Lease:
        """The Lease as written."""
        if lease.resource_version:
            return await api_actions.update_lease(self._api, lease, timeout_s=self._timeout_s)
        return await api_actions.create_lease(self._api, lease, timeout_s=self._timeout_s)
