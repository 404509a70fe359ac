"""CARICO's scheduler in the twin: the service's own state and cycle, fed by messages and the API."""

import random

from carico_core.domain import messages
from carico_scheduler.decide import cycle, turns
from carico_scheduler.intake import advertisements
from carico_scheduler.rules import policy
from carico_scheduler.state import state
from carico_twin import records
from carico_twin.schedulers import port

BINDS_A_CYCLE = 32
# As the service reports (`engine.engine.REPORT_EVERY_S`).
TURNS_EVERY_S = 0.5


class Carico:
    """The scheduler service's state, intake and cycle."""

    def __init__(self, cluster: port.Cluster, rules: policy.Policy, seed: int) -> None:
        self._cluster = cluster
        self._rules = rules
        self.state = state.State(rules, random.Random(seed))
        self.intake = advertisements.Newest[messages.Advertisement](
            lease_s=rules.lease_s, on_drop=self._dropped, parse=lambda _, said: said
        )
        self.dropped: dict[str, int] = {}
        self._cycle = cycle.Cycle(rules)
        self._turns = turns.Turns(self.state.fleet, self.state.queue)
        self._turns_s = 0.0
        self._records: dict[str, records.PodRecord] = {}
        for index, node in enumerate(cluster.nodes):
            if node.is_up:
                self.joined(index)

    def offer(self, record: records.PodRecord) -> None:
        """Queue a Pod."""
        self._records[record.uid] = record
        self.state.put_pod(records.api_pod(record), self._cluster.now_s)

    def started(self, record: records.PodRecord) -> None:
        """Note that the API shows the Pod as running: from now on its node must account for it."""
        if record.uid in self._records:
            shown = records.api_pod(record, node=records.node_name(record.node), phase="Running")
            self.state.put_pod(shown, self._cluster.now_s)

    def ended(self, record: records.PodRecord) -> None:
        """Note that the API shows the Pod as terminal."""
        self._records.pop(record.uid, None)
        self.state.remove_pod(record.uid)

    def joined(self, node: int) -> None:
        """Note that the API shows a node."""
        hardware = self._cluster.nodes[node].machine.hardware
        self.state.put_node(records.api_node(node, cores=hardware.cores, size=hardware.memory_bytes))

    def hear(self, said: messages.Advertisement) -> None:
        """Take in an advertisement."""
        self.intake.store(said.node, said, self._cluster.now_s)

    def step(self) -> None:
        """Decode new advertisements, and run cycles until nothing more can be placed."""
        now_s = self._cluster.now_s
        for heard in self.intake.drain(most=100_000):
            self.state.put_advertisement(heard, now_s)
        if now_s - self._turns_s >= TURNS_EVERY_S:
            self._turns_s = now_s
            if self._turns.refresh(now_s):
                self.state.queue.unpark()
        while self.state.queue.may_take(now_s):
            outcome = self._cycle.run(
                self.state.fleet.snapshot(now_s),
                self.state.queue,
                most=BINDS_A_CYCLE,
                nominees=self._turns.nominees(),
                gangs=self.state.waiting_gangs,
            )
            for placed in outcome.placed:
                self._bind(placed, now_s)
            if len(outcome.placed) < BINDS_A_CYCLE:
                return

    def _bind(self, placed: cycle.Placement, now_s: float) -> None:
        uid, name = placed.waiting.pod.uid, placed.row.node.name
        record = self._records[uid]
        self.state.assume(placed.waiting, name, now_s)
        node = int(name.rpartition("-")[2])
        record.advertised_seq = placed.row.seq
        overrun = placed.free is None or placed.free < self._rules.threshold
        self._cluster.bind(record, node, overrun=overrun)
        self.state.put_pod(records.api_pod(record, node=name), now_s)

    def _dropped(self, subject: str, reason: str, detail: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
