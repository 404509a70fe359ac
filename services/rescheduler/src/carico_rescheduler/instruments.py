"""The metrics of the rescheduler: carico_rescheduler_..."""

from carico_core.runtime.observe import metrics

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_MOVE_SECONDS = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Instruments:
    """Every metric of one rescheduler."""

    def __init__(self, registry: metrics.Metrics) -> None:
        self.plans = registry.counter("plans", "Plans made, by whether they have moves", ["outcome"])
        self.plan_s = registry.histogram("plan_seconds", "Time to make a plan", buckets=_SECONDS)
        self.planned = registry.gauge("planned_moves", "Moves of the last plan")
        self.skipped = registry.gauge("skipped_pods", "Pods that may not move, by reason", ["reason"])
        self.left_out = registry.gauge("left_out_moves", "Moves that the last plan leaves out, by reason", ["reason"])
        self.withdrawn = registry.counter(
            "withdrawn_moves", "Planned moves that were not begun since the cluster had changed, by reason", ["reason"]
        )
        self.moves = registry.counter("moves", "Moves that ended, by mode and outcome", ["mode", "outcome"])
        self.move_s = registry.histogram(
            "move_seconds", "Time of a move, until the old Pod is gone", buckets=_MOVE_SECONDS
        )
        self.under_way = registry.gauge("moves_under_way", "Moves that have begun and not ended")
        self.recovered = registry.counter(
            "recovered_moves", "Moves of an earlier process that were finished or undone, by outcome", ["outcome"]
        )
        self.traffic = registry.gauge("node_traffic_bytes", "Bytes per second between Pods on different nodes")
        self.unresolved = registry.gauge(
            "unresolved_traffic_bytes", "Bytes per second that agents report of which one end is no known Pod"
        )
        self.excess = registry.gauge("overload_tasks", "Tasks above the ceiling, of all nodes")
        self.predicted = registry.counter(
            "predicted_gain", "Gain, in tasks above the ceiling, that plans predicted for moves that were made"
        )
        self.measured = registry.counter("measured_gain", "Gain that was measured after these moves, where above 0")
        self.paused = registry.gauge("paused", "1 while moves are paused")
        self.leading = registry.gauge("leading", "1 while this replica leads")
        self.bad_objects = registry.counter("bad_objects", "API objects that could not be parsed", ["kind"])
        self.drops = registry.counter("dropped_messages", "Messages dropped, by kind and reason", ["kind", "reason"])
