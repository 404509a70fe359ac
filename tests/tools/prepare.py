"""Fetch and build what tests of processes need while others run: `programs` (packages and wheels, too), or `images`.

No test depends on it: a test that needs a part builds it where it is missing. So a failure is reported by the test.
"""

import argparse
import functools
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

import pytest

from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local.binaries import tools
from carico_local.control_plane import commands, standalone
from carico_local.kubelets import programs
from tests.tools import chromium, debian, kubernetes, observe
from tests.tools.docker import docker_engine, images

# Each is one attempt; what is of one module is built together.
PROGRAMS: Sequence[tuple[str, ...]] = (
    (*standalone.ALL, commands.SCHEDULER, "kubectl", *programs.KUBERNETES),
    ("docker-compose",), ("nats",), ("metrics-server",), ("helm",),
)  # fmt: skip
BASES = (images.BASE_PACKAGES, (*images.BASE_PACKAGES, *images.NODE_PACKAGES))


def main() -> None:
    """Prepare what is asked for, with a line for each part that failed. Its engine ends with it, also on SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=STEPS)
    asked: list[str] = parser.parse_args().parts
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if debian.allowed() is not None:
        return
    for name in asked:
        for step in STEPS[name]:
            _attempt(step)


def _attempt(step: Callable[[], object]) -> None:
    try:
        step()
    except (Exception, pytest.skip.Exception) as error:  # the boundary of one part: the others are prepared
        print(f"not prepared: {error!r}", file=sys.stderr)


def _packages() -> None:
    for packages in (docker_engine.PACKAGES, debian.CONTAINERD, debian.NODE, observe.PROMETHEUS):
        debian.unpacked(packages)
    chromium.command()
    images.wheels()


def _programs(names: Sequence[str]) -> None:
    tools.obtain(names, environ=settings.environment(), clock=clocks.SystemClock(), report=lambda _: None)


def _images() -> None:
    with docker_engine.running() as found:
        first, *_ = [docker_engine.base_image(found, *packages) for packages in BASES]
        for target in (*images.TARGETS, *images.COMPOSE_TARGETS):
            images.build(found, base=first, target=target)


def _image_of_kube() -> None:
    found_programs = kubernetes.programs(*images.KUBE_PROGRAMS)
    with docker_engine.running() as found:
        images.build_kube(found, {name: program.path for name, program in found_programs.items()})


STEPS: Mapping[str, Sequence[Callable[[], None]]] = {
    "programs": (_packages, *(functools.partial(_programs, names) for names in PROGRAMS)),
    "images": (_images, _image_of_kube),
}

if __name__ == "__main__":
    main()
