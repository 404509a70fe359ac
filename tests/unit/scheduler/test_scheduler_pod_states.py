"""Pods under every order of events: state, queue, binder, outcomes and extender together, on a model of API and bus.

The API answers when a rule says so, or never; watch events come late, repeated, out of order or not at all, and then a
list follows; the leader changes; kube-scheduler asks twice. Whatever happens, a Pod counts once and on one node from
its decision to its end, no room is given twice, none waits for ever, and in the end nothing is left.
"""

import asyncio
import collections
import dataclasses
import json
import random
from collections.abc import Callable, Mapping
from typing import Any, cast

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import tasks as paces
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.engine import engine, parts
from carico_scheduler.extender import extender_settings, server, service
from carico_scheduler.pods import record
from carico_scheduler.report import decisions, events, instruments
from carico_scheduler.rules import policy
from tests.unit.scheduler import objects

NODES = ("node-0", "node-1")
ROOM = 2
NAMES = ("a", "b", "c", "d")
OURS, THEIRS = "carico", "kube-carico"
WATCH_LATE_S = 45.0
HOW = ("done", "done", "done", "carried out", "carried out", "lost", "late", "unavailable", "forbidden")
SELDOM = ("wait", "list", "list", "leader", "leader", "house", "late", "late", "others")
PATH = "/api/v1/namespaces/default/pods/"
Answer = dict[str, Any]


@dataclasses.dataclass(eq=False)
class Call:
    """A request to the API: it waits for its turn to be sent, and then for its answer."""

    method: str
    path: str
    body: Any
    turn: "asyncio.Future[None]"
    answer: "asyncio.Future[Answer]"
    # A bind that was carried out, and is not answered yet.
    is_done: bool = False


class Api:
    """The API server: what is true, and what its watch has to say of it."""

    def __init__(self) -> None:
        self.pods: dict[str, Answer] = {}
        self.calls: list[Call] = []
        # Events that the watch has not delivered, and those that it has.
        self.coming: list[tuple[str, Answer]] = []
        self.delivered: list[tuple[str, Answer]] = []
        # UIDs of the Pods whose binds were sent.
        self.permitted: list[str] = []
        # Binds that were answered as lost, and that land later.
        self.late: list[Call] = []
        # Room beyond a node's own that binds have taken which the scheduler could not know of.
        self.surprises: collections.Counter[str] = collections.Counter()
        self._version = 0

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: Any = None,
        content_type: str = "application/json", timeout_s: float = 10.0, permit: Callable[[], None] | None = None,
    ) -> Any:  # fmt: skip
        """As of `api_actions.BindApi`."""
        loop = asyncio.get_running_loop()
        call = Call(method, path, body, loop.create_future(), loop.create_future())
        self.calls.append(call)
        try:
            await call.turn
            if permit is not None:
                permit()
                self.permitted.append(body["metadata"]["uid"])
            return await call.answer
        finally:
            if call in self.calls:
                self.calls.remove(call)

    def mirror(self, path: str, *, params: Any = None, read: Any = None, freshness: Any = None) -> Any:
        """Not used: events are put into the state by rules."""
        raise NotImplementedError

    def named(self, name: str) -> Answer | None:
        """The Pod of a name, or None."""
        return next((each for each in self.pods.values() if each["metadata"]["name"] == name), None)

    def live(self, node: str | None = None) -> dict[str, Answer]:
        """Pods that have not ended; those on a node."""
        return {
            uid: pod
            for uid, pod in self.pods.items()
            if pod["status"]["phase"] in ("Pending", "Running")
            and (node is None or pod["spec"].get("nodeName") == node)
        }

    def change(self, uid: str, type_: str, pod: Answer) -> None:
        """Makes it so, and has the watch say it."""
        self._version += 1
        made = json.loads(json.dumps(pod))
        made["metadata"]["resourceVersion"] = str(self._version)
        if type_ == "DELETED":
            del self.pods[uid]
        else:
            self.pods[uid] = made
        self.coming.append((type_, made))

    def bind(self, body: Any) -> Answer:
        """A bind is carried out. Raises as the API refuses."""
        uid, node = body["metadata"]["uid"], body["target"]["name"]
        pod = self.named(body["metadata"]["name"])
        if pod is None:
            raise errors.NotFound(status=404, reason="NotFound", message="no such Pod", request="POST")
        if pod["metadata"]["uid"] != uid or pod["spec"].get("nodeName"):
            raise errors.Conflict(status=409, reason="Conflict", message="bound, or another", request="POST")
        self.change(uid, "MODIFIED", pod | {"spec": pod["spec"] | {"nodeName": node}})
        return {}

    def read(self, path: str) -> Answer:
        """A Pod is read. Raises `NotFound`."""
        found = self.named(path.removeprefix(PATH))
        if found is None:
            raise errors.NotFound(status=404, reason="NotFound", message="no such Pod", request="GET")
        return found


class Machine(stateful.RuleBasedStateMachine):
    """One scheduler with its extender on that API."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = objects.FastLoop()
        asyncio.set_event_loop(None)
        self.api = Api()
        self.term: int | None = 1
        self.created = self.seq = 0
        self.coming_since_s = self.loop.time()
        # A list of the Pods that is on its way.
        self.listed: list[Answer] | None = None
        self.covered: dict[str, set[str]] = {node: set() for node in NODES}
        # Pods that the scheduler has seen bound.
        self.told: set[str] = set()
        self.asked: list[asyncio.Task[None]] = []
        self.verifying: asyncio.Task[None] | None = None
        self.run(self._build())
        for node in NODES:
            self.engine.state.put_node(objects.make_node(node))
        self.advertise_all()
        for name, scheduler in zip(NAMES, (OURS, OURS, THEIRS, THEIRS), strict=True):
            self.create(name, scheduler)

    async def _build(self) -> None:
        clock = objects.LoopClock(self.loop)
        counted = instruments.Instruments(metrics.Metrics("scheduler"))
        log = decisions.Log(boot="0" * 16, threshold=1.0, clock=clock, on_record=lambda _: None, on_drop=lambda: None)
        recorder = api_actions.EventRecorder(self.api, clock=clock, controller="c", instance="i")
        writer = events.Writer(recorder, pace=paces.Pace(1000.0, clock=clock), on_drop=lambda _: None)
        self.engine = engine.Engine(
            parts.EngineParts(
                policy=policy.Policy(), kube=cast(parts.Kube, self.api), clock=clock, rng=random.Random(0),
                log=log, events=writer, metrics=counted, binds_in_flight=3, bind_timeout_s=1.0, event_after_s=1.0,
                term=lambda: self.term,
            )
        )  # fmt: skip
        self.engine.informers._lacking.clear()
        self.unit = server.ServedExtender(
            extender_settings.ExtenderSettings(enabled=True, port=0, hold_s=5.0, wait_s=0.0),
            service.ExtenderParts(
                state=self.engine.state, kube=self.api, clock=clock, rng=random.Random(1), log=log, metrics=counted,
                bind_timeout_s=1.0, term=self.engine.term, wake=self.engine.wake,
            ),
        )  # fmt: skip
        self.engine.held.for_others = self.unit.extender.held

    @stateful.initialize(early=st.booleans())
    def begin(self, early: bool) -> None:
        """The list that the scheduler begins with may have been taken before there were Pods."""
        self.listed = [] if early else None

    def run(self, work: Any) -> None:
        """Runs a coroutine to its end, and then what has become ready by it."""
        self.loop.run_until_complete(work)
        self.settle()

    @stateful.invariant()
    def note_what_comes(self) -> None:
        if not self.api.coming and self.listed is None:
            self.coming_since_s = self.now_s

    def settle(self) -> None:
        """Runs what is ready; no time passes."""
        for _ in range(8):
            self.loop.run_until_complete(_yield())
            if self.loop.is_idle:
                return

    # What the API's users do.

    @stateful.rule(name=st.sampled_from(NAMES), scheduler=st.sampled_from([OURS, THEIRS]))
    def create(self, name: str, scheduler: str) -> None:
        if self.api.named(name) is None:
            self.created += 1
            pod = objects.pod_object(name, schedulerName=scheduler)
            pod["metadata"]["uid"] = f"uid-{self.created}"
            self.api.change(pod["metadata"]["uid"], "ADDED", pod)

    @stateful.rule(name=st.sampled_from(NAMES), verb=st.sampled_from(["start", "end", "delete", "mark"]))
    def live(self, name: str, verb: str) -> None:
        pod = self.api.named(name)
        if pod is None:
            return
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        if verb == "delete":
            self.api.change(uid, "DELETED", pod)
        elif verb == "mark":
            self.api.change(uid, "MODIFIED", pod | {"metadata": meta | {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        elif pod["spec"].get("nodeName") and pod["status"]["phase"] != "Succeeded":
            phase = "Running" if verb == "start" else "Succeeded"
            self.api.change(uid, "MODIFIED", pod | {"status": {"phase": phase}})

    def another_scheduler_binds(self, name: str, node: str) -> None:
        pod = self.api.named(name)
        if pod is not None and not pod["spec"].get("nodeName") and not sum(self.api.surprises.values()):
            self.api.surprises[node] += 1
            self.api.bind({"metadata": pod["metadata"], "target": {"name": node}})

    # What the watch says.

    @stateful.precondition(lambda self: self.api.coming and self.listed is None)
    @stateful.rule(at=st.integers(0, 20))
    def deliver(self, at: int) -> None:
        """The next event, or one out of order."""
        self._show(*self.api.coming.pop(at % len(self.api.coming) if at > 14 else 0))

    @stateful.precondition(lambda self: self.api.delivered)
    @stateful.rule(at=st.integers(0, 1000))
    def repeat(self, at: int) -> None:
        self._show(*self.api.delivered[at % len(self.api.delivered)])

    def list_again(self) -> None:
        """Events are lost, and a list is asked for; or it comes, by now out of date."""
        if self.listed is None:
            self.api.coming.clear()
            self.listed = list(self.api.pods.values())
            return
        found = [api_objects.parse_pod(pod) for pod in self.listed]
        self.listed = None
        self.engine.state.put_pods(found, self.now_s, self.now_s)
        self.told |= {pod.uid for pod in found if pod.node_name is not None and not pod.is_terminal}

    def _show(self, type_: str, pod: Answer) -> None:
        self.api.delivered.append((type_, pod))
        parsed = api_objects.parse_pod(pod)
        if type_ == "DELETED":
            self.engine.state.remove_pod(parsed.uid)
        else:
            self.engine.state.put_pod(parsed, self.now_s)
            if parsed.node_name is not None and not parsed.is_terminal:
                self.told.add(parsed.uid)

    # What agents advertise.

    @stateful.rule(node=st.sampled_from(NODES), unaware=st.integers(0, 3))
    def advertise(self, node: str, unaware: int) -> None:
        """A node states its room; it knows of the Pods that run there, but for `unaware` of them."""
        running = [uid for uid, pod in self.api.live(node).items() if pod["status"]["phase"] == "Running"]
        known = running[: len(running) - min(unaware, len(running))]
        self.covered[node] |= set(known)
        known = [uid for uid in running if uid in self.covered[node]]
        self.seq += 1
        clock = objects.LoopClock(self.loop)
        now_ns = clock.wall_ns()
        # Pods of other schedulers may have taken more than there is.
        room = max(ROOM - len(known), 0)
        made = objects.make_advertisement(
            node, float(room), seq=self.seq, ts_ns=now_ns, sampled_at_ns=now_ns, pods=len(known),
            covers=frozenset(self.covered[node]),
        )  # fmt: skip
        self.engine.intake.store(subjects.capacity(node), wire.encode_advertisement(made), clock.monotonic_s())

    def advertise_all(self) -> None:
        self.advertised_s = self.now_s
        for node in NODES:
            self.advertise(node, 0)

    # What the scheduler does, and the API answers.

    @stateful.precondition(lambda self: len(self.engine.state.queue) > 0)
    @stateful.rule()
    def decide(self) -> None:
        if self.now_s - self.advertised_s > 4.0:
            self.advertise_all()
        self.run(self._step())

    async def _step(self) -> None:
        self.engine.step()

    def wait(self, seconds: float) -> None:
        # A watch that is silent for longer is noticed, and nothing is decided by it.
        if self.now_s + seconds - self.coming_since_s > WATCH_LATE_S:
            self.catch_up()
        self.run(asyncio.sleep(seconds))

    def catch_up(self) -> None:
        """Deliver all pending events of the watch."""
        if self.listed is not None:
            self.list_again()
        while self.api.coming:
            self._show(*self.api.coming.pop(0))

    @stateful.rule(
        name=st.sampled_from(NAMES[2:]), node=st.sampled_from(NODES), seen=st.booleans(), twice=st.booleans()
    )
    def kube_scheduler_binds(self, name: str, node: str, seen: bool, twice: bool) -> None:
        pod = self.api.named(name)
        if self.now_s - self.advertised_s > 4.0:
            self.advertise_all()
        if pod is not None and pod["spec"]["schedulerName"] == THEIRS:
            for each in (node, *NODES)[: 2 if twice else 1]:
                self.asked.append(self.loop.create_task(self._ask(pod, each, filters=seen)))
            self.settle()

    async def _ask(self, pod: Answer, node: str, *, filters: bool) -> None:
        meta = pod["metadata"]
        try:
            if filters:
                asked = {"Pod": pod, "Nodes": None, "NodeNames": NODES}
                await self.unit.extender.filter(json.dumps(asked).encode())
            bind = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
            answer = json.loads(await self.unit.extender.bind(json.dumps(bind).encode()))
        except service.NotServing:
            return
        if answer["Error"] == "":
            found = self.api.pods.get(meta["uid"])
            assert found is None or found["spec"].get("nodeName") == node, "reported bound where it is not"

    @property
    def waiting(self) -> list[Call]:
        return [call for call in self.api.calls if not call.turn.done()]

    @property
    def sent(self) -> list[Call]:
        return [call for call in self.api.calls if call.turn.done() and not call.answer.done()]

    @stateful.precondition(lambda self: self.waiting)
    @stateful.rule(at=st.integers(0, 20))
    def send(self, at: int) -> None:
        """A request gets its turn."""
        self.waiting[at % len(self.waiting)].turn.set_result(None)
        self.settle()
        for uid in self.api.permitted:
            found = self.engine.state.records.find(uid)
            assert self.term is not None, "a bind is sent while another may lead"
            assert found is not None and found.state is record.BINDING, "a bind is sent of a Pod that is bound or gone"
        self.api.permitted.clear()

    @stateful.precondition(lambda self: self.sent)
    @stateful.rule(
        at=st.integers(0, 20),
        how=st.sampled_from(HOW),
    )
    def answer(self, at: int, how: str) -> None:
        self._answer(self.sent[at % len(self.sent)], how)
        self.settle()

    def _answer(self, call: Call, how: str) -> None:
        away = errors.ApiUnavailable("no answer")
        try:
            # What was carried out is not refused: rights are checked before.
            if how == "forbidden" and not call.is_done:
                raise errors.Forbidden(status=403, reason="Forbidden", message="no rights", request=call.method)
            if how == "unavailable":
                raise away
            if how == "late" and call.method == "POST":
                self.api.late.append(call)
                raise away
            if call.method == "GET":
                answer = self.api.read(call.path)
            elif call.is_done:
                answer = {}
            else:
                answer = self.api.bind(call.body)
                call.is_done = True
            if how == "carried out":
                # The watch may say so before the answer does.
                return
            if how == "lost":
                raise away
        except errors.CaricoError as error:
            call.answer.set_exception(error)
        else:
            call.answer.set_result(answer)
            if call.method == "POST":
                self.told.add(call.body["metadata"]["uid"])

    def land_late(self) -> None:
        """A bind that was answered as lost is carried out after all."""
        if not self.api.late:
            return
        body = self.api.late.pop(0).body
        try:
            self.api.bind(body)
        except errors.CaricoError:
            return
        self.api.surprises[body["target"]["name"]] += 1

    def change_leader(self) -> None:
        if self.term is None:
            # A new leader begins by knowing all binds of the one before it.
            self.catch_up()
            self.term = self.seq + 100
        else:
            self.term = None

    @stateful.rule(
        what=st.sampled_from(SELDOM),
        seconds=st.sampled_from([0.2, 1.0, 6.0, 70.0]), name=st.sampled_from(NAMES), node=st.sampled_from(NODES),
    )  # fmt: skip
    def happen(self, what: str, seconds: float, name: str, node: str) -> None:
        """Something that happens less often than the rest."""
        match what:
            case "wait":
                self.wait(seconds)
            case "list":
                self.list_again()
            case "leader":
                self.change_leader()
            case "house":
                self.keep_house()
            case "late":
                self.land_late()
            case "others":
                self.another_scheduler_binds(name, node)

    @stateful.rule(seed=st.integers(0, 2**32))
    def much_happens(self, seed: int) -> None:
        """Many things, more of those that bring Pods on their way."""
        rng = random.Random(seed)
        for _ in range(60):
            name, node, at = rng.choice(NAMES), rng.choice(NODES), rng.randrange(21)
            match rng.randrange(12):
                case 0:
                    self.create(name, OURS if name in NAMES[:2] else THEIRS)
                case 1:
                    self.live(name, rng.choice(["start", "start", "end", "delete", "mark"]))
                case 2 | 3 if self.api.coming and self.listed is None:
                    self.deliver(at)
                case 4 if self.api.delivered:
                    self.repeat(rng.randrange(1000))
                case 5:
                    self.advertise(node, rng.randrange(3))
                case 6 if self.engine.state.queue:
                    self.decide()
                case 7:
                    self.kube_scheduler_binds(rng.choice(NAMES[2:]), node, rng.random() < 0.5, rng.random() < 0.3)
                case 8 | 9 if self.waiting:
                    self.send(at)
                case 10 | 11 if self.sent:
                    self.answer(at, rng.choice(HOW))
                case _ if rng.random() < 0.2:
                    self.happen(rng.choice(SELDOM), rng.choice([0.2, 1.0, 6.0, 70.0]), name, node)
            self.note_what_comes()
            self.every_pod_counts_once_and_on_one_node()
            self.no_room_is_given_twice()
            self.nothing_has_failed()

    def keep_house(self) -> None:
        """As the extender's server does now and then."""
        self.unit.extender.tidy()
        self.unit.extender.forget()
        if self.verifying is None or self.verifying.done():
            self.verifying = self.loop.create_task(self.unit.extender.verify_unshown())
            self.asked.append(self.verifying)
            self.settle()

    @property
    def now_s(self) -> float:
        return self.loop.time()

    @stateful.invariant()
    def every_pod_counts_once_and_on_one_node(self) -> None:
        state = self.engine.state
        bookings = {uid: booking for each in state.reservations._by_node.values() for uid, booking in each.items()}
        assert len(bookings) == len(state.reservations)
        placed = {each.uid: each.booking for each in state.records if each.is_placed}
        assert placed == bookings
        for each in state.records:
            assert (each.booking is not None) == each.is_placed
            assert (each.uid in state.queue) == (each.state is record.WAITING)
            assert (each.waiting is not None) == (each.state in record.UNBOUND)
            if each.is_bound and each.booking is not None:
                assert (each.state is record.BOUND) == state.reservations.is_reserved(each.booking)
            assert not state.records.is_gone(each.uid)
        for node in NODES:
            slot = state.fleet.slot_of(node)
            assert slot is not None
            here = [booking for booking in bookings.values() if booking.node == node]
            row = state.fleet.row(slot)
            assert (row.placed, row.reserved) == (len(here), sum(map(state.reservations.is_reserved, here)))
        for uid in self.told & self.api.live().keys():
            found = state.records.find(uid)
            assert found is not None and found.is_placed, f"{uid} is known to be bound, and does not count: {found}"

    @stateful.invariant()
    def no_room_is_given_twice(self) -> None:
        for node in NODES:
            taken = set(self.api.live(node))
            for each in self.engine.state.records:
                if each.booking is not None and not each.is_bound and each.booking.node == node:
                    pod = self.api.pods.get(each.uid)
                    if pod is not None and not pod["spec"].get("nodeName"):
                        taken.add(each.uid)
            assert len(taken) <= ROOM + self.api.surprises[node], node

    @stateful.invariant()
    def nothing_has_failed(self) -> None:
        assert self.engine.binder.fault is None and self.unit.binder.fault is None
        for task in self.asked:
            if task.done():
                task.result()

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.settle()
            self.loop.close()

    def _end(self) -> None:
        """From now on all goes well: every Pod is placed and ends, and nothing is left."""
        if self.term is None:
            self.change_leader()
        for name in NAMES:
            pod = self.api.named(name)
            if pod is not None and pod["spec"]["schedulerName"] == THEIRS and not pod["spec"].get("nodeName"):
                self.api.change(pod["metadata"]["uid"], "DELETED", pod)
        for _ in range(60):
            self._serve_all()
            self.catch_up()
            for pod in list(self.api.pods.values()):
                gone = "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
                next_ = "delete" if gone or pod["status"]["phase"] == "Succeeded" else "start"
                self.live(pod["metadata"]["name"], "end" if pod["status"]["phase"] == "Running" else next_)
            self.advertise_all()
            self.run(self._step())
            self.every_pod_counts_once_and_on_one_node()
            self.nothing_has_failed()
            if not (self.api.pods or self.api.calls or self.api.coming or self.engine.binder.in_flight):
                break
            self.wait(1.0)
        assert not self.api.pods, "a Pod waits for ever"
        self.wait(10.0)
        # What a read that began earlier could not know yet, the next one finds.
        for _ in range(2):
            self.keep_house()
            while self.verifying is not None and not self.verifying.done():
                self._serve_all()
        state, extender = self.engine.state, self.unit.extender
        state.queue.unpark()
        kept = {
            "records": len(state.records), "unshown": len(state.records.unshown()), "bookings": len(state.reservations),
            "reserved": state.reservations.reserved_count, "queue": len(state.queue), "lanes": len(state.queue._lanes),
            "resting": len(state.queue._due), "holds": len(extender.holds), "waits": len(extender.waits),
            "binds": self.engine.binder.in_flight + self.unit.binder.in_flight,
            "counted": len(state.fleet.pod_counts._placed), "asked": sum(not task.done() for task in self.asked),
        }  # fmt: skip
        assert not any(kept.values()), kept

    def _serve_all(self) -> None:
        """Answer all requests that are under way."""
        for call in self.waiting:
            call.turn.set_result(None)
        self.settle()
        for call in [call for call in self.api.calls if not call.answer.done()]:
            self._answer(call, "done")
        self.settle()


async def _yield() -> None:
    await asyncio.sleep(0)


Machine.TestCase.settings = hypothesis.settings(max_examples=40, stateful_step_count=20, deadline=None)
test_pods_under_every_order_of_events = Machine.TestCase
