"""Where the access to the API is found: in a Pod, in the environment, at the path that was given."""

import json
import os
import pathlib

import pytest

from carico_core.runtime.kube import access as accesses
from carico_core.runtime.kube import cluster_access
from carico_core.runtime.process import clock as clocks

SERVER = "https://127.0.0.1:6443"


def written(folder: pathlib.Path) -> pathlib.Path:
    """A kubeconfig of `SERVER`."""
    document = {
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": {"server": SERVER}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / "config"
    path.write_text(json.dumps(document))
    return path


def load(path: pathlib.Path | str, **environ: str) -> accesses.Access:
    return cluster_access.load(str(path), context="", environ=environ, clock=clocks.FakeClock())


async def test_in_a_pod(tmp_path: pathlib.Path, authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("pod")
    (tmp_path / "ca.crt").write_text(authority)
    monkeypatch.setattr(cluster_access, "SERVICE_ACCOUNT", tmp_path)
    access = load("", KUBERNETES_SERVICE_HOST="fd00::1", KUBERNETES_SERVICE_PORT="6443", KUBECONFIG="/none")
    assert access.server == "https://[fd00::1]:6443"
    assert await access.credentials.authorization() == "Bearer pod"
    assert load("").server == "https://kubernetes.default.svc:443"
    # A kubeconfig that was asked for wins.
    assert load(written(tmp_path)).server == SERVER


def test_kubeconfig_of_the_environment(tmp_path: pathlib.Path) -> None:
    found = written(tmp_path)
    assert load("", KUBECONFIG=str(found)).server == SERVER
    assert load("", KUBECONFIG=f"{found}{os.pathsep}/other").server == SERVER
