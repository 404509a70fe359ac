"""`carico list`: the clusters of this machine, which one a command means, and how to choose another."""

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys

import orjson
import pytest

from carico_cli.clusters import listing, which
from carico_cli.shell import settings
from carico_local.cluster import folders, machine, plan, processes, state
from tests.tools import carico_cli

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")


def written(home: pathlib.Path, name: str, phase: state.Phase = state.Phase.STARTING) -> folders.Paths:
    paths = folders.Paths(home / name)
    paths.root.mkdir(parents=True)
    paths.plan.write_text("{}")
    found = state.ClusterState(
        plan=plan.make_plan(plan.Options(name=name, nodes=3), MACHINE), phase=phase,
        supervisor=processes.ProcessId(pid=1, start_ticks=1), started_ns=1_700_000_000 * 10**9, nats_url="nats://x:1",
        api_url="http://127.0.0.1:2", services=(), crashes=(), notes=(), failure=None,
    )  # fmt: skip
    state.write(paths, found)
    return paths


@pytest.fixture
def home(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Three clusters: shop-2, shop-10 and one that was left behind."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for variable in (which.CLUSTER, which.NATS_URL, which.KUBECONFIG):
        monkeypatch.delenv(variable, raising=False)
    for name in ("shop-10", "shop-2", "old"):
        written(tmp_path / "carico", name)
    return tmp_path / "carico"


def test_the_list_shows_each_cluster_and_how_to_choose_one(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.ExitStack() as running:
        for name in ("shop-10", "shop-2"):
            running.enter_context(folders.acquire(folders.Paths(home / name)))
        assert carico_cli.run(monkeypatch, "list", "-o", "json") == 0
        rows = orjson.loads(capsys.readouterr().out)
        assert carico_cli.run(monkeypatch, "list") == 0
        shown = capsys.readouterr().out
        monkeypatch.setenv(which.CLUSTER, "shop-10")
        assert carico_cli.run(monkeypatch, "list") == 0
        chosen = capsys.readouterr().out
    assert [(row["name"], row["state"], row["meant"]) for row in rows] == [
        ("old", "left behind", False), ("shop-2", "starting", False), ("shop-10", "starting", False),
    ]  # fmt: skip
    assert rows[1]["kind"] == "process, embedded API" and rows[1]["nodes"] == 3 and rows[1]["pods"] is None
    assert rows[1]["folder"] == str(home / "shop-2")
    assert "choose one: `carico use shop-2` starts a shell that means it" in shown and "*" not in shown
    assert "`carico down --name old` removes it" in shown
    assert "* shop-10" in chosen and "choose one" not in chosen


def test_a_cluster_that_is_removed_meanwhile_hinders_no_command(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = folders.cluster_names

    def removing(root: pathlib.Path) -> list[str]:
        found = names(root)
        shutil.rmtree(home / "old", ignore_errors=True)
        return found

    monkeypatch.setattr(folders, "cluster_names", removing)
    assert which.cluster_names(home, which.Need.RUNNING) == []
    written(home, "old")
    assert carico_cli.run(monkeypatch, "list") == 0
    assert "shop-10" in capsys.readouterr().out


def test_a_cluster_whose_api_does_not_answer_is_not_ready(
    home: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with folders.acquire(written(home, "mute", state.Phase.READY)):
        assert carico_cli.run(monkeypatch, "list") == 0
    shown = capsys.readouterr().out
    (row,) = [line for line in shown.splitlines() if " mute " in line]
    assert row.split()[:4] == ["*", "mute", "not", "ready"]
    assert "`carico status --name mute` says which" in shown


def test_the_only_cluster_that_runs_is_marked(home: pathlib.Path) -> None:
    context = settings.Context(home=home, environ={}, plain=True)
    with folders.acquire(folders.Paths(home / "shop-2")):
        assert listing._meant(context) == "shop-2"
        # With a second one, a command without --name would be refused.
        with folders.acquire(folders.Paths(home / "shop-10")):
            assert listing._meant(context) is None


def test_a_list_fits_a_terminal_and_wide_shows_where_each_is() -> None:
    row = {
        "meant": True, "state": "left behind", "started_at_ns": 0, "nodes": 1000, "pods": 100_000,
        "kind": "process, embedded API", "nats_url": "nats://127.0.0.1:42222", "api_url": "http://127.0.0.1:8001",
        "folder": "/home/somebody/.local/state/carico/shop",
    }  # fmt: skip
    rows = [{**row, "name": name} for name in ("shop", "a-name-of-the-shop-that-is-long")]
    lines = listing.text(rows, now_s=86400.0 * 99).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["NAME", "STATE", "SINCE", "NODES", "PODS", "KIND"] and lines[1].startswith("* shop ")
    wide = listing.text(rows, now_s=60.0, wide=True).splitlines()
    assert str(row["folder"]) in wide[1] and "(60.0 s)" in wide[1] and "a-name-of-the-shop-that-is-long" in wide[2]


def test_a_machine_without_a_cluster_says_what_starts_one() -> None:
    assert listing.text([], now_s=0.0) == "no cluster on this machine: `carico up` starts one"


def test_use_becomes_a_command_or_a_shell_that_means_the_cluster_and_writes_nothing(home: pathlib.Path) -> None:
    def use(*argv: str) -> subprocess.CompletedProcess[str]:
        # In a process of its own: it becomes the command.
        return subprocess.run(
            [sys.executable, "-m", "carico_cli", "use", *argv], env={**os.environ, "SHELL": "pwd"}, cwd=home,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    shown = "echo $CARICO_CLUSTER $NATS_URL $KUBECONFIG; grep SigIgn /proc/self/status; exit 7"
    before = set(home.rglob("*"))
    with folders.acquire(folders.Paths(home / "shop-2")), folders.acquire(folders.Paths(home / "shop-10")):
        command, shell, unknown = use("shop-2", "sh", "-c", shown), use("shop-10"), use("shop-10", "no-such-command")
        after_dashes = use("shop-2", "--", "echo", "--", "-n")
        ended, mistyped, without = use("old"), use("shop-22"), use()
    assert command.stdout.splitlines()[0] == f"shop-2 nats://x:1 {home}/shop-2/kubeconfig"
    assert command.returncode == 7 and command.stderr == ""
    assert (after_dashes.stdout, after_dashes.stderr) == ("-- -n\n", "")
    # SIGPIPE, the 13th, is ignored by Python, but not by the command.
    assert not int(command.stdout.split()[-1], 16) & 1 << 12
    assert shell.stdout.strip() == str(home)
    assert shell.stderr == "commands in this shell mean cluster shop-10; `exit` ends it\n"
    assert unknown.stderr == "carico: no-such-command: No such file or directory\n" and unknown.returncode == 2
    assert ended.stderr == "carico: cluster 'old' is not running: start it with `carico up --name old`\n"
    assert "did you mean 'shop-2'?" in mistyped.stderr
    assert "expected one that runs (there are shop-10, shop-2): `carico use NAME`" in without.stderr
    assert {path for path in home.rglob("*") if path.name != "lock"} == before
