"""`carico evaluate --rescheduler`: tables on stdout, files, and mistakes in one line."""

import functools
import json
import pathlib
from collections.abc import Callable

import pytest

from carico_core.numerics.rescheduling.containers import annealing
from carico_twin.rescheduling import study
from tests.tools import carico_cli

Carico = Callable[..., int]
TINY = study.Selection(
    sizes=("S",), runs=2, schedule=annealing.Schedule(alpha=0.5, moves=20), front_points=2, front_proposals=200
)


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Carico:
    monkeypatch.setattr(study, "QUICK", TINY)
    return functools.partial(carico_cli.run, monkeypatch)


def test_tables_are_printed_next_to_the_published_figures(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--rescheduler", "--quick", "--out", tmp_path) == 0
    said = capsys.readouterr()
    for words in ("Table 7", "Table 4", "Table 6", "Table 2", "Figure 6", "Figure 8", "79.5 ± 4.9", "4905", "carico"):
        assert words in said.out
    assert "runs 17/17" in said.err
    assert "rescheduler.html" in said.err
    written = json.loads((tmp_path / "rescheduler.json").read_bytes())
    assert [each["algorithm"] for each in written["table_7"]][-2:] == ["carico", "threshold"]
    page = (tmp_path / "rescheduler.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 3


def test_json_on_stdout_is_nothing_but_json(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--rescheduler", "--quick", "--seeds", 1, "--json", "--out", tmp_path) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 1


def test_choices_for_schedulers_are_refused(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ("--scenario", "pi-100", "--ablation", "--out", tmp_path)
    assert carico("evaluate", "--rescheduler", *chosen) == 2
    assert "leave out --scenario, --ablation" in capsys.readouterr().err
