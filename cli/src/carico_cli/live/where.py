"""Where a cluster is: a local one by its name, any other by its addresses."""

import dataclasses
import pathlib
import urllib.parse
from collections.abc import Mapping
from typing import Protocol

from carico_core.domain import errors
from carico_core.runtime import bus as buses
from carico_core.runtime import kube, settings
from carico_local.cluster import state

_SCHEMES = ("nats", "tls", "ws", "wss")
_EXAMPLE = "nats://127.0.0.1:4222"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How to reach a cluster. Equal addresses are the same cluster."""

    name: str
    bus: buses.BusSettings
    kube: kube.KubeSettings
    # Of `carico up`, on this machine.
    is_local: bool = False

    @property
    def look(self) -> str:
        """What to do where nothing answers there."""
        if self.is_local:
            return f"`carico status --name {self.name}` says what runs"
        return (
            "is the address right, and are we let in (CARICO_BUS_..., docs/security.md)? `carico doctor` looks closer"
        )


class Where(Protocol):
    """Says where the cluster is now; one that was started again may be elsewhere."""

    def __call__(self) -> Address:
        """The address. Raises `SettingsError` where there is none at present, with what to do."""
        ...


def local(home: pathlib.Path, name: str) -> Where:
    """A cluster of `carico up`."""

    def find() -> Address:
        paths = state.find(home, name)
        found = state.read(paths) if state.is_running(paths) else None
        if found is None:
            raise errors.SettingsError(f"cluster {name!r} does not run: `carico up --name {name}`")
        wanted = kube.KubeSettings(kubeconfig=str(paths.kubeconfig))
        return Address(name=name, bus=buses.BusSettings(url=found.nats_url), kube=wanted, is_local=True)

    return find


def remote(nats_url: str, wanted: kube.KubeSettings, environ: Mapping[str, str]) -> Where:
    """A cluster elsewhere; who we are on its bus stands in CARICO_BUS_..., as for every service.

    Raises `SettingsError` for an address, or a value there, that cannot be used.
    """
    for part in nats_url.split(","):
        # Without a scheme it is host:port, as everywhere in NATS.
        parsed = urllib.parse.urlsplit(part if "://" in part else f"nats://{part}")
        if parsed.scheme not in _SCHEMES or not parsed.hostname:
            raise errors.SettingsError(f"--nats-url: got {nats_url!r}, expected an address such as {_EXAMPLE}")
    shared = {name: value for name, value in environ.items() if name.startswith("CARICO_BUS_")}
    bus = settings.load(buses.BusSettings, prefix="bus", argv=["--url", nats_url], environ=shared, program="carico")
    address = Address(name=nats_url.rpartition("@")[2], bus=bus, kube=wanted)
    return lambda: address
