"""Tokens of a real kube-apiserver, bound to Pods on nodes, with the interface of `fake_token_api`."""

import base64
import itertools
import json
import pathlib
import time
from typing import Any

from tests.contract.kubernetes import control_planes
from tests.tools import waiting
from tests.tools.api import fake_token_api

# The API issues no token with a shorter lifetime.
SHORTEST_LIFE_S = 600.0
AUTH_ACCOUNT = "carico/carico-auth"
# The callout's permissions in the cluster, and in its namespace.
AUTH_RULES = [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}]
AUTH_POD_RULES = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
_NUMBERS = itertools.count(1)


class RealTokens:
    """Makes ServiceAccounts, Pods and Nodes as they are needed."""

    def __init__(self, api: control_planes.KubeApi) -> None:
        self._api = api
        self._pods: dict[str, list[str]] = {}
        self._made: set[str] = set()

    @property
    def url(self) -> str:
        """Return the API's address."""
        return self._api.url

    def close(self) -> None:
        """Remove the cluster-wide objects that were created."""
        for node in list(self._pods):
            self.delete_pods_of(node)
            self._api.request("DELETE", f"/api/v1/nodes/{node}")

    def token(
        self, account: str, *, node: str | None = None, audience: str = fake_token_api.AUDIENCE,
        life_s: float = SHORTEST_LIFE_S,
    ) -> str:  # fmt: skip
        """Return a token of `namespace/name`, bound to a new Pod on `node` if one is given."""
        namespace, name = account.split("/")
        self._account(namespace, name)
        spec: dict[str, Any] = {"audiences": [audience], "expirationSeconds": int(life_s)}
        if node is not None:
            pod = self._pod(namespace, name, node)
            reference = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
            spec["boundObjectRef"] = reference
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self._create(path, body)["status"]["token"])

    def delete_pods_of(self, node: str) -> None:
        """Delete the Pods of a node, which invalidates tokens bound to them."""
        for path in self._pods.pop(node, []):
            self._api.request("DELETE", path, gracePeriodSeconds=0)
            while self._api.request("GET", path).code != 404:
                time.sleep(0.02)

    def write_kubeconfig(self, path: pathlib.Path) -> pathlib.Path:
        """Return a kubeconfig of the callout's ServiceAccount: it may review tokens, and see its namespace's Pods."""
        namespace, name = AUTH_ACCOUNT.split("/")
        self._account(namespace, name)
        rbac = "/apis/rbac.authorization.k8s.io/v1"
        self._create(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": AUTH_RULES})
        subject = {"kind": "ServiceAccount", "namespace": namespace, "name": name}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": role}
        self._create(f"{rbac}/clusterrolebindings", binding)
        inside = f"{rbac}/namespaces/{namespace}"
        self._create(f"{inside}/roles", {"metadata": {"name": name}, "rules": AUTH_POD_RULES})
        self._create(f"{inside}/rolebindings", {**binding, "roleRef": {**role, "kind": "Role"}})
        token = self._create(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", {"spec": {"expirationSeconds": 3600}}
        )["status"]["token"]
        authority = self._api.pool.connection_pool_kw["ca_certs"]
        data = base64.b64encode(pathlib.Path(authority).read_bytes()).decode()
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url, "certificate-authority-data": data}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": token}}],
        }  # fmt: skip
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def _account(self, namespace: str, name: str) -> None:
        self._create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self._create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        # A Pod may name it only once the API server's own cache has it.
        self._create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "default"}})

    def _pod(self, namespace: str, account: str, node: str) -> dict[str, Any]:
        self._create("/api/v1/nodes", {"metadata": {"name": node}})
        spec = {
            "serviceAccountName": account, "nodeName": node, "automountServiceAccountToken": False,
            "containers": [{"name": "c", "image": "none"}],
        }  # fmt: skip
        name = f"token-{next(_NUMBERS)}"
        path = f"/api/v1/namespaces/{namespace}/pods"
        made: dict[str, Any] = self._create(path, {"metadata": {"name": name}, "spec": spec})["metadata"]
        self._pods.setdefault(node, []).append(f"{path}/{name}")
        return made

    def _create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object and return it; {} if it existed."""
        deadline_s = time.monotonic() + waiting.WAIT_S
        while (answer := self._api.request("POST", path, body)).code == 403 and time.monotonic() < deadline_s:
            # The ServiceAccount has just been created.
            time.sleep(0.05)
        if answer.code == 409:
            return {}
        assert answer.code in (200, 201), (path, answer.code, answer.body)
        found: dict[str, Any] = answer.body
        return found
