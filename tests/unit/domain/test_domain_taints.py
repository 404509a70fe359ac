"""Which taints keep a Pod away, and which it would rather not meet; tolerations are tested with the stages."""

import pytest

from carico_core.domain import cluster
from tests.unit.scheduler import objects

ALL = cluster.Toleration(key="", operator="Exists", value="", effect="")
SOFT_ONLY = cluster.Toleration(key="", operator="Exists", value="", effect="PreferNoSchedule")


def taint(key: str, effect: str) -> cluster.Taint:
    return cluster.Taint(key=key, value="", effect=effect)


NODE = objects.make_node(
    taints=(
        taint("soft", "PreferNoSchedule"), taint("softer", "PreferNoSchedule"),
        taint("hard", "NoSchedule"), taint("out", "NoExecute"),
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("tolerations", "disliked", "refusing"),
    [
        ((), 2, "hard"),
        ((SOFT_ONLY,), 0, "hard"),
        ((cluster.Toleration(key="soft", operator="Exists", value="", effect=""),), 1, "hard"),
        ((cluster.Toleration(key="hard", operator="Exists", value="", effect="NoSchedule"),), 2, "out"),
        ((ALL,), 0, None),
    ],
)
def test_what_is_disliked_and_what_refuses(
    tolerations: tuple[cluster.Toleration, ...], disliked: int, refusing: str | None
) -> None:
    assert cluster.count_prefer_no_schedule(NODE, iter(tolerations)) == disliked
    found = cluster.refusing_taint(NODE, iter(tolerations))
    assert (None if found is None else found.key) == refusing


@pytest.mark.parametrize(("effect", "expected"), [("PreferNoSchedule", True), ("NoSchedule", False)])
def test_a_node_is_disliking_by_a_soft_taint_alone(effect: str, expected: bool) -> None:
    assert cluster.has_prefer_no_schedule(objects.make_node(taints=(taint("x", effect),))) is expected
    assert not cluster.has_prefer_no_schedule(objects.make_node())
