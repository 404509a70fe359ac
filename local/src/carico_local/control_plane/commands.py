"""The command line of each program of a real control plane, with the reasons for its flags."""

import dataclasses
import ipaddress
import json
import pathlib
from collections.abc import Mapping, Sequence

from carico_local.control_plane import identity

ETCD, API, CONTROLLERS, SCHEDULER, KWOK = "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"
# API requests per second of the controllers. With the default (20), a job of hundreds of Pods waits for its controller.
_QPS, _BURST = 500, 1000
_AUDIT_MEGABYTES = 20
# Addresses of Services: kubeadm's default.
_SERVICES = "10.96.0.0/16"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listeners:
    """Where the control plane listens. `hosts`: further names and addresses for its certificate.

    `advertised`: the address that Pods use, where it is not `address`.
    """

    ports: Mapping[str, int]
    address: str = "127.0.0.1"
    hosts: tuple[str, ...] = ()
    advertised: str = ""

    @property
    def api_url(self) -> str:
        """Where clients reach the API."""
        return f"https://{self.address}:{self.ports[API]}"

    @property
    def names(self) -> tuple[str, ...]:
        """Every name and address under which the API is reached; Pods use the first address of the Services."""
        first = str(next(ipaddress.ip_network(_SERVICES).hosts()))
        inside = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
        own = (self.address, *filter(None, (self.advertised,)))
        return tuple(dict.fromkeys((*own, "127.0.0.1", "localhost", first, *inside, *self.hosts)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommandLines:
    """The command lines of a control plane whose files are all in one directory."""

    binaries: Mapping[str, str]
    directory: pathlib.Path
    network: Listeners
    identities: identity.Identities
    # Further flags of the API server.
    api_flags: tuple[str, ...] = ()

    def write_configuration(self, cluster: str, *, users: Mapping[str, identity.User]) -> None:
        """Write identities, kubeconfigs and all other files of the commands. Raises `EnvironmentUnfit`."""
        everyone = {**identity.COMPONENTS, **users}
        self.identities.write(cluster, hosts=self.network.names, users=everyone)
        for component, user in everyone.items():
            path = self.identities.kubeconfig(component)
            self.identities.write_kubeconfig(path, cluster=cluster, url=self.network.api_url, user=user)
        self._audit_policy.write_text(json.dumps(_AUDIT_POLICY), encoding="utf-8")
        self._scheduler_config.write_text(json.dumps(self._scheduler_configuration()), encoding="utf-8")

    @property
    def audit_log(self) -> pathlib.Path:
        """Every binding request that the API server received, one JSON line each: the authoritative record."""
        return self.directory / "bindings.log"

    def etcd(self) -> tuple[str, ...]:
        """Return etcd's command. No fsync: the data need not survive the machine, and each write would wait for it.

        Only the API server is let in. Everyone on the machine could otherwise write what no API server checks, and so
        could any page in a browser here, since etcd takes JSON from all origins.
        """
        store = self.identities.store
        access = {
            "cert_file": store.directory / f"{identity.STORE}.crt",
            "key_file": store.directory / f"{identity.STORE}.key",
            "trusted_ca_file": store.pair.certificate,
            "client_cert_auth": True,
        }
        return (
            self.binaries[ETCD],
            *_flags(
                data_dir=self.directory / "etcd", listen_client_urls=self._store_url,
                advertise_client_urls=self._store_url, **access,
                # No member joins, so any free port will do.
                listen_peer_urls="https://127.0.0.1:0", **{f"peer_{name}": value for name, value in access.items()},
                unsafe_no_fsync=True, log_level="warn",
            ),
        )  # fmt: skip

    def api(self) -> tuple[str, ...]:
        """Return the API server's command, with the authorization of a production cluster."""
        authority, store, keys = self.identities.authority, self.identities.store, self.identities.directory
        return (
            self.binaries[API],
            *_flags(
                etcd_servers=self._store_url, etcd_cafile=store.pair.certificate,
                etcd_certfile=store.directory / f"{identity.STORE_CLIENT}.crt",
                etcd_keyfile=store.directory / f"{identity.STORE_CLIENT}.key",
                bind_address=self.network.address, secure_port=self.network.ports[API],
                tls_cert_file=keys / "api.crt", tls_private_key_file=keys / "api.key",
                client_ca_file=authority.pair.certificate, token_auth_file=self.identities.token_file,
                kubelet_client_certificate=keys / "api-kubelet-client.crt",
                kubelet_client_key=keys / "api-kubelet-client.key",
                # The default prefers host names, and local nodes are not in DNS.
                kubelet_preferred_address_types="InternalIP",
                service_account_issuer="https://kubernetes.default.svc.cluster.local",
                service_account_key_file=keys / "service-account.pub",
                service_account_signing_key_file=keys / "service-account.key",
                service_cluster_ip_range=_SERVICES,
                authorization_mode="Node,RBAC", enable_admission_plugins="NodeRestriction", allow_privileged=True,
                audit_policy_file=self._audit_policy, audit_log_path=self.audit_log, audit_log_maxsize=_AUDIT_MEGABYTES,
                **self._aggregation(), **self._reachability(),
            ),
            *self.api_flags,
        )  # fmt: skip

    def controllers(self) -> tuple[str, ...]:
        """Return the controller manager's command: every controller but node IPAM."""
        authority, keys = self.identities.authority, self.identities.directory
        kubeconfig = self.identities.kubeconfig(identity.CONTROLLERS)
        return (
            self.binaries[CONTROLLERS],
            *_flags(
                kubeconfig=kubeconfig, authentication_kubeconfig=kubeconfig, authorization_kubeconfig=kubeconfig,
                bind_address="127.0.0.1", secure_port=self.network.ports[CONTROLLERS],
                cert_dir=self.directory / "controllers", leader_elect=False, use_service_account_credentials=True,
                service_account_private_key_file=keys / "service-account.key",
                root_ca_file=authority.pair.certificate,
                cluster_signing_cert_file=authority.pair.certificate, cluster_signing_key_file=authority.pair.key,
                controllers="*,-node-ipam-controller", kube_api_qps=_QPS, kube_api_burst=_BURST,
            ),
        )  # fmt: skip

    def scheduler(self) -> tuple[str, ...]:
        """Return the default scheduler's command, for Pods that do not name CARICO."""
        kubeconfig = self.identities.kubeconfig(identity.SCHEDULER)
        return (
            self.binaries[SCHEDULER],
            *_flags(
                config=self._scheduler_config, authentication_kubeconfig=kubeconfig,
                authorization_kubeconfig=kubeconfig, bind_address="127.0.0.1",
                secure_port=self.network.ports[SCHEDULER], cert_dir=self.directory / "scheduler",
            ),
        )  # fmt: skip

    def kwok(self) -> tuple[str, ...]:
        """Return kwok's command: it plays the kubelet of every Node that has its annotation."""
        return (
            self.binaries[KWOK],
            *_flags(
                kubeconfig=self.identities.kubeconfig(identity.KWOK),
                manage_all_nodes=False, manage_nodes_with_annotation_selector=KWOK_SELECTOR,
                # As kubelets have it; kwok renews the Leases of all its nodes.
                node_lease_duration_seconds=40, config=KWOK_STAGES,
                server_address=f"127.0.0.1:{self.network.ports[KWOK]}",
            ),
        )  # fmt: skip

    @property
    def _store_url(self) -> str:
        return f"https://127.0.0.1:{self.network.ports[ETCD]}"

    @property
    def _audit_policy(self) -> pathlib.Path:
        return self.directory / "audit-policy.json"

    @property
    def _scheduler_config(self) -> pathlib.Path:
        return self.directory / "kube-scheduler.json"

    def _aggregation(self) -> dict[str, object]:
        """Return the flags of API aggregation: without them the controllers log an error every few seconds."""
        proxies = self.identities.proxies
        return {
            "requestheader_client_ca_file": proxies.pair.certificate,
            "requestheader_allowed_names": identity.PROXY_CLIENT,
            "requestheader_username_headers": "X-Remote-User",
            "requestheader_group_headers": "X-Remote-Group",
            "requestheader_extra_headers_prefix": "X-Remote-Extra-",
            "proxy_client_cert_file": proxies.directory / f"{identity.PROXY_CLIENT}.crt",
            "proxy_client_key_file": proxies.directory / f"{identity.PROXY_CLIENT}.key",
        }

    def _reachability(self) -> dict[str, object]:
        # Endpoints must not contain a loopback address. Pods of a cluster on loopback are processes of this machine and
        # use the kubeconfig instead.
        advertised = self.network.advertised or self.network.address
        if ipaddress.ip_address(advertised).is_loopback:
            return {"endpoint_reconciler_type": "none"}
        return {"advertise_address": advertised}

    def _scheduler_configuration(self) -> dict[str, object]:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(self.identities.kubeconfig(identity.SCHEDULER)), "qps": _QPS, "burst": _BURST,
            },
            "leaderElection": {"leaderElect": False},
        }  # fmt: skip


KWOK_STAGES = pathlib.Path(__file__).with_name("kwok.yaml")
KWOK_ANNOTATION = "kwok.x-k8s.io/node"
KWOK_SELECTOR = f"{KWOK_ANNOTATION}=fake"
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Request",
            "verbs": ["create"],
            "resources": [{"group": "", "resources": ["pods/binding", "bindings"]}],
        },
        {"level": "None"},
    ],
}


def _flags(**values: object) -> Sequence[str]:
    """Return flags in the form of Go programs: `--data-dir=x`, `--leader-elect=false`."""
    return [
        f"--{name.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in values.items()
    ]
