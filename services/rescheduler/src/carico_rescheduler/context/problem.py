"""The problem of placing the Pods of a cluster: who is where, with which load, and where each may be.

Loads are runnable tasks: measured per Pod where agents report that, else the cost of the Pod's class on its node. What
belongs to a node itself is one more container of it that does not move. A node is saturated at the ceiling up to which
the scheduler fills it, as its agent advertises it: the rescheduler does not take apart what the scheduler packs.
"""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

import numpy as np

from carico_core.domain import cluster as kubernetes
from carico_core.domain import constraints, messages, names, selectors
from carico_core.numerics import arrays
from carico_core.numerics.estimators import base
from carico_core.numerics.rescheduling.containers import model
from carico_rescheduler.context import cluster as clusters
from carico_rescheduler.context import movable, objects, payback

# Usage 1 is two runnable tasks per core (docs/glossary.md).
TASKS_PER_CORE = 2.0
# A node without cores is no target; the model needs more than none.
_CORES_LEAST = 1e-3


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Context:
    """A problem with the names of its parts.

    The first containers are `pods`, in their order; the others belong to the nodes. skipped: why Pods stay, by UID.
    room (N,): how many more Pods each node takes now, as it advertises. saturations (N,): the load above which each is
    overloaded; `problem.saturation` is that of a full node, and what belongs to a node has as many tasks more as its
    ceiling leaves free. costs (P,): what a move of each container costs, in task seconds; horizons (P,): in how many
    seconds that must pay back (`payback`).
    """

    problem: model.Problem
    pods: tuple[objects.KnownPod, ...]
    nodes: tuple[str, ...]
    skipped: Mapping[str, movable.Skipped]
    room: arrays.Array
    saturations: arrays.Array
    costs: arrays.Array
    horizons: arrays.Array

    @property
    def prices(self) -> arrays.Array:
        """What a move of each container (P,) must gain at least, in tasks."""
        return self.costs / self.horizons

    def loads(self, placement: model.Ints) -> arrays.Array:
        """Return the load of each node (N,) in a placement, in tasks per core."""
        free = self.problem.saturation - self.saturations
        # An empty node has no load, whatever was rounded.
        return np.maximum(model.loads(self.problem, placement) - free, 0.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """Shares of a node up to which the scheduler fills it, in place of those that agents advertise; None: as these."""

    cpu: float | None = None
    memory: float | None = None


def too_large(known: clusters.Cluster, pairs_most: int) -> str:
    """Return why the cluster is too large for a search with so many pairs of Pods and nodes; empty if it is not."""
    pods, nodes = len(known.pods.found), len(known.nodes.found)
    if (pods + nodes) * nodes <= pairs_most:
        return ""
    return (
        f"the cluster is too large for a plan: got {pods:,} Pods and {nodes:,} nodes, expected at most "
        f"{pairs_most:,} pairs of a Pod or node and a node"
    )


def build(judge: movable.Judge, ceilings: Ceilings) -> Context:
    """Return the problem as it is now. Pods on nodes that are not known are left out."""
    known = judge.known
    nodes = [each for _, each in sorted(known.nodes.found.items())]
    index = {node.name: number for number, node in enumerate(nodes)}
    pods = [each for _, each in sorted(known.pods.found.items()) if each.is_active and each.pod.node_name in index]
    skipped = {each.uid: why for each in pods if (why := judge.why_not(each)) is not None}
    present = np.array([index[each.pod.node_name or ""] for each in pods], dtype=np.int32)
    own = {uid for uid, why in skipped.items() if why.why is movable.Stays.BASELINE}
    request, tasks = _amounts(known, pods, own)
    cores = np.array([max(node.allocatable_cores, _CORES_LEAST) for node in nodes])
    memory = np.array([node.allocatable_bytes * _ceiling(known, node, "memory", ceilings.memory) for node in nodes])
    saturations = np.array([TASKS_PER_CORE * _ceiling(known, node, "cpu", ceilings.cpu) for node in nodes])
    is_over = model.totals(present, request[:, 0], len(nodes)) > cores
    _keep(np.flatnonzero(is_over[present]) if len(pods) else (), pods, skipped, request)
    memory = np.maximum(memory, model.totals(present, request[:, 1], len(nodes)))
    baselines = np.array([_baseline(known, node) for node in nodes]) + (TASKS_PER_CORE - saturations) * cores
    pairs, traffic = _traffic(known, pods)
    apart = [pair for pair in _apart(pods, skipped) if present[pair[0]] != present[pair[1]]]
    problem = model.Problem(
        request=np.concatenate([request, np.zeros((len(nodes), 2))]),
        capacity=np.column_stack([cores, memory]),
        tasks=np.concatenate([tasks, baselines]),
        allowed=np.concatenate([_allowed(known, pods, nodes, is_over), np.eye(len(nodes), dtype=bool)]),
        movable=np.array([each.uid not in skipped for each in pods] + [False] * len(nodes), dtype=bool),
        present=np.concatenate([present, np.arange(len(nodes), dtype=np.int32)]),
        pairs=pairs,
        traffic=traffic,
        together=np.zeros((0, 2), dtype=np.int32),
        apart=np.array(apart, dtype=np.int32),
        saturation=TASKS_PER_CORE,
    )
    room = np.array([_room(known, node) for node in nodes])
    # What belongs to a node never moves.
    own_costs, own_horizons = np.zeros(len(nodes)), np.ones(len(nodes))
    return Context(
        problem=problem, pods=tuple(pods), nodes=tuple(index), skipped=skipped, room=room, saturations=saturations,
        costs=np.concatenate([payback.costs(pods, tasks), own_costs]),
        horizons=np.concatenate([payback.horizons(known, pods), own_horizons]),
    )  # fmt: skip


def _keep(
    numbers: Iterable[int], pods: Sequence[objects.KnownPod], skipped: dict[str, movable.Skipped], request: arrays.Array
) -> None:
    """Let these Pods, of nodes that are too full, stay and request nothing.

    No search starts from a placement that violates a constraint: such a node takes no more, and keeps all that it has.
    """
    why = movable.Skipped(why=movable.Stays.NOT_READY, detail="requests exceed what its node can allocate")
    for number in numbers:
        skipped.setdefault(pods[number].uid, why)
        request[number, 0] = 0.0


def _amounts(
    known: clusters.Cluster, pods: Sequence[objects.KnownPod], own: Set[str]
) -> tuple[arrays.Array, arrays.Array]:
    """Return requested cores and used memory (P, 2), and tasks (P,). `own`: UIDs of Pods that belong to their node."""
    request, tasks = np.zeros((len(pods), 2)), np.zeros(len(pods))
    for number, each in enumerate(pods):
        load = load_of(known, each.pod, is_own=each.uid in own)
        tasks[number] = load.tasks
        request[number] = each.pod.request_cores, max(load.memory_bytes, each.pod.request_bytes)
    return request, tasks


def load_of(known: clusters.Cluster, pod: kubernetes.Pod, *, is_own: bool = False) -> clusters.Load:
    """Return the load of a Pod: as measured, else the cost of its class on its node, else of a Pod there, else none.

    Agents do not report a Pod that belongs to its node (`is_own`) by itself: the node's baseline includes it.
    """
    measured = known.loads.get((pod.node_name or "", pod.uid_on_node))
    if measured is not None:
        return measured
    heard = known.advertisements.get(pod.node_name or "")
    if heard is None or is_own:
        return clusters.Load(0.0, 0.0)
    classes = heard.classes or {}
    found = classes.get(names.class_of(pod)) or classes.get(messages.ANY_CLASS)
    if found is None:
        return clusters.Load(0.0, 0.0)
    cost = clusters.Load(found.cost_plus.get("cpu", 0.0), found.cost_plus.get("memory", 0.0))
    node = known.nodes.found.get(("", heard.node))
    return cost if node is None else cost.on(node)


def _baseline(known: clusters.Cluster, node: kubernetes.Node) -> float:
    """Return the tasks of what belongs to the node itself; 0 if its estimator states none in tasks."""
    heard = known.advertisements.get(node.name)
    found = None if heard is None or heard.headroom is None else heard.baseline.get("cpu")
    return 0.0 if found is None else min(max(found.mean, 0.0), TASKS_PER_CORE * node.allocatable_cores)


def _ceiling(known: clusters.Cluster, node: kubernetes.Node, dim: str, wanted: float | None) -> float:
    """Return the share of a node up to which it takes Pods: as wanted, else as its agent advertises, or the default.

    One that is lower than an agent's may be is not believed.
    """
    if wanted is not None:
        return wanted
    heard = known.advertisements.get(node.name)
    if heard is None:
        # It may be any, so no Pod leaves for it.
        return 1.0
    return max((heard.ceiling or {}).get(dim, base.DEFAULT_CEILING[dim]), messages.CEILING_LEAST)


def _room(known: clusters.Cluster, node: kubernetes.Node) -> float:
    heard = known.advertisements.get(node.name)
    return 0.0 if heard is None else heard.capacity


def _traffic(known: clusters.Cluster, pods: Sequence[objects.KnownPod]) -> tuple[model.Ints, arrays.Array]:
    index = {each.uid: number for number, each in enumerate(pods)}
    found = [
        (index[flow.one], index[flow.other], flow.bytes_per_s)
        for flow in known.flows
        if flow.one in index and flow.other in index and flow.one != flow.other
    ]
    pairs = np.array([each[:2] for each in found], dtype=np.int32).reshape(-1, 2)
    return pairs, np.array([each[2] for each in found], dtype=np.float64)


def _allowed(
    known: clusters.Cluster, pods: Sequence[objects.KnownPod], nodes: Sequence[kubernetes.Node], is_over: model.Bools
) -> model.Bools:
    """Return where each Pod (P, N) may go by the nodes alone."""
    # Without an advertisement, the scheduler places no Pod there.
    open_nodes = [
        node.ready and not node.unschedulable and not node.deleting and node.name in known.advertisements
        for node in nodes
    ]
    usable = np.array(open_nodes, dtype=bool) & ~is_over

    @functools.cache
    def fits(
        selector: tuple[tuple[str, str], ...], tolerations: tuple[kubernetes.Toleration, ...],
        terms: selectors.NodeTerms | None,
    ) -> model.Bools:  # fmt: skip
        return np.array([_accepts(node, selector, tolerations, terms) for node in nodes], dtype=bool) & usable

    rows = [
        fits(
            tuple(sorted(each.pod.node_selector.items())),
            each.pod.tolerations,
            None if each.pod.constraints is None else _without_name(each),
        )
        for each in pods
    ]
    return np.array(rows, dtype=bool).reshape(len(pods), len(nodes))


def _without_name(found: objects.KnownPod) -> selectors.NodeTerms | None:
    """Return the Pod's required node terms; of one that a move created, without the node that the move chose."""
    assert found.pod.constraints is not None
    terms = found.pod.constraints.node_terms
    if terms is None or not found.replaces:
        return terms
    kept = tuple(dataclasses.replace(term, fields=()) for term in terms if term.labels)
    return kept or None


def _accepts(
    node: kubernetes.Node, selector: tuple[tuple[str, str], ...], tolerations: tuple[kubernetes.Toleration, ...],
    terms: selectors.NodeTerms | None,
) -> bool:  # fmt: skip
    is_chosen = selectors.chooses(selector, terms, name=node.name, labels=node.labels)
    return is_chosen and kubernetes.refusing_taint(node, tolerations) is None


def _apart(
    pods: Sequence[objects.KnownPod], skipped: Mapping[str, movable.Skipped]
) -> list[tuple[int, int]]:  # fmt: skip
    """Return pairs of Pods that may not share a node: by anti-affinity of either, or by the ports of the node.

    Pairs of Pods that both stay are left out. Replicas have the same terms and labels, so each term is compared with
    each set of labels once: thousands of Pods with anti-affinity take no longer than their pairs.
    """
    alike: dict[tuple[str, tuple[tuple[str, str], ...]], list[int]] = {}
    avoiding: dict[constraints.PodTerm, list[int]] = {}
    ports: dict[tuple[constraints.HostPort, ...], list[int]] = {}
    for number, each in enumerate(pods):
        alike.setdefault((each.pod.namespace, tuple(sorted(each.pod.labels.items()))), []).append(number)
        limits = each.pod.constraints
        if limits is None:
            continue
        for term in limits.anti_affinity:
            avoiding.setdefault(term, []).append(number)
        if limits.host_ports:
            ports.setdefault(limits.host_ports, []).append(number)
    stays = [each.uid in skipped for each in pods]
    found: set[tuple[int, int]] = set()
    for term, mine in avoiding.items():
        theirs = [number for group, numbers in alike.items() if _applies(term, *group) for number in numbers]
        found.update(_pairs(mine, theirs, stays))
    groups = list(ports)
    occupied = [constraints.Occupied(each) for each in groups]
    for one, other in _sharing_a_port(groups):
        if occupied[one].conflicts(groups[other]):
            found.update(_pairs(ports[groups[one]], ports[groups[other]], stays))
    return sorted(found)


def _sharing_a_port(groups: Sequence[tuple[constraints.HostPort, ...]]) -> set[tuple[int, int]]:
    """Return pairs of groups of ports that have one in common, on whatever address; each has one with itself.

    Thousands of Pods may each have a port of their own: only those of one number are compared.
    """
    by_port: dict[tuple[str, int], dict[int, None]] = {}
    for number, ports in enumerate(groups):
        for port in ports:
            by_port.setdefault((port.protocol, port.port), {})[number] = None
    # Groups that have many ports in common are the same set for each of them.
    sharing = {tuple(each) for each in by_port.values()}
    return {pair for each in sharing for pair in itertools.combinations_with_replacement(each, 2)}


def _pairs(mine: Sequence[int], theirs: Sequence[int], stays: Sequence[bool]) -> Iterator[tuple[int, int]]:
    moving = [each for each in theirs if not stays[each]]
    for one in mine:
        for other in moving if stays[one] else theirs:
            if one != other:
                yield min(one, other), max(one, other)


def _applies(term: constraints.PodTerm, namespace: str, labels: tuple[tuple[str, str], ...]) -> bool:
    # Labels of namespaces are not read: a term that selects namespaces by them counts for all of them.
    is_there = namespace in term.namespaces or term.namespace_selector is not None
    return is_there and selectors.matches(term.selector, dict(labels))
