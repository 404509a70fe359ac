"""Settings of single schedulerNames among several schedulers that share the work."""

import asyncio
import random

import numpy as np
import pytest

from carico_core.domain import messages
from carico_core.wire import messages as wire
from carico_core.wire import subjects
from carico_scheduler.decide import cycle
from carico_scheduler.rules import policy
from carico_scheduler.sharing import shares
from carico_scheduler.sharing.claims import stream
from carico_scheduler.state import node_state, state
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing import shared_world

NOW_S = 1000.0
NAMES = frozenset({"carico", "web", "batch"})
RULES = policy.Policy(
    names=NAMES,
    profiles={
        "web": policy.Profile(ceiling_offset=-0.1),
        "batch": policy.Profile(ceiling_offset=0.2, score=policy.ScoreMode.ABSOLUTE),
    },
)


class MeasuredWorld(shared_world.SharedWorld):
    """Nodes of 4 cores that advertise as much headroom in cores as they have room; a Pod costs one."""

    def advertise(self, node: str, capacity: float, pods: int, covers: frozenset[str]) -> None:
        """Every engine hears this advertisement."""
        self._seq += 1
        now_ns = self.clock.wall_ns()
        made: messages.Advertisement = objects.with_headroom(
            objects.make_advertisement(
                node, 9.0, seq=self._seq, ts_ns=now_ns, sampled_at_ns=now_ns, pods=pods, covers=covers
            ),
            {"cpu": self.room - pods}, {"cpu": 1.0},
        )  # fmt: skip
        for one in self.engines:
            one.on_advertisement(subjects.capacity(node), wire.encode_advertisement(made))


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binds take 2 s at most here."""
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)


def test_a_pod_is_decided_on_by_a_member_that_serves_its_name() -> None:
    async def main() -> None:
        made = shared_world.SharedWorld(
            engines=2, room=100.0,
            names={0: frozenset({"carico"}), 1: frozenset({"carico", "batch"})},
        )  # fmt: skip
        await made.start(nodes=2)
        await asyncio.sleep(4.0)
        names = ["carico", "batch"] * 20
        uids = [made.create_pod(f"pod-{index}", schedulerName=name) for index, name in enumerate(names)]
        await asyncio.sleep(1.0)
        assert made.kube.binds == dict.fromkeys(uids, 1)
        assert all(each.claims.labels("stored")._value.get() > 0 for each in made.counted)
        await made.stop()

    objects.run_fast(main())


@pytest.mark.parametrize(("name", "expected"), [("web", 2), ("carico", 3), ("batch", 4)])
def test_pods_of_all_members_together_fill_a_node_up_to_the_ceiling_of_their_name(name: str, expected: int) -> None:
    async def main() -> None:
        made = MeasuredWorld(engines=3, room=3.2, rules=RULES)
        made.pod_s = (1000.0, 1000.0)
        await made.start(nodes=1)
        await asyncio.sleep(4.0)
        for index in range(12):
            made.create_pod(f"pod-{index}", schedulerName=name)
        await asyncio.sleep(10.0)
        assert len(made.kube.binds) == expected
        assert (
            sum(each.state.queue.find(uid) is not None for each in made.engines for uid in uids(made)) == 12 - expected
        )
        assert made.claims("no_room") + made.claims("conflict") > 0, "members decided at the same time"
        await made.stop()

    objects.run_fast(main())


def uids(made: MeasuredWorld) -> list[str]:
    """The UIDs of all Pods."""
    return [pod["metadata"]["uid"] for pod in made.pods()]


@pytest.mark.parametrize("stranger", ["large", "small"])
@pytest.mark.parametrize(("name", "expected"), [("carico", "small"), ("batch", "large")])
def test_the_score_of_a_name_counts_at_home_and_elsewhere(stranger: str, name: str, expected: str) -> None:
    made = state.State(RULES, random.Random(0))
    for node, cores, headroom in (("large", 16.0, 12.0), ("small", 2.0, 5.0)):
        made.put_node(objects.make_node(node, allocatable_cores=cores))
        said = objects.with_headroom(objects.make_advertisement(node, 9.0), {"cpu": headroom}, {"cpu": 1.0})
        made.put_advertisement(node_state.Heard(advertisement=said, sampled_s=NOW_S), NOW_S)
    fuller = np.array([shares.FULLER_PODS if node == stranger else 0.0 for node in ("large", "small")])
    shared = cycle.Cycle(RULES, ranking=lambda scorer: shares.HomeScore(scorer=scorer, fuller=lambda _: fuller))
    made.put_pod(objects.make_pod("pod", scheduler_name=name), NOW_S)
    (placed,) = shared.run(made.fleet.snapshot(NOW_S), made.queue, most=1).placed
    assert placed.row.node.name == expected
