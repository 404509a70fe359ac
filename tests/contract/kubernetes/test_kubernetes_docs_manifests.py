"""The manifests of the docs, as people copy them: a real API server takes each, the embedded API its Pods, and it names
where the others are taken.
"""

import pathlib
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.contract.kubernetes import control_planes
from tests.tools import kubernetes, waiting
from tests.tools.sites import recommender_site

ROOT = pathlib.Path(__file__).parents[3]
PAGES = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "deploy/README.md")
BLOCKS = (
    re.compile(r"^ *```yaml\n(.*?)^ *```", re.M | re.S),
    re.compile(r"kubectl apply -f - <<END\n(.*?)^END$", re.M | re.S),
)
COLLECTIONS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "VerticalPodAutoscaler": "/apis/autoscaling.k8s.io/v1/namespaces/{}/verticalpodautoscalers",
}


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each with its page. What the docs show of a Pod is completed to one."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in (match[1] for block in BLOCKS for match in block.finditer(text)):
            manifest = yaml.safe_load(textwrap.dedent(found))
            if "kind" not in manifest and manifest.keys() <= {"metadata", "spec"}:
                spec = {**manifest["spec"], "containers": [{"name": "main", "image": "any", "command": ["sleep", "5"]}]}
                metadata = {"name": "copied", **manifest["metadata"]}
                manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
            # The rest are parts of a kustomization.
            if "kind" in manifest:
                yield page.name, manifest


FOUND = list(manifests())


def test_the_docs_have_manifests_of_each_kind() -> None:
    assert {manifest["kind"] for _, manifest in FOUND} == COLLECTIONS.keys()


@pytest.mark.parametrize(("page", "manifest"), FOUND, ids=[f"{page}-{each['kind']}" for page, each in FOUND])
def test_a_manifest_of_the_docs_is_taken(
    kube_api: control_planes.KubeApi, namespace: str, page: str, manifest: dict[str, Any]
) -> None:
    is_real, kind = kube_api.kind == "real", manifest["kind"]
    place = {"namespace": namespace} if "{}" in COLLECTIONS[kind] else {}
    body = {**manifest, "metadata": {**manifest["metadata"], **place}}

    def post() -> control_planes.Answer:
        return kube_api.request(
            "POST", COLLECTIONS[kind].format(namespace), body, dryRun="All", fieldValidation="Strict"
        )

    if is_real and kind == "VerticalPodAutoscaler":
        kubernetes.kubectl(
            "apply", "--server-side", "--filename", str(recommender_site.CRD), kubeconfig=kube_api.kubeconfig
        )
        # The server states that a kind is established a moment before it serves it.
        waiting.until_now(lambda: post().code != 404)
    made = post()
    if is_real or kind == "Pod":
        assert made.code == 201, made.body
    else:
        assert made.code == 404 and "carico up --control-plane real" in made.body["message"]
