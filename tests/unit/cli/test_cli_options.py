"""`--nodes` takes a number, a kind, or both."""

import click
import pytest

from carico_cli import options


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", ("process", 3)),
        ("process", ("process", None)),
        ("process=3", ("process", 3)),
        ("kwok", ("kwok", None)),
        ("kwok=1000", ("kwok", 1000)),
        ("kubelet=2", ("kubelet", 2)),
        # Refused by the plan, with its bounds.
        ("-5", ("process", -5)),
    ],
)
def test_nodes_are_a_number_a_kind_or_both(text: str, expected: tuple[str, int | None]) -> None:
    assert options.Nodes().convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["", "pigs", "kwok=", "=3", "kwok=many", "3=kwok", "1.5"])
def test_anything_else_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected a number, or one of process, kubelet, kwok"):
        options.Nodes().convert(text, None, None)
