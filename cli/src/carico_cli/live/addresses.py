"""Where a cluster is reached: its bus and its Kubernetes API."""

import dataclasses
import pathlib
import shlex
import urllib.parse
from collections.abc import Mapping
from typing import Protocol

from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import cluster_access as kube
from carico_core.runtime.process import settings
from carico_local.cluster import folders, state

# The name of NATS in docker-compose.yml: commands that run in its containers have no other address.
_COMPOSE_HOST = "nats-server"
# How the cluster of docker compose is reached from the folder of docker-compose.yml, outside of its containers.
COMPOSE_CARICO = "docker compose run --rm carico"
COMPOSE_KUBECTL = "KUBECONFIG=compose/kubeconfig/host.yaml kubectl"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """How to reach a cluster. Equal addresses are the same cluster."""

    name: str
    bus: buses.BusSettings
    kube: kube.KubeSettings
    # A cluster of `carico up`, on this machine.
    is_local: bool = False
    # Whether the flag --nats-url gave the address: a further command needs it, too.
    is_by_flag: bool = dataclasses.field(default=False, compare=False)

    @property
    def url(self) -> str:
        """The address of NATS, without credentials."""
        return self.bus.url.rpartition("@")[2]

    @property
    def is_compose(self) -> bool:
        """Whether this command runs in a container of docker compose."""
        url = self.url
        return urllib.parse.urlsplit(url if "://" in url else f"nats://{url}").hostname == _COMPOSE_HOST

    def carico(self, words: str) -> str:
        """Return the command of `carico` that means this cluster, whichever others there are.

        >>> OF_SHELL.carico("capacity"), dataclasses.replace(OF_SHELL, name="shop", is_local=True).carico("capacity")
        ('carico capacity', 'carico capacity --name shop')
        """
        if self.is_local:
            return carico_on(self.name, words)
        given = (("--nats-url", self.url if self.is_by_flag else ""), *self._kube_flags)
        flags = "".join(f" {flag} {shlex.quote(value)}" for flag, value in given if value)
        return f"{COMPOSE_CARICO if self.is_compose else 'carico'} {words}{flags}"

    @property
    def kubectl(self) -> str:
        """How a person runs kubectl on this cluster, whatever their shell means."""
        if self.is_local:
            return f"carico use {self.name} kubectl"
        if self.is_compose:
            return COMPOSE_KUBECTL
        return shlex.join(["kubectl", *(word for flag, value in self._kube_flags if value for word in (flag, value))])

    @property
    def look(self) -> str:
        """What to do where nothing answers."""
        if self.is_local:
            return f"`{self.carico('status')}` shows what runs"
        doctor = self.carico("doctor")
        return f"check the address and the credentials (CARICO_BUS_..., docs/security.md); `{doctor}` checks more"

    @property
    def _kube_flags(self) -> tuple[tuple[str, str], ...]:
        return ("--kubeconfig", self.kube.kubeconfig), ("--context", self.kube.context)


def carico_on(name: str, words: str) -> str:
    """Return the command of `carico` that means a cluster of this machine, also once others run."""
    return f"carico {words} --name {name}"


# The cluster that commands without flags mean.
OF_SHELL = Address(name="", bus=buses.BusSettings(), kube=kube.KubeSettings())


class Where(Protocol):
    """Finds a cluster's present address: one that was started again may have another."""

    def __call__(self) -> Address:
        """Return the address. Raises `SettingsError` with what to do where there is none now."""
        ...


def of_state(paths: folders.Paths, found: state.ClusterState) -> Address:
    """Return the address of a cluster of this machine."""
    wanted = kube.KubeSettings(kubeconfig=str(paths.kubeconfig))
    return Address(name=paths.name, bus=buses.BusSettings(url=found.nats_url), kube=wanted, is_local=True)


def local(home: pathlib.Path, name: str) -> Where:
    """Return a function that finds the address of a cluster of `carico up`."""
    return lambda: of_state(*state.running(home, name))


def remote(
    nats_url: str, wanted: kube.KubeSettings, environ: Mapping[str, str], *, given_by: str, is_by_flag: bool = False
) -> Address:
    """Return the address of a cluster elsewhere; CARICO_BUS_... holds the credentials, as for every service.

    given_by: the flag or variable that holds the address; is_by_flag: whether it is a flag. Raises `SettingsError` for
    an invalid address or setting.
    """
    if not all(map(buses.is_address, nats_url.split(","))):
        raise errors.SettingsError(f"{given_by}: got {nats_url!r}, expected {buses.ADDRESS}")
    shared = {name: value for name, value in environ.items() if name.startswith("CARICO_BUS_")}
    bus = settings.load(buses.BusSettings, prefix="bus", argv=["--url", nats_url], environ=shared, program="carico")
    return Address(name=nats_url.rpartition("@")[2], bus=bus, kube=wanted, is_by_flag=is_by_flag)
