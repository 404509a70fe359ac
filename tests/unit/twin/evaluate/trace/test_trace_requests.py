"""Rules for requests on series whose percentiles are known, and the command that compares them."""

import json
import pathlib

import numpy as np
import pytest

from carico_core.domain import errors
from carico_core.numerics import distribution
from carico_twin.evaluate.trace import reading, requests, scoring
from tests.tools import carico_cli

MIB = 2.0**20
SETUP = scoring.Setup(interval_s=300, history_s=3600, horizon_s=3600)


def constant(value: float, samples: int = 48) -> "np.typing.NDArray[np.float64]":
    return np.full(samples, value)


@pytest.mark.parametrize("value", [0.05, 0.5, 3.0])
def test_a_steady_series_gets_its_usage_plus_the_margin_or_half_of_it(value: float) -> None:
    assert requests.carico_cpu(constant(value), 300) == pytest.approx(1.075 * value, abs=0.001)
    assert requests.krr_cpu(constant(value), 300) == pytest.approx(value)
    # The upper bound of a bucket whose width grows by 5 %, from .01 core.
    assert 1.15 * value <= requests.vpa_cpu(constant(value), 300) <= 1.15 * (1.05 * value + 0.011)


def test_memory_is_the_peak_plus_the_margin_and_floors_are_those_of_the_rules() -> None:
    seen = np.array([10.0, 40.0, 20.0]) * MIB
    assert requests.carico_memory(seen, 300) == 46 * MIB
    assert requests.krr_memory(seen, 300) == 100e6
    assert requests.vpa_memory(seen, 300) == 250 * MIB
    assert 46 * MIB <= requests.vpa_memory(seen, 300, least=0.0) <= 65 * MIB


def test_what_is_a_day_old_counts_half() -> None:
    day = 24 * 12
    # A third of the weight is a day older than the rest, so .95 of it is reached in the newer, larger half.
    seen = np.concatenate([constant(0.1, day), constant(1.0, day)])
    assert requests.carico_cpu(seen, 300) == pytest.approx(1.075, rel=0.001)
    falling = np.concatenate([constant(1.0, day // 8), constant(0.1, 3 * day)])
    assert requests.carico_cpu(falling, 300) == pytest.approx(0.115, rel=distribution.RELATIVE_ERROR + 0.01)


def test_slack_and_overruns_by_hand() -> None:
    series = np.array([[1.0] * 12 + [1.0] * 6 + [3.0] * 6])
    found = requests.score(series, lambda seen, _: 2.0, SETUP)
    # Used 6 x 1 + 6 x 3 = 24 of 12 x 2 = 24; half of the samples are above 2.
    assert found.slack == pytest.approx(0.0) and found.overruns == 0.5


def test_a_rule_gets_only_what_was_before() -> None:
    series = np.concatenate([constant(0.1, 12), constant(100.0, 24)])[None]
    seen: list[int] = []

    def watched(part: "np.typing.NDArray[np.float64]", _: int) -> float:
        seen.append(part.size)
        return 1.0

    requests.score(series, watched, SETUP)
    assert seen == [12, 24]


def test_amounts_in_hindsight_by_hand() -> None:
    # Judged: two horizons of 12. In the first, one sample of 4; in the second, six of 2.
    series = np.array([[9.0] * 12 + [1.0] * 11 + [4.0] + [2.0] * 6 + [1.0] * 6])
    # Without overruns 4 and 2 are reserved for 12 samples each, or 4 for all: used are 15 and 18.
    found = requests.in_hindsight(series, SETUP, overruns=0.0)
    assert found.slack == pytest.approx(1 - 33 / 72)
    assert found.overruns == 0.0
    one = requests.in_hindsight(series, SETUP, overruns=0.0, is_constant=True)
    assert one.slack == pytest.approx(1 - 33 / 96)
    assert one.overruns == 0.0
    # One of 24 samples may exceed its amount: the one of 4.
    found = requests.in_hindsight(series, SETUP, overruns=1.5 / 24)
    assert found.slack == pytest.approx(1 - 33 / 36)
    assert found.overruns == 1 / 24
    one = requests.in_hindsight(series, SETUP, overruns=1.5 / 24, is_constant=True)
    assert one.slack == pytest.approx(1 - 33 / 48)
    assert one.overruns == 1 / 24
    assert requests.in_hindsight(np.zeros((2, 36)), SETUP, overruns=0.0) == requests.Score(slack=0.0, overruns=0.0)


def test_no_rule_has_less_slack_than_amounts_in_hindsight() -> None:
    series = np.random.default_rng(1).lognormal(0.0, 0.5, (20, 96)).cumsum(axis=1) % 3.0 + 0.1
    for rule in requests.RULES["cpu"].values():
        found = requests.score(series, rule, SETUP)
        best = requests.in_hindsight(series, SETUP, overruns=found.overruns)
        one = requests.in_hindsight(series, SETUP, overruns=found.overruns, is_constant=True)
        assert best.overruns <= found.overruns and one.overruns <= found.overruns
        assert best.slack <= one.slack and best.slack <= found.slack


@pytest.mark.parametrize(("samples", "unit", "match"), [(48, 0.0, "--unit"), (20, 1.0, "at least 24")])
def test_what_cannot_be_scored_is_refused(samples: int, unit: float, match: str) -> None:
    trace = reading.Trace(names=("a", "b"), series=np.ones((2, samples)))
    with pytest.raises(errors.SettingsError, match=match):
        requests.evaluate("x.csv", trace, SETUP, dimension="cpu", unit=unit)


def test_the_command_compares_the_rules(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "usage.csv"
    file.write_text("a,b\n" + "10,20\n" * 40)
    words = ("evaluate", "--trace", file, "--requests", "cpu", "--unit", "0.01")
    assert carico_cli.run(monkeypatch, *words, "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)["rules"]
    assert set(found) == {"carico", "vpa", "vpa-without-floor", "krr", "oracle", "oracle-constant"}
    # .075 of 1.075, up to a millicore.
    assert found["carico"]["slack"] == pytest.approx(0.07, abs=0.003) and found["carico"]["overruns"] == 0.0
    assert found["oracle"] == {"slack": pytest.approx(0.0), "overruns": 0.0} == found["oracle-constant"]
    assert carico_cli.run(monkeypatch, *words) == 0
    assert "rule" in capsys.readouterr().out
    assert carico_cli.run(monkeypatch, "evaluate", "--trace", file, "--unit", "2") == 2
    assert "--unit is an option of --requests" in capsys.readouterr().err
    assert carico_cli.run(monkeypatch, "evaluate", "--requests", "cpu") == 2
    assert "is an option of --trace" in capsys.readouterr().err
