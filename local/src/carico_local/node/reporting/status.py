"""The status of a Pod as a kubelet writes it, and what an earlier node process wrote there. Pure.

Source: kubernetes/pkg/kubelet/kubelet_pods.go (getPhase, convertToAPIContainerStatuses) and status/generate.go.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from carico_core.wire.kubernetes import instants
from carico_local.node.spec import container as container_spec
from carico_local.node.spec import pod as podspec

Object = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Not running now, but to be started."""

    reason: str
    message: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Its process runs."""

    started_ns: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """Its process has ended, or could not be started (then `started_ns` is 0)."""

    exit_code: int
    reason: str
    started_ns: int
    finished_ns: int
    signal: int = 0
    message: str = ""
    container_id: str = ""


State = Waiting | Running | Terminated
CREATING = Waiting(reason="ContainerCreating")
INITIALIZING = Waiting(reason="PodInitializing")
LOST = "ContainerStatusUnknown"
CONFIG_ERROR = "CreateContainerConfigError"
CREATE_ERROR = "CreateContainerError"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ContainerState:
    """The present state of one container."""

    state: State = CREATING
    last: Terminated | None = None
    restarts: int = 0
    ready: bool = False
    # Its startup probe, if any, has passed.
    started: bool = False
    container_id: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PodState:
    """What a node knows of a Pod; `rejected` (reason, message) where the node does not admit it."""

    start_ns: int
    pod_ip: str
    host_ip: str
    containers: Mapping[str, ContainerState]
    init_containers: Mapping[str, ContainerState]
    sandboxed: bool
    # True once the Pod is being deleted or stopped and nothing of it runs.
    ended: bool
    rejected: tuple[str, str] | None
    # Reason and message where the node ended the Pod, whatever its containers' exit codes are.
    failed: tuple[str, str] | None = None


def lost(*, now_ns: int, started_ns: int = 0) -> Terminated:
    """Return the state of a container whose end was not seen."""
    return Terminated(
        exit_code=137,
        reason=LOST,
        message="The container could not be located when the pod was terminated",
        started_ns=started_ns,
        finished_ns=now_ns,
    )


def phase(spec: podspec.PodSpec, state: PodState) -> str:
    """Return Pending, Running, Succeeded or Failed."""
    if state.rejected is not None:
        return "Failed"
    main = [state.containers[container.name] for container in spec.containers]
    if state.ended:
        succeeded = state.failed is None and all(
            isinstance(c.state, Terminated) and c.state.exit_code == 0 for c in main
        )
        return "Succeeded" if succeeded else "Failed"
    initial = _init_phase(spec, state)
    if initial is not None:
        return initial
    if any(isinstance(c.state, Waiting) and c.last is None for c in main):
        return "Pending"
    if any(isinstance(c.state, Running) for c in main) or spec.restart_policy == "Always":
        return "Running"
    ends = [c.state if isinstance(c.state, Terminated) else c.last for c in main]
    if all(end is not None and end.exit_code == 0 for end in ends):
        return "Succeeded"
    return "Failed" if spec.restart_policy == "Never" else "Running"


def _init_phase(spec: podspec.PodSpec, state: PodState) -> str | None:
    """Return Pending or Failed while init containers determine the phase; None once they have finished."""
    for container in spec.init_containers:
        now = state.init_containers[container.name].state
        if isinstance(now, Terminated) and now.exit_code == 0:
            continue
        failed = isinstance(now, Terminated) and spec.restart_policy == "Never"
        return "Failed" if failed else "Pending"
    return None


def pod_status(spec: podspec.PodSpec, state: PodState, *, previous: Mapping[str, Any], now_ns: int) -> Object:
    """Return the whole status; unchanged conditions keep their times from `previous`."""
    found = phase(spec, state)
    status: Object = {
        "phase": found,
        "conditions": _conditions(spec, state, found, previous=previous.get("conditions") or (), now_ns=now_ns),
        "hostIP": state.host_ip,
        "startTime": instants.format_time(state.start_ns),
        "qosClass": spec.qos_class,
    }
    if state.rejected is not None:
        status["reason"], status["message"] = state.rejected
        return status
    if state.ended and state.failed is not None:
        status["reason"], status["message"] = state.failed
    if state.sandboxed:
        status |= {"podIP": state.pod_ip, "podIPs": [{"ip": state.pod_ip}], "hostIPs": [{"ip": state.host_ip}]}
    status["containerStatuses"] = _container_statuses(spec.containers, state.containers)
    if spec.init_containers:
        status["initContainerStatuses"] = _container_statuses(spec.init_containers, state.init_containers)
    return status


def _container_statuses(
    specs: Sequence[container_spec.ContainerSpec], states: Mapping[str, ContainerState]
) -> list[Object]:
    return [_container_status(spec, states[spec.name]) for spec in specs]


def _container_status(spec: container_spec.ContainerSpec, now: ContainerState) -> Object:
    status: Object = {
        "name": spec.name,
        "image": spec.image,
        "imageID": f"emulated://{spec.image}" if now.container_id else "",
        "ready": now.ready,
        "started": isinstance(now.state, Running) and now.started,
        "restartCount": now.restarts,
        "state": _state(now.state),
        "lastState": {} if now.last is None else _state(now.last),
    }
    if now.container_id:
        status["containerID"] = f"process://{now.container_id}"
    return status


def _state(state: State) -> Object:
    match state:
        case Waiting():
            return {"waiting": _filled(reason=state.reason, message=state.message)}
        case Running():
            return {"running": {"startedAt": instants.format_time(state.started_ns)}}
        case Terminated():
            return {
                "terminated": {
                    "exitCode": state.exit_code,
                    "startedAt": instants.format_time(state.started_ns),
                    "finishedAt": instants.format_time(state.finished_ns),
                    **_filled(reason=state.reason, message=state.message, signal=state.signal),
                    **_filled(containerID=f"process://{state.container_id}" if state.container_id else ""),
                }
            }


def _filled(**fields: str | int) -> Object:
    return {name: value for name, value in fields.items() if value}


def _conditions(
    spec: podspec.PodSpec, state: PodState, found: str, *, previous: Sequence[Mapping[str, Any]], now_ns: int
) -> list[Object]:
    terminal = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(found, "")
    not_ready = [c.name for c in spec.containers if state.rejected or not state.containers[c.name].ready]
    readiness: dict[str, str] = {}
    if terminal:
        readiness = {"reason": terminal}
    elif not_ready:
        names = " ".join(not_ready)
        readiness = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    ready = not terminal and not not_ready
    wanted = {
        "PodReadyToStartContainers": (state.sandboxed and not terminal, {}),
        "Initialized": _initialized(spec, state, found),
        "Ready": (ready, readiness),
        "ContainersReady": (ready, readiness),
    }
    before = {condition.get("type"): condition for condition in previous}
    conditions = [_condition(name, holds, detail, before.get(name), now_ns) for name, (holds, detail) in wanted.items()]
    # Conditions of other writers, above all PodScheduled, stay as they were.
    return conditions + [dict(condition) for name, condition in before.items() if name not in wanted]


def _initialized(spec: podspec.PodSpec, state: PodState, found: str) -> tuple[bool, dict[str, str]]:
    if found == "Succeeded":
        return True, {"reason": "PodCompleted"}
    if state.rejected is None and _init_phase(spec, state) is None:
        return True, {}
    waiting = " ".join(container.name for container in spec.init_containers)
    return False, {
        "reason": "ContainersNotInitialized",
        "message": f"containers with incomplete status: [{waiting}]",
    }


def _condition(
    name: str, holds: bool, detail: Mapping[str, str], before: Mapping[str, Any] | None, now_ns: int
) -> Object:
    value = "True" if holds else "False"
    unchanged = before is not None and before.get("status") == value
    since = before["lastTransitionTime"] if before and unchanged and before.get("lastTransitionTime") else None
    return {
        "type": name,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": since or instants.format_time(now_ns),
        # In a merge patch, null removes the field of an earlier status.
        "reason": detail.get("reason"),
        "message": detail.get("message"),
    }


def was_running(pod: Mapping[str, Any], container: str) -> int | None:
    """Return the restart count of a container that the API shows as running; None where it does not."""
    entry = _seen(pod, container)
    return int(entry.get("restartCount") or 0) if (entry.get("state") or {}).get("running") else None


def waiting_reason(pod: Mapping[str, Any], container: str) -> str:
    """Return why a container waits, as the API shows it; that it is being created where the API shows nothing yet."""
    waits = (_seen(pod, container).get("state") or {}).get("waiting") or {}
    return str(waits.get("reason") or CREATING.reason)


def _seen(pod: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    """Return a container's status in the API; empty where it has none."""
    seen = pod.get("status") or {}
    entries = (*(seen.get("containerStatuses") or ()), *(seen.get("initContainerStatuses") or ()))
    return next((entry for entry in entries if entry.get("name") == container), {})


def start_ns(pod: Mapping[str, Any]) -> int | None:
    """Return when the node admitted the Pod; None where the status does not state it."""
    text = (pod.get("status") or {}).get("startTime")
    return None if text is None else round(instants.parse_instant(text) * 1e9)


def conditions(pod: Mapping[str, Any]) -> list[Any]:
    """Return the Pod's conditions, including those of other writers."""
    return list((pod.get("status") or {}).get("conditions") or ())
