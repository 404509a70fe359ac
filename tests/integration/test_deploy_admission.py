"""The shipped admission policy on a real API server: it sends the Pods of labelled namespaces to CARICO."""

import asyncio
import contextlib
import pathlib
from typing import Any

import yaml

from carico_core.domain import errors
from carico_core.runtime.kube import api_client
from tests.tools import waiting

POLICY = pathlib.Path(__file__).parents[2] / "deploy/admission/scheduler-name.yaml"
GROUP = "/apis/admissionregistration.k8s.io/v1"
PATHS = {
    "MutatingAdmissionPolicy": f"{GROUP}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{GROUP}/mutatingadmissionpolicybindings",
}


async def test_the_pods_of_a_labelled_namespace_name_carico(real_api: api_client.KubeClient) -> None:
    api = real_api

    async def schedulers(namespace: str) -> list[str]:
        """Return the schedulerName of a Pod that names none, and of one that names volcano."""
        found = []
        for spec in ({}, {"schedulerName": "volcano"}):
            body: dict[str, Any] = {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tried"},
                "spec": {"containers": [{"name": "main", "image": "pi"}], "automountServiceAccountToken": False} | spec,
            }  # fmt: skip
            # Nothing is stored, so that no scheduler sees them.
            path = f"/api/v1/namespaces/{namespace}/pods"
            made = await api.request("POST", path, body=body, params={"dryRun": "All"})
            found.append(made["spec"]["schedulerName"])
        return found

    documents = list(yaml.safe_load_all(POLICY.read_text()))
    try:
        for name, labels in (("sent", {"carico.dev/scheduler": "carico"}), ("left", {})):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
            await api.request("POST", "/api/v1/namespaces", body=body)
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            with contextlib.suppress(errors.Conflict):
                await api.request("POST", f"/api/v1/namespaces/{name}/serviceaccounts", body=account)
        for document in documents:
            await api.request("POST", PATHS[document["kind"]], body=document)
        async with asyncio.timeout(waiting.WAIT_S):
            # The API server takes a new policy in within seconds.
            while await schedulers("sent") != ["carico", "volcano"]:
                await asyncio.sleep(0.2)
        assert await schedulers("left") == ["default-scheduler", "volcano"]
    finally:
        for document in documents:
            await api.request("DELETE", f"{PATHS[document['kind']]}/{document['metadata']['name']}")
