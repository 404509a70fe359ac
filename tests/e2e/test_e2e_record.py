"""A node of a running cluster is recorded beside its agent while Pods come and go, and replayed."""

import asyncio
import json
import pathlib

from carico_agent.replay import reading
from tests.e2e import carico_command


async def test_a_node_of_a_cluster_is_recorded_while_pods_run(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    async with carico_command.cluster(shell, "e2e-rec", "--nodes", "2"):
        words = ("record", "--name", "e2e-rec", "--node", "node-1", "--out", "node-1.rec", "--for", "60")
        recording = await shell.start(*words)
        code, out, err = await shell.run("submit", "pi", "--name", "e2e-rec", "--pods", "6", "--seconds", "1", "--wait")
        assert code == 0, out + err
        # Ctrl-C ends a recording and keeps it.
        recording.terminate()
        async with asyncio.timeout(30):
            said, notes = await recording.communicate()
        assert recording.returncode == 0, notes
        assert b"node-1.rec: " in said
        assert b"interrupted" in notes
        code, _, err = await shell.run("record", "--name", "e2e-rec", "--node", "node-9", "--out", "x.rec")
        assert code == 2
        assert "expected one of node-1, node-2" in err
    found = reading.read(tmp_path / "node-1.rec").recording
    assert found.ended
    assert found.facts.node == "node-1"
    assert found.facts.cores == 4.0
    kinds = [event.kind.value for event in found.events]
    assert 1 <= kinds.count("started") <= 6
    assert kinds.count("ended") == kinds.count("started")
    assert max(found.samples.values[:, 0]) > 0.1
    for estimator in ("dual", "vector"):
        code, out, err = await shell.run("replay", "node-1.rec", "--estimator", estimator, "--json")
        assert code == 0, err
        assert json.loads(out)["most_pods"] >= 1
