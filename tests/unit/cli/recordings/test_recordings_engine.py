"""Replays: a recording gives what its agent computed; what a setup lacks is one line."""

import math
import pathlib

import numpy as np
import pytest

from carico_agent import app, settings
from carico_agent import recording as recorders
from carico_agent.pod_events import pod_states
from carico_agent.telemetry import panel
from carico_cli.recordings import author_log, engine, fit, log_trace, reading, trace
from carico_core.domain import errors, recording
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base
from carico_core.runtime.observe import metrics
from carico_core.runtime.process import clock as clocks
from carico_core.wire import recording as wire
from tests.unit.cli.recordings import author_logs

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
        self.book = pod_states.PodStates()
        self.on_change = self.book.on_change
        self.on_event = self.book.on_event

    def current(self) -> pod_states.KnownPods:
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


def churn(book: pod_states.PodStates, node: Node, tick: int, now_s: float) -> None:
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


@pytest.mark.parametrize("estimator", ["footprint", "dual"])
def test_a_replay_gives_what_the_agent_computed(tmp_path: pathlib.Path, estimator: str) -> None:
    computed = live(tmp_path / "a.rec", estimator)
    run = engine.run(reading.read(tmp_path / "a.rec"), engine.Setup(estimator=estimator))
    assert run.inputs == "samples"
    # `footprint` learns from every second sample while a class is new.
    assert len(computed) == len(run.steps) == (60 if estimator == "dual" else 84)
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
    live(tmp_path / "a.rec", "footprint")
    found = reading.read(tmp_path / "a.rec")
    for estimator in sorted(estimators.ESTIMATORS):
        for constants in ("default", "logged") if estimator in engine.LOGGED else ("default",):
            run = engine.run(found, engine.Setup(estimator=estimator, constants=constants))
            assert all(math.isfinite(step.estimate.capacity) for step in run.steps)


def test_a_folder_and_a_missing_file_say_so(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.SettingsError, match=r"cannot be read \(Is a directory\), expected a recording"):
        reading.read(tmp_path)
    with pytest.raises(errors.SettingsError, match=r"cannot be read \(No such file or directory\)"):
        reading.read(tmp_path / "none")


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        (
            engine.Setup(estimator="footprint", constants="logged"),
            "--constants logged: got --estimator footprint, expected",
        ),
        (engine.Setup(estimator="dual", inputs="logged"), "--inputs logged: x has no (signal) lines"),
    ],
)
def test_what_a_trace_has_not_is_one_line(setup: engine.Setup, said: str) -> None:
    with pytest.raises(errors.SettingsError) as raised:
        engine.run(reading.parse(author_logs.log(), name="x"), setup)
    assert str(raised.value).startswith(said)


def test_less_than_a_batch_is_said() -> None:
    with pytest.raises(errors.SettingsError, match="x: got 9 samples, expected at least 10"):
        engine.run(reading.parse(author_logs.log(count=9), name="x"), engine.Setup(estimator="dual", inputs="samples"))


def test_a_recording_without_samples_is_refused() -> None:
    facts = log_trace.from_log(author_log.parse(author_logs.log().decode().splitlines()), name="x").recording.facts
    with pytest.raises(errors.RecordingError, match="got no samples, expected at least one second"):
        reading.parse(wire.encode_header(facts) + wire.encode_end(), name="x")


def test_the_published_estimates_stand_in_where_no_estimator_is_named() -> None:
    lines = "".join(
        f"2025/05/21 21:26:{second}.000000 {text}\n"
        for second in (54, 55, 56)
        for text in (
            "(signal) y: [0.1 0.05]", "(signal) U: []float64{0.7, 0.7}", "(remote) signal = 1.2857",
            "(capacity) podCount = 0.000000", "(capacity) capacity: 1.3000 | cost: -1.0000",
        )
    )  # fmt: skip
    over = reading.parse(author_logs.log(more=lines), name="x")
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
