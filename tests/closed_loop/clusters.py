"""Small clusters of the twin drawn at random, and a watch on every bind in them.

What the watch says about a bind is worked out from the bytes of the advertisement and the lives of the Pods alone,
by none of the scheduler's own functions.
"""

import collections
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import hypothesis
from hypothesis import strategies as st

from carico_core.domain import messages
from carico_core.numerics.estimators import base
from carico_scheduler.rules import policy as policies
from carico_twin import agents, records, scenario, virtual_time, world
from carico_twin.nodes import machine, work
from carico_twin.schedulers import carico

# The same draws on every run: what fails here fails for everybody.
REPEATED = hypothesis.settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=10,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate, hypothesis.Phase.shrink),
)
HARDWARE = tuple(machine.Hardware(cores=cores, memory_bytes=2.0 * cores * work.GIB) for cores in (2.0, 4.0, 8.0))
SHORT_SERVER = work.Work(name="server", threads=0.02, lifetime_s=40.0)
KINDS = (
    work.PI, work.QUARTER_CORE, work.FOUR_THREADS, work.SKLEARN, work.HOLDS_MEMORY, work.GROWS_MEMORY, work.LIMITED,
    SHORT_SERVER,
)  # fmt: skip
# Nodes are looked at empty before the first Pod is created.
FIRST_POD_S = 5.0
STEP_S = 0.1
# The longest job that is drawn takes about 400 s.
LIMIT_S = 1200.0


@st.composite
def jobs(draw: st.DrawFn, *, kinds: Sequence[work.Work] = KINDS) -> tuple[scenario.Job, ...]:
    """One to three jobs of distinct kinds, 10 to 60 Pods in all, at once or one after another."""
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3, unique_by=lambda kind: kind.name))
    left = draw(st.integers(10, 60))
    made = []
    for number, kind in enumerate(chosen):
        pods = left if number == len(chosen) - 1 else draw(st.integers(1, left - (len(chosen) - 1 - number)))
        left -= pods
        at_s = FIRST_POD_S + (0.0 if number == 0 else draw(st.sampled_from((0.0, 3.0, 20.0))))
        rate = draw(st.sampled_from((None, 2.0, 20.0)))
        made.append(scenario.Job(name=kind.name, work=kind, pods=pods, at_s=at_s, create_per_s=rate))
    return tuple(made)


@st.composite
def plans(
    draw: st.DrawFn, *, kinds: Sequence[work.Work] = KINDS, most_delay_s: float = 3.0, most_loss: float = 0.3
) -> scenario.Scenario:
    """Two to five nodes of 2 to 8 cores, some jobs, and a bus that is late and loses messages."""
    link = virtual_time.Link(
        delay_s=draw(st.sampled_from((0.0, 0.05, 1.0, 3.0)).filter(lambda delay_s: delay_s <= most_delay_s)),
        loss=draw(st.sampled_from((0.0, 0.1, 0.3)).filter(lambda loss: loss <= most_loss)),
    )
    hardware = draw(st.lists(st.sampled_from(HARDWARE), min_size=2, max_size=5))
    return scenario.Scenario(
        name="drawn", hardware=tuple(hardware), jobs=draw(jobs(kinds=kinds)), link=link, limit_s=LIMIT_S
    )


SEEDS = st.integers(0, 1000)


def options(estimator: str = "footprint", **rules: Any) -> world.CaricoOptions:
    """CARICO with this estimator, and these fields of its policy."""
    policy = dataclasses.replace(policies.Policy(), **rules)
    return world.CaricoOptions(agent=agents.AgentOptions(estimator=estimator), policy=policy)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bind:
    """A bind as it was decided: by which advertisement, and next to which Pods that were alive in the API."""

    record: records.PodRecord
    at_s: float
    said: messages.Advertisement
    neighbours: tuple[records.PodRecord, ...]

    @property
    def reserved(self) -> tuple[records.PodRecord, ...]:
        """Return those of its neighbours that the node did not know of."""
        return tuple(pod for pod in self.neighbours if pod.uid not in self.said.covers)


class Watched:
    """A world whose binds are written down."""

    def __init__(self, plan: scenario.Scenario, choice: world.CaricoOptions, seed: int) -> None:
        self.plan = plan
        self.world = world.World(plan, choice, seed)
        self.binds: list[Bind] = []
        self.world.on_bind.append(self._bound)

    @property
    def pods(self) -> int:
        """Pods that the plan's jobs create in all."""
        return sum(job.pods for job in self.plan.jobs)

    def done(self) -> bool:
        """True where every Pod was created and has ended as the API shows it."""
        found = self.world.pods
        return len(found) == self.pods and not any(math.isnan(pod.terminal_s) for pod in found)

    def said(self, node: int) -> messages.Advertisement:
        """The newest advertisement of a node that the scheduler has taken in."""
        scheduler = self.world.scheduler
        assert isinstance(scheduler, carico.Carico)
        return scheduler.state.heard[records.node_name(node)].advertisement

    def free(self, node: int, job: str) -> float:
        """Pods of a job's class that a node says it takes, with nothing reserved."""
        return free_pods(self.said(node), class_name(job), ())

    def place(self, node: int, kind: work.Work, count: int, *, job: str) -> None:
        """Binds Pods to a node, whatever the scheduler thinks of it."""
        for number in range(count):
            uid = f"{job}-{node}-{number}"
            made = records.PodRecord(
                uid=uid, job=job, work=kind, cpu_s=kind.cpu_s or 0.0, created_s=self.world.now_s
            )  # fmt: skip
            self.world.bind(made, node)

    def _bound(self, record: records.PodRecord) -> None:
        if record not in self.world.pods:
            return
        now_s = self.world.now_s
        neighbours = tuple(
            pod
            for pod in self.world.pods
            if pod.node == record.node and pod is not record and not pod.terminal_s + world.API_S <= now_s
        )
        self.binds.append(Bind(record=record, at_s=now_s, said=self.said(record.node), neighbours=neighbours))


def step_through(watched: Watched, look: Callable[[float], None]) -> None:
    """Runs until every Pod has ended, and calls `look` with the time after each step."""
    for step in range(round(LIMIT_S / STEP_S)):
        watched.world.run_until(step * STEP_S)
        look(step * STEP_S)
        if watched.done():
            return
    raise AssertionError(f"Pods left after {LIMIT_S:g} s")


def idle_plan(nodes: int, hardware: machine.Hardware = HARDWARE[1]) -> scenario.Scenario:
    """A cluster with nothing to schedule, for tests that place Pods themselves."""
    never = scenario.Job(name="never", work=work.PI, pods=1, at_s=1e6)
    return scenario.Scenario(name="idle", hardware=(hardware,) * nodes, jobs=(never,), limit_s=1e5)


def class_name(job: str) -> str:
    """The class of a job's Pods."""
    return f"Job/default/{job}"


def free_pods(said: messages.Advertisement, pod_class: str, reserved: Sequence[records.PodRecord]) -> float:
    """Pods of a class that fit by an advertisement next to reserved ones."""
    left = _left(said, pod_class, collections.Counter(class_name(pod.job) for pod in reserved))
    if said.pods == 0 and not reserved:
        # An empty node takes one.
        left = max(left, min(said.capacity, 1.0))
    return left if said.limit is None else min(left, said.limit - said.pods - len(reserved))


def _left(said: messages.Advertisement, pod_class: str, reserved: Mapping[str, int]) -> float:
    if said.headroom is None or said.classes is None:
        # The paper's modes state Pods.
        return said.capacity - sum(reserved.values())
    general = said.classes.get(messages.ANY_CLASS, said.classes.get(messages.NEW_CLASS))
    assert general is not None
    wanted = said.classes.get(pod_class, general).cost_plus
    # min_i (H_i - sum of reserved c+) / c+_k,i
    return min(
        (room - sum(n * said.classes.get(name, general).cost_plus[dim] for name, n in reserved.items())) / wanted[dim]
        for dim, room in said.headroom.items()
        if wanted[dim] > 0.0
    )


def ceiling_tasks(cores: float) -> float:
    """Runnable tasks at the default ceiling for CPU."""
    return base.DEFAULT_CEILING["cpu"] * 2.0 * cores
