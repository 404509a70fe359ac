"""`-o json|wide` of every command that has it, and its short form --json."""

import json
import os
import pathlib
import sys

import click
import click.testing
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_cli import application
from carico_cli.output import formats


@click.command()
@formats.flag(formats.Output.JSON, formats.Output.WIDE)
def command(output: formats.Output) -> None:
    """Print how it would print."""
    click.echo(output.value)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "text"), (["-o", "json"], "json"), (["--output", "wide"], "wide"), (["--json"], "json"),
        (["--json", "-o", "json"], "json"),
    ],
)  # fmt: skip
def test_the_flag_and_its_short_form_choose_the_output(argv: list[str], said: str) -> None:
    ended = click.testing.CliRunner().invoke(command, argv)
    assert (ended.exit_code, ended.output) == (0, f"{said}\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [(["--json", "-o", "wide"], "--json and -o wide: got both"), (["-o", "yaml"], "'yaml' is not one of")],
)
def test_what_cannot_be_printed_is_refused(argv: list[str], said: str) -> None:
    ended = click.testing.CliRunner().invoke(command, argv)
    assert ended.exit_code == 2 and said in ended.output


def test_every_command_with_json_has_the_flag() -> None:
    context = click.Context(application.cli)
    found = {}
    for name in application.COMMANDS:
        own = application.cli.get_command(context, name)
        assert own is not None
        flags = {flag for each in own.params for flag in each.opts}
        found[name] = flags & {"-o", "--json"}
    assert {name for name, flags in found.items() if flags} == {
        "list", "status", "top", "explain", "capacity", "doctor", "compare", "evaluate", "replay", "recommend",
        "reschedule",
    }  # fmt: skip
    assert all(flags in (set(), {"-o", "--json"}) for flags in found.values())


@given(text=st.text(), more=st.sampled_from(["\x1b]0;x\x07", "\x9b2J", "\u202e", "\r", "\U000e0001", "\ud800", "\x00"]))
def test_others_words_move_no_cursor_and_json_stays_the_same(text: str, more: str) -> None:
    said = formats.printable(text + more)
    assert said.replace("\n", "").replace("\t", "").isprintable()
    assert formats.printable(text + more, kept="").isprintable()
    as_json = json.dumps({text: more}, indent=2, ensure_ascii=False)
    assert json.loads(formats.printable(as_json)) == json.loads(as_json)


def test_what_is_printable_stays_as_it_is() -> None:
    assert formats.printable("node-1\t7\n\N{LATIN SMALL LETTER E WITH ACUTE} ± \n") == "node-1\t7\né ± \n"


def test_a_cell_of_a_table_stays_in_its_line_and_column() -> None:
    assert formats.aligned(("A", "B"), [("a\n\x1b[2Jb", "1")]) == ["A             B", "a \\u001b[2Jb  1"]


def test_what_to_run_next_begins_with_how_the_shell_finds_the_command_where_it_does_not(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "an environment" / "bin" / "carico"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert formats.next_steps(["carico up"]) == "next:\n  carico up", "what it is in cannot be activated"
    (program.parent / "activate").touch()
    assert formats.next_steps(["carico up"]) == "next:\n  source 'an environment/bin/activate'\n  carico up"
    monkeypatch.setenv("PATH", os.pathsep.join(["/nowhere", str(program.parent)]))
    assert formats.next_steps(["carico up"]) == "next:\n  carico up"
