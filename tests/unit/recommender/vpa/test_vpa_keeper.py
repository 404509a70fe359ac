"""The keeper on a memory API: who writes what, once, and what is left alone."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

from carico_core.domain import errors, usage
from carico_core.runtime.kube import list_watch
from carico_core.runtime.observe import metrics
from carico_core.wire.kubernetes import namespace_rules
from carico_recommender import classes, instruments
from carico_recommender import settings as setting
from carico_recommender.vpa import keeper, objects
from tests.tools import waiting
from tests.tools.memory import memory_kube
from tests.unit.recommender import learnt
from tests.unit.scheduler import objects as loops

PLURAL = "verticalpodautoscalers"


class Known(classes.Classes):
    """Classes that a test chooses."""

    def __init__(self, counted: instruments.Instruments, clock: loops.LoopClock) -> None:
        super().__init__({}, counted, clock=clock)
        self.by_name: dict[str, usage.Recommended] = {learnt.WEB: learnt.recommended()}
        self.has_answer = True

    def get(self, name: str) -> usage.Recommended | None:
        return self.by_name.get(name)

    @property
    def is_current(self) -> bool:
        return self.has_answer


class Scene:
    """A keeper that follows a memory API; `leads` says whether it may write."""

    def __init__(self, **settings: Any) -> None:
        self.clock = loops.LoopClock(asyncio.get_running_loop())
        self.kube = memory_kube.MemoryKube(clock=self.clock)
        self.metrics = metrics.Metrics("recommender")
        counted = instruments.Instruments(self.metrics)
        self.known = Known(counted, self.clock)
        self.leads = True
        self.rules = namespace_rules.NO_RULES
        chosen = setting.RecommenderSettings(**settings)
        self.keeper = keeper.Keeper(
            chosen,
            self.kube,
            self.known,
            rules=lambda _: self.rules,
            counted=counted,
            leads=lambda: self.leads,
            clock=self.clock,
        )

    def create(self, name: str, /, *policies: dict[str, Any], **more: str) -> None:
        obj = learnt.vpa(name, *policies, **more)
        del obj["metadata"]["resourceVersion"]
        self.kube.objects.create(PLURAL, obj, "test")

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.kube.objects.get(PLURAL, ("shop", name), "test").get("status", {})
        return found

    def target(self, name: str) -> dict[str, str]:
        containers = self.status(name)["recommendation"]["containerRecommendations"]
        found: dict[str, str] = containers[0]["target"]
        return found

    @property
    def patches(self) -> int:
        return sum(each.startswith("PATCH") for each in self.kube.requests)

    async def seen(self, *names: str) -> None:
        """Wait until the keeper has seen the newest version of these objects."""
        wanted = {(name, self.kube.objects.get(PLURAL, ("shop", name), "test")["metadata"]["resourceVersion"])
                  for name in names}  # fmt: skip
        await waiting.until(
            lambda: wanted == {(each.name, each.resource_version) for each in self.keeper._objects.values()}
        )


@contextlib.asynccontextmanager
async def scene(**settings: Any) -> AsyncIterator[Scene]:
    made = Scene(**settings)
    following = asyncio.create_task(made.keeper.follow_forever())
    try:
        yield made
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


def test_objects_that_name_us_are_written_once_and_others_never() -> None:
    async def main() -> None:
        async with scene() as made:
            made.create("web")
            made.create("foreign", recommender="default")
            await made.seen("web")
            assert await made.keeper.write() == 1
            assert made.target("web") == {"cpu": "230m", "memory": "115Mi"}
            assert made.status("foreign") == {}
            # By the answer, before the watch shows it.
            assert await made.keeper.write() == 0
            await made.seen("web")
            assert (await made.keeper.write(), made.patches) == (0, 1)
            assert made.metrics.value("autoscalers", {"state": "provided"}) == 1.0

    loops.run_fast(main())


def test_only_what_has_changed_is_written_again() -> None:
    async def main() -> None:
        async with scene() as made:
            made.create("web")
            made.create("db", kind="StatefulSet", name="db")
            made.known.by_name["StatefulSet/shop/db"] = learnt.recommended("StatefulSet/shop/db")
            await made.seen("web", "db")
            assert await made.keeper.write() == 2
            made.known.by_name[learnt.WEB] = learnt.recommended(cpu=0.24)
            assert await made.keeper.write() == 0
            made.known.by_name[learnt.WEB] = learnt.recommended(cpu=0.3)
            assert await made.keeper.write() == 1
            assert (made.target("web")["cpu"], made.target("db")["cpu"]) == ("300m", "230m")

    loops.run_fast(main())


def test_an_object_that_changed_meanwhile_is_computed_again() -> None:
    async def main() -> None:
        async with scene() as made:
            made.create("web")
            await made.seen("web")
            # Behind the keeper's back: the watch is away.
            made.kube.break_watches()
            held = made.kube.objects.get(PLURAL, ("shop", "web"), "test")
            held["spec"]["resourcePolicy"] = {"containerPolicies": [{"minAllowed": {"cpu": "1"}}]}
            made.kube.objects.update(PLURAL, ("shop", "web"), held, "test")
            assert await made.keeper.write() == 0
            assert made.metrics.value("status_writes_total", {"result": "changed"}) == 1.0
            await made.seen("web")
            assert await made.keeper.write() == 1
            assert made.target("web")["cpu"] == "1"

    loops.run_fast(main())


def test_an_object_that_is_deleted_or_names_another_is_forgotten() -> None:
    async def main() -> None:
        async with scene() as made:
            made.create("web")
            made.create("other")
            await made.seen("web", "other")
            made.kube.objects.delete(PLURAL, ("shop", "web"), {}, "test")
            held = made.kube.objects.get(PLURAL, ("shop", "other"), "test")
            held["spec"]["recommenders"] = [{"name": "default"}]
            made.kube.objects.update(PLURAL, ("shop", "other"), held, "test")
            await made.seen()
            assert (await made.keeper.write(), made.patches) == (0, 0)

    loops.run_fast(main())


def test_a_refused_write_does_not_stop_the_others() -> None:
    async def main() -> None:
        async with scene() as made:
            made.create("a")
            made.create("b")
            await made.seen("a", "b")
            refused = errors.Forbidden(status=403, reason="Forbidden", message="no", request="PATCH")
            made.kube.fail_next(refused, method="PATCH")
            assert await made.keeper.write() == 1
            assert made.metrics.value("status_writes_total", {"result": "failed"}) == 1.0
            assert await made.keeper.write() == 1

    loops.run_fast(main())


def test_a_status_that_cannot_be_read_does_not_stop_the_others() -> None:
    async def main() -> None:
        async with scene() as made:
            made.create("a")
            made.create("b")
            held = made.kube.objects.get(PLURAL, ("shop", "a"), "test")
            held["status"] = {"conditions": [{"type": {}}]}
            made.kube.objects.update(PLURAL, ("shop", "a"), held, "test")
            await made.seen("a", "b")
            assert await made.keeper.write() == 1
            assert made.target("b") == {"cpu": "230m", "memory": "115Mi"}
            assert made.metrics.value("status_writes_total", {"result": "failed"}) == 1.0

    loops.run_fast(main())


def test_those_without_a_recommendation_come_first_and_writing_ends_with_the_leadership() -> None:
    async def main() -> None:
        async with scene(writes_per_s=1.0) as made:
            made.create("a")
            await made.seen("a")
            assert await made.keeper.write() == 1
            made.create("b")
            await made.seen("a", "b")
            made.known.by_name[learnt.WEB] = learnt.recommended(cpu=0.5)
            writing = asyncio.create_task(made.keeper.write())
            await waiting.until(lambda: made.patches == 2)
            made.leads = False
            assert await writing == 1
            assert made.target("b")["cpu"] == "500m"
            assert made.target("a")["cpu"] == "230m"

    loops.run_fast(main())


def test_a_round_ends_when_answers_become_too_old_or_objects_cannot_be_read() -> None:
    async def main(lose: Callable[[Scene], None]) -> None:
        async with scene(writes_per_s=1.0) as made:
            for name in ("a", "b"):
                made.create(name)
            await made.seen("a", "b")
            writing = asyncio.create_task(made.keeper.write())
            await waiting.until(lambda: made.patches == 1)
            lose(made)
            assert await writing == 1
            assert made.patches == 1

    def age(made: Scene) -> None:
        made.known.has_answer = False

    def lose(made: Scene) -> None:
        made.keeper._take(list_watch.Away(error=errors.ApiUnavailable("away")))

    loops.run_fast(main(age))
    loops.run_fast(main(lose))


def test_nothing_is_concluded_without_an_answer_or_a_list() -> None:
    async def main() -> None:
        async with scene(interval_s=1.0) as made:
            made.known.by_name = {}
            made.known.has_answer = False
            made.create("web")
            await made.seen("web")
            writing = asyncio.create_task(made.keeper.write_forever())
            await asyncio.sleep(5.0)
            assert made.patches == 0
            made.known.has_answer = True
            await waiting.until(lambda: made.patches == 1)
            assert [each["type"] for each in made.status("web")["conditions"]] == [
                "NoPodsMatched", "RecommendationProvided",
            ]  # fmt: skip
            writing.cancel()

    loops.run_fast(main())


def test_many_objects_take_turns_with_the_event_loop() -> None:
    async def main() -> None:
        async with scene() as made:
            for number in range(500):
                one = objects.parse(learnt.vpa(f"web-{number}"), recommender="carico")
                assert one is not None
                made.keeper._objects[one.key] = one
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            turning = asyncio.create_task(turn())
            assert len(await made.keeper._due()) == 500
            assert turns >= 9
            turning.cancel()

    loops.run_fast(main())
