"""Where a cluster's services run, for remedies that fit there: on this machine, in compose, or in Kubernetes."""

import dataclasses
import enum
from collections.abc import Iterable

from carico_cli.live import addresses
from carico_local.kubelets import configuration

_WHO = "is the address right, and do CARICO_BUS_NKEY and CARICO_BUS_TLS_CA belong to the role cli (docs/security.md)?"
# In Kubernetes: what each service is (deploy/k8s/base).
_KINDS = {"agent": "daemonset", "nats": "statefulset"}


class Kind(enum.Enum):
    """Where services run."""

    LOCAL = "local"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where services run. `at`: the cluster, which commands name; `namespace`: in Kubernetes."""

    kind: Kind
    at: addresses.Address = addresses.OF_SHELL
    namespace: str = "carico"

    @classmethod
    def of(cls, at: addresses.Address, namespace: str) -> "Place":
        """Return the place of a cluster."""
        kind = Kind.LOCAL if at.is_local else Kind.COMPOSE if at.is_compose else Kind.KUBERNETES
        return cls(kind=kind, at=at, namespace=namespace)

    def carico(self, words: str) -> str:
        """Return the command of `carico` that means this cluster."""
        # Compose may be recognised by its API alone: the flags that reach it from here mean nothing in its containers.
        return f"{addresses.COMPOSE_CARICO} {words}" if self.kind is Kind.COMPOSE else self.at.carico(words)

    def knowing(self, version: str, provider_ids: Iterable[str] = ()) -> "Place":
        """Return the place once the API's version and its nodes' providerIDs are known.

        Elsewhere, only compose has the embedded API, or kubelets of this provider (its profile `kube`).
        """
        if self.kind is not Kind.KUBERNETES:
            return self
        # Imported here: a cluster of this machine is known without.
        from carico_local.api.kubectl import discovery

        by_nodes = any(each.startswith(configuration.COMPOSE_PROVIDER) for each in provider_ids)
        is_compose = version.endswith(discovery.VERSION_END) or by_nodes
        return dataclasses.replace(self, kind=Kind.COMPOSE) if is_compose else self

    @property
    def kubectl(self) -> str:
        """How a person runs kubectl on this cluster."""
        return addresses.COMPOSE_KUBECTL if self.kind is Kind.COMPOSE else self.at.kubectl

    def log(self, service: str, node: str = "") -> str:
        """Return the command that shows the log of nats, aggregator, scheduler or agent; `node`: of that agent."""
        match self.kind:
            case Kind.LOCAL:
                return f"`{self.carico(f'logs {service}/{node}' if node else f'logs {service}')}`"
            case Kind.COMPOSE:
                # A node's container runs kubelet and agent.
                return f"`docker compose logs {({'agent': 'node', 'nats': 'nats-server'}).get(service, service)}`"
        return f"`{self.kubectl} -n {self.namespace} logs {_KINDS.get(service, 'deployment')}/carico-{service}`"

    def of_service(self, service: str, node: str = "") -> str:
        """Return the command that shows why a service does not answer; `node`: of that agent."""
        return f"`{self.carico('status')}` says why" if self.kind is Kind.LOCAL else self.log(service, node)

    def of_node(self, node: str) -> str:
        """Return the command that shows why a node is not ready."""
        return f"`{self.carico('status')}`" if self.kind is Kind.LOCAL else f"`{self.kubectl} describe node {node}`"

    @property
    def reach_bus(self) -> str:
        """What to do where NATS does not answer at its address."""
        if self.kind is Kind.COMPOSE:
            return f"`docker compose ps nats-server`, {self.log('nats')}"
        forward = f"{self.kubectl} -n {self.namespace} port-forward service/carico-nats 4222"
        return f"{_WHO} From outside the cluster: `{forward}`"

    @property
    def restart(self) -> str:
        """How to run the same version of all services."""
        match self.kind:
            case Kind.LOCAL:
                return f"`{self.carico('down')}`, then `{self.carico('up')}`"
            case Kind.COMPOSE:
                return "`docker compose up -d --wait --build`"
        apply, status = f"{self.kubectl} apply -k deploy/k8s/overlays/...", f"{self.kubectl} rollout status"
        return f"`{apply}` of one version, then `{status}`"

    @property
    def or_kube_scheduler(self) -> str:
        """What else places Pods of kube-scheduler's name; empty where nothing is known."""
        if self.kind is Kind.LOCAL:
            return ", or use `carico up --control-plane real`, which also runs kube-scheduler"
        return ", or start that scheduler" if self.kind is Kind.KUBERNETES else ""
