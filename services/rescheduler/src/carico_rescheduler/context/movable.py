"""Which Pods may move; of the others, why not."""

import dataclasses
import enum
from collections.abc import Mapping

from carico_core.domain import cluster as kubernetes
from carico_core.domain import selectors
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import objects

HOSTNAME = "kubernetes.io/hostname"


class Mode(enum.StrEnum):
    """How a Pod moves."""

    SURGE = "surge"
    EVICT = "evict"
    NODE_SELECTOR = "node-selector"

    @property
    def setting(self) -> str:
        """How it is chosen, for people: `carico reschedule` has no flag for it."""
        return f"CARICO_RESCHEDULER_MODE={self.value}"


class Stays(enum.StrEnum):
    """Why a Pod is not moved; the label of a metric."""

    EXCLUDED = "excluded"
    OTHER_SCHEDULER = "other_scheduler"
    BASELINE = "baseline"
    JOB = "job"
    NO_CONTROLLER = "no_controller"
    CONTROLLER = "controller"
    AUTOSCALER = "autoscaler"
    ANNOTATION = "annotation"
    NOT_READY = "not_ready"
    YOUNG = "young"
    MOVING = "moving"
    FAILED = "failed"
    ROLLOUT = "rollout"
    VOLUME = "volume"
    PEERS = "peers"
    BUDGET = "budget"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Why a Pod stays: the kind of reason, and the detail for people."""

    why: Stays
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may move. `namespaces`: only these; empty: all. `least_age_s`: in this time, none moves again."""

    mode: Mode
    schedulers: frozenset[str]
    namespaces: frozenset[str]
    baseline_namespaces: frozenset[str]
    least_age_s: float


class Judge:
    """Judges Pods of one cluster at one time: what it looks up for each Pod is collected once."""

    def __init__(
        self, known: clusters.Cluster, policy: Policy, *, now_s: float, failed: Mapping[str, str] | None = None
    ) -> None:
        """`now_s`: Unix seconds. `failed`: why moves failed a short time ago, by the Pods' controller."""
        self._failed = failed or {}
        self.known = known
        self.policy = policy
        self.now_s = now_s
        self._replicas = known.replicas()
        self._budgets: dict[str, list[kubernetes.DisruptionBudget]] = {}
        for (namespace, _), budget in known.budgets.found.items():
            self._budgets.setdefault(namespace, []).append(budget)

    def why_not(self, pod: objects.KnownPod) -> Skipped | None:
        """Return why a Pod with a node may not move now; None if it may."""
        return self._by_kind(pod) or self._by_state(pod) or self._by_constraints(pod) or self._by_budget(pod)

    def _by_kind(self, found: objects.KnownPod) -> Skipped | None:
        pod, policy = found.pod, self.policy
        if pod.namespace in policy.baseline_namespaces or pod.claims_daemon_set or pod.is_mirror:
            return Skipped(why=Stays.BASELINE, detail="it belongs to its node, or to a namespace of the system")
        if policy.namespaces and pod.namespace not in policy.namespaces:
            detail = f"namespace {pod.namespace} is not one of CARICO_RESCHEDULER_NAMESPACES"
            return Skipped(why=Stays.EXCLUDED, detail=detail)
        if pod.scheduler_name not in policy.schedulers:
            return Skipped(why=Stays.OTHER_SCHEDULER, detail=f"{pod.scheduler_name} places it")
        if found.annotations.get(objects.CHOICE) == "false":
            return Skipped(why=Stays.ANNOTATION, detail=f'its annotation {objects.CHOICE} is "false"')
        return self._by_controller(found)

    def _by_controller(self, found: objects.KnownPod) -> Skipped | None:
        owner, mode = found.pod.owner, self.policy.mode
        if owner is None:
            return Skipped(why=Stays.NO_CONTROLLER, detail="no controller would create it again")
        if owner.kind == "Job":
            return Skipped(why=Stays.JOB, detail="a Pod of a Job would lose its work")
        if owner.kind == "StatefulSet":
            if mode is Mode.EVICT:
                return None
            detail = f"a StatefulSet has no two Pods of one name: {Mode.EVICT.setting} would end the old one first"
            return Skipped(why=Stays.CONTROLLER, detail=detail)
        if owner.kind != "ReplicaSet":
            return Skipped(why=Stays.CONTROLLER, detail=f"its controller is a {owner.kind}")
        return self._by_replica_set(found)

    def _by_replica_set(self, found: objects.KnownPod) -> Skipped | None:
        replica_set = self.known.replica_set_of(found)
        if replica_set is None:
            return Skipped(why=Stays.CONTROLLER, detail="its ReplicaSet is not known")
        if self.policy.mode is Mode.EVICT:
            return None
        deployment = self.known.deployment_of(replica_set)
        if deployment is None:
            owner = replica_set.owner or "nothing"
            detail = f"its ReplicaSet is controlled by {owner}: {self.policy.mode.setting} needs a Deployment"
            return Skipped(why=Stays.CONTROLLER, detail=detail)
        if self.policy.mode is Mode.NODE_SELECTOR:
            return self._by_pinning(deployment)
        if not deployment.recreates:
            return None
        detail = f"its Deployment's strategy is Recreate: {Mode.EVICT.setting} would end the old Pod first"
        return Skipped(why=Stays.CONTROLLER, detail=detail)

    def _by_pinning(self, deployment: objects.Deployment) -> Skipped | None:
        if deployment.replicas != 1:
            detail = f"{Mode.NODE_SELECTOR.setting} would pin all {deployment.replicas} replicas to one node"
            return Skipped(why=Stays.CONTROLLER, detail=detail)
        table = self.known.autoscalers
        if table.lacking is not None:
            detail = f"whether an autoscaler owns its replicas is not known: {table.lacking}"
            return Skipped(why=Stays.AUTOSCALER, detail=detail)
        key = (deployment.namespace, deployment.name)
        owners = [each.name for each in table.found.values() if (each.namespace, each.deployment) == key]
        if not owners:
            return None
        detail = (
            f"HorizontalPodAutoscaler {owners[0]} owns its replicas, which {Mode.NODE_SELECTOR.setting} would pin to a "
            "node"
        )
        return Skipped(why=Stays.AUTOSCALER, detail=detail)

    def _by_state(self, found: objects.KnownPod) -> Skipped | None:
        pod = found.pod
        if found.is_surge or found.leaves_for:
            return Skipped(why=Stays.MOVING, detail="a move of it is under way")
        if not found.is_active or pod.phase != "Running" or found.ready_at_s is None:
            return Skipped(why=Stays.NOT_READY, detail="it is not ready")
        if found.controller in self._failed:
            why = self._failed[found.controller]
            return Skipped(why=Stays.FAILED, detail=f"a move of its controller's Pods failed: {why}")
        # A moved Pod may have been created minutes before it took the old one's place.
        age_s = self.now_s - max(pod.created_at_s, found.moved_at_s or 0.0)
        if age_s < self.policy.least_age_s:
            since = "moved" if found.moved_at_s is not None else "created"
            detail = f"it was {since} {age_s:.0f} s ago: it may move after {self.policy.least_age_s:.0f} s"
            return Skipped(why=Stays.YOUNG, detail=detail)
        return self._by_rollout(found)

    def _by_rollout(self, found: objects.KnownPod) -> Skipped | None:
        owner = found.pod.owner
        siblings = self._replicas.get(found.controller, [])
        ready = sum(each.ready_at_s is not None for each in siblings)
        replica_set = self.known.replica_set_of(found)
        if replica_set is None:
            # How many a StatefulSet wants is not known.
            if owner is None or ready == len(siblings):
                return None
            detail = f"{ready} of {len(siblings)} replicas are ready"
            return Skipped(why=Stays.ROLLOUT, detail=f"{owner.kind} {owner.name}: {detail}")
        deployment = self.known.deployment_of(replica_set)
        if deployment is not None and deployment.unsettled:
            return Skipped(why=Stays.ROLLOUT, detail=f"Deployment {deployment.name}: {deployment.unsettled}")
        if ready != replica_set.replicas or len(siblings) != replica_set.replicas:
            detail = f"{ready} of {replica_set.replicas} replicas are ready"
            return Skipped(why=Stays.ROLLOUT, detail=f"ReplicaSet {replica_set.name}: {detail}")
        return None

    def _by_constraints(self, found: objects.KnownPod) -> Skipped | None:
        limits = found.pod.constraints
        if found.local_volume and found.annotations.get(objects.CHOICE) != "true":
            detail = f'volume {found.local_volume} is on its node; annotation {objects.CHOICE}: "true" gives it up'
            return Skipped(why=Stays.VOLUME, detail=detail)
        if found.pod.gang is not None:
            return Skipped(why=Stays.PEERS, detail="it belongs to a group of Pods that are placed together")
        if limits is None:
            return None
        if limits.volume_claims or limits.disks:
            return Skipped(why=Stays.VOLUME, detail="it has a volume that two nodes may not use at the same time")
        if limits.affinity:
            return Skipped(why=Stays.PEERS, detail="it must be near other Pods")
        if limits.hard_spreads:
            return Skipped(why=Stays.PEERS, detail="it must be spread evenly over a topology")
        if any(term.topology_key != HOSTNAME for term in limits.anti_affinity):
            return Skipped(why=Stays.PEERS, detail="its anti-affinity is by another label than the host name")
        return None

    def _by_budget(self, found: objects.KnownPod) -> Skipped | None:
        labels = found.pod.labels
        for budget in self._budgets.get(found.pod.namespace, ()) if labels else ():
            if budget.allowed < 1 and selectors.matches(budget.selector, labels):
                detail = f"PodDisruptionBudget {budget.name} allows no disruption now"
                return Skipped(why=Stays.BUDGET, detail=detail)
        return None
