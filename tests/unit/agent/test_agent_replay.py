"""Replays: a recording gives what its agent computed, a log what it shows; what is neither is refused in one line."""

import dataclasses
import math
import pathlib

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_agent import app, pipeline, settings
from carico_agent import recording as recorders
from carico_agent.churn import ledger
from carico_agent.replay import author_log, engine, fit, log_trace, reading, trace
from carico_agent.telemetry import panel
from carico_core.domain import errors, recording
from carico_core.numerics.estimators import base, registry
from carico_core.runtime import clock as clocks
from carico_core.runtime import metrics
from carico_core.wire import recording as wire

FACTS = panel.Facts(dims=("cpu", "memory"), scale=(8.0, 8e9), cores=4.0, source="host")


class Node:
    """A made-up node: the usage of some Pods, noisy; a gauge of one of its dimensions is `Gauge`."""

    def __init__(self) -> None:
        self.pods = 0
        self.rng = np.random.default_rng(7)

    def share(self, dim: str) -> float:
        if dim == "memory":
            return 0.05 + 0.01 * self.pods
        return float(np.clip(0.02 + self.pods / 8 + 0.01 * self.rng.standard_normal(), 0.0, 1.0))


class Gauge:
    def __init__(self, node: Node, dim: str) -> None:
        self.node = node
        self.dim = dim

    def read(self) -> float | None:
        return self.node.share(self.dim)


class Pods:
    """A ledger on a clock, as every adapter has one."""

    def __init__(self, clock: clocks.Clock) -> None:
        self.clock = clock
        self.book = ledger.Ledger()
        self.on_change = self.book.on_change
        self.on_event = self.book.on_event

    def current(self) -> ledger.PodSet:
        return self.book.current(self.clock.monotonic_s())

    async def run(self) -> None:
        raise NotImplementedError


@pytest.fixture(autouse=True)
def patient_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    # A minute goes by here in a tenth of a second.
    monkeypatch.setattr(recorders, "QUEUE_BLOCKS", 1000)
    monkeypatch.setattr(recorders, "CLOSE_S", 30.0)


def live(path: pathlib.Path, estimator: str) -> list[base.CapacityEstimate]:
    """Every estimate of an agent that recorded to `path`, over a minute with waves of Pods."""
    clock = clocks.FakeClock(monotonic_s=1234.5)
    node, pods = Node(), Pods(clock)
    chosen = settings.AgentSettings(node="node-1", estimator=estimator, record=str(path))
    recorder = recorders.open_recorder(chosen, FACTS, pods)
    agent = app.Agent(
        app.Parts(
            settings=chosen,
            panel=panel.Panel(FACTS, {dim: Gauge(node, dim) for dim in FACTS.dims}),
            pods=pods,
            clock=clock,
            metrics=metrics.Metrics("agent"),
            boot="0" * 16,
            witness=recorder.sample,
        )
    )
    found: list[base.CapacityEstimate] = []
    agent.when_due(capacity=lambda: None, subspace=lambda: found.append(agent.state.estimate))  # type: ignore[union-attr]  # there is one at each update
    for tick in range(600):
        clock.advance(0.0971)
        churn(pods.book, node, tick, clock.monotonic_s())
        clock.advance(0.003)
        agent.tick(0.0, 0)
    recorder.close()
    return found


def churn(book: ledger.Ledger, node: Node, tick: int, now_s: float) -> None:
    wave, at = divmod(tick, 150)
    uids = [f"{wave}-{index}" for index in range(2 * wave)]
    if at == 41:
        for uid in uids:
            book.created(uid, now_s)
    elif at == 44:
        node.pods = len(uids)
        for uid in uids:
            book.started(uid, now_s)
    elif at == 113:
        node.pods = 0
        for uid in uids:
            book.ended(uid, now_s)
    elif at == 117:
        for uid in uids:
            book.removed(uid, now_s)


@pytest.mark.parametrize("estimator", ["vector", "dual"])
def test_a_replay_gives_what_the_agent_computed(tmp_path: pathlib.Path, estimator: str) -> None:
    computed = live(tmp_path / "a.rec", estimator)
    run = engine.run(reading.read(tmp_path / "a.rec"), engine.Setup(estimator=estimator))
    assert run.inputs == "samples"
    assert len(computed) == len(run.steps) == 60
    for was, step in zip(computed, run.steps, strict=True):
        assert step.estimate.mode == was.mode
        assert step.estimate.capacity == pytest.approx(was.capacity, rel=1e-9)
        assert step.estimate.cost.keys() == was.cost.keys()
        for name, (mean, _) in was.cost.items():
            assert step.estimate.cost[name][0] == pytest.approx(mean, rel=1e-9)
    found = fit.summary(run)
    assert found["most_pods"] == 6
    assert found["rms"] == {"baseline": None, "cost": None}
    assert found["compared"] == {"with": None, "baseline": 0, "cost": 0}
    assert found["churn_share"] > 0.0
    assert found["first_useful_s"] > 15.0


def test_joint_and_delta_run_on_a_recording_too(tmp_path: pathlib.Path) -> None:
    live(tmp_path / "a.rec", "vector")
    found = reading.read(tmp_path / "a.rec")
    for estimator in sorted(registry.ESTIMATORS):
        for constants in ("default", "logged") if estimator in engine.LOGGED else ("default",):
            run = engine.run(found, engine.Setup(estimator=estimator, constants=constants))
            assert all(math.isfinite(step.estimate.capacity) for step in run.steps)


# --- the author's log ---

FULL = (
    "2025/05/21 21:26:53.{:06d} (metrics) cpu utilisation: 0.{:06d} cpu pressure: 0.070000 mem utilisation 0.050000\n"
)
EVENT = "2025/05/21 21:26:{} (cache) received an event: {{containerID:{} podID:{} topic:{}}}\n"


def log(*, count: int = 12, more: str = "") -> bytes:
    lines = "".join(FULL.format(index * 80_000, 100_000 + index) for index in range(count))
    return (lines + more).encode()


def test_a_pods_sandbox_comes_first_and_goes_last() -> None:
    lives = [
        ("54.000000", "box", "pod-a", 0), ("54.100000", "box", "pod-a", 1), ("54.150000", "main", "pod-a", 0),
        ("54.300000", "main", "pod-a", 1), ("54.310000", "side", "pod-a", 1), ("58.000000", "main", "pod-a", 2),
        ("58.100000", "side", "pod-a", 2), ("58.200000", "main", "pod-a", 3), ("59.900000", "box", "pod-a", 2),
        ("59.950000", "box", "pod-a", 3),
    ]  # fmt: skip
    found = reading.parse(log(more="".join(EVENT.format(*life) for life in lives)), name="x").recording
    start_s = found.facts.started_s
    told = [(event.kind.value, round(event.at_s - start_s, 3)) for event in found.events]
    assert told == [
        ("created", 1.0), ("started", 1.3), ("started", 1.31), ("ended", 5.1), ("settled", 5.2),
        ("removing", 6.9), ("removed", 6.95),
    ]  # fmt: skip


def test_without_container_events_pods_come_and_go_as_counted() -> None:
    counts = [("54.0", 0), ("55.0", 2), ("56.0", 3), ("57.0", 1)]
    lines = "".join(f"2025/05/21 21:26:{at}00000 (capacity) podCount = {pods}.000000\n" for at, pods in counts)
    found = reading.parse(log(more=lines), name="x")
    assert [event.kind.value for event in found.recording.events] == ["started"] * 3 + ["removed"] * 2
    assert "podCount" in found.notes[0]


@pytest.mark.parametrize(
    ("line", "dims", "scale", "values"),
    [
        ("cpu utilisation: 0.5 cpu pressure: 0.25 mem utilisation 0.1", ("cpu", "memory"), (8.0, 8e9), [0.375, 0.1]),
        ("cpu utilisation: 0.5 cpu pressure 30000.000000", ("cpu",), (8.0,), [0.4]),
        ("cpu utilisation: 1.0 cpu pressure 250000.000000", ("cpu",), (8.0,), [1.0]),
        ("cpu: 0.5 memory: 0.1", ("cpu", "memory"), (4.0, 8e9), [0.5, 0.1]),
    ],
)
def test_each_build_of_the_author_has_its_samples(
    line: str, dims: tuple[str, ...], scale: tuple[float, ...], values: list[float]
) -> None:
    found = reading.parse(f"2025/05/21 21:26:53.000000 (metrics) {line}\n".encode(), name="x").recording
    assert (found.facts.dims, found.facts.scale, found.facts.cores) == (dims, scale, 4.0)
    np.testing.assert_allclose(found.samples.values, [values])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "offset 0: got an empty file, expected a recording, or a log of the author's agent"),
        (b"\n", "line 1: got '', expected a line as"),
        (b"hello", "line 1: got 'hello', expected a line as '2025/05/21 21:26:53.739913 (metrics) ...'"),
        (b"\x7fELF\x02\x01\n\x00\n", "line 1: got '\\x7fELF"),
        (log() + b"2025/05/21 21:26:5", "line 13: got '2025/05/21 21:26:5' and then the end of the file, expected a "),
        (log() + b"2025/13/21 21:26:55.000000 (x)\n", "line 13: got 2025/13/21 21:26:55.000000 (month"),
        (log() + b"panic: runtime error\n", "line 13: got 'panic: runtime error', expected a line as"),
        (
            log() + b"2025/05/21 21:26:53.100000 (metrics) late\n",
            "line 13: got 2025/05/21 21:26:53.100000, 0.780 s before an earlier line, expected times in order",
        ),
        (
            log() + b"2025/05/21 21:26:54.000000 (metrics) cpu utilisation: 0.1.2 cpu pressure: 0 mem utilisation 0\n",
            "line 13: got '(metrics) cpu utilisation: 0.1.2",
        ),
        (
            log() + b"2025/05/21 21:26:54.000000 (metrics) cpu: 0.1 memory: 0.2\n",
            "line 13: got '(metrics) cpu: 0.1 memory: 0.2', expected a (metrics) sample as 'cpu utilisation: _ cpu pr",
        ),
        (
            log() + b"2025/05/21 21:26:54.000000 (capacity) podCount = 1e300\n",
            "line 13: got podCount = 1e300, expected 0",
        ),
        (
            log() + b"2025/05/21 21:26:54.000000 (signal) U: []float64{0.5, 0.5}\n",
            "line 13: got (signal) U without a (signal) y before it, expected y, then U",
        ),
        (
            b"2025/05/21 21:26:53.000000 created container informer\n",
            "line 1: got the end, after 1 lines without a (metrics) sample",
        ),
        (wire.MAGIC[:4], "offset 0: got b'CARI', expected a recording"),
    ],
)
def test_a_file_that_cannot_be_replayed_is_one_line_with_the_place(data: bytes, said: str) -> None:
    with pytest.raises(errors.RecordingError) as raised:
        reading.parse(data, name="some.txt")
    assert str(raised.value).startswith(f"some.txt, {said}")
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, errors.UserError)


def test_lines_that_changed_places_by_a_moment_are_in_order() -> None:
    found = reading.parse(
        log() + FULL.format(990_000, 1).encode() + FULL.format(989_000, 1).encode(), name="x"
    ).recording
    assert np.all(np.diff(found.samples.times_s) >= 0.0)


def test_a_cut_log_can_be_replayed_up_to_the_cut() -> None:
    whole = reading.parse(log(), name="x")
    cut = reading.parse(log() + b"2025/05/21 21:26:5", name="x", partial=True)
    np.testing.assert_array_equal(cut.recording.samples.values, whole.recording.samples.values)


@hypothesis.given(st.binary(max_size=400))
def test_no_bytes_raise_anything_but_a_recording_error(junk: bytes) -> None:
    for data in (junk, log() + junk, log()[:400] + junk + b"\n"):
        try:
            reading.parse(data, name="x")
        except errors.RecordingError as error:
            said = str(error)
        else:
            said = ""
        assert "\n" not in said


EVALUATED = "".join(
    f"2025/05/21 21:26:5{second}.000000 {text}\n"
    for second in (4, 5, 6)
    for text in (
        "(fpca) U: blas64.General{Rows:2, Cols:2, Data:[]float64{-0.9, -0.4, -0.4, 0.9}, Stride:2}",
        "(fpca) S: blas64.Band{Rows:2, Cols:2, KL:0, KU:0, Data:[]float64{0.4, 0.02}, Stride:1}",
        "(fpca) sumProbU: []float64{0.9, 0.45}", "(signal) y: [0.1 0.05]", "(signal) U: []float64{0.9, 0.45}",
        "(calc-signal) signal = 1.0000", "(kalman-2d) capacity: 1.362777 cost: -0.298046",
        "(kalman-1d) cost: -0.198044", "(capacity) podCount = 2.000000",
        "(two-kalman-1d) capacity: 1.285944 cost: -0.160560", "(capacity) capacity: 1.2859 | cost: -0.1606",
    )
)  # fmt: skip


@hypothesis.given(
    st.lists(st.tuples(st.floats(0.0, 1.0, exclude_max=True), st.sampled_from("0159e.-+ (){}\n")), max_size=6),
    st.sampled_from(sorted(registry.ESTIMATORS)),
)
def test_a_damaged_log_is_replayed_or_refused(damage: list[tuple[float, str]], estimator: str) -> None:
    text = list(log(more=EVALUATED).decode())
    for place, character in damage:
        text[int(place * len(text))] = character
    try:
        run = engine.run(reading.parse("".join(text).encode(), name="x"), engine.Setup(estimator=estimator))
    except errors.UserError as error:
        said = str(error)
    else:
        said = ""
        assert all(step.estimate.capacity >= 0.0 for step in run.steps)
        assert fit.summary(run)["updates"] == len(run.steps)
    assert "\n" not in said


def test_a_folder_and_a_missing_file_say_so(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.RecordingError, match="opening it: got Is a directory"):
        reading.read(tmp_path)
    with pytest.raises(errors.RecordingError, match="opening it: got No such file or directory"):
        reading.read(tmp_path / "none")


# --- what a setup needs, and what a fit says ---


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (engine.Setup(estimator="nope"), "--estimator: got 'nope', expected one of"),
        (engine.Setup(estimator="vector", constants="logged"), "--constants logged: got --estimator vector, expected"),
        (engine.Setup(estimator="dual", constants="mine"), "--constants: got 'mine', expected one of default, logged"),
        (engine.Setup(estimator="dual", inputs="logged"), "--inputs logged: x has no (signal) lines"),
    ],
)
def test_what_a_trace_has_not_is_one_line(setup: engine.Setup, said: str) -> None:
    with pytest.raises(errors.SettingsError) as raised:
        engine.run(reading.parse(log(), name="x"), setup)
    assert str(raised.value).startswith(said)


def test_less_than_a_batch_is_said() -> None:
    with pytest.raises(errors.SettingsError, match="x: got 9 samples, expected a batch of 10 at least"):
        engine.run(reading.parse(log(count=9), name="x"), engine.Setup(estimator="vector"))


def test_a_recording_without_samples_is_refused() -> None:
    facts = log_trace.from_log(author_log.parse(log().decode().splitlines()), name="x").recording.facts
    with pytest.raises(errors.RecordingError, match="got no samples, expected at least one second"):
        reading.parse(wire.encode_header(facts) + wire.encode_end(), name="x")


def steps(*surprises: float | None) -> list[engine.Step]:
    over = reading.parse(log(), name="x")
    (one,) = engine.run(over, engine.Setup(estimator="dual")).steps
    return [
        dataclasses.replace(one, surprise={} if surprise is None else {base.SIGNAL: surprise}) for surprise in surprises
    ]


def summary(found: list[engine.Step]) -> dict[str, object]:
    over = reading.parse(log(), name="x")
    run = engine.Run(trace=over, setup=engine.Setup(estimator="dual"), inputs="samples", steps=tuple(found))
    moments: dict[str, object] = fit.summary(run)["innovation"][base.SIGNAL]
    return moments


def test_the_statistics_of_the_innovation_are_those_of_numpy() -> None:
    values = np.random.default_rng(3).standard_normal(500).cumsum().tolist()
    found = summary(steps(*values))
    array = np.array(values)
    assert found["count"] == 500
    assert found["mean"] == pytest.approx(array.mean(), rel=1e-5)
    assert found["sd"] == pytest.approx(array.std(), rel=1e-5)
    # A random walk is almost its own neighbour.
    assert found["lag1"] == pytest.approx(np.corrcoef(array[:-1], array[1:])[0, 1], abs=0.02)


def test_neighbours_across_a_gap_are_none() -> None:
    assert summary(steps(1.0, None, -1.0, None, 1.0))["lag1"] is None
    assert summary(steps(1.0, -1.0, 1.0, -1.0, None))["lag1"] == pytest.approx(-1.0)


def test_a_capacity_is_useful_once_it_is_measured_and_holds_a_pod() -> None:
    (one,) = steps(0.0)
    modes: list[tuple[base.Mode, float]] = [("warming", 3.0), ("predicted", 3.0), ("measured", 0.9), ("measured", 1.0)]
    found = [
        dataclasses.replace(
            one, at_s=float(second), estimate=dataclasses.replace(one.estimate, mode=mode, capacity=capacity)
        )
        for second, (mode, capacity) in enumerate(modes)
    ]
    assert fit.first_useful_s(found) == 3.0
    assert fit.first_useful_s(found[:3]) is None


def test_the_published_estimates_stand_in_where_no_estimator_is_named() -> None:
    lines = "".join(
        f"2025/05/21 21:26:{second}.000000 {text}\n"
        for second in (54, 55, 56)
        for text in (
            "(signal) y: [0.1 0.05]", "(signal) U: []float64{0.7, 0.7}", "(remote) signal = 1.2857",
            "(capacity) podCount = 0.000000", "(capacity) capacity: 1.3000 | cost: -1.0000",
        )
    )  # fmt: skip
    over = reading.parse(log(more=lines), name="x")
    assert over.evaluations[0].level == 1.2857
    found = fit.summary(engine.run(over, engine.Setup(estimator="dual", constants="logged")))
    assert found["compared"] == {"with": trace.PUBLISHED, "baseline": 3, "cost": 3}
    assert found["rms"]["cost"] == 0.0
    assert 0.0 < found["rms"]["baseline"] < 0.01


def test_kinds_of_events_are_stored_in_an_order_that_never_changes() -> None:
    # A recording names a kind by its place: a new one comes last, or the format's version rises.
    assert [kind.value for kind in recording.EventKind] == [
        "created", "started", "ended", "removing", "removed", "settled",
    ]  # fmt: skip
    assert pipeline.PipelineConfig(estimator="vector", node=engine.node_config(
        reading.parse(log(), name="x"), "vector")).batch == engine.BATCH  # fmt: skip
