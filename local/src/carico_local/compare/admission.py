"""Whether a comparison can run the Pods of a file: what its cluster refuses or never starts is refused beforehand."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_core.domain import cluster, errors, judgement
from carico_core.wire import fields
from carico_core.wire.kubernetes import api_objects
from carico_local.api.model import resources, schema, statuses
from carico_local.api.rules import defaulting, validation
from carico_local.node.spec import pod as pod_spec

Object = Mapping[str, Any]
_ENDING = ("Never", "OnFailure")
# Objects by the field that refers to them, and the key of their name. The cluster has none: it is new.
_REFERENCES = {
    "configMapRef": ("ConfigMap", "name"), "secretRef": ("Secret", "name"),
    "configMapKeyRef": ("ConfigMap", "name"), "secretKeyRef": ("Secret", "name"),
    "configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName"),
    "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName"),
}  # fmt: skip
_AFFINITY = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution"


def check(
    made: Object, where: str, nodes: Sequence[cluster.Node], *, millicores: int, are_emulated: bool
) -> cluster.Pod:  # fmt: skip
    """Return a Pod as the API server has it. Raises `SettingsError`, which begins with `where`, if it would not run.

    `millicores`: the largest CPU request that a contender gives to it. `are_emulated`: not kubelets, which run all of a
    Pod.
    """
    for said in _endless(made["spec"]):
        raise errors.SettingsError(f"{where}: {said}")
    created = _created(made, where)
    for said in _unmet(created["spec"]):
        raise errors.SettingsError(f"{where}: {said}")
    try:
        parsed = pod_spec.parse({**created, "spec": {**created["spec"], "nodeName": "-"}})
        pod = api_objects.parse_pod(created)
    except (ValueError, errors.CaricoError) as error:
        raise errors.SettingsError(f"{where}: {error}") from None
    if are_emulated and parsed.unsupported:
        raise errors.SettingsError(f"{where}: emulated nodes do not run this: {'; '.join(parsed.unsupported)}")
    limit_cores = parsed.containers[0].limit_cores
    if limit_cores is not None and limit_cores * 1000.0 < millicores:
        raise errors.SettingsError(
            f"{where}: limits {limit_cores:g} of cpu, expected at least {millicores / 1000.0:g}, a contender's "
            "request; raise the limit, or choose contenders with --contender"
        )
    judged = judgement.judge(pod, nodes)
    if judged.never:
        hints = "".join(f"; {hint}" for hint in judged.hints)
        raise errors.SettingsError(f"{where}: could never be placed: {judged.why}{hints}")
    return pod


def check_affinity(pods: Sequence[tuple[str, cluster.Pod]]) -> None:
    """Refuse Pods (each after where it is) that wait for others which never run. Raises `SettingsError`."""
    waiting = [each for each in pods if each[1].constraints and each[1].constraints.affinity]
    running = [pod.labels for _, pod in pods if not (pod.constraints and pod.constraints.affinity)]
    while waiting:
        missing = [(where, pod, _missing_peer(pod, running)) for where, pod in waiting]
        waiting = [(where, pod) for where, pod, place in missing if place is not None]
        if len(waiting) == len(missing):
            where, _, place = missing[0]
            raise errors.SettingsError(
                f"{where}: {_AFFINITY}[{place}]: got a term that matches no Pod of the file which can start, expected "
                "one that does"
            )
        running += [pod.labels for _, pod, place in missing if place is None]


def _missing_peer(pod: cluster.Pod, running: Sequence[Mapping[str, str]]) -> int | None:
    """Return the first term of required Pod affinity that none of these labels meets; None if the Pod can start."""
    constraints = pod.constraints
    # The first of a group of peers may go anywhere.
    if constraints is None or constraints.is_own_peer:
        return None
    of_namespace = {"kubernetes.io/metadata.name": pod.namespace}
    for place, term in enumerate(constraints.affinity):
        if not any(term.matches(pod.namespace, of_namespace, labels) for labels in running):
            return place
    return None


def _created(made: Object, where: str) -> dict[str, Any]:
    """Return the Pod as the API server stores it. Raises `SettingsError` for one that it refuses."""
    try:
        created, _ = schema.decode(resources.PODS.definition, made)
        defaulting.set_defaults(resources.PODS, created)
        validation.check(resources.PODS, created)
    except statuses.RequestFailed as error:
        causes = [f"{each['field']}: {each['message']}" for each in error.details.get("causes", ())]
        raise errors.SettingsError(f"{where}: {'; '.join(causes) or error}") from None
    created["metadata"] |= {"uid": "-", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return created


def _endless(spec: Object) -> Iterator[str]:
    """Yield why a comparison cannot use the Pod: a scheduler has nothing to choose, or it does not end."""
    if spec.get("nodeName"):
        yield f"nodeName: got {spec['nodeName']!r}, expected none: schedulers choose it"
    if spec.get("restartPolicy") not in _ENDING:
        got = spec.get("restartPolicy") or "Always, the default"
        yield f"restartPolicy: got {got}, expected Never or OnFailure: it must end"
    if not isinstance(spec.get("containers"), list) or not spec["containers"]:
        yield "has no container, expected at least one"


def _unmet(spec: Object) -> Iterator[str]:
    """Yield what the Pod asks for that the cluster does not have, as its API server would, or that it waits for."""
    for field, why in (("schedulingGates", "nothing removes them"), ("resourceClaims", "no node has devices")):
        if spec.get(field):
            yield f"spec.{field}: got {fields.shown(spec[field])}, expected none: {why}"
    of_class, priority = spec.get("priorityClassName") or "", spec.get("priority")
    if of_class and of_class not in defaulting.SYSTEM_PRIORITIES:
        yield f"spec.priorityClassName: got {of_class!r}, expected none: the cluster has no such PriorityClass"
    if priority not in (None, (value := defaulting.SYSTEM_PRIORITIES.get(of_class, 0))):
        yield f"spec.priority: got {priority}, expected none, or {value}, that of its class"
    for field in ("serviceAccountName", "serviceAccount"):
        if spec.get(field) not in (None, "", "default"):
            yield f"spec.{field}: got {spec[field]!r}, expected none: the cluster has no such ServiceAccount"
    for path, source in _sources(spec):
        for field, (kind, key) in _REFERENCES.items():
            if field in source and not source[field].get("optional"):
                name = source[field].get(key) or ""
                yield f"{path}.{field}: got {name!r}, expected none, or an optional one: the cluster has no such {kind}"


def _sources(spec: Object) -> Iterator[tuple[str, Object]]:
    """Yield what may refer to an object, with its path."""
    for group in ("initContainers", "containers"):
        for place, container in enumerate(spec.get(group) or ()):
            here = f"spec.{group}[{place}]"
            for index, entry in enumerate(container.get("envFrom") or ()):
                yield f"{here}.envFrom[{index}]", entry
            for index, entry in enumerate(container.get("env") or ()):
                yield f"{here}.env[{index}].valueFrom", entry.get("valueFrom") or {}
    for index, volume in enumerate(spec.get("volumes") or ()):
        yield f"spec.volumes[{index}]", volume
