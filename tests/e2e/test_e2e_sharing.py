"""A cluster whose schedulers decide at the same time runs Pods."""

import pathlib
from typing import Any

import orjson

from carico_core.domain import names
from tests.e2e import carico_command


async def test_four_schedulers_that_share_the_work_run_pods_each(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    options = ("--nodes", "2", "--schedulers", "4", "--sharing", "shared")
    services = {"scheduler", "scheduler-2", "scheduler-3", "scheduler-4"}
    async with carico_command.cluster(shell, "e2e-shared", *options):
        code, out, err = await shell.run(
            "submit", "pi", "--name", "e2e-shared", "--pods", "40", "--seconds", "0.2", "--job", "forty", "--wait"
        )
        assert code == 0, out + err
        assert "40 of 40 done" in out
        placed = []
        for service in sorted(services):
            code, out, err = await shell.run("logs", service, "--name", "e2e-shared")
            assert code == 0, err
            placed.append(_placed(out))
        # Each Pod is one of four members' by its UID: that one of them has none of 40 happens once in 25,000 runs.
        assert sum(placed) >= 40 and min(placed) > 0
        code, out, err = await shell.run("status", "--name", "e2e-shared", "--json")
        assert code == 0, err
        # Members and leader are services of this list.
        view = orjson.loads(out)
        members = {names.replica_of(each["name"]) for each in view["schedulers"]}
        assert members == services <= {each["name"] for each in view["services"]}
        assert view["leader"] in members


def _placed(log: str) -> int:
    """How many Pods a scheduler has placed, by the lines of its cycles."""
    found = 0
    for line in log.splitlines():
        start = line.find("{")
        if start >= 0:
            entry: dict[str, Any] = orjson.loads(line[start:])
            found += int(entry.get("placed", 0)) if entry.get("event") == "cycle" else 0
    return found
