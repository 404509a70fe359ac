"""Check a history against CARICO's promises, after Jepsen's manner: a pure function from a history to its violations.

A rule allows for the recorder's own lateness (`Limits.late_s`). A fault excuses that a Pod is placed later, and that a
part knows of a change later, but nothing else.
"""

import bisect
import collections
import dataclasses
import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from carico_core.domain import decision, messages
from tests.chaos.nemesis import history

CREATED = 201
# The limits of deploy/k8s, beyond which a kernel kills a service; a test holds them equal. Bytes.
MEMORY_LIMITS = {
    "agent": 256 << 20, "aggregator": 512 << 20, "scheduler": 1 << 30, "nats": 1280 << 20, "auth": 256 << 20,
}  # fmt: skip
# A service must stay below this share of its limit: more nodes and Pods need more memory than a run has.
MEMORY_SHARE = 0.75
MB = 1e6
# A node whose newest sample is older gets no Pods (docs/high-availability.md, "The other parts").
AGE_MOST_S = 5.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of a run, which depend on its faults and its length."""

    # How late the recorder may see an event, on a machine with other work.
    late_s: float = 4.0
    # How long scheduler and nodes may act on what they knew before a change, without the time of faults in between.
    stale_s: float = 10.0
    # From the end of the last fault until every Pod has ended.
    settled_s: float = 120.0
    # Growth of a service from its first third to its last: this much, or this share of it.
    growth_bytes: float = 24 * MB
    growth_share: float = 0.25
    growth_count: int = 24
    # A process counts from so long after its start on, and a service if there are samples of so long a time.
    warm_s: float = 10.0
    judged_s: float = 45.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """A promise that was broken, at which object, and how."""

    rule: str
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}: {self.detail}"


def check(found: history.History, limits: Limits) -> list[Violation]:
    """Return every violation."""
    seen = _Seen(found)
    return [
        *_ran_once(seen, limits),
        *_bound_once(seen),
        *_not_lost(seen),
        *_where_allowed(seen, limits),
        *_only_leaders(found, limits),
        *_within_room(seen, limits),
        *_settled(seen, limits),
        *_plateau(found, limits),
        *_within_memory(found),
        *_reported(found),
    ]


def placed_s(found: history.History) -> float:
    """Return how long after the last fault's end the last bind that it delayed was accepted."""
    over_s = max((each.ended_s for each in found.faults), default=0.0)
    last_s = max((each.sent_s for each in found.binds if each.status == CREATED), default=over_s)
    return max(last_s - over_s, 0.0)


def judged(found: history.History) -> int:
    """Return how many binds could be judged by room: the advertisement that they name was recorded."""
    seen = {(each.said.node, each.said.seq, each.said.capacity) for each in found.advertised}
    accepted = {bind.uid for bind in found.binds if bind.status == CREATED}
    chosen = [(made.uid, made.candidates[0]) for made in found.decisions if made.outcome is decision.Outcome.BOUND]
    return sum(uid in accepted and (each.node, each.seq, each.capacity) in seen for uid, each in chosen)


def free(said: messages.Advertisement, pod_class: str, reserved: Sequence[str]) -> float:
    """Return how many more Pods of a class an advertisement has room for, with these classes of Pods reserved.

    The rules of docs/scheduling.md in their own words: room in each dimension less the cautious cost of each reserved
    Pod; the limit of growth; an empty node takes one Pod if its capacity allows it.
    """
    room = _by_dimension(said, pod_class, reserved)
    if not said.pods and not reserved:
        room = max(room, min(said.capacity, 1.0))
    if said.limit is not None:
        room = min(room, said.limit - said.pods - len(reserved))
    return room


def _by_dimension(said: messages.Advertisement, pod_class: str, reserved: Sequence[str]) -> float:
    rooms = []
    for name, headroom in (said.headroom or {}).items():
        cost = _cost(said.classes or {}, pod_class, name)
        if cost > 0.0:
            left = headroom - sum(_cost(said.classes or {}, each, name) for each in reserved)
            rooms.append(left / cost)
    return min(rooms, default=said.capacity - len(reserved))


def _cost(classes: Mapping[str, messages.ClassCapacity], pod_class: str, dimension: str) -> float:
    """Return what one more Pod of a class takes; an unnamed class costs as the general one, else as the largest."""
    for name in (pod_class, messages.ANY_CLASS, messages.NEW_CLASS):
        if name in classes:
            return classes[name].cost_plus.get(dimension, 0.0)
    return max((each.cost_plus.get(dimension, 0.0) for each in classes.values()), default=0.0)


class _Seen:
    """A history by Pod."""

    def __init__(self, found: history.History) -> None:
        self.history = found
        self.faults = sorted(found.faults, key=lambda each: each.began_s)
        self.pods = {pod.uid: pod for pod in found.pods}
        self.starts: dict[str, list[history.Run]] = collections.defaultdict(list)
        self.finished: set[str] = set()
        for run in found.runs:
            if run.is_start:
                self.starts[run.uid].append(run)
            else:
                self.finished.add(run.uid)
        self.nodes: dict[str, set[str]] = collections.defaultdict(set)
        # The first event that showed the end of the Pod, its last phase with the reason, and its removal.
        self.ended_s: dict[str, float] = {}
        self.phase: dict[str, tuple[str, str]] = {}
        self.gone_s: dict[str, float] = {}
        for shown in found.shown:
            if shown.node is not None:
                self.nodes[shown.uid].add(shown.node)
            self.phase[shown.uid] = (shown.phase, shown.reason)
            if shown.is_gone or shown.phase in ("Succeeded", "Failed"):
                self.ended_s.setdefault(shown.uid, shown.at_s)
            if shown.is_gone:
                self.gone_s.setdefault(shown.uid, shown.at_s)
        self.binds: dict[str, list[history.Bind]] = collections.defaultdict(list)
        for bind in found.binds:
            if bind.status == CREATED:
                self.binds[bind.uid].append(bind)

    def clear_s(self, since_s: float, until_s: float) -> float:
        """Return how long no fault was under way between two moments; below zero if they are in the other order."""
        clear_s, from_s = until_s - since_s, since_s
        for fault in self.faults:
            clear_s -= max(min(fault.ended_s, until_s) - max(fault.began_s, from_s), 0.0)
            from_s = max(from_s, fault.ended_s)
        return clear_s

    def name(self, uid: str) -> str:
        pod = self.pods.get(uid)
        return uid if pod is None else pod.name

    def life(self, uid: str) -> str:
        """Return what became of a Pod, to look for its cause."""
        said = [f"created at {self.pods[uid].created_s:.1f}", f"for {dict(self.pods[uid].selector) or 'any node'}"]
        said += [f"bound to {each.node} by {each.scheduler} at {each.sent_s:.1f}" for each in self.binds.get(uid, ())]
        said += [f"started at {each.at_s:.1f}" for each in self.starts.get(uid, ())]
        return ", ".join(said)


def _ran_once(seen: _Seen, limits: Limits) -> Iterator[Violation]:
    for uid, starts in seen.starts.items():
        name, nodes = seen.name(uid), seen.nodes.get(uid, set())
        if uid not in seen.pods:
            yield Violation(rule="ran once", subject=uid, detail="it ran, and was never created")
        if len(starts) > 1:
            where = ", ".join(f"{each.node} at {each.at_s:.1f}" for each in starts)
            yield Violation(rule="ran once", subject=name, detail=f"it started {len(starts)} times: {where}")
        for each in starts:
            if nodes and each.node not in nodes:
                detail = f"it started on {each.node} and is bound to {', '.join(sorted(nodes))}"
                yield Violation(rule="ran once", subject=name, detail=detail)
            late_s = seen.clear_s(seen.gone_s.get(uid, float("inf")), each.at_s)
            if late_s > limits.stale_s:
                detail = f"it started {each.at_s - seen.gone_s[uid]:.1f} s after the API had removed it"
                yield Violation(rule="ran once", subject=name, detail=detail)


def _bound_once(seen: _Seen) -> Iterator[Violation]:
    for uid, nodes in seen.nodes.items():
        if len(nodes) > 1:
            yield Violation(rule="bound once", subject=seen.name(uid), detail=f"on {', '.join(sorted(nodes))}")
    for uid, binds in seen.binds.items():
        if len(binds) > 1:
            by = ", ".join(f"{each.scheduler} to {each.node}" for each in binds)
            yield Violation(rule="bound once", subject=seen.name(uid), detail=f"accepted {len(binds)} times: {by}")


def _not_lost(seen: _Seen) -> Iterator[Violation]:
    for uid, pod in seen.pods.items():
        if pod.deleted_s is not None:
            continue
        phase, reason = seen.phase.get(uid, ("never shown", ""))
        if phase != "Succeeded":
            detail = f"it ended as {f'{phase} {reason}'.rstrip()}; {seen.life(uid)}"
            yield Violation(rule="not lost", subject=pod.name, detail=detail)
        elif uid not in seen.finished:
            yield Violation(rule="not lost", subject=pod.name, detail="Succeeded, and its process never finished")
        if uid in seen.gone_s:
            yield Violation(rule="not lost", subject=pod.name, detail="it was removed, and we had not asked for it")


def _where_allowed(seen: _Seen, limits: Limits) -> Iterator[Violation]:
    for uid, nodes in seen.nodes.items():
        wanted = seen.pods[uid].selector if uid in seen.pods else {}
        for node in nodes:
            labels = seen.history.nodes.get(node, {})
            if not wanted.items() <= labels.items():
                detail = f"bound to {node} with {dict(labels)}, and its nodeSelector is {dict(wanted)}"
                yield Violation(rule="where allowed", subject=seen.name(uid), detail=detail)
    for uid, binds in seen.binds.items():
        for bind in binds:
            since_s = _cordoned_since_s(seen.history.cordons, bind.node, bind.sent_s)
            if since_s is not None and seen.clear_s(since_s, bind.sent_s) > limits.stale_s:
                detail = f"bound to {bind.node} {bind.sent_s - since_s:.1f} s after it was cordoned"
                yield Violation(rule="where allowed", subject=seen.name(uid), detail=detail)


def _cordoned_since_s(cordons: Sequence[history.Cordon], node: str, at_s: float) -> float | None:
    before = [each for each in cordons if each.node == node and each.at_s <= at_s]
    return before[-1].at_s if before and before[-1].is_on else None


def _only_leaders(found: history.History, limits: Limits) -> Iterator[Violation]:
    times = [each.at_s for each in found.terms]
    for bind in found.binds:
        if bind.status != CREATED:
            continue
        index = bisect.bisect_right(times, bind.sent_s) - 1
        term = found.terms[index] if index >= 0 else None
        if term is None or term.holder != bind.scheduler:
            holder = "nothing" if term is None else f"{term.holder or 'nothing'} since {term.at_s:.1f}"
            detail = f"{bind.scheduler} bound it at {bind.sent_s:.1f}, and the Lease named {holder}"
            yield Violation(rule="only leaders", subject=bind.pod, detail=detail)
        elif bind.sent_s > term.at_s + term.duration_s + limits.late_s:
            detail = (
                f"{bind.scheduler} bound it {bind.sent_s - term.at_s - term.duration_s:.1f} s after its Lease ended"
            )
            yield Violation(rule="only leaders", subject=bind.pod, detail=detail)


def _within_room(seen: _Seen, limits: Limits) -> Iterator[Violation]:
    """Decide each recorded decision again, by the advertisement that it names and the Pods that were bound by then."""
    by_number: dict[tuple[str, int], list[history.Advertised]] = collections.defaultdict(list)
    for each in seen.history.advertised:
        by_number[each.said.node, each.said.seq].append(each)
    on_node: dict[str, list[history.Bind]] = collections.defaultdict(list)
    for binds in seen.binds.values():
        for bind in binds:
            on_node[bind.node].append(bind)
    for made in seen.history.decisions:
        if made.outcome is decision.Outcome.BOUND and made.uid in seen.binds:
            yield from _one_decision(seen, made, by_number, on_node, limits)


def _one_decision(
    seen: _Seen, made: decision.Decision, by_number: Mapping[tuple[str, int], list[history.Advertised]],
    on_node: Mapping[str, list[history.Bind]], limits: Limits,
) -> Iterator[Violation]:  # fmt: skip
    chosen, name = made.candidates[0], seen.name(made.uid)
    if chosen.node != made.node or chosen.capacity is None or chosen.seq is None or chosen.age_s is None:
        yield Violation(rule="within room", subject=name, detail=f"bound to {made.node} without an advertisement")
        return
    if chosen.age_s > AGE_MOST_S:
        yield Violation(rule="within room", subject=name, detail=f"by an advertisement of {chosen.age_s} s ago")
    own = seen.binds[made.uid][0]
    known = [each for each in by_number.get((chosen.node, chosen.seq), ()) if each.said.capacity == chosen.capacity]
    if not known:
        # The recorder was cut off when it was published, and cannot judge.
        return
    # An agent that was started again counts from one again, and an idle node often has the same capacity. By our own
    # clock: those of the scheduler and the agent may jump.
    made_s = own.sent_s - chosen.age_s
    said = min(known, key=lambda each: abs(each.at_s - made_s)).said
    reserved = [
        bind.uid
        for bind in on_node[chosen.node]
        if bind.sent_s < own.sent_s
        and bind.uid not in said.covers
        and seen.ended_s.get(bind.uid, float("inf")) > own.sent_s + limits.late_s
    ]
    pod_class = seen.history.pod_class
    room = free(said, pod_class, [pod_class] * len(reserved))
    if room < made.threshold - 1e-6:
        detail = f"{chosen.node} had room for {room:.2f} with {len(reserved)} reserved (advertisement {chosen.seq})"
        yield Violation(rule="within room", subject=name, detail=detail)


def _settled(seen: _Seen, limits: Limits) -> Iterator[Violation]:
    over_s = max((each.ended_s for each in seen.history.faults), default=None)
    if over_s is None:
        return
    for uid, pod in seen.pods.items():
        ended_s = seen.ended_s.get(uid)
        if pod.deleted_s is None and ended_s is not None and ended_s > over_s + limits.settled_s:
            late = f"it ended {ended_s - over_s:.1f} s after the last fault, expected at most {limits.settled_s:g}"
            detail = f"{late}; {seen.life(uid)}"
            yield Violation(rule="settled", subject=pod.name, detail=detail)


def _within_memory(found: history.History) -> Iterator[Violation]:
    """Find services that the kernel has killed at the limit of their manifests, or that came near it."""
    for service, count in found.out_of_memory.items():
        detail = f"the kernel has killed it {count} times at the limit of its manifest"
        yield Violation(rule="within memory", subject=service, detail=detail)
    most: dict[str, int] = collections.defaultdict(int)
    for sample in found.samples:
        most[sample.service] = max(most[sample.service], sample.rss_bytes)
    for service, rss_bytes in most.items():
        limit = next((limit for kind, limit in MEMORY_LIMITS.items() if service.startswith(kind)), None)
        if limit is not None and rss_bytes > MEMORY_SHARE * limit:
            detail = f"it had {rss_bytes / MB:.0f} MB, and its manifest allows {limit / MB:.0f}"
            yield Violation(rule="within memory", subject=service, detail=detail)


def _plateau(found: history.History, limits: Limits) -> Iterator[Violation]:
    """Find services that grow, comparing like with like: a process has less when it is young.

    Within each process, the first third of its samples is compared with the last. Processes of the first third of the
    run are compared with those of its last, by the samples of ages that both had. One that has just started is not
    warm.
    """
    began_s: dict[str, float] = {}
    by_service: dict[str, list[history.Sample]] = collections.defaultdict(list)
    for sample in found.samples:
        if sample.at_s >= began_s.setdefault(sample.instance, sample.at_s) + limits.warm_s:
            by_service[sample.service].append(sample)
    for service, judged in by_service.items():
        if not _is_long(judged, limits):
            continue
        processes: dict[str, list[history.Sample]] = collections.defaultdict(list)
        for sample in judged:
            processes[sample.instance].append(sample)
        pairs = [_thirds(one) for one in processes.values() if _is_long(one, limits)]
        first, last = ({each.instance for each in third} for third in _thirds(judged))
        earlier = [each for each in judged if each.instance in first - last]
        later = [each for each in judged if each.instance in last]
        pairs.append(_of_one_age(earlier, later, began_s))
        for before, after in pairs:
            if before and after:
                yield from _growth(service, before, after, limits)


def _is_long(samples: Sequence[history.Sample], limits: Limits) -> bool:
    """Return True if samples span so long a time that they can be judged."""
    return len(samples) >= 3 and samples[-1].at_s - samples[0].at_s >= limits.judged_s


def _thirds(samples: Sequence[history.Sample]) -> tuple[Sequence[history.Sample], Sequence[history.Sample]]:
    """Return the first and the last third."""
    third = len(samples) // 3
    return samples[:third], samples[-third:]


def _of_one_age(
    earlier: Sequence[history.Sample], later: Sequence[history.Sample], began_s: Mapping[str, float]
) -> tuple[Sequence[history.Sample], Sequence[history.Sample]]:
    """Return those of both whose processes were of an age that both had."""
    ages = [{id(each): each.at_s - began_s[each.instance] for each in samples} for samples in (earlier, later)]
    if not all(ages):
        return (), ()
    least_s, most_s = max(min(each.values()) for each in ages), min(max(each.values()) for each in ages)
    before, after = (
        [each for each in samples if least_s <= known[id(each)] <= most_s]
        for samples, known in zip((earlier, later), ages, strict=True)
    )
    return before, after


def _reported(found: history.History) -> Iterator[Violation]:
    """Yield what commands did not show of a service that did not work, and what they did not answer at all."""
    for look in found.looks:
        subject = f"carico {look.command}, {look.target or 'at the end'}"
        try:
            shown = json.loads(look.out)
        except json.JSONDecodeError:
            yield Violation(
                rule="reported", subject=subject, detail=f"exit code {look.code}: {look.out[-500:]!r} {look.err}"
            )
            continue
        if "Traceback" in look.err:
            yield Violation(rule="reported", subject=subject, detail=look.err)
        if bool(look.code) != bool(look.target):
            yield Violation(rule="reported", subject=subject, detail=f"exit code {look.code}: {_troubles(look, shown)}")
        elif look.target and not any(look.target in each for each in _troubles(look, shown)):
            yield Violation(rule="reported", subject=subject, detail=f"it names only {_troubles(look, shown)}")


def _troubles(look: history.Look, shown: Any) -> list[str]:
    """Return what a command says does not work."""
    if look.command == "status":
        return [f"{row['name']}: {row.get('why_not')}" for row in shown["services"] if not row["ready"]]
    return [f"{each['what']}: {each['detail']}" for each in shown if each["level"] not in ("ok", "skip")]


def _growth(
    service: str, earlier: Sequence[history.Sample], later: Sequence[history.Sample], limits: Limits
) -> Iterator[Violation]:
    for what, most in (("rss_bytes", 0.0), ("descriptors", limits.growth_count), ("threads", limits.growth_count)):
        before = statistics.median(getattr(each, what) for each in earlier)
        after = statistics.median(getattr(each, what) for each in later)
        bound = most or max(limits.growth_bytes, limits.growth_share * before)
        if after - before > bound:
            detail = f"{what} grew from {before:g} to {after:g}, by more than {bound:g}"
            yield Violation(rule="plateau", subject=service, detail=detail)
