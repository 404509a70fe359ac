"""The metrics of the scheduler."""

from carico_core.runtime.observe import metrics
from carico_core.wire import freshness
from carico_scheduler.nodes import snapshot
from carico_scheduler.pods import queue as queues
from carico_scheduler.pods import reservations
from carico_scheduler.report import decisions, waits
from carico_scheduler.rules import admission

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_CYCLE_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1)
_WAIT_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_AGE_SECONDS = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0)
# A node usually covers a Pod as soon as its container starts; one that does not is suspect after 30 s.
_COVER_SECONDS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 300.0)
# Around the target of 50 us per decision.
_DECISION_SECONDS = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.01, 0.1)


class Instruments:
    """Every metric of one scheduler, named carico_scheduler_..."""

    def __init__(self, registry: metrics.Metrics) -> None:
        self._add_decisions(registry)
        self._add_binds(registry)
        self._add_queue(registry)
        self._add_nodes(registry)
        self._add_evictions(registry)
        self._add_sharing(registry)
        self._add_extender(registry)

    def _add_decisions(self, registry: metrics.Metrics) -> None:
        """Add the metrics of what is decided, and how long it takes."""
        self.decisions = registry.counter("decisions", "Attempts to place a Pod, by outcome", ["outcome"])
        self.rejections = registry.counter("rejections", "Nodes refused in decisions that were recorded", ["reason"])
        self.cycle_s = registry.histogram("cycle_seconds", "Duration of a scheduling cycle", buckets=_CYCLE_SECONDS)
        self.decision_s = registry.histogram(
            "decision_seconds", "Time per decision: the cycle's duration divided by its Pods", buckets=_DECISION_SECONDS
        )
        self.covered_s = registry.histogram(
            "covered_seconds", "Time from a Pod's reservation until its node accounted for it", buckets=_COVER_SECONDS
        )
        self.age_s = registry.histogram(
            "advertisement_age_seconds", "Age of the advertisement by which a Pod was placed", buckets=_AGE_SECONDS
        )
        self.lost_records = registry.counter("lost_decision_records", "Decision records that were not published")
        self.unpublished = registry.gauge("unpublished_decision_records", "Decision records waiting to be published")
        self.missed_wakes = registry.counter(
            "missed_wakes", "Times that a parked Pod fitted a node without having been woken"
        )
        self.conditions = registry.counter(
            "conditions", "Conditions PodScheduled=False of waiting Pods, written or not, by outcome", ["outcome"]
        )
        self.lost_events = registry.counter("lost_events", "Kubernetes Events not written, by reason", ["reason"])

    def _add_binds(self, registry: metrics.Metrics) -> None:
        """Add the metrics of binds, and how long Pods wait for them."""
        self.binds = registry.counter("binds", "Binds, by outcome", ["fate"])
        self.bind_s = registry.histogram("bind_seconds", "Time from sending a bind to its outcome", buckets=_SECONDS)
        self.waited_s = registry.histogram(
            "waited_seconds", "Time that a Pod waited until it was bound", buckets=_WAIT_SECONDS
        )
        self.waits = waits.Waits(registry)
        self.doubtful = registry.gauge("doubtful_binds", "Binds whose outcome is not known yet")
        self.binding = registry.gauge("binding_pods", "Binds under way")
        self.lost_outcomes = registry.counter("lost_bind_outcomes", "Outcomes of binds that could not be handled")

    def _add_queue(self, registry: metrics.Metrics) -> None:
        """Add the metrics of Pods that wait, and what is reserved."""
        self.waiting = registry.gauge("waiting_pods", "Pods in the queue")
        self.parked = registry.gauge("parked_pods", "Pods in the queue that fit no node now")
        self.oldest_s = registry.gauge("oldest_waiting_seconds", "Waiting time of the Pod that has waited longest")
        self.reserved = registry.gauge("reservations", "Pods placed that no advertisement covers yet")
        self.oldest_reservation_s = registry.gauge(
            "oldest_reservation_seconds", "Age of the oldest reservation whose Pod has not started"
        )

    def _add_nodes(self, registry: metrics.Metrics) -> None:
        """Add the metrics of nodes and their advertisements."""
        self.advertisements = registry.counter("advertisements", "Advertisements received")
        self.drops = registry.counter("dropped_messages", "Messages dropped, by reason", ["reason"])
        self.bad_objects = registry.counter("bad_objects", "API objects that could not be parsed", ["kind"])
        self.capacity = registry.gauge(
            "capacity_pods", "Advertised capacity of nodes that are fresh, ready and not cordoned"
        )
        self.free = registry.gauge("free_pods", "Free capacity of the same nodes: capacity less reserved Pods")
        self.nodes = registry.gauge("nodes", "Nodes by the age of their advertisement", ["freshness"])
        self.suspects = registry.gauge("suspect_nodes", "Nodes that do not account for a Pod that was placed on them")
        self.lost_rosters = registry.counter("lost_rosters", "Rosters of nodes that could not be published")
        self.lost_summaries = registry.counter(
            "lost_summaries", "Summaries of the cluster for the history that could not be published"
        )

    def _add_evictions(self, registry: metrics.Metrics) -> None:
        """Add the metrics of evictions and gangs."""
        self.preemptions = registry.counter(
            "preemptions", "Pods for which others were evicted, by whether they got the room", ["outcome"]
        )
        self.victims = registry.counter(
            "preemption_victims", "Pods evicted for one of higher priority, by the outcome of the request", ["outcome"]
        )
        self.gangs = registry.counter("gangs", "Gangs that became complete or were given back, by outcome", ["outcome"])
        self.gang_evictions = registry.counter(
            "gang_evictions", "Pods evicted since their gang stayed incomplete, by the outcome of the request",
            ["outcome"],
        )  # fmt: skip

    def _add_sharing(self, registry: metrics.Metrics) -> None:
        """Add the metrics of who leads, and schedulers that share the work."""
        self.leading = registry.gauge("leading", "1 if this scheduler leads and binds, 0 if it is a standby")
        self.terms = registry.counter("terms", "Times this scheduler began to lead")
        self.waited_for = registry.counter(
            "handover_pods", "Binds of the previous leader that a new leader waited to see"
        )
        self.members = registry.gauge("members", "Schedulers that share the work now; 0 if one leads")
        self.other_mode = registry.gauge(
            "other_mode", "1 while this scheduler stops since another one has another CARICO_SCHEDULER_SHARING"
        )
        self.claims = registry.counter(
            "claims", "Claims of room on nodes: stored, in conflict, or given up for a reason", ["outcome"]
        )
        self.orphan_claims = registry.counter(
            "orphan_claims", "Claims that the janitor ended: their Pods were not bound"
        )
        self.held_claims = registry.gauge(
            "held_claims", "Claims of other schedulers whose Pods are not shown as bound yet"
        )
        self.corrected = registry.counter(
            "corrected_pods", "Pods of other schedulers that this one took over as the holder of the Lease"
        )

    def _add_extender(self, registry: metrics.Metrics) -> None:
        """Add the metrics of the extender."""
        self.extender_requests = registry.counter(
            "extender_requests", "Requests from kube-scheduler, by verb and HTTP status", ["verb", "status"]
        )
        self.extender_s = registry.histogram(
            "extender_seconds", "Time to answer kube-scheduler", buckets=_SECONDS, labels=["verb"]
        )
        self.extender_binds = registry.counter("extender_binds", "Binds for kube-scheduler, by outcome", ["fate"])
        self.extender_holds = registry.gauge("extender_holds", "Pods between kube-scheduler's filter and its bind")

    def count_rejections(self, facts: decisions.Facts) -> None:
        """Count the nodes that a recorded decision refused."""
        for reason, count in facts.refused.items():
            self.rejections.labels(reason).inc(count)

    def count_queue(self, queue: queues.Queue, now_s: float) -> None:
        """Set the gauges of waiting Pods."""
        self.waiting.set(len(queue))
        self.parked.set(len(queue.parked()))
        self.oldest_s.set(max((now_s - each.began_s for each in queue), default=0.0))

    def count_reservations(self, found: reservations.Reservations, now_s: float) -> None:
        """Set the gauges of reserved Pods."""
        self.reserved.set(found.reserved_count)
        self.oldest_reservation_s.set(max(now_s - found.oldest_pending_s(), 0.0))

    def count_nodes(self, view: snapshot.Snapshot) -> None:
        """Set the gauges of nodes by freshness, of suspect nodes, and of capacity."""
        age_s = view.now_s - view.sampled_s
        absent = age_s > view.policy.lease_s
        stale = ~absent & (age_s > freshness.AGEING_S)
        ageing = ~absent & ~stale & (age_s > freshness.FRESH_S)
        usable = view.present & ~absent & ~stale
        for kind, among in (
            (freshness.Freshness.FRESH, usable & ~ageing),
            (freshness.Freshness.AGEING, ageing),
            (freshness.Freshness.STALE, stale),
            (freshness.Freshness.ABSENT, absent),
        ):
            self.nodes.labels(kind.value).set(int((view.present & among).sum()))
        self.suspects.set(int((view.present & admission.are_suspect(view)).sum()))
        takes = usable & view.ready & view.schedulable
        self.capacity.set(float(view.capacity[takes].sum()))
        self.free.set(float((view.capacity - view.reserved).clip(0.0)[takes].sum()))
