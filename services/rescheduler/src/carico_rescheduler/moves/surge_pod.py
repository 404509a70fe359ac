"""The new replica of a move as an object of the API, and what is written into the metadata of both Pods."""

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

from carico_core.domain import names, selectors
from carico_core.wire.kubernetes import instants
from carico_rescheduler.context import objects

# The characters of Kubernetes' generated names; a fixed name makes a repeated request harmless.
# https://github.com/kubernetes/apimachinery/blob/master/pkg/util/rand/rand.go
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_ENDING = 5

Object = Mapping[str, Any]


def name_of(replica_set: str, old_uid: str) -> str:
    """Return the name of the Pod that replaces another, always the same for the same Pod.

    >>> name_of("web-5d9c7b8f6d", "uid-1") == name_of("web-5d9c7b8f6d", "uid-1")
    True
    """
    digest = int.from_bytes(hashlib.sha256(old_uid.encode()).digest()[:8])
    letters = []
    for _ in range(_ENDING):
        digest, place = divmod(digest, len(_ALPHABET))
        letters.append(_ALPHABET[place])
    return f"{replica_set}-{''.join(letters)}"


def template_hash(replica_set: Object) -> str | None:
    """Return the ReplicaSet's pod-template-hash; None unless its selector demands it, as that of a Deployment does."""
    demanded = ((replica_set.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    found = demanded.get(names.TEMPLATE_HASH)
    return found if isinstance(found, str) and found else None


def body(replica_set: Object, *, old_uid: str, source: str, target: str, why: str) -> dict[str, Any]:
    """Return the Pod: as the ReplicaSet would make it, on the target only, and without the label that it selects."""
    metadata, template = replica_set["metadata"], copy.deepcopy(replica_set["spec"]["template"])
    found = template.get("metadata") or {}
    labels = dict(found.get("labels") or {})
    labels[names.SURGE_LABEL] = labels.pop(names.TEMPLATE_HASH, "")
    marks = {objects.REPLACES: old_uid, objects.CAME_FROM: source, objects.REASON: why}
    spec = template["spec"]
    spec["affinity"] = on_node(spec.get("affinity") or {}, target)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": metadata["namespace"],
            "name": name_of(metadata["name"], old_uid),
            "labels": labels,
            "annotations": {**(found.get("annotations") or {}), **marks},
            # An owner, so that it is deleted with the ReplicaSet, but not yet the controller.
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"],
                    "controller": False, "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": spec,
    }  # fmt: skip


def on_node(affinity: Object, node: str) -> dict[str, Any]:
    """Return an affinity that holds on one node only, besides what it demands anyway."""
    changed = copy.deepcopy(dict(affinity))
    node_affinity = changed["nodeAffinity"] = dict(changed.get("nodeAffinity") or {})
    required = dict(node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
    # One of the terms must hold, and all of a term.
    terms = required.get("nodeSelectorTerms") or [{}]
    by_name = {"key": selectors.NAME_FIELD, "operator": selectors.IN, "values": [node]}
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or []), by_name]} for term in terms
    ]
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return changed


def mark(old: objects.KnownPod, successor: str) -> dict[str, Any]:
    """Return the metadata by which the old Pod is the first that its ReplicaSet deletes."""
    before = old.annotations.get(objects.DELETION_COST)
    saved = {} if before is None else {objects.COST_BEFORE: before}
    return {
        "annotations": {objects.LEAVES_FOR: successor, objects.DELETION_COST: objects.COST_LOWEST, **saved}
    }  # fmt: skip


def unmark(old: objects.KnownPod) -> dict[str, Any]:
    """Return the metadata that takes the mark off a Pod, and gives it its own deletion cost back."""
    before = old.annotations.get(objects.COST_BEFORE)
    return {"annotations": {objects.LEAVES_FOR: None, objects.DELETION_COST: before, objects.COST_BEFORE: None}}


def adopt(surge: objects.KnownPod, at_ns: int) -> dict[str, Any]:
    """Return the metadata by which its ReplicaSet adopts the new Pod."""
    return {
        "labels": {names.TEMPLATE_HASH: surge.pod.labels[names.SURGE_LABEL], names.SURGE_LABEL: None},
        "annotations": {objects.MOVED_AT: instants.format_time(at_ns)},
    }
