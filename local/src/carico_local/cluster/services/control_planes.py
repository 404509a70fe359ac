"""The services that answer at the Kubernetes API: the embedded one, or the real control plane."""

import dataclasses
import pathlib
import signal
from collections.abc import Mapping, Sequence
from typing import Protocol

from carico_local.api import access
from carico_local.cluster import plan as plans
from carico_local.cluster import state
from carico_local.cluster.services import kubelet_nodes, readiness
from carico_local.cluster.services import service as parts
from carico_local.control_plane import commands, identity

API, ETCD, CONTROLLERS, SCHEDULER = "api", "etcd", "kube-controller-manager", "kube-scheduler"


class ControlPlane(Protocol):
    """What a cluster needs of its control plane."""

    @property
    def url(self) -> str:
        """Where clients reach the API."""
        ...

    def write_configuration(self) -> None:
        """Write the administrator's kubeconfig to its place, and what else the services read."""
        ...

    def services(self, environ: Mapping[str, str]) -> list[parts.Service]:
        """Return the services, in the order in which they are started."""
        ...

    def node_options(self, node: str) -> Mapping[str, object]:
        """Return settings of an emulated node that depend on the control plane."""
        ...


def names(plan: plans.Plan) -> list[str]:
    """Return the names of a plan's services that answer at the API."""
    if plan.control_plane is plans.ControlPlane.EMBEDDED:
        return [API]
    return [ETCD, API, CONTROLLERS, SCHEDULER]


def of(plan: plans.Plan, ports: Mapping[str, int], paths: state.Paths, environ: Mapping[str, str]) -> ControlPlane:
    """Return the plan's control plane; `ports` by the service's name."""
    if plan.control_plane is plans.ControlPlane.EMBEDDED:
        return Embedded(plan=plan, port=ports[API], paths=paths)
    return real(plan, ports, paths, environ)


def probe(plan: plans.Plan, name: str, port: int) -> readiness.Probe:
    """Return how one knows that a service of the control plane is ready."""
    if plan.control_plane is plans.ControlPlane.EMBEDDED:
        return readiness.Http(port=port)
    return readiness.Http(port=port, path="/readyz" if name in (ETCD, API) else "/healthz", tls=name != ETCD)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Embedded:
    """One process of ours, which knows one user."""

    plan: plans.Plan
    port: int
    paths: state.Paths

    @property
    def url(self) -> str:
        """Plain HTTP on loopback."""
        return f"http://127.0.0.1:{self.port}"

    def write_configuration(self) -> None:
        """The kubeconfig, with the token that the API asks for."""
        token = access.obtain_token(self._token_file)
        access.write_kubeconfig(self.paths.kubeconfig, name=self.plan.name, url=self.url, token=token)

    def services(self, environ: Mapping[str, str]) -> list[parts.Service]:
        """Return the API."""
        argv = parts.python(
            "carico_local.api", data=str(self.paths.data / "api"), port=self.port, token_file=str(self._token_file)
        )
        command = parts.command(API, argv, self.paths, environ)
        found = parts.Service(
            name=API, command=command, probe=probe(self.plan, API, self.port), http_port=self.port
        )  # fmt: skip
        return [found]

    @property
    def _token_file(self) -> pathlib.Path:
        return self.paths.data / "api" / "token"

    def node_options(self, node: str) -> Mapping[str, object]:
        """Return the kubeconfig that all share."""
        return {"kubeconfig": str(self.paths.kubeconfig)}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Real:
    """etcd, API server, controllers and the default scheduler, with certificates, RBAC and tokens."""

    plan: plans.Plan
    paths: state.Paths
    plane: commands.ControlPlane

    @property
    def url(self) -> str:
        """TLS on loopback."""
        return self.plane.network.api_url

    def write_configuration(self) -> None:
        """Identities and kubeconfigs."""
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
        """Return all four; the others are no use before the API answers."""
        return [
            self._service(ETCD, self.plane.etcd(), environ),
            self._service(API, self.plane.api(), environ, after=ETCD),
            self._service(CONTROLLERS, self.plane.controllers(), environ, after=API),
            self._service(SCHEDULER, self.plane.scheduler(), environ, after=API),
        ]

    def node_options(self, node: str) -> Mapping[str, object]:
        """Return the node's own identity, held to its own objects, and its certificate: logs are asked for over TLS."""
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
            # They keep nothing that a signal could spare, and an API server that has lost its etcd first would take
            # most of a minute to end.
            command=dataclasses.replace(command, orphan_signal=signal.SIGKILL),
            probe=probe(self.plan, name, port),
            http_port=port,
            after=after,
        )


def real(plan: plans.Plan, ports: Mapping[str, int], paths: state.Paths, environ: Mapping[str, str]) -> Real:
    """Return the real control plane of a plan."""
    directory = paths.data / "control-plane"
    by_program = {commands.API if name == API else name: port for name, port in ports.items()}
    plane = commands.ControlPlane(
        binaries=plan.binaries,
        directory=directory,
        network=commands.Network(ports=by_program, advertised=kubelet_nodes.gateway(plan, paths)),
        identities=identity.Identities(directory / "identities", environ),
    )
    return Real(plan=plan, paths=paths, plane=plane)
