"""A log of the author's: what it shows is replayed, and what is none is refused in one line."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from carico_cli.recordings import engine, fit, reading
from carico_core.domain import errors
from carico_core.numerics import estimators
from carico_core.wire import recording as wire
from tests.unit.cli.recordings import author_logs

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


def test_a_pods_sandbox_comes_first_and_goes_last() -> None:
    lives = [
        ("54.000000", "box", "pod-a", 0), ("54.100000", "box", "pod-a", 1), ("54.150000", "main", "pod-a", 0),
        ("54.300000", "main", "pod-a", 1), ("54.310000", "side", "pod-a", 1), ("58.000000", "main", "pod-a", 2),
        ("58.100000", "side", "pod-a", 2), ("58.200000", "main", "pod-a", 3), ("59.900000", "box", "pod-a", 2),
        ("59.950000", "box", "pod-a", 3),
    ]  # fmt: skip
    found = reading.parse(
        author_logs.log(more="".join(author_logs.EVENT.format(*life) for life in lives)), name="x"
    ).recording
    start_s = found.facts.started_s
    told = [(event.kind.value, round(event.at_s - start_s, 3)) for event in found.events]
    assert told == [
        ("created", 1.0), ("started", 1.3), ("started", 1.31), ("ended", 5.1), ("settled", 5.2),
        ("removing", 6.9), ("removed", 6.95),
    ]  # fmt: skip


def test_without_container_events_pods_come_and_go_as_counted() -> None:
    counts = [("54.0", 0), ("55.0", 2), ("56.0", 3), ("57.0", 1)]
    lines = "".join(f"2025/05/21 21:26:{at}00000 (capacity) podCount = {pods}.000000\n" for at, pods in counts)
    found = reading.parse(author_logs.log(more=lines), name="x")
    assert [event.kind.value for event in found.recording.events] == ["started"] * 3 + ["removed"] * 2
    assert "podCount" in found.notes[0]


@pytest.mark.parametrize(
    ("line", "dims", "scale", "values"),
    [
        ("cpu utilisation: 0.5 cpu pressure: 0.25 mem utilisation 0.1", ("cpu", "memory"), (8.0, 8e9), [0.375, 0.1]),
        ("cpu utilisation: 0.5 cpu pressure 30000.000000", ("cpu",), (8.0,), [0.4]),
        ("cpu utilisation: 1.0 cpu pressure 250000.000000", ("cpu",), (8.0,), [1.0]),
        ("cpu: 0.5 memory: 0.1", ("cpu", "memory"), (4.0, 8e9), [0.5, 0.1]),
        ("cpu some: 30000 full 0 memory some: 9 full 0 io some: 436 full 381", ("cpu",), (8.0,), [0.3]),
        ("mem utilisation 0.1 cpu pressure: 0.25 cpu utilisation: 0.5", ("cpu", "memory"), (8.0, 8e9), [0.375, 0.1]),
        ("cpu some avg10: 12.5 avg60: 3.0 mem utilisation 0.1", ("cpu", "memory"), (8.0, 8e9), [0.125, 0.1]),
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
        (b"\n", "line 1: got '', expected a line such as"),
        (b"hello", "line 1: got 'hello', expected a line such as '2025/05/21 21:26:53.739913 (metrics) ...'"),
        (b"\x7fELF\x02\x01\n\x00\n", "line 1: got '\\x7fELF"),
        (
            author_logs.log() + b"2025/05/21 21:26:5",
            "line 13: got '2025/05/21 21:26:5' and then the end of the file, expected a ",
        ),
        *(
            (
                f"2025/05/21 21:26:53.000000 (metrics) {sample}\n".encode(),
                f"line 1: got '(metrics) {sample}', expected utilisation as a share from 0 to 1, not in percent",
            )
            for sample in ("cpu utilisation: 37.5 cpu pressure: 0.1", "cpu: 0.5 memory: 60", "cpu utilisation: -0.5")
        ),
        (author_logs.log() + b"2025/13/21 21:26:55.000000 (x)\n", "line 13: got 2025/13/21 21:26:55.000000 (month"),
        (author_logs.log() + b"panic: runtime error\n", "line 13: got 'panic: runtime error', expected a line such as"),
        (
            author_logs.log() + b"2025/05/21 21:26:53.100000 (metrics) late\n",
            "line 13: got 2025/05/21 21:26:53.100000, 0.780 s before an earlier line, expected times in order",
        ),
        (
            author_logs.log()
            + b"2025/05/21 21:26:54.000000 (metrics) cpu utilisation: 0.1.2 cpu pressure: 0 mem utilisation 0\n",
            "line 13: got '(metrics) cpu utilisation: 0.1.2",
        ),
        (
            author_logs.log() + b"2025/05/21 21:26:54.000000 (metrics) cpu: 0.1 memory: 0.2\n",
            "line 13: got '(metrics) cpu: 0.1 memory: 0.2', expected utilisation, pressure, memory in each",
        ),
        (
            b"2025/05/21 21:26:53.000000 (metrics) io some: 436 full 381\n",
            "line 1: got '(metrics) io some: 436 full 381', expected a (metrics) sample with the CPU's utilisation or",
        ),
        (
            author_logs.log() + b"2025/05/21 21:26:54.000000 (capacity) podCount = 1e300\n",
            "line 13: got podCount = 1e300, expected 0",
        ),
        (
            author_logs.log() + b"2025/05/21 21:26:54.000000 (signal) U: []float64{0.5, 0.5}\n",
            "line 13: got (signal) U without a (signal) y before it, expected y, then U",
        ),
        *(
            (
                author_logs.log(more=EVALUATED.replace(text, f"(signal) {broken}", 1)),
                f"line {line}: got '(signal) {broken}', expected two numbers, as in 'y: [0.1 0.05]'",
            )
            for line, text, broken in (
                (16, "(signal) y: [0.1 0.05]", "y: [NaN 0.05]"),
                (17, "(signal) U: []float64{0.9, 0.45}", "U: []float64{NaN, 0.45}"),
            )
        ),
        (
            author_logs.log(more=EVALUATED + "2025/05/21 21:26:56.000000 (signal) U: []float64{0.5, 0.5}\n"),
            "line 46: got (signal) U without a (signal) y before it, expected y, then U",
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
        author_logs.log() + author_logs.FULL.format(990_000, 1).encode() + author_logs.FULL.format(989_000, 1).encode(),
        name="x",
    ).recording
    assert np.all(np.diff(found.samples.times_s) >= 0.0)


def test_a_sample_may_have_a_line_for_each_resource() -> None:
    lines = [
        f"2025/05/21 21:26:53.{at:06d} (metrics) {text}\n"
        for index in range(3)
        for at, text in (
            (index * 100_000, f"mem utilisation 0.1{index}"),
            (index * 100_000 + 900, f"cpu utilisation: 0.{index}"),
        )
    ]
    found = reading.parse("".join(lines).encode(), name="x").recording
    np.testing.assert_allclose(found.samples.values, [[0.0, 0.1], [0.1, 0.11], [0.2, 0.12]])
    # The log ends between the two lines of a sample.
    cut = reading.parse("".join(lines[:-1]).encode(), name="x").recording
    assert len(cut.samples.times_s) == 2


def test_a_cut_log_can_be_replayed_up_to_the_cut() -> None:
    whole = reading.parse(author_logs.log(), name="x")
    cut = reading.parse(author_logs.log() + b"2025/05/21 21:26:5", name="x", partial=True)
    np.testing.assert_array_equal(cut.recording.samples.values, whole.recording.samples.values)


@hypothesis.given(st.binary(max_size=400))
def test_no_bytes_raise_anything_but_a_recording_error(junk: bytes) -> None:
    for data in (junk, author_logs.log() + junk, author_logs.log()[:400] + junk + b"\n"):
        try:
            reading.parse(data, name="x")
        except errors.RecordingError as error:
            said = str(error)
        else:
            said = ""
        assert "\n" not in said


@hypothesis.given(
    st.lists(st.tuples(st.floats(0.0, 1.0, exclude_max=True), st.sampled_from("0159e.-+ (){}\n")), max_size=6),
    st.sampled_from(sorted(estimators.ESTIMATORS)),
)
def test_a_damaged_log_is_replayed_or_refused(damage: list[tuple[float, str]], estimator: str) -> None:
    text = list(author_logs.log(more=EVALUATED).decode())
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
