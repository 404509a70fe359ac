"""Commits against a stream that is replaced, refuses or does not answer."""

import asyncio

from carico_core.runtime.bus import port as buses
from carico_core.wire import subjects
from carico_scheduler.sharing.claims import commits, janitor
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing.claims import claims_world

NODE = claims_world.NODE
claim = claims_world.claim


def test_answers_of_a_stream_that_is_gone_leave_no_trace_in_the_ledger() -> None:
    async def main() -> None:
        made = claims_world.World()
        running = await made.start()
        for index in range(5):
            assert await made.ask(f"p{index}") == "stored"

        def replace() -> None:
            made.hub.lose_claims()
            made.ledger.restart(made.clock.monotonic_s())
            made.epoch = claims_world.EPOCHS[1]
            made.claims.on_change = lambda: None

        made.claims.on_change = replace
        assert await made.ask("late") == "epoch"
        assert made.ledger.seq(NODE) == 0
        await made.name_stream()
        assert await made.ask("next") == "stored"
        running.cancel()

    objects.run_fast(main())


def test_a_stream_that_has_lost_what_it_had_stored_is_reported() -> None:
    async def main() -> None:
        made = claims_world.World()
        running = await made.start()
        assert await made.ask("a") == "stored"
        older = dict(made.hub.claims)
        assert await made.ask("b") == "stored"
        assert made.set_backs == 0
        made.hub.set_claims_back(older)
        await made.ask("c")
        assert made.set_backs > 0
        # Nor is there a message about the node any more, of which claims count.
        made.set_backs = 0
        made.hub.lose_claims()
        await made.ask("d")
        assert made.set_backs > 0
        running.cancel()

    objects.run_fast(main())


def test_a_message_without_claims_that_count_may_be_gone() -> None:
    async def main() -> None:
        made = claims_world.World()
        running = await made.start()
        assert await made.ask("a") == "stored"
        made.ledger.void(NODE, claim("a"))
        made.hub.claims.pop(subjects.claim(NODE))
        assert await made.ask("b") == "stored"
        assert made.set_backs == 0
        running.cancel()

    objects.run_fast(main())


def test_a_claim_that_could_not_be_withdrawn_is_withdrawn_later() -> None:
    async def main() -> None:
        made = claims_world.World()
        running = await made.start()
        sweeper = janitor.Janitor(
            made.ledger, made.commits, api=memory_kube.MemoryKube(clock=made.clock), clock=made.clock,
            may_commit=lambda: True, is_on_duty=lambda: False, find=lambda uid: None,
            on_changed=lambda uid: None, count=lambda: None,
        )  # fmt: skip
        sweeping = asyncio.create_task(sweeper.run_forever())
        assert await made.ask("p") == "stored"
        assert made.ledger.void(NODE, claim("p"))
        made.claims.is_away = True
        assert await made.ask(None) == "unanswered"
        assert [each.uid for each in made.stored()] == ["p"]
        made.claims.is_away = False
        await asyncio.sleep(janitor.EVERY_S + 0.1)
        assert made.stored() == ()
        assert made.counted == ["stored", "unanswered", "withdrawn"]
        number = made.ledger.seq(NODE)
        await asyncio.sleep(3.0 * janitor.EVERY_S)
        assert made.ledger.seq(NODE) == number, "once is enough"
        running.cancel()
        sweeping.cancel()

    objects.run_fast(main())


def test_a_claim_that_takes_the_place_of_another_schedulers_is_noted() -> None:
    async def main() -> None:
        made = claims_world.World()
        running = await made.start()
        for uid in ("p", "q"):
            await made.ask(uid)
        assert await made.ask("p") == "stored"
        assert made.replaced == [], "its own"
        others = claim("q")._replace(scheduler="b")
        made.ledger.take(NODE, made.ledger.seq(NODE) + 1, [claim("p"), others], 0.0)
        change = buses.GuardedWrite(
            subject=subjects.claim(NODE), payload=made.payload([claim("p"), others]), seq=made.last()
        )
        assert (await made.claims.change([change]))[0].seq == made.ledger.seq(NODE)
        assert await made.ask("q") == "stored"
        assert made.replaced == ["q"]
        assert {each.uid: each.scheduler for each in made.stored()} == {"p": "a", "q": "a"}
        running.cancel()

    objects.run_fast(main())


def test_a_claim_that_is_always_in_conflict_is_given_up_and_counted_once() -> None:
    async def main() -> None:
        made = claims_world.World()
        running = await made.start()

        def interfere() -> None:
            change = buses.GuardedWrite(subject=subjects.claim(NODE), payload=made.payload([]), seq=made.last())
            made.hub.claims[change.subject] = buses.Kept(
                subject=change.subject, payload=change.payload, seq=next(made.hub.claim_seq)
            )

        await made.ask("p")
        made.claims.before_change = interfere
        assert await made.ask("q") == "given_up"
        assert made.counted == ["stored", *["conflict"] * commits.ROUNDS, "given_up"]
        running.cancel()

    objects.run_fast(main())


def test_a_claim_that_is_stored_is_given_up_if_its_pod_must_not_be_there() -> None:
    async def main() -> None:
        made = claims_world.World()
        running = await made.start()
        made.ledger.take(NODE, 0, [], made.clock.monotonic_s())
        made.near.add("q")
        assert await made.ask("q") == "near"
        # Who asked withdraws it.
        assert [each.uid for each in made.stored()] == ["q"]
        assert await made.ask("p") == "stored"
        assert made.counted == ["near", "stored"]
        running.cancel()

    objects.run_fast(main())


def test_an_old_decision_is_checked_although_the_claims_on_the_node_are_the_same() -> None:
    async def main() -> None:
        made = claims_world.World()
        running = await made.start()
        assert await made.ask("p", age_s=60.0) == "stored"
        made.is_roomy = False
        assert await made.ask("q") == "stored"
        assert await made.ask("r", age_s=commits.FRESH_S + 0.1) == "no_room"
        assert made.rivals == [None], "all claims on the node are its own"
        made.ledger.take(NODE, 99, [claim("s")._replace(scheduler="b")], made.clock.monotonic_s())
        assert await made.ask("r", age_s=commits.FRESH_S + 0.1) == "no_room"
        made.claims.is_away = True
        assert await made.ask("r") == "unanswered"
        assert made.rivals == [None, "b", None], "only a claim that was given up for another scheduler's has a rival"
        running.cancel()

    objects.run_fast(main())
