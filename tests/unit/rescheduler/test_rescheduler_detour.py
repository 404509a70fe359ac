"""Two full nodes exchange Pods by way of a third one, carried out by the whole service."""

import asyncio

from carico_core.domain import pod_telemetry
from tests.unit.rescheduler import rescheduler_site
from tests.unit.scheduler import objects

# A node has 7.6 GiB for Pods: one of these, and no second one.
GIANT = 5 * 2.0**30
GIANTS = ("large", "small")


def exchange(made: rescheduler_site.Site) -> None:
    """Let two giants have to change places: node-a has too many tasks, and node-c no tasks to spare."""
    made.cluster.add_node("node-c")
    # Four cores are saturated at 6.16 tasks.
    for name, node, tasks in (
        ("large", "node-a", 4.0), ("small", "node-b", 2.0), ("rest-a", "node-a", 4.0), ("rest-b", "node-b", 1.0),
        ("rest-c", "node-c", 3.0), ("rest-d", "node-c", 3.0),
    ):  # fmt: skip
        is_giant = name in GIANTS
        made.loads[name] = pod_telemetry.PodLoad("*", tasks, 0.0, GIANT if is_giant else 2.0**20)
        made.cluster.add_deployment(name, [node], **({} if is_giant else {"schedulerName": "other"}))
    made.stopped_by = "memory"
    made.fits_on = lambda node: int(all(node not in made.cluster.nodes_of(name) for name in GIANTS))


def places(made: rescheduler_site.Site) -> list[str]:
    """Where the giants are."""
    return [node for name in GIANTS for node in made.cluster.nodes_of(name)]


def test_two_full_nodes_exchange_pods_by_way_of_a_third() -> None:
    async def main() -> None:
        async with rescheduler_site.site(replicas=0) as made:
            exchange(made)
            rescheduler = made.start("a", "--every-s", "60")
            await asyncio.sleep(200.0)
            assert places(made) == ["node-b", "node-a"]
            ended = (await made.ask("moves.list"))["ended"][::-1]
            assert [(each["from"], each["to"], each["state"]) for each in ended] == [
                ("node-b", "node-c", "moved"), ("node-a", "node-b", "moved"), ("node-c", "node-a", "moved"),
            ]  # fmt: skip
            assert ended[0]["why"].endswith("makes room, on the way to node-a")
            assert made.cluster.fewest_ready == 6 and made.cluster.most_active == 7 and made.cluster.marks() == []
            assert rescheduler.rounds.last is not None and rescheduler.rounds.last.moves == ()

    objects.run_fast(main())


def test_a_detour_waits_until_the_scheduler_sees_the_room_that_it_has_made() -> None:
    async def main() -> None:
        async with rescheduler_site.site(replicas=0) as made:
            exchange(made)
            plain, rescheduler = made.fits_on, made.start("a", "--every-s", "60")
            left_s: float | None = None

            def late(node: str) -> int:
                nonlocal left_s
                if node != "node-b" or not plain(node):
                    return plain(node)
                left_s = made.clock.monotonic_s() if left_s is None else left_s
                return int(made.clock.monotonic_s() - left_s > 20.0)

            made.fits_on = late
            await asyncio.sleep(200.0)
            assert places(made) == ["node-b", "node-a"]
            assert rescheduler.metrics.value("withdrawn_moves_total", {"reason": "scheduler"}) is None

    objects.run_fast(main())


def test_a_node_that_fills_meanwhile_ends_the_plan_and_is_counted() -> None:
    async def main() -> None:
        async with rescheduler_site.site(replicas=0) as made:
            exchange(made)
            plain = made.fits_on

            def filling(node: str) -> int:
                # Something else takes the room that the first move has made.
                return plain(node) if node == "node-c" else 0

            made.fits_on = filling
            rescheduler = made.start("a", "--every-s", "60")
            await asyncio.sleep(200.0)
            # The first Pod waits on node-c; nothing was begun on a full node, and no mark is left.
            assert places(made) == ["node-a", "node-c"] and made.cluster.marks() == []
            assert rescheduler.metrics.value("withdrawn_moves_total", {"reason": "scheduler"}) == 1.0
            assert {each["state"] for each in (await made.ask("moves.list"))["ended"]} == {"moved"}
            # In time, when it may move again and there is room, it goes on.
            made.fits_on = plain
            await asyncio.sleep(900.0)
            assert places(made) == ["node-b", "node-a"]

    objects.run_fast(main())
