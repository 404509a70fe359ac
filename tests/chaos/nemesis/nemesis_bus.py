"""The bus of a run: one NATS server, or three that keep each stream three times, and who its clients are.

Without identities the bus is that of `carico up`: a password for everyone.
"""

import contextlib
import pathlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence

import nats.errors
from nats.js import JetStreamContext

from carico_auth import arrangements
from carico_core.runtime.bus import port as buses
from carico_local import atomic_files, nats_server
from carico_local.cluster import folders, free_ports
from carico_local.cluster.services import readiness, web_access
from carico_local.cluster.services import service as parts
from tests.chaos.nemesis import identities
from tests.tools.sites import security_site

_WITHIN_S = 2


class Bus:
    """The servers, by the names of their services."""

    def __init__(
        self, paths: folders.Paths, environ: Mapping[str, str], *, servers: int, given: identities.Identities | None
    ) -> None:  # fmt: skip
        self.names = ("nats", *(f"nats-{number}" for number in range(2, servers + 1)))
        self.ports = {name: free_ports.choose_one() for name in self.names}
        self._routes = {name: free_ports.choose_one() for name in self.names}
        self._paths = paths
        self._environ = environ
        self._given = given
        self._password = secrets.token_urlsafe(24)

    def write(self) -> None:
        """Write the configuration of each server."""
        for name in self.names:
            config = nats_server.configuration(
                store_dir=self._paths.data / name,
                port=self.ports[name],
                extra={**self._clients(), **self._cluster(name)},
            )
            atomic_files.write(self._file(name), config.encode())

    def service(self, name: str) -> parts.Service:
        """Return a server's process."""
        command = parts.command(
            name, (str(nats_server.binary()), "-c", str(self._file(name))), self._paths, self._environ
        )
        return parts.Service(name=name, command=command, probe=readiness.Tcp(port=self.ports[name]))

    def settings_of(self, name: str, ports: Sequence[int]) -> dict[str, str]:
        """Return the environment by which a service connects, by its own way to each server."""
        addresses = [f"127.0.0.1:{port}" for port in ports]
        found = {"CARICO_BUS_COPIES": str(len(self.names))}
        if self._given is not None:
            urls = [f"nats://{address}" for address in addresses]
            return {
                **found,
                "CARICO_BUS_URL": ",".join(urls),
                "CARICO_BUS_TOKEN_FILE": str(self._given.token_file(name)),
            }
        user = arrangements.AGENTS if name.startswith("agent/") else arrangements.LOCAL
        return {**found, "CARICO_BUS_URL": ",".join(web_access.url(each, user, self._password) for each in addresses)}

    def url_of(self, account: str) -> str:
        """Return an address of all servers with a ServiceAccount's token in it, or the password of a local cluster."""
        urls = self._urls(tuple(self.ports.values()), arrangements.LOCAL)
        return urls if self._given is None else urls.replace("nats://", f"nats://{self._given.api.token(account)}@")

    @property
    def owner(self) -> buses.BusSettings:
        """The settings of the administrator, who connects to the servers themselves."""
        urls = self._urls(tuple(self.ports.values()), arrangements.LOCAL)
        return buses.BusSettings(url=urls) if self._given is None else self._given.owner(urls)

    @contextlib.asynccontextmanager
    async def administrator(self) -> AsyncIterator[JetStreamContext]:
        """Connect as the administrator."""
        settings = self.owner
        async with security_site.raw(
            settings, servers=settings.url.split(","), inbox_prefix=settings.inbox_prefix or "_INBOX",
            connect_timeout=_WITHIN_S,
        ) as peer:  # fmt: skip
            yield peer.client.jetstream(timeout=_WITHIN_S)

    async def delete_streams(self) -> None:
        """Delete every stream and bucket, unless no server answers."""
        with contextlib.suppress(nats.errors.Error, OSError, TimeoutError):
            async with self.administrator() as administrator:
                for each in await administrator.streams_info():
                    assert each.config.name is not None
                    await administrator.delete_stream(each.config.name)

    def _urls(self, ports: Sequence[int], user: str) -> str:
        """Return where clients connect; a token or a key replaces the user's password."""
        addresses = [f"127.0.0.1:{port}" for port in ports]
        if self._given is not None:
            return ",".join(f"nats://{address}" for address in addresses)
        return ",".join(web_access.url(address, user, self._password) for address in addresses)

    def _file(self, name: str) -> pathlib.Path:
        return self._paths.run / f"{name}.conf"

    def _clients(self) -> Mapping[str, object]:
        return arrangements.loopback(self._password) if self._given is None else self._given.config

    def _cluster(self, name: str) -> Mapping[str, object]:
        if len(self.names) == 1:
            return {}
        routes = [f"nats://127.0.0.1:{port}" for port in self._routes.values()]
        listen = f"127.0.0.1:{self._routes[name]}"
        return {
            "server_name": name,
            "cluster": {"name": "nemesis", "listen": listen, "routes": routes, "no_advertise": True},
        }
