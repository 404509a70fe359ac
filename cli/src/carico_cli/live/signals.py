"""Collects messages of the bus into a picture. No message makes it raise."""

import collections
import dataclasses
import itertools
import math

from carico_cli.live import capacity_list, earlier, history, members
from carico_cli.live import picture as pictures
from carico_cli.output import formats
from carico_core.domain import decision, errors, messages, names
from carico_core.runtime.process import clock as clocks
from carico_core.wire import freshness
from carico_core.wire import messages as wire
from carico_local.jobs import job_labels

DECISIONS_KEPT = 200
REFUSALS_KEPT = 20_000
# After its lease a node that the scheduler does not list is kept for this long.
FORGET_S = 60.0
# A clock this far off makes a node's messages look old, or from the future; what differs less may be the answer's way.
CLOCK_MOST_S = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Heard:
    """An advertisement, its age on arrival, and the monotonic time of arrival."""

    advertisement: messages.Advertisement
    age_s: float
    at_s: float


class Signals:
    """The newest signals of each kind."""

    def __init__(self, *, clock: clocks.Clock, lease_s: float) -> None:
        self._clock = clock
        self._lease_s = lease_s
        self._guard = freshness.SequenceGuard(lease_s)
        self._ages = freshness.AgeTracker()
        self._nodes: dict[str, _Heard] = {}
        self._listed: dict[str, capacity_list.Listed] | None = None
        # The schedulerNames whose Pods the scheduler places.
        self.scheduler_names: frozenset[str] = frozenset({names.SCHEDULER_NAME})
        # How far the scheduler's clock is ahead of this machine's; 0 where that is not known, or does not matter.
        self.scheduler_ahead_ns = 0
        self._decisions: collections.deque[decision.Decision] = collections.deque(maxlen=DECISIONS_KEPT)
        # Decoded when a picture is taken: of a burst only the last are kept.
        self._undecoded: collections.deque[tuple[str, bytes]] = collections.deque(maxlen=DECISIONS_KEPT)
        # UID -> why a Pod was not placed when it was last decided.
        self._refusals: dict[str, str] = {}
        self._model: tuple[messages.GlobalModel, float] | None = None
        self._history = history.History()
        self._services: tuple[pictures.Service, ...] | None = None
        self._members = members.Members(clock.monotonic_s)
        self._backlog: int | None = None
        self._heard = 0
        self._heard_before = (0, clock.monotonic_s())
        self._heard_per_s = 0.0
        self._dropped: collections.Counter[str] = collections.Counter()
        # None: all that is known is of the cluster that is connected.
        self._earlier: earlier.Earlier | None = None

    def begin(self) -> None:
        """Note that a connection begins, perhaps to another cluster of the same name."""
        if self._nodes:
            self._decode_decisions()
            boots = {name: heard.advertisement.boot for name, heard in self._nodes.items()}
            self._earlier = earlier.Earlier(
                begun_s=self._clock.monotonic_s(),
                boots=boots,
                decisions=frozenset(each.id for each in self._decisions),
                summaries=self._history.all(),
            )

    @property
    def node_names(self) -> list[str]:
        """Nodes that have advertised."""
        return list(self._nodes)

    def on_capacity(self, subject: str, payload: bytes) -> None:
        """Take in an advertisement that was just published."""
        self._heard += 1
        found = self._advertisement(subject, payload)
        if found is None:
            return
        now_s = self._clock.monotonic_s()
        age_s = self._ages.age_at_arrival_s(
            found.node, sampled_at_ns=found.sampled_at_ns, ts_ns=found.ts_ns, arrival_ns=round(now_s * 1e9),
            boot=found.boot,
        )  # fmt: skip
        self._nodes[found.node] = _Heard(advertisement=found, age_s=age_s, at_s=now_s)

    def on_stored_capacity(self, subject: str, payload: bytes) -> None:
        """Take in an advertisement that NATS kept: its age is known by this machine's clock alone."""
        found = self._advertisement(subject, payload)
        if found is not None:
            age_s = max(0.0, (self._clock.wall_ns() - found.sampled_at_ns) / 1e9)
            self._nodes[found.node] = _Heard(advertisement=found, age_s=age_s, at_s=self._clock.monotonic_s())

    def on_decision(self, subject: str, payload: bytes) -> None:
        """Take in a decision record."""
        self._heard += 1
        self._undecoded.append((subject, payload))

    def on_model(self, subject: str, payload: bytes) -> None:
        """Take in the model of the cluster."""
        self._heard += 1
        try:
            self._model = (wire.decode_model(payload), self._clock.monotonic_s())
        except errors.MessageError as error:
            self.drop(error.reason)

    def on_summary(self, subject: str, payload: bytes, *, is_new: bool = True) -> None:
        """Take in a summary of the cluster. `is_new`: it was just published, and not stored by the bus."""
        self._heard += 1
        try:
            self._history.put(wire.decode_summary(payload, subject=subject), is_new=is_new)
        except errors.MessageError as error:
            self.drop(error.reason)

    @property
    def members(self) -> tuple[messages.Heartbeat, ...]:
        """The schedulers that share the work."""
        return tuple(self._members.all())

    def on_heartbeat(self, subject: str, payload: bytes) -> None:
        """Take in the heartbeat of a scheduler that shares the work."""
        self._heard += 1
        self._members.take(subject, payload)

    def on_capacity_list(self, *pages: capacity_list.Page) -> None:
        """Take in the scheduler's answers to `capacity.list`."""
        for page in pages:
            if page.scheduler_names is not None:
                self.scheduler_names = page.scheduler_names
        # The others were answered before.
        if pages and (ts_ns := pages[-1].ts_ns) is not None:
            ahead_ns = ts_ns - self._clock.wall_ns()
            self.scheduler_ahead_ns = ahead_ns if abs(ahead_ns) / 1e9 > CLOCK_MOST_S else 0
        self._listed = {name: listed for page in pages for name, listed in page.nodes.items()}

    def on_services(self, found: list[pictures.Service] | None, *, backlog: int | None) -> None:
        """Take in the statistics of services, and how many messages wait for the aggregators.

        None: they could not be asked.
        """
        self._services = None if found is None else tuple(found)
        self._backlog = backlog

    def drop(self, reason: errors.Drop) -> None:
        """Count a message that could not be used."""
        self._dropped[reason.value] += 1

    def scheduler_silent(self) -> None:
        """Forget reservations, because no scheduler answers."""
        self._listed = None

    def picture(
        self, *, jobs: tuple[pictures.Job, ...], links: tuple[pictures.Link, ...], pods: tuple[pictures.Pod, ...] = (),
        loads: pictures.Loads | None = None,
    ) -> pictures.Picture:  # fmt: skip
        """Return the cluster as it is known now."""
        now_s = self._clock.monotonic_s()
        self._decode_decisions()
        self._forget_another(now_s)
        self._forget(now_s)
        self._count(now_s)
        names = sorted(self._nodes.keys() | (self._listed or {}).keys(), key=formats.natural)
        return pictures.Picture(
            taken_ns=self._clock.wall_ns() + self.scheduler_ahead_ns,
            nodes=tuple(self._node(name, now_s) for name in names),
            jobs=jobs,
            decisions=tuple(reversed(self._decisions)),
            services=self._services,
            model=None if self._model is None else _model(*self._model, now_s),
            links=links,
            backlog=self._backlog,
            heard_per_s=self._heard_per_s,
            dropped=dict(self._dropped),
            pods=pods,
            refusals=self._refusals_of(pods),
            summaries=self._history.all(),
            members=self.members,
            loads=loads or {},
        )

    def _refusals_of(self, pods: tuple[pictures.Pod, ...]) -> dict[str, str]:
        """Return why Pods were not placed: by UID, and by job the newest of its Pods that wait."""
        if not self._refusals:
            return {}
        found = dict(self._refusals)
        for pod in itertools.takewhile(lambda each: each.state is pictures.PodState.WAITING, pods):
            said = self._refusals.get(pod.uid)
            if said is not None and pod.job != job_labels.OTHERS:
                found[pod.job] = said
        return found

    def _advertisement(self, subject: str, payload: bytes) -> messages.Advertisement | None:
        try:
            found = wire.decode_advertisement(payload, subject=subject)
        except errors.MessageError as error:
            self.drop(error.reason)
            return None
        refused = self._guard.accept(found.node, found.boot, found.seq, self._clock.monotonic_s())
        if refused is not None:
            # A kept message may arrive live too: a duplicate is no loss.
            if refused is not errors.Drop.REPLAYED:
                self.drop(refused)
            return None
        if self._earlier is not None and self._earlier.hears(found.node, found.boot, self._clock.monotonic_s()):
            self._earlier = None
        return found

    def _decode_decisions(self) -> None:
        known = {found.id for found in self._decisions}
        while self._undecoded:
            subject, payload = self._undecoded.popleft()
            try:
                found = wire.decode_decision(payload, subject=subject)
            except errors.MessageError as error:
                self.drop(error.reason)
                continue
            if found.id not in known:
                known.add(found.id)
                self._decisions.append(found)
                self._note_refusal(found)

    def _note_refusal(self, found: decision.Decision) -> None:
        self._refusals.pop(found.uid, None)
        if found.outcome is decision.Outcome.UNSCHEDULABLE:
            self._refusals[found.uid] = found.message
            if len(self._refusals) > REFUSALS_KEPT:
                # The oldest.
                del self._refusals[next(iter(self._refusals))]

    def _forget_another(self, now_s: float) -> None:
        """Forget what was known of a cluster that another has replaced; the model's age is shown with it."""
        before = self._earlier
        if before is None or not before.is_of_another(now_s):
            return
        self._earlier = None
        left = [each for each in self._decisions if each.id not in before.decisions]
        self._decisions.clear()
        self._decisions.extend(left)
        self._nodes = {name: heard for name, heard in self._nodes.items() if heard.at_s >= before.begun_s}
        self._history.forget(before.summaries)

    def _forget(self, now_s: float) -> None:
        listed = self._listed or {}
        self._nodes = {
            name: heard
            for name, heard in self._nodes.items()
            if name in listed or now_s - heard.at_s <= self._lease_s + FORGET_S
        }

    def _count(self, now_s: float) -> None:
        """Measure the rate over at least a second, however often pictures are taken."""
        count, at_s = self._heard_before
        if now_s - at_s >= 1.0:
            self._heard_per_s = (self._heard - count) / (now_s - at_s)
            self._heard_before = (self._heard, now_s)

    def _node(self, name: str, now_s: float) -> pictures.Node:
        heard = self._nodes.get(name)
        listed = None if self._listed is None else self._listed.get(name)
        age_s = None if heard is None else heard.age_s + now_s - heard.at_s
        return pictures.Node(
            name=name,
            advertisement=None if heard is None else heard.advertisement,
            age_s=age_s,
            freshness=freshness.classify(math.inf if age_s is None else age_s, lease_s=self._lease_s),
            reserved=None if listed is None else listed.reserved,
            free=None if listed is None else listed.free,
            ready=None if listed is None else listed.ready,
            schedulable=None if listed is None else listed.schedulable,
        )


def _model(found: messages.GlobalModel, heard_s: float, now_s: float) -> pictures.Model:
    diagonal = zip(found.dims, found.gram.diagonal().tolist(), strict=True)
    return pictures.Model(
        replica=found.replica,
        contributors=found.contributors,
        age_s=now_s - heard_s,
        magnitude={dim: math.sqrt(max(0.0, value)) for dim, value in diagonal},
    )
