"""The recommender on a real API server with VPA's own CRD: with the rights that deploy/k8s gives it, and no others."""

import base64
import contextlib
import json
import pathlib
import ssl
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import yaml
from aiohttp import web

from carico_core.domain import amounts, errors
from carico_core.runtime.kube import api_client
from carico_local.control_plane import standalone
from carico_recommender.admission import registration
from tests.tools import kubernetes, waiting
from tests.tools.sites import recommender_site

VPAS, vpa = recommender_site.VPAS, recommender_site.vpa


@pytest.fixture(scope="module")
def kubeconfig(
    real_control_plane: standalone.Standalone, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[pathlib.Path]:
    """A kubeconfig of the component's ServiceAccount, on a cluster with the CRD."""
    with recommender_site.installed(real_control_plane.kubeconfig, tmp_path_factory.mktemp("recommender")) as path:
        yield path


async def test_statuses_are_what_vpa_defines_and_follow_what_is_learnt(
    real_api: api_client.KubeClient, kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    async def status(name: str) -> dict[str, Any]:
        found = await real_api.request("GET", f"{VPAS}/{name}")
        return dict(found.get("status") or {})

    async def target(name: str) -> dict[str, str]:
        recommendation = (await status(name)).get("recommendation") or {"containerRecommendations": [{"target": {}}]}
        return dict(recommendation["containerRecommendations"][0]["target"])

    for body in (
        vpa("web"),
        vpa("bounded", {"containerName": "*", "maxAllowed": {"cpu": "200m"}}),
        vpa("contradicts", {"containerName": "*", "minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1"}}),
        vpa("gone", target="nothing"),
        vpa("foreign", recommender="another"),
    ):
        await real_api.request("POST", VPAS, body=body)
    async with recommender_site.learning(tmp_path) as (aggregator, url):
        with recommender_site.recommender(tmp_path, url, kubeconfig):
            await waiting.answered(lambda: status("gone"))
            await waiting.answered(lambda: status("bounded"))
            found = await waiting.answered(lambda: status("web"))
            (container,) = found["recommendation"]["containerRecommendations"]
            # Nothing of it was pruned by the CRD.
            assert container["containerName"] == "main"
            assert container["target"] == container["uncappedTarget"] == {"cpu": "538m", "memory": "115Mi"}
            assert set(container) == {"containerName", "target", "uncappedTarget", "lowerBound", "upperBound"}
            assert [(each["type"], each["status"]) for each in found["conditions"]] == [
                ("RecommendationProvided", "True")
            ]
            assert await target("bounded") == {"cpu": "200m", "memory": "115Mi"}
            said = await waiting.answered(lambda: status("contradicts"))
            assert "recommendation" not in said
            assert [each["type"] for each in said["conditions"]] == ["ConfigUnsupported", "RecommendationProvided"]
            assert "is above its maxAllowed" in said["conditions"][0]["message"]
            assert (await status("gone"))["conditions"][0]["type"] == "NoPodsMatched"
            assert await status("foreign") == {}
            # A changed class, and a changed specification.
            aggregator.by_name["ReplicaSet/vpa-shop/web"] = 1.0
            await waiting.answered(lambda: target("web"), lambda found: amounts.parse_quantity(found["cpu"]) > 1.0)
            patch = {"spec": {"resourcePolicy": {"containerPolicies": [{"minAllowed": {"cpu": "2"}}]}}}
            await real_api.request("PATCH", f"{VPAS}/bounded", body=patch, content_type="application/merge-patch+json")
            await waiting.answered(lambda: target("bounded"), lambda found: found["cpu"] == "2")
        lease = "/apis/coordination.k8s.io/v1/namespaces/carico/leases/carico-recommender"
        # Stopped in order, it has released its Lease, so that another replica takes over at once.
        assert not (await real_api.request("GET", lease))["spec"].get("holderIdentity")


def pod(*containers: str) -> dict[str, Any]:
    """A Pod of the Deployment `web`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "web-",
            "labels": {"pod-template-hash": "5d9c7"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d9c7", "uid": "u", "controller": True}
            ],
        },
        "spec": {
            "containers": [{"name": name, "image": "i"} for name in containers],
            "automountServiceAccountToken": False,
        },
    }


@contextlib.asynccontextmanager
async def a_later_webhook(api: api_client.KubeClient, folder: pathlib.Path) -> AsyncIterator[None]:
    """A webhook that comes after ours and adds a container with requests, as meshes do."""

    async def add(request: web.Request) -> web.Response:
        asked = (await request.json())["request"]
        response = {"uid": asked["uid"], "allowed": True}
        if all(each["name"] != "mesh" for each in asked["object"]["spec"]["containers"]):
            added = {"name": "mesh", "image": "i", "resources": {"requests": ADDED}}
            patch = [{"op": "add", "path": "/spec/containers/-", "value": added}]
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    app = web.Application()
    app.router.add_post("/", add)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    (found,) = yaml.safe_load_all(MESH)
    authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    url = f"https://127.0.0.1:{runner.addresses[0][1]}/"
    found["webhooks"][0]["clientConfig"] = {"url": url, "caBundle": authority}
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    await api.request("POST", path, body=found)
    try:
        yield
    finally:
        await api.request("DELETE", f"{path}/{found['metadata']['name']}")
        await runner.cleanup()


ADDED = {"cpu": "2", "memory": "1Gi"}
MESH = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: later-mesh}
webhooks:
  - name: mesh.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    timeoutSeconds: 10
    namespaceSelector: {matchLabels: {carico.dev/learnt-requests: "true"}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
"""


async def test_new_pods_get_learnt_requests_and_none_is_blocked(
    real_control_plane: standalone.Standalone, real_api: api_client.KubeClient, kubeconfig: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:  # fmt: skip
    async def made(*containers: str, namespace: str = "vpa-shop") -> dict[str, Any]:
        """Return the specification that a Pod gets; nothing is stored."""
        body = pod(*containers)
        body["spec"]["serviceAccountName"] = "plain"
        path = f"/api/v1/namespaces/{namespace}/pods"
        return dict((await real_api.request("POST", path, body=body, params={"dryRun": "All"}))["spec"])

    async def resources() -> dict[str, Any]:
        return dict((await made("main"))["containers"][0]["resources"])

    wanted = {"requests": {"cpu": "538m", "memory": "115Mi"}}
    admin = real_control_plane.kubeconfig
    kubernetes.kubectl("create", "serviceaccount", "plain", "--namespace", "vpa-shop", kubeconfig=admin)
    with recommender_site.admitting(admin, tmp_path) as flags:
        # Before the webhook runs, Pods are created as they are.
        assert await resources() == {}
        async with recommender_site.learning(tmp_path) as (_, url):
            with recommender_site.recommender(tmp_path, url, kubeconfig, *flags):
                # The recommender itself writes the authority, by its one right to that configuration.
                assert await waiting.answered(resources) == wanted
                several = await made("main", "proxy")
                assert several["resources"] == wanted
                assert [each["resources"] for each in several["containers"]] == [{}, {}]
                # A quota that counts Pods with requests only, and has no room for one, blocks none.
                quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "0"}, "scopes": ["NotBestEffort"]}}
                quotas = "/api/v1/namespaces/vpa-shop/resourcequotas"
                await real_api.request("POST", quotas, body=quota)
                assert await waiting.answered(resources, lambda found: not found) == {}
                await real_api.request("DELETE", f"{quotas}/full")
                assert await waiting.answered(resources) == wanted
                async with a_later_webhook(real_api, tmp_path / "tls"):
                    mixed = await waiting.answered(
                        lambda: made("main", "proxy"), lambda found: len(found["containers"]) == 3
                    )
                    # Less than the requests of the added container would be refused.
                    assert not mixed.get("resources")
                    alone = await made("main")
                    assert [each["resources"] for each in alone["containers"]] == [wanted, {"requests": ADDED}]
                spec = {"metadata": {"labels": None}}
                await real_api.request(
                    "PATCH", "/api/v1/namespaces/vpa-shop", body=spec, content_type="application/merge-patch+json"
                )
                assert await waiting.answered(resources, lambda found: not found) == {}


BURSTABLE = recommender_site.ROOT / "deploy/admission/burstable.yaml"


async def test_a_token_request_of_the_shipped_policy_gives_way_to_a_learnt_one(
    real_control_plane: standalone.Standalone, real_api: api_client.KubeClient, kubeconfig: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:  # fmt: skip
    async def resources(**owner: str) -> dict[str, Any]:
        """Return those of a Pod of the Deployment `web`, or of another owner; nothing is stored."""
        body = pod("main")
        body["metadata"]["ownerReferences"][0] |= owner
        path = "/api/v1/namespaces/vpa-shop/pods"
        found = await real_api.request("POST", path, body=body, params={"dryRun": "All"})
        return dict(found["spec"]["containers"][0]["resources"])

    admin, token = real_control_plane.kubeconfig, {"requests": {"cpu": "1m"}}
    kubernetes.kubectl("apply", "--filename", str(BURSTABLE), kubeconfig=admin)
    kubernetes.kubectl("label", "namespace", "vpa-shop", "carico.dev/burstable=true", kubeconfig=admin)
    account = {"metadata": {"name": "default"}}
    with contextlib.suppress(errors.Conflict):
        await real_api.request("POST", "/api/v1/namespaces/vpa-shop/serviceaccounts", body=account)
    try:
        with recommender_site.admitting(admin, tmp_path) as flags:
            assert await waiting.answered(resources) == token
            async with recommender_site.learning(tmp_path) as (_, url):
                with recommender_site.recommender(tmp_path, url, kubeconfig, *flags):
                    learnt = await waiting.answered(resources, lambda found: found != token)
                    assert learnt == {"requests": {"cpu": "538m", "memory": "115Mi"}}
                    # Of a class that is not known it stays: such a Pod is Burstable, too.
                    assert await resources(name="another-5d9c7") == token
    finally:
        kubernetes.kubectl("delete", "--filename", str(BURSTABLE), kubeconfig=admin)
        kubernetes.kubectl("label", "namespace", "vpa-shop", "carico.dev/burstable-", kubeconfig=admin)


# As a JSON patch (RFC 6902): what the recommender writes, and what the same right would allow.
AUTHORITY = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": base64.b64encode(b"ours").decode()}
FOREIGN: list[dict[str, Any]] = [
    {"op": "replace", "path": "/webhooks/0/rules/0/resources", "value": ["*/*"]},
    {"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": "https://192.0.2.1/"},
    {"op": "remove", "path": "/webhooks/0/namespaceSelector"},
    {"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"},
    {"op": "add", "path": "/webhooks/0/matchConditions", "value": [{"name": "x", "expression": "true"}]},
    {"op": "replace", "path": "/webhooks", "value": []},
    {"op": "copy", "from": "/webhooks/0", "path": "/webhooks/-"},
    {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},
]


async def test_of_its_webhook_the_recommender_may_change_the_authority_alone(
    real_control_plane: standalone.Standalone, kubeconfig: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    chosen = api_client.KubeSettings(kubeconfig=str(kubeconfig))
    path = registration.PATH.format(name="carico-recommender")

    async def refusal(*changes: dict[str, Any]) -> str:
        kind = "application/json-patch+json"
        try:
            await api.request("PATCH", path, body=[*changes], content_type=kind, params={"dryRun": "All"})
        except errors.ApiError as error:
            return str(error)
        return ""

    api = await api_client.connect(chosen, clock=recommender_site.CLOCK, user_agent="test")
    try:
        with recommender_site.admitting(real_control_plane.kubeconfig, tmp_path):
            # The API server takes the policy in within seconds.
            await waiting.answered(lambda: refusal(FOREIGN[0]))
            assert await refusal(AUTHORITY) == ""
            second = {"op": "replace", "path": "/webhooks/1/name", "value": "second.carico.dev"}
            for change in FOREIGN:
                changes = [change, second] if change["op"] == "copy" else [change]
                for each in (changes, [AUTHORITY, *changes]):
                    assert "may change nothing but clientConfig.caBundle" in await refusal(*each), change
    finally:
        await api.close()
