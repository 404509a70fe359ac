"""`--nodes` takes a number, a kind, or both; every option says what it is and what holds without it."""

import pathlib
from collections.abc import Iterator

import click
import pytest

from carico_cli import application
from carico_cli.shell import options
from tests.tools import carico_cli


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
    assert options.NodesOption().convert(text, None, None) == expected


@pytest.mark.parametrize(
    "argv",
    [
        ("bus-config", "static", "--out"), ("evaluate", "--out"), ("evaluate", "--trace"), ("demo", "--out"),
        ("compare", "--out"), ("record", "--out"), ("replay",), ("reschedule", "--problem"),
        ("capacity", "--file"), ("recommend", "--plot"),
    ],
)  # fmt: skip
def test_an_empty_path_is_refused_and_nothing_is_written(
    argv: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A shell's variable that is not set: as a path it would be the folder of the shell."""
    monkeypatch.chdir(tmp_path)
    assert carico_cli.run(monkeypatch, *argv, "") == 2
    assert capsys.readouterr().err.endswith(": got an empty value, expected a path\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["", "pigs", "kwok=", "=3", "kwok=many", "3=kwok", "1.5"])
def test_anything_else_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(click.BadParameter, match="expected a number, one of process, kubelet, kwok"):
        options.NodesOption().convert(text, None, None)


def test_a_mistyped_kind_of_nodes_gets_the_nearest_one() -> None:
    for text, meant in (("kubelt=2", "kubelet=2"), ("kwok1", "kwok"), ("proces", "process")):
        with pytest.raises(click.BadParameter, match=f": did you mean {meant}\\?$"):
            options.NodesOption().convert(text, None, None)
    with pytest.raises(click.BadParameter, match=r"got 'kwok=many', expected .* as in kwok=1000$"):
        options.NodesOption().convert("kwok=many", None, None)


def test_a_removed_estimator_is_refused_with_what_works_for_the_command() -> None:
    with pytest.raises(click.BadParameter, match="where you run agents yourself, else footprint as it is"):
        options.Estimators().convert("vector", None, None)


def every_option() -> Iterator[tuple[str, click.Option]]:
    def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Option]]:
        if isinstance(command, click.Group):
            for each in command.list_commands(click.Context(command)):
                found = command.get_command(click.Context(command), each)
                assert found is not None
                yield from walk(found, f"{name} {each}")
        else:
            yield from ((name, each) for each in command.params if isinstance(each, click.Option))

    return walk(application.cli, application.PROGRAM)


def test_every_option_says_what_it_is_and_what_holds_without_it() -> None:
    seen = 0
    for name, option in every_option():
        seen += 1
        said = option.help or ""
        assert said.endswith("."), (name, option.opts, said)
        # A path, or a name of something, does nothing where it is not given; numbers and choices have some value.
        is_chosen = isinstance(option.type, click.Choice | options.NodesOption) or option.type.name.startswith(
            ("int", "float")
        )
        if is_chosen and not option.is_flag and not option.required:
            assert option.show_default or "default" in said, (name, option.opts, said)
    assert seen > 80


def test_what_is_no_number_is_within_no_bounds() -> None:
    seen = 0
    for _, option in every_option():
        if isinstance(option.type, click.FloatRange):
            seen += 1
            with pytest.raises(click.BadParameter, match="got 'nan', expected a number"):
                option.type("nan", option)
    assert seen >= 2


def test_what_is_asked_for_most_is_listed_first() -> None:
    listed = [option.name for name, option in every_option() if name == "carico up"]
    assert listed[:2] == ["name", "nodes"]
