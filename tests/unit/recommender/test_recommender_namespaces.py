"""The rules of namespaces follow the API, and what cannot be read is said."""

import asyncio
import contextlib

from carico_recommender import namespaces
from tests.tools import waiting
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects as loops


async def test_rules_follow_the_api() -> None:
    clock = loops.LoopClock(asyncio.get_running_loop())
    kube = memory_kube.MemoryKube(clock=clock)
    quota = {"metadata": {"namespace": "shop", "name": "team"}, "spec": {"hard": {"requests.cpu": "2"}}}
    kube.objects.create("resourcequotas", quota, "test")
    limits = {"limits": [{"type": "Pod", "min": {"cpu": "100m"}}]}
    limit = {"metadata": {"namespace": "shop", "name": "least"}, "spec": limits}
    known = namespaces.Namespaces(kube, clock=clock)
    assert known.state() == "/api/v1/limitranges has not been read yet"
    following = asyncio.create_task(known.follow_forever())
    try:
        await waiting.until(lambda: bool(known.rules("shop").quotas))
        assert known.rules("shop").quotas[0].hard == {"requests.cpu": 2.0}
        assert not known.rules("other").quotas
        kube.objects.create("limitranges", limit, "test")
        await waiting.until(lambda: bool(known.rules("shop").limit_ranges))
        assert known.state() == "known"
        kube.objects.delete("resourcequotas", ("shop", "team"), {}, "test")
        await waiting.until(lambda: not known.rules("shop").quotas)
        # What was read last stays.
        kube.go_away()
        await waiting.until(lambda: "cannot be read" in known.state())
        assert known.rules("shop").limit_ranges
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
