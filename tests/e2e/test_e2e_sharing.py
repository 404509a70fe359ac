"""A cluster whose schedulers decide at the same time runs Pods."""

import pathlib
from typing import Any

import orjson

from carico_core.domain import names
from tests.e2e import carico_command


async def test_two_schedulers_that_share_the_work_run_pods(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    options = ("--nodes", "2", "--schedulers", "2", "--sharing", "shared")
    async with carico_command.cluster(shell, "e2e-shared", *options):
        code, out, err = await shell.run(
            "submit", "pi", "--name", "e2e-shared", "--pods", "12", "--seconds", "0.5", "--job", "dozen", "--wait"
        )
        assert code == 0, out + err
        assert "12 of 12 done" in out
        bound = 0
        for service in ("scheduler", "scheduler-2"):
            code, out, err = await shell.run("logs", service, "--name", "e2e-shared")
            assert code == 0, err
            bound += _placed(out)
        assert bound >= 12
        code, out, err = await shell.run("status", "--name", "e2e-shared", "--json")
        assert code == 0, err
        # Members and leader are services of this list.
        view = orjson.loads(out)
        members = {names.replica_of(each["name"]) for each in view["schedulers"]}
        assert members == {"scheduler", "scheduler-2"} <= {each["name"] for each in view["services"]}
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
