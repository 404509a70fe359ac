"""What the rescheduler asks of the scheduler before a move, answered by the scheduler itself."""

from typing import Any

import pytest

from carico_rescheduler.adapter import scheduler
from carico_rescheduler.plan import decision
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.scheduler import objects
from tests.unit.scheduler.answers import answering


class Api:
    """The API with one ReplicaSet."""

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        """Return the ReplicaSet."""
        namespace, _, name = path.removeprefix("/apis/apps/v1/namespaces/").split("/")
        labels = {"app": "web", "pod-template-hash": "5d9c7b8f6d"}
        spec = {"schedulerName": "carico", "containers": [{"name": "main", "image": "web"}]}
        return {
            "metadata": {"namespace": namespace, "name": name, "uid": "uid"},
            "spec": {"template": {"metadata": {"labels": labels}, "spec": spec}},
        }


@pytest.mark.parametrize("is_deployed", [True, False], ids=["described", "alike"])
@pytest.mark.parametrize("nodes", [3, 1001])
async def test_a_full_target_is_one_that_may_have_room_later(nodes: int, is_deployed: bool) -> None:
    """However many nodes there are, also if it is the last of all in the answer."""
    names = [f"node-{number:04}" for number in range(nodes)]
    full = names[-1]
    desk = answering.Desk(*(objects.make_node(name) for name in names))
    for name in names:
        desk.hear(name, 0.0 if name == full else 4.0)
    known = world.make({"node-0000": 4.0})
    (pod,) = world.deploy(known, "web", ["node-0000"])
    desk.state.put_pod(pod.pod, answering.NOW_S)
    if not is_deployed:
        known.replica_sets.put_all({})
    asker = scheduler.Asker(bus=answering.DeskBus(desk), api=Api(), known=known)

    async def why_not(target: str) -> scheduler.Refusal | None:
        move = decision.Move(
            pod=pod, source="node-0000", target=target, bytes_per_s=1e6, tasks=0.0, gain=0.5, cost_task_s=1.0,
            horizon_s=3600.0,
        )  # fmt: skip
        return await asker.why_not(move)

    found = await why_not(full)
    assert found is not None and found.detail.startswith("pods: ") and not found.lasts
    assert await why_not("node-0001") is None
    assert await why_not("no-such") == scheduler.Refusal(detail="the scheduler does not know no-such")
