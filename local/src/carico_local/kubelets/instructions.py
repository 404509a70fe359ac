"""Writes the files of each node into its own directory: configuration, certificate authority, and keys."""

import ipaddress
import pathlib
from collections.abc import Mapping, Sequence

from carico_local.control_plane import identity
from carico_local.kubelets import configuration

PROXY, DNS = "kube-proxy", "dns"
_USERS: Mapping[str, identity.User] = {
    # The bootstrap role system:node-proxier is bound to this name.
    PROXY: identity.User(name="system:kube-proxy"),
    # It reads Services and EndpointSlices; a role of its own is not worth it on one machine.
    DNS: identity.User(name="carico-dns", groups=(identity.ADMIN_GROUP,)),
}


def users(nodes: Sequence[configuration.Node]) -> dict[str, identity.User]:
    """Return the identities that the nodes' programs need, by the control plane's key for each."""
    return {**_USERS, **{f"node-{node.name}": identity.node_user(node.name) for node in nodes}}


def write(
    directory: pathlib.Path, *, nodes: Sequence[configuration.Node], network: ipaddress.IPv4Network, cluster: str,
    identities: identity.Identities, url: str, machine: configuration.HostSize,
    plugins: str,
) -> None:  # fmt: skip
    """Write each node's files into `directory`/NODE; `identities` must contain `users(nodes)`."""

    def kubeconfig(user: identity.User) -> str:
        path = directory / "kubeconfig"
        identities.write_kubeconfig(path, cluster=cluster, url=url, user=user)
        try:
            return path.read_text(encoding="utf-8")
        finally:
            path.unlink()

    directory.mkdir(parents=True, exist_ok=True)
    authority = identities.authority.pair.certificate.read_text(encoding="ascii")
    proxy, dns = (kubeconfig(_USERS[who]) for who in (PROXY, DNS))
    for node in nodes:
        folder = directory / node.name
        folder.mkdir(exist_ok=True)
        folder.chmod(0o700)
        own = configuration.Kubeconfigs(kubelet=kubeconfig(identity.node_user(node.name)), proxy=proxy, dns=dns)
        texts = configuration.files(
            node, others=tuple(nodes), network=network, machine=machine, authority=authority, kubeconfigs=own,
            plugins=plugins,
        )  # fmt: skip
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
