"""Collections that an API does not serve hold nothing; those that it forbids are said, and wait who needs them."""

import asyncio
import contextlib
import gc
import random
from collections.abc import AsyncGenerator
from typing import Any

from carico_core.domain import constraints, errors
from carico_core.runtime.kube import list_watch
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_scheduler.decide import cycle
from carico_scheduler.intake import api_collections, informers
from carico_scheduler.report import instruments
from carico_scheduler.rules import policy
from carico_scheduler.state import state
from tests.unit.scheduler import objects, world

BUDGETS, DAEMON_SETS = api_collections.BUDGETS, api_collections.DAEMON_SETS
CLAIMS = "/api/v1/persistentvolumeclaims"


async def following(made: world.World) -> Any:
    """The state of the one engine, its mirrors at work for a while."""
    one = made.engines[0]
    made.start_engine(one)
    await asyncio.sleep(2.0)
    return one


def test_a_list_is_not_kept_until_the_next_event() -> None:
    def kept() -> list[list_watch.Listed]:
        return [each for each in gc.get_objects() if isinstance(each, list_watch.Listed)]

    async def main() -> None:
        made = world.World()
        before = kept()
        await following(made)
        assert [each for each in kept() if all(each is not one for one in before)] == []
        await made.stop()

    objects.run_fast(main())


def test_what_the_api_does_not_serve_is_empty() -> None:
    async def main() -> None:
        made = world.World()
        missing = errors.NotFound(status=404, reason="NotFound", message="no such resource", request=f"GET {CLAIMS}")
        for _ in range(100):
            made.kube.fail_next(missing, path=CLAIMS)
        one = await following(made)
        assert one.away == {}
        assert one.state.fleet.storage.lacking() is None
        assert one.state.fleet.pod_counts.lacking is None
        # Asked again once a minute, and not in a loop.
        await asyncio.sleep(30.0)
        assert sum(CLAIMS in request for request in made.kube.requests) <= 2
        await made.stop()

    objects.run_fast(main())


def test_what_an_api_does_not_serve_is_empty_also_if_the_scheduler_was_there_before_it() -> None:
    async def main() -> None:
        made = world.World()
        for path in (BUDGETS, DAEMON_SETS):
            made.kube.fail_next(errors.ApiUnavailable("connection refused"), path=path)
            for _ in range(100):
                made.kube.fail_next(
                    errors.NotFound(status=404, reason="NotFound", message="no such resource", request=f"GET {path}"),
                    path=path,
                )
        one = await following(made)
        # Nobody is evicted before both are known.
        assert one.state.budgets.lacking is None
        assert one.state.baseline.lacking is None
        await made.stop()

    objects.run_fast(main())


def test_what_the_api_forbids_is_said_and_keeps_only_those_who_need_it_waiting() -> None:
    async def main() -> None:
        made = world.World()
        forbidden = errors.Forbidden(status=403, reason="Forbidden", message="no list", request=f"GET {CLAIMS}")
        for _ in range(10_000):
            made.kube.fail_next(forbidden, path=CLAIMS)
        made.kube.objects.create("nodes", objects.node_object("node-0"), "test")
        one = await following(made)
        assert one.away == {}
        said = one.state.fleet.storage.lacking()
        assert said is not None
        assert said.startswith("persistentvolumeclaims: the API does not answer: GET")
        made.advertise("node-0", 3.0, 0, frozenset())
        uses = [{"name": "v", "persistentVolumeClaim": {"claimName": "disk"}}]
        made.create_pod("user", volumes=uses)
        made.create_pod("plain")
        await asyncio.sleep(1.0)
        bound = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in made.pods()}
        assert bound == {"user": None, "plain": "node-0"}
        await made.stop()

    objects.run_fast(main())


class Stopped:
    """Every list is answered, and then nothing comes any more."""

    def __init__(self) -> None:
        self.fresh: dict[str, list_watch.CopyAge] = {}

    async def mirror(
        self, path: str, *, freshness: list_watch.CopyAge | None = None, **_: Any
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]:
        assert freshness is not None
        self.fresh[path] = freshness
        freshness.note()
        yield list_watch.Listed(objects=[], resource_version="1")
        await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def stopped(
    clock: clocks.FakeClock, into: state.State
) -> AsyncGenerator[tuple[informers.Informers, dict[str, list_watch.CopyAge]], None]:
    """Informers whose lists were answered, and the ages of their copies, by path."""
    api = Stopped()
    found = informers.Informers(
        api, into=into, clock=clock, metrics=instruments.Instruments(metrics.Metrics("scheduler")), wake=lambda: None
    )
    assert found.away, "nothing is listed yet"
    before_s = found.age_s
    assert before_s is None
    works = [asyncio.ensure_future(work) for work in found.works().values()]
    await asyncio.sleep(0.01)
    assert found.away == {}
    yield found, api.fresh
    for work in works:
        work.cancel()
    await asyncio.gather(*works, return_exceptions=True)


def test_nothing_is_decided_on_a_mirror_whose_server_has_sent_nothing_for_45_s() -> None:
    async def main() -> None:
        clock = clocks.FakeClock()
        async with stopped(clock, state.State(policy.Policy(), random.Random(1))) as (found, fresh):
            clock.advance(44.0)
            assert (found.away, found.age_s) == ({}, 44.0)
            clock.advance(2.0)
            assert "pods: the API has sent nothing for 46 s" in found.away.values()
            for each in fresh.values():
                each.note()
            assert found.away == {}

    objects.run_fast(main())


def test_what_needs_an_optional_collection_waits_while_its_server_alone_has_sent_nothing_for_45_s() -> None:
    async def main() -> None:
        clock, into = clocks.FakeClock(), state.State(policy.Policy(), random.Random(1))
        async with stopped(clock, into) as (found, fresh):
            clock.advance(43.0)
            found.note_ages()
            lacking = into.fleet.storage.lacking, lambda: into.baseline.lacking, lambda: into.budgets.lacking
            assert [each() for each in lacking] == [None, None, None]
            for path in (api_collections.PODS, api_collections.NODES):
                fresh[path].note()
            clock.advance(2.0)
            found.note_ages()
            assert found.away == {}
            silent = "the API has sent nothing for 45 s"
            assert [each() for each in lacking] == [f"persistentvolumeclaims: {silent}", silent, silent]
            assert into.fleet.pod_counts.lacking == silent
            # The server goes on, and has no news.
            for each in fresh.values():
                each.note()
            found.note_ages()
            assert [each() for each in lacking] == [None, None, None]

    objects.run_fast(main())


def test_a_change_of_a_claim_lets_only_pods_that_use_it_be_tried_again() -> None:
    """A tenant that annotates its claim all the time had each waiting Pod with volumes compared with all nodes."""
    made = state.State(policy.Policy(), random.Random(0))
    made.put_node(objects.make_node())
    for name in ("mine", "theirs"):
        use = constraints.VolumeClaimUse(namespace="default", name=name)
        made.put_pod(objects.make_pod(name, constraints=constraints.Constraints(volume_claims=(use,))), 0.0)
    found = api_collections.all_of(made, clocks.FakeClock())
    claims = next(each for each in found if each.path == CLAIMS)
    volumes = next(each for each in found if each.path == "/api/v1/persistentvolumes")

    def tried() -> list[str]:
        view = made.fleet.snapshot(0.0)
        return sorted(each.pod.name for each in cycle.Cycle(made.fleet.policy).run(view, made.queue, most=9).unplaced)

    assert tried() == ["mine", "theirs"]
    obj = {"metadata": {"namespace": "default", "name": "mine", "uid": "u", "resourceVersion": "1"}, "spec": {}}
    claims.put(claims.parse(obj))
    assert tried() == ["mine"]
    claims.remove(obj["metadata"])
    assert tried() == ["mine"]
    volumes.remove({"name": "v"})
    assert tried() == ["mine", "theirs"]
    claims.put_all([])
    assert tried() == ["mine", "theirs"]
