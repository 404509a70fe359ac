"""A run: nodes, services and jobs in virtual time, put together from a scenario and a choice of scheduler."""

import collections
import contextlib
import dataclasses
import functools
import gc
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from carico_core.domain import messages
from carico_core.numerics import backoff
from carico_scheduler.rules import policy as policies
from carico_twin import agents, aggregator, records, scenario, virtual_time
from carico_twin.nodes import kubelet
from carico_twin.nodes import work as works
from carico_twin.schedulers import carico, load_aware, oracle, port, slots

# Delay of the API's watches, and from a scheduler's wake-up to its decision.
API_S = 0.01
WAKE_S = 0.001
# Duration of a bind through the API.
BIND_S = 0.02
CLOCK_OFFSET_SD_S = 0.02
# The Job controller's backoff after failed Pods (kubernetes.io/docs/concepts/workloads/controllers/job, "Pod backoff
# failure policy"): 10 s doubling to 6 minutes. The limit of failures is not modelled: every job completes.
RETRY_FIRST_S = 10.0
RETRY_MOST_S = 360.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CaricoOptions:
    """CARICO's settings: agents, merge (None: no aggregator), the scheduler's policy."""

    agent: agents.AgentOptions = dataclasses.field(default_factory=agents.AgentOptions)
    merge: str | None = "round"
    policy: policies.Policy = dataclasses.field(default_factory=policies.Policy)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ConstantOptions:
    """A constant number of Pods per core."""

    pods_per_core: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OracleOptions:
    """True costs, up to this many runnable tasks per core."""

    tasks_per_core: float = 1.0


Choice = CaricoOptions | slots.KubeOptions | ConstantOptions | load_aware.LoadAwareOptions | OracleOptions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """The result of a run. `finished`: every Pod ended before the limit of virtual time."""

    scenario: scenario.Scenario
    pods: Sequence[records.PodRecord]
    nodes: Sequence[records.NodeRecord]
    finished: bool
    end_s: float
    overruns: int
    lost: int


class World:
    """One cluster in virtual time; see `run`."""

    def __init__(self, plan: scenario.Scenario, choice: Choice, seed: int) -> None:
        self._plan = plan
        self._timeline = virtual_time.Timeline()
        seeds = np.random.SeedSequence(seed).spawn(6)
        self._rngs = [np.random.default_rng(each) for each in seeds]
        self._watchers = kubelet.Watchers()
        self.pods: list[records.PodRecord] = []
        # Called with each bind as it is decided, before anything else happens.
        self.on_bind: list[Callable[[records.PodRecord], None]] = []
        # Called with each message of an agent as it is sent.
        self.on_message: list[Callable[[agents.Said], None]] = []
        self._liars = {records.node_name(each.node): each for each in plan.lying_agents}
        self._left = 0
        self._overruns = 0
        self._woken = False
        # Per job the number of failed Pods since one last succeeded.
        self._failures: collections.Counter[str] = collections.Counter()
        self._nodes = self._make_nodes(plan, self._rngs[0])
        self._bus = virtual_time.Network(plan.link, self._timeline, self._rngs[1])
        self.agents: list[agents.TwinAgent] = []
        self.aggregator: aggregator.TwinAggregator | None = None
        self.scheduler = self._make_scheduler(choice)
        self._watchers.terminal.append(self._on_terminal)
        self._plan_events()

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return self._timeline.now_s

    @property
    def nodes(self) -> Sequence[kubelet.TwinNode]:
        """The nodes."""
        return self._nodes

    @property
    def left(self) -> int:
        """The number of Pods that have not completed."""
        return self._left

    @property
    def event_count(self) -> int:
        """The number of events so far."""
        return self._timeline.events

    def bind(self, record: records.PodRecord, node: int, *, overrun: bool = False) -> None:
        """Bind a Pod through the API."""
        record.node = node
        record.binds += 1
        record.bound_s = self.now_s
        self._overruns += overrun
        for callback in self.on_bind:
            callback(record)
        self._timeline.after(BIND_S + self._plan.runtime.hear_s, lambda: self._nodes[node].bind(record))

    def run(self) -> Run:
        """Run until every Pod that can end has ended, or to the limit of virtual time; return the result."""
        with no_garbage_collection():
            finished = self._timeline.run(until_s=self._plan.limit_s, done=lambda: self._left == 0)
        for node in self._nodes:
            node.settle()
        return Run(
            scenario=self._plan, pods=self.pods, nodes=[node.record for node in self._nodes], finished=finished,
            end_s=self.now_s, overruns=self._overruns, lost=self._bus.lost,
        )  # fmt: skip

    def run_until(self, when_s: float) -> None:
        """Run up to this instant, for tests that inspect a run in between."""
        with no_garbage_collection():
            self._timeline.run(until_s=when_s, done=lambda: False)
            for agent in self.agents:
                agent.catch_up(self.now_s)

    def _make_nodes(self, plan: scenario.Scenario, rng: np.random.Generator) -> list[kubelet.TwinNode]:
        made = [
            kubelet.TwinNode(index, hardware, plan.runtime, self._timeline, self._watchers, rng, kills=plan.oom_kills)
            for index, hardware in enumerate(plan.hardware)
        ]
        for index, when_s in plan.nodes_join_at_s:
            made[index].is_up = False
            self._timeline.at(when_s, functools.partial(self._join, index))
        return made

    def _make_scheduler(self, choice: Choice) -> port.TwinScheduler:
        match choice:
            case CaricoOptions():
                return self._make_carico(choice)
            case load_aware.LoadAwareOptions():
                return load_aware.LoadAware(self, choice, self._timeline, self._rngs[2])
            case slots.KubeOptions():
                return slots.KubeScheduler(self, choice, self._rngs[2])
            case ConstantOptions():
                return slots.Constant(self, pods_per_core=choice.pods_per_core)
            case OracleOptions():
                made = oracle.Oracle(self, tasks_per_core=choice.tasks_per_core)
                self._watchers.exited.append(lambda _, record: self._notify(lambda: made.exited(record), delay_s=0.0))
                return made

    def _make_carico(self, options: CaricoOptions) -> carico.Carico:
        scheduler = carico.Carico(self, options.policy, seed=int(self._rngs[2].integers(2**31)))
        if options.merge is not None:
            self.aggregator = aggregator.TwinAggregator(options.merge, self._timeline, self._broadcast)
        offsets = self._rngs[3].standard_normal(len(self._nodes)) * CLOCK_OFFSET_SD_S
        dead = set(self._rngs[3].permutation(len(self._nodes))[: round(self._plan.dead_agents * len(self._nodes))])
        watchers = self._watchers
        for index, node in enumerate(self._nodes):
            rng = np.random.default_rng(self._rngs[4].integers(2**63))
            agent = agents.TwinAgent(node, options.agent, self._timeline, rng, self._on_message, offsets[index])
            agent.alive = index not in dead
            self.agents.append(agent)
        watchers.created.append(lambda index, record: self.agents[index].created(record))
        watchers.started.append(lambda index, record: self.agents[index].started(record))
        watchers.exited.append(lambda index, record: self.agents[index].exited(record))
        watchers.terminal.append(lambda index, record: self.agents[index].removed(record))
        report_s = self._plan.runtime.report_s + API_S
        watchers.started.append(lambda _, record: self._notify(lambda: scheduler.started(record), delay_s=report_s))
        for index, when_s in self._plan.agents_die_at_s:
            self._timeline.at(when_s, self.agents[index].silence)
        return scheduler

    def _join(self, index: int) -> None:
        self._nodes[index].is_up = True
        if self.agents:
            self.agents[index].begin()
        self._notify(lambda: self.scheduler.joined(index))

    def _plan_events(self) -> None:
        plan = self._plan
        for job in plan.jobs:
            for number in range(job.pods):
                at_s, work = job.arrival(number)
                self._timeline.at(at_s, functools.partial(self._create, job, number, work))
            self._left += 0 if job.work.lifetime_s is not None and job.work.lifetime_s >= plan.limit_s else job.pods
        for neighbour in plan.neighbours:
            node = self._nodes[neighbour.node]
            self._timeline.at(neighbour.at_s, functools.partial(node.disturb, neighbour.tasks))
            self._timeline.at(neighbour.until_s, functools.partial(node.disturb, -neighbour.tasks))

    def _create(self, job: scenario.Job, number: int, work: works.Work) -> None:
        spread = 1.0 + work.spread * float(np.clip(self._rngs[5].standard_normal(), -3.0, 3.0))
        record = records.PodRecord(
            uid=f"{job.name}-{number}", job=job.name, work=work, cpu_s=(work.cpu_s or 0.0) * spread,
            created_s=self.now_s, request_cores=job.request_cores, request_bytes=job.request_bytes,
        )  # fmt: skip
        self.pods.append(record)
        self._notify(lambda: self.scheduler.offer(record))

    def _on_terminal(self, _: int, record: records.PodRecord) -> None:
        if record.failed:
            self._retry(record)
        else:
            self._failures[record.job] = 0
            self._left -= 1
        self._notify(lambda: self.scheduler.ended(record))

    def _retry(self, record: records.PodRecord) -> None:
        """Let the Job replace a failed Pod, with a backoff by the number of failures in a row."""
        job = next(each for each in self._plan.jobs if each.name == record.job)
        after_s = backoff.doubled_s(self._failures[job.name], first_s=RETRY_FIRST_S, most_s=RETRY_MOST_S)
        self._failures[job.name] += 1
        self._timeline.after(after_s, functools.partial(self._create, job, job.pods + len(self.pods), record.work))

    def _on_message(self, agent: agents.TwinAgent, said: agents.Said) -> None:
        """Send a message as a record: a test shows that encoding and decoding preserve it."""
        for callback in self.on_message:
            callback(said)
        if isinstance(said, messages.Advertisement):
            scheduler = self.scheduler
            assert isinstance(scheduler, carico.Carico)
            liar = self._liars.get(agent.name)
            heard = said if liar is None else agents.boast(said, covers=liar.covers)
            self._bus.send(lambda: self._wake_after(lambda: scheduler.hear(heard)))
        elif self.aggregator is not None:
            found = self.aggregator
            self._bus.send(lambda: found.hear(said))

    def _broadcast(self, model: messages.GlobalModel) -> None:
        for agent in self.agents:
            self._bus.send(functools.partial(agent.hear_model, model))

    def _notify(self, action: virtual_time.Action, *, delay_s: float = API_S) -> None:
        self._timeline.after(delay_s, lambda: self._wake_after(action))

    def _wake_after(self, action: virtual_time.Action) -> None:
        action()
        if not self._woken:
            self._woken = True
            self._timeline.after(WAKE_S, self._wake)

    def _wake(self) -> None:
        self._woken = False
        self.scheduler.step()


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector: a run leaves no cycles, and collection takes a tenth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def run(plan: scenario.Scenario, choice: Choice, *, seed: int) -> Run:
    """Run a scenario under a scheduler; the same seed gives the same result."""
    return World(plan, choice, seed).run()
