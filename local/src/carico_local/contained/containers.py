"""The parent of the node's containers, as a fork of the first process: importing this is what it needs, and no more.

Its Pods are forks of it in turn. From a process that has imported kubelet and agent too they would each hold what those
hold; a program of its own, which the kubelet starts on other nodes, imports numpy once more on half a CPU.
"""

import gc

from carico_core.runtime.process import tasks
from carico_local.contained import commands, pair
from carico_local.node.runtime import zygote


def runtime(node: commands.Node) -> pair.Program:
    """Return the zygote that a kubelet finds in its directory; if it ends, the kubelet starts another."""

    def run() -> int:
        gc.enable()
        zygote.serve(node.chosen.root)
        return tasks.EXIT_OK

    return run
