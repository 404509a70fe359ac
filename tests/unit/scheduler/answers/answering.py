"""A scheduler's state and its answers, for tests of what is said and of how it is shown."""

import collections
import random
from typing import Any

import orjson

from carico_core.domain import cluster, errors, messages
from carico_core.runtime.process import clock as clocks
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.answers import known, queries
from carico_scheduler.decide import cycle
from carico_scheduler.report import decisions, explain
from carico_scheduler.rules import policy
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects

NOW_S = 1000.0


class Desk:
    """A scheduler's state, and its answers."""

    def __init__(
        self, *nodes: cluster.Node, rules: policy.Policy | None = None, is_shared: bool = False
    ) -> None:  # fmt: skip
        self.clock = clocks.FakeClock(monotonic_s=NOW_S)
        self.policy = rules or policy.Policy()
        self.state = state.State(self.policy, random.Random(0))
        self.state.put_nodes(nodes or [objects.make_node()])
        self.log = decisions.Log(
            boot=objects.BOOT, threshold=1.0, clock=self.clock, on_record=lambda _: None, on_drop=lambda: None
        )
        self.leader: str | None = None
        self.away: dict[str, str] = {}
        self.silent_s: float | None = None
        self.cycle = cycle.Cycle(self.policy)
        self.answers = queries.Answers(
            known=known.Known(
                state=self.state, log=self.log, cycle=cycle.Cycle(self.policy), lease_s=10.0, is_shared=is_shared
            ),
            clock=self.clock, led_by=lambda: self.leader, away=lambda: self.away, silent_s=self._silent_s,
        )  # fmt: skip

    async def _silent_s(self) -> float | None:
        return self.silent_s

    def hear(self, node: str = "node-0", capacity: float = 4.0, age_s: float = 0.0, **changes: Any) -> None:
        """An advertisement of a node arrives."""
        made = objects.make_advertisement(node, capacity, **changes)
        self.state.put_advertisement(node_state.Heard(advertisement=made, sampled_s=NOW_S - age_s), NOW_S)

    def hear_cost(self, node: str, room: dict[str, float], classes: dict[str, dict[str, float]], **more: Any) -> None:
        """The same of our own modes: headroom, and costs by class."""
        costs = {name: messages.ClassCapacity(cost_plus=cost, pods=0) for name, cost in classes.items()}
        typical = {name: messages.Estimate(mean=0.9 * cost, sd=0.1 * cost) for name, cost in classes["*"].items()}
        self.hear(node, headroom=room, classes=costs, cost=typical, **more)

    def decide(self, most: int = 10_000) -> collections.Counter[str]:
        """Runs a cycle as the engine does, with records; Pods placed by node."""
        view = self.state.fleet.snapshot(NOW_S)
        outcome = self.cycle.run(view, self.state.queue, most=most)
        facts = [explain.facts_of(each, 1.0) for each in outcome.placed]
        for placed, each in zip(outcome.placed, facts, strict=True):
            placed.waiting.attempts += 1
            self.state.assume(placed.waiting, placed.row.node.name, NOW_S)
            self.log.record(placed.waiting, each)
        return collections.Counter(each.row.node.name for each in outcome.placed)

    async def ask(self, verb: str, **question: Any) -> dict[str, Any]:
        """The answer to a question."""
        answer: dict[str, Any] = orjson.loads(await self.answers.endpoints()[verb](orjson.dumps(question)))
        return answer


class DeskBus:
    """A bus on which a desk answers, as long as `is_answered`; `kept` are the records of its stream."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.is_answered = True
        self.kept: list[tuple[str, bytes]] = []

    async def request(self, subject: str, payload: bytes, *, timeout_s: float) -> bytes:
        """The answer, or the error that NATS's services framework carries."""
        asked = subjects.query("scheduler", "x").removesuffix("x")
        if not self.is_answered or not subject.startswith(asked):
            raise errors.BusUnavailable(f"{subject}: no responders")
        verb = subject.removeprefix(asked)
        try:
            return await self.desk.answers.endpoints()[verb](payload)
        except errors.CaricoError as error:
            raise errors.BusError(f"{subject}: {error}") from None

    async def recent_decisions(self, namespace: str | None, pod: str | None, limit: int) -> list[tuple[str, bytes]]:
        """What was kept of one Pod."""
        assert namespace is not None and pod is not None
        return [each for each in self.kept if each[0] == subjects.decision(namespace, pod)][-limit:]

    def keep(self, namespace: str, pod: str) -> None:
        """The newest record of a Pod is on the stream."""
        found = self.desk.log.latest(namespace, pod)
        assert found is not None
        self.kept.append((subjects.decision(namespace, pod), wire.encode_decision(found)))
