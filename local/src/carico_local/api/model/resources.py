"""The resources that the API serves, and their request paths."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of one group and version."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    # Changes of spec increase metadata.generation: for kinds whose spec a kubelet or controller acts on.
    counts_generations: bool = False

    @property
    def api_version(self) -> str:
        """The `apiVersion` of the objects: v1, coordination.k8s.io/v1."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """The name of one object."""
        return self.kind.lower()

    @property
    def definition(self) -> str:
        """The definition of the kind in the schema."""
        return f"io.k8s.api.{self.group.partition('.')[0] or 'core'}.{self.version}.{self.kind}"

    @property
    def storage(self) -> str:
        """The storage of the objects. Both Event resources share one, as in kube-apiserver."""
        return self.plural

    @property
    def has_status(self) -> bool:
        """True where status is written through its own subresource."""
        return "status" in self.subresources


PODS = Resource(
    plural="pods",
    kind="Pod",
    subresources=("status", "binding", "log", "eviction"),
    short_names=("po",),
    categories=("all",),
    counts_generations=True,
)
NODES = Resource(plural="nodes", kind="Node", namespaced=False, subresources=("status",), short_names=("no",))
NAMESPACES = Resource(
    plural="namespaces", kind="Namespace", namespaced=False, subresources=("status",), short_names=("ns",)
)
EVENTS = Resource(plural="events", kind="Event", short_names=("ev",))
SERVICE_ACCOUNTS = Resource(plural="serviceaccounts", kind="ServiceAccount", short_names=("sa",))
CONFIG_MAPS = Resource(plural="configmaps", kind="ConfigMap", short_names=("cm",))
SECRETS = Resource(plural="secrets", kind="Secret")
GROUPED_EVENTS = Resource(group="events.k8s.io", plural="events", kind="Event", short_names=("ev",))
LEASES = Resource(group="coordination.k8s.io", plural="leases", kind="Lease")

ALL = (PODS, NODES, NAMESPACES, EVENTS, SERVICE_ACCOUNTS, CONFIG_MAPS, SECRETS, GROUPED_EVENTS, LEASES)
STORAGES = tuple(dict.fromkeys(resource.storage for resource in ALL))
# Deleted at once with their namespace; Pods are deleted by their kubelets.
CONTENTS = (EVENTS, LEASES, SERVICE_ACCOUNTS, CONFIG_MAPS, SECRETS)

# Not served, but listed by discovery: kubectl then requests them and prints the error, which says what to do.
ABSENT = (
    Resource(group="apps", plural="deployments", kind="Deployment", short_names=("deploy",)),
    Resource(group="apps", plural="replicasets", kind="ReplicaSet", short_names=("rs",)),
    Resource(group="apps", plural="statefulsets", kind="StatefulSet", short_names=("sts",)),
    Resource(group="apps", plural="daemonsets", kind="DaemonSet", short_names=("ds",)),
    Resource(group="batch", plural="jobs", kind="Job"),
    Resource(group="batch", plural="cronjobs", kind="CronJob", short_names=("cj",)),
    Resource(plural="services", kind="Service", short_names=("svc",)),
    Resource(plural="persistentvolumeclaims", kind="PersistentVolumeClaim", short_names=("pvc",)),
    Resource(
        group="scheduling.k8s.io", plural="priorityclasses", kind="PriorityClass", namespaced=False, short_names=("pc",)
    ),
    Resource(plural="replicationcontrollers", kind="ReplicationController", short_names=("rc",)),
    Resource(plural="resourcequotas", kind="ResourceQuota", short_names=("quota",)),
    Resource(plural="limitranges", kind="LimitRange", short_names=("limits",)),
    Resource(plural="persistentvolumes", kind="PersistentVolume", namespaced=False, short_names=("pv",)),
    Resource(
        group="autoscaling", version="v2", plural="horizontalpodautoscalers", kind="HorizontalPodAutoscaler",
        short_names=("hpa",),
    ),
    Resource(
        group="autoscaling.k8s.io", plural="verticalpodautoscalers", kind="VerticalPodAutoscaler", short_names=("vpa",)
    ),
    Resource(group="policy", plural="poddisruptionbudgets", kind="PodDisruptionBudget", short_names=("pdb",)),
    Resource(group="networking.k8s.io", plural="ingresses", kind="Ingress", short_names=("ing",)),
    Resource(group="networking.k8s.io", plural="networkpolicies", kind="NetworkPolicy", short_names=("netpol",)),
    Resource(
        group="storage.k8s.io", plural="storageclasses", kind="StorageClass", namespaced=False, short_names=("sc",)
    ),
    Resource(group="metrics.k8s.io", version="v1beta1", plural="pods", kind="PodMetrics"),
    Resource(group="metrics.k8s.io", version="v1beta1", plural="nodes", kind="NodeMetrics", namespaced=False),
    Resource(group="rbac.authorization.k8s.io", plural="roles", kind="Role"),
    Resource(group="rbac.authorization.k8s.io", plural="rolebindings", kind="RoleBinding"),
    Resource(group="rbac.authorization.k8s.io", plural="clusterroles", kind="ClusterRole", namespaced=False),
    Resource(
        group="rbac.authorization.k8s.io", plural="clusterrolebindings", kind="ClusterRoleBinding", namespaced=False
    ),
)  # fmt: skip
NAMED = (*ALL, *ABSENT)
_BY_PATH = {(resource.group, resource.version, resource.plural): resource for resource in ALL}
GROUP_VERSIONS = tuple(dict.fromkeys((resource.group, resource.version) for resource in ALL))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The target of a request path: a collection (no name), an object, or a subresource of it."""

    resource: Resource
    namespace: str
    name: str = ""
    subresource: str


def parse_path(path: str) -> Target | None:
    """Return the target of `/api/v1/...` or `/apis/GROUP/VERSION/...`; None where the API serves nothing.

    >>> parse_path("/api/v1/namespaces/a/pods/b/binding").subresource
    'binding'
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    if rest[0] == "namespaces" and len(rest) >= 3 and (group or rest[2] != "status"):
        return _target(_BY_PATH.get((group, version, rest[2])), rest[3:], namespace=rest[1])
    return _target(_BY_PATH.get((group, version, rest[0])), rest[1:], namespace="")


# Subresources of Pods that only kubelets have, with the command of kubectl that needs each.
OF_KUBELETS = {
    "exec": "kubectl exec", "attach": "kubectl attach", "portforward": "kubectl port-forward",
    "ephemeralcontainers": "kubectl debug", "resize": "kubectl patch --subresource resize",
}  # fmt: skip


def absent(path: str) -> str:
    """Return the plural of the resource of a path, where it is in `ABSENT`; else empty.

    >>> absent("/apis/apps/v1/namespaces/default/deployments/web"), absent("/apis/batch/v1")
    ('deployments', '')
    """
    core, _, rest = path.strip("/").partition("/")
    parts = rest.split("/") if core == "apis" else ["", *rest.split("/")]
    kind = parts[4:5] if parts[2:3] == ["namespaces"] and len(parts) > 4 else parts[2:3]
    named = (each.plural for each in ABSENT if [each.group, each.version] == parts[:2] and [each.plural] == kind)
    return next(named, "")


def of_kubelets(path: str) -> str:
    """Return which command of kubectl asks for what only kubelets have, such as a subresource of a Pod; else empty.

    >>> of_kubelets("/api/v1/namespaces/default/pods/web/exec"), of_kubelets("/api/v1/namespaces/default/pods/web/log")
    ('kubectl exec', '')
    """
    match path.strip("/").split("/"):
        case ["api", "v1", "namespaces", _, "pods", _, subresource]:
            return OF_KUBELETS.get(subresource, "")
        case ["apis", "metrics.k8s.io", _, *rest]:
            return "kubectl top" if rest else ""
    return ""


def _target(resource: Resource | None, rest: list[str], *, namespace: str) -> Target | None:
    if resource is None or len(rest) > 2 or (namespace and not resource.namespaced):
        return None
    name = rest[0] if rest else ""
    subresource = rest[1] if len(rest) == 2 else ""
    if subresource and subresource not in resource.subresources:
        return None
    if name and resource.namespaced and not namespace:
        return None
    return Target(resource=resource, namespace=namespace, name=name, subresource=subresource)
