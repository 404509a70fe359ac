"""A node of a running cluster is recorded next to its agent while Pods come and go, and replayed."""

import asyncio
import json
import pathlib

from carico_cli.recordings import reading
from tests.e2e import carico_command
from tests.tools import waiting


async def test_a_node_of_a_cluster_is_recorded_while_pods_run(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    async with carico_command.cluster(shell, "e2e-rec", "--nodes", "2"):
        words = ("record", "--name", "e2e-rec", "--node", "node-1", "--out", "node-1.rec", "--for", "600")
        path = tmp_path / "node-1.rec"
        async with shell.running(*words) as recording:
            # The first block of samples: before it a Pod could come and go unseen.
            await waiting.until(lambda: path.exists() and path.stat().st_size, within_s=carico_command.WITHIN_S)
            code, out, err = await shell.run(
                "submit", "pi", "--name", "e2e-rec", "--pods", "6", "--seconds", "1", "--wait"
            )
            assert code == 0, out + err
            # The API may show the last Pod's end before the recording has it.
            await waiting.until(lambda: _balanced(path), within_s=carico_command.WITHIN_S)
            # Ctrl-C ends a recording and keeps it.
            recording.terminate()
            async with asyncio.timeout(carico_command.WITHIN_S):
                said, notes = await recording.communicate()
        assert recording.returncode == 0, notes
        assert b"node-1.rec: " in said
        assert b"interrupted" in notes
        code, _, err = await shell.run("record", "--name", "e2e-rec", "--node", "node-9", "--out", "x.rec")
        assert code == 2
        assert "expected one of node-1, node-2" in err
    found = reading.read(path).recording
    assert found.ended
    assert found.facts.node == "node-1"
    assert found.facts.cores == 4.0
    kinds = [event.kind.value for event in found.events]
    assert 1 <= kinds.count("ended") == kinds.count("started") <= 6
    assert max(found.samples.values[:, 0]) > 0.1
    for estimator in ("dual", "footprint"):
        code, out, err = await shell.run("replay", "node-1.rec", "--estimator", estimator, "--json")
        assert code == 0, err
        assert json.loads(out)["most_pods"] >= 1


def _balanced(path: pathlib.Path) -> bool:
    """Whether Pods have started by what is in the file so far, and each has ended."""
    kinds = [event.kind.value for event in reading.read(path, partial=True).recording.events]
    return 0 < kinds.count("started") == kinds.count("ended")
