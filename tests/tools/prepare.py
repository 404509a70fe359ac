"""Fetch and build what late tests need while checks and quick tests run: programs, packages, wheels, images.

No test depends on it: a test that needs a part waits by the part's lock while it is built, and builds what is missing.
So a failure is reported by the test.
"""

import signal
import sys
from collections.abc import Callable, Sequence

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings
from carico_local.binaries import tools
from carico_local.control_plane import commands, standalone
from carico_local.kubelets import programs
from tests.tools import chromium, debian, kubernetes, observe
from tests.tools.docker import docker_engine, images

# The first tests on an engine are those of docker-compose.yml.
ENGINE = ("docker-compose", "nats")
CLUSTER = (*standalone.ALL, commands.SCHEDULER, "kubectl", *programs.KUBERNETES)
BASES = (images.BASE_PACKAGES, (*images.BASE_PACKAGES, *images.NODE_PACKAGES))


def main() -> None:
    """Prepare all parts, with a line for each that failed. Its engine ends with it, also on SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if debian.allowed() is not None:
        return
    for step in (
        _packages,
        lambda: _programs(ENGINE),
        _images,
        lambda: _programs(CLUSTER),
        _image_of_kube,
        lambda: _programs(("metrics-server",)),
        lambda: _programs(("helm",)),
    ):
        _attempt(step)


def _attempt(step: Callable[[], object]) -> None:
    try:
        step()
    except (errors.EnvironmentUnfit, pytest.skip.Exception, AssertionError) as error:
        print(f"not prepared: {error}", file=sys.stderr)


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


if __name__ == "__main__":
    main()
