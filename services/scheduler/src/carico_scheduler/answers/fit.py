"""How many more Pods of a kind fit, on each node and in all, and what stops the next one.

Where only the node itself bears on the answer it is counted per node; where other Pods or volumes do (spread,
anti-affinity, ports), the cycle itself places Pods of the kind, one after the other, in a draft that nothing comes of.
"""

import asyncio
import collections
import dataclasses
from collections.abc import Mapping
from typing import Any

from carico_core.domain import cluster, decision, messages, pod_class
from carico_core.runtime import clock as clocks
from carico_core.wire import kubernetes
from carico_scheduler import cycle as cycles
from carico_scheduler import demand as demands
from carico_scheduler import queue as queues
from carico_scheduler import snapshot
from carico_scheduler.answers import known as knowns
from carico_scheduler.answers import questions, room, standing

# Nodes looked at before binds and decisions have their turn again: some milliseconds.
_NODES_AT_ONCE = 200
# Pods placed in a draft, times nodes: some tens of milliseconds, which decisions wait for.
_WORK_MOST = 200_000
_PLACED_LEAST, _PLACED_MOST = 16, 512
_UID = "what-if"
# Classes named in an overview, and that times nodes.
_KINDS_MOST, _NODES_TIMES_KINDS_MOST = 8, 20_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The kind of Pod that is asked about."""

    pod: cluster.Pod
    demand: demands.Demand
    # What was asked for, in words; the class by which its cost is known, and whether any node has measured it.
    of: str
    pod_class: str
    is_measured: bool
    # The Pod that advertised capacities are in, in place of one of a class.
    is_typical: bool = False


@dataclasses.dataclass(slots=True, kw_only=True)
class _Found:
    """How many fit on a node, and what stops the next one there."""

    node: str
    fits: int
    free: float
    freshness: str
    stopped_by: str
    detail: str


async def answer(known: knowns.Known, asked: Mapping[str, Any], clock: clocks.Clock) -> dict[str, Any]:
    """Per node and in all how many more Pods of a kind fit, as JSON. Raises `BadQuestion`."""
    limit, kind = questions.limit_of(asked), kind_of(known, asked)
    board = known.cycle.explain(known.view(clock.monotonic_s()), kind.demand)
    is_capped = False
    if _is_by_peers(board):
        found, is_capped = _placed(known, kind, board)
    else:
        found = await _counted(known, kind, board, clock)
    return {
        **_summary(kind, found, limit),
        # True: counting was given up there; more may fit.
        "at_least": is_capped,
        "threshold": board.view.policy.threshold,
        "kinds": await kinds(known, clock) if kind.is_typical else None,
    }


async def kinds(known: knowns.Known, clock: clocks.Clock) -> list[dict[str, Any]]:
    """How many fit of each class that runs most, and of one that nobody has measured; what stops most nodes."""
    running: collections.Counter[str] = collections.Counter()
    for each in known.state.heard.values():
        for name, said in (each.advertisement.classes or {}).items():
            running[name] += said.pods
    for general in (messages.ANY_CLASS, messages.NEW_CLASS):
        running.pop(general, None)
    most = min(_KINDS_MOST, _NODES_TIMES_KINDS_MOST // max(len(known.state.fleet), 1))
    found = []
    for name in [*(name for name, _ in running.most_common(most)), messages.ANY_CLASS]:
        kind = _kind(known, _typical(name), name, name)
        board = known.cycle.explain(known.view(clock.monotonic_s()), kind.demand)
        summary = _summary(kind, await _counted(known, kind, board, clock), 0)
        shown = name if known.is_named(name) else messages.NEW_CLASS
        of_it = {key: summary[key] for key in ("total", "stopped_by")}
        found.append({"class": shown, "pods": running.get(name, 0), **of_it})
    return found


def _summary(kind: Kind, found: list[_Found], limit: int) -> dict[str, Any]:
    stops: collections.Counter[str] = collections.Counter(each.stopped_by for each in found)
    rows = sorted(found, key=lambda each: (-each.fits, -each.free, each.node))
    return {
        "of": kind.of,
        "class": kind.pod_class,
        "is_measured": kind.is_measured,
        "total": sum(each.fits for each in found),
        "nodes": len(found),
        "stopped_by": dict(stops.most_common()),
        "per_node": [_row(each) for each in rows[:limit]],
        "left_off": max(len(rows) - limit, 0),
    }


def kind_of(known: knowns.Known, asked: Mapping[str, Any]) -> Kind:
    """The kind of Pod of {"pod": object}, {"like": "namespace/name"} or {"class": name}; the typical one of {}."""
    given = [name for name in ("pod", "like", "class") if asked.get(name) is not None]
    if len(given) > 1:
        raise questions.BadQuestion(f"got {' and '.join(given)}, expected one of them at most")
    if not given:
        kind = _kind(known, _typical(messages.ANY_CLASS), "a typical Pod", messages.ANY_CLASS)
        return dataclasses.replace(kind, is_typical=True)
    if given == ["class"]:
        name = _class(known, questions.text_of(asked, "class"))
        return _kind(known, _typical(name), f"a Pod of class {name}", name)
    pod = _like(known, questions.text_of(asked, "like")) if given == ["like"] else _parsed(asked["pod"])
    of = f"a Pod like {pod.key}" if given == ["like"] else f"the Pod {pod.key} as described"
    return _kind(known, dataclasses.replace(pod, node_name=None), of, pod_class.class_of(pod))


def _kind(known: knowns.Known, pod: cluster.Pod, of: str, named: str) -> Kind:
    measured = known.measured(named)
    demand = dataclasses.replace(known.state.demand_of(pod), pod_class=measured)
    return Kind(pod=pod, demand=demand, of=of, pod_class=named, is_measured=measured == named)


def _typical(named: str) -> cluster.Pod:
    """A Pod that asks for nothing."""
    return _parsed({"metadata": {"name": "typical"}, "spec": {"containers": [{"name": "main", "image": named}]}})


def _parsed(described: object) -> cluster.Pod:
    """The Pod of an object of the API, or of its spec alone. Raises `BadQuestion`."""
    if not isinstance(described, dict):
        raise questions.BadQuestion(f'"pod": got {type(described).__name__}, expected a Pod as Kubernetes has it')
    whole = described if "spec" in described else {"spec": described}
    metadata = whole.get("metadata")
    stamped = {
        "name": "what-if", "namespace": "default", **(metadata if isinstance(metadata, dict) else {}),
        "uid": _UID, "creationTimestamp": "1970-01-01T00:00:00Z", "deletionTimestamp": None,
    }  # fmt: skip
    try:
        return kubernetes.parse_pod({**whole, "metadata": stamped, "status": {}})
    except ValueError as error:
        raise questions.BadQuestion(f'"pod": {error}') from error


def _like(known: knowns.Known, named: str) -> cluster.Pod:
    """The Pod of a name, with a namespace before it or not. Raises `BadQuestion`."""
    key = named if "/" in named else f"default/{named}"
    pods = known.state.pods()
    found = next((each for each in pods if each.key == key), None)
    if found is None:
        near = questions.nearest(key, (each.key for each in pods))
        raise questions.BadQuestion(f'"like": no Pod {key} waits or runs{_hint(near)}')
    return found


def _class(known: knowns.Known, named: str) -> str:
    """The class of a name, or of its last part where only one has that. Raises `BadQuestion`."""
    classes = known.classes()
    found = [each for each in classes if each == named] or [each for each in classes if each.endswith(f"/{named}")]
    if len(found) == 1:
        return found[0]
    near = sorted(found) if found else questions.nearest(named, classes) or sorted(classes)[: questions.NEAREST_MOST]
    raise questions.BadQuestion(f'"class": {len(found)} classes of name {named!r} are measured{_hint(near)}')


def _hint(near: list[str]) -> str:
    return f" (there is {', '.join(near[: questions.NEAREST_MOST])})" if near else ""


def _is_by_peers(board: cycles.Board) -> bool:
    """True where one more Pod may change what other nodes allow."""
    if not board.demand.looks_at_peers:
        return False
    return any(each.look(board.view, board.demand) is not None for each in board.stages.by_peers)


async def _counted(known: knowns.Known, kind: Kind, board: cycles.Board, clock: clocks.Clock) -> list[_Found]:
    """Every node by itself. Decisions are made between groups of them, so each is as it stands when looked at."""
    found: list[_Found] = []
    names = known.state.fleet.names()
    for begin in range(0, len(names), _NODES_AT_ONCE):
        if begin:
            await asyncio.sleep(0)
            board = known.cycle.explain(known.view(clock.monotonic_s()), board.demand)
        slots = [known.state.fleet.slot_of(name) for name in names[begin : begin + _NODES_AT_ONCE]]
        found += [_count(known, kind, board, board.view.row(slot)) for slot in slots if slot is not None]
    return found


def _count(known: knowns.Known, kind: Kind, board: cycles.Board, row: snapshot.NodeRow) -> _Found:
    """One node: the tightest of its bounds, or why it is refused."""
    threshold, said = board.view.policy.threshold, known.advertisement(row.node.name)
    rejection = board.rejection(row)
    if not kind.is_typical:
        tightest = _tightest(room.bounds(row, board.demand, said), threshold)
        # An empty node takes one, whatever its cautious costs say (`headroom.believed`).
        fits = 0 if rejection is not None else max(tightest.count(threshold), 1)
        return _found(known, board, row, fits, rejection, tightest)
    bounds = room.typical_bounds(row, said)
    if rejection is not None and rejection.reason is not decision.Reason.CAPACITY:
        return _found(known, board, row, 0, rejection, _tightest(bounds, threshold))
    fits = room.typical_count(row, bounds, threshold)
    return _found(known, board, row, fits, None, _tightest(bounds, threshold))


def _tightest(bounds: list[room.Bound], threshold: float) -> room.Bound:
    return min(bounds, key=lambda each: (each.count(threshold), each.pods))


def _found(
    known: knowns.Known, board: cycles.Board, row: snapshot.NodeRow, fits: int,
    rejection: decision.Rejection | None, tightest: room.Bound,
) -> _Found:  # fmt: skip
    """Names the dimension or cap in place of the stage "capacity", which says less."""
    heard = standing.heard(row, board.view.now_s, known.lease_s)
    is_bound = rejection is None or rejection.reason in (decision.Reason.CAPACITY, decision.Reason.REQUESTS)
    return _Found(
        node=row.node.name,
        fits=fits,
        free=row.free_for(board.demand.pod_class),
        freshness=str(heard["freshness"]),
        stopped_by=tightest.what if is_bound or rejection is None else rejection.reason.value,
        detail=tightest.detail if is_bound or rejection is None else rejection.detail,
    )


class _Endless:
    """Pods of one kind, until one of them fits nowhere."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._made = 0
        self._is_done = False

    def take(self, now_s: float) -> queues.Waiting | None:
        """One more, or None after the last."""
        if self._is_done:
            return None
        self._made += 1
        pod = dataclasses.replace(self._kind.pod, uid=f"{_UID}-{self._made}", name=f"{_UID}-{self._made}")
        return queues.Waiting(pod=pod, demand=self._kind.demand, since_s=now_s)

    def park(self, waiting: queues.Waiting) -> None:
        """It fits nowhere: so does the next."""
        self._is_done = True


def _placed(known: knowns.Known, kind: Kind, board: cycles.Board) -> tuple[list[_Found], bool]:
    """Every node after the cycle has placed Pods of the kind for as long as it could; True where it could go on."""
    view = board.view
    most = min(max(_WORK_MOST // max(view.count, 1), _PLACED_LEAST), _PLACED_MOST)
    outcome = known.cycle.run(view, _Endless(kind), most=most)
    counts = collections.Counter(each.row.node.name for each in outcome.placed)
    if outcome.placed:
        board = outcome.placed[-1].board
    found = []
    for name in known.state.fleet.names():
        slot = known.state.fleet.slot_of(name)
        assert slot is not None
        row = _after(view.row(slot), kind.demand, counts[name])
        bounds = room.bounds(row, kind.demand, known.advertisement(name))
        tightest = _tightest(bounds, view.policy.threshold)
        found.append(_found(known, board, row, counts[name], board.rejection(row), tightest))
    return found, not outcome.unplaced


def _after(row: snapshot.NodeRow, demand: demands.Demand, pods: int) -> snapshot.NodeRow:
    """The node with so many more Pods of this demand."""
    for _ in range(pods):
        row = row.with_pod(
            demand.pod_class, cores=demand.request_cores, size_bytes=demand.request_bytes, others=demand.request_others
        )
    return row


def _row(found: _Found) -> dict[str, Any]:
    return {
        "node": found.node,
        "fits": found.fits,
        "free": questions.finite(found.free),
        "freshness": found.freshness,
        "stopped_by": found.stopped_by,
        "detail": found.detail,
    }
