"""One API per session and kind of control plane, and a namespace of its own for each test."""

import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.kubernetes import control_planes

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session", params=sorted(control_planes.CONTROL_PLANES))
def kube_api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A running Kubernetes API."""
    directory = tmp_path_factory.mktemp(request.param)
    with control_planes.CONTROL_PLANES[request.param](directory) as api:
        yield api


def unique(word: str) -> str:
    """A name that no other test uses."""
    return f"{word}-{os.getpid()}-{next(_NUMBERS)}"


@pytest.fixture
def namespace(kube_api: control_planes.KubeApi) -> Iterator[str]:
    """A namespace that ends with the test."""
    name = unique("contract")
    made = kube_api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert made.code == 201, made.body
    _await_service_account(kube_api, name)
    yield name
    kube_api.request("DELETE", f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds=0)
    kube_api.request("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def node(kube_api: control_planes.KubeApi) -> Iterator[str]:
    """A Node that ends with the test."""
    name = unique("node")
    made = kube_api.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    assert made.code == 201, made.body
    yield name
    kube_api.request("DELETE", f"/api/v1/nodes/{name}")


def _await_service_account(api: control_planes.KubeApi, namespace: str) -> None:
    """A real control plane makes the account a moment after the namespace, and refuses Pods until then."""
    for _ in range(100):
        if api.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default").code == 200:
            return
        time.sleep(0.05)
