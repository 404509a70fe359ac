"""The configuration files of one node, with the reason of each setting that is not a default. Pure."""

import dataclasses
import ipaddress
import json
from collections.abc import Mapping

# The range of all Pods and that of each node's; kubeadm's usual range. Only nodes know it, so clusters may share it.
CLUSTER_RANGE = ipaddress.IPv4Network("10.244.0.0/16")
_NODE_PREFIX = 24
MOST_NODES = 2 ** (_NODE_PREFIX - CLUSTER_RANGE.prefixlen) - 1
# The first addresses of a network are the gateway's and spare.
_FIRST_NODE = 10
SANDBOX_IMAGE = "docker.io/carico/busybox:1"
DOMAIN = "cluster.local"
# Quantities of CPU and memory as Kubernetes writes them.
_MILLI = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a kubelet would take for its node's size, which is the whole machine's."""

    cpus: float
    memory_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node. `number` counts from 1 and gives it its addresses; that of the first node is the network's `first`."""

    name: str
    number: int
    cpus: float
    memory_bytes: int
    first: int = _FIRST_NODE

    def address(self, network: ipaddress.IPv4Network) -> str:
        """Return the node's own address."""
        return str(network[self.first + self.number - 1])

    @property
    def pods(self) -> ipaddress.IPv4Network:
        """The range of its Pods' addresses."""
        return list(CLUSTER_RANGE.subnets(new_prefix=_NODE_PREFIX))[self.number]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kubeconfigs:
    """Whole kubeconfigs as text: of the kubelet, of kube-proxy, and of the DNS server."""

    kubelet: str
    proxy: str
    dns: str


def files(
    node: Node, *, others: tuple[Node, ...], network: ipaddress.IPv4Network, machine: Machine,
    kubeconfigs: Kubeconfigs, authority: str, plugins: str,
) -> dict[str, str]:  # fmt: skip
    """Return the text of each file that a node finds in /carico. `plugins`: where it finds those of its network."""
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


# restrict_oom_score_adj, disable_apparmor: a virtual machine may lack CAP_SYS_RESOURCE and AppArmor's
# tools; Pods then run without lowered scores, which no test or demo needs.
_CONTAINERD = f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{SANDBOX_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{{plugins}}"
  conf_dir = "/carico"
"""

# On the node's own address, so that no Service and no Pod is needed before names are.
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
        # The entry script masquerades what leaves the cluster, and nothing else: Pods see each other's own addresses.
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {"type": "host-local", "ranges": [[{"subnet": str(node.pods)}]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "carico", "plugins": [bridge, ports]}


def _kubelet(node: Node, address: str, machine: Machine) -> Mapping[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        # Machines with v1 cgroups are what CI has; 1.36 refuses them by default.
        "failCgroupV1": False,
        "failSwapOn": False,
        "authentication": {
            "anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": "/carico/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [address],
        "clusterDomain": DOMAIN,
        # The node's own cgroup bounds it; the kubelet sees the machine's size and must leave out the rest.
        "enforceNodeAllocatable": [],
        "kubeReserved": _reserved(node, machine),
        # The machine's disk is not the node's: its pressure must evict no Pod, and images are imported only once.
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": False,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        # A job's Pods come at once; the defaults (5 and 10) are meant for registries.
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "5s",
        "shutdownGracePeriod": "0s",
    }  # fmt: skip


def _reserved(node: Node, machine: Machine) -> Mapping[str, str]:
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
        # The machine's own limits, which a node must not change.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "0s"},
    }


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=1)
