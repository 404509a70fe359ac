"""`python -m carico_local.cluster --root DIR --lock N [--restart] [--lifeline]`: the supervisor.

It writes its events to stdout.
"""

import argparse
import asyncio
import contextlib
import pathlib
import sys

import orjson

from carico_core.runtime.observe import logs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings, tasks
from carico_local.cluster import events, folders, supervisor
from carico_local.cluster import plan as plans


def main() -> int:
    """Return the exit code: 0 stopped in order, 1 the cluster failed, 2 a user error."""
    parser = argparse.ArgumentParser(prog="python -m carico_local.cluster")
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--lock", type=int, required=True, help="file descriptor of the cluster's lock, already held")
    parser.add_argument("--restart", action="store_true", help="restart crashed services")
    parser.add_argument("--lifeline", action="store_true", help="stop when standard input ends")
    arguments = parser.parse_args()
    logs.setup(service="carico-cluster", json=True)
    paths = folders.Paths(arguments.root)
    failed: list[bool] = []

    async def run(stop: tasks.Stop) -> None:
        plan = plans.from_json(orjson.loads(paths.plan.read_bytes()))
        if arguments.lifeline:
            await _end_with_stdin(stop)
        with folders.inherited(arguments.lock):
            found = supervisor.Supervisor(
                plan, paths, settings.environment(), clock=clocks.SystemClock(), report=_report,
                restart=arguments.restart,
            )  # fmt: skip
            failed.append(not await found.run(stop))

    code = tasks.run(run, program="carico-cluster")
    return code or int(any(failed))


def _report(event: events.Event) -> None:
    # The command that started this process may have ended: `carico up` does as soon as all is ready.
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(events.encode(event))
        sys.stdout.buffer.flush()


async def _end_with_stdin(stop: tasks.Stop) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def watch() -> None:
        await reader.read()
        stop.set()

    _KEPT.append(loop.create_task(watch()))


# A task without a reference may be collected before it ends.
_KEPT: list["asyncio.Task[None]"] = []

if __name__ == "__main__":
    sys.exit(main())
