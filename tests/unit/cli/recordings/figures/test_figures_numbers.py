"""The figures of the dissertation, redrawn from made-up logs whose answers are known."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable

import numpy as np
import pytest

from carico_cli.recordings import figures, reading, trace
from carico_cli.recordings.figures import samples
from carico_core.domain import errors
from tests.golden import agent_log
from tests.tools import carico_cli

SAMPLE = "2025/05/21 21:{:02d}:{:09.6f} (metrics) {}\n"
EVENT = "2025/05/21 21:{:02d}:{:09.6f} (cache) received an event: {{containerID:{} podID:{} topic:{}}}\n"
Carico = Callable[..., int]


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Carico:
    return functools.partial(carico_cli.run, monkeypatch)


def clock(at_s: float) -> tuple[int, float]:
    return 26 + int(at_s // 60), at_s % 60


def life(uid: str, start_s: float, end_s: float) -> list[tuple[float, str]]:
    """A Pod's events: its sandbox 300 ms before its program, and away 500 ms after it."""
    box, main = f"{uid}box", f"{uid}main"
    moments = [
        (start_s - 0.3, box, 0), (start_s - 0.2, box, 1), (start_s - 0.1, main, 0), (start_s, main, 1),
        (end_s, main, 2), (end_s + 0.1, main, 3), (end_s + 0.4, box, 2), (end_s + 0.5, box, 3),
    ]  # fmt: skip
    return [(at_s, EVENT.format(*clock(at_s), container, uid, topic)) for at_s, container, topic in moments]


def jobs(sample: Callable[[int], str], *, sizes: tuple[int, ...] = (1, 4), more: str = "") -> trace.Trace:
    """Bursts of Pods of 5 s, 20 s apart; `sample`: the line's words by the number of running Pods."""
    lines: list[tuple[float, str]] = []
    spans = [
        (index, 10.0 + 20.0 * burst, 15.0 + 20.0 * burst) for burst, size in enumerate(sizes) for index in range(size)
    ]
    for number, (_, start_s, end_s) in enumerate(spans):
        lines += life(f"pod{number}", start_s, end_s)
    for index in range(round(10 * 20.0 * len(sizes))):
        at_s = 0.05 + index / 10
        running = sum(start_s <= at_s < end_s for _, start_s, end_s in spans)
        lines.append((at_s, SAMPLE.format(*clock(at_s), sample(running))))
    return reading.parse(("".join(text for _, text in sorted(lines)) + more).encode(), name="made-up.txt")


def row(rows: list[dict[str, float | None]], pods: int | None) -> dict[str, float | None]:
    return next(one for one in rows if one["pods"] == pods)


def test_the_signal_by_own_pods_has_its_extremes_as_means_of_ten_seconds() -> None:
    over = jobs(lambda running: "cpu utilisation: 0.3 cpu pressure: 0.0 mem utilisation 0.05", sizes=(1, 1))
    zero = np.zeros(2)
    # Pods run from 10 to 15 and from 30 to 35 s. In between the signal falls for three seconds.
    asked = tuple(
        trace.Evaluation(
            at_s=float(over.recording.samples.times_s[0]) + second, usage=zero, direction=zero,
            level=0.3 if second in (18, 19, 20) else 1.3, pods=0, learnt={},
        )
        for second in range(36)
    )  # fmt: skip
    found = figures.FIGURES["4.6"](dataclasses.replace(over, evaluations=asked)).numbers["signal"]
    one, none = row(found, 1), row(found, 0)
    assert one["mean"] == pytest.approx(1.3)
    assert one["least"] is None
    assert (none["least"], none["largest"]) == pytest.approx((1.0, 1.2))
    with pytest.raises(errors.SettingsError, match=r"has no signals, expected a log"):
        figures.FIGURES["4.6"](over)


def test_pressure_is_shown_by_the_number_of_pods() -> None:
    found = figures.FIGURES["2.4"](jobs(lambda pods: f"cpu some: {20_000 * pods} full 0 io some: {pods} full 0"))
    assert set(found.numbers) == {"cpu", "io"}
    cpu = found.numbers["cpu"]
    assert (row(cpu, 0)["mean"], row(cpu, 1)["mean"], row(cpu, 4)["mean"]) == (0.0, 0.2, 0.8)
    # What is measured while containers come and go is not among them.
    assert row(cpu, None)["samples"] == pytest.approx(4 * 5, abs=6)


def test_the_kernels_mean_over_10_s_follows_slowly() -> None:
    times_s = np.arange(300) / 10.0
    shares = np.where(times_s >= 10.0, 1.0, 0.0)
    mean = samples.avg10(times_s, shares)
    # 1 - exp(-t / 10 s) at each 2 s: 63 % after ten seconds.
    assert mean[(times_s > 20.0) & (times_s < 22.0)][-1] == pytest.approx(1.0 - np.exp(-1.0), abs=0.02)
    found = figures.FIGURES["2.5"](jobs(lambda pods: f"cpu pressure {20_000 * pods}"))
    most = found.numbers["most_pods"]
    assert most["pods"] == 4
    # The program starts .3 s after its sandbox.
    assert most["samples_reach_90_s"] == pytest.approx(0.3)
    assert most["avg10_reaches_90_s"] is None


def test_utilisation_and_the_filter() -> None:
    over = jobs(lambda pods: f"cpu: {pods / 4:.2f} memory: 0.{5 + pods}")
    raw, smooth = (figures.FIGURES[number](over).numbers for number in ("4.3", "4.5"))
    assert row(raw["cpu"], 4)["mean"] == 1.0
    assert row(raw["memory"], 1)["mean"] == 0.6
    assert raw["cpu_reaches_90_s"] == pytest.approx(0.3)
    assert 0.8 < smooth["cpu_reaches_90_s"] < 2.0
    assert smooth["cpu_unfiltered"] == raw["cpu"]


def test_an_agents_recording_has_the_same_columns_under_its_own_names() -> None:
    log = jobs(lambda pods: f"cpu utilisation: {pods / 4:.2f} cpu pressure: 0.{pods} mem utilisation 0.{5 + pods}")
    found = log.recording
    parts = found.samples.parts[:, :2].copy()
    # A sample whose pressure was missing has the one before it.
    parts[105, 1] = np.nan
    own = dataclasses.replace(
        found,
        facts=dataclasses.replace(found.facts, parts=("cpu.utilisation", "cpu.pressure")),
        samples=dataclasses.replace(found.samples, parts=parts),
    )
    for number in ("2.4", "2.5", "4.3", "4.4"):
        theirs = figures.FIGURES[number](log).numbers
        assert figures.FIGURES[number](dataclasses.replace(log, recording=own)).numbers == theirs


def test_a_jobs_time_per_pod() -> None:
    over = jobs(lambda pods: f"cpu utilisation: {pods / 8} cpu pressure: 0.{pods}", sizes=(1, 2, 4))
    found = figures.FIGURES["4.4"](over).numbers
    # From the creation of the first sandbox to the end of the last program.
    assert [one["job_s"] for one in found["jobs"]] == [pytest.approx(5.3, abs=1e-3)] * 3
    assert [one["job_s_per_pod"] for one in found["jobs"]] == [5.3, 2.65, 1.325]
    assert [one["cpu"] for one in found["jobs"]] == pytest.approx([0.1125, 0.225, 0.45])
    assert found["linear_r2"]["cpu"] == pytest.approx(1.0)


def test_how_late_each_listener_is() -> None:
    made = jobs(lambda pods: f"cpu: 0.{pods}", sizes=(1,))
    with pytest.raises(errors.SettingsError, match="expected a log with"):
        figures.FIGURES["4.8"](made)
    heard = tuple(
        trace.ApiEvent(at_s=made.recording.facts.started_s - 0.05 + at_s, pod="pi-0", running=running)
        for at_s, running in ((10.4, True), (16.9, False))
    )
    rows = figures.FIGURES["4.8"](trace.Trace(name="x", format="log", recording=made.recording, api=heard)).numbers[
        "events"
    ]
    created, completed = rows
    assert created["containerd_last_s"] == pytest.approx(0.3)
    assert created["api_s"] == pytest.approx(0.7)
    assert 0.3 <= created["spike_s"] <= 0.4
    assert completed["api_s"] == pytest.approx(1.9)


@pytest.mark.parametrize(
    ("from_s", "later_s", "spike_s"), [(0.0, 200.0, None), (9.8, 0.0, 0.25)], ids=["no samples then", "none before"]
)
def test_listeners_are_compared_where_the_log_has_no_samples(
    from_s: float, later_s: float, spike_s: float | None
) -> None:
    made = jobs(lambda pods: f"cpu: 0.{pods}", sizes=(1,))
    taken = made.recording.samples
    left = taken.times_s >= taken.times_s[0] + from_s
    kept = dataclasses.replace(
        taken, times_s=taken.times_s[left] + later_s, values=taken.values[left], parts=taken.parts[left]
    )
    heard = tuple(
        trace.ApiEvent(at_s=made.recording.facts.started_s + at_s, pod="pi-0", running=running)
        for at_s, running in ((10.4, True), (16.9, False))
    )
    recording = dataclasses.replace(made.recording, samples=kept)
    found = figures.FIGURES["4.8"](trace.Trace(name="x", format="log", recording=recording, api=heard))
    created = found.numbers["events"][0]
    assert created["containerd_last_s"] == pytest.approx(0.3)
    assert created["spike_s"] == (None if spike_s is None else pytest.approx(spike_s, abs=0.15))


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("logs") / "generated.txt"
    path.write_text("".join(agent_log.generate(seconds=100)))
    return path


def test_the_three_estimators_side_by_side(
    generated: pathlib.Path, carico: Carico, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("replay", generated, "--figure", "4.9", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["figure"] == "4.9"
    assert found["dual"]["rms"]["cost"] < 1e-6
    assert found["delta"]["cost"]["sd"] >= 0.0
    assert "baseline" in found["joint"]


@pytest.mark.parametrize("number", ["4.4", "4.9"])
def test_a_figure_is_drawn_and_its_numbers_are_printed(
    number: str, generated: pathlib.Path, tmp_path: pathlib.Path, carico: Carico, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "figure.svg"
    assert carico("replay", generated, "--figure", number, "--plot", path) == 0
    assert b"<svg" in path.read_bytes()
    assert f"figure           {number}"[:6] in capsys.readouterr().out


def test_a_log_without_what_a_figure_shows_is_refused_in_one_line(
    tmp_path: pathlib.Path, carico: Carico, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.txt"
    path.write_text("".join(SAMPLE.format(*clock(index / 10), "cpu: 0.1 memory: 0.2") for index in range(20)))
    assert carico("replay", path, "--figure", "2.5") == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "has utilisation, memory, expected samples with pressure" in said
