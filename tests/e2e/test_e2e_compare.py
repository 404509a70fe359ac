"""One job of programs that wait under CARICO and under the real kube-scheduler in turn, with agents and without.

`carico demo --compare` does so with `pi` (`test_e2e_demo`).
"""

import json
import os
import pathlib

import pytest

from tests.e2e import carico_command
from tests.tools import carico_cli

CONTENDERS = ("carico", "kube-500m-bare")


@pytest.mark.real_programs
async def test_the_same_job_runs_under_each_scheduler(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    words = ["compare", "--name", "e2e-cmp", "--nodes", "2", "--repeats", "1", "--pods", "8", "--seconds", ".5"]
    # Two of each kind of program.
    words += ["--workload", "waiting"]
    for name in CONTENDERS:
        words += ["--contender", name]
    code, out, err = await shell.run(*words, "--servers-cpu", "100m", "--json", within_s=600.0)
    assert code == 0, out + err
    found = json.loads(out)
    assert list(found["contenders"]) == list(CONTENDERS)
    for name, row in found["contenders"].items():
        assert (row["runs"], row["failed"], row["bound_twice"]) == (1, 0, 0), name
        assert row["pod_mean_s"]["median"] >= 0.5, name
        assert row["server_p99_ms"]["median"] > 0.0, name
    assert found["idle_server_p99_ms"]["median"] > 0.0
    assert found["setting"]["servers_millicores"] == 100
    assert (found["setting"]["workload"], found["setting"]["pods"]) == ("waiting", 8)
    assert {one["verdict"] for one in found["targets"]} <= {"met", "missed", "unknown"}
    page = (tmp_path / "var" / "e2e-cmp" / "compare.html").read_text()
    assert "<svg" in page
    assert "kube-500m-bare" in page
    assert "a server ran on every node, with a request of 100m CPU" in page
    assert found["idle_server_ms"]["min"] <= found["idle_server_ms"]["p50"] <= found["idle_server_ms"]["max"]
    assert shell.left("e2e-cmp") == []


def test_what_cannot_be_compared_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(os, "environ", carico_command.Shell(tmp_path).environ)
    monkeypatch.chdir(tmp_path)
    endless = tmp_path / "web.yaml"
    endless.write_text("kind: Deployment\nspec: {}\n")
    for words, said in (
        (("--contender", "yarn"), "expected carico, kube-500m"),
        (("--control-plane", "embedded"), "kube-scheduler needs it"),
        (("--pods", "-3"), "--pods: got -3"),
        (("--servers-cpu", "5"), "expected CPU such as 100m"),
        (
            ("--workload", "fish"),
            "got 'fish', expected pi, train, mixed, mlp, io, stages, boot, cache, waiting or a file of manifests",
        ),
        (("--workload", str(endless)), "object 1: got Deployment, expected a Pod or a Job"),
    ):
        code = carico_cli.run(monkeypatch, "compare", *words)
        _, err = capsys.readouterr()
        assert (code, err.count("\n")) == (2, 1), err
        assert said in err
