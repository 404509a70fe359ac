"""How each service of a cluster is checked, by its name.

A module of its own, since `carico status` needs nothing else of how services are started.
"""

from carico_local.cluster import plan as plans
from carico_local.cluster.services import readiness

NATS = "nats"
# kwok plays the kubelets of nodes that are only played.
KWOK = "kwok"
# metrics.k8s.io for real kubelets.
METRICS = "metrics-server"
API, ETCD, CONTROLLERS, KUBE_SCHEDULER = "api", "etcd", "kube-controller-manager", "kube-scheduler"


def control_plane(plan: plans.Plan) -> list[str]:
    """Return the names of the control plane's services."""
    if plan.control_plane is plans.ControlPlane.EMBEDDED:
        return [API]
    return [ETCD, API, CONTROLLERS, KUBE_SCHEDULER]


def of(plan: plans.Plan, name: str, port: int) -> readiness.Check:
    """Return the readiness check of a service that listens."""
    if name == NATS:
        return readiness.Tcp(port=port)
    if name == ETCD:
        # It has a health page for its API server alone, and sets up TLS once it serves that.
        return readiness.Tls(port=port)
    if name == KWOK:
        return readiness.Http(port=port, path="/healthz")
    if name == METRICS:
        # It is ready only once it has figures, half a minute later.
        return readiness.Http(port=port, path="/livez", tls=True)
    if plan.control_plane is plans.ControlPlane.REAL and name in control_plane(plan):
        return readiness.Http(port=port, path="/readyz" if name == API else "/healthz", tls=True)
    return readiness.Http(port=port)
