"""Random storage of a cluster, and Pods' claims on it: part of the cases for the comparison with kube-scheduler."""

import random
from typing import Any

Object = dict[str, Any]
ZONES = ("a", "b", "c")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
DRIVER = "csi.example.com"
# This one says how much room it has where.
SIZED_DRIVER = "sized.example.com"


class Drawer:
    """Draws storage for the nodes and namespaces of one case; `name` is in the names of all its objects."""

    def __init__(self, seed: int, name: str) -> None:
        self.rng = random.Random(seed)
        self.name = name
        self.namespaces = [f"{self.name}-one", f"{self.name}-two"]
        self.nodes = [f"{self.name}-n{index}" for index in range(self.rng.randint(4, 9))]
        self.volumes: list[str] = []
        self.claims: dict[str, list[str]] = {namespace: [] for namespace in self.namespaces}

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self.rng.random() < share

    def csi_node(self, name: str) -> Object:
        """The driver on a node, and its limit."""
        driver: Object = {"name": DRIVER, "nodeID": name, "topologyKeys": [ZONE]}
        if self.chance(0.8):
            driver["allocatable"] = {"count": self.rng.randint(1, 3)}
        return {"metadata": {"name": name}, "spec": {"drivers": [driver]}}

    def attachment(self, index: int) -> Object:
        """A volume that is attached to some node."""
        source = {"persistentVolumeName": self.rng.choice(self.volumes)}
        spec = {"attacher": DRIVER, "nodeName": self.rng.choice(self.nodes), "source": source}
        return {"metadata": {"name": f"{self.name}-attached-{index}"}, "spec": spec}

    def add_claims(self, pod: Object) -> None:
        """Gives a Pod one to three volumes."""
        rng = self.rng
        namespace, spec = pod["metadata"]["namespace"], pod["spec"]
        volumes: list[Object] = []
        for index in range(rng.choice([1, 1, 2, 3])):
            if self.chance(0.05):
                claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
                volumes.append({"name": f"v{index}", "ephemeral": {"volumeClaimTemplate": claim}})
                continue
            name = "missing" if self.chance(0.05) else rng.choice(self.claims[namespace])
            volumes.append({"name": f"v{index}", "persistentVolumeClaim": {"claimName": name}})
        if self.chance(0.2):
            source: Object = rng.choice(
                [{"gcePersistentDisk": {"pdName": "d1", "readOnly": self.chance(0.5)}},
                 {"awsElasticBlockStore": {"volumeID": "d1"}},
                 {"iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:d1", "lun": 0,
                            "readOnly": self.chance(0.5)}},
                 {"rbd": {"monitors": ["m1", "m2"], "image": "d1", "readOnly": self.chance(0.5)}}]
            )  # fmt: skip
            volumes.append({"name": "disk"} | source)
        spec["volumes"] = volumes

    def storage(self) -> list[tuple[str, Object]]:
        """Classes, volumes and claims, with the paths to make them at."""
        return [*self._classes(), *self._volumes_and_claims()]

    def _classes(self) -> list[tuple[str, Object]]:
        path = "/apis/storage.k8s.io/v1/storageclasses"
        topologies = [{"matchLabelExpressions": [{"key": ZONE, "values": self.rng.sample(ZONES, 2)}]}]
        made: list[Object] = [
            {"metadata": {"name": f"{self.name}-now"}, "provisioner": DRIVER, "volumeBindingMode": "Immediate"},
            {"metadata": {"name": f"{self.name}-later"}, "provisioner": DRIVER,
             "volumeBindingMode": "WaitForFirstConsumer"},
            {"metadata": {"name": f"{self.name}-zoned"}, "provisioner": DRIVER,
             "volumeBindingMode": "WaitForFirstConsumer", "allowedTopologies": topologies},
            {"metadata": {"name": f"{self.name}-local"}, "provisioner": "kubernetes.io/no-provisioner",
             "volumeBindingMode": "WaitForFirstConsumer"},
            {"metadata": {"name": f"{self.name}-sized"}, "provisioner": SIZED_DRIVER,
             "volumeBindingMode": "WaitForFirstConsumer"},
        ]  # fmt: skip
        return [(path, each) for each in made] + self._capacities()

    def _capacities(self) -> list[tuple[str, Object]]:
        path = f"/apis/storage.k8s.io/v1/namespaces/{self.namespaces[0]}/csistoragecapacities"
        made = []
        for index in range(self.rng.randint(1, 4)):
            one: Object = {"metadata": {"name": f"room-{index}"}, "storageClassName": f"{self.name}-sized"}
            if self.chance(0.9):
                one["nodeTopology"] = self.rng.choice([{}, *({"matchLabels": {ZONE: zone}} for zone in ZONES)])
            if self.chance(0.9):
                one["capacity"] = self.rng.choice(["1Gi", "3Gi", "10Gi"])
            if self.chance(0.4):
                one["maximumVolumeSize"] = self.rng.choice(["1Gi", "3Gi"])
            made.append((path, one))
        return made

    def _volumes_and_claims(self) -> list[tuple[str, Object]]:
        objects: list[tuple[str, Object]] = []
        for number in range(self.rng.randint(2, 5)):
            volume = self._volume(f"{self.name}-free-{number}", f"{self.name}-local")
            objects.append(("/api/v1/persistentvolumes", volume | {"status": {"phase": "Available"}}))
        for namespace in self.namespaces:
            for number in range(self.rng.randint(5, 8)):
                objects += self._claim(namespace, f"claim-{number}")
                self.claims[namespace].append(f"claim-{number}")
        return objects

    def _claim(self, namespace: str, name: str) -> list[tuple[str, Object]]:
        rng = self.rng
        kind = rng.choice(
            ["bound", "bound", "bound", "now", "later", "zoned", "local", "local", "sized", "selected", "none"]
        )
        own = ("now", "zoned", "local", "sized")
        metadata: Object = {"name": name, "namespace": namespace}
        modes = ["ReadWriteOncePod"] if self.chance(0.15) else ["ReadWriteOnce"]
        spec: Object = {
            "accessModes": modes, "resources": {"requests": {"storage": rng.choice(["1Gi", "2Gi", "5Gi"])}},
            "storageClassName": f"{self.name}-{kind if kind in own else 'later'}",
        }  # fmt: skip
        objects: list[tuple[str, Object]] = []
        if kind == "none":
            spec["storageClassName"] = ""
        if kind == "selected":
            metadata["annotations"] = {"volume.kubernetes.io/selected-node": rng.choice(self.nodes)}
        if kind == "local" and self.chance(0.3):
            spec["selector"] = {"matchLabels": {"speed": "fast"}}
        if kind == "bound":
            volume = self._volume(f"{namespace}-{name}", f"{self.name}-later")
            volume["spec"]["claimRef"] = {"namespace": namespace, "name": name}
            spec["volumeName"] = volume["metadata"]["name"]
            if self.chance(0.9):
                metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
            if self.chance(0.93):
                objects.append(("/api/v1/persistentvolumes", volume | {"status": {"phase": "Bound"}}))
        objects.append((f"/api/v1/namespaces/{namespace}/persistentvolumeclaims", {"metadata": metadata, "spec": spec}))
        return objects

    def _volume(self, name: str, storage_class: str) -> Object:
        rng = self.rng
        labels = {"speed": rng.choice(["fast", "slow"])}
        if self.chance(0.2):
            labels[rng.choice([ZONE, "failure-domain.beta.kubernetes.io/zone"])] = rng.choice(["a", "b", "a__b"])
        spec: Object = {
            "capacity": {"storage": rng.choice(["1Gi", "2Gi", "10Gi"])},
            "accessModes": rng.choice([["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadWriteOncePod"]]),
            "storageClassName": storage_class, "csi": {"driver": DRIVER, "volumeHandle": name},
        }  # fmt: skip
        if self.chance(0.7):
            expressions = rng.choice(
                [[{"key": HOST, "operator": "In", "values": rng.sample(self.nodes, 2)}],
                 [{"key": ZONE, "operator": "In", "values": rng.sample(ZONES, 2)}],
                 [{"key": ZONE, "operator": "Exists"}]]
            )  # fmt: skip
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
        self.volumes.append(name)
        return {"metadata": {"name": name, "labels": labels}, "spec": spec}
