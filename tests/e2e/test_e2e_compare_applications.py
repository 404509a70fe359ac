"""Applications that exchange requests, before and after the rescheduler has moved their Pods."""

import json
import pathlib
import sys

import pytest

from tests.e2e import carico_command

# The command with shorter spans than those of --quick, which are for people who look at the times.
BRIEFLY = """
from carico_local.compare.applications import experiment
experiment.QUICK = experiment.Spans(warm_s=5.0, before_s=8.0, settle_s=2.0, after_s=8.0)
experiment.APART_S = 2.0
from carico_cli import main
main.main()
"""


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
