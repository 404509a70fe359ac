"""Volumes of scheduler_perf's workloads: claims that are bound already, and what a node's CSI driver can attach.

As in upstream's runner (CreatePodWithPersistentVolume and NodeAllocatableStrategy in test/utils/runners.go): a claim
and a volume for each Pod, each of which names the other, so that no controller is needed.
"""

import copy
from collections.abc import Mapping
from typing import Any, NamedTuple

from bench.cluster import _workloads

# https://kubernetes.io/docs/reference/labels-annotations-taints/#storage-alpha-kubernetes-io-migrated-plugins
_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
# What the API resets when an object is created.
BOUND = {"status": {"phase": "Bound"}}


class Volume(NamedTuple):
    """A claim, and the volume to which it is bound."""

    claim: dict[str, Any]
    volume: dict[str, Any]


def csi_node(name: str, strategy: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CSINode of a node, with the drivers of a `nodeAllocatableStrategy`."""
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": amount}
        for driver, amount in strategy.get("csiNodeAllocatable", {}).items()
    ]
    metadata = {"name": name, "annotations": {_MIGRATED: ",".join(strategy.get("migratedPlugins", ()))}}
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": metadata, "spec": {"drivers": drivers}
    }  # fmt: skip


def bound_volume(op: _workloads.Op, namespace: str, index: int) -> Volume | None:
    """Return the volume of the operation's Pod with this number; None if its Pods have none."""
    if "persistentVolumeTemplatePath" not in op:
        return None
    claim = copy.deepcopy(_workloads.template(op["persistentVolumeClaimTemplatePath"]))
    volume = copy.deepcopy(_workloads.template(op["persistentVolumeTemplatePath"]))
    handle, name = f"vol-{index}", f"{namespace}-vol-{index}"
    claim["metadata"]["name"] = f"pvc-{index}"
    claim["spec"]["volumeName"] = name
    volume.setdefault("metadata", {})["name"] = name
    volume["spec"]["claimRef"] = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": f"pvc-{index}"
    }  # fmt: skip
    if "csi" in volume["spec"]:
        # Global, as the name.
        volume["spec"]["csi"]["volumeHandle"] = name
    if "awsElasticBlockStore" in volume["spec"]:
        volume["spec"]["awsElasticBlockStore"]["volumeID"] = handle
    return Volume(claim, volume)


def with_claim(pod: Mapping[str, Any], claim: str) -> dict[str, Any]:
    """Return the Pod with one volume, by this claim."""
    made = copy.deepcopy(dict(pod))
    made["spec"]["volumes"] = [{"name": "vol", "persistentVolumeClaim": {"claimName": claim}}]
    return made
