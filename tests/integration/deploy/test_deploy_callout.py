"""The overlay with the callout: what kustomize makes of it, taken by a real API server."""

import os
import pathlib
import stat
import subprocess
import sysconfig
from typing import Any

import pytest
import yaml

from carico_auth import settings as auth_settings
from carico_core.runtime.process import settings
from carico_core.wire import roles
from carico_local.control_plane import standalone
from tests.tools import kubernetes
from tests.tools.api import real_tokens
from tests.tools.make.helm_chart import chart, combinations
from tests.tools.sites import security_site

DEPLOY = pathlib.Path(__file__).parents[3] / "deploy/k8s"
SERVICES = ("carico-agent", "carico-aggregator", "carico-scheduler")


@pytest.fixture(scope="module")
def kubectl() -> str:
    return str(kubernetes.programs("kubectl")["kubectl"].path)


@pytest.fixture(scope="module")
def objects(kubectl: str) -> list[dict[str, Any]]:
    """Everything of the overlay."""
    text = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / "overlays/callout")], check=True, capture_output=True, text=True
    ).stdout
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def one(objects: list[dict[str, Any]], name: str, *kinds: str) -> dict[str, Any]:
    """The one object of that name and kind."""
    (found,) = [each for each in objects if each["metadata"]["name"] == name and each["kind"] in kinds]
    return found


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.real_programs
def test_services_show_tokens_and_have_no_seeds(objects: list[dict[str, Any]], name: str) -> None:
    spec = one(objects, name, "Deployment", "DaemonSet")["spec"]["template"]["spec"]
    environ = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    assert environ["CARICO_BUS_TOKEN_FILE"] == "/etc/carico/bus/token"
    assert "CARICO_BUS_NKEY" not in environ
    sources = next(each for each in spec["volumes"] if each["name"] == "bus")["projected"]["sources"]
    assert [each["serviceAccountToken"]["audience"] for each in sources if "serviceAccountToken" in each] == [
        auth_settings.AuthSettings(issuer="x").audience
    ]
    assert not [each for each in sources if "secret" in each]


@pytest.mark.real_programs
def test_the_callout_knows_the_accounts_that_the_services_have() -> None:
    parts = combinations.sample("small", ["callout", "recommender", "rescheduler"])
    objects = [dict(each) for each in combinations.rendered(parts, chart.kustomized)]
    environ = one(objects, "carico-auth", "Deployment")["spec"]["template"]["spec"]["containers"][0]["env"]
    (reschedulers,) = [each["value"] for each in environ if each["name"] == "CARICO_AUTH_RESCHEDULERS"]
    known = auth_settings.AuthSettings(issuer="x", reschedulers=reschedulers).accounts()
    assert roles.Role.RESCHEDULER in known.values()
    for account, role in known.items():
        assert one(objects, account.name, "ServiceAccount")["metadata"]["namespace"] == account.namespace
        if role not in (roles.Role.READER, roles.Role.CLI):
            spec = one(objects, account.name, "Deployment", "DaemonSet")["spec"]["template"]["spec"]
            assert spec["serviceAccountName"] == account.name


@pytest.mark.real_programs
def test_what_only_the_callout_has_is_in_the_file_that_is_deleted_on_the_way_back() -> None:
    """`kubectl apply` of another overlay leaves it."""
    command = "kubectl -n carico delete -f deploy/k8s/components/callout/auth.yaml"
    assert f"`{command}`" in (DEPLOY.parent / "README.md").read_text(encoding="utf-8")
    text = (DEPLOY.parents[1] / command.rpartition(" ")[2]).read_text(encoding="utf-8")
    deleted = {(each["kind"], each["metadata"]["name"]) for each in yaml.load_all(text, Loader=yaml.CSafeLoader)}
    of_callout, of_small = (
        {(each["kind"], each["metadata"]["name"]) for each in combinations.rendered(parts, chart.kustomized)}
        for parts in (combinations.sample("small", ["callout"]), combinations.sample("small", []))
    )
    # kustomize adds a hash to the name of a ConfigMap that it makes.
    only = {(kind, name) for kind, name in of_callout - of_small if kind != "ConfigMap"}
    assert only == deleted


@pytest.mark.real_programs
def test_two_replicas_of_the_callout_with_the_right_that_was_tested(objects: list[dict[str, Any]]) -> None:
    deployment = one(objects, "carico-auth", "Deployment")
    assert deployment["spec"]["replicas"] == 2
    assert one(objects, "carico-auth", "ClusterRole")["rules"] == real_tokens.AUTH_RULES
    assert one(objects, "carico-auth", "Role")["rules"] == real_tokens.AUTH_POD_RULES
    environ = {each["name"] for each in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
    known = {each.variable for each in settings.describe(auth_settings.AuthSettings, prefix=auth_settings.PREFIX)}
    assert environ <= known


def test_a_real_api_server_takes_it_with_its_secrets(
    kubectl: str, real_control_plane: standalone.Standalone, tmp_path: pathlib.Path
) -> None:
    security_site.make_certificates(tmp_path / "unused", "x")  # skips where there is no openssl
    environ = {
        "PATH": f"{sysconfig.get_path('scripts')}:{os.defpath}:/usr/local/bin", "KUBECTL": kubectl, "KIND": "callout",
        "KUBECONFIG": str(real_control_plane.kubeconfig), "HOME": str(tmp_path),
    }  # fmt: skip
    folder = tmp_path / "bus"
    made = subprocess.run(
        [str(DEPLOY / "secrets.sh"), str(folder)], check=True, capture_output=True, text=True, env=environ
    ).stdout
    names = {each["metadata"]["name"] for each in yaml.safe_load_all(made) if each["kind"] == "Secret"}
    assert names == {"carico-nats-public", "carico-nats-tls", "carico-nats-auth"}
    assert (folder / "keys/owner.nk").read_text().strip() not in made
    assert stat.S_IMODE((folder / "keys/owner.nk").stat().st_mode) == 0o600
    subprocess.run([kubectl, "create", "namespace", "carico"], env=environ, capture_output=True, check=False)
    for manifest in (made, None):
        argv = ["-f", "-"] if manifest else ["-k", str(DEPLOY / "overlays/callout")]
        done = subprocess.run(
            [kubectl, "apply", "--dry-run=server", *argv], input=manifest, capture_output=True, text=True, env=environ
        )
        assert done.returncode == 0, done.stderr
