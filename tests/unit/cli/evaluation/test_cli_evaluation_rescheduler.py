"""`carico evaluate --rescheduler`: tables on stdout, files, and mistakes in one line."""

import functools
import json
import pathlib
from collections.abc import Callable

import pytest

from carico_cli.evaluation import rasa
from carico_core.numerics.rescheduling.containers import annealing
from carico_core.runtime.process import clock as clocks
from carico_twin.rescheduling import study
from tests.tools import carico_cli
from tests.unit.cli.rescheduling import problem_files

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


class Ticks(clocks.FakeClock):
    """A clock that is later at each look, so that a search by time makes the same proposals on every machine."""

    def monotonic_s(self) -> float:
        self.advance(0.04)
        return super().monotonic_s()


def test_the_curve_of_a_problem_is_shown_next_to_the_published(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = tuple(rasa.Point(seconds=2.0, share=share, wanted=0.5) for share in (0.05, 0.12, None))
    monkeypatch.setattr(rasa, "POINTS", points)
    plain = rasa.curve
    monkeypatch.setattr(rasa, "curve", lambda path, **given: plain(path, **(given | {"clock": Ticks()})))
    problem = problem_files.write(tmp_path / "pairs.json", problem_files.pairs(50))
    assert carico("evaluate", "--rescheduler", "--quick", "--problem", problem, "--out", tmp_path) == 0
    found = json.loads((tmp_path / "rescheduler.json").read_bytes())["rasa"]
    # Each of 50 pairs is apart, and one move of 100 containers joins it.
    assert [each["local"] for each in found["rows"][:2]] == pytest.approx([0.1, 0.24])
    assert [each["moved"] for each in found["rows"][:2]] == pytest.approx([0.05, 0.12])
    assert found["published"]["RASA"] == 0.849
    said = " ".join(capsys.readouterr().out.split())
    assert "pairs.json: local traffic of 100 containers, 0.0% before" in said and "84.9% published: RASA" in said
    assert "pairs.json" in (page := (tmp_path / "rescheduler.html").read_text()) and page.count("<svg") == 4


def test_a_problem_is_of_the_rescheduler_alone(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--quick", "--problem", tmp_path / "x.json", "--out", tmp_path) == 2
    assert "--problem: is for --rescheduler" in capsys.readouterr().err
    assert carico("evaluate", "--rescheduler", "--quick", "--problem", tmp_path / "x.json", "--out", tmp_path) == 2
    assert "x.json: cannot be read" in capsys.readouterr().err
