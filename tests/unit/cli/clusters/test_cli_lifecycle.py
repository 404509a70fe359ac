"""`carico up` and `down`: what they say to run next, and while a cluster takes long to end."""

import asyncio
import pathlib

import click.testing
import pytest

from carico_cli.clusters import lifecycle, starting
from carico_cli.shell import settings
from carico_local.cluster import client, folders


def test_down_says_why_nothing_happens_where_a_cluster_does_not_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(paths: folders.Paths, *, keep_logs: bool) -> None:
        await asyncio.sleep(0.2)

    monkeypatch.setattr(client, "down", slow)
    (tmp_path / "frozen").mkdir()
    (tmp_path / "frozen/plan.json").write_text("{}")
    context = settings.Context(home=tmp_path, environ={"XDG_CONFIG_HOME": str(tmp_path / "config")}, plain=True)
    for silent_s, said in ((60.0, ""), (0.01, "frozen has not ended after 0.01 s; it is killed after 60 s\n")):
        monkeypatch.setattr(lifecycle, "SILENT_S", silent_s)
        result = click.testing.CliRunner().invoke(lifecycle.down, ["--name", "frozen"], obj=context)
        assert (result.exit_code, result.stderr) == (0, said), result.output
        assert result.stdout == "cluster frozen is down\n"


def test_what_to_run_next_names_the_cluster_also_where_the_shell_means_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def launch(*_: object, **__: object) -> None: ...

    async def show(*_: object) -> None: ...

    monkeypatch.setattr(client, "launch", launch)
    monkeypatch.setattr(starting, "show", show)
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/plan.json").write_text("{}")
    context = settings.Context(home=tmp_path, environ={"CARICO_CLUSTER": "shop"}, plain=True)
    result = click.testing.CliRunner().invoke(lifecycle.up, [], obj=context)
    assert result.output.splitlines() == [
        "next:", '  eval "$(carico env --name shop)"', "  carico submit pi --pods 50 --name shop",
        "  carico top --name shop", "  carico down --name shop",
    ]  # fmt: skip
