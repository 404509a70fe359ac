"""The settings of the scheduler."""

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client as kubes
from carico_core.runtime.observe import tracing
from carico_core.runtime.process import settings
from carico_scheduler.extender import settings as extender_settings
from carico_scheduler.leadership import settings as leader_settings
from carico_scheduler.rules import policy as policies

PREFIX = "scheduler"
PROGRAM = "carico-scheduler"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Read once in `main`: environment CARICO_SCHEDULER_..., flags --..."""

    removed: ClassVar[Mapping[str, str]] = {"seed": "the backoff's randomness is seeded by the clock"}
    threshold: float = settings.setting(
        1.0, help="least free capacity of a node that gets a Pod", unit="Pods", minimum=0.01, maximum=1000,
        why="room for one whole Pod",
    )  # fmt: skip
    score: policies.ScoreMode = settings.setting(
        policies.ScoreMode.PER_CORE,
        help="rank nodes by free capacity: for each core, absolute, or as a share of what the node takes",
        why="of equal nodes the one with most room, as by absolute; that would leave the small of unequal ones empty",
    )
    release: policies.Release = settings.setting(
        policies.Release.COVERS,
        help="a reservation ends when an advertisement covers the Pod, or (paper) when the Pod leaves Pending",
        why="paper leaves a gap of up to a second through which a burst over-admits",
    )
    fallback: policies.Fallback = settings.setting(
        policies.Fallback.WAIT, help="while no node has a usable advertisement: wait, or place by requests"
    )
    max_pods_per_core: float = settings.setting(
        16.0, help="most Pods a core is believed to take, whatever is advertised", unit="Pods per core",
        minimum=0.1, maximum=1000,
        why="a node that lies harms only itself, up to this; OpenShift's podsPerCore is 10, idle servers need more",
    )  # fmt: skip
    suspect_after_s: float = settings.setting(
        30.0, help="how long a Pod may stay out of its node's advertisements before the node gets no more",
        unit="s", minimum=1.0, maximum=3600,
    )  # fmt: skip
    baseline_namespaces: tuple[str, ...] = settings.setting(
        ("kube-system", "carico"),
        help="namespaces whose Pods belong to their node, as those of DaemonSets do: they pass everywhere in the "
        "extender, and hold no reservation",
        why="what the cluster and CARICO itself need must not wait for CARICO; who may create Pods there is trusted",
    )
    binds_in_flight: int = settings.setting(
        32, help="most binds at a time", minimum=1, maximum=1024,
        why="enough to hide the API's latency; more only makes decisions older",
    )  # fmt: skip
    bind_timeout_s: float = settings.setting(
        5.0, help="how long a bind may take before the Pod is asked what became of it", unit="s",
        minimum=0.1, maximum=60,
    )  # fmt: skip
    event_after_s: float = settings.setting(
        3.0, help="how long a Pod waits before an Event says why", unit="s", minimum=0.0, maximum=3600,
        why="waiting for room is usual; an Event for each moment of it would only load the API",
    )  # fmt: skip
    events_per_s: float = settings.setting(
        20.0, help="most Events written", unit="1/s", minimum=0.1, maximum=10000, why="Events never crowd out binds"
    )
    own_pods: bool = settings.setting(
        True, help="bind the Pods that name carico", why="an extender beside each kube-scheduler leaves them to others"
    )
    stop_timeout_s: float = settings.setting(
        5.0, help="how long a stop waits for binds under way", unit="s", minimum=0.0, maximum=60
    )
    traces: str = settings.setting(
        "", help="address of an OpenTelemetry collector (OTLP over HTTP) for traces of Pods; empty: none",
        why="an option: needs the extra `traces`",
    )  # fmt: skip
    traces_share: float = settings.setting(
        1.0, help="share of all Pods that are traced, the same ones in every service", minimum=0.0, maximum=1.0
    )
    http: settings.HttpSettings = dataclasses.field(default_factory=settings.HttpSettings)
    log: settings.LogSettings = dataclasses.field(default_factory=settings.LogSettings)
    bus: buses.BusSettings = dataclasses.field(default_factory=buses.BusSettings)
    kube: kubes.KubeSettings = dataclasses.field(default_factory=kubes.KubeSettings)
    leader: leader_settings.LeaderSettings = dataclasses.field(default_factory=leader_settings.LeaderSettings)
    extender: extender_settings.ExtenderSettings = dataclasses.field(default_factory=extender_settings.ExtenderSettings)

    def __post_init__(self) -> None:
        tracing.check(self.traces)
        # So that a bind which was permitted as a term ended is given up before another may lead.
        if self.leader.election and self.leader.renew_s + self.bind_timeout_s > self.leader.lease_s:
            raise ValueError(
                f"--leader-renew-s {self.leader.renew_s:g} and --bind-timeout-s {self.bind_timeout_s:g}: expected at "
                f"most --leader-lease-s {self.leader.lease_s} together"
            )

    def rules(self) -> policies.Policy:
        """The rules of the cycle among these."""
        return policies.Policy(
            threshold=self.threshold,
            score=self.score,
            release=self.release,
            fallback=self.fallback,
            max_pods_per_core=self.max_pods_per_core,
            lease_s=self.bus.lease_s,
            suspect_after_s=self.suspect_after_s,
            baseline_namespaces=frozenset(self.baseline_namespaces),
        )
