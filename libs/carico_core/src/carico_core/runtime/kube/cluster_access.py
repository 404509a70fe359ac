"""How to reach the Kubernetes API: from in-cluster files or a kubeconfig."""

import dataclasses
import os.path
import pathlib
from collections.abc import Mapping

from carico_core.runtime.kube import access as accesses
from carico_core.runtime.kube import kubeconfig as kubeconfigs
from carico_core.runtime.process import clock as clocks
from carico_core.runtime.process import settings

# https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/
SERVICE_ACCOUNT = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KubeSettings:
    """How the Kubernetes API is used."""

    kubeconfig: str = settings.setting(
        "", help="path of a kubeconfig; empty: $KUBECONFIG, else this Pod's service account, else ~/.kube/config"
    )
    context: str = settings.setting("", help="context of the kubeconfig; empty: its current one")
    in_flight: int = settings.setting(
        160,
        help="maximum number of concurrent requests, not counting watches",
        why="the binds of a scheduler and some others; the API server's priority level for workloads has 245 seats",
        minimum=1,
        maximum=1024,
    )
    rate_per_s: float = settings.setting(
        0.0,
        help="maximum number of requests per second, not counting watches; 0: no limit",
        unit="1/s",
        why="the API server itself limits clients fairly; for APIs that do not",
        minimum=0.0,
    )


def load(kubeconfig: str, *, context: str, environ: Mapping[str, str], clock: clocks.Clock) -> accesses.Access:
    """Return the access by `kubeconfig` (a path), else this Pod's service account, else $KUBECONFIG or ~/.kube/config.

    A service's settings have $KUBECONFIG as `kubeconfig` already, so that it comes before the service account. Blocks,
    as a plugin may run a process. Raises `KubeconfigError` with one line that a person can act on.
    """
    if not kubeconfig and (SERVICE_ACCOUNT / "token").is_file():
        return _in_cluster(environ=environ, clock=clock)
    return kubeconfigs.read(_path(kubeconfig, environ), context=context, clock=clock)


def own_namespace() -> str | None:
    """Return the namespace of the Pod that this process runs in; None outside of a Pod."""
    try:
        return (SERVICE_ACCOUNT / "namespace").read_text().strip() or None
    except OSError:
        return None


def context_namespace(kubeconfig: str, *, context: str, environ: Mapping[str, str]) -> str | None:
    """Return the namespace of the kubeconfig's context, as kubectl uses it; None if there is none."""
    if not kubeconfig and (SERVICE_ACCOUNT / "token").is_file():
        return own_namespace()
    return kubeconfigs.namespace_of(_path(kubeconfig, environ), context=context)


def _path(kubeconfig: str, environ: Mapping[str, str]) -> pathlib.Path:
    path = kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    return pathlib.Path(path.split(os.path.pathsep)[0]).expanduser()


def _in_cluster(*, environ: Mapping[str, str], clock: clocks.Clock) -> accesses.Access:
    """Return the access of a Pod's service account."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if ":" in host:
        host = f"[{host}]"
    tls = accesses.tls_context(str(SERVICE_ACCOUNT), cafile=str(SERVICE_ACCOUNT / "ca.crt"), cadata=None, verify=True)
    return accesses.Access(
        server=f"https://{host}:{port}",
        tls=tls,
        credentials=accesses.FileCredentials(SERVICE_ACCOUNT / "token", clock=clock),
    )
