"""The demo's path end to end."""

import json
import pathlib
import re

import pytest

from tests.e2e import carico_command

PODS = 30


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> carico_command.Shell:
    return carico_command.Shell(tmp_path)


async def test_thirty_pods_are_each_bound_once_and_nothing_stays(shell: carico_command.Shell) -> None:
    code, out, err = await shell.run("demo", "--name", "e2e-demo", "--pods", str(PODS), "--seconds", "1")
    assert code == 0, out + err
    report = json.loads((shell.directory / "var/e2e-demo/report.json").read_bytes())
    assert report["pods"] == report["succeeded"] == PODS
    for nothing in ("failed", "bound_twice", "never_bound", "capacity_overrun"):
        assert report[nothing] == 0, nothing
    assert report["nodes"] >= 2
    assert 1 <= report["max_running_per_node"] <= 2 * 4, "never above two Pods a core"
    assert sum(node["pods"] for node in report["per_node"].values()) == PODS
    # Alone a Pod takes 1 s: less would mean that pacing failed, and the process's own times are wrong.
    assert 0.9 <= report["pod_s"]["min"] <= report["pod_s"]["max"] < report["job_s"]
    assert {"mean", "std", "p50", "p95", "max"} <= report["pod_s"].keys()
    assert report["overload_node_s"] >= 0
    assert "All 30 Pods succeeded in " in " ".join(out.split())
    assert "must be 0: failed 0, bound twice 0, never bound 0, without room 0" in out
    assert "\x1b" not in out + err, "no terminal: plain lines"
    assert shell.left("e2e-demo") == []


async def test_the_report_is_one_page_that_loads_nothing(shell: carico_command.Shell) -> None:
    code, out, err = await shell.run(
        "demo", "--name", "e2e-page", "--pods", "4", "--seconds", "0.5", "--nodes", "2", "--estimator", "dual"
    )
    assert code == 0, out + err
    page = (shell.directory / "var/e2e-page/report.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 5
    assert "kube-scheduler would have taken" in page
    assert not re.search(r'(src|href)="(?!#)', page)
    # Namespaces of SVG are names, not addresses that anything loads.
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {
        "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "https://matplotlib.org/",
        "http://creativecommons.org/ns#", "http://purl.org/dc/elements/1.1/", "http://purl.org/dc/dcmitype/StillImage",
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    }  # fmt: skip


@pytest.mark.real_programs
async def test_with_compare_the_real_kube_scheduler_runs_the_job_too(shell: carico_command.Shell) -> None:
    words = ("demo", "--name", "e2e-both", "--nodes", "2", "--pods", "8", "--seconds", ".5")
    code, _, err = await shell.run(*words, "--compare", "--control-plane", "embedded")
    assert (code, err.count("\n")) == (2, 1) and "expected real" in err
    code, out, err = await shell.run(*words, "--compare", within_s=600.0)
    assert code == 0, out + err
    report = json.loads((shell.directory / "var/e2e-both/report.json").read_bytes())
    half, tenth = report["kube_scheduler"]
    assert (half["request_millicores"], tenth["request_millicores"]) == (500, 100)
    for found in (half, tenth):
        assert (found["simulated"], found["failed"]) == (False, 0)
        assert 0.5 <= found["pod_mean_s"] <= found["job_s"]
    assert "kube-scheduler took" in out
    assert shell.left("e2e-both") == []
