"""Programs of a real control plane while they are looked for and built: what a person sees of it."""

import pathlib
from typing import Any

import pytest

from carico_cli.clusters import starting
from carico_cli.shell import settings
from carico_local.binaries import cache, tools
from carico_local.cluster import plan

REAL = plan.Options(control_plane="real")


@pytest.fixture
def obtained(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What was asked for, of a machine that has to build all of it."""
    asked: list[tuple[str, ...]] = []

    def obtain(names: tuple[str, ...], *, report: cache.Report, **_: Any) -> dict[str, tools.Found]:
        asked.append(names)
        report(cache.Progress(text="building all"))
        for number in range(3):
            report(cache.Progress(text=f"{number} packages compiled", passing=True))
        report(cache.Progress(text="built all"))
        return {name: tools.Found(name=name, path=pathlib.Path("/t") / name) for name in names}

    monkeypatch.setattr(tools, "obtain", obtain)
    return asked


def context(*, plain: bool) -> settings.Context:
    return settings.Context(home=pathlib.Path("/none"), environ={}, plain=plain)


def test_without_a_terminal_there_are_whole_lines_and_few(
    obtained: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    found = starting.obtain(REAL, context(plain=True))
    assert found["etcd"] == "/t/etcd"
    assert set(found) == set(obtained[0])
    # What passes is of interest after half a minute, and this took less.
    assert capsys.readouterr().out == "building all\nbuilt all\n"


def test_on_a_terminal_what_passes_is_drawn_in_place(
    obtained: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    starting.obtain(REAL, context(plain=False))
    out = capsys.readouterr().out
    assert out.count("\n") == 2
    # Without the codes that clear a line, which click keeps for real terminals.
    assert "\r2 packages compiled\rbuilt all\n" in out
    assert len(obtained) == 1


def test_an_embedded_control_plane_asks_for_nothing(obtained: list[tuple[str, ...]]) -> None:
    assert starting.obtain(plan.Options(), context(plain=True)) == {}
    assert obtained == []


def test_a_note_ends_its_lines_between_words_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = "nodes have no cgroups: " + "word " * 30
    starting.note(text.strip(), context(plain=False))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert all(len(line) <= 60 and line.split()[-1] == "word" for line in lines)
    starting.note(text.strip(), context(plain=True))
    assert capsys.readouterr().out.count("\n") == 1, "a script reads one line"
