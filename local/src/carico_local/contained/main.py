"""The first process of a container that is a node."""

import gc
import importlib
import os
import pathlib
import random
import socket
import time
from typing import Any

from carico_core.domain import errors
from carico_core.runtime.observe import logs
from carico_core.runtime.process import settings as reading
from carico_core.runtime.process import tasks
from carico_local.contained import identity, pair, settings, size


def main() -> int:
    """Return the exit code of the container."""
    pair.exit_on_signals()
    try:
        chosen = reading.load(settings.ContainerSettings, prefix=settings.PREFIX, program=settings.PROGRAM)
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
    # A container that was killed and started again finds its old file, but the node is not ready yet.
    node.ready_file.unlink(missing_ok=True)
    return _run(node)


def _run(node: settings.ContainedNode) -> int:
    # Module objects are never garbage: scanning them 170 times is a fifteenth of the import time. The pair enables the
    # collector again.
    gc.disable()
    # A process that forks must have one thread, and OpenBLAS starts one for each CPU.
    os.putenv("OPENBLAS_NUM_THREADS", "1")
    # The parent of the node's containers is forked before kubelet and agent are imported: its Pods are forks of it in
    # turn and would each hold the memory of both. As a program of its own, as on other nodes, it would import numpy
    # once more on half a CPU.
    zygote: Any = importlib.import_module("carico_local.node.runtime.zygote")
    # The collector skips the objects that both processes share.
    gc.freeze()
    pair.fork(lambda: containers(zygote, node))
    programs: Any = importlib.import_module("carico_local.contained.programs")
    return pair.Pair(kubelet=programs.kubelet(node), agent=programs.agent(node), pause=time.sleep).run()


def containers(zygote: Any, node: settings.ContainedNode) -> int:
    """Run the zygote that the kubelet finds in its directory; if it ends, the kubelet starts another."""
    gc.enable()
    zygote.serve(node.chosen.root, node.chosen.closed)
    return tasks.EXIT_OK


def _node(chosen: settings.ContainerSettings) -> settings.ContainedNode:
    try:
        address = identity.address()
    except OSError as error:
        raise errors.EnvironmentUnfit(
            f"this container has no address under its own name {socket.gethostname()} ({error}): give it a network"
        ) from error
    found = size.read()
    size.check(found)
    # The seed has to differ between containers; it only chooses the id of a DNS query.
    name = chosen.name or identity.node_name(address, rng=random.Random(address))
    key = settings.bus_key(pathlib.Path(chosen.bus_keys), name) if chosen.bus_keys else None
    return settings.ContainedNode(chosen=chosen, name=name, address=address, size=found, bus_key=key)
