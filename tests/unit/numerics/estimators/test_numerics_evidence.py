"""What a node tells the others of its classes: what it has measured, and of what Pods hold no less than it will be."""

import gc
import math
from collections.abc import Callable

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_core.domain import messages
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import cluster_evidence, footprint

DIMS = ("cpu", "memory")
GIB = 2.0**30
SCALE = np.array([8.0, 8.0 * GIB])
OWN = np.array([0.02, 0.06])
GAIN = 0.3
TICK_S = 0.1
# Until some lives of a class have ended, its Pods are taken to last so long.
LIFE_S = 60.0

Held = Callable[[float], float]


class Node:
    """A node of four cores whose Pods use half a core and hold bytes by their age; all start at once."""

    def __init__(self, *, held: Held, empty_s: float = 5.0, **pods: str) -> None:
        config = base.EstimatorConfig(dims=DIMS, scale=SCALE, cores=4.0, ceiling=base.default_ceiling(DIMS))
        self._estimator = footprint.Footprint(config)
        self._held = held
        self._own = OWN
        self._pods = pods
        self._shown = OWN
        self.age_s = -empty_s

    def evidence(self, age_s: float) -> dict[str, dict[str, base.Evidence]]:
        """What the node tells once its Pods are so old."""
        return self.estimate(age_s).evidence or {}

    def estimate(self, age_s: float) -> base.CapacityEstimate:
        """The estimate once its Pods are so old."""
        found = None
        for number in range(1, round((age_s - self.age_s) / TICK_S) + 1):
            self.age_s += TICK_S
            running = self._pods if self.age_s >= 0.0 else {}
            used = np.array([0.5, self._held(max(self.age_s, 0.0))]) / SCALE
            sample = self._own + len(running) * used
            self._shown = self._shown + GAIN * (sample - self._shown)
            self._estimator.follow(running)
            self._estimator.tick(sample.tolist(), [GAIN] * 2, len(running), TICK_S)
            seen = base.Observation(
                dt_s=1.0, y=self._shown, gains=np.full(2, GAIN), pods=len(running), signal=1.0,
            )  # fmt: skip
            if number % 10 == 0:
                found = self._estimator.update(seen)
        assert found is not None
        return found

    def starts(self, uid: str, name: str) -> None:
        """A Pod more runs from now on."""
        self._pods = {**self._pods, uid: name}

    def leave(self, *, own: float, seconds: int) -> base.CapacityEstimate:
        """The estimate once its Pods have been gone for so long, and it uses this share of its memory by itself."""
        self._pods, self._held, self._own = {}, lambda age_s: 0.0, np.array([0.02, own])
        return self.estimate(self.age_s + seconds)

    def fail(self, seconds: int) -> int:
        """How many objects it keeps after so long without a reading."""
        for _ in range(seconds):
            self._estimator.tick([math.nan] * 2, [GAIN] * 2, len(self._pods), 1.0)
            seen = base.Observation(
                dt_s=1.0, y=np.full(2, np.nan), gains=np.full(2, GAIN), pods=len(self._pods), signal=1.0,
            )  # fmt: skip
            self._estimator.update(seen)
        return kept(self._estimator)


def kept(root: object) -> int:
    """How many objects can be reached from one, types apart."""
    seen: dict[int, object] = {}
    ahead = [root]
    while ahead:
        each = ahead.pop()
        if id(each) not in seen and not isinstance(each, type):
            seen[id(each)] = each
            ahead += gc.get_referents(each)
    return len(seen)


def test_what_a_running_pod_holds_is_reported_once_it_has_been_stable_for_a_while() -> None:
    node = Node(held=lambda age_s: GIB, a="server", b="server")
    assert set(node.evidence(12.0)["server"]) == {"cpu"}
    mean, variance = node.evidence(20.0)["server"]["memory"]
    # With what might still come, which is doubt as well.
    assert GIB <= mean <= 1.25 * GIB
    assert variance < (0.25 * GIB) ** 2
    mean, variance = node.evidence(80.0)["server"]["memory"]
    assert mean == pytest.approx(GIB, rel=0.01)
    assert variance < (0.05 * GIB) ** 2


def test_a_node_with_many_classes_reports_as_many_as_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregator refuses a report with more, and with it all that the node says."""
    monkeypatch.setattr(messages, "REPORTED_MOST", 6)
    pods = {f"pod-{number}": f"Job/many/{number}" for number in range(9)}
    node = Node(held=lambda age_s: GIB / 16)
    for uid, name in {**pods, "other": "Job/shop/web"}.items():
        node.starts(uid, name)
        found = node.estimate(node.age_s + 3.0)
    assert len(found.cost_plus or {}) > 10
    assert len(found.evidence or {}) == 6
    assert "Job/shop/web" in (found.evidence or {})


def test_a_lone_pod_tells_what_it_uses_before_a_short_job_ends() -> None:
    mean, _ = Node(held=lambda age_s: GIB, a="pi").evidence(4.0)["pi"]["cpu"]
    assert mean == pytest.approx(0.5, rel=0.05)


@hypothesis.settings(derandomize=True, database=None, deadline=None, max_examples=10)
@hypothesis.given(
    at_once=st.floats(0.0, 1.0), slope=st.floats(0.0, 0.1), until_s=st.sampled_from((4.0, 20.0, 30.0, 1e9))
)
def test_memory_that_grows_is_never_reported_as_less_than_it_reaches(
    at_once: float, slope: float, until_s: float
) -> None:
    def held(age_s: float) -> float:
        return GIB * (at_once + slope * min(age_s, until_s))

    node = Node(held=held, a="job", b="job")
    for age_s in range(15, 80, 8):
        told = node.evidence(float(age_s))["job"].get("memory")
        if told is not None:
            assert told[0] + told[1] ** 0.5 >= 0.98 * held(max(age_s, LIFE_S))


def test_memory_that_grew_is_reported_once_it_is_stable() -> None:
    node = Node(held=lambda age_s: 0.05 * GIB * min(age_s, 20.0), a="job", b="job")
    assert set(node.evidence(20.0)["job"]) == {"cpu"}
    assert node.evidence(100.0)["job"]["memory"][0] == pytest.approx(GIB, rel=0.02)


def test_a_node_that_was_never_empty_does_not_tell_what_it_holds_itself_for_its_pods() -> None:
    node = Node(held=lambda age_s: GIB, empty_s=0.0, a="server")
    assert "memory" not in node.evidence(30.0)["server"]


def test_classes_that_cannot_be_distinguished_state_nothing() -> None:
    node = Node(held=lambda age_s: GIB, a="one", b="one", c="other", d="other")
    assert not node.evidence(10.0)


@pytest.mark.parametrize("own", [0.06, 0.061, 0.07])
def test_an_empty_node_still_knows_what_stood_on_it_for_long(own: float) -> None:
    node = Node(
        held=lambda age_s: 1.5 * GIB * min(max(age_s - 0.75, 0.0), 1.0), a="server", b="server", c="server", d="server"
    )
    stood = node.estimate(400.0).cost_plus
    left = node.leave(own=own, seconds=20).cost_plus
    assert stood is not None and left is not None
    assert left["server"]["memory"] == pytest.approx(stood["server"]["memory"], rel=0.02)
    assert left["server"]["memory"] < 0.75 * left["?"]["memory"]


def test_what_is_kept_of_evidence_does_not_grow_while_readings_fail() -> None:
    node = Node(held=lambda age_s: GIB, a="server", b="server")
    node.estimate(30.0)
    after = node.fail(10)
    assert node.fail(100) <= after + 50


def test_a_node_does_not_take_what_it_said_itself_for_others() -> None:
    def heard(*, model_of: float | None, now: float | None) -> list[str]:
        said = {} if now is None else {"a": {"memory": (1.0, now)}}
        evidence.contribute(said, 1.0)
        cost = {} if model_of is None else {"memory": messages.Estimate(mean=1.0, sd=(model_of + 0.04) ** 0.5)}
        return list(evidence.of_others({"a": messages.ClassEvidence(pods=1, cost=cost)}, "memory"))

    evidence = cluster_evidence.ClusterEvidence(between_nodes=0.2, most_classes=2)
    assert heard(model_of=None, now=0.01) == []
    # The model is of a second ago, when it was surer, or still said something.
    assert heard(model_of=0.01, now=0.05) == []
    assert heard(model_of=0.05, now=None) == []
    for _ in range(8):
        assert heard(model_of=None, now=None) == []
    assert heard(model_of=0.01, now=None) == ["a"], "somebody else says it"
