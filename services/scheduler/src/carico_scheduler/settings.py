"""The settings of the scheduler."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import ClassVar

from carico_core.domain import names as domain_names
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.leadership import leader_settings
from carico_core.runtime.observe import tracing
from carico_core.runtime.process import settings
from carico_scheduler.extender import extender_settings
from carico_scheduler.rules import policy as policies
from carico_scheduler.rules import profiles
from carico_scheduler.sharing.claims import stream

PREFIX = "scheduler"
PROGRAM = "carico-scheduler"
# Far more than anyone runs: `carico`, kube-scheduler's own, and those of schedulers that CARICO replaces.
NAMES_MOST = 8


class Sharing(enum.StrEnum):
    """What several schedulers do: one leads and the others stand by, or all decide at the same time."""

    LEADER = "leader"
    SHARED = "shared"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Read once in `main`: environment CARICO_SCHEDULER_..., flags --..."""

    removed: ClassVar[Mapping[str, str]] = {"seed": "the clock seeds the randomness of backoffs"}
    replica: str = settings.setting(
        "", help="name of this replica; empty: the host's, in a Pod the Pod's",
        why="who holds the Lease, decided or took a claim is shown by it",
    )  # fmt: skip
    names: tuple[str, ...] = settings.setting(
        (domain_names.SCHEDULER_NAME,), help=f"schedulerNames whose Pods it places, at most {NAMES_MOST}",
        why="add default-scheduler where CARICO replaces kube-scheduler",
    )  # fmt: skip
    profiles: tuple[str, ...] = settings.setting(
        (),
        help="settings of single names, NAME:KEY=VALUE[:KEY=VALUE]: ceiling (added to the agents' ceiling, as a share "
        "of a node), score, preferences (how much they lower a score at most)",
        why="batch and servers may fill nodes differently; see docs/scheduling.md",
    )
    threshold: float = settings.setting(
        1.0, help="minimum free capacity of a node to get a Pod", unit="Pods", minimum=0.01, maximum=1000,
        why="room for one whole Pod",
    )  # fmt: skip
    score: policies.ScoreMode = settings.setting(
        policies.ScoreMode.PER_CORE,
        help="rank nodes by free capacity: per core, absolute, or as a share of all that the node takes",
        why="fills nodes of unequal size evenly; absolute leaves small ones empty until large ones are as full in Pods",
    )
    default_spread: bool = settings.setting(
        True,
        help="prefer different nodes and zones for Pods of one ReplicaSet, StatefulSet or Service",
        why="kube-scheduler's default; a node that has recovered has the most room, and would get all new replicas",
    )
    image_locality: bool = settings.setting(
        True, help="prefer nodes that have a Pod's images already",
        why="kube-scheduler's default; small images, and images that all nodes have, change nothing",
    )  # fmt: skip
    release: policies.Release = settings.setting(
        policies.Release.COVERS,
        help="end a reservation when an advertisement covers the Pod, or (paper) when the Pod leaves Pending",
        why="with paper, a burst is over-admitted in a gap of up to a second",
    )
    fallback: policies.Fallback = settings.setting(
        policies.Fallback.WAIT, help="what to do while no node has a usable advertisement: wait, or place by requests"
    )
    max_pods_per_core: float = settings.setting(
        16.0, help="maximum Pods per core, whatever a node advertises", unit="Pods per core",
        minimum=0.1, maximum=1000,
        why="limits the harm of a node that advertises too much; OpenShift's podsPerCore is 10, idle servers need more",
    )  # fmt: skip
    suspect_after_s: float = settings.setting(
        30.0, help="how long a node may run a Pod that its advertisements do not cover before it gets no more Pods",
        unit="s", minimum=1.0, maximum=3600,
    )  # fmt: skip
    sharing: Sharing = settings.setting(
        Sharing.LEADER,
        help="several schedulers: one leads, or (shared) all decide at the same time and claim nodes on the bus; "
        "the same for all of them",
        why="one leader decides more Pods than the API binds; shared takes over a lost scheduler's Pods within 2 s",
    )
    baseline_namespaces: tuple[str, ...] = settings.setting(
        ("kube-system", "carico"),
        help="namespaces whose Pods belong to their node, as those of DaemonSets do: the extender passes them on every "
        "node, and they hold no reservation",
        why="Pods that the cluster and CARICO need must not wait for CARICO; users of these namespaces are trusted",
    )
    binds_in_flight: int = settings.setting(
        128, help="maximum binds at a time", minimum=1, maximum=1024,
        why="the more at a time, the less CPU time each takes, also of the API server (ADR 72), and the older "
        "decisions get before they are sent",
    )  # fmt: skip
    bind_timeout_s: float = settings.setting(
        5.0, help="how long a bind may take before the API is asked for its outcome", unit="s",
        minimum=0.1, maximum=60,
    )  # fmt: skip
    event_after_s: float = settings.setting(
        3.0, help="how long a Pod waits before an Event and a condition state why", unit="s", minimum=0.0,
        maximum=3600,
        why="short waits for room are normal; an Event for each would only load the API",
    )  # fmt: skip
    events_per_s: float = settings.setting(
        20.0, help="maximum Events written", unit="1/s", minimum=0.1, maximum=10000, why="Events must not delay binds"
    )
    conditions_per_s: float = settings.setting(
        50.0, help="maximum conditions (PodScheduled=False) written", unit="1/s", minimum=0.1, maximum=10000,
        why="conditions must not delay binds; an autoscaler looks every 10 s",
    )  # fmt: skip
    preemption: bool = settings.setting(
        True, help="evict Pods of lower priority for a Pod that fits nowhere", why="as kube-scheduler does"
    )
    opportunistic: str = settings.setting(
        "", help="PriorityClass whose Pods run on what is idle, and are evicted from a node that fills; empty: none",
        why="nodes whose estimator advertises only a capacity in Pods are never seen to fill: there they go only by "
        "preemption",
    )  # fmt: skip
    gang_timeout_s: float = settings.setting(
        60.0, help="how long a gang of Pods may hold room for fewer than it needs before all its Pods are evicted",
        unit="s", minimum=1.0, maximum=86400,
        why="scheduler-plugins' default; a PodGroup or an annotation can state another time",
    )  # fmt: skip
    own_pods: bool = settings.setting(
        True, help="bind the Pods that name this scheduler", why="false for an extender in kube-scheduler's Pod"
    )
    stop_timeout_s: float = settings.setting(
        5.0, help="how long a shutdown waits for binds under way", unit="s", minimum=0.0, maximum=60
    )
    traces: str = settings.setting(
        "", help="address of an OpenTelemetry collector (OTLP over HTTP) for traces of Pods; empty: none",
        why="optional: needs the extra `traces`",
    )  # fmt: skip
    traces_share: float = settings.setting(
        1.0, help="share of Pods that are traced, the same Pods in every service", minimum=0.0, maximum=1.0
    )
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)
    kube: kubes.KubeSettings = dataclasses.field(default_factory=kubes.KubeSettings)
    leader: leader_settings.LeaderSettings = dataclasses.field(default_factory=leader_settings.LeaderSettings)
    extender: extender_settings.ExtenderSettings = dataclasses.field(default_factory=extender_settings.ExtenderSettings)

    def __post_init__(self) -> None:
        tracing.check(self.traces)
        if self.replica and not (domain_names.is_label(self.replica) and len(self.replica) <= domain_names.REPLICA_MAX):
            raise ValueError(
                f"--replica: got {self.replica!r}, expected a lower-case RFC 1123 label of at most "
                f"{domain_names.REPLICA_MAX} characters"
            )
        _check_names(self.names)
        domain_names.check_namespaces("--baseline-namespaces", self.baseline_namespaces)
        try:
            profiles.parse_profiles(self.profiles, self.names)
        except ValueError as error:
            raise ValueError(f"--profiles: {error}") from None
        own = self.opportunistic
        if own and (own.startswith("system-") or not domain_names.is_subdomain(own)):
            raise ValueError(f"--opportunistic: got {own!r}, expected the name of a PriorityClass of your own")
        # A bind that was permitted just before its term ended must time out before another scheduler may lead.
        if self.leader.election and self.leader.renew_s + self.bind_timeout_s > self.leader.lease_s:
            raise ValueError(
                f"--leader-renew-s {self.leader.renew_s:g} and --bind-timeout-s {self.bind_timeout_s:g}: expected at "
                f"most --leader-lease-s {self.leader.lease_s} together"
            )

        if self.sharing is Sharing.SHARED:
            self._check_shared()

    def _check_shared(self) -> None:
        """Raise `ValueError` for what does not go together with several schedulers that decide at the same time."""
        if not self.leader.election:
            raise ValueError("--sharing shared: got --no-leader-election, expected an election: its holder has duties")
        if self.bind_timeout_s > stream.BIND_MOST_S:
            raise ValueError(
                f"--bind-timeout-s {self.bind_timeout_s:g}: expected at most {stream.BIND_MOST_S:g} with --sharing "
                "shared, for which claims are valid"
            )

    def rules(self) -> policies.Policy:
        """Return the rules of the cycle."""
        return policies.Policy(
            names=frozenset(self.names),
            profiles=profiles.parse_profiles(self.profiles, self.names),
            threshold=self.threshold,
            score=self.score,
            default_spread=self.default_spread,
            image_locality=self.image_locality,
            release=self.release,
            fallback=self.fallback,
            max_pods_per_core=self.max_pods_per_core,
            lease_s=self.bus.lease_s,
            suspect_after_s=self.suspect_after_s,
            baseline_namespaces=frozenset(self.baseline_namespaces),
        )


def _check_names(given: tuple[str, ...]) -> None:
    """Raise `ValueError` if these cannot be the schedulerNames of one scheduler."""
    text = ",".join(given)
    if not 0 < len(given) <= NAMES_MOST:
        raise ValueError(f"--names: got {len(given)} names, expected 1 to {NAMES_MOST}")
    for name in given:
        if not domain_names.is_subdomain(name):
            raise ValueError(
                f"--names {text}: got {name!r}, expected a DNS name of lowercase letters, digits, '-' and '.'"
            )
    if len(set(given)) < len(given):
        raise ValueError(f"--names {text}: a name is there twice; expected each once")
