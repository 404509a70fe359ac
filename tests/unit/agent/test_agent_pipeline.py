"""From samples to a state: batches, models, the merge with the cluster's, events between two updates."""

import dataclasses

import numpy as np
import pytest

from carico_agent.learning import pipeline
from carico_agent.reporting import advertisement
from carico_core.domain import messages
from carico_core.numerics import estimators, ewma, signal, subspace
from carico_core.numerics.estimators import base, dual
from carico_core.wire import messages as wire

SCALE = np.array([8.0, 8e9])


def config(
    estimator: str = "footprint", *, peak_half_life_s: float = 600.0, model_max_age_s: float = 30.0
) -> pipeline.PipelineConfig:
    node = base.EstimatorConfig(
        dims=("cpu", "memory"),
        scale=SCALE,
        cores=4.0,
        ceiling=np.array([0.9, 0.95]),
        peak_half_life_s=peak_half_life_s,
    )
    return pipeline.PipelineConfig(estimator=estimator, node=node, model_max_age_s=model_max_age_s)


class Node:
    """A pipeline fed at 10 Hz."""

    def __init__(self, chosen: pipeline.PipelineConfig) -> None:
        self.pipeline = pipeline.Pipeline(chosen)
        self.now_s = 0.0
        self.state: pipeline.State | None = None

    def second(self, cpu: float, memory: float, *, pods: int = 0, dt_s: float = 0.1) -> pipeline.State:
        for _ in range(10):
            self.now_s += dt_s
            due = self.pipeline.sample(
                pipeline.Sample(
                    values=np.array([cpu, memory]),
                    parts={"cpu.utilisation": cpu},
                    pods=pods,
                    dt_s=dt_s,
                    at_ns=round(self.now_s * 1e9),
                    at_s=self.now_s,
                )
            )
        assert due, "ten samples are a batch"
        self.state = self.pipeline.update(pods=pods, churning=False)
        assert self.state is not None
        return self.state


def model(
    gram: list[list[float]], *, dims: tuple[str, ...] = ("cpu", "memory"), peak: float = 0.0
) -> messages.GlobalModel:
    return messages.GlobalModel(
        replica="a",
        boot="0" * 16,
        seq=1,
        ts_ns=1,
        epoch=1,
        merge="round",
        contributors=2,
        weight=8.0,
        dims=dims,
        gram=np.array(gram),
        evidence={},
        peak_pods_per_core=peak,
    )


def test_nothing_is_known_before_the_first_batch() -> None:
    fresh = pipeline.Pipeline(config())
    assert fresh.update(pods=0, churning=False) is None
    assert fresh.estimate(pods=0, churning=False) is None
    assert fresh.local_gram is None


def test_the_local_model_is_the_filtered_batches_halved_each_second() -> None:
    node = Node(config())
    rng = np.random.default_rng(3)
    reference = ewma.DynamicEma()
    gram: np.ndarray | None = None
    for _ in range(4):
        values = rng.random((10, 2)) * 0.5
        columns = []
        for value in values:
            columns.append(reference.update(value))
            node.pipeline.sample(pipeline.Sample(values=value, parts={}, pods=0, dt_s=0.1, at_ns=0, at_s=0.0))
        node.pipeline.update(pods=0, churning=False)
        batch = np.array(columns).T
        newest = batch @ batch.T / 10
        gram = newest if gram is None else 0.5 * gram + 0.5 * newest
    assert node.pipeline.local_gram == pytest.approx(gram, rel=1e-12)


def test_the_signal_is_of_both_models_and_what_is_published_of_the_own_alone() -> None:
    node = Node(config())
    alone = node.second(0.2, 0.1)
    assert not alone.federated
    own = node.pipeline.local_gram
    assert own is not None
    cluster = [[0.36, 0.06], [0.06, 0.01]]
    assert node.pipeline.follow(model(cluster), now_s=node.now_s)
    both = node.second(0.2, 0.1)
    assert both.federated
    merged = 0.5 * own + 0.5 * np.array(cluster)
    assert both.direction == pytest.approx(signal.direction(merged, "sigma1u1"))
    assert node.pipeline.local_gram == pytest.approx(own), "the cluster's model does not come back to the cluster"


def test_busier_peers_take_signal_from_a_node_with_cpu_work_and_give_to_one_with_memory_work() -> None:
    """Figures 4.6 and 4.7 of the dissertation."""
    before_model, after_model = model([[0.05, 0.05], [0.05, 0.05]]), model([[0.6, 0.03], [0.03, 0.002]])
    change = {}
    for name, usage in {"light cpu": (0.4, 0.05), "memory": (0.05, 0.7)}.items():
        node = Node(config())
        node.pipeline.follow(before_model, now_s=0.0)
        before = node.second(*usage).signal
        node.pipeline.follow(after_model, now_s=node.now_s)
        change[name] = node.second(*usage).signal - before
    assert change["light cpu"] < 0 < change["memory"]


def test_an_old_model_of_the_cluster_is_no_longer_merged() -> None:
    node = Node(config(model_max_age_s=5.0))
    node.pipeline.follow(model([[0.3, 0.0], [0.0, 0.3]]), now_s=0.0)
    assert node.second(0.2, 0.1).federated
    for _ in range(5):
        state = node.second(0.2, 0.1)
    assert not state.federated


def test_a_model_with_other_dimensions_is_picked_from_or_refused() -> None:
    node = Node(config())
    wide = model([[9.0, 1.0, 2.0], [1.0, 0.3, 0.1], [2.0, 0.1, 0.4]], dims=("disk", "memory", "cpu"))
    assert node.pipeline.follow(wide, now_s=0.0)
    state = node.second(0.0, 0.0)
    merged = 0.5 * np.array([[0.4, 0.1], [0.1, 0.3]])
    assert state.direction == pytest.approx(signal.direction(merged, "sigma1u1"))
    assert not node.pipeline.follow(model([[1.0]], dims=("cpu",)), now_s=0.0)


@pytest.mark.parametrize("estimator", ["footprint", "dual"])
def test_capacity_falls_at_once_when_a_pod_starts_and_nothing_is_learnt_from_it(estimator: str) -> None:
    node = Node(config(estimator))
    for _ in range(5):
        node.second(0.02, 0.1)
    for _ in range(20):
        node.second(0.27, 0.12, pods=2)
    before = node.state
    assert before is not None
    started = node.pipeline.estimate(pods=3, churning=estimator == "dual")
    assert started is not None
    assert started.pods == 3
    assert started.estimate.capacity < before.estimate.capacity
    assert started.estimate.cost == before.estimate.cost
    again = node.pipeline.estimate(pods=2, churning=False)
    assert again is not None
    assert again.estimate.capacity == pytest.approx(before.estimate.capacity)


def test_the_cost_of_a_pod_is_learnt_in_tasks_and_bytes() -> None:
    node = Node(config())
    for _ in range(20):
        node.second(0.02, 0.10)
    for pods in (1, 2, 3, 2, 1, 2, 3):
        for _ in range(12):
            state = node.second(0.02 + 0.125 * pods, 0.10 + 0.05 * pods, pods=pods)
    assert state.estimate.cost["cpu"][0] == pytest.approx(1.0, rel=0.1)
    assert state.estimate.cost["memory"][0] == pytest.approx(0.05 * 8e9, rel=0.1)
    assert abs(state.innovation["cpu"]) < 0.02
    assert abs(state.innovation["memory"]) < 0.02


def test_irregular_intervals_are_passed_on_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, list[float]] = {"tick": [], "update": []}

    class Recorder(dual.Dual):
        def tick(self, sample_y: object, gains: object, pods: int, dt_s: float) -> None:
            seen["tick"].append(dt_s)

        def update(self, observation: base.Observation) -> base.CapacityEstimate:
            seen["update"].append(observation.dt_s)
            return super().update(observation)

    monkeypatch.setitem(estimators.ESTIMATORS, "recorder", Recorder)
    Node(config("recorder")).second(0.1, 0.1, dt_s=0.137)
    assert seen["tick"] == [0.137] * 10
    assert seen["update"] == [pytest.approx(1.37)]


def test_the_peak_rises_at_once_and_halves_in_its_half_life() -> None:
    node = Node(config(peak_half_life_s=10.0))
    for _ in range(30):
        node.second(0.6, 0.2, pods=8)
    assert node.pipeline.peak_pods_per_core == pytest.approx(2.0, rel=0.01)
    for _ in range(10):
        node.second(0.0, 0.1, pods=0)
    assert node.pipeline.peak_pods_per_core == pytest.approx(1.0, rel=0.15)


def test_the_clusters_peak_lets_a_cold_node_take_more() -> None:
    cold, told = Node(config()), Node(config())
    told.pipeline.follow(model([[0.1, 0.0], [0.0, 0.1]], peak=2.0), now_s=0.0)
    limits = [node.second(0.02, 0.1).estimate.limit for node in (cold, told)]
    assert limits == [2, 32]


def test_both_messages_pass_the_wire_for_both_estimators() -> None:
    for estimator in ("footprint", "dual"):
        chosen = config(estimator)
        node = Node(chosen)
        for _ in range(3):
            node.second(0.02, 0.1)
        for _ in range(15):
            state = node.second(0.3, 0.2, pods=2)
        stamp = advertisement.Stamp(node="node-1", boot="17979cfe362a0001", seq=4, ts_ns=2 * 10**18)
        record = advertisement.capacity(stamp, state, node=chosen.node, covers=frozenset({"uid-1"}))
        back = wire.decode_advertisement(wire.encode_advertisement(record), subject="carico.v1.capacity.node-1")
        assert back == record
        assert back.ceiling == dict(zip(chosen.node.dims, chosen.node.ceiling, strict=True))
        local = advertisement.local_subspace(stamp, state, node.pipeline, node=chosen.node)
        assert local is not None
        read = wire.decode_subspace(wire.encode_subspace(local), subject="carico.v1.subspace.node-1")
        assert node.pipeline.local_gram is not None
        gram = subspace.to_gram(subspace.from_gram(node.pipeline.local_gram))
        assert (read.u * read.sigma) @ (read.u * read.sigma).T == pytest.approx(gram)
        assert read.scale.tolist() == SCALE.tolist()
        assert set(read.evidence) == ({"*"} if estimator == "footprint" else set())
        assert all(each.lifetime_s is None for each in read.evidence.values())


def test_how_long_pods_of_a_class_live_is_published_once_three_have_ended() -> None:
    node = Node(config())
    node.second(0.1, 0.1)
    for number in range(4):
        node.pipeline.pods_changed({f"uid-{number}": "job"})
        for _ in range(20):
            state = node.second(0.3, 0.2, pods=1)
    stamp = advertisement.Stamp(node="node-1", boot="17979cfe362a0001", seq=4, ts_ns=2 * 10**18)
    local = advertisement.local_subspace(stamp, state, node.pipeline, node=config().node)
    assert local is not None and local.evidence["job"].lifetime_s is not None
    # Three of 20 s, and one that has run for as long.
    assert local.evidence["job"].lifetime_s.mean == pytest.approx(80.0 / 3)


def test_usage_that_is_no_number_never_reads_as_room() -> None:
    node = Node(config())
    node.second(0.1, 0.1)
    state = node.second(1.0, 1.0)
    for _ in range(5):
        state = node.second(1.0, 1.0)
    assert state.estimate.capacity == 0.0
    assert state.signal == 0.0
    assert state.estimate.mode == "saturated"


def test_a_node_without_any_usage_teaches_the_scalar_filter_nothing() -> None:
    """An emulated node without a process reads exactly 0: its signal is the cap, which is no baseline."""
    chosen = config("dual")
    node = Node(dataclasses.replace(chosen, node=dataclasses.replace(chosen.node, signal_mode="trace")))
    for _ in range(5):
        state = node.second(0.0, 0.0)
    assert state.signal == 1000.0
    assert state.innovation == {}
    assert state.estimate.baseline["signal"][0] == pytest.approx(1.3)
    assert state.estimate.capacity == pytest.approx(1.3)
