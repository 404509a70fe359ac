"""Kubelet and agent of a contained node, imported and ready to be run in a fork: importing this takes most of a start.

What the agent imports only once it knows its settings is imported here by name, so that no fork has to; and all that a
node runs, since an image holds the bytecode of what importing this imports.
"""

import sys

# Kubernetes is where a contained agent hears of Pods (commands.agent).
from carico_agent import main as agent_main
from carico_agent import service as _agent_service
from carico_agent.pod_events import classes as _agent_classes
from carico_agent.pod_events import kubernetes as _agent_pods
from carico_local.contained import commands, pair
from carico_local.contained import containers as _containers
from carico_local.node import main as node_main

PRELOADED = (_agent_service, _agent_classes, _agent_pods, _containers)


def kubelet(node: commands.Node) -> pair.Program:
    """Return the kubelet of a node."""
    return lambda: node_main.main(commands.kubelet(node))


def agent(node: commands.Node) -> pair.Program:
    """Return the agent of a node."""

    def run() -> int:
        sys.argv[:] = ["carico-agent", *commands.agent(node)]
        return agent_main.main()

    return run
