"""The metrics of the scheduler: what is counted, and its meaning."""

from carico_core.runtime import metrics
from carico_core.wire import freshness
from carico_scheduler import decisions, snapshot

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CYCLE_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1)
_WAIT_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_AGE_SECONDS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0)


class Instruments:
    """Every metric of one scheduler, named carico_scheduler_..."""

    def __init__(self, registry: metrics.Metrics) -> None:
        self.decisions = registry.counter("decisions", "Attempts to place a Pod, by outcome", ["outcome"])
        self.rejections = registry.counter("rejections", "Nodes refused in decisions that were recorded", ["reason"])
        self.binds = registry.counter("binds", "Binds by how they came out", ["fate"])
        self.bind_s = registry.histogram("bind_seconds", "Time from decision to the bind's outcome", buckets=_SECONDS)
        self.waited_s = registry.histogram("waited_seconds", "Time a Pod waited until bound", buckets=_WAIT_SECONDS)
        self.cycle_s = registry.histogram("cycle_seconds", "Time of one cycle", buckets=_CYCLE_SECONDS)
        self.age_s = registry.histogram(
            "advertisement_age_seconds", "Age of the advertisement a Pod was placed by", buckets=_AGE_SECONDS
        )
        self.advertisements = registry.counter("advertisements", "Advertisements taken in")
        self.drops = registry.counter("dropped_messages", "Messages dropped, by reason", ["reason"])
        self.lost_events = registry.counter("lost_events", "Kubernetes Events not written, by reason", ["reason"])
        self.lost_records = registry.counter("lost_decision_records", "Decision records that were not published")
        self.lost_outcomes = registry.counter("lost_bind_outcomes", "Outcomes of binds that could not be taken in")
        self.missed_wakes = registry.counter("missed_wakes", "Times a waiting Pod fitted and nothing had said so")
        self.bad_objects = registry.counter("bad_objects", "Objects of the API that could not be read", ["kind"])
        self.waiting = registry.gauge("waiting_pods", "Pods in the queue")
        self.parked = registry.gauge("parked_pods", "Pods in the queue for which there is no node now")
        self.binding = registry.gauge("binding_pods", "Pods whose bind is under way")
        self.reserved = registry.gauge("reservations", "Pods placed that no advertisement covers yet")
        self.nodes = registry.gauge("nodes", "Nodes by the age of their advertisement", ["freshness"])
        self.leading = registry.gauge("leading", "1 where this scheduler leads and binds, 0 where it stands by")
        self.terms = registry.counter("terms", "Times this scheduler began to lead")
        self.waited_for = registry.counter("handover_pods", "Binds of the leader before that a new one waited to see")
        self.extender_requests = registry.counter(
            "extender_requests", "Requests of kube-scheduler, by verb and HTTP status", ["verb", "status"]
        )
        self.extender_s = registry.histogram(
            "extender_seconds", "Time to answer kube-scheduler", buckets=_SECONDS, labels=["verb"]
        )
        self.extender_binds = registry.counter("extender_binds", "Binds for kube-scheduler, by outcome", ["fate"])
        self.extender_holds = registry.gauge("extender_holds", "Pods between kube-scheduler's filter and its bind")
        self.suspects = registry.gauge("suspect_nodes", "Nodes that do not account for a Pod they were given")

    def count_rejections(self, facts: decisions.Facts) -> None:
        """Counts the nodes that a recorded decision refused."""
        for reason, count in facts.refused.items():
            self.rejections.labels(reason).inc(count)

    def count_nodes(self, view: snapshot.Snapshot) -> None:
        """Sets the gauges of nodes by freshness, and of suspect ones."""
        counts = dict.fromkeys(freshness.Freshness, 0)
        for age_s in (view.now_s - view.sampled_s[view.present]).tolist():
            counts[freshness.classify(age_s, lease_s=view.policy.lease_s)] += 1
        for each, count in counts.items():
            self.nodes.labels(each.value).set(count)
        suspect = view.present & (view.uncovered_since_s < view.now_s - view.policy.suspect_after_s)
        self.suspects.set(int(suspect.sum()))
