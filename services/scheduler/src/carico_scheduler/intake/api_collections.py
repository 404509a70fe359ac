"""The collections of the API that are mirrored, and how their objects enter the state."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from carico_core.domain import cluster, gangs
from carico_core.runtime.process import clock as clocks
from carico_core.wire.kubernetes import api_objects, pod_groups
from carico_core.wire.kubernetes import storage as parse
from carico_scheduler.nodes import storage
from carico_scheduler.state import state as states

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
DAEMON_SETS = "/apis/apps/v1/daemonsets"
SERVICES = "/api/v1/services"
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
# Kubernetes' own (1.36, with the feature gate GenericWorkload), and those of scheduler-plugins.
NATIVE_POD_GROUPS = "/apis/scheduling.k8s.io/v1alpha2/podgroups"
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"

Object = Mapping[str, Any]
T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """One collection of the API, and what takes its objects. `kind` names it in logs and metrics."""

    path: str
    kind: str
    parse: Callable[[Object], Any]
    put_all: Callable[[Iterable[Any]], None]
    put: Callable[[Any], None]
    # Takes the metadata of an object that was deleted.
    remove: Callable[[Object], None]
    # None: no decision is made while the collection is not known. Otherwise it is called with why it is not known, or
    # with None once it is, and only Pods that need it wait; an API that does not serve it has none of its objects.
    lacks: Callable[[str | None], None] | None = None


def all_of(state: states.State, clock: clocks.Clock) -> list[Collection]:
    """Return every collection that a scheduler follows."""
    return [
        _pods(state, clock), _nodes(state), _namespaces(state, clock), _daemon_sets(state, clock), _budgets(state),
        _services(state, clock),
        *(_pod_groups(state, clock, is_native=is_native) for is_native in (True, False)), *_storage(state),
    ]  # fmt: skip


def _pods(state: states.State, clock: clocks.Clock) -> Collection:
    return Collection(
        path=PODS,
        kind="pod",
        parse=lambda obj: api_objects.parse_pod(obj, _known(state, obj)),
        put_all=lambda pods: state.put_pods(pods, clock.monotonic_s(), clock.wall_ns() / 1e9),
        put=lambda pod: state.put_pod(pod, clock.monotonic_s()),
        remove=lambda metadata: state.remove_pod(str(metadata.get("uid", ""))),
    )


def _known(state: states.State, obj: Object) -> cluster.Pod | None:
    """Return a Pod as it was before this object."""
    metadata = obj.get("metadata")
    return state.pod(str(metadata.get("uid"))) if isinstance(metadata, dict) else None


def _nodes(state: states.State) -> Collection:
    return Collection(
        path=NODES,
        kind="node",
        parse=api_objects.parse_node,
        put_all=state.put_nodes,
        put=state.put_node,
        remove=lambda metadata: state.remove_node(str(metadata.get("name", ""))),
    )


def _namespaces(state: states.State, clock: clocks.Clock) -> Collection:
    return Collection(
        path=NAMESPACES,
        kind="namespace",
        parse=parse.parse_namespace,
        put_all=lambda found: state.demands.put_namespaces(
            {each.name: each.labels for each in found}, clock.monotonic_s()
        ),
        put=lambda found: state.demands.put_namespace(found.name, found.labels, clock.monotonic_s()),
        remove=lambda metadata: state.demands.remove_namespace(str(metadata.get("name", "")), clock.monotonic_s()),
        lacks=lambda why: state.demands.note_namespaces(why, clock.monotonic_s()),
    )


def _daemon_sets(state: states.State, clock: clocks.Clock) -> Collection:
    return Collection(
        path=DAEMON_SETS,
        kind="DaemonSet",
        parse=api_objects.parse_daemon_set,
        put_all=lambda found: state.demands.put_daemon_sets(found, clock.monotonic_s()),
        put=lambda found: state.demands.put_daemon_set(found, clock.monotonic_s()),
        remove=lambda metadata: state.demands.remove_daemon_set(str(metadata.get("uid", "")), clock.monotonic_s()),
        # While DaemonSets are not known, their Pods are workloads: refused without room, and reserved.
        lacks=state.baseline.lacks,
    )


def _budgets(state: states.State) -> Collection:
    return Collection(
        path=BUDGETS,
        kind="PodDisruptionBudget",
        parse=api_objects.parse_disruption_budget,
        put_all=state.budgets.put_all,
        put=state.budgets.put,
        remove=lambda metadata: state.budgets.remove(str(metadata.get("namespace", "")), str(metadata.get("name", ""))),
        lacks=state.budgets.lacks,
    )


def _services(state: states.State, clock: clocks.Clock) -> Collection:
    return Collection(
        path=SERVICES,
        kind="Service",
        parse=api_objects.parse_service,
        put_all=lambda found: state.demands.put_services(found, clock.monotonic_s()),
        put=lambda found: state.demands.put_service(found, clock.monotonic_s()),
        remove=lambda metadata: state.demands.remove_service(
            str(metadata.get("namespace", "")), str(metadata.get("name", "")), clock.monotonic_s()
        ),
        # They change no Pod's nodes, only which of them it prefers.
        lacks=lambda why: None,
    )


def _pod_groups(state: states.State, clock: clocks.Clock, *, is_native: bool) -> Collection:
    def remove(metadata: Object) -> None:
        key = gangs.Key(str(metadata.get("namespace", "")), str(metadata.get("name", "")), is_native)
        state.waiting_gangs.remove_pod_group(key, clock.monotonic_s())

    return Collection(
        path=NATIVE_POD_GROUPS if is_native else POD_GROUPS,
        kind="PodGroup",
        parse=pod_groups.parse_native if is_native else pod_groups.parse_pod_group,
        put_all=lambda found: state.waiting_gangs.put_pod_groups(found, clock.monotonic_s(), is_native=is_native),
        put=lambda found: state.waiting_gangs.put_pod_group(found, clock.monotonic_s()),
        remove=remove,
        lacks=lambda why: state.gangs.lacks(why, is_native=is_native),
    )


def _storage(state: states.State) -> list[Collection]:
    known, group = state.fleet.storage, "/apis/storage.k8s.io/v1/"
    return [
        _table(
            state,
            "/api/v1/persistentvolumeclaims",
            "claim",
            parse.parse_volume_claim,
            known.volume_claims,
            on_change=state.volumes_changed,
        ),
        _table(
            state,
            "/api/v1/persistentvolumes",
            "volume",
            parse.parse_volume,
            known.volumes,
            on_change=lambda key: state.volume_changed(key[1]),
        ),
        _table(state, f"{group}storageclasses", "storage class", parse.parse_class, known.classes),
        _table(state, f"{group}csinodes", "CSI node", parse.parse_csi_node, known.csi_nodes),
        _table(state, f"{group}csidrivers", "CSI driver", parse.parse_driver, known.drivers),
        _table(state, f"{group}csistoragecapacities", "storage capacity", parse.parse_capacity, known.capacities),
        _table(state, f"{group}volumeattachments", "volume attachment", parse.parse_attachment, known.attachments),
    ]


def _table(
    state: states.State, path: str, kind: str, parse_one: Callable[[Object], T], table: storage.Table[T], *,
    on_change: Callable[[storage.Key], None] | None = None,
) -> Collection:  # fmt: skip
    """Return a collection whose objects are looked up by namespace and name.

    `on_change`: called with those of one that has changed; None: it may matter to all Pods with volumes.
    """
    changed = on_change or (lambda _: state.volumes_changed())
    name = path.rpartition("/")[2]

    def put_all(objects: Iterable[Any]) -> None:
        table.put_all({_key(each): each for each in objects})
        state.volumes_changed()

    def put(found: Any) -> None:
        table.put(_key(found), found)
        changed(_key(found))

    def remove(metadata: Object) -> None:
        key = (str(metadata.get("namespace", "")), str(metadata.get("name", "")))
        table.remove(key)
        changed(key)

    def lacks(why: str | None) -> None:
        state.fleet.storage.note_lacking(name, why)
        state.volumes_changed()

    return Collection(path=path, kind=kind, parse=parse_one, put_all=put_all, put=put, remove=remove, lacks=lacks)


def _key(found: Any) -> storage.Key:
    return getattr(found, "namespace", ""), found.name
