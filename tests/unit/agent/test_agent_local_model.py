"""The kinds of local models: Gram against SVD, the cut at r < d, and PRONTO's with its Reject-Job."""

import numpy as np
import pytest

from carico_agent import settings
from carico_agent.learning import configuration, local_model, pipeline
from carico_core.domain import errors
from carico_core.numerics import estimators, subspace
from carico_core.numerics.estimators import base

DIMS = ("cpu", "memory")


def batches(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [rng.random((2, 10)) * 0.5 for _ in range(count)]


def test_the_svd_of_every_direction_is_the_gram_matrix() -> None:
    gram, svd = local_model.Gram(), local_model.Svd(2)
    for batch in batches(20):
        expected, got = gram.take(batch, 0.5), svd.take(batch, 0.5)
        assert got == pytest.approx(expected, rel=1e-9)


def test_a_cut_model_keeps_one_direction_and_a_little_less_of_its_size() -> None:
    gram, cut = local_model.Gram(), local_model.Svd(1)
    for batch in batches(20):
        whole, kept = gram.take(batch, 0.5), cut.take(batch, 0.5)
    assert np.linalg.matrix_rank(kept, tol=1e-9) == 1
    assert 0.85 * subspace.principal(whole)[0] < subspace.principal(kept)[0] <= subspace.principal(whole)[0] + 1e-12


def test_pronto_keeps_what_varies_and_rejects_a_spike() -> None:
    made = local_model.Fpca(1)
    rng = np.random.default_rng(1)
    for _ in range(30):
        batch = 0.3 + 0.02 * rng.standard_normal((2, 10))
        for column in batch.T:
            made.see(column)
        gram = made.take(batch, 0.5)
        made.follow(None, weight=0.5)
    assert gram.trace() < 0.01, "the mean of .3 is not in it"
    made.see([0.3, 0.3])
    assert not made.rejecting
    made.see([0.9, 0.9])
    assert made.rejecting


def steady(cluster: np.ndarray | None) -> local_model.Fpca:
    """A node of which only the CPU's usage varies, in a cluster with this variation."""
    made = local_model.Fpca(1)
    rng = np.random.default_rng(1)
    for _ in range(30):
        batch = np.array([[0.3], [0.3]]) + np.array([[0.02], [0.0001]]) * rng.standard_normal((2, 10))
        for column in batch.T:
            made.see(column)
        made.take(batch, 0.5)
        made.follow(cluster, weight=0.5)
    return made


def test_pronto_projects_on_what_the_cluster_varies_in() -> None:
    """Memory that never varied here is no direction of the node's own, but one of the cluster's."""
    alone, member = steady(None), steady(np.diag([0.0, 0.05]))
    for made in (alone, member):
        made.see([0.3, 0.9])
    assert not alone.rejecting
    assert member.rejecting


@pytest.mark.parametrize("estimator", sorted(estimators.ESTIMATORS))
def test_reject_job_holds_back_every_estimators_capacity(estimator: str) -> None:
    made = pipeline.Pipeline(pipeline.PipelineConfig(estimator=estimator, node=node(), model="fpca"))
    made.pods_changed({"uid": "class"})

    def state(index: int, cpu: float) -> pipeline.State | None:
        values = np.array([cpu + 0.005 * (index % 3), 0.1 + 0.002 * (index % 2)])
        due = made.sample(pipeline.Sample(values=values, parts={}, pods=1, dt_s=0.1, at_ns=index, at_s=index / 10))
        return made.update(pods=1, churning=False) if due else None

    before = [found for index in range(100) if (found := state(index, 0.2)) is not None][-1]
    assert before.estimate.capacity > 0.0
    # The filter lets a lasting rise through within half a second: until the window is used to it, it is a spike.
    during = [found for index in range(100, 120) if (found := state(index, 0.7)) is not None]
    assert any(found.estimate.capacity == 0.0 and found.estimate.limit == 1 for found in during)


def node() -> base.EstimatorConfig:
    return base.EstimatorConfig(
        dims=DIMS, scale=np.array([8.0, 8e9]), cores=4.0, ceiling=base.default_ceiling(DIMS),
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "rank"), [("gram", None), ("svd", 1), ("fpca", 1), ("fpca", None)])
@pytest.mark.parametrize("estimator", ["dual", "footprint"])
def test_every_kind_runs_in_the_pipeline(kind: local_model.Kind, rank: int | None, estimator: str) -> None:
    made = pipeline.Pipeline(pipeline.PipelineConfig(estimator=estimator, node=node(), model=kind, model_rank=rank))
    state: pipeline.State | None = None
    for index in range(60):
        sample = pipeline.Sample(
            values=np.array([0.2 + 0.01 * (index % 3), 0.1]), parts={}, pods=1, dt_s=0.1, at_ns=index, at_s=index / 10
        )
        if made.sample(sample):
            state = made.update(pods=1, churning=False)
    assert state is not None
    assert np.isfinite(state.estimate.capacity)
    assert made.local_gram is not None
    assert made.local_gram.shape == (2, 2)


@pytest.mark.parametrize(("kind", "rank"), [("svd", 3), ("gram", 1), ("fpca", 0)])
def test_a_rank_that_is_none_is_refused(kind: local_model.Kind, rank: int) -> None:
    with pytest.raises(ValueError, match="rank"):
        pipeline.Pipeline(pipeline.PipelineConfig(estimator="footprint", node=node(), model=kind, model_rank=rank))


def test_a_rank_that_the_node_has_not_is_one_line_of_the_settings() -> None:
    chosen = settings.AgentSettings(node="node-1", model="svd", model_rank=3)
    with pytest.raises(errors.SettingsError, match="expected 1 to 2"):
        configuration.pipeline_config(chosen, node())
