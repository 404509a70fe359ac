"""What every estimator must keep to, whatever it is given. Run on all that the registry names."""

import itertools
import math
import pickle
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.domain import messages
from carico_core.numerics import arrays, estimators
from carico_core.numerics.estimators import base, delta, joint

DIMS = ("cpu", "memory")
# Registered, or not yet: the suite runs on it as soon as it is.
# Each as registered, and with the constants the author published for it where those are not its defaults.
CASES: dict[str, tuple[str, object | None]] = {
    **{name: (name, None) for name in sorted(estimators.ESTIMATORS)},
    "delta, logged": ("delta", delta.LOGGED),
    "joint, logged": ("joint", joint.LOGGED),
}
NAMES = list(CASES)
# Whatever a float can hold, and what telemetry holds.
ANY = st.floats(allow_nan=True, allow_infinity=True) | st.floats(-0.5, 1.5) | st.floats(0, 1)
SEQUENCE = st.lists(
    st.tuples(
        ANY,
        ANY,
        ANY | st.floats(0, 1),
        st.integers() | st.integers(0, 30),
        ANY | st.floats(0, 50),
        st.booleans(),
        ANY | st.floats(0, 20),
        ANY | st.just(1.0),
    ),
    min_size=1,
    max_size=25,
)
Raw = tuple[float, float, float, int, float, bool, float, float]


def test_all_estimators_are_found() -> None:
    assert {*estimators.ESTIMATORS} == {"delta", "dual", "footprint", "joint"}
    assert {*NAMES} == {*estimators.ESTIMATORS} | {"delta, logged", "joint, logged"}


def make(case: str, config: base.EstimatorConfig) -> base.Estimator:
    name, constants = CASES[case]
    return estimators.create(name, config, constants)


def config(mode: str = "trace", cores: float = 4.0) -> base.EstimatorConfig:
    return base.EstimatorConfig(
        dims=DIMS,
        scale=np.array([2.0 * cores, 8e9]),
        cores=cores,
        ceiling=base.default_ceiling(DIMS),
        signal_mode="trace" if mode == "trace" else "sigma1u1",
    )


BY_CLASS = [case for case in NAMES if isinstance(make(case, config()), base.ByClass)]


def observation(
    pods: int = 0, usage: float = 0.1, *, signal: float = 1.0, churning: bool = False, peak: float = 0.0
) -> base.Observation:
    return base.Observation(
        dt_s=1.0,
        y=np.array([usage, 0.1]),
        gains=np.array([0.2, 0.2]),
        pods=pods,
        signal=signal,
        churning=churning,
        peak_pods_per_core=peak,
    )


def locked(*values: float) -> arrays.Array:
    """Return the array read-only: a write raises and fails the test."""
    return arrays.frozen(values, name="input")


def odd(raw: Raw) -> base.Observation:
    first, second, gain, pods, level, churning, peak, dt_s = raw
    return base.Observation(
        dt_s=dt_s,
        y=locked(first, second),
        gains=locked(gain, gain),
        pods=pods,
        signal=level,
        churning=churning,
        peak_pods_per_core=peak,
    )


def figures(estimate: base.CapacityEstimate) -> Iterator[float]:
    """Every number of an estimate."""
    yield from (estimate.capacity, estimate.capacity_sd, estimate.filtered_pods)
    yield from itertools.chain(*estimate.baseline.values(), *estimate.cost.values())
    yield from (estimate.headroom or {}).values()
    for costs in (estimate.cost_plus or {}).values():
        yield from costs.values()
    for evidence in (estimate.evidence or {}).values():
        yield from itertools.chain(*evidence.values())
    yield from map(float, (estimate.class_pods or {}).values())


def run(estimator: base.Estimator, seconds: int, seed: int = 0) -> base.CapacityEstimate:
    """A made-up run of `seconds`: waves of Pods of one core on four."""
    rng = np.random.default_rng(seed)
    for second in range(seconds):
        pods = (0, 2, 5, 9, 3)[second // 7 % 5]
        y: arrays.Array = np.clip([pods / 8 + 0.02 * rng.random(), 0.1 + 0.002 * pods + 0.001 * rng.random()], 0, 1)
        for _ in range(10):
            estimator.tick(y.tolist(), [0.2, 0.2], pods, 0.1)
        estimate = estimator.update(
            base.Observation(
                dt_s=1.0,
                y=y,
                gains=np.array([0.2, 0.2]),
                pods=pods,
                signal=float(max(0.0, 1 - y[0])),
                churning=second % 7 == 0,
            )
        )
    return estimate


@pytest.mark.parametrize("name", NAMES)
def test_it_is_usable_from_the_first_call(name: str) -> None:
    for first in ("estimate", "update"):
        for pods in (0, 3):
            estimator = make(name, config())
            estimate: base.CapacityEstimate = getattr(estimator, first)(observation(pods, signal=1.3))
            assert estimate.mode == "warming" or first == "update"
            assert all(map(math.isfinite, figures(estimate)))
            assert pods > 0 or estimate.capacity >= 1.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["trace", "sigma1u1"])
@settings(max_examples=120, deadline=None)
@given(sequence=SEQUENCE)
def test_capacity_is_finite_and_never_negative_whatever_comes(name: str, mode: str, sequence: list[Raw]) -> None:
    estimator = make(name, config(mode))
    for raw in sequence:
        given_now = odd(raw)
        estimator.tick(given_now.y.tolist(), given_now.gains.tolist(), given_now.pods, given_now.dt_s)
        for estimate in (estimator.estimate(given_now), estimator.update(given_now)):
            assert all(map(math.isfinite, figures(estimate)))
            assert 0.0 <= estimate.capacity <= base.CAPACITY_CAP
            assert estimate.capacity_sd >= 0.0
            assert estimate.limit is None or 0 <= estimate.limit <= config().pod_limit


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(sequence=SEQUENCE, after=SEQUENCE)
def test_a_pickled_one_goes_on_alike_whatever_came(name: str, sequence: list[Raw], after: list[Raw]) -> None:
    first = make(name, config("sigma1u1"))
    for raw in sequence:
        first.tick(odd(raw).y.tolist(), odd(raw).gains.tolist(), odd(raw).pods, odd(raw).dt_s)
        first.update(odd(raw))
    second: base.Estimator = pickle.loads(pickle.dumps(first))
    for raw in after:
        assert list(figures(first.update(odd(raw)))) == list(figures(second.update(odd(raw))))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dims", [("cpu",), ("memory",), ("cpu", "memory", "disk", "gpu")])
def test_it_takes_any_dimensions(name: str, dims: tuple[str, ...]) -> None:
    facts = base.EstimatorConfig(
        dims=dims,
        scale=np.geomspace(1e-3, 1e12, len(dims)),
        cores=0.5,
        ceiling=base.default_ceiling(dims),
    )
    estimator = make(name, facts)
    for second in range(40):
        pods = second // 5 % 4
        estimate = estimator.update(
            base.Observation(
                dt_s=1.0,
                y=np.full(len(dims), 0.1 + 0.2 * pods),
                gains=np.full(len(dims), 0.2),
                pods=pods,
                signal=1.0 - 0.25 * pods,
            )
        )
        assert all(map(math.isfinite, figures(estimate)))
        assert 0.0 <= estimate.capacity <= base.DEFAULT_POD_LIMIT - pods
        assert estimate.bottleneck is None or estimate.bottleneck in (*dims, base.SIGNAL)


@pytest.mark.parametrize("name", NAMES)
def test_a_full_node_and_one_that_cannot_be_read_offer_nothing(name: str) -> None:
    estimator = make(name, config())
    run(estimator, 40)
    for usage in (1.0, math.nan):
        full = observation(5, usage, signal=0.0 if usage == 1.0 else math.nan)
        assert estimator.estimate(full).capacity < 1.0


@pytest.mark.parametrize("name", NAMES)
def test_no_node_offers_more_than_its_pod_limit(name: str) -> None:
    estimator = make(name, config())
    run(estimator, 40)
    for pods in (100, 109, 110, 500):
        estimate = estimator.estimate(observation(pods, 0.01, signal=500.0, peak=1e6))
        assert estimate.capacity <= max(0, base.DEFAULT_POD_LIMIT - pods)


@pytest.mark.parametrize("name", NAMES)
def test_input_is_left_alone_and_nothing_aliases_it(name: str) -> None:
    seen, twin = make(name, config()), make(name, config())
    for second in range(30):
        now, same = observation(second % 4, 0.1 + 0.1 * (second % 4)), observation(second % 4, 0.1 + 0.1 * (second % 4))
        before = (now.y.tobytes(), now.gains.tobytes())
        seen.tick(now.y.tolist(), now.gains.tolist(), now.pods, 0.1)
        twin.tick(same.y.tolist(), same.gains.tolist(), same.pods, 0.1)
        estimate, other = seen.update(now), twin.update(same)
        assert before == (now.y.tobytes(), now.gains.tobytes())
        assert list(figures(estimate)) == list(figures(other))
        # What the caller does to its arrays, or to an estimate it got, must not reach the next one.
        now.y[:], now.gains[:] = 9.0, 9.0
        estimate.baseline.clear()
        estimate.cost.clear()
        for part in (estimate.headroom, estimate.cost_plus, estimate.evidence):
            if part is not None:
                part.clear()


@pytest.mark.parametrize("name", NAMES)
def test_the_config_is_copied(name: str) -> None:
    scale = np.array([8.0, 8e9])
    facts = base.EstimatorConfig(dims=DIMS, scale=scale, cores=4.0, ceiling=np.ones(2))
    estimator = make(name, facts)
    scale[:] = 1.0
    assert facts.scale.tolist() == [8.0, 8e9]
    with pytest.raises(ValueError, match="read-only"):
        facts.ceiling[0] = 0.5
    assert list(figures(run(estimator, 20))) == list(figures(run(make(name, config_ones()), 20)))


def config_ones() -> base.EstimatorConfig:
    return base.EstimatorConfig(dims=DIMS, scale=np.array([8.0, 8e9]), cores=4.0, ceiling=np.ones(2))


@pytest.mark.parametrize("name", NAMES)
def test_estimating_learns_nothing(name: str) -> None:
    asked, left = make(name, config()), make(name, config())
    run(asked, 30)
    run(left, 30)
    for pods in (0, 3, 9, 50):
        asked.estimate(observation(pods, 0.9, signal=0.1))
    assert pickle.dumps(asked) == pickle.dumps(left)


@pytest.mark.parametrize("name", NAMES)
def test_the_same_input_gives_the_same_numbers_and_a_pickled_one_goes_on_alike(name: str) -> None:
    first, second = make(name, config()), make(name, config())
    assert list(figures(run(first, 60))) == list(figures(run(second, 60)))
    restored: base.Estimator = pickle.loads(pickle.dumps(first))
    assert list(figures(run(restored, 30, seed=5))) == list(figures(run(first, 30, seed=5)))


@pytest.mark.parametrize("name", NAMES)
def test_its_state_does_not_grow(name: str) -> None:
    estimator = make(name, config())
    sizes = []
    # Whole waves of 35 s, so that both end with the same Pods running: a thousand updates, and ten thousand.
    for count in (1_015, 9_100):
        for second in range(count):
            pods = (0, 2, 5, 9, 3)[second // 7 % 5]
            now = observation(pods, pods / 10, signal=1 - pods / 10)
            estimator.tick(now.y.tolist(), now.gains.tolist(), pods, 0.1)
            estimator.update(now)
        sizes.append(len(pickle.dumps(estimator)))
    assert sizes[0] == sizes[1]


def told(draw: st.DataObject) -> messages.GlobalModel:
    """A model of the cluster with any evidence that passes the wire (wire.fields): to 1e18, deviations from 0 up.

    Deviations between 0 and 1e-9 tasks or bytes are left out: no measurement has them.
    """
    estimate = st.builds(
        messages.Estimate,
        mean=st.floats(-1e18, 1e18) | st.floats(0, 10),
        sd=st.just(0.0) | st.floats(1e-9, 1e18) | st.floats(0.1, 10),
    )
    dimensions = st.dictionaries(st.sampled_from([*DIMS, "gpu"]), estimate)
    evidence = st.builds(messages.ClassEvidence, pods=st.integers(0, 10**6), cost=dimensions, growth=dimensions)
    return messages.GlobalModel(
        replica="a",
        boot="0" * 16,
        seq=1,
        ts_ns=1,
        epoch=1,
        merge="round",
        contributors=3,
        weight=12.0,
        dims=DIMS,
        gram=np.eye(2),
        evidence=draw.draw(st.dictionaries(st.sampled_from(["Job/a", "Job/b", "Job/c"]), evidence)),
        peak_pods_per_core=draw.draw(st.floats(0, 1e3)),
    )


RUNNING = st.dictionaries(st.sampled_from([f"uid-{index}" for index in range(8)]), st.sampled_from(["Job/a", "Job/b"]))


@pytest.mark.parametrize("name", BY_CLASS)
@settings(max_examples=60, deadline=None)
@given(sequence=SEQUENCE, draw=st.data())
def test_whatever_is_reported_of_classes_capacity_stays_finite(
    name: str, sequence: list[Raw], draw: st.DataObject
) -> None:
    estimator = make(name, config())
    assert isinstance(estimator, base.ByClass)
    for raw in sequence[:8]:
        estimator.follow(draw.draw(RUNNING))
        estimator.use(told(draw))
        given_now = odd(raw)
        estimator.tick(given_now.y.tolist(), given_now.gains.tolist(), given_now.pods, given_now.dt_s)
        for estimate in (estimator.estimate(given_now), estimator.update(given_now)):
            assert all(map(math.isfinite, figures(estimate)))
            assert 0.0 <= estimate.capacity <= base.CAPACITY_CAP
            assert all(cost > 0.0 for costs in (estimate.cost_plus or {}).values() for cost in costs.values())


@pytest.mark.parametrize("name", BY_CLASS)
def test_ever_new_pods_and_classes_do_not_make_it_grow(name: str) -> None:
    estimator = make(name, config())
    assert isinstance(estimator, base.ByClass)
    sizes = []
    for begin, end in ((0, 700), (700, 3_500)):
        for second in range(begin, end):
            pods = (0, 2, 5, 9, 3)[second // 7 % 5]
            # Each second other Pods, and each wave of 7 s another class: names as long as the ones before.
            estimator.follow({f"pod-{second:06d}-{index}": f"Job/job-{second // 7:06d}" for index in range(pods)})
            now = observation(pods, pods / 10, signal=1 - pods / 10)
            estimator.tick(now.y.tolist(), now.gains.tolist(), pods, 0.1)
            estimate = estimator.update(now)
            assert len(estimate.cost_plus or {}) < 100
        sizes.append(len(pickle.dumps(estimator)))
    assert sizes[1] <= 1.05 * sizes[0]


def test_an_unknown_estimator_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=f"expected one of {', '.join(sorted(estimators.ESTIMATORS))}, got 'magic'"):
        estimators.create("magic", config())


@pytest.mark.parametrize("change", [{"cores": 0.0}, {"cores": math.nan}, {"pod_limit": 0}, {"dims": ("cpu", "cpu")}])
def test_a_config_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    facts: dict[str, object] = {
        "dims": DIMS,
        "scale": np.array([8.0, 8e9]),
        "cores": 4.0,
        "ceiling": np.ones(2),
    }
    with pytest.raises(ValueError, match="estimator"):
        base.EstimatorConfig(**(facts | change))  # type: ignore[arg-type]  # the point is a wrong argument


def test_arrays_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"estimator.scale: expected shape \(2,\)"):
        base.EstimatorConfig(dims=DIMS, scale=np.ones(3), cores=4.0, ceiling=np.ones(2))


def test_the_order_of_dimensions_changes_nothing() -> None:
    def estimates(dims: tuple[str, ...]) -> list[base.CapacityEstimate]:
        of = {"cpu": (8.0, 0.8, 0.3), "memory": (8e9, 0.95, 0.01)}
        facts = base.EstimatorConfig(
            dims=dims,
            scale=np.array([of[dim][0] for dim in dims]),
            cores=4.0,
            ceiling=np.array([of[dim][1] for dim in dims]),
        )
        made = estimators.create("footprint", facts)
        assert isinstance(made, base.ByClass)
        found = []
        for second in range(30):
            pods = min(second // 5, 3)
            made.follow({f"uid-{number}": "job" for number in range(pods)})
            usage = {"cpu": 0.05 + 0.12 * pods, "memory": 0.1 + 0.05 * pods}
            seen = base.Observation(
                dt_s=1.0,
                y=np.array([usage[dim] for dim in dims]),
                gains=np.array([of[dim][2] for dim in dims]),
                pods=pods,
                signal=1.0,
            )
            made.tick(seen.y.tolist(), seen.gains.tolist(), pods, 1.0)
            found.append(made.update(seen))
        return found

    for one, other in zip(estimates(("cpu", "memory")), estimates(("memory", "cpu")), strict=True):
        assert one == other
