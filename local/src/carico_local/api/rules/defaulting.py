"""Defaults for fields that a client has not set, as in kube-apiserver's defaulting and admission.

Sources: k8s.io/kubernetes/pkg/apis/core/v1/defaults.go and the admission plugins DefaultTolerationSeconds,
ServiceAccount and Priority. All functions change the given object.
"""

from typing import Any

from carico_local.api.model import objects, resources, statuses

# plugin/pkg/admission/defaulttolerationseconds: Pods tolerate a node that is not ready for five minutes.
_TOLERATED_S = 300
_TOLERATED_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
# The two classes that every cluster has (pkg/apis/scheduling/types.go).
SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def set_defaults(resource: resources.Resource, data: objects.Object) -> None:
    """Set the defaults of an object that is being created or replaced."""
    if resource is resources.PODS:
        _default_pod(data)
    elif resource is resources.NAMESPACES:
        data.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        data.setdefault("status", {}).setdefault("phase", "Active")
        data["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = data["metadata"]["name"]
    elif resource is resources.SECRETS:
        data["type"] = data.get("type") or "Opaque"
    elif resource.storage == "events":
        # Unset times are null rather than absent, as in Go: `kubectl get --sort-by` needs the field.
        for field in ("firstTimestamp", "lastTimestamp", "eventTime"):
            data.setdefault(field, None)
        data.setdefault("source", {})
        data.setdefault("type", "Normal")
        data.setdefault("reportingComponent", "")
        data.setdefault("reportingInstance", "")


def admit_pod(data: objects.Object) -> None:
    """Apply admission to a new Pod: priority, service account, tolerations. Raises `RequestFailed`."""
    spec = data["spec"]
    if spec.get("priority") is None:
        spec["priority"] = _priority(data, spec.get("priorityClassName", ""))
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec["serviceAccountName"] = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
    spec["serviceAccount"] = spec["serviceAccountName"]
    tolerations = spec.setdefault("tolerations", [])
    for taint in _TOLERATED_TAINTS:
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            tolerations.append(
                {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATED_S}
            )


def _priority(pod: objects.Object, of_class: str) -> int:
    if of_class and of_class not in SYSTEM_PRIORITIES:
        name = pod.get("metadata", {}).get("name", "")
        detail = f"no PriorityClass with name {of_class} was found: also state spec.priority"
        raise statuses.forbidden("pods", name, f"{detail}, or use `carico up --control-plane real`, which has them")
    return SYSTEM_PRIORITIES.get(of_class, 0)


def _tolerates(toleration: objects.Object, taint: str) -> bool:
    return toleration.get("key", "") in (taint, "") and toleration.get("effect", "") in ("NoExecute", "")


def _default_pod(data: objects.Object) -> None:
    spec = data.setdefault("spec", {})
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    spec.setdefault("enableServiceLinks", True)
    for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
        _default_container(container)
    for volume in spec.get("volumes", ()):
        # A volume with a name and nothing else is an emptyDir.
        if set(volume) <= {"name"}:
            volume["emptyDir"] = {}


def _default_container(container: objects.Object) -> None:
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    amounts = container.setdefault("resources", {})
    if limits := amounts.get("limits"):
        amounts["requests"] = {**limits, **(amounts.get("requests") or {})}
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _default_probe(container[probe])


def _default_probe(probe: dict[str, Any]) -> None:
    for field, value in {
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }.items():
        if not probe.get(field):
            probe[field] = value
    if get := probe.get("httpGet"):
        get.setdefault("path", "/")
        get.setdefault("scheme", "HTTP")


def _pull_policy(image: str) -> str:
    """Return Always for the tag `latest`, explicit or implied; IfNotPresent otherwise."""
    last = image.rsplit("/", 1)[-1]
    tag = last.partition("@")[0].partition(":")[2]
    return "IfNotPresent" if "@" in last or tag not in ("", "latest") else "Always"
