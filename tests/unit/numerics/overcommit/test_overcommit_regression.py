"""The regression behind the learnt margin, against a linear program."""

import numpy as np
import pytest
from scipy import optimize

from carico_core.numerics import arrays
from carico_core.numerics.overcommit import regression


def outcomes(seed: int) -> regression.Outcomes:
    """A level, a spread and a constant; peaks are some spreads above the level."""
    rng = np.random.default_rng(seed)
    level, spread = rng.uniform(0.1, 0.6, 400), rng.uniform(0.01, 0.05, 400)
    known = np.stack([level, spread, np.ones(400)], axis=1)
    return regression.Outcomes(
        known=known, peaks=level + spread * rng.exponential(size=400), weights=rng.uniform(0.5, 1.0, 400)
    )


def loss(found: regression.Outcomes, coefficients: arrays.Array, severity_weight: float) -> float:
    """Savings lost + lambda x severity, without the rounded corner and the pull."""
    share = found.weights / found.weights.sum()
    predicted = found.known @ coefficients
    severity = np.maximum(1.0 - predicted / found.peaks, 0.0)
    return float(share @ predicted / (share @ found.peaks) + severity_weight * (share @ severity))


def optimum(found: regression.Outcomes, severity_weight: float) -> float:
    """The least loss: min slope w + lambda share s, where s >= 1 - known w / peak and s >= 0."""
    share = found.weights / found.weights.sum()
    relative = found.known / found.peaks[:, np.newaxis]
    slope = share @ found.known / (share @ found.peaks)
    solved = optimize.linprog(
        np.concatenate([slope, severity_weight * share]),
        A_ub=np.hstack([-relative, -np.eye(len(share))]), b_ub=-np.ones(len(share)),
        bounds=[(None, None)] * len(slope) + [(0.0, None)] * len(share),
    )  # fmt: skip
    assert solved.fun is not None
    return float(solved.fun)


PRIOR = np.array([1.0, 0.0, 0.0])


@pytest.mark.parametrize("severity_weight", [5.0, 20.0, 100.0])
def test_the_loss_is_nearly_that_of_the_linear_program(severity_weight: float) -> None:
    found = outcomes(1)
    fitted = regression.fit(found, severity_weight, prior=PRIOR, start=PRIOR)
    least = optimum(found, severity_weight)
    assert least <= loss(found, fitted, severity_weight) <= 1.02 * least


def test_more_weight_of_severity_predicts_more() -> None:
    found = outcomes(2)
    means = [
        (found.known @ regression.fit(found, weight, prior=PRIOR, start=PRIOR)).mean() for weight in (3.0, 10.0, 50.0)
    ]
    assert means == sorted(means)
    assert means[0] < means[-1]


def test_the_start_changes_little() -> None:
    found = outcomes(3)
    one = regression.fit(found, 20.0, prior=PRIOR, start=PRIOR)
    other = regression.fit(found, 20.0, prior=PRIOR, start=np.array([1.2, 3.0, 0.1]))
    np.testing.assert_allclose(found.known @ one, found.known @ other, rtol=2e-3)
