"""The first process of a container that is a node."""

import gc
import importlib
import os
import random
import socket
import time
from collections.abc import Sequence
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import settings as reading
from carico_core.runtime.process import tasks
from carico_local.contained import commands, identity, pair, settings, size


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit code of the container."""
    pair.heed()
    try:
        chosen = reading.load(
            settings.ContainerSettings, prefix=settings.PREFIX, argv=argv, program=settings.PROGRAM
        )  # fmt: skip
        node = _node(chosen)
    except errors.UserError as error:
        return tasks.report(error, program=settings.PROGRAM)
    logs.setup(service="contained")
    log = logs.get("contained")
    log.info("node", node=node.name, address=node.address, cores=chosen.cores, scale=node.scale,
             memory_bytes=node.size.memory_bytes)  # fmt: skip
    if node.size.without:
        note = "pressure is taken from how long processes wait for a CPU"
        log.warning("fallback", fallback="process-accounting", why=node.size.without, note=note)
    node.chosen.root.mkdir(parents=True, exist_ok=True)
    # Left by a container that was killed and is started again: the node is not ready yet.
    node.ready_file.unlink(missing_ok=True)
    return _run(node)


def _run(node: commands.Node) -> int:
    # What modules are made of stays: to look for garbage among it 170 times is a fifteenth of their import. The pair
    # enables it again.
    gc.disable()
    # What forks must have one thread, and OpenBLAS starts one for each CPU.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    containers: Any = importlib.import_module("carico_local.contained.containers")
    # Its collector passes over what both have.
    gc.freeze()
    pair.fork(containers.runtime(node))
    programs: Any = importlib.import_module("carico_local.contained.programs")
    return pair.Pair(kubelet=programs.kubelet(node), agent=programs.agent(node), pause=time.sleep).run()


def _node(chosen: settings.ContainerSettings) -> commands.Node:
    try:
        address = identity.address()
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"this container has no address under its own name {socket.gethostname()} ({error}): give it a network"
        ) from error
    found = size.read()
    size.check(found)
    # Whatever differs from container to container; only a DNS query is numbered by it.
    name = chosen.name or identity.node_name(address, rng=random.Random(address))
    return commands.Node(chosen=chosen, name=name, address=address, size=found)
