"""Random clusters and Pods for the comparison with kube-scheduler: objects of the API, by a seeded generator.

Every rule has a share of the cases, and values are few, so that Pods and nodes often meet.
"""

import dataclasses
from collections.abc import Callable

from tests.tools.api import feasibility_storage as storage

Object = storage.Object
ZONES, ZONE, HOST = storage.ZONES, storage.ZONE, storage.HOST
APPS = ("web", "db", "cache")
TIERS = ("front", "back")
TAINTS = ("gpu", "team")
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
HEAVY = "heavy"
RUNTIME_CLASS: Object = {
    "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": HEAVY}, "handler": "heavy",
    "overhead": {"podFixed": {"cpu": "500m", "memory": "64Mi"}},
}  # fmt: skip
# What every case uses.
COMMON: tuple[tuple[str, Object], ...] = (
    ("/apis/node.k8s.io/v1/runtimeclasses", RUNTIME_CLASS),
    ("/apis/storage.k8s.io/v1/csidrivers", {"metadata": {"name": storage.DRIVER}, "spec": {"storageCapacity": False}}),
    (
        "/apis/storage.k8s.io/v1/csidrivers",
        {"metadata": {"name": storage.SIZED_DRIVER}, "spec": {"storageCapacity": True}},
    ),
)


@dataclasses.dataclass(kw_only=True)
class Case:
    """One cluster as API objects by path, in the order to make them, and the Pods to be asked about."""

    name: str
    objects: list[tuple[str, Object]]
    # (namespace, name) of Pods that end, or begin to end, once they are there.
    ended: list[tuple[str, str]]
    ending: list[tuple[str, str]]
    # Statuses of Pods that are being resized in place, by (namespace, name).
    resized: dict[tuple[str, str], Object]
    pods: list[Object]

    @property
    def nodes(self) -> list[str]:
        """Names of its nodes."""
        return self._names("/api/v1/nodes")

    @property
    def namespaces(self) -> list[str]:
        """Names of its namespaces."""
        return self._names("/api/v1/namespaces")

    def _names(self, collection: str) -> list[str]:
        return [obj["metadata"]["name"] for path, obj in self.objects if path == collection]


def draw(seed: int, *, name: str, pods: int) -> Case:
    """The case of a seed; `name` is in the names of all its objects."""
    return _Drawer(seed, name).case(pods)


class _Drawer(storage.Drawer):
    def __init__(self, seed: int, name: str) -> None:
        super().__init__(seed, name)
        self.ports_used: set[str] = set()

    def case(self, pods: int) -> Case:
        objects = [*self._namespaces(), *self.storage()]
        objects += [("/api/v1/nodes", self._node(name)) for name in self.nodes]
        objects += [
            ("/apis/storage.k8s.io/v1/csinodes", self.csi_node(name)) for name in self.nodes if self.chance(0.4)
        ]
        attached = self.rng.randint(0, 4)
        objects += [("/apis/storage.k8s.io/v1/volumeattachments", self.attachment(index)) for index in range(attached)]
        placed = [self._placed(index) for index in range(self.rng.randint(6, 24))]
        objects += [(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod) for pod in placed]
        keys = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in placed]
        return Case(
            name=self.name,
            objects=objects,
            ended=[key for key in keys if self.chance(0.1)],
            ending=[key for key in keys if self.chance(0.1)],
            resized={
                key: self._resized(pod["spec"]) for key, pod in zip(keys, placed, strict=True) if self.chance(0.2)
            },
            pods=[self._asked(index) for index in range(pods)],
        )

    def _namespaces(self) -> list[tuple[str, Object]]:
        objects: list[tuple[str, Object]] = []
        for name, team in zip(self.namespaces, ("red", "blue"), strict=True):
            metadata = {"name": name, "labels": {"team": team}}
            objects.append(("/api/v1/namespaces", {"metadata": metadata}))
            # No controller makes it here, and Pods are refused without.
            objects.append((f"/api/v1/namespaces/{name}/serviceaccounts", {"metadata": {"name": "default"}}))
        return objects

    def _node(self, name: str) -> Object:
        rng = self.rng
        labels = {
            HOST: name,
            "disk": rng.choice(["ssd", "hdd"]),
            "cores": rng.choice(["2", "4", "8", "many", "0"]),
        }
        # One node has room for the Pod that shows whether kube-scheduler knows the nodes, which placed Pods may repel.
        is_first = name == self.nodes[0]
        if self.chance(0.85) and not is_first:
            labels[ZONE] = rng.choice(ZONES)
        if self.chance(0.3) and not is_first:
            labels["rack"] = rng.choice(["r1", "r2"])
        allocatable = {
            "cpu": rng.choice(["1", "2", "4", "3900m"]), "memory": rng.choice(["1Gi", "4Gi", "8Gi"]),
            "pods": rng.choice(["2", "4", "8", "110", "110"]), "ephemeral-storage": rng.choice(["1Gi", "10Gi"]),
        }  # fmt: skip
        if is_first:
            allocatable["pods"] = "110"
        if self.chance(0.4):
            allocatable["example.com/gpu"] = rng.choice(["1", "2"])
        if self.chance(0.3):
            allocatable["hugepages-2Mi"] = rng.choice(["4Mi", "64Mi"])
        taints = [
            {"key": key, "value": rng.choice(["x", "y"]), "effect": rng.choice(EFFECTS)}
            for key in TAINTS
            if self.chance(0.15)
        ]
        status: Object = {"declaredFeatures": ["RestartAllContainersOnContainerExits"]} if self.chance(0.5) else {}
        spec: Object = {"taints": taints}
        if self.chance(0.1):
            spec["unschedulable"] = True
        return {
            "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": {
                "capacity": allocatable, "allocatable": allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            } | status,
        }  # fmt: skip

    def _placed(self, index: int) -> Object:
        pod = self._pod(f"placed-{index}")
        spec = pod["spec"]
        spec["nodeName"] = self.rng.choice(self.nodes)
        if self.chance(0.3) and spec["nodeName"] != self.nodes[0]:
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [self._term()]}}
        if self.chance(0.5):
            self._add_requests(spec)
        # No kubelet takes two Pods with one port, and kube-scheduler forgets the port as the first of them ends.
        if spec["nodeName"] in self.ports_used:
            for container in spec.get("initContainers", []):
                container.pop("ports", None)
        else:
            self.ports_used.add(spec["nodeName"])
            self._add_ports(spec)
        if self.chance(0.25):
            self.add_claims(pod)
        return pod

    def _resized(self, spec: Object) -> Object:
        """What a kubelet reports of a Pod whose containers have, and are given, other amounts than it requests."""
        status: Object = {}
        for containers, key in (("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")):
            status[key] = [
                {"name": each["name"], "image": "pi", "imageID": "", "ready": False, "restartCount": 0} | self._actual()
                for each in spec.get(containers, [])
                if self.chance(0.7)
            ]
        if "resources" in spec:
            status |= self._actual()
        if self.chance(0.5):
            reason = self.rng.choice(["Infeasible", "Deferred"])
            status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]
        return status

    def _actual(self) -> Object:
        amounts = [{"cpu": self.rng.choice(["100m", "1", "2"])} for _ in range(2)]
        return {"resources": {"requests": amounts[0]}, "allocatedResources": amounts[1]}

    def _asked(self, index: int) -> Object:
        """A Pod with one to three kinds of constraints."""
        pod = self._pod(f"asked-{index}")
        spec = pod["spec"]
        kinds: list[Callable[[], None]] = [
            lambda: self._add_selector(spec), lambda: self._add_node_affinity(spec), lambda: self._add_requests(spec),
            lambda: self._add_ports(spec), lambda: self._add_near(pod), lambda: self._add_apart(spec),
            lambda: self._add_spread(spec), lambda: self.add_claims(pod), lambda: None,
        ]  # fmt: skip
        for add in self.rng.sample(kinds, self.rng.choice([1, 1, 2, 2, 3])):
            add()
        if self.chance(0.5):
            self._add_tolerations(spec)
        if self.chance(0.05):
            exits = {"operator": "In", "values": [1]}
            spec["containers"][0]["restartPolicy"] = "Never"
            spec["containers"][0]["restartPolicyRules"] = [{"action": "RestartAllContainers", "exitCodes": exits}]
        if self.chance(0.1):
            # Then each port of a container is one of the node.
            spec["hostNetwork"] = True
            for container in spec["containers"]:
                for port in container.get("ports", []):
                    port["containerPort"] = port["hostPort"]
        return pod

    def _pod(self, name: str) -> Object:
        rng = self.rng
        labels = {"app": rng.choice(APPS)}
        if self.chance(0.6):
            labels["tier"] = rng.choice(TIERS)
        if self.chance(0.3):
            labels["version"] = rng.choice(["1", "2"])
        namespace = rng.choice(self.namespaces)
        return {
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "containers": [{"name": "main", "image": "pi"}], "automountServiceAccountToken": False,
                "terminationGracePeriodSeconds": 0,
            },
        }  # fmt: skip

    def _add_selector(self, spec: Object) -> None:
        spec["nodeSelector"] = self.rng.choice(
            [
                {"disk": "ssd"},
                {ZONE: "a"},
                {"disk": "hdd", ZONE: "b"},
                {"absent": "x"},
                {HOST: self.rng.choice(self.nodes)},
            ]
        )

    def _add_tolerations(self, spec: Object) -> None:
        rng = self.rng
        made: list[Object] = []
        for _ in range(rng.randint(1, 3)):
            toleration: Object = {"key": rng.choice(TAINTS)}
            if self.chance(0.5):
                toleration["operator"] = "Exists"
            else:
                toleration["value"] = rng.choice(["x", "y"])
            if self.chance(0.6):
                toleration["effect"] = rng.choice(EFFECTS)
            made.append(toleration)
        if self.chance(0.15):
            made.append({"operator": "Exists"})
        if self.chance(0.2):
            made.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"})
        spec["tolerations"] = made

    def _add_node_affinity(self, spec: Object) -> None:
        terms = [self._node_term() for _ in range(self.rng.randint(1, 2))]
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity[REQUIRED] = {"nodeSelectorTerms": terms}
        if self.chance(0.3):
            affinity[PREFERRED] = [{"weight": 5, "preference": self._node_term()}]

    def _node_term(self) -> Object:
        rng = self.rng
        term: Object = {}
        if self.chance(0.9):
            term["matchExpressions"] = [self._node_requirement() for _ in range(rng.randint(1, 2))]
        if self.chance(0.2):
            term["matchFields"] = [
                {"key": "metadata.name", "operator": rng.choice(["In", "NotIn"]), "values": [rng.choice(self.nodes)]}
            ]
        return term

    def _node_requirement(self) -> Object:
        rng = self.rng
        operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"])
        if operator in ("Gt", "Lt"):
            return {"key": rng.choice(["cores", "disk"]), "operator": operator, "values": [rng.choice(["1", "4", "6"])]}
        key, values = rng.choice([("disk", ["ssd", "hdd"]), (ZONE, list(ZONES)), ("rack", ["r1", "r2"])])
        found: Object = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            found["values"] = rng.sample(values, rng.randint(1, len(values)))
        return found

    def _add_requests(self, spec: Object) -> None:
        spec["containers"] = [
            {"name": f"c{index}", "image": "pi", "resources": {"requests": self._amounts()}}
            for index in range(self.rng.randint(1, 2))
        ]
        if self.chance(0.4):
            spec["initContainers"] = [self._init_container(index) for index in range(self.rng.randint(1, 3))]
        if self.chance(0.15):
            spec["runtimeClassName"] = HEAVY
        elif self.chance(0.15) and "initContainers" not in spec:
            # At least what its containers ask for, or the API refuses it.
            spec["resources"] = {"requests": {"cpu": self.rng.choice(["3", "3500m"])}}
        for container in spec["containers"] + spec.get("initContainers", []):
            requests = container["resources"]["requests"]
            # The API takes these with equal limits only.
            limits = {key: requests[key] for key in requests if key.startswith(("example.com", "hugepages"))}
            if limits:
                container["resources"]["limits"] = limits

    def _init_container(self, index: int) -> Object:
        made: Object = {"name": f"i{index}", "image": "pi", "resources": {"requests": self._amounts()}}
        if self.chance(0.5):
            made["restartPolicy"] = "Always"
            if self.chance(0.2):
                made["ports"] = [{"containerPort": 80, "hostPort": 7070}]
        return made

    def _amounts(self) -> Object:
        rng = self.rng
        amounts: Object = {}
        if self.chance(0.7):
            amounts["cpu"] = rng.choice(["0", "100m", "500m", "1", "1500m", "0.0001"])
        if self.chance(0.5):
            amounts["memory"] = rng.choice(["0", "64Mi", "512Mi", "1Gi", "3G"])
        if self.chance(0.2):
            amounts["ephemeral-storage"] = rng.choice(["100Mi", "1Gi", "2Gi"])
        if self.chance(0.15):
            amounts["example.com/gpu"] = rng.choice(["0", "1", "2"])
        if self.chance(0.1):
            # Only together with cores or memory.
            amounts |= {"hugepages-2Mi": rng.choice(["2Mi", "8Mi"]), "cpu": "100m"}
        return amounts

    def _add_ports(self, spec: Object) -> None:
        rng = self.rng
        ports = {}
        for _ in range(rng.randint(1, 2)):
            port = {
                "containerPort": 80,
                "hostPort": rng.choice([80, 8080, 9090]),
                "protocol": rng.choice(["TCP", "UDP"]),
            }
            if self.chance(0.5):
                port["hostIP"] = rng.choice(["0.0.0.0", "127.0.0.1", "10.0.0.1"])
            ports[port["hostPort"], port["protocol"]] = port
        spec["containers"][0]["ports"] = list(ports.values())

    def _selector(self) -> Object | None:
        rng = self.rng
        if self.chance(0.05):
            return None
        if self.chance(0.05):
            return {}
        selector: Object = {}
        if self.chance(0.8):
            selector["matchLabels"] = {"app": rng.choice(APPS)}
        if self.chance(0.3):
            operator = rng.choice(["In", "NotIn", "Exists", "DoesNotExist"])
            requirement: Object = {"key": "tier", "operator": operator}
            if operator in ("In", "NotIn"):
                requirement["values"] = rng.sample(TIERS, rng.randint(1, 2))
            selector["matchExpressions"] = [requirement]
        return selector

    def _term(self) -> Object:
        rng = self.rng
        term: Object = {
            "topologyKey": rng.choice([ZONE, ZONE, HOST, HOST, "rack"]),
            "labelSelector": self._selector(),
        }
        if self.chance(0.25):
            term["namespaces"] = rng.sample(self.namespaces, rng.randint(1, 2))
        if self.chance(0.25):
            term["namespaceSelector"] = rng.choice(
                [
                    {},
                    {"matchLabels": {"team": "red"}},
                    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                ]
            )
        if term["labelSelector"] is not None and self.chance(0.2):
            term[rng.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["version"]
        return term

    def _add_near(self, pod: Object) -> None:
        terms = [self._term() for _ in range(self.rng.choice([1, 1, 2]))]
        if self.chance(0.3):
            # The first of its group.
            terms = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "new"}}}]
            pod["metadata"]["labels"]["app"] = "new"
            if self.chance(0.5):
                terms[0]["namespaceSelector"] = {"matchLabels": {"team": self.rng.choice(["red", "blue"])}}
        pod["spec"].setdefault("affinity", {})["podAffinity"] = {REQUIRED: terms}

    def _add_apart(self, spec: Object) -> None:
        terms = [self._term() for _ in range(self.rng.choice([1, 1, 2]))]
        spec.setdefault("affinity", {})["podAntiAffinity"] = {REQUIRED: terms}

    def _add_spread(self, spec: Object) -> None:
        rng = self.rng
        made: dict[str, Object] = {}
        for key in rng.sample([ZONE, HOST, "rack", "disk"], rng.choice([1, 1, 2])):
            constraint: Object = {
                "maxSkew": rng.randint(1, 3), "topologyKey": key, "labelSelector": self._selector(),
                "whenUnsatisfiable": "DoNotSchedule" if self.chance(0.85) else "ScheduleAnyway",
            }  # fmt: skip
            if constraint["whenUnsatisfiable"] == "DoNotSchedule" and self.chance(0.3):
                constraint["minDomains"] = rng.randint(1, 5)
            if self.chance(0.4):
                constraint["nodeAffinityPolicy"] = rng.choice(["Honor", "Ignore"])
            if self.chance(0.4):
                constraint["nodeTaintsPolicy"] = rng.choice(["Honor", "Ignore"])
            if constraint["labelSelector"] is not None and self.chance(0.3):
                constraint["matchLabelKeys"] = ["version"]
            made[key] = constraint
        spec["topologySpreadConstraints"] = list(made.values())
        if self.chance(0.4):
            self._add_node_affinity(spec)
