"""`carico evaluate --sharing`: tables on stdout, files, and mistakes in one line."""

import functools
import json
import pathlib
from collections.abc import Callable

import pytest

from carico_twin.evaluate.sharing import setup, study
from tests.tools import carico_cli

Carico = Callable[..., int]
TINY = study.Selection(
    base=setup.Setup(nodes=20, pods_per_node=2, life_s=0.5, burst=4, warm_up_s=0.02, measured_s=0.05), seeds=1
)


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Carico:
    monkeypatch.setattr(study, "QUICK", TINY)
    return functools.partial(carico_cli.run, monkeypatch)


def test_tables_are_printed_and_written(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--sharing", "--quick", "--out", tmp_path) == 0
    said = capsys.readouterr()
    for words in ("Targets", "design %", "partitioned", "all-or-nothing", "homes 2", "p99 ms", "20 nodes"):
        assert words in said.out
    count = len(study.setups_of(TINY))
    assert f"setups {count}/{count}" in said.err
    assert "sharing.html" in said.err
    written = json.loads((tmp_path / "sharing.json").read_bytes())
    assert written["sweeps"]["schedulers"][0]["mode"] == "leader"
    page = (tmp_path / "sharing.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 3


def test_json_on_stdout_is_nothing_but_json(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--sharing", "--quick", "--seeds", 1, "--json", "--out", tmp_path) == 0
    assert json.loads(capsys.readouterr().out)["seeds"] == 1


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--scenario", "pi-100", "--calibration"), "leave out --scenario, --calibration"),
        (("--rescheduler",), "leave out --sharing"),
        (("--trace", "some.csv"), "--trace runs no simulation: leave out --sharing"),
    ],
)
def test_other_evaluations_are_refused(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
) -> None:
    assert carico("evaluate", "--sharing", *flags, "--out", tmp_path) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
