"""Every scheduler setting that is compared, by name.

Ceilings are CPU shares on the agents' scale, on which 1 is two runnable tasks a core.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from carico_core.domain import errors
from carico_core.domain import names as domain_names
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base, delta, dual, joint, scalar
from carico_scheduler.rules import policy
from carico_twin import agents, world
from carico_twin.schedulers import load_aware, slots

# 0.5 is one runnable task per core: below it Pods do not compete with each other, only with the runtime's work at each
# start. At 0.35 (two Pods of one thread on four cores) there is room for that as well: the ceiling for isolation.
ISOLATION_CEILING = 0.35
CEILINGS = (ISOLATION_CEILING, 0.4, 0.45, 0.5, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
CONSTANTS = (0.75, 1.0, 1.25, 1.5, 2.0)
REQUESTS = (0.1, 0.2, 0.5, 0.7, 1.0)
# The logged initial values belong to a node whose idle signal is 1.3; a node of the twin, with 1/16 of its memory in
# use, starts at (1 - 1/16) / 1. Unscaled, no node would ever take its first Pod.
TWIN_IDLE_SIGNAL = 0.9375
PAPER = "paper"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A scheduler with its settings. family: settings of the same scheduler, among which the best is chosen."""

    name: str
    family: str
    choice: world.Choice
    says: str


def footprint(ceiling_cpu: float, **agent: object) -> Contender:
    """Return CARICO with its default settings, at this CPU ceiling."""
    options = dataclasses.replace(agents.AgentOptions(ceiling_cpu=ceiling_cpu), **agent)  # type: ignore[arg-type]  # names are fields
    return Contender(
        name=footprint_name(ceiling_cpu), family="footprint", choice=world.CaricoOptions(agent=options),
        says=f"CARICO, `footprint`, CPU ceiling {ceiling_cpu:g}",
    )  # fmt: skip


def footprint_name(ceiling_cpu: float) -> str:
    """Return the name of CARICO at this ceiling."""
    return f"footprint-{ceiling_cpu:.2f}"


# CARICO with all its default settings.
DEFAULT_CEILING = base.DEFAULT_CEILING["cpu"]
DEFAULT = footprint_name(DEFAULT_CEILING)


def kube(request_cores: float) -> Contender:
    """Return kube-scheduler with every Pod requesting this much CPU, and the memory that it needs."""
    milli = round(request_cores * 1000)
    return Contender(
        name=f"kube-{milli}m", family="kube", choice=slots.KubeOptions(request_cores=request_cores),
        says=f"kube-scheduler, every Pod requests {milli}m",
    )  # fmt: skip


def constant(pods_per_core: float) -> Contender:
    """Return a scheduler that places at most this many Pods per core."""
    return Contender(
        name=f"constant-{pods_per_core:g}", family="constant",
        choice=world.ConstantOptions(pods_per_core=pods_per_core), says=f"{pods_per_core:g} Pods a core",
    )  # fmt: skip


def all_contenders() -> dict[str, Contender]:
    """Return every contender by name, in the order of the tables."""
    found = [
        *(kube(cores) for cores in REQUESTS),
        Contender(
            name="kube-exact", family="kube", choice=slots.KubeOptions(),
            says="kube-scheduler, every Pod requests exactly what it uses",
        ),
        Contender(
            name="kube-most-allocated", family="kube", choice=slots.KubeOptions(strategy="MostAllocated"),
            says="kube-scheduler with MostAllocated, exact requests",
        ),
        Contender(
            name="kube-no-memory", family="kube", choice=slots.KubeOptions(request_cores=0.1, request_bytes=0.0),
            says="kube-scheduler, every Pod requests 100m and no memory",
        ),
        *(constant(each) for each in CONSTANTS),
        Contender(
            name="constant-2n-1", family="constant", choice=world.ConstantOptions(pods_per_core=1.75),
            says="1.75 Pods a core: 2n - 1 on nodes of two and four cores",
        ),
        Contender(
            name="trimaran", family="trimaran", choice=load_aware.LoadAwareOptions(way="trimaran"),
            says="Trimaran's TargetLoadPacking, exact requests",
        ),
        Contender(
            name="koordinator", family="koordinator", choice=load_aware.LoadAwareOptions(way="koordinator"),
            says="Koordinator's LoadAware, exact requests",
        ),
        Contender(name="oracle", family="oracle", choice=world.OracleOptions(), says="knows every Pod's true cost"),
        *(footprint(ceiling) for ceiling in sorted({*CEILINGS, DEFAULT_CEILING})),
        *_other_modes(),
    ]  # fmt: skip
    return {each.name: each for each in found}


def _other_modes() -> list[Contender]:
    return [
        paper(TWIN_IDLE_SIGNAL),
        *_scalars(),
        Contender(
            name="pronto", family="pronto",
            choice=world.CaricoOptions(agent=agents.AgentOptions(model="fpca")),
            says="CARICO, `footprint`, with PRONTO's model: while its Reject-Job is raised, a node takes no Pod",
        ),
        Contender(
            name="node-local", family="node-local", choice=world.CaricoOptions(merge=None),
            says="CARICO, `footprint`, each node on its own: no model of the cluster",
        ),
    ]  # fmt: skip


def _scalars() -> list[Contender]:
    """Return the paper's other two estimators, with everything around them as in CARICO today."""
    factor = TWIN_IDLE_SIGNAL / scalar.LOGGED_IDLE_SIGNAL
    chosen: dict[str, scalar.Constants] = {"delta": delta.DEFAULT, "joint": joint.DEFAULT}
    return [
        Contender(
            name=name, family=name,
            choice=world.CaricoOptions(agent=agents.AgentOptions(estimator=name, constants=constants.scaled(factor))),
            says=f"CARICO with the dissertation's estimator `{name}`",
        )
        for name, constants in chosen.items()
    ]  # fmt: skip


def paper(idle_signal: float, constants: dual.DualConstants = dual.PUBLISHED) -> Contender:
    """Return CARICO as the author ran it, on nodes that have this signal without Pods."""
    agent = agents.AgentOptions(
        estimator="dual", ceiling_cpu=1.0, ceiling_memory=1.0, publish_at_events=False,
        constants=constants.scaled(idle_signal / scalar.LOGGED_IDLE_SIGNAL),
    )  # fmt: skip
    return Contender(
        name=PAPER, family=PAPER,
        choice=world.CaricoOptions(agent=agent, merge="sequential", policy=policy.Policy(release=policy.Release.PAPER)),
        says="CARICO as the author ran it: `dual`, sequential merge, reservations released at start",
    )  # fmt: skip


def named(wanted: Iterable[str]) -> list[Contender]:
    """Return the contenders with these names or families, in the order of the tables; all if none is named.

    Raises `errors.SettingsError` for an unknown name, with the known ones.
    """
    every = all_contenders()
    names = list(wanted)
    families = {each.family for each in every.values()}
    for name in names:
        if name in estimators.GONE:
            raise errors.SettingsError(f"--scheduler: {name!r} was removed: {estimators.GONE[name]}")
        if name not in every and name not in families:
            raise unknown("--scheduler", name, [*every, *sorted(families - set(every))])
    return [each for each in every.values() if not names or each.name in names or each.family in names]


def unknown(kind: str, got: str, known: Sequence[str]) -> errors.SettingsError:
    """Return the error for an unknown name."""
    # The known names follow anyway: a hint is for a slip alone.
    near = domain_names.nearest(got, known, most=1, alike=0.75)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return errors.SettingsError(f"{kind}: got {got!r}{hint}, expected one of {', '.join(known)}")


def in_families(found: Mapping[str, Contender], family: str) -> list[str]:
    """Return the names of a family's contenders."""
    return [name for name, each in found.items() if each.family == family]
