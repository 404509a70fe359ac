"""The scenarios that schedulers are compared on: the dissertation's jobs, and faults of real clusters.

Unless stated otherwise on 19 nodes of 4 cores and 8 GB, like the dissertation's cluster. Each scenario isolates one way
in which an estimator fails.
"""

import dataclasses
from collections.abc import Mapping

from carico_twin import scenario, virtual_time
from carico_twin.nodes import machine, work

NODES = 19
FOUR_CORES = (machine.Hardware(),) * NODES
# The exact requests for each kind of work: CPU and memory, as an operator who measured the Pods would set them.
EXACT: Mapping[str, tuple[float, float]] = {
    "pi": (1.0, 0.0),
    "sklearn": (1.0, 0.75 * work.GIB),
    "holds": (1.0, 1.5 * work.GIB),
    "grows": (1.0, 1.5 * work.GIB),
    "quarter": (0.25, 0.0),
    "fourfold": (4.0, 0.0),
    "server": (0.05, 0.0),
    "wave": (0.25, 0.0),
    "limited": (0.2, 0.0),
    # What they use on average, and the most memory.
    **{kind.name: (round(kind.threads, 2), kind.memory_bytes) for kind in work.WAITING},
}


def job(kind: work.Work, pods: int, *, at_s: float = 0.0, name: str | None = None) -> scenario.Job:
    """Return a job of one kind that requests exactly what its Pods use."""
    cores, size = EXACT[kind.name]
    return scenario.Job(
        name=name or kind.name, work=kind, pods=pods, at_s=at_s, request_cores=cores, request_bytes=size
    )


def _plan(name: str, *jobs: scenario.Job, **changes: object) -> scenario.Scenario:
    made = scenario.Scenario(name=name, hardware=FOUR_CORES, jobs=jobs)
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]  # names are the fields'


def pi(pods: int) -> scenario.Scenario:
    """Return the dissertation's job of CPU Pods, on a cluster that has not run such Pods before."""
    return _plan(f"pi-{pods}", job(work.PI, pods))


def train(pods: int) -> scenario.Scenario:
    """Return the dissertation's memory-heavy job (sklearn)."""
    return _plan(f"train-{pods}", job(work.SKLEARN, pods))


def mixed(pis: int, trains: int) -> scenario.Scenario:
    """Return both jobs at once."""
    return _plan(f"mixed-{pis}+{trains}", job(work.PI, pis), job(work.SKLEARN, trains))


def known(pods: int) -> scenario.Scenario:
    """Return pi on a cluster that ran pi before: a job of 38 Pods ends, and 30 s later the measured one starts."""
    first = job(work.PI, 38, name="pi-28391040")
    return _plan(f"known-pi-{pods}", first, job(work.PI, pods, at_s=45.0), measured=("pi",))


def isolation() -> scenario.Scenario:
    """Return a server on every node, then a job of pi."""
    return _plan("isolation", job(work.SERVER, NODES), job(work.PI, 1000, at_s=20.0))


def wave() -> scenario.Scenario:
    """Return idle servers that all become busy in the middle of a job."""
    server = dataclasses.replace(work.SERVER, name="wave", busy_at_s=60.0, busy_threads=0.25)
    return _plan("idle-then-wave", job(server, 190), job(work.PI, 500, at_s=30.0), limit_s=600.0)


def late_memory() -> scenario.Scenario:
    """Return a job of Pods that hold memory, starting while pi runs."""
    return _plan("late-memory", job(work.PI, 500), job(work.HOLDS_MEMORY, 100, at_s=20.0))


def unequal() -> scenario.Scenario:
    """Return nodes of 2, 4, 8 and 16 cores, and 1000 pi Pods."""
    sizes = (2.0, 4.0, 8.0, 16.0)
    hardware = tuple(machine.Hardware(cores=c, memory_bytes=2.0 * c * work.GIB) for c in sizes for _ in range(4))
    return _plan("unequal-nodes", job(work.PI, 1000), hardware=hardware)


def neighbour() -> scenario.Scenario:
    """Return pi with work outside Kubernetes on every third node."""
    noise = tuple(scenario.Neighbour(node=index, tasks=2.0, at_s=10.0, until_s=40.0) for index in range(0, NODES, 3))
    return _plan("noisy-neighbour", job(work.PI, 500), neighbours=noise)


def joining() -> scenario.Scenario:
    """Return pi on a cluster where a tenth of the nodes joins in the middle of the job."""
    joins = tuple((index, 30.0) for index in range(NODES - round(0.1 * NODES), NODES))
    return _plan("nodes-join", job(work.PI, 1000), nodes_join_at_s=joins)


def newcomer() -> scenario.Scenario:
    """Return pi on a cluster that has run pi, plus one node that joined later and has not run anything."""
    return dataclasses.replace(known(250), name="a node that never saw work", nodes_join_at_s=((NODES - 1, 30.0),))


def linked(name: str, *, delay_s: float, loss: float = 0.0) -> scenario.Scenario:
    """Return pi-500 on a bus that is slow or loses messages."""
    return _plan(name, job(work.PI, 500), link=virtual_time.Link(delay_s=delay_s, loss=loss))


def waiting() -> list[scenario.Scenario]:
    """Return programs that wait: of one kind, of all kinds, and of all kinds next to pi."""
    mix = (job(work.IO, 200), job(work.STAGES, 60), job(work.BOOT, 100), job(work.CACHE, 80))
    return [
        _plan("waiting-io", job(work.IO, 500)),
        _plan("waiting-mix", *mix),
        _plan("waiting-mix+pi", *mix, job(work.PI, 200)),
    ]


def all_scenarios() -> dict[str, scenario.Scenario]:
    """Return every scenario by name, in the order of the tables."""
    plans = [
        pi(100), pi(250), pi(500), pi(750), pi(1000), known(250),
        train(100), train(200), mixed(500, 20), mixed(250, 50), mixed(100, 100),
        _plan("memory-held", job(work.HOLDS_MEMORY, 200)),
        _plan("memory-grows", job(work.GROWS_MEMORY, 200)),
        _plan("two-kinds", job(work.QUARTER_CORE, 400), job(work.PI, 400)),
        unequal(), neighbour(), wave(), isolation(),
        linked("late-0.05s-10%-lost", delay_s=0.05, loss=0.1), linked("late-1s", delay_s=1.0),
        linked("late-3s", delay_s=3.0),
        late_memory(), _plan("four-threads", job(work.FOUR_THREADS, 200)), _plan("limited", job(work.LIMITED, 400)),
        _plan("dead-agents", job(work.PI, 500), dead_agents=0.1), joining(),
        # As in figure 5.1 of the dissertation: Pods with too small requests get killed.
        _plan("out-of-memory", job(work.HOLDS_MEMORY, 200), oom_kills=True),
    ]  # fmt: skip
    return {plan.name: plan for plan in plans}
