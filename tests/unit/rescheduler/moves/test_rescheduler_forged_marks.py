"""Marks of moves that a tenant writes on Pods of its own: no other tenant is held up or deceived."""

import asyncio
import itertools
from typing import Any

from carico_core.domain import cluster as kubernetes
from carico_core.domain import names
from carico_rescheduler.context import objects as marks
from tests.unit.rescheduler import cluster_objects as world
from tests.unit.rescheduler.moves import test_rescheduler_surge as surges
from tests.unit.scheduler import objects


def forged(namespace: str, name: str, **annotations: str) -> dict[str, Any]:
    """A Pod that a tenant has made, with the marks of a move and the UID of another's controller."""
    owner = {"kind": "ReplicaSet", "name": "none", "uid": "uid-of-a-victim", "controller": True}
    annotations = {marks.REPLACES: "no-pod", **annotations}
    return {
        "metadata": {
            "namespace": namespace, "name": name, "labels": {names.SURGE_LABEL: "x"}, "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": "Pending"},
    }  # fmt: skip


def test_forged_marks_hold_up_no_move() -> None:
    """Who creates Pods can write marks on any number of them, again and again, while all others wait."""

    async def main() -> None:
        async with surges.scene() as made:
            for namespace, number in itertools.product(("one", "two"), range(20)):
                made.cluster.api.objects.create("pods", forged(namespace, f"p-{number}"), "test")
            await asyncio.sleep(1.0)
            assert await made.process().recover() == 0
            # With the UID of a move that has begun, they hold up one of each namespace.
            await made.journal.begin("no-pod")
            assert await made.process().recover() == 2
            # It was given up.
            assert await made.process().recover() == 0

    objects.run_fast(main())


def test_what_a_forged_mark_says_is_neither_long_nor_a_sequence_of_a_terminal() -> None:
    async def main() -> None:
        async with surges.scene() as made:
            said = {marks.REASON: "\x1b[2J", marks.CAME_FROM: "x" * 200_000}
            made.cluster.api.objects.create("pods", forged("one", "p", **said), "test")
            await asyncio.sleep(1.0)
            await made.journal.begin("no-pod")
            process = made.process()
            await process.recover()
            (ended,) = process.ended
            assert (ended.why, ended.source) == ("", "")
            # Nor does it keep the Pods of that controller, which are in another namespace, where they are.
            assert set(made.journal.rests()) == {"one/uid-of-a-victim"}

    objects.run_fast(main())


def test_an_owner_reference_to_a_controller_of_another_namespace_is_not_believed() -> None:
    """Else its Pods would seem to be in the middle of a rollout, and stay where they are for ever."""
    known = world.make({"node-a": 4.0, "node-b": 4.0})
    pod = world.deploy(known, "web", ["node-a", "node-a"])[0]
    assert world.judge(known).why_not(pod) is None
    owner = kubernetes.Owner(kind="ReplicaSet", name="any", uid=pod.pod.owner.uid if pod.pod.owner else "")
    forged_pod = objects.make_pod("forged", namespace="other", node_name="node-b", phase="Running", owner=owner)
    world.put(known, forged_pod)
    assert world.judge(known).why_not(pod) is None


def test_annotations_that_mean_nothing_here_are_not_kept() -> None:
    obj = forged("one", "p", **{"example.com/big": "x" * 200_000, marks.REASON: "y" * 200_000, marks.CHOICE: "true"})
    obj["metadata"] |= {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    found = marks.parse_pod(obj)
    assert sum(map(len, found.annotations.values())) < 2000
    assert (found.mark(marks.REASON), found.annotations[marks.CHOICE]) == ("", "true")
