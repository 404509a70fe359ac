"""The logs of a Pod, fetched from the kubelet of its node.

kube-apiserver requests `https://NODE:PORT/containerLogs/NAMESPACE/POD/CONTAINER`; emulated kubelets listen on loopback
and use plain HTTP, on the same path. Source: k8s.io/kubernetes/pkg/registry/core/pod/strategy.go (LogLocation).
"""

import urllib.parse

from carico_core.runtime.process.connections import aiohttp, web
from carico_local.api import access
from carico_local.api.model import objects, resources, statuses
from carico_local.api.storage import store

_PASSED_ON = (
    "follow",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "timestamps",
    "tailLines",
    "limitBytes",
    "stream",
)
_CONNECT_S = 5.0


class Proxy:
    """Forwards log requests to kubelets."""

    def __init__(self, kept: store.Store, *, token: str) -> None:
        self._store = kept
        self._token = token
        self._session: aiohttp.ClientSession | None = None

    async def logs(self, request: web.Request, target: resources.Target) -> web.StreamResponse:
        """Answer with the logs of one container, streamed to their end."""
        pod = self._store.get("pods", (target.namespace, target.name))
        if pod is None:
            raise statuses.not_found("pods", target.name)
        container = _container(pod.data, request.query.get("container", ""))
        node_name = pod.data["spec"].get("nodeName", "")
        if not node_name:
            # A Pod without a node has no logs yet, which is not an error.
            return web.Response(text="")
        path = f"/containerLogs/{target.namespace}/{target.name}/{container}"
        query = {name: request.query[name] for name in _PASSED_ON if name in request.query}
        url = f"{self._address(node_name)}{path}?{urllib.parse.urlencode(query)}"
        headers = {"Authorization": f"Bearer {access.kubelet_token(self._token, node_name)}"}
        try:
            async with self._client().get(url, headers=headers) as source:
                return await _pass_on(request, source)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise statuses.internal(f'Get "{url}": {error or type(error).__name__}') from error

    async def close(self) -> None:
        """Close the connections to kubelets."""
        if self._session is not None:
            await self._session.close()

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
            self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=False)
        return self._session

    def _address(self, node_name: str) -> str:
        node = self._store.get("nodes", ("", node_name))
        if node is None:
            raise statuses.not_found("nodes", node_name)
        status = node.data.get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        hosts = [item.get("address") for item in status.get("addresses") or () if item.get("type") == "InternalIP"]
        if not port or not hosts or not hosts[0]:
            raise statuses.internal(
                f"node {node_name} reports no InternalIP or kubelet port, so its logs cannot be read"
            )
        return f"http://{hosts[0]}:{port}"


def _container(pod: objects.Object, asked: str) -> str:
    spec, name = pod["spec"], pod["metadata"]["name"]
    known = [item["name"] for group in ("containers", "initContainers") for item in spec.get(group) or ()]
    if asked and asked not in known:
        raise statuses.bad_request(f"container {asked} is not valid for pod {name}")
    if asked:
        return asked
    if len(known) > 1:
        choices = " ".join(item["name"] for item in spec["containers"])
        raise statuses.bad_request(f"a container name must be specified for pod {name}, choose one of: [{choices}]")
    return str(known[0])


async def _pass_on(request: web.Request, source: aiohttp.ClientResponse) -> web.StreamResponse:
    if source.status != 200:
        text = (await source.content.read(4096)).decode(errors="replace").strip()
        if source.status == 404:
            raise statuses.RequestFailed(404, "NotFound", text or "the kubelet has no such container")
        raise statuses.RequestFailed(source.status, "BadRequest" if source.status == 400 else "Unknown", text)
    response = web.StreamResponse(headers={"Content-Type": "text/plain"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        async for chunk in source.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
    except ConnectionError:
        return response
    except aiohttp.ClientError:
        # The kubelet disconnected; what it had sent has been forwarded.
        await response.write_eof()
    return response
