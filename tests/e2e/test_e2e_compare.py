"""One job under CARICO and under the real kube-scheduler in turn, with agents and without."""

import json
import pathlib
import sys

import pytest

from tests.e2e import carico_command

CONTENDERS = ("carico", "kube-500m-bare")
# The command with shorter spans than those of --quick, which are for people who look at the times.
BRIEFLY = """
from carico_local.compare.applications import experiment
experiment.QUICK = experiment.Spans(warm_s=5.0, before_s=8.0, settle_s=2.0, after_s=8.0)
experiment.APART_S = 2.0
from carico_cli import main
main.main()
"""


@pytest.mark.real_programs
async def test_the_same_job_runs_under_each_scheduler(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    words = ["compare", "--name", "e2e-cmp", "--nodes", "2", "--repeats", "1", "--pods", "8", "--seconds", ".5"]
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
    assert {one["verdict"] for one in found["targets"]} <= {"met", "missed", "unknown"}
    page = (tmp_path / "var" / "e2e-cmp" / "compare.html").read_text()
    assert "<svg" in page
    assert "kube-500m-bare" in page
    assert "a server ran on every node, with a request of 100m CPU" in page
    assert found["idle_server_ms"]["min"] <= found["idle_server_ms"]["p50"] <= found["idle_server_ms"]["max"]
    assert shell.left("e2e-cmp") == []


@pytest.mark.real_programs
async def test_applications_run_before_and_after_their_pods_are_moved(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path, command=(sys.executable, "-c", BRIEFLY))
    words = ["compare", "--applications", "--quick", "--name", "e2e-apps", "--contender", "carico"]
    code, out, err = await shell.run(*words, "--json", within_s=600.0)
    assert code == 0, out + err
    found = json.loads(out)
    (run,) = found["runs"]
    # Moves lose no request, however many there are.
    assert (run["failed"], run["failures"]) == (0, [])
    assert run["requests"] > 100 and run["traffic_bytes"]["before"] > 1000.0
    assert all(each["before"]["count"] and each["after"]["count"] for each in run["applications"].values())
    # As the paper begins: what does not move is where it was.
    assert len(run["nodes"]["before"]) == len(run["nodes"]["after"]) == 23
    assert {run["nodes"][when]["hub-broker-0"] for when in ("before", "after")} == {"node-4"}
    assert "published" in (tmp_path / "var" / "e2e-apps" / "applications.html").read_text()
    assert shell.left("e2e-apps") == []


async def test_what_cannot_be_compared_is_one_line(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
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
        code, _, err = await shell.run("compare", *words)
        assert (code, err.count("\n")) == (2, 1), err
        assert said in err
