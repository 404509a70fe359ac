"""Members that decide on the same Pods, as while shares change: what one gives up may be bound by the other."""

import asyncio
import contextlib
import random
from typing import Any, cast

import pytest

from carico_core.domain import constraints, decision, errors, messages
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_scheduler.bind import binder, outcomes
from carico_scheduler.report import instruments
from carico_scheduler.rules import policy
from carico_scheduler.sharing import heartbeats, member, parts
from carico_scheduler.sharing import membership as memberships
from carico_scheduler.sharing.claims import commits, stream
from carico_scheduler.state import node_state, state
from tests.tools.memory import memory_bus, memory_objects
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing import shared_world

NODE = "node-0"
ROOM = 2.0


def claim_of(uid: str, scheduler: str) -> messages.Claim:
    return messages.Claim(
        uid=uid, pod_class="image/pi", cores=0.0, size_bytes=0.0, others=(), scheduler=scheduler, at_ns=1
    )


class NoLease:
    """A Lease that is never read."""

    identity = holder = ""
    heard_s = 0.0

    def term(self) -> int | None:
        """None."""
        return None


class Site:
    """A member with one node and Pods that it has decided to place there."""

    def __init__(self, *pods: str) -> None:
        self.clock = clocks.FakeClock(monotonic_s=100.0)
        self.state = state.State(policy.Policy(), random.Random(0))
        self.state.put_nodes([objects.make_node(NODE)])
        heard = node_state.Heard(advertisement=objects.make_advertisement(NODE, ROOM), sampled_s=100.0)
        self.state.put_advertisement(heard, 100.0)
        self.attempts = {name: self.decide(name) for name in pods}
        unused = cast("Any", None)
        self.member = member.Member(
            parts.MemberParts(
                replica="own", boot=objects.BOOT, state=self.state, api=unused, clock=self.clock, lease=NoLease(),
                metrics=instruments.Instruments(metrics.Metrics("scheduler")), bind_within_s=1.0,
                lease_s=15.0, lease_read_s=10.0,
                why_not_fit=lambda: None, view_age_s=lambda: None, wake=lambda: None, on_idle=lambda: None,
                new_epoch=lambda: "0" * 16,
            )
        )  # fmt: skip

    def decide(self, name: str) -> int:
        pod = objects.make_pod(name)
        self.state.put_pod(pod, 100.0)
        self.state.queue.take(100.0)
        return self.state.assume(objects.make_waiting(pod, 0.0), NODE, 100.0)

    def request(self, name: str) -> commits.ClaimRequest:
        demand = self.state.demand_of(objects.make_pod(name))
        ended: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        return commits.ClaimRequest(
            node=NODE, claim=claim_of(f"uid-{name}", "own"), demand=demand, seq=-1, decided_s=100.0, ended=ended
        )

    def claimed_by_another(self, *names: str) -> None:
        self.member.ledger.take(NODE, 7, [claim_of(f"uid-{name}", "other") for name in names], 100.0)


async def test_what_is_given_up_frees_its_room() -> None:
    site = Site("a", "b", "c")
    assert not site.member.rechecks.fits(site.request("a"), [])
    assert site.member.rechecks.fits(site.request("b"), [site.request("a")])


async def test_what_another_has_claimed_here_frees_nothing() -> None:
    site = Site("a", "b", "c")
    site.claimed_by_another("a")
    assert not site.member.rechecks.fits(site.request("b"), [site.request("a")])


@pytest.mark.parametrize("claims", [(), ("b",)])
async def test_a_pod_with_anti_affinity_does_not_follow_a_claim_of_which_its_decision_did_not_know(
    claims: tuple[str, ...],
) -> None:
    """The other scheduler may not have known of the Pod that keeps its own away."""
    site = Site("a")
    site.state.put_pod(objects.make_pod("b"), 100.0)
    assert site.member.rechecks.fits(site.request("a"), [])
    term = constraints.PodTerm(topology_key="kubernetes.io/hostname", selector=(), namespaces=("default",))
    site.state.put_pod(objects.make_pod("a", constraints=constraints.Constraints(anti_affinity=(term,))), 100.0)
    site.claimed_by_another(*claims)
    assert site.member.rechecks.fits(site.request("a"), []) is not bool(claims)


async def test_what_another_has_bound_here_frees_nothing() -> None:
    site = Site("a", "b", "c")
    site.claimed_by_another("a")
    site.state.put_pod(objects.make_pod("a", node_name=NODE), 100.0)
    assert not site.member.rechecks.fits(site.request("b"), [site.request("a")])


@pytest.mark.parametrize(
    ("by", "shown", "expected"),
    [
        ("own/1", "own/1", binder.Fate.BOUND), ("own/1", "other/1", binder.Fate.ELSEWHERE),
        ("own/2", "own/1", binder.Fate.ELSEWHERE), ("own/1", "", binder.Fate.ELSEWHERE),
        # Only this scheduler decides.
        ("", "", binder.Fate.BOUND), ("", "other/1", binder.Fate.BOUND),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("fate", "is_sent"),
    [(binder.Fate.SETTLED, True), (binder.Fate.SETTLED, False), (binder.Fate.UNBOUND, True)],
)
def test_a_pod_that_the_watch_shows_on_the_chosen_node_is_bound_by_the_bind_that_it_names(
    by: str, shown: str, expected: binder.Fate, fate: binder.Fate, is_sent: bool
) -> None:
    site = Site("a")
    if is_sent:
        site.state.send("uid-a", site.attempts["a"])
    site.state.put_pod(objects.make_pod("a", node_name=NODE, bound_by=shown), 100.0)
    bind = binder.Bind(
        pod=objects.make_pod("a"), node=NODE, attempt=site.attempts["a"], term=1,
        waiting=objects.make_waiting(objects.make_pod("a")), facts=cast("Any", None), on_result=lambda _: None,
        by=by,
    )  # fmt: skip
    result = binder.Result(bind=bind, fate=fate, is_conflict=False, detail="")
    assert outcomes.settle(site.state, result, 100.0) is expected


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.parametrize("seed", range(2))
def test_a_pod_that_two_members_bind_to_one_node_without_an_answer_is_counted_by_the_one_whose_bind_it_was(
    seed: int, *, is_asked: bool
) -> None:
    """The API is asked, or only the watch shows the node."""

    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=2, room=100.0)
        made.pod_s = (1000.0, 1000.0)
        await made.start(nodes=1)
        await asyncio.sleep(stream.SETTLE_S + 1.0)
        # To the first one the second is gone, whose share it takes; the second goes on.
        made.connections[1].is_cut = True
        await asyncio.sleep(heartbeats.ALIVE_S + 1.0)
        request = made.kube.request

        async def lose(method: str, path: str, **more: Any) -> Any:
            if method == "GET" and not is_asked:
                raise errors.ApiUnavailable("no answer in time")
            if not path.endswith("/binding"):
                return await request(method, path, **more)
            with contextlib.suppress(errors.Conflict):
                await request(method, path, **more)
            raise errors.ApiUnavailable("no answer in time")

        made.kube.request = lose  # type: ignore[method-assign]
        uids = [made.create_pod(f"pod-{index}") for index in range(20)]
        await asyncio.sleep(10.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert made.recorded(decision.Outcome.BOUND) == dict.fromkeys(uids, 1)
        assert made.recorded(decision.Outcome.BIND_CONFLICT), "some were sent twice"
        assert sum(each.binds.labels("bound")._value.get() for each in made.counted) == 20
        assert sum(each.pods for one in made.counted for each in one.waits._waited.values()) == 20
        written = made.kube.objects.all("events", memory_objects.parse_selector("", {}))
        scheduled = [each["regarding"]["uid"] for each in written if each["reason"] == "Scheduled"]
        assert sorted(scheduled) == sorted(uids)
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize("is_heard_first", [False, True])
def test_a_member_that_stood_still_does_not_take_the_pods_of_the_others(*, is_heard_first: bool) -> None:
    """It has read no heartbeats meanwhile; those that came wait in its connection."""
    site = Site()
    membership, ready = site.member._membership, site.member._ready
    ready.bus = memory_bus.MemoryBus(memory_bus.Hub())
    others = [
        heartbeats.Heartbeats(
            name, boot="b" * 16, identity=lambda: "other", clock=site.clock, lease_s=15.0, on_change=lambda: None,
            on_drop=lambda _: None,
        )
        for name in ("first", "second")
    ]  # fmt: skip
    for other in others:
        membership._heartbeats.take(*other.next(is_leaving=False))

    def reviewed() -> tuple[str, ...]:
        membership.review()
        return membership.members

    assert reviewed() == ("first", "second")
    site.clock.advance(30.0)
    why = "it stood still, and the others have taken its share"
    assert site.member.why_not_ready() == why
    if is_heard_first:
        membership._heartbeats.take(*others[0].next(is_leaving=False))
    assert reviewed() == ("first", "second")
    assert site.member.why_not_ready() != why
    silent_s = 0.0
    while reviewed():
        site.clock.advance(memberships.CHECK_EVERY_S)
        silent_s += memberships.CHECK_EVERY_S
    assert silent_s <= heartbeats.ALIVE_S + memberships.CHECK_EVERY_S, "one that is silent is gone as soon as ever"
