"""What a Pod of each class costs in one dimension: as plain Kalman filters have it, written out in numpy."""

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from carico_core.numerics import arrays
from carico_core.numerics.estimators import base
from carico_core.numerics.estimators.footprint import class_costs, dimension, growth

SCALE, LEAST, READING = 8.0, 8.0 / 110, 0.001
FACTS = dimension.Facts(scale=SCALE, ceiling=0.75, least_cost=LEAST, reading_variance=READING, cores=4.0)
# Of a belief without a prior.
WIDE = (10.0 * SCALE) ** 2
KNOWN, OWN = 0, 1
NAMES = ("a", "b", "c")
LIVES_S = (3.0, 60.0)


def in_range(cost: float) -> float:
    return min(max(cost, LEAST), SCALE)


@dataclasses.dataclass
class Belief:
    """mean (m,), covariance (m, m)"""

    mean: arrays.Array
    covariance: arrays.Array

    def step(self, design: arrays.Array, error: float, variance: float) -> None:
        # The textbook's form: K = P x / (x' P x + R), c + K e, P - K x' P.
        pulled = self.covariance @ design
        gain = pulled / (float(design @ pulled) + variance)
        self.mean = self.mean + gain * error
        self.covariance = self.covariance - np.outer(gain, pulled)


class Plain:
    """The equations of `class_costs`, written plainly, for one dimension with so many parts a class."""

    def __init__(self, *, parts: int) -> None:
        self.parts = parts
        self.names: list[str] = []
        self.baseline: tuple[float, float] | None = None
        self.peers: dict[str, base.Evidence] = {}
        self.reached: set[str] = set()
        self.beliefs = [Belief(np.zeros(0), np.zeros((0, 0))) for _ in (KNOWN, OWN)]
        # Of one Pod's usage over time.
        self.own_variance = 0.0

    @property
    def floor(self) -> float:
        return 0.0 if self.baseline is None else self.baseline[0]

    def whole(self, name: str) -> base.Evidence:
        if name in self.peers:
            return in_range(self.peers[name][0]), self.peers[name][1]
        return self.unknown, (0.7 * self.unknown) ** 2

    @property
    def unknown(self) -> float:
        return in_range((0.75 * SCALE - self.floor) / 4.0)

    @property
    def unknown_part(self) -> float:
        return (0.5 * self.unknown) ** 2

    def begun(self, name: str) -> list[base.Evidence]:
        mean, variance = self.whole(name)
        part = (0.1 * mean) ** 2 if name in self.peers else self.unknown_part
        return [(mean, variance)] + [(0.0, part)] * (self.parts - 1)

    def rows(self, name: str) -> list[int]:
        first = self.names.index(name) * self.parts
        return list(range(first, first + self.parts))

    def hold(self, names: Sequence[str]) -> None:
        kept = [name for name in self.names if name in names]
        rows = [row for name in kept for row in self.rows(name)]
        new = [name for name in names if name not in kept]
        known = [part for name in new for part in self.begun(name)]
        for belief, begun in zip(self.beliefs, (known, [(0.0, WIDE)] * len(known)), strict=True):
            grown = np.diag([0.0] * len(rows) + [variance for _, variance in begun])
            grown[: len(rows), : len(rows)] = belief.covariance[np.ix_(rows, rows)]
            belief.mean = np.array([*belief.mean[rows], *(mean for mean, _ in begun)])
            belief.covariance = grown
        self.names = kept + new
        self.reached &= set(names)

    def use_peers(self, peers: Mapping[str, base.Evidence]) -> None:
        self.peers = {name: (mean, variance + (0.2 * mean) ** 2) for name, (mean, variance) in peers.items()}
        for name in self.names:
            if name in self.peers and self.variance(name) > self.peers[name][1]:
                for row, (mean, variance) in zip(self.rows(name), self.begun(name), strict=True):
                    known = self.beliefs[KNOWN]
                    known.mean[row] = mean
                    known.covariance[row] = known.covariance[:, row] = 0.0
                    known.covariance[row, row] = variance

    def learn(self, usage: float, shown: Mapping[str, Sequence[float]], *, censored: bool, dt_s: float) -> None:
        counts = {name: parts[0] for name, parts in shown.items()}
        if sum(counts.values()) < 0.2:
            self.rest(usage * SCALE, dt_s)
            return
        self.reached |= {name for name, count in counts.items() if count >= 0.999}
        design = np.array([part for name in self.names for part in shown.get(name, [0.0] * self.parts)])
        shows = np.repeat([counts.get(name, 0.0) > 0.2 for name in self.names], self.parts)
        for belief in self.beliefs:
            self.drift(belief, shows, dt_s)
        pods = max(1.0, sum(counts.get(name, 0.0) for name in self.names))
        before = READING + max(0.0, self.own_variance) * pods
        if not censored and self.parts == 1:
            own = self.beliefs[OWN]
            error = usage * SCALE - self.floor - float(design @ own.mean)
            surprise = max(0.0, error**2 - float(design @ own.covariance @ design))
            keep = 0.5 ** (dt_s / 5.0)
            self.own_variance = keep * self.own_variance + (1.0 - keep) * (surprise - READING) / pods
        after = READING + max(0.0, self.own_variance) * pods
        if after > before:
            for belief, most in zip(self.beliefs, ((0.7 * self.unknown) ** 2, WIDE), strict=True):
                self.widen(belief, after / before, most)
        noise = after / min(max(dt_s, 0.01), 1.0)
        for belief in self.beliefs:
            error = usage * SCALE - self.floor - float(design @ belief.mean)
            if not censored or error > 0.0:
                belief.step(design, error, noise)
            if self.parts == 1:
                belief.mean = np.clip(belief.mean, 0.0, SCALE)

    def rest(self, level: float, dt_s: float) -> None:
        if self.baseline is None:
            self.baseline = (level, READING)
            return
        mean, variance = self.baseline
        share, told_below = 1.0 - 0.9**dt_s, 0.25 * self.unknown_part
        self.baseline = (mean + share * (level - mean), variance + share * ((level - mean) ** 2 - variance))
        if self.parts > 1:
            self.narrow(told_below, 0.25 * self.unknown_part)

    def widen(self, belief: Belief, ratio: float, most: float) -> None:
        covariance = belief.covariance
        for row, variance in enumerate(covariance.diagonal().tolist()):
            factor = math.sqrt(max(1.0, min(ratio, most / variance)))
            covariance[row] *= factor
            covariance[:, row] *= factor

    def narrow(self, told_below: float, most: float) -> None:
        # What was identified stays so: its deviations shrink, and its correlations stay.
        covariance = self.beliefs[KNOWN].covariance
        for row, variance in enumerate(covariance.diagonal().tolist()):
            if most < variance <= told_below:
                covariance[row] *= math.sqrt(most / variance)
                covariance[:, row] *= math.sqrt(most / variance)
                covariance[row, row] = most

    def drift(self, belief: Belief, shows: arrays.Array, dt_s: float) -> None:
        for row, (mean, shown) in enumerate(zip(belief.mean, shows, strict=True)):
            before = belief.covariance[row, row]
            after = before + (0.02 * mean) ** 2 * dt_s * float(shown)
            if self.parts > 1 and before <= 0.25 * self.unknown_part:
                after = min(after, 0.25 * self.unknown_part)
            belief.covariance[row, row] = after

    def grown(self, name: str, belief: int = KNOWN) -> growth.Growth:
        rows, found = self.rows(name), self.beliefs[belief]
        return growth.Growth(found.mean[rows], found.covariance[np.ix_(rows, rows)], unknown_part=self.unknown_part)

    def is_identified(self, name: str) -> bool:
        return name in self.names and (self.parts == 1 or self.grown(name).is_identified)

    def variance(self, name: str) -> float:
        row = self.rows(name)[0]
        return float(self.beliefs[KNOWN].covariance[row, row]) if self.parts == 1 else self.grown(name).variance

    def mean(self, name: str) -> float:
        return float(self.beliefs[KNOWN].mean[self.rows(name)[0]])

    def cost(self, name: str, life_s: float) -> base.Spread:
        if not self.is_identified(name):
            return self.whole(name)[0], math.sqrt(self.whole(name)[1])
        if self.parts > 1:
            mean, spread = self.grown(name).whole(life_s)
            return in_range(mean), spread
        return in_range(self.mean(name)), math.sqrt(self.variance(name))

    def plus(self, name: str, life_s: float, risk_sd: float) -> float:
        if not self.is_identified(name):
            return in_range(self.whole(name)[0] + risk_sd * math.sqrt(self.whole(name)[1]))
        if self.parts > 1:
            return max(self.grown(name).plus(life_s, risk_sd), LEAST)
        return max(self.mean(name) + risk_sd * math.sqrt(self.variance(name)), LEAST)

    def evidence(self, name: str, life_s: float) -> base.Evidence | None:
        if name not in self.reached:
            return None
        rows, own = self.rows(name), self.beliefs[OWN]
        covariance = own.covariance[np.ix_(rows, rows)]
        told = covariance.diagonal() < 0.25 * WIDE
        reach = told * growth.behind([life_s])[: self.parts] if self.parts > 1 else told * np.ones(1)
        if not told[0]:
            return None
        return in_range(float(reach @ own.mean[rows])), max(0.0, float(reach @ covariance @ reach))

    def standing(self, name: str, age_s: float) -> base.Evidence | None:
        found = self.evidence(name, age_s)
        if found is None or self.baseline is None:
            return None
        ahead = self.grown(name, OWN).left(growth.behind([age_s]), 1.0, 60.0)
        doubt = math.sqrt(found[1] + ahead**2)
        return (in_range(found[0] + ahead), doubt**2) if doubt <= max(0.2 * found[0], LEAST) else None

    def expected(self, pods: Mapping[str, Sequence[float]]) -> float:
        return sum(
            float(np.array(parts) @ self.beliefs[KNOWN].mean[self.rows(name)])
            if self.is_identified(name)
            else parts[0] * self.whole(name)[0]
            for name, parts in pods.items()
        )

    def is_unknown(self, name: str, *, runs: bool) -> bool:
        if name in self.peers:
            return False
        if not self.is_identified(name):
            return True
        return self.parts == 1 and not runs and self.variance(name) >= 0.25 * self.whole(name)[1]


@dataclasses.dataclass(frozen=True)
class Step:
    """One second of a node: which classes it holds, what peers say where they do, and what it reads."""

    held: frozenset[str]
    peers: dict[str, base.Evidence] | None
    usage: float
    # Per class how many Pods show, and their ages.
    pods: dict[str, tuple[float, list[float]]]
    censored: bool
    dt_s: float

    def shown(self, parts: int) -> dict[str, list[float]]:
        held = {name: pods for name, pods in self.pods.items() if name in self.held}
        return {
            name: [count, *(count * part / max(len(ages), 1) for part in growth.behind(ages)[1:])][:parts]
            for name, (count, ages) in held.items()
        }


# Pods below which usage is baseline, and from which a measurement is evidence, from either side and on the mark.
COUNTS = st.sampled_from((0.19, 0.2, 0.21, 0.998, 0.999, 1.0, 3.0, 4.0))


def steps() -> st.SearchStrategy[list[Step]]:
    # Mostly all, or no class would be held for long enough to be measured.
    every = frozenset(NAMES)
    made = st.builds(
        Step,
        held=st.sampled_from((*[every] * 10, *(every - {name} for name in NAMES))),
        peers=st.none()
        | st.dictionaries(
            st.sampled_from(("a", "other")), st.tuples(st.floats(0.01, 9.0), st.floats(0.0, 1.0)), max_size=2
        ),
        usage=st.floats(0.0, 0.3) | st.floats(0.0, 1.0),
        pods=st.dictionaries(st.sampled_from(NAMES), st.tuples(COUNTS, st.just([]))),
        censored=st.booleans(),
        dt_s=st.sampled_from((0.0, 0.2, 1.0, 3.0)),
    )
    return st.lists(made, min_size=1, max_size=20)


def near(found: float | base.Evidence | None, expected: float | base.Evidence | None) -> bool:
    """As `pytest.approx`, which takes longer than all that is tested here."""
    if found is None or expected is None:
        return found is expected
    return math.dist(np.ravel(found), np.ravel(expected)) <= 1e-6 * (1.0 + math.hypot(*np.ravel(expected)))


def check(made: class_costs.ClassCosts, plain: Plain) -> None:
    for name in (*NAMES, "other"):
        for life_s in LIVES_S:
            assert near(made.cost(name, life_s), plain.cost(name, life_s))
            assert near(made.plus(name, life_s, 1.3), plain.plus(name, life_s, 1.3))
        # Beginning with the last one, which is kept until something changes.
        for life_s in (LIVES_S[-1], *LIVES_S):
            assert near(made.evidence(name, life_s), plain.evidence(name, life_s))
        for runs in (False, True):
            assert made.is_unknown(name, runs=runs) is plain.is_unknown(name, runs=runs)
    assert made.measured == plain.reached
    assert near(made.floor, plain.floor)
    spread = (0.0, SCALE) if plain.baseline is None else (plain.baseline[0], math.sqrt(plain.baseline[1]))
    assert near(made.baseline_spread, spread)


def follow(made: class_costs.ClassCosts, plain: Plain, step: Step) -> None:
    """The classes that a node holds now, and what its peers say."""
    made.hold(sorted(step.held))
    plain.hold(sorted(step.held))
    check(made, plain)
    if step.peers is not None:
        made.use_peers(step.peers)
        plain.use_peers(step.peers)
        check(made, plain)


@settings(max_examples=100)
@given(steps(), st.sampled_from((0.0, 0.5)))
def test_classes_learn_as_plain_kalman_filters_do(told: list[Step], growth_sd: float) -> None:
    # Without a profile a dimension that Pods hold is one that they use.
    constants = class_costs.CostConstants(growth_sd=growth_sd)
    made, plain = class_costs.ClassCosts(FACTS, constants, grows=growth_sd == 0.0), Plain(parts=1)
    assert not made.grows
    for step in told:
        follow(made, plain, step)
        counts = {name: parts[0] for name, parts in step.shown(1).items()}
        made.learn(step.usage, counts, {}, censored=step.censored, dt_s=step.dt_s)
        plain.learn(step.usage, step.shown(1), censored=step.censored, dt_s=step.dt_s)
        check(made, plain)
        pods = {"a": 2.0, "b": 0.5, "other": 1.5}
        assert near(made.expected(pods), plain.expected({name: [count] for name, count in pods.items()}))
        assert made.left_to_grow("a", [2.0], 2.0, 60.0) == 0.0


def lived(seed: int) -> list[Step]:
    """Half a minute: Pods of `a` hold something at once and then more for six seconds, those of `b` nothing."""
    rng = np.random.default_rng(seed)
    ages = dict[str, list[float]](a=[], b=[])
    made = []
    for second in range(30):
        # At the end they leave, and the node uses much by itself.
        own = 0.4 if second < 25 else 5.0
        for name, each in ages.items():
            each[:] = [age_s + 1.0 for age_s in each[int(rng.random() < 0.05) :]]
            if rng.random() < (0.3, 0.1)[name == "b"]:
                each.append(0.0)
            if second >= 25:
                each.clear()
        held = sum(0.2 + 0.1 * min(age_s, 6.0) for age_s in ages["a"])
        peers = {name: (float(rng.uniform(0.2, 1.5)), 0.01) for name in ("a", "other") if rng.random() < 0.5}
        made.append(
            Step(
                held=frozenset(ages) - ({"b"} if rng.random() < 0.05 else set()),
                peers=peers if rng.random() < 0.1 else None,
                usage=float(np.clip((own + held + 0.02 * rng.standard_normal()) / SCALE, 0.0, 1.0)),
                pods={name: (0.95 * len(each), [*each]) for name, each in ages.items() if each},
                censored=bool(rng.random() < 0.1),
                dt_s=float(rng.choice((0.2, 1.0))),
            )
        )
    return made


@pytest.mark.parametrize("seed", range(40))
def test_classes_that_grow_learn_as_plain_kalman_filters_do(seed: int) -> None:
    made = class_costs.ClassCosts(FACTS, class_costs.CostConstants(), grows=True)
    plain = Plain(parts=growth.PARTS)
    for step in lived(seed):
        follow(made, plain, step)
        shown = step.shown(growth.PARTS)
        counts = {name: parts[0] for name, parts in shown.items()}
        made.learn(step.usage, counts, shown, censored=step.censored, dt_s=step.dt_s)
        plain.learn(step.usage, shown, censored=step.censored, dt_s=step.dt_s)
        check(made, plain)
        pods = {name: growth.behind([9.0, 2.5, 0.5]) for name in ("a", "b", "other")}
        assert near(made.expected_by_part(pods), plain.expected(pods))
        for name, parts in pods.items():
            left = plain.grown(name).left(parts, 3.0, 60.0) if plain.is_identified(name) else 0.0
            assert near(made.left_to_grow(name, parts, 3.0, 60.0), left)
            for age_s in (4.0, 20.0):
                assert near(made.standing_evidence(name, age_s), plain.standing(name, age_s))


def learnt(levels: Sequence[float], *, pods: float, half_life_s: float) -> list[base.Spread]:
    """The cost of a Pod after each second, on a node with so many Pods of one class that use so much together."""
    constants = class_costs.CostConstants(own_half_life_s=half_life_s)
    made = class_costs.ClassCosts(FACTS, constants, grows=False)
    made.hold(["a"])
    found = []
    for level in levels:
        made.learn(level / SCALE, {"a": pods}, {}, censored=False, dt_s=1.0)
        found.append(made.cost("a", growth.UNKNOWN_LIFE_S))
    return found


@pytest.mark.parametrize("seed", range(4))
def test_of_pods_that_compute_and_wait_in_turns_the_cost_is_the_mean_and_less_sure(seed: int) -> None:
    # Each of four Pods computes for two seconds in six, at times of its own.
    starts = np.random.default_rng(seed).integers(0, 6, 4)
    levels = [float(sum((second + start) % 6 < 2 for start in starts)) for second in range(60)]
    known, blind = (learnt(levels, pods=4.0, half_life_s=half_s) for half_s in (5.0, math.inf))
    assert known[-1][0] == pytest.approx(1 / 3, rel=0.15)
    # Soon, and for as long as they do so.
    for second in (8, 59):
        assert known[second][1] > 1.5 * blind[second][1]


def test_steady_pods_have_no_variance_of_their_own() -> None:
    levels = (4.0 + math.sqrt(READING) * np.random.default_rng(3).standard_normal(60)).tolist()
    known, blind = (learnt(levels, pods=4.0, half_life_s=half_s) for half_s in (5.0, math.inf))
    assert [mean for mean, _ in known] == pytest.approx([mean for mean, _ in blind], rel=0.02)


def test_classes_that_always_run_together_are_distinguished_once_they_do_not() -> None:
    # For hours readings show only their sum, so that the difference becomes ever less known, as far as a prior.
    rng = np.random.default_rng(1)
    made = class_costs.ClassCosts(FACTS, class_costs.CostConstants(), grows=False)
    made.hold(["a", "b"])
    for level in 3.0 + rng.choice((-2.0, 2.0), 4000):
        made.learn(level / SCALE, {"a": 1.0, "b": 1.0}, {}, censored=False, dt_s=5.0)
    assert made.evidence("a", growth.UNKNOWN_LIFE_S) is None
    for level in 1.0 + rng.choice((-0.2, 0.2), 120):
        made.learn(level / SCALE, {"a": 1.0}, {}, censored=False, dt_s=1.0)
    found = made.evidence("a", growth.UNKNOWN_LIFE_S)
    assert found is not None
    assert found[0] == pytest.approx(1.0, abs=0.2)
    assert 0.0 < found[1] < 0.1
