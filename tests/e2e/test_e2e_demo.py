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
    assert "All Pods succeeded." in " ".join(out.split())
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
