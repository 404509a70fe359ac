"""Workloads: the pace of one emulated core, the work that was asked for, what they tell."""

import json
import pathlib

import numpy as np
import pytest

from carico_local.workloads import environment, main, mlp, pacing, phases, pi, server, train
from carico_twin.nodes import work as twins


class FakeTimer:
    """A CPU that gives the thread `share` of its time: work moves CPU time by `step_s`, sleeping moves the clock."""

    def __init__(self, *, share: float = 1.0, step_s: float = 1e-4) -> None:
        self.share = share
        self.step_s = step_s
        self.cpu = 0.0
        self.now = 0.0

    def cpu_s(self) -> float:
        # Each look stands for a little work, so that loops get on.
        self.work(self.step_s)
        return self.cpu

    def monotonic_s(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def work(self, seconds: float) -> None:
        self.cpu += seconds
        self.now += seconds / self.share


def used_share(timer: FakeTimer, pacer: pacing.Pacer, *, until_s: float) -> float:
    start_cpu, start = timer.cpu, timer.now
    while timer.now - start < until_s:
        pacer.pace()
    return (timer.cpu - start_cpu) / (timer.now - start)


def test_alone_a_thread_uses_its_scale_and_no_more() -> None:
    timer = FakeTimer(step_s=2e-5)
    assert used_share(timer, pacing.Pacer(scale=0.125, timer=timer), until_s=5.0) == pytest.approx(0.125, rel=0.02)


def test_starved_it_takes_what_it_gets_and_never_catches_up() -> None:
    timer = FakeTimer(share=0.05, step_s=2e-5)
    pacer = pacing.Pacer(scale=0.125, timer=timer)
    assert used_share(timer, pacer, until_s=5.0) == pytest.approx(0.05, rel=0.02)
    timer.share = 1.0
    assert used_share(timer, pacer, until_s=1.0) <= 0.125 * 1.02


def test_a_piece_that_overran_is_paid_for_later() -> None:
    timer = FakeTimer(step_s=0.0)
    pacer = pacing.Pacer(scale=0.125, timer=timer)
    timer.work(0.010)
    pacer.pace()
    assert timer.now >= 0.010 / 0.125 - pacing.PERIOD_S


def test_work_ends_where_a_wake_up_costs_more_than_a_share() -> None:
    class Costly(FakeTimer):
        sleeps = 0

        def sleep(self, seconds: float) -> None:
            self.sleeps += 1
            assert self.sleeps < 1000, "more is slept for than is worked"
            super().sleep(seconds)
            self.work(1e-3)

    timer = Costly()
    outcome = pi.compute(seconds=0.5, scale=0.125, timer=timer)
    assert outcome.cpu_s == pytest.approx(0.5 * 0.125, rel=0.05)
    assert timer.now == pytest.approx(0.5, rel=0.05)


def test_digits_of_pi() -> None:
    (digits,) = [found for found in pi.digits_of_pi(50) if found]
    assert digits == "31415926535897932384626433832795028841971693993751"


def test_pi_does_the_work_it_was_asked_for() -> None:
    timer = FakeTimer()
    outcome = pi.compute(seconds=4.0, scale=0.125, timer=timer)
    assert outcome.cpu_s == pytest.approx(0.5, rel=0.02)
    assert timer.now == pytest.approx(4.0, rel=0.05)


def test_train_holds_its_bytes_and_does_its_work() -> None:
    timer = FakeTimer()
    outcome = train.compute(memory_bytes=2**20, seconds=2.0, passes=3, scale=0.125, timer=timer)
    assert outcome.memory_bytes == 2**20
    assert outcome.cpu_s == pytest.approx(0.25, rel=0.05)
    assert timer.now == pytest.approx(2.0, rel=0.1)


def test_the_last_line_is_also_the_termination_message(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = tmp_path / "message"
    code = main.main(["pi", "--seconds", "0.02"], {environment.SCALE: "0.5", environment.MESSAGE: str(message)})
    line = json.loads(capsys.readouterr().out)
    assert code == 0
    assert json.loads(message.read_text()) == line
    assert line["work_s"] == 0.02
    assert line["finished_ns"] > line["started_ns"]


@pytest.mark.parametrize("arguments", [["nonsense"], [], ["train", "--passes", "0"], ["train", "--memory-bytes", "x"]])
def test_mistakes_end_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(arguments, {})
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_a_scale_that_cannot_be_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--scale", "2", "pi"], {}) == 2
    assert "expected above 0 and at most 1" in capsys.readouterr().err


def test_server_answers_itself_and_records_latencies() -> None:
    timer = pacing.ThreadTimer()
    running = server.Server(host="127.0.0.1", port=0, work_s=0.001, scale=0.5, timer=timer)
    running.start()
    left = iter([False] * 5 + [True])
    server.probe(running, host="127.0.0.1", rate_hz=1000.0, stopped=lambda _: next(left), timer=timer)
    running.stop()
    found = running.recorder.latency()
    assert (found.count, found.failed, running.answered) == (5, 0, 5)
    assert found.min_ms is not None
    assert found.max_ms is not None
    assert found.min_ms <= found.max_ms
    # The port is free again, and a probe of what is gone is counted as failed.
    left = iter([False, True])
    server.probe(running, host="127.0.0.1", rate_hz=1000.0, stopped=lambda _: next(left), timer=timer)
    assert running.recorder.failed == 1


def test_latencies_that_are_not_known_yet_are_none() -> None:
    assert server.LatencyRecorder().latency().p99_ms is None


@pytest.mark.parametrize("name", phases.PROFILES)
def test_a_program_that_waits_is_the_same_in_the_twin(name: str) -> None:
    twin = next(kind for kind in twins.WAITING if kind.name == name)
    assert [(each.seconds, each.threads, each.memory_bytes) for each in phases.PROFILES[name]] == [
        (each.seconds, each.threads, each.memory_bytes) for each in twin.phases
    ]
    assert phases.alone_s(name) == twin.alone_s
    assert phases.cores(name) == pytest.approx(twin.threads)


def test_alone_a_program_that_waits_takes_its_time_and_computes_for_a_part_of_it() -> None:
    timer = FakeTimer(step_s=2e-5)
    outcome = phases.compute("io", seconds=3.0, scale=0.125, timer=timer)
    assert timer.now == pytest.approx(3.0, rel=0.03)
    # A third of the time at an eighth of a CPU.
    assert outcome.cpu_s == pytest.approx(1.0 * 0.125, rel=0.05)
    assert outcome.waited_s == pytest.approx(2.0)


def test_memory_comes_and_goes() -> None:
    held: list[int] = []

    class Watching(FakeTimer):
        def sleep(self, seconds: float) -> None:
            if seconds > 0.05:
                held.append(resident())
            super().sleep(seconds)

    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    outcome = phases.compute("cache", seconds=1.0, scale=0.05, timer=Watching(step_s=1e-4))
    assert outcome.memory_bytes == round(1.2 * phases.GIB * 0.05)
    # While it waits, a sixth of that is left; afterwards nothing.
    assert len(held) == 3
    assert max(held) - before < 0.6 * outcome.memory_bytes
    assert resident() - before < 0.3 * outcome.memory_bytes


def test_threads_in_phases_are_threads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--scale", "0.05", "stages", "--seconds", "0.2"], {}) == 0
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    # 14 core-seconds in 11 s of which 5 s wait.
    assert line["cpu_s"] >= 0.9 * 0.2 * 0.05 * 14.0 / 11.0
    assert line["waited_s"] == pytest.approx(0.2 * 5.0 / 11.0)


def trained(sizes: list[int], *, steps: int) -> mlp.Perceptron:
    network = mlp.Perceptron(sizes, samples=mlp.BATCH)
    for _ in network.train():
        if len(network.losses) >= steps:
            break
    return network


def test_the_network_learns_its_samples() -> None:
    losses = trained([8, 32, 32, 4], steps=150).losses
    assert losses[0] == pytest.approx(np.log(4), abs=0.7)
    assert losses[-1] < 0.5 * losses[0]


def test_gradients_are_those_of_the_loss() -> None:
    network = mlp.Perceptron([3, 5, 4, 2], samples=mlp.BATCH)
    list(network.build())
    rng = np.random.default_rng(1)
    samples, labels = rng.standard_normal((20, 3)), rng.integers(0, 2, 20)

    def loss() -> float:
        list(network.step(samples, labels))
        return network.losses[-1]

    loss()
    found = [each.copy() for each in network.gradients]
    for weight, gradient in zip(network.weights, found, strict=True):
        for place in ((0, 0), (len(weight) - 1, 1)):
            kept = weight[place]
            weight[place] = kept + 1e-5
            above = loss()
            weight[place] = kept - 1e-5
            assert gradient[place] == pytest.approx((above - loss()) / 2e-5, abs=1e-6)
            weight[place] = kept


def test_mlp_shrinks_with_the_scale_and_ends_after_its_work() -> None:
    timer = FakeTimer(step_s=1e-3)
    outcome = mlp.compute(seconds=40.0, scale=0.01, timer=timer)
    assert outcome.neurons == 102
    assert outcome.cpu_s == pytest.approx(0.4, rel=0.05)
    # A hundredth of 31.5 million numbers of eight bytes, and a tenth of the samples with a tenth of the features.
    assert outcome.memory_bytes == pytest.approx(0.01 * (7.87e6 * 4 + SAMPLE_NUMBERS) * 8, rel=0.1)
    assert (outcome.first_loss is None) == (outcome.steps == 0)


SAMPLE_NUMBERS = mlp.SAMPLES * mlp.FEATURES


def test_mlp_classifies_after_training() -> None:
    timer = FakeTimer(step_s=1e-5)
    outcome = mlp.compute(seconds=40.0, scale=0.01, timer=timer)
    assert outcome.steps >= 2 and outcome.classified >= mlp.BATCH
