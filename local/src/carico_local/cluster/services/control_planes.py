"""The services behind the Kubernetes API: the embedded one, or the real control plane."""

import dataclasses
import pathlib
import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

from carico_local.api import access
from carico_local.cluster import folders
from carico_local.cluster import plan as plans
from carico_local.cluster.services import kubelet_nodes, probes
from carico_local.cluster.services import service as parts
from carico_local.control_plane import commands, identity

API = probes.API


class Plane(Protocol):
    """What a cluster needs from its control plane."""

    @property
    def url(self) -> str:
        """Where clients reach the API."""
        ...

    def write_configuration(self) -> None:
        """Write the administrator's kubeconfig and all other files that the services read."""
        ...

    def services(self, environ: Mapping[str, str]) -> list[parts.Service]:
        """Return the services in start order."""
        ...

    def node_options(self, node: str) -> Mapping[str, object]:
        """Return the settings of an emulated node that depend on the control plane."""
        ...


def of(plan: plans.Plan, ports: Mapping[str, int], paths: folders.Paths, environ: Mapping[str, str]) -> Plane:
    """Return the plan's control plane; `ports` by the service's name."""
    if plan.control_plane is plans.ControlPlane.EMBEDDED:
        return Embedded(plan=plan, port=ports[API], paths=paths)
    return real(plan, ports, paths, environ)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """The embedded API: one process with a single user."""

    plan: plans.Plan
    port: int
    paths: folders.Paths

    @property
    def url(self) -> str:
        """Plain HTTP on loopback."""
        return f"http://127.0.0.1:{self.port}"

    def write_configuration(self) -> None:
        """Write the kubeconfig, with the token that the API requires."""
        token = access.obtain_token(self._token_file)
        access.write_kubeconfig(self.paths.kubeconfig, name=self.plan.name, url=self.url, token=token)

    def services(self, environ: Mapping[str, str]) -> list[parts.Service]:
        """Return the API's service."""
        argv = parts.python(
            "carico_local.api", data=str(self.paths.data / "api"), port=self.port, token_file=str(self._token_file)
        )
        command = parts.command(API, argv, self.paths, environ)
        return [parts.Service(name=API, command=command, probe=probes.of(self.plan, API, self.port))]

    @property
    def _token_file(self) -> pathlib.Path:
        return self.paths.data / "api" / "token"

    def node_options(self, node: str) -> Mapping[str, object]:
        """Return the kubeconfig that all nodes share."""
        return {"kubeconfig": str(self.paths.kubeconfig)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """etcd, API server, controllers and the default scheduler, with certificates, RBAC and tokens."""

    plan: plans.Plan
    paths: folders.Paths
    plane: commands.CommandLines

    @property
    def url(self) -> str:
        """TLS on loopback."""
        return self.plane.network.api_url

    def write_configuration(self) -> None:
        """Write identities and kubeconfigs."""
        self.plane.directory.mkdir(parents=True, exist_ok=True)
        users = {node: identity.node_user(node) for node in self.plan.process_nodes} | kubelet_nodes.users(self.plan)
        self.plane.write_configuration(self.plan.name, users=users)
        for node in self.plan.process_nodes:
            self.plane.identities.authority.issue(
                f"{node}-serving", user=identity.node_user(node).name, hosts=("127.0.0.1", node)
            )
        self.plane.identities.write_kubeconfig(
            self.paths.kubeconfig, cluster=self.plan.name, url=self.url, user=identity.COMPONENTS[identity.ADMIN]
        )

    def services(self, environ: Mapping[str, str]) -> list[parts.Service]:
        """Return all four services; controllers and scheduler start once the API is ready."""
        return [
            self._service(probes.ETCD, self.plane.etcd(), environ),
            self._service(API, self.plane.api(), environ, after=probes.ETCD),
            self._service(probes.CONTROLLERS, self.plane.controllers(), environ, after=API),
            self._service(probes.KUBE_SCHEDULER, self.plane.scheduler(), environ, after=API),
        ]

    def node_options(self, node: str) -> Mapping[str, object]:
        """Return the node's own restricted identity, and its certificate for the log endpoint's TLS."""
        identities = self.plane.identities
        return {
            "kubeconfig": str(identities.kubeconfig(node)),
            "log_certificate": str(identities.directory / f"{node}-serving.crt"),
            "log_key": str(identities.directory / f"{node}-serving.key"),
            "log_authority": str(identities.authority.pair.certificate),
        }

    def _service(
        self, name: str, argv: Sequence[str], environ: Mapping[str, str], *, after: str | None = None
    ) -> parts.Service:
        command = parts.command(name, tuple(argv), self.paths, environ)
        port = self.plane.network.ports[commands.API if name == API else name]
        return parts.Service(
            name=name,
            # They have nothing to clean up, and an API server that lost its etcd first would take most of a minute to
            # end.
            command=dataclasses.replace(command, orphan_signal=signal.SIGKILL),
            probe=probes.of(self.plan, name, port),
            after=after,
        )


def real(plan: plans.Plan, ports: Mapping[str, int], paths: folders.Paths, environ: Mapping[str, str]) -> Real:
    """Return the real control plane of a plan."""
    directory = paths.data / "control-plane"
    by_program = {commands.API if name == API else name: port for name, port in ports.items()}
    plane = commands.CommandLines(
        binaries=plan.binaries,
        directory=directory,
        network=commands.Listeners(ports=by_program, advertised=kubelet_nodes.gateway(plan, paths)),
        identities=identity.Identities(directory / "identities", environ),
    )
    return Real(plan=plan, paths=paths, plane=plane)
