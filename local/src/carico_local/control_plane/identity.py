"""Users of a real control plane: bearer tokens, kubeconfigs and keys, in one directory."""

import base64
import csv
import dataclasses
import io
import json
import pathlib
import secrets
from collections.abc import Mapping, Sequence

from carico_local import atomic_files
from carico_local.control_plane import certificates

# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles and #core-component-roles: the
# bootstrap roles are bound to these.
ADMIN_GROUP = "system:masters"
NODES_GROUP = "system:nodes"
PROXY_CLIENT = "front-proxy-client"
# Of etcd and its only client.
STORE, STORE_CLIENT = "etcd", "kube-apiserver"
ADMIN, CONTROLLERS, SCHEDULER, KWOK = "admin", "controller-manager", "scheduler", "kwok"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A user as in the API server's token file."""

    name: str
    groups: tuple[str, ...] = ()


COMPONENTS = {
    ADMIN: User(name="carico-admin", groups=(ADMIN_GROUP,)),
    CONTROLLERS: User(name="system:kube-controller-manager"),
    SCHEDULER: User(name="system:kube-scheduler"),
    # It plays every node at once.
    KWOK: User(name="carico-kwok", groups=(ADMIN_GROUP,)),
}


def node_user(name: str) -> User:
    """Return a node's own identity, which the Node authorizer restricts to the node's own objects."""
    return User(name=f"system:node:{name}", groups=(NODES_GROUP,))


class Identities:
    """The authority, tokens and kubeconfigs in `directory`; existing ones are kept."""

    def __init__(self, directory: pathlib.Path, environ: Mapping[str, str]) -> None:
        self.directory = directory
        self.authority = certificates.Authority(directory=directory, environ=environ)
        # A certificate of this authority may impersonate any user. Only the API server has one, for aggregated APIs.
        self.proxies = certificates.Authority(directory=directory / "front-proxy", environ=environ)
        # Who may write to etcd is the administrator: many have certificates of the cluster's authority.
        self.store = certificates.Authority(directory=directory / STORE, environ=environ)

    @property
    def token_file(self) -> pathlib.Path:
        """Every token with its user, in the format of --token-auth-file."""
        return self.directory / "tokens.csv"

    def kubeconfig(self, component: str) -> pathlib.Path:
        """Return the path of a component's kubeconfig."""
        return self.directory / f"{component}.kubeconfig"

    def write(self, cluster: str, *, hosts: Sequence[str], users: Mapping[str, User]) -> None:
        """Make the authority, the API server's pairs and a token for each user. Raises `EnvironmentUnfit`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        # Only the owner may read keys and tokens.
        self.directory.chmod(0o700)
        self.authority.ensure(f"{cluster}-ca")
        self.authority.issue("api", user="kube-apiserver", hosts=hosts)
        self.authority.issue("api-kubelet-client", user="kube-apiserver-kubelet-client", groups=(ADMIN_GROUP,))
        self.authority.ensure_signing_key("service-account")
        self.proxies.ensure(f"{cluster}-front-proxy-ca")
        self.proxies.issue(PROXY_CLIENT, user=PROXY_CLIENT)
        self.store.ensure(f"{cluster}-etcd-ca")
        self.store.issue(STORE, user=STORE, hosts=("127.0.0.1",))
        self.store.issue(STORE_CLIENT, user=STORE_CLIENT)
        known = self._tokens()
        table = io.StringIO()
        csv.writer(table).writerows(
            [known.get(user.name) or secrets.token_hex(16), user.name, key, ",".join(user.groups)]
            for key, user in users.items()
        )
        atomic_files.write(self.token_file, table.getvalue().encode())

    def token(self, user: User) -> str:
        """Return the user's bearer token. Raises `KeyError` for a user that was not passed to `write`."""
        return self._tokens()[user.name]

    def write_kubeconfig(self, path: pathlib.Path, *, cluster: str, url: str, user: User) -> None:
        """Write a kubeconfig that contains the authority's certificate and the user's token."""
        authority = base64.b64encode(self.authority.pair.certificate.read_bytes()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": cluster, "cluster": {"server": url, "certificate-authority-data": authority}}],
            "users": [{"name": user.name, "user": {"token": self.token(user)}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user.name}}],
            "current-context": cluster,
        }
        atomic_files.write(path, json.dumps(config, indent=1).encode())

    def _tokens(self) -> dict[str, str]:
        if not self.token_file.exists():
            return {}
        with self.token_file.open(encoding="utf-8", newline="") as file:
            return {name: token for token, name, *_ in csv.reader(file)}
