"""Which Pods a node's usage shows, class by class: a list of Pods and one filter a class and dimension say the same."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import footprint_constants, growth, population

DIMS = ("cpu", "memory")
MEMORY = 1
NO_LAG = footprint_constants.FootprintConstants(start_lag_s=0.0)


def made(
    constants: footprint_constants.FootprintConstants = NO_LAG, *, dims: tuple[str, ...] = DIMS
) -> population.Population:
    """Of a node that takes ten Pods."""
    config = base.EstimatorConfig(
        dims=dims, scale=np.ones(len(dims)), cores=4.0, ceiling=np.ones(len(dims)),
        pod_limit=10,
    )  # fmt: skip
    return population.Population(config, constants, growing=[index for index, dim in enumerate(dims) if dim != "cpu"])


def of(name: str, count: int) -> dict[str, str]:
    return {f"{name}-{number}": name for number in range(count)}


STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from([f"uid-{number}" for number in range(6)]), st.sampled_from(("a", "b"))),
        st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)),
        st.sampled_from((0.05, 0.1, 1.0, 5.0)),
    ),
    min_size=1,
    max_size=15,
)


@given(STEPS, st.sampled_from((0.0, 0.4)))
def test_usage_shows_pods_and_their_ages_as_its_filter_lets_them_through(
    steps: list[tuple[dict[str, str], tuple[float, float], float]], since_s: float
) -> None:
    found = made(dataclasses.replace(NO_LAG, start_lag_s=since_s))
    started: dict[str, float] = {}
    now_s, shown, by_part = 0.0, dict[str, list[float]](), dict[str, list[float]]()
    for number, (running, gains, dt_s) in enumerate(steps):
        found.follow(running)
        started = {uid: started.get(uid, now_s) for uid in running}
        found.tick(list(gains), dt_s)
        for name in {*shown, *running.values()}:
            ages_s = sorted((now_s - started[uid] - since_s for uid in running if running[uid] == name), reverse=True)
            count, now = float(len(ages_s)), growth.behind(ages_s)
            # What the first look finds has been there; what comes later comes from nothing.
            before = shown.setdefault(name, [count if number == 0 else 0.0] * 2)
            shown[name] = [was + gain * (count - was) for was, gain in zip(before, gains, strict=True)]
            older = by_part.get(name, now)
            by_part[name] = [was + gains[MEMORY] * (part - was) for part, was in zip(now, older, strict=True)]
        now_s += dt_s
        if since_s == 0.0:
            for index in range(2):
                assert found.shown(index) == pytest.approx({name: each[index] for name, each in shown.items()})
        for name, parts in found.shown_by_part(MEMORY).items():
            assert parts == pytest.approx([found.shown(MEMORY)[name], *by_part[name][1:]])
        assert set(found.shown_by_part(MEMORY)) == set(shown)
    counted = found.counted(99)
    assert dict(counted) == {name: list(running.values()).count(name) for name in running.values()}
    assert found.running == counted
    ages = {name: [now_s - started[uid] - since_s for uid in running if running[uid] == name] for name in counted}
    assert found.now_by_part(counted) == {
        name: pytest.approx([counted[name], *growth.behind(sorted(each, reverse=True))[1:]])
        for name, each in ages.items()
    }


def test_until_classes_are_known_every_pod_is_of_one() -> None:
    found = made()
    assert [found.count(pods) for pods in (-3, 4, 4, 99)] == [False, True, False, True]
    assert (found.running, found.counted(3), found.counted(99), found.counted(-1)) == (
        {base.ALL_PODS: 10}, {base.ALL_PODS: 3}, {base.ALL_PODS: 10}, {base.ALL_PODS: 0},
    )  # fmt: skip
    found.follow({})
    assert not found.count(5)
    assert (found.running, found.counted(5)) == ({}, {})
    of_one = made(dataclasses.replace(NO_LAG, by_class=False))
    of_one.follow({"x": "a", "y": "b"})
    assert of_one.running == {base.ALL_PODS: 2}


def test_the_class_that_ran_least_recently_gives_way_with_all_that_was_known_of_it() -> None:
    found = made()
    for number in [*range(population.CLASSES_HELD), 0]:
        # Three lives each, from which on they are known.
        for _ in range(3):
            found.follow(of(f"class-{number}", 1))
            found.tick([0.5, 0.5], 2.0)
            found.follow({})
    assert len(found.classes) == 16
    assert found.lifetimes.is_known("class-1")
    found.follow(of("new", 1))
    found.tick([0.5, 0.5], 2.0)
    assert [*found.classes] == [*(f"class-{number}" for number in range(2, 16)), "class-0", "new"]
    assert set(found.shown_by_part(MEMORY)) == set(found.shown(MEMORY)) == set(found.classes)
    assert not found.lifetimes.is_known("class-1")
    assert found.lifetimes.is_known("class-0")
    # Those that run stay, however many they are.
    many = {f"uid-{number}": f"job-{number}" for number in range(20)}
    found.follow(many)
    assert {*found.classes} == {*many.values()}


def test_it_is_eager_for_six_seconds() -> None:
    found = made()
    found.follow(of("a", 1))
    found.tick([0.5, 0.5], 5.9)
    seen = [found.eager]
    found.tick([0.5, 0.5], 0.2)
    seen.append(found.eager)
    assert seen == [True, False]
