"""Gangs as the API has them: the membership of a Pod, and PodGroups of Kubernetes and of scheduler-plugins."""

import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from carico_core.domain import gangs
from carico_core.wire.kubernetes import object_fields as fields

# https://scheduler-plugins.sigs.k8s.io/docs/plugins/coscheduling/
LABEL = "scheduling.x-k8s.io/pod-group"
# On the Pods of a gang without PodGroup; the last two also on a PodGroup.
MIN_MEMBER = "carico.dev/gang-min-member"
TIMEOUT = "carico.dev/gang-timeout-seconds"
TOPOLOGY_KEY = "carico.dev/gang-topology-key"
# Of the prefix, the slash and the name: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
LABEL_KEY_MOST = 253 + 1 + 63
Object = Mapping[str, Any]


def membership_of(metadata: Object, spec: Object, bound_at_s: Callable[[], float]) -> gangs.PodGang | None:
    """Return the gang of a Pod; None if it is in none. Raises `ValueError` with the path of the bad field.

    `spec.schedulingGroup` (GenericWorkload, https://kubernetes.io/docs/concepts/scheduling-eviction/gang-scheduling/)
    comes before the label.
    """
    group = spec.get("schedulingGroup")
    labels = metadata.get("labels") or {}
    if group is None and LABEL not in labels:
        return None
    namespace = fields.required(metadata, "namespace", "metadata.")
    if group is not None:
        native = fields.mapping(spec, "schedulingGroup", "spec.")
        name, is_native = fields.optional(native, "podGroupName", "spec.schedulingGroup."), True
    else:
        name, is_native = fields.optional(labels, LABEL, "metadata.labels."), False
    if not name:
        return None
    annotations = fields.mapping(metadata, "annotations", "metadata.")
    asks = _annotated(annotations) if MIN_MEMBER in annotations else None
    return gangs.PodGang(gangs.Key(namespace, name, is_native), asks, bound_at_s())


def parse_native(obj: Object) -> gangs.PodGroup:
    """Return a PodGroup of `scheduling.k8s.io/v1alpha2`. Raises `ValueError` with the path of the bad field."""
    metadata, spec = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec")
    key = _key(metadata, is_native=True)
    gang = fields.mapping(spec, "schedulingPolicy", "spec.").get("gang")
    if gang is None:
        return gangs.PodGroup(key, None)
    path = "spec.schedulingPolicy.gang."
    least = fields.integer(fields.mapping(spec["schedulingPolicy"], "gang", "spec.schedulingPolicy."), "minCount", path)
    constraints = fields.mapping(spec, "schedulingConstraints", "spec.")
    topology = fields.objects(constraints, "topology", "spec.schedulingConstraints.")
    annotations = fields.mapping(metadata, "annotations", "metadata.")
    label = fields.optional(topology[0], "key", "spec.schedulingConstraints.topology[0].") if topology else ""
    return gangs.PodGroup(
        key, _asks(f"{path}minCount", least, _timeout(annotations), label or _topology(annotations))
    )  # fmt: skip


def parse_pod_group(obj: Object) -> gangs.PodGroup:
    """Return a PodGroup of `scheduling.x-k8s.io/v1alpha1`. Raises `ValueError` with the path of the bad field."""
    metadata, spec = fields.mapping(obj, "metadata"), fields.mapping(obj, "spec")
    least = fields.integer(spec, "minMember", "spec.")
    annotations = fields.mapping(metadata, "annotations", "metadata.")
    timeout: object = spec.get("scheduleTimeoutSeconds")
    within = _timeout(annotations) if timeout is None else ("spec.scheduleTimeoutSeconds", timeout)
    return gangs.PodGroup(
        _key(metadata, is_native=False), _asks("spec.minMember", least, within, _topology(annotations))
    )  # fmt: skip


def _key(metadata: Object, *, is_native: bool) -> gangs.Key:
    namespace, name = (fields.required(metadata, key, "metadata.") for key in ("namespace", "name"))
    return gangs.Key(namespace, name, is_native)


def _annotated(annotations: Object) -> gangs.Asks:
    """Return what the annotations of a Pod ask for."""
    given = str(annotations.get(MIN_MEMBER))
    # Python refuses to read thousands of digits, and an annotation may have them.
    is_count = len(given) < 10 and given.isascii() and given.isdigit()
    least: object = int(given) if is_count else given
    return _asks(f"annotation {MIN_MEMBER}", least, _timeout(annotations), _topology(annotations))


def _timeout(annotations: Object) -> tuple[str, object]:
    what, given = f"annotation {TIMEOUT}", annotations.get(TIMEOUT)
    try:
        seconds = float(str(given))
    except ValueError:
        return what, given
    # As it was written: -5 is quoted as -5.
    return what, int(seconds) if seconds.is_integer() else seconds


def _topology(annotations: Object) -> str:
    return str(annotations.get(TOPOLOGY_KEY) or "")


def _asks(what: str, least: object, timeout: tuple[str, object], topology_key: str) -> gangs.Asks:
    """Return what a gang asks for; a value out of bounds is kept as its `wrong`, so that the Pods' Events state it.

    The API refuses Events with long texts, so that only the beginning of a value is shown.
    """
    if not isinstance(least, int) or not 1 <= least <= gangs.MEMBERS_MOST:
        return gangs.Asks(
            0, wrong=f"{what}: got {reprlib.repr(least)}, expected an integer from 1 to {gangs.MEMBERS_MOST}"
        )
    if len(topology_key) > LABEL_KEY_MOST:
        found = f"{reprlib.repr(topology_key)}, expected the key of a label, at most {LABEL_KEY_MOST} characters"
        return gangs.Asks(least, wrong=f"the label within which the gang must stay: got {found}")
    name, within = timeout
    if within is None:
        return gangs.Asks(least, None, topology_key)
    if not isinstance(within, int | float) or not 0.0 < within <= gangs.TIMEOUT_MOST_S:
        most = f"{gangs.TIMEOUT_MOST_S:g}"
        return gangs.Asks(least, wrong=f"{name}: got {reprlib.repr(within)}, expected seconds above 0, at most {most}")
    return gangs.Asks(least, float(within), topology_key)
