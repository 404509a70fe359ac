"""The constraints in a Pod's API object -> `carico_core.domain.constraints`."""

import weakref
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from carico_core.domain import constraints, selectors
from carico_core.wire.kubernetes import object_fields as fields
from carico_core.wire.kubernetes import selectors as parse

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Labels: TypeAlias = Mapping[str, str]
# Each term about other Pods is compared with all of them once, and with each that comes: 15 ms with 3,000 Pods. The API
# sets no limit but 1.5 MB for the whole Pod, which 10,000 terms fit into; for minutes nothing else would be decided.
# Volume claims, and names of resources, are compared with every node.
TERMS_MOST = 64
# Keys, operators, values and names in all that a Pod asks of its node and of other Pods, and their characters: answers
# state it for each of a thousand nodes, and the API takes values of an affinity in any length.
WORDS_MOST = 2048
CHARS_MOST = 128 * 1024
# Fields of a spec, and kinds of volumes, that may hold constraints; ports of containers may, too.
_STATED = frozenset({"affinity", "topologySpreadConstraints"})
_CLAIMS = frozenset({"persistentVolumeClaim", "ephemeral"})
_DISKS = frozenset({"gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"})
_VOLUMES = _CLAIMS | _DISKS


def parse_constraints(
    spec: fields.Object, *, namespace: str, name: str, uid: str, labels: Labels
) -> constraints.Constraints | None:
    """Return what a Pod's spec requires and prefers; None if it has no constraints. Raises `ValueError`."""
    if not _may_constrain(spec):
        return None
    affinity = fields.mapping(spec, "affinity", "spec.")
    nodes, node_path = fields.mapping(affinity, "nodeAffinity", "spec.affinity."), "spec.affinity.nodeAffinity."
    required = nodes.get(REQUIRED)
    peers = _pod_terms(affinity, "podAffinity", namespace, labels)
    found = constraints.Constraints(
        node_terms=None
        if required is None
        else parse.node_terms(fields.mapping(nodes, REQUIRED, node_path), f"{node_path}{REQUIRED}."),
        affinity=peers,
        anti_affinity=_pod_terms(affinity, "podAntiAffinity", namespace, labels),
        is_own_peer=bool(peers) and all(selectors.matches(term.selector, labels) for term in peers),
        namespace=namespace if peers else "",
        spreads=_spreads(spec, namespace, labels),
        host_ports=_host_ports(spec),
        disks=_disks(spec),
        volume_claims=_volume_claims(spec, namespace=namespace, name=name, uid=uid),
        node_preferences=_node_preferences(nodes, node_path),
        pod_preferences=_pod_preferences(affinity, namespace, labels),
    )
    return None if found == constraints.NONE else _shared(found)


def is_excessive(spec: fields.Object) -> bool:
    """Return whether a Pod states more constraints than can be evaluated next to other work. Raises `ValueError`."""
    tolerations = fields.objects(spec, "tolerations", "spec.")
    node_labels = fields.mapping(spec, "nodeSelector", "spec.")
    volumes = fields.objects(spec, "volumes", "spec.")
    disks = [each for each in volumes if not _DISKS.isdisjoint(each)]
    ports = _count_ports(spec)
    is_usual = _STATED.isdisjoint(spec) and not disks
    if is_usual and max(len(tolerations), len(node_labels), len(volumes), ports) <= TERMS_MOST:
        return False
    stated = [tolerations, node_labels, disks, spec.get("affinity"), spec.get("topologySpreadConstraints")]
    claims = sum(not _CLAIMS.isdisjoint(each) for each in volumes)
    words, chars = _size(stated)
    return words + ports > WORDS_MOST or chars > CHARS_MOST or count_terms(spec) + claims > TERMS_MOST


def _count_ports(spec: fields.Object) -> int:
    containers = fields.objects(spec, "containers", "spec.") + fields.objects(spec, "initContainers", "spec.")
    return sum([len(fields.objects(each, "ports")) for each in containers if "ports" in each])


def count_terms(spec: fields.Object) -> int:
    """Return how many terms of a Pod are about other Pods. Raises `ValueError`."""
    affinity = fields.mapping(spec, "affinity", "spec.")
    kinds = [fields.mapping(affinity, kind, "spec.affinity.") for kind in ("podAffinity", "podAntiAffinity")]
    terms = [fields.objects(kind, name, "spec.affinity.") for kind in kinds for name in (REQUIRED, PREFERRED)]
    return sum(map(len, terms)) + len(fields.objects(spec, "topologySpreadConstraints", "spec."))


def _size(stated: object) -> tuple[int, int]:
    """Return how many texts and numbers a part of an object has, and the characters of its texts and names."""
    count, chars, left = 0, 0, [stated]
    while left:
        each = left.pop()
        if isinstance(each, Mapping):
            chars += sum(map(len, each))
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)
        elif each is not None:
            count += 1
            chars += len(each) if isinstance(each, str) else 0
    return count, chars


def crosses_namespaces(spec: fields.Object) -> bool:
    """Return whether a term of Pod affinity names namespaces, even if only its own. Raises `ValueError`.

    Source: usesCrossNamespacePodAffinity in pkg/quota/v1/evaluator/core/pods.go of kubernetes/kubernetes.
    """
    affinity = fields.mapping(spec, "affinity", "spec.")
    for kind in ("podAffinity", "podAntiAffinity"):
        found, path = fields.mapping(affinity, kind, "spec.affinity."), f"spec.affinity.{kind}."
        preferred = [fields.mapping(each, "podAffinityTerm", path) for each in fields.objects(found, PREFERRED, path)]
        terms = (*fields.objects(found, REQUIRED, path), *preferred)
        if any(each.get("namespaces") or each.get("namespaceSelector") is not None for each in terms):
            return True
    return False


def _may_constrain(spec: fields.Object) -> bool:
    """Return False for the usual Pod, which has no constraints. Raises `ValueError`."""
    if not _STATED.isdisjoint(spec):
        return True
    containers = fields.objects(spec, "containers", "spec.") + fields.objects(spec, "initContainers", "spec.")
    if any("ports" in container for container in containers):
        return True
    return any(not _VOLUMES.isdisjoint(volume) for volume in fields.objects(spec, "volumes", "spec."))


# An entry disappears with the last Pod that has the constraints: nothing that the API sent outlives its use.
_KNOWN: "weakref.WeakKeyDictionary[constraints.Constraints, weakref.ref[constraints.Constraints]]" = (
    weakref.WeakKeyDictionary()
)


def _shared(found: constraints.Constraints) -> constraints.Constraints:
    """Return one object for equal constraints: thousands of Pods come from one template."""
    reference = _KNOWN.get(found)
    known = None if reference is None else reference()
    if known is None:
        _KNOWN[found] = weakref.ref(found)
        return found
    return known


def _node_preferences(nodes: fields.Object, path: str) -> tuple[constraints.NodePreference, ...]:
    path = f"{path}{PREFERRED}."
    return tuple(
        constraints.NodePreference(
            weight=fields.integer(item, "weight", path),
            term=parse.node_term(fields.mapping(item, "preference", path), f"{path}preference."),
        )
        for item in fields.objects(nodes, PREFERRED)
    )


def _pod_terms(affinity: fields.Object, kind: str, namespace: str, labels: Labels) -> tuple[constraints.PodTerm, ...]:
    path = f"spec.affinity.{kind}."
    found = fields.mapping(affinity, kind, "spec.affinity.")
    return tuple(
        _pod_term(item, f"{path}{REQUIRED}.", namespace, labels) for item in fields.objects(found, REQUIRED, path)
    )


def _pod_preferences(affinity: fields.Object, namespace: str, labels: Labels) -> tuple[constraints.PodPreference, ...]:
    preferences = []
    for kind, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
        path = f"spec.affinity.{kind}."
        for item in fields.objects(fields.mapping(affinity, kind, "spec.affinity."), PREFERRED, path):
            term = fields.mapping(item, "podAffinityTerm", f"{path}{PREFERRED}.")
            weight = sign * fields.integer(item, "weight", f"{path}{PREFERRED}.")
            parsed = _pod_term(term, f"{path}{PREFERRED}.podAffinityTerm.", namespace, labels)
            preferences.append(constraints.PodPreference(weight=weight, term=parsed))
    return tuple(preferences)


def _pod_term(item: fields.Object, path: str, namespace: str, labels: Labels) -> constraints.PodTerm:
    selector = parse.label_selector(item, "labelSelector", path)
    selector = _with_keys(selector, fields.words(item, "matchLabelKeys", path), selectors.IN, labels)
    selector = _with_keys(selector, fields.words(item, "mismatchLabelKeys", path), selectors.NOT_IN, labels)
    named = fields.words(item, "namespaces", path)
    namespaces = parse.label_selector(item, "namespaceSelector", path)
    return constraints.PodTerm(
        topology_key=fields.optional(item, "topologyKey", path),
        selector=selector,
        namespaces=(namespace,) if not named and namespaces is None else tuple(sorted(set(named))),
        namespace_selector=namespaces,
    )


def _with_keys(selector: selectors.Selector, keys: Iterable[str], operator: str, labels: Labels) -> selectors.Selector:
    """Return the selector, which also requires (or excludes) the Pod's own values of these labels.

    The API server writes the same into the selector when a Pod is created. That remains valid if the labels change
    later. No selector matches nothing, with or without keys.
    """
    if selector is None:
        return None
    stated = {each.key for each in selector if each.operator == operator}
    added = [
        selectors.Requirement(key=key, operator=operator, values=(labels[key],))
        for key in keys
        if key in labels and key not in stated
    ]
    return (*selector, *added)


def _spreads(spec: fields.Object, namespace: str, labels: Labels) -> tuple[constraints.Spread, ...]:
    path = "spec.topologySpreadConstraints."
    spreads = []
    for item in fields.objects(spec, "topologySpreadConstraints", "spec."):
        selector = parse.label_selector(item, "labelSelector", path)
        selector = _with_keys(selector, fields.words(item, "matchLabelKeys", path), selectors.IN, labels)
        spreads.append(
            constraints.Spread(
                namespace=namespace,
                topology_key=fields.optional(item, "topologyKey", path),
                selector=selector,
                max_skew=fields.integer(item, "maxSkew", path) or 1,
                min_domains=fields.integer(item, "minDomains", path) or 1,
                honours_affinity=(fields.optional(item, "nodeAffinityPolicy", path) or "Honor") == "Honor",
                honours_taints=fields.optional(item, "nodeTaintsPolicy", path) == "Honor",
                is_soft=fields.optional(item, "whenUnsatisfiable", path) == "ScheduleAnyway",
                is_self=selectors.matches(selector, labels),
            )
        )
    return tuple(spreads)


def _host_ports(spec: fields.Object) -> tuple[constraints.HostPort, ...]:
    # With hostNetwork every container port is a host port, even before the API server's defaults set it.
    fallback = "containerPort" if spec.get("hostNetwork") is True else "hostPort"
    sidecars = [
        container
        for container in fields.objects(spec, "initContainers", "spec.")
        if container.get("restartPolicy") == "Always"
    ]
    ports = {
        constraints.HostPort(
            address=fields.optional(port, "hostIP") or constraints.ANY_ADDRESS,
            protocol=fields.optional(port, "protocol") or constraints.DEFAULT_PROTOCOL,
            port=fields.integer(port, "hostPort", "ports.") or fields.integer(port, fallback, "ports."),
        ): None
        for container in sidecars + fields.objects(spec, "containers", "spec.")
        for port in fields.objects(container, "ports")
    }
    return tuple(port for port in ports if port.port > 0)


def _volume_claims(
    spec: fields.Object, *, namespace: str, name: str, uid: str
) -> tuple[constraints.VolumeClaimUse, ...]:
    claims = []
    for volume in fields.objects(spec, "volumes", "spec."):
        if volume.get("persistentVolumeClaim") is not None:
            used = fields.mapping(volume, "persistentVolumeClaim", "spec.volumes.")
            claim = fields.optional(used, "claimName", "spec.volumes.persistentVolumeClaim.")
            claims.append(constraints.VolumeClaimUse(namespace=namespace, name=claim))
        elif volume.get("ephemeral") is not None:
            # https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming
            claim = f"{name}-{fields.optional(volume, 'name', 'spec.volumes.')}"
            claims.append(constraints.VolumeClaimUse(namespace=namespace, name=claim, owner_uid=uid))
    return tuple(claims)


def _disks(spec: fields.Object) -> tuple[constraints.ExclusiveDisk, ...]:
    """Return the volumes that one node can have once; EBS volumes conflict even if both only read."""
    disks = []
    for volume in fields.objects(spec, "volumes", "spec."):
        gce, ebs = fields.mapping(volume, "gcePersistentDisk"), fields.mapping(volume, "awsElasticBlockStore")
        iscsi, rbd = fields.mapping(volume, "iscsi"), fields.mapping(volume, "rbd")
        if gce:
            disks.append(_disk("gce", [fields.optional(gce, "pdName")], gce))
        if ebs:
            disks.append(_disk("ebs", [fields.optional(ebs, "volumeID")], {}))
        if iscsi:
            disks.append(_disk("iscsi", [fields.optional(iscsi, "iqn")], iscsi))
        if rbd:
            pool = fields.optional(rbd, "pool") or "rbd"
            image = f"{pool}/{fields.optional(rbd, 'image')}"
            disks.append(_disk("rbd", [f"{monitor}/{image}" for monitor in fields.words(rbd, "monitors")], rbd))
    return tuple(disks)


def _disk(kind: str, names: list[str], source: fields.Object) -> constraints.ExclusiveDisk:
    return constraints.ExclusiveDisk(kind=kind, names=tuple(names), read_only=source.get("readOnly") is True)
