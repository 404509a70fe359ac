"""Where a cluster is: a local one by its name, any other by its addresses."""

import contextlib
import dataclasses
import pathlib
import urllib.parse
from collections.abc import Mapping
from typing import Protocol

from carico_cli.shell import options
from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client as kube
from carico_core.runtime.process import settings
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
    def url(self) -> str:
        """Where NATS is, without what we say to be let in."""
        return self.bus.url.rpartition("@")[2]

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
        paths, found = state.running(home, name)
        wanted = kube.KubeSettings(kubeconfig=str(paths.kubeconfig))
        return Address(name=name, bus=buses.BusSettings(url=found.nats_url), kube=wanted, is_local=True)

    return find


def remote(
    nats_url: str, wanted: kube.KubeSettings, environ: Mapping[str, str], *, given_by: str = "--nats-url"
) -> Where:  # fmt: skip
    """A cluster elsewhere; who we are on its bus stands in CARICO_BUS_..., as for every service.

    given_by: the flag or variable that holds the address. Raises `SettingsError` for an address, or a value there, that
    cannot be used.
    """
    if not all(map(_is_address, nats_url.split(","))):
        raise errors.SettingsError(f"{given_by}: got {nats_url!r}, expected an address such as {_EXAMPLE}")
    shared = {name: value for name, value in environ.items() if name.startswith("CARICO_BUS_")}
    bus = settings.load(buses.BusSettings, prefix="bus", argv=["--url", nats_url], environ=shared, program="carico")
    address = Address(name=nats_url.rpartition("@")[2], bus=bus, kube=wanted)
    return lambda: address


def chosen(
    home: pathlib.Path, environ: Mapping[str, str], *, name: str | None, nats_url: str | None, wanted: kube.KubeSettings
) -> Where:  # fmt: skip
    """The cluster that is meant: by its name, by an address, by NATS_URL, or the one named demo.

    Raises `SettingsError` for both a name and an address, and as `remote` does.
    """
    if name is not None and nats_url is not None:
        raise errors.SettingsError("--name and --nats-url: got both, expected one of them")
    if nats_url is not None:
        return remote(nats_url, wanted, environ)
    url = environ.get("NATS_URL")
    if name is not None or not url:
        return local(home, name or options.DEFAULT_NAME)
    # `eval "$(carico env)"` was said: by its name it is found again where it is started anew.
    own = None if wanted.kubeconfig or wanted.context else _named(home, url)
    return remote(url, wanted, environ, given_by="NATS_URL") if own is None else local(home, own)


def _is_address(text: str) -> bool:
    """Whether a client of NATS can take it. Without a scheme it is host:port, as everywhere in NATS.

    >>> [_is_address(text) for text in ("tls://nats:4222", "nats:4222", "nats:port", "nats:99999", "http://nats", "")]
    [True, True, False, False, False, False]
    """
    try:
        parsed = urllib.parse.urlsplit(text if "://" in text else f"nats://{text}")
        return parsed.scheme in _SCHEMES and bool(parsed.hostname) and parsed.port != 0
    except ValueError:
        # Of a port that is no number or none of TCP's, or of brackets without an end.
        return False


def _named(home: pathlib.Path, nats_url: str) -> str | None:
    """The name of the local cluster at an address."""
    for name in state.cluster_names(home):
        with contextlib.suppress(errors.CaricoError):
            paths = state.find(home, name)
            found = state.read(paths)
            if found is not None and found.nats_url == nats_url and state.is_running(paths):
                return name
    return None
