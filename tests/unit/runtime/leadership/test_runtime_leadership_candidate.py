"""The rules of the election alone: under any clocks, pauses and lost answers there is never a second leader."""

import contextlib
import dataclasses
import functools
import heapq
import itertools
import random
from collections.abc import Callable, Generator

import hypothesis
import pytest
from hypothesis import strategies as st

from carico_core.runtime.leadership import candidate as candidates
from carico_core.wire.kubernetes import lease

TIMES = candidates.LeaseTimes(duration_s=15, renew_s=10.0, retry_s=2.0)
Lease = lease.Lease


def make(identity: str = "a", times: candidates.LeaseTimes = TIMES) -> candidates.LeaseCandidate:
    return candidates.LeaseCandidate(identity=identity, namespace="kube-system", name="carico-scheduler", times=times)


class Store:
    """One Lease with a version, as the API keeps it."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0

    def read(self) -> Lease | None:
        return self.lease

    def write(self, wanted: Lease) -> Lease:
        current = "" if self.lease is None else self.lease.resource_version
        if wanted.resource_version != current:
            raise Refused
        self.version += 1
        self.lease = dataclasses.replace(wanted, resource_version=str(self.version))
        return self.lease


class Refused(Exception):
    """409."""


class Lost(Exception):
    """No answer."""


def elect(one: candidates.LeaseCandidate, store: Store, now_s: float) -> bool:
    """One round without any fault; True where the Lease was written."""
    if one.must_read:
        one.see(store.lease, now_s)
    wanted = one.proposal(now_s, round(now_s * 1e9))
    one.doubt()
    if wanted is None:
        return False
    one.accept(store.write(wanted), sent_s=now_s, now_s=now_s)
    return True


def test_the_first_creates_the_lease_and_leads_until_it_must_have_renewed() -> None:
    store, one = Store(), make()
    assert elect(one, store, 100.0)
    assert store.lease == Lease(
        namespace="kube-system", name="carico-scheduler", holder="a", duration_s=15, acquired_at_ns=100 * 10**9,
        renewed_at_ns=100 * 10**9, transitions=0, resource_version="1",
    )  # fmt: skip
    assert one.leads(109.99)
    assert not one.leads(110.0)
    assert one.next_s(100.0) == 102.0
    assert elect(one, store, 102.0)
    assert (store.lease.acquired_at_ns, store.lease.renewed_at_ns) == (100 * 10**9, 102 * 10**9)
    assert one.leads(111.99)


def test_a_term_counts_from_when_the_renewal_was_sent() -> None:
    store, one = Store(), make()
    one.see(None, 0.0)
    wanted = one.proposal(0.0, 0)
    assert wanted is not None
    one.accept(store.write(wanted), sent_s=0.0, now_s=4.0)
    assert one.leads(9.99)
    assert not one.leads(10.0)
    one.doubt()
    assert one.must_read
    assert one.proposal(5.0, 0) is None, "it may have been taken, or refused"


def test_another_waits_out_the_lease_from_when_it_saw_the_last_renewal() -> None:
    store, one, other = Store(), make("a"), make("b")
    elect(one, store, 0.0)
    # Clocks are apart by an hour, and the renewal is seen 5 s late.
    late_s = 3605.0
    assert not elect(other, store, late_s)
    assert other.holder == "a"
    assert other.next_s(late_s) == late_s + 1.0
    assert other.next_s(late_s + 14.5) == late_s + 15.0, "it looks as the Lease ends"
    assert not elect(other, store, late_s + 14.9)
    assert elect(other, store, late_s + 15.0)
    assert store.lease is not None
    assert (store.lease.holder, store.lease.transitions, other.term) == ("b", 1, 1)
    assert store.lease.acquired_at_ns == round((late_s + 15.0) * 1e9)
    with pytest.raises(Refused):
        one.accept(store.write(dataclasses.replace(store.lease, holder="a", resource_version="1")), sent_s=0, now_s=0)


def test_a_renewal_starts_the_wait_again_and_another_version_alone_does_not() -> None:
    store, one, other = Store(), make("a"), make("b")
    elect(one, store, 0.0)
    elect(other, store, 0.0)
    elect(one, store, 2.0)
    elect(other, store, 2.5)
    assert not elect(other, store, 17.4)
    assert store.lease is not None
    store.lease = dataclasses.replace(store.lease, resource_version="labelled")
    assert elect(other, store, 17.5)


def test_a_lease_given_up_is_free_at_once() -> None:
    store, one, other = Store(), make("a"), make("b")
    elect(one, store, 0.0)
    elect(other, store, 0.1)
    given_up = one.resignation(10**9)
    assert given_up is not None
    assert (given_up.holder, given_up.duration_s, given_up.transitions) == ("", 1, 0)
    store.write(given_up)
    assert not one.leads(0.2)
    assert elect(other, store, 0.3)
    assert other.resignation(0) is not None
    assert make("c").resignation(0) is None


def test_a_lease_deleted_under_its_holder_is_waited_out() -> None:
    store, one, other = Store(), make("a"), make("b")
    elect(one, store, 0.0)
    elect(other, store, 1.0)
    store.lease = None
    assert not elect(other, store, 2.0)
    assert one.leads(2.0)
    with pytest.raises(Refused):
        elect(one, store, 3.0)
    assert elect(one, store, 3.5), "the holder creates it again"
    assert one.leads(13.4)
    store.lease = None
    assert elect(other, store, 30.0)


def test_a_lease_taken_by_hand_ends_the_term_as_it_is_seen() -> None:
    store, one = Store(), make("a")
    elect(one, store, 0.0)
    taken = store.read()
    assert taken is not None
    store.lease = dataclasses.replace(taken, holder="somebody", resource_version="by hand")
    with pytest.raises(Refused):
        elect(one, store, 2.0)
    assert one.leads(2.0), "it cannot know yet"
    assert not elect(one, store, 2.1)
    assert not one.leads(2.1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """How a world misbehaves: shares of requests, and longest times in seconds."""

    lost: float
    pause_share: float
    pause_s: float
    delay_s: float


class World:
    """Candidates with clocks of their own around one store, in simulated time; every `yield` may be a SIGSTOP."""

    def __init__(self, times: candidates.LeaseTimes, rates: list[float], faults: Faults, seed: int) -> None:
        self.now_s = 0.0
        self.rng = random.Random(seed)
        self.faults = faults
        self.store = Store()
        self.rates = rates
        self.offsets = [self.rng.uniform(-1e6, 1e6) for _ in rates]
        self.candidates = [make(f"c{index}", times) for index in range(len(rates))]
        self.most_at_a_time = 0
        self.events = 0
        self.led = 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def clock_s(self, index: int) -> float:
        return self.offsets[index] + self.rates[index] * self.now_s

    def at(self, after_s: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now_s + after_s, next(self._count), what))

    def run(self, until_s: float) -> None:
        for index in range(len(self.rates)):
            self._resume(self._process(index))
        while self._events and self._events[0][0] <= until_s:
            self.now_s, _, what = heapq.heappop(self._events)
            what()
            leading = sum(one.leads(self.clock_s(index)) for index, one in enumerate(self.candidates))
            self.most_at_a_time = max(self.most_at_a_time, leading)
            self.led += leading
            self.events += 1

    def _resume(self, process: Generator[float, None, None]) -> None:
        wait_s = next(process)
        if self.rng.random() < self.faults.pause_share:
            wait_s += self.rng.uniform(0.0, self.faults.pause_s)
        self.at(wait_s, lambda: self._resume(process))

    def _process(self, index: int) -> Generator[float, None, None]:
        one, rng = self.candidates[index], self.rng
        while True:
            try:
                if one.must_read:
                    one.see((yield from self._request(self.store.read)), self.clock_s(index))
                    yield 0.0
                sent_s = self.clock_s(index)
                wanted = one.proposal(sent_s, rng.getrandbits(60))
                one.doubt()
                yield 0.0
                if wanted is not None:
                    written = yield from self._request(functools.partial(self.store.write, wanted))
                    assert written is not None
                    one.accept(written, sent_s=sent_s, now_s=self.clock_s(index))
            except (Refused, Lost):
                pass
            now_s = self.clock_s(index)
            yield max(one.next_s(now_s) - now_s, 0.001) / self.rates[index]

    def _request(self, work: Callable[[], Lease | None]) -> Generator[float, None, Lease | None]:
        """Return the answer; it may also be lost, or apply long after the caller has given up."""
        rng, faults = self.rng, self.faults
        fate = rng.choice(["lost", "unanswered", "late"]) if rng.random() < faults.lost else ""
        answer: Lease | None = None
        yield rng.uniform(0.0, faults.delay_s)
        if fate == "late":
            self.at(rng.uniform(0.0, 60.0), functools.partial(_try, work))
        elif fate != "lost":
            answer = work()
        yield rng.uniform(0.0, faults.delay_s)
        if fate:
            yield 5.0
            raise Lost
        return answer


def _try(work: Callable[[], Lease | None]) -> None:
    with contextlib.suppress(Refused):
        work()


FAULTS = st.builds(
    Faults,
    lost=st.sampled_from([0.0, 0.1, 0.5]),
    pause_share=st.sampled_from([0.0, 0.05, 0.3]),
    pause_s=st.sampled_from([1.0, 12.0, 60.0]),
    delay_s=st.sampled_from([0.01, 1.0, 8.0]),
)


@hypothesis.settings(max_examples=400, deadline=None)
@hypothesis.given(
    duration_s=st.integers(2, 30),
    share=st.floats(0.2, 0.95),
    bends=st.lists(st.floats(-1.0, 1.0), min_size=2, max_size=4),
    faults=FAULTS,
    seed=st.integers(0, 2**32),
)
def test_never_two_leaders(duration_s: int, share: float, bends: list[float], faults: Faults, seed: int) -> None:
    renew_s = share * duration_s
    times = candidates.LeaseTimes(duration_s=duration_s, renew_s=renew_s, retry_s=renew_s / 5.0)
    # Clocks run wrong by as much as is stated, some fast and some slow: renew_s / (1 - r) = duration_s / (1 + r).
    most = (duration_s - renew_s) / (duration_s + renew_s)
    world = World(times, [1.0 + bend * most for bend in bends], faults, seed)
    world.run(until_s=20.0 * duration_s)
    assert world.most_at_a_time <= 1


def test_the_simulation_finds_a_second_leader_where_clocks_run_more_wrong_than_is_stated() -> None:
    times = candidates.LeaseTimes(duration_s=10, renew_s=9.0, retry_s=1.8)
    faults = Faults(lost=0.3, pause_share=0.1, pause_s=20.0, delay_s=0.01)
    found = []
    for seed in range(20):
        world = World(times, [0.7, 1.3], faults, seed)
        world.run(until_s=300.0)
        found.append(world.most_at_a_time)
    assert max(found) == 2


@hypothesis.settings(max_examples=15, deadline=None)
@hypothesis.given(seed=st.integers(0, 2**32), count=st.integers(1, 4))
def test_somebody_leads_most_of_the_time(seed: int, count: int) -> None:
    world = World(TIMES, [1.0] * count, Faults(lost=0.02, pause_share=0.0, pause_s=0.0, delay_s=0.05), seed)
    world.run(until_s=600.0)
    # A renewal each 2 s, less what is lost; an event in which there is no leader is rare.
    assert world.store.version > 150
    assert world.led > 0.8 * world.events
