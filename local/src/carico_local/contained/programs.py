"""Kubelet and agent of a contained node, imported before the fork; this import takes most of a start.

The agent imports some modules only when its settings ask for them: they are imported here, so that no fork has to. The
image holds the bytecode of exactly the modules that this one imports.
"""

import sys

# A contained agent learns of Pods from Kubernetes (settings.agent_flags).
from carico_agent import __main__ as agent_main
from carico_agent import service as _agent_service
from carico_agent.pod_events import kubernetes as _agent_pods
from carico_core.runtime.bus import services as _services
from carico_core.runtime.bus.security import nkeys as _nkeys
from carico_local.contained import pair, settings
from carico_local.node import app as node_app

PRELOADED = (_agent_service, _agent_pods, _services, _nkeys)


def kubelet(node: settings.ContainedNode) -> pair.Program:
    """Return the kubelet of a node."""
    return lambda: node_app.main(settings.kubelet_flags(node))


def agent(node: settings.ContainedNode) -> pair.Program:
    """Return the agent of a node."""

    def run() -> int:
        sys.argv[:] = ["carico-agent", *settings.agent_flags(node)]
        return agent_main.main()

    return run
