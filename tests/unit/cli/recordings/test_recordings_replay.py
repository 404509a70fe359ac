"""`carico replay` and `carico record` as commands: the table, pictures, and one line for what cannot be done."""

import functools
import json
import pathlib
from collections.abc import Callable

import pytest

from carico_cli.recordings import reading
from tests.tools import carico_cli

LINE = "2025/05/21 21:26:{:09.6f} (metrics) cpu utilisation: 0.{:06d} cpu pressure: 0.070000 mem utilisation 0.050000\n"
Carico = Callable[..., int]


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Carico:
    return functools.partial(carico_cli.run, monkeypatch)


@pytest.fixture
def log(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "agent.txt"
    path.write_text("".join(LINE.format(index / 10, 100_000 + 7 * index % 13) for index in range(50)))
    return path


def test_the_table_says_it_all(carico: Carico, log: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert carico("replay", log, "--estimator", "footprint") == 0
    out = capsys.readouterr().out
    for part in ("agent.txt (log)", "footprint, default constants, from raw samples", "4.9 s, 50 samples, 0 Pod events",
                 "no logged estimates to compare with", "innovation of cpu", "innovation of memory", "censored updates",
                 "first useful capacity", "capacity at the end"):  # fmt: skip
        assert part in out


def test_one_update_is_singular(carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.txt"
    path.write_text("".join(LINE.format(index / 10, 100_000) for index in range(20)))
    assert carico("replay", path) == 0
    assert "(1 update)" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "begins"), [("o.png", b"\x89PNG\r\n"), ("o.SVG", b"<?xml")])
@pytest.mark.parametrize("estimator", ["dual", "footprint"])
def test_a_picture_is_written(carico: Carico, log: pathlib.Path, name: str, begins: bytes, estimator: str) -> None:
    path = log.parent / name
    assert carico("replay", log, "--estimator", estimator, "--plot", path) == 0
    assert path.read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("plot", "said"),
    [
        ("o.gif", "expected a name that ends in .png or .svg"),
        ("missing/o.png", "expected a file in a directory that exists"),
        ("folder.png", "which is a directory; expected a file"),
    ],
)
def test_a_picture_that_cannot_be_is_said_before_the_work(
    carico: Carico, log: pathlib.Path, capsys: pytest.CaptureFixture[str], plot: str, said: str
) -> None:
    (log.parent / "folder.png").mkdir()
    assert carico("replay", log, "--plot", log.parent / plot) == 2
    seen = capsys.readouterr()
    assert said in seen.err
    assert seen.err.count("\n") == 1
    assert seen.out == ""


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda whole: whole[:-9], ", line 50: got '2025/05/21 21:26:04.900000 (metrics) cpu utilisation: 0.10000"),
        (lambda whole: whole + whole, ", line 51: got 2025/05/21 21:26:00.000000, 4.900 s before an earlier line"),
        (lambda whole: b"not a log\n" + whole, ", line 1: got 'not a log', expected a line such as '2025/05/21"),
        (lambda whole: b"CARICOR\n\x01\x02", ", offset 8: got the end of the file within a block"),
        (lambda whole: whole.replace(b"utilisation: ", b"some: "), ", line 1: got '(metrics) cpu some: "),
    ],
    ids=["cut", "out of order", "not a log", "cut recording", "another version"],
)
def test_a_file_that_cannot_be_replayed_is_one_line_and_exit_code_2(
    carico: Carico,
    log: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    write: Callable[[bytes], bytes],
    said: str,
) -> None:
    log.write_bytes(write(log.read_bytes()))
    assert carico("replay", log, "--json") == 2
    seen = capsys.readouterr()
    assert seen.err.startswith("carico: ")
    assert f"{log}{said}" in seen.err
    assert "expected" in seen.err
    assert seen.err.count("\n") == 1
    assert seen.out == ""


@pytest.mark.parametrize("begins", [b"\x1f\x8b\x08\x00\n", b"\xff\xfe2\x000\n\x00", b"CARICOS\n"])
def test_what_is_no_log_is_not_said_to_be_cut(
    carico: Carico, log: pathlib.Path, capsys: pytest.CaptureFixture[str], begins: bytes
) -> None:
    log.write_bytes(begins + log.read_bytes()[:-9])
    assert carico("replay", log) == 2
    said = capsys.readouterr().err
    assert ", line 1: got " in said
    assert "--partial" not in said


def test_a_device_without_end_is_refused(
    carico: Carico, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FILE_MAX_BYTES", 2**20)
    assert carico("replay", "/dev/zero") == 2
    assert capsys.readouterr().err == (
        "carico: FILE /dev/zero: got more than 1 MiB, expected a recording, or a log of the author's agent\n"
    )


def test_what_is_missing_in_the_middle_is_a_note(
    carico: Carico, log: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:10] + lines[30:]))
    assert carico("replay", log) == 0
    assert "note: no samples for 2.1 s, beginning at 0.9 s\n" in capsys.readouterr().out


def test_a_cut_file_can_be_replayed_in_part(
    carico: Carico, log: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.write_bytes(log.read_bytes()[:-9])
    assert carico("replay", log, "--partial", "--json") == 0
    assert json.loads(capsys.readouterr().out)["samples"] == 49


def test_words_that_are_not_known_are_said(
    carico: Carico, log: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("replay", log, "--estimator", "nope") == 2
    assert "'nope' is not one of 'delta', 'dual'" in capsys.readouterr().err
    assert carico("replay", log, "--estimator", "footprint", "--constants", "logged") == 2
    assert "use --constants default" in capsys.readouterr().err


def test_this_machine_is_recorded_and_replayed(
    carico: Carico, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CARICO_AGENT_POD_EVENTS", "none")
    path = tmp_path / "host.rec"
    assert carico("record", "--out", path, "--for", "1") == 0
    assert f"{path}: " in capsys.readouterr().out
    found = reading.read(path).recording
    assert found.ended
    # Ten a second; a shared machine may be late.
    assert 2 <= len(found.samples.times_s) <= 11
    assert found.facts.node == "host"
    assert carico("replay", path, "--json") == 0
    assert json.loads(capsys.readouterr().out)["format"] == "recording"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--out", "{tmp}/there.rec"), "--out: got '{tmp}/there.rec', which exists; expected a new file"),
        (("--out", "{tmp}/none/x.rec"), "recording to '{tmp}/none/x.rec': No such file or directory; expected a file"),
        (("--out", "{tmp}/x.rec", "--node", "node-1", "--name", "nobody"), "no cluster named 'nobody'"),
        (("--out", "{tmp}/x.rec", "--for", "0"), "--for: got 0, expected 1 to 2592000 seconds"),
        (("--out", "{tmp}/x.rec", "--for", "nan"), "--for: got nan, expected 1 to 2592000 seconds"),
        ((), "Missing option '--out'"),
    ],
)
def test_a_recording_that_cannot_be_made_is_one_line_and_exit_code_2(
    carico: Carico,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    argv: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there.rec").touch()
    assert carico("record", *(word.format(tmp=tmp_path) for word in argv)) == 2
    err = capsys.readouterr().err
    assert said.format(tmp=tmp_path) in err
    assert err.count("\n") == 1
