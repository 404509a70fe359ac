"""`carico-workload pi|train|mlp|server|app|io|stages|boot|cache`: run a workload; its result is a line of JSON."""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

from carico_core.domain import amounts, errors
from carico_core.runtime.process import clock as clocks
from carico_local.applications import program
from carico_local.workloads import environment, mlp, pacing, phases, pi, server, train

# As sklearn's workload of the published jobs: 0.75 GB.
_TRAIN_BYTES = 750_000_000


def main(argv: Sequence[str] | None = None, environ: Mapping[str, str] | None = None) -> int:
    """Return the exit code of the workload: 0, or 2 for a wrong argument."""
    clock = clocks.SystemClock()
    started_ns = clock.wall_ns()
    # A workload runs in a container like any other program: only here does it read the environment.
    variables = os.environ if environ is None else environ  # noqa: TID251  # see above
    arguments = _parser(variables).parse_args(argv)
    if not 0 < arguments.scale <= 1:
        print(f"carico-workload: got scale {arguments.scale}, expected above 0 and at most 1", file=sys.stderr)
        return 2
    try:
        outcome = arguments.run(arguments)
    except errors.SettingsError as error:
        print(f"carico-workload: {error}", file=sys.stderr)
        return 2
    line = {
        "workload": arguments.workload,
        "started_ns": started_ns,
        "finished_ns": clock.wall_ns(),
        "work_s": arguments.seconds,
        **outcome,
    }
    _report(json.dumps(line), variables.get(environment.MESSAGE))
    return 0


def _parser(variables: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="carico-workload", description=__doc__)
    parser.add_argument(
        "--scale", type=float, default=float(variables.get(environment.SCALE, "1")), help="real CPUs per emulated core"
    )
    kinds = parser.add_subparsers(dest="workload", required=True)
    pi_parser = kinds.add_parser("pi", help="single-threaded CPU: digits of pi")
    pi_parser.set_defaults(run=_run_pi)
    _add_seconds(pi_parser, 5.0)
    train_parser = kinds.add_parser("train", help="memory-heavy: several passes over an array")
    train_parser.set_defaults(run=_run_train)
    _add_seconds(train_parser, 25.0)
    train_parser.add_argument(
        "--memory-bytes", type=_bytes, help="default: 0.75 GB x scale; accepts quantities such as 96Mi"
    )
    train_parser.add_argument("--passes", type=_positive_int, default=4)
    mlp_parser = kinds.add_parser("mlp", help="trains a neural network of 8 layers of 1024 neurons x sqrt(scale)")
    mlp_parser.set_defaults(run=_run_mlp)
    _add_seconds(mlp_parser, 25.0)
    server_parser = kinds.add_parser("server", help="HTTP with a latency probe")
    server_parser.set_defaults(run=_run_server)
    _add_seconds(server_parser, 0.0)
    server_parser.add_argument("--host", default=variables.get(environment.ADDRESS, "127.0.0.1"))
    server_parser.add_argument("--port", type=int, default=0, help="0: a free one, printed in the first line")
    server_parser.add_argument("--work-ms", type=float, default=1.0, help="work of a request on one emulated core")
    server_parser.add_argument("--probe-hz", type=float, default=20.0, help="probes a second; 0: none")
    app_parser = kinds.add_parser("app", help="one service of an application (docs/rescheduling.md#applications)")
    app_parser.set_defaults(run=_run_app, seconds=0.0)
    app_parser.add_argument("service", metavar="NAME", help="such as boutique-frontend")
    app_parser.add_argument("--address", default=variables.get(environment.ADDRESS, ""), help="the Pod's own")
    app_parser.add_argument("--directory", default=variables.get(program.DIRECTORY_VARIABLE, ""), metavar="HOST:PORT")
    for flag, variable in (("--delay-ms", program.DELAY_VARIABLE), ("--rate-mbit", program.RATE_VARIABLE)):
        app_parser.add_argument(flag, type=float, default=variables.get(variable, "0"), help="between nodes")
    for name in phases.PROFILES:
        waits_parser = kinds.add_parser(name, help="a program that waits: phases of threads, memory and waiting")
        waits_parser.set_defaults(run=_run_phases)
        _add_seconds(waits_parser, phases.alone_s(name))
    return parser


def _add_seconds(parser: argparse.ArgumentParser, default: float) -> None:
    parser.add_argument("--seconds", type=float, default=default, help="work, as the time on one idle emulated core")


def _run_pi(arguments: argparse.Namespace) -> dict[str, Any]:
    return dataclasses.asdict(pi.compute(seconds=arguments.seconds, scale=arguments.scale, timer=pacing.ThreadTimer()))


def _run_phases(arguments: argparse.Namespace) -> dict[str, Any]:
    timer = pacing.ThreadTimer()
    found = phases.compute(arguments.workload, seconds=arguments.seconds, scale=arguments.scale, timer=timer)
    return dataclasses.asdict(found)


def _run_mlp(arguments: argparse.Namespace) -> dict[str, Any]:
    return dataclasses.asdict(mlp.compute(seconds=arguments.seconds, scale=arguments.scale, timer=pacing.ThreadTimer()))


def _run_train(arguments: argparse.Namespace) -> dict[str, Any]:
    memory_bytes = arguments.memory_bytes
    return dataclasses.asdict(
        train.compute(
            memory_bytes=round(_TRAIN_BYTES * arguments.scale) if memory_bytes is None else memory_bytes,
            seconds=arguments.seconds,
            passes=arguments.passes,
            scale=arguments.scale,
            timer=pacing.ThreadTimer(),
        )
    )


def _run_server(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the server until SIGTERM, SIGINT or `--seconds` (0: no limit); return the probe's latencies."""
    timer = pacing.ThreadTimer()
    stopping = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    end_s = timer.monotonic_s() + arguments.seconds if arguments.seconds > 0 else None

    def stopped(wait_s: float) -> bool:
        left_s = wait_s if end_s is None else min(wait_s, max(0.0, end_s - timer.monotonic_s()))
        return stopping.wait(left_s) or (end_s is not None and timer.monotonic_s() >= end_s)

    running = server.Server(
        host=arguments.host, port=arguments.port, work_s=arguments.work_ms / 1e3, scale=arguments.scale, timer=timer
    )
    running.start()
    print(json.dumps({"listening": f"{arguments.host}:{running.port}"}), flush=True)
    if arguments.probe_hz > 0:
        server.probe(running, host=arguments.host, rate_hz=arguments.probe_hz, stopped=stopped, timer=timer)
    else:
        while not stopped(1.0):
            pass
    running.stop()
    return {"answered": running.answered, **dataclasses.asdict(running.recorder.latency())}


def _run_app(arguments: argparse.Namespace) -> dict[str, Any]:
    chosen = program.PodOptions(
        service=arguments.service, address=arguments.address, scale=arguments.scale, directory=arguments.directory,
        delay_ms=arguments.delay_ms, rate_mbit=arguments.rate_mbit,
    )  # fmt: skip
    return program.run(chosen)


def _report(line: str, message_path: str | None) -> None:
    print(line, flush=True)
    if message_path:
        # The line is on stdout already: without a message file the Pod still succeeds.
        with contextlib.suppress(OSError):
            pathlib.Path(message_path).write_text(line, encoding="utf-8")


def _bytes(text: str) -> int:
    try:
        return round(amounts.parse_quantity(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive_int(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected a whole number of at least 1")
    return int(text)
