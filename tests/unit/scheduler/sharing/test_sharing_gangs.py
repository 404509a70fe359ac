"""Gangs while several schedulers share the work: the holder of the Lease decides on them, whole."""

import asyncio

import pytest

from carico_core.wire.kubernetes import pod_groups
from carico_scheduler.gangs import gang
from carico_scheduler.sharing import stream
from tests.unit.scheduler import objects
from tests.unit.scheduler.sharing import shared_world


@pytest.mark.parametrize("seed", [0, 1])
def test_gangs_are_placed_whole_next_to_the_pods_of_other_members(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "SETTLE_S", 3.0)

    async def main() -> None:
        made = shared_world.SharedWorld(seed=seed, engines=3, room=3.0, lost_share=0.05)
        await made.start(nodes=3)
        await asyncio.sleep(4.0)
        for index in range(12):
            made.create_pod(f"pod-{index}")
        for name, size in (("a", 4), ("b", 6)):
            for index in range(size):
                pod = objects.pod_object(f"{name}-{index}")
                pod["metadata"] |= {
                    "labels": {pod_groups.LABEL: name}, "annotations": {pod_groups.MIN_MEMBER: str(size)}
                }  # fmt: skip
                made.kube.objects.create("pods", pod, "test")
        complete: set[str] = set()
        for one in made.engines:
            counted = one.state.gangs.on_step

            def on_step(each: gang.Gang, before: object = counted) -> None:
                if each.state is gang.COMPLETE:
                    complete.add(each.key.name)
                assert callable(before)
                before(each)

            one.state.gangs.on_step = on_step
        await made.until_ended(600.0)
        assert complete == {"a", "b"}
        assert all(count == 1 for count in made.kube.binds.values())
        await made.stop()

    objects.run_fast(main())
