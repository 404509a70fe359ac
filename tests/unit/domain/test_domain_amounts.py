"""Amounts in words: never a power of ten, a bare number, or more digits than anybody reads."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.domain import amounts

DIMENSIONS = ("cpu", "memory", "gpu", "gpu_memory", "network", "disk", "something_new")
VALUES = st.floats(min_value=-1e14, max_value=1e14, allow_nan=False)


@given(dimension=st.sampled_from(DIMENSIONS), value=VALUES)
def test_every_amount_has_few_digits_and_a_unit(dimension: str, value: float) -> None:
    found = amounts.text(dimension, value)
    assert re.fullmatch(r"-?\d+(\.\d{1,2})?( tasks| GPUs| [kMGT]?B(/s)?|%)", found), found
    assert not re.match(r"-0(\.0*)?\D", found), "a zero with a minus"


@given(dimension=st.sampled_from(("memory", "network")), value=st.floats(min_value=1.0, max_value=9.99e14))
def test_sizes_are_below_a_thousand_of_their_unit_and_near_what_they_stand_for(dimension: str, value: float) -> None:
    number, unit = amounts.text(dimension, value).split(" ")
    assert float(number) < 1000.0
    size = {"B": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[unit[0]]
    assert float(number) * size == pytest.approx(value, rel=0.06 if size > 1.0 else 0.5)


@given(dimension=st.sampled_from(DIMENSIONS), mean=VALUES, sd=st.floats(min_value=0.0, max_value=1e14))
def test_a_mean_and_its_deviation_share_unit_and_digits(dimension: str, mean: float, sd: float) -> None:
    found = amounts.text_with_sd(dimension, mean, sd)
    said = re.fullmatch(r"-?\d+(?:\.(\d+))? ± \d+(?:\.(\d+))?( tasks| GPUs| [kMGT]?B(/s)?|%)", found)
    assert said is not None, found
    if dimension not in ("cpu", "gpu"):
        assert len(said[1] or "") == len(said[2] or "")
