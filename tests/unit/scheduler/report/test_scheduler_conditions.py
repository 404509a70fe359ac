"""PodScheduled=False: written once per cause, never about a Pod that is being bound, never without the leadership."""

import asyncio
import collections
import random
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.kube import api_actions
from carico_core.runtime.process import tasks
from carico_core.wire.kubernetes import api_objects
from carico_scheduler.pods import queue
from carico_scheduler.report import conditions, notices, verdicts
from tests.tools.memory import memory_kube
from tests.unit.scheduler import objects

Verdict = verdicts.Verdict
FULL = frozenset({"capacity"})


class Desk:
    """A writer of conditions over the memory API, and the queue whose Pods it writes about."""

    def __init__(self, per_s: float = 50.0) -> None:
        self.clock = objects.LoopClock(asyncio.get_running_loop())
        self.kube = memory_kube.MemoryKube(clock=self.clock)
        self.queue = queue.Queue(random.Random(0))
        self.leads = True
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.conditions = conditions.Conditions(
            self.kube, clock=self.clock, pace=tasks.Pace(per_s, clock=self.clock), after_s=3.0, find=self.queue.find,
            may_write=lambda: self.leads, on_outcome=lambda outcome: self.outcomes.update([outcome]),
        )  # fmt: skip

    async def create(self, name: str = "pod-0") -> queue.Waiting:
        """A Pod that has waited for 3 s."""
        self.kube.objects.create("pods", objects.pod_object(name), "test")
        waiting = self.see(name)
        await asyncio.sleep(3.0)
        return waiting

    def pod(self, name: str = "pod-0") -> dict[str, Any]:
        return self.kube.objects.get("pods", ("default", name), "test")

    def see(self, name: str = "pod-0") -> queue.Waiting:
        """The watch shows the Pod."""
        pod = api_objects.parse_pod(self.pod(name))
        self.queue.offer(pod, self.clock.monotonic_s())
        waiting = self.queue.find(pod.uid)
        assert waiting is not None
        return waiting

    def note(self, waiting: queue.Waiting, verdict: Verdict = Verdict.UNSCHEDULABLE, text: str = "full",
             reasons: frozenset[str] = FULL) -> bool:  # fmt: skip
        return self.conditions.note(waiting, verdict, text, reasons)

    async def write(self) -> None:
        """Let the writer run for a second."""
        task = asyncio.create_task(self.conditions.write_forever())
        await asyncio.sleep(1.0)
        task.cancel()

    def condition(self, name: str = "pod-0") -> dict[str, Any] | None:
        found = [each for each in self.pod(name)["status"].get("conditions", []) if each["type"] == "PodScheduled"]
        return found[0] if found else None


def test_it_is_written_once_while_the_cause_stays_and_again_when_it_changes() -> None:
    async def main() -> None:
        desk = Desk()
        waiting = await desk.create()
        assert desk.note(waiting, text="0/1 nodes fit: 1 at capacity (node-0: 0.1 free)")
        await desk.write()
        first = desk.condition()
        assert first is not None
        assert (first["status"], first["reason"]) == ("False", "Unschedulable")
        assert first["message"].startswith("0/1 nodes fit: 1 at capacity")
        assert first["lastTransitionTime"].endswith("Z")
        waiting = desk.see()
        for _ in range(60):
            await asyncio.sleep(0.5)
            assert not desk.note(waiting, text="other numbers")
        assert desk.note(waiting, text="0/1 nodes fit: 1 tainted", reasons=frozenset({"taint"}))
        assert not desk.note(waiting), "a Pod whose reasons alternate is written about every 10 s at most"
        await desk.write()
        second = desk.condition()
        assert second is not None
        assert (second["message"], second["lastTransitionTime"]) == (
            "0/1 nodes fit: 1 tainted", first["lastTransitionTime"],
        )  # fmt: skip
        assert desk.outcomes == {"written": 2}

    objects.run_fast(main())


def test_it_states_the_generation_of_the_pod_of_which_it_speaks_and_is_written_again_for_the_next() -> None:
    """As kube-scheduler 1.36 does (KEP-5067)."""

    async def main() -> None:
        desk = Desk()
        made = objects.pod_object("pod-0")
        made["metadata"]["generation"] = 1
        desk.kube.objects.create("pods", made, "test")
        waiting = desk.see()
        await asyncio.sleep(3.0)
        assert desk.note(waiting)
        await desk.write()
        pod = desk.pod()
        assert [each["observedGeneration"] for each in pod["status"]["conditions"]] == [1]
        pod["metadata"]["generation"] = 2
        desk.kube.objects.update("pods", ("default", "pod-0"), pod, "test")
        await asyncio.sleep(notices.CHANGE_EVERY_S)
        assert desk.note(desk.see())
        await desk.write()
        found = desk.condition()
        assert found is not None
        assert found["observedGeneration"] == 2

    objects.run_fast(main())


def test_a_young_pod_and_one_that_a_node_may_still_take_have_none() -> None:
    async def main() -> None:
        desk = Desk()
        desk.kube.objects.create("pods", objects.pod_object("pod-0"), "test")
        waiting = desk.see()
        assert not desk.note(waiting), "it has just come"
        await asyncio.sleep(30.0)
        assert not desk.note(waiting, Verdict.OPEN)
        await asyncio.sleep(conditions.OPEN_FOR_S)
        assert not desk.note(waiting, Verdict.UNKNOWN)
        assert desk.note(waiting, Verdict.OPEN), "one node without an agent does not hide a full cluster forever"

    objects.run_fast(main())


def test_what_another_scheduler_has_written_is_written_again_only_for_another_cause() -> None:
    async def main() -> None:
        desk = Desk()
        assert desk.note(await desk.create())
        await desk.write()
        # It goes to another scheduler, which has another queue.
        desk.queue = queue.Queue(random.Random(0))
        waiting = desk.see()
        waiting.late_s = 5.0
        await asyncio.sleep(notices.CHANGE_EVERY_S)
        assert not desk.note(waiting)
        await asyncio.sleep(notices.CHANGE_EVERY_S)
        assert desk.note(waiting, reasons=frozenset({"taint"}))

    objects.run_fast(main())


def test_what_another_scheduler_had_still_to_write_is_written_here() -> None:
    """The Pod kept the words of its former reasons until its reasons changed once more."""

    async def main() -> None:
        desk = Desk()
        assert desk.note(await desk.create(), text="0/2 nodes fit: 2 at capacity (node-0: 0.1 free)")
        await desk.write()
        await asyncio.sleep(notices.CHANGE_EVERY_S)
        tainted, text = frozenset({"taint"}), "0/2 nodes fit: 2 tainted"
        assert desk.note(desk.see(), text=text, reasons=tainted)
        # It goes to another scheduler before that is written.
        desk.queue = queue.Queue(random.Random(0))
        waiting = desk.see()
        waiting.late_s = 5.0
        await asyncio.sleep(notices.CHANGE_EVERY_S)
        assert desk.note(waiting, text=text, reasons=tainted)
        await desk.write()
        found = desk.condition()
        assert found is not None
        assert found["message"] == text

    objects.run_fast(main())


def test_a_cause_that_is_no_longer_known_replaces_the_reason() -> None:
    async def main() -> None:
        desk = Desk()
        desk.note(await desk.create())
        await desk.write()
        await asyncio.sleep(10.0)
        assert desk.note(desk.see(), Verdict.UNKNOWN, "no advertisement", frozenset({"stale"}))
        await desk.write()
        found = desk.condition()
        assert found is not None
        assert (found["status"], found["reason"]) == ("False", "SchedulerError")

    objects.run_fast(main())


def test_a_bind_that_comes_first_wins() -> None:
    async def main() -> None:
        desk = Desk()
        waiting = await desk.create()
        desk.note(waiting)
        await api_actions.bind(desk.kube, namespace="default", name="pod-0", uid=waiting.pod.uid, node="node-0")
        # The watch has not shown it yet.
        await desk.write()
        found = desk.condition()
        assert found is not None
        assert found["status"] == "True"
        assert desk.outcomes == {"Conflict": 1}

    objects.run_fast(main())


def test_nothing_is_written_about_a_pod_that_left_the_queue_or_without_the_leadership() -> None:
    async def main() -> None:
        desk = Desk()
        first, second = await desk.create("pod-0"), await desk.create("pod-1")
        desk.note(first)
        desk.note(second)
        desk.queue.forget(first.pod.uid)
        desk.leads = False
        await desk.write()
        assert (desk.condition("pod-0"), desk.condition("pod-1"), len(desk.outcomes)) == (None, None, 0)
        desk.leads = True
        await asyncio.sleep(10.0)
        assert desk.note(second), "it is due again"
        await desk.write()
        assert desk.condition("pod-1") is not None

    objects.run_fast(main())


def test_a_failure_is_counted_and_tried_again_later() -> None:
    async def main() -> None:
        desk = Desk()
        waiting = await desk.create()
        desk.kube.fail_next(errors.ApiUnavailable("away"), method="PATCH")
        desk.note(waiting)
        await desk.write()
        assert desk.outcomes == {"ApiUnavailable": 1}
        assert not desk.note(waiting)
        await asyncio.sleep(10.0)
        assert desk.note(waiting)
        await desk.write()
        assert desk.condition() is not None

    objects.run_fast(main())


def test_the_rate_and_the_number_that_wait_are_bounded() -> None:
    async def main() -> None:
        desk = Desk(per_s=10.0)
        noted = 0
        for index in range(conditions.WAITING_MAX + 10):
            pod = objects.make_pod(f"pod-{index}")
            desk.queue.offer(pod, desk.clock.monotonic_s() - 3.0)
            waiting = desk.queue.find(pod.uid)
            assert waiting is not None
            noted += desk.note(waiting)
        assert noted == conditions.WAITING_MAX
        await desk.write()
        assert desk.outcomes == {"NotFound": 10}

    objects.run_fast(main())


def test_a_namespace_with_thousands_of_conditions_delays_no_other() -> None:
    """Its Pods, whose reasons change every 10 s, had filled the queue: others waited for 20 s, or got no place."""

    async def main() -> None:
        desk = Desk(per_s=10.0)
        made = [("flaps", f"pod-{index}") for index in range(conditions.WAITING_MAX)]
        made += [("quiet", "a"), ("calm", "b"), ("quiet", "c")]
        for namespace, name in made:
            pod = objects.make_pod(name, namespace=namespace)
            desk.queue.offer(pod, desk.clock.monotonic_s() - 3.0)
            waiting = desk.queue.find(pod.uid)
            assert waiting is not None
            assert desk.note(waiting), "what comes from others takes the place of its newest"
        await desk.write()
        asked = [path.split("/namespaces/")[1].split("/pods/") for path in desk.kube.requests if "PATCH" in path]
        order = [(namespace, name.partition("/")[0]) for namespace, name in asked]
        assert order[:6] == [
            ("flaps", "pod-0"), ("quiet", "a"), ("calm", "b"), ("flaps", "pod-1"), ("quiet", "c"), ("flaps", "pod-2"),
        ]  # fmt: skip

    objects.run_fast(main())


def test_a_condition_that_a_bind_prevented_is_due_again_if_the_bind_fails() -> None:
    async def main() -> None:
        desk = Desk()
        waiting = await desk.create()
        assert desk.note(waiting)
        taken = desk.queue.take(desk.clock.monotonic_s())
        assert taken is waiting
        await desk.write()
        assert desk.condition() is None
        desk.queue.retry(waiting, desk.clock.monotonic_s())
        await asyncio.sleep(10.0)
        assert desk.note(waiting)
        await desk.write()
        assert desk.condition() is not None

    objects.run_fast(main())
