"""`carico evaluate --trace` as a command: JSON, a table, and mistakes in one line."""

import functools
import json
import pathlib
from collections.abc import Callable

import pytest

from carico_cli.evaluation import trace as evaluation_trace
from tests.tools import carico_cli

Carico = Callable[..., int]
SMALL = ("--interval", 60, "--per-machine", 2, "--horizon", 120, "--history", 240, "--machines", 3, "--seed", 2)


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Carico:
    return functools.partial(carico_cli.run, monkeypatch)


@pytest.fixture
def trace(tmp_path: pathlib.Path) -> pathlib.Path:
    rows = ["a,b,c", *(f"{10 + sample % 5},{20 + sample % 3},{5 + sample % 7}" for sample in range(30))]
    path = tmp_path / "trace.csv"
    path.write_text("\n".join(rows))
    return path


def test_json_has_the_shares_of_every_predictor(
    carico: Carico, trace: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--trace", trace, *SMALL, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {"carico", "agent", "eurosys21", "n-sigma-3", "n-sigma-5", "oracle"} <= set(found["predictors"])
    for each in found["predictors"].values():
        assert set(each) == {"violations", "severity", "savings"}
        assert all(0.0 <= share <= 1.0 for share in each.values())
    assert found["predictors"]["oracle"]["violations"] == found["predictors"]["oracle"]["severity"] == 0.0
    assert found["predictions"] == 3 * (30 - 4 - 2)
    assert found["setup"]["seed"] == 2


def test_the_table_states_what_was_drawn(
    carico: Carico, trace: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--trace", trace, *SMALL, "--limit", 21) == 0
    printed = capsys.readouterr().out
    assert "3 series, 30 samples of 60 s; 3 machines of 2, horizon 120 s, history 240 s, seed 2" in printed
    assert "10 samples above the limit of a series (21, --limit)" in printed
    assert "eurosys21" in printed
    assert "series drawn" not in printed


def test_series_that_no_machine_has_are_counted(
    carico: Carico, trace: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("evaluate", "--trace", trace, *SMALL, "--machines", 1)
    assert carico(*options) == 0
    assert "2 of 3 series drawn; more --machines" in capsys.readouterr().out
    assert carico(*options, "--json") == 0
    assert json.loads(capsys.readouterr().out)["drawn"] == 2


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--per-machine", 4), "--per-machine: got 4, expected at most 3, the series of"),
        (("--horizon", 90), "--horizon: got 90 s, expected a multiple of the interval"),
        (("--history", 3600), "--history and --horizon: got 3600 s and 120 s, expected less than 1800 s in all"),
        (("--limit", "nan"), "--limit: got nan"),
        (
            ("--limit", "1e-320"),
            "--limit: got 9.99989e-321, expected a positive number in the trace's unit, from 1e-100",
        ),
        (("--limit", "1e308"), "--limit: got 1e+308, expected"),
        (("--quick",), "--trace runs no simulation: leave out --quick"),
        (("--seeds", 3), "--trace runs no simulation: leave out --seeds"),
    ],
)
def test_options_that_do_not_fit(
    carico: Carico, trace: pathlib.Path, capsys: pytest.CaptureFixture[str], argv: tuple[object, ...], message: str
) -> None:
    assert carico("evaluate", "--trace", trace, *SMALL, *argv) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


def test_an_option_of_the_trace_needs_a_trace(carico: Carico, capsys: pytest.CaptureFixture[str]) -> None:
    assert carico("evaluate", "--horizon", 60) == 2
    assert "--horizon is an option of --trace" in capsys.readouterr().err


def test_a_mistake_in_the_file_is_one_line(
    carico: Carico, trace: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace.write_text("a,b\n1,2\n1,\n")
    assert carico("evaluate", "--trace", trace, *SMALL) == 2
    assert f"{trace}, row 3, column 2 ('b'): got nothing, expected a number" in capsys.readouterr().err


@pytest.mark.parametrize("path", ["missing.csv", "."])
def test_a_file_that_cannot_be_read(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    assert carico("evaluate", "--trace", tmp_path / path) == 2
    printed = capsys.readouterr().err
    assert "cannot be read" in printed
    assert "expected a CSV file" in printed


def test_a_file_that_is_too_large_is_refused_with_the_limit(
    carico: Carico, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation_trace, "FILE_MAX_BYTES", 2**20)
    assert carico("evaluate", "--trace", "/dev/zero") == 2
    assert "/dev/zero: got more than 1 MiB, expected a CSV file\n" in capsys.readouterr().err
