"""deploy/k8s's live page: what kustomize makes of it with each other part, and NATS with its configuration."""

import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
import yaml

from carico_auth import settings as auth_settings
from carico_core.runtime.bus.security import nkeys
from carico_core.runtime.process import settings
from carico_local import nats_server
from carico_web import settings as setting
from tests.tools import kubernetes

K8S = pathlib.Path(__file__).parents[3] / "deploy" / "k8s"
TOKEN = [{"serviceAccountToken": {"audience": "carico-nats", "expirationSeconds": 3600, "path": "token"}}]
pytestmark = [pytest.mark.real_programs]


def rendered(folder: pathlib.Path, base: str, *components: str) -> list[dict[str, Any]]:
    """The objects of an overlay of these parts, made in `folder`."""
    kustomization = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(K8S / "overlays" / base, folder)],
        "components": [os.path.relpath(K8S / "components" / name, folder) for name in components],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    kubectl = kubernetes.programs("kubectl")["kubectl"].path
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.load_all(done.stdout, Loader=yaml.CSafeLoader))


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one object of that kind whose name begins so: ConfigMaps have a hash at the end."""
    (found,) = [each for each in objects if each["kind"] == kind and each["metadata"]["name"].startswith(name)]
    return found


def container(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The container of a workload."""
    found: dict[str, Any] = one(objects, kind, name)["spec"]["template"]["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("base", ["small", "ha"])
def test_the_server_reads_its_configuration_with_websockets(tmp_path: pathlib.Path, base: str) -> None:
    objects = rendered(tmp_path, base, "web")
    nats = container(objects, "StatefulSet", "carico-nats")
    # Without its file, the preStop hook of `ha` finds no process to send its clients away.
    pid = ["--pid", "/run/nats/nats.pid"] if base == "ha" else []
    assert nats["args"] == ["--config", "/etc/nats/web.conf", *pid]
    assert {"/etc/nats/nats.conf", "/etc/nats/web.conf"} <= {mount["mountPath"] for mount in nats["volumeMounts"]}
    maps = [each["data"] for each in objects if each["kind"] == "ConfigMap"]
    (configs,) = [data for data in maps if "web.conf" in data]
    (tmp_path / "roles").mkdir()
    (tmp_path / "roles" / "bus.conf").write_text("", encoding="utf-8")
    for name, text in configs.items():
        (tmp_path / name).write_text(text.replace("/etc/nats/tls", "/nowhere"), encoding="utf-8")
    key = nkeys.Signer(nkeys.generate(nkeys.Kind.USER)).public
    environ = {**settings.environment(), "POD_NAME": "carico-nats-0", "CARICO_NATS_ROUTE": key}
    done = subprocess.run(
        [nats_server.binary(), "-t", "-c", str(tmp_path / "web.conf")], env=environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    # Certificates are not here; all before them has been read.
    assert done.returncode == 0 or "/nowhere" in done.stderr, done.stderr


def test_the_page_is_a_reader_by_its_seed(tmp_path: pathlib.Path) -> None:
    objects = rendered(tmp_path, "small", "web")
    environ = {each["name"]: each["value"] for each in container(objects, "Deployment", "carico-web")["env"]}
    known = {each.variable for each in settings.describe(setting.WebSettings, prefix=setting.PREFIX)}
    assert set(environ) <= known
    spec = one(objects, "Deployment", "carico-web")["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["volumes"][0]["projected"]["sources"] == [{"secret": {"name": "carico-nats-reader"}}]
    (port,) = one(objects, "Service", "carico-web")["spec"]["ports"]
    assert f"http://localhost:{port['port']}" in (K8S / "components/web/web.conf").read_text(encoding="utf-8")
    assert environ["CARICO_WEB_HTTP_PORT"] == str(port["port"])


def test_the_page_server_reaches_nothing_but_names(tmp_path: pathlib.Path) -> None:
    objects = rendered(tmp_path, "callout", "web", "web-callout", "monitoring")
    labels = one(objects, "Deployment", "carico-web")["spec"]["template"]["metadata"]["labels"]
    policies = [each for each in objects if each["kind"] == "NetworkPolicy" and "Egress" in each["spec"]["policyTypes"]]
    held = {each["metadata"]["name"] for each in policies if _selects(each["spec"]["podSelector"], labels)}
    assert held == {"carico-nothing-else", "carico-names"}


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    wanted = selector.get("matchLabels", {})
    for each in selector.get("matchExpressions", ()):
        is_named = labels.get(each["key"]) in each["values"]
        if is_named is not {"In": True, "NotIn": False}[each["operator"]]:
            return False
    return all(labels.get(name) == value for name, value in wanted.items())


def test_with_the_callout_the_page_uses_a_token(tmp_path: pathlib.Path) -> None:
    objects = rendered(tmp_path, "callout", "web", "web-callout")
    page = container(objects, "Deployment", "carico-web")
    named = {each["name"] for each in page["env"]}
    assert "CARICO_WEB_TOKEN_FILE" in named
    assert "CARICO_WEB_NKEY" not in named
    spec = one(objects, "Deployment", "carico-web")["spec"]["template"]["spec"]
    assert spec["volumes"][0]["projected"]["sources"] == TOKEN
    environ = {each["name"]: each.get("value") for each in container(objects, "Deployment", "carico-auth")["env"]}
    readers = auth_settings.AuthSettings(issuer="x", readers=environ["CARICO_AUTH_READERS"]).accounts()
    assert [role.value for known, role in readers.items() if known.name == spec["serviceAccountName"]] == ["reader"]


def test_prometheus_finds_the_page_server_and_is_let_in(tmp_path: pathlib.Path) -> None:
    objects = rendered(tmp_path, "web", "monitoring")
    port = str(container(objects, "Deployment", "carico-web")["ports"][0]["containerPort"])
    annotations = one(objects, "Deployment", "carico-web")["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {
        "prometheus.io/scrape": "true", "prometheus.io/port": port, "prometheus.io/path": "/metrics"
    }  # fmt: skip
    policy = one(objects, "NetworkPolicy", "carico-metrics-web")["spec"]
    assert policy["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "carico-web"}}
    assert [each["port"] for each in policy["ingress"][0]["ports"]] == [int(port)]


def test_secrets_makes_a_certificate_for_a_port_forward_too(tmp_path: pathlib.Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command for certificates")
    environ = {**settings.environment(), "CARICO": str(pathlib.Path(sys.executable).with_name("carico")),
               "KUBECTL": str(kubernetes.programs("kubectl")["kubectl"].path)}  # fmt: skip
    made = subprocess.run(
        [str(K8S / "secrets.sh"), str(tmp_path / "made")], env=environ, capture_output=True, text=True, check=True
    )
    assert made.stderr == "", "nothing of a configuration that deploy/k8s has no use for"
    assert [each["kind"] for each in yaml.safe_load_all(made.stdout)].count("Secret") == 6
    shown = subprocess.run(
        ["openssl", "x509", "-in", str(tmp_path / "made/tls/tls.crt"), "-noout", "-ext", "subjectAltName"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in ("DNS:carico-nats.carico.svc", "DNS:localhost", "IP Address:127.0.0.1"):
        assert name in shown.stdout


def test_one_folder_serves_both_kinds_of_identities(tmp_path: pathlib.Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command for certificates")
    environ = {**settings.environment(), "CARICO": str(pathlib.Path(sys.executable).with_name("carico")),
               "KUBECTL": str(kubernetes.programs("kubectl")["kubectl"].path)}  # fmt: skip

    def made(kind: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(K8S / "secrets.sh"), str(tmp_path)], env=environ | {"KIND": kind}, capture_output=True, text=True,
            check=False,
        )  # fmt: skip

    first, other, again = made("static"), made("callout"), made("static")
    names = {each["metadata"]["name"] for each in yaml.safe_load_all(other.stdout) if each["kind"] == "Secret"}
    assert names == {"carico-nats-public", "carico-nats-tls", "carico-nats-auth"}, other.stderr
    assert (first.stdout, first.returncode) == (again.stdout, 0)
    wrong = made("statik")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == "secrets.sh: got KIND=statik, expected static or callout\n"


def test_secrets_has_the_readers_seed_only_when_asked() -> None:
    script = (K8S / "secrets.sh").read_text(encoding="utf-8")
    assert "for role in agent aggregator scheduler auth ${" in script
    assert " ${RECOMMENDER:+recommender} ${RESCHEDULER:+rescheduler} ${WEB:+reader}; do" in script
