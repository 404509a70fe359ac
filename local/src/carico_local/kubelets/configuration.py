"""The configuration files of one node, with the reason for each setting that is not a default. Pure."""

import dataclasses
import ipaddress
import json
from collections.abc import Mapping

# The range of all Pods (kubeadm's usual one) and the prefix of each node's. Only the nodes route it, so clusters may
# share it.
CLUSTER_RANGE = ipaddress.IPv4Network("10.244.0.0/16")
_NODE_PREFIX = 24
# The first addresses of a network are for the gateway and spare.
_FIRST_NODE = 10
# How the providerID of a node of `docker compose` begins, and no other; `carico doctor` recognises the cluster by it.
COMPOSE_PROVIDER = "carico-compose://"
SANDBOX_IMAGE = "docker.io/carico/busybox:1"
DOMAIN = "cluster.local"
# Quantities of CPU and memory as Kubernetes writes them.
_MILLI = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HostSize:
    """The size of the whole machine, which a kubelet takes for its node's size."""

    cpus: float
    memory_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. Its addresses follow from `number`, counted from 1; node 1 has address `first` of the network."""

    name: str
    number: int
    cpus: float
    memory_bytes: int
    first: int = _FIRST_NODE
    # The Node's spec.providerID; empty: none.
    provider_id: str = ""

    def address(self, network: ipaddress.IPv4Network) -> str:
        """Return the node's own address."""
        return str(network[self.first + self.number - 1])

    @property
    def pods(self) -> ipaddress.IPv4Network:
        """The range of its Pods' addresses."""
        return list(CLUSTER_RANGE.subnets(new_prefix=_NODE_PREFIX))[self.number]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfigs:
    """Kubeconfigs as text: of the kubelet, of kube-proxy, and of the DNS server."""

    kubelet: str
    proxy: str
    dns: str


def files(
    node: Node, *, others: tuple[Node, ...], network: ipaddress.IPv4Network, machine: HostSize,
    kubeconfigs: Kubeconfigs, authority: str, plugins: str,
) -> dict[str, str]:  # fmt: skip
    """Return the text of each file in a node's /carico. `plugins`: directory of the network plugins."""
    address = node.address(network)
    environment = {
        "NODE_NAME": node.name, "NODE_IP": address, "POD_RANGE": node.pods, "CLUSTER_RANGE": CLUSTER_RANGE,
    }  # fmt: skip
    return {
        "node.env": "".join(f"{name}={value}\n" for name, value in environment.items()),
        "routes": "".join(f"{other.pods} {other.address(network)}\n" for other in others if other != node),
        "containerd.toml": _CONTAINERD.format(plugins=plugins),
        "10-carico.conflist": _json(_cni(node)),
        "kubelet.json": _json(_kubelet(node, address, machine)),
        "kube-proxy.json": _json(_proxy(node)),
        "Corefile": _COREFILE.format(address=address, domain=DOMAIN),
        "ca.crt": authority,
        "kubelet.kubeconfig": kubeconfigs.kubelet,
        "kube-proxy.kubeconfig": kubeconfigs.proxy,
        "dns.kubeconfig": kubeconfigs.dns,
    }


# restrict_oom_score_adj, disable_apparmor: a virtual machine may lack CAP_SYS_RESOURCE and AppArmor's tools. Pods then
# run without lowered OOM scores, which no test or demo needs.
_CONTAINERD = f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{{plugins}}"
  conf_dir = "/carico"
"""

# On the node's own address, so that DNS needs neither a Service nor a Pod.
_COREFILE = """.:53 {{
    bind {address}
    errors
    kubernetes {domain} in-addr.arpa ip6.arpa {{
        kubeconfig /carico/dns.kubeconfig
        pods insecure
        ttl 2
    }}
    forward . /etc/resolv.conf
    cache 2
}}
"""


def _cni(node: Node) -> Mapping[str, object]:
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        # The entry script masquerades only traffic that leaves the cluster: Pods see each other's own addresses.
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": str(node.pods)}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "carico", "plugins": [bridge, ports]}


def _kubelet(node: Node, address: str, machine: HostSize) -> Mapping[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "providerID": node.provider_id,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        # CI machines have v1 cgroups, which 1.36 refuses by default.
        "failCgroupV1": False,
        "failSwapOn": False,
        "authentication": {
            "anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": "/carico/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [address],
        "clusterDomain": DOMAIN,
        # The node's own cgroup limits it; the kubelet sees the machine's size and must reserve the rest.
        "enforceNodeAllocatable": [],
        "kubeReserved": _reserved(node, machine),
        # The disk is the machine's, not the node's: its pressure must evict no Pod, and images are imported only once.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": True,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        # All Pods of a job arrive at once, and there is no registry to protect.
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
    }  # fmt: skip


def _reserved(node: Node, machine: HostSize) -> Mapping[str, str]:
    cpu = max(0, round((machine.cpus - node.cpus) * _MILLI))
    return {"cpu": f"{cpu}m", "memory": str(max(0, machine.memory_bytes - node.memory_bytes))}


def _proxy(node: Node) -> Mapping[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": "/carico/kube-proxy.kubeconfig"},
        "hostnameOverride": node.name,
        "mode": "iptables",
        "clusterCIDR": str(CLUSTER_RANGE),
        # These limits are the machine's: a node must not change them.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "0s"},
    }


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=1)
