"""A cluster whose bus and API freeze in mid-job for longer than a lease.

Meanwhile `status` and `doctor` name what is frozen. The cluster goes on by itself, and nothing is lost.
"""

import asyncio
import json
import os
import pathlib
import signal
import time

from carico_local.cluster import state
from tests.e2e import carico_command

# Longer than the lease of 10 s, so that every advertisement and entry has expired meanwhile.
FROZEN_S = 12.0
PODS = 12


async def test_bus_and_api_frozen_for_longer_than_a_lease(tmp_path: pathlib.Path) -> None:
    shell = carico_command.Shell(tmp_path)
    async with carico_command.cluster(shell, "chaos", "--nodes", "2") as paths:
        before = state.read(paths)
        assert before is not None
        pids = {service.name: service.process.pid for service in before.services if service.process is not None}
        flags = ("--name", "chaos", "--pods", str(PODS), "--seconds", "2", "--job", "frozen")
        code, out, err = await shell.run("submit", "pi", *flags)
        assert code == 0, out + err
        await asyncio.sleep(1.5)
        for name in ("nats", "api"):
            os.kill(pids[name], signal.SIGSTOP)
        try:
            stopped_s = time.monotonic()
            for command in ("status", "doctor"):
                code, out, _ = await shell.run(command, "--name", "chaos")
                assert code == 1, out
                assert all(f"kill -CONT {pids[name]}" in out for name in ("nats", "api")), out
            await asyncio.sleep(max(FROZEN_S - (time.monotonic() - stopped_s), 0.0))
        finally:
            for name in ("nats", "api"):
                os.kill(pids[name], signal.SIGCONT)

        async def succeeded() -> int:
            code, said, _ = await shell.run("status", "--name", "chaos", "--json")
            # An API that has only just woken up may not answer in time.
            return sum(int(job["succeeded"]) for job in json.loads(said)["jobs"]) if code == 0 else 0

        async with asyncio.timeout(180):
            while await succeeded() < PODS:
                await asyncio.sleep(carico_command.LOOK_EVERY_S)
        after = state.read(paths)
        assert after is not None
        assert {service.name: service.process.pid for service in after.services if service.process} == pids
        assert after.crashes == ()
