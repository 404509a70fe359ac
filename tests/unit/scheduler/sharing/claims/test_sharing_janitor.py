"""The janitor: a claim ends only once its Pod can no longer be bound by it."""

import asyncio

from carico_scheduler.sharing.claims import janitor, ledger
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing.claims import claims_world


class World(claims_world.World):
    """A member's janitor, and one Pod that its watch does not show as bound."""

    def __init__(self, *, is_on_duty: bool = True) -> None:
        super().__init__()
        self.changed: list[str] = []
        self.kube = memory_kube.MemoryKube(clock=self.clock)
        self.kube.objects.create("nodes", objects.node_object(claims_world.NODE), "test")
        made = self.kube.objects.create("pods", objects.pod_object("p"), "test")
        self.uid = str(made["metadata"]["uid"])
        self.pods = {self.uid: objects.make_pod("p", uid=self.uid)}
        self.janitor = janitor.Janitor(
            self.ledger, self.commits, api=self.kube, clock=self.clock, may_commit=lambda: True,
            is_on_duty=lambda: is_on_duty, find=self.pods.get, on_changed=self.changed.append, count=lambda: None,
        )  # fmt: skip

    async def bind(self) -> None:
        """The API takes a bind of the Pod."""
        body = {"metadata": {"uid": self.uid}, "target": {"name": claims_world.NODE}}
        await self.kube.request("POST", "/api/v1/namespaces/default/pods/p/binding", body=body)


def test_the_claim_of_a_pod_that_was_bound_right_before_it_was_changed_stays() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        assert await made.ask(made.uid) == "stored"
        await asyncio.sleep(ledger.LEASE_S + 1.0)
        await made.bind()
        assert await made.janitor.round() == 0
        await asyncio.sleep(1.0)
        assert [each.uid for each in made.stored()] == [made.uid], "others may not have seen the bind yet"
        running.cancel()

    objects.run_fast(main())


def test_the_claim_of_a_pod_that_was_not_bound_ends() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        assert await made.ask(made.uid) == "stored"
        await asyncio.sleep(ledger.LEASE_S + 1.0)
        assert await made.janitor.round() == 1
        await asyncio.sleep(1.0)
        assert made.stored() == ()
        running.cancel()

    objects.run_fast(main())


def test_pods_that_cannot_be_changed_do_not_hold_up_the_claims_of_others() -> None:
    async def main() -> None:
        made = World()
        running = await made.start()
        stuck = [f"stuck-{number}" for number in range(janitor.MOST)]
        made.pods |= {uid: objects.make_pod(uid, uid=uid) for uid in stuck}
        assert await asyncio.gather(*map(made.ask, [*stuck, made.uid])) == ["stored"] * (janitor.MOST + 1)
        await asyncio.sleep(ledger.LEASE_S + 1.0)
        assert [await made.janitor.round(), await made.janitor.round()] == [0, 1], "the API does not have the others"
        await asyncio.sleep(1.0)
        assert sorted(each.uid for each in made.stored()) == sorted(stuck)
        running.cancel()

    objects.run_fast(main())


def test_each_member_ends_its_own_claims_by_which_a_bind_may_still_arrive() -> None:
    async def main() -> None:
        made = World(is_on_duty=False)
        running = await made.start()
        sweeping = asyncio.create_task(made.janitor.run_forever())
        assert await made.ask(made.uid) == "stored"
        await asyncio.sleep(2.0 * janitor.EVERY_S)
        assert [each.uid for each in made.stored()] == [made.uid], "it is in use"
        made.ledger.doubt(claims_world.NODE, claims_world.claim(made.uid, at_ns=2))
        assert made.ledger.doubtful() == []
        made.ledger.doubt(claims_world.NODE, claims_world.claim(made.uid))
        await asyncio.sleep(janitor.EVERY_S + 0.1)
        assert (made.stored(), made.changed) == ((), [made.uid])
        running.cancel()
        sweeping.cancel()

    objects.run_fast(main())
