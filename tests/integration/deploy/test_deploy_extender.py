"""deploy/extender: what kubectl makes of it is accepted by an API server and the scheduler, with each overlay."""

import json
import pathlib
from typing import Any

import pytest
import yaml

from carico_auth import settings as auth_settings
from carico_core.runtime.process import settings
from carico_core.wire import roles
from carico_local.control_plane import standalone
from carico_scheduler import settings as setting
from tests.tools import kubernetes

EXTENDER = pathlib.Path(__file__).parents[3] / "deploy/extender"
BESIDE_THE_CALLOUT = EXTENDER.parent / "extender-callout"
BESIDE_SHARED = EXTENDER.parent / "extender-shared"
K8S = EXTENDER.parent / "k8s"
NAMESPACE = K8S / "base/namespace.yaml"
COPIES = "CARICO_BUS_COPIES"
pytestmark = [pytest.mark.real_programs, pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S)]


@pytest.fixture(scope="module")
def rendered() -> str:
    """All objects as one document."""
    return kubernetes.kubectl("kustomize", str(EXTENDER))


def pod(document: str, name: str = "kube-carico") -> dict[str, Any]:
    """What the Pods of a Deployment are."""
    deployments = (each for each in yaml.safe_load_all(document) if each["kind"] == "Deployment")
    (made,) = (each for each in deployments if each["metadata"]["name"] == name)
    found: dict[str, Any] = made["spec"]["template"]["spec"]
    return found


def containers(document: str) -> dict[str, Any]:
    """The containers of the Deployment by name."""
    return {each["name"]: each for each in pod(document)["containers"]}


def variables(container: dict[str, Any]) -> dict[str, Any]:
    """What a container's environment is made from, by name."""
    return {each["name"]: each.get("valueFrom", each.get("value")) for each in container["env"]}


def loaded_by(document: str) -> setting.SchedulerSettings:
    """The settings of CARICO in the Deployment."""
    program, *flags = containers(document)["carico"]["command"]
    # One is the Pod's address; the other is read from what `ha` alone has.
    environ = {
        name: value if isinstance(value, str) else "10.0.0.1"
        for name, value in variables(containers(document)["carico"]).items() if name != COPIES
    }  # fmt: skip
    return settings.load(setting.SchedulerSettings, prefix="scheduler", argv=flags, environ=environ, program=program)


def test_the_scheduler_takes_its_flags_and_variables(rendered: str) -> None:
    loaded = loaded_by(rendered)
    assert (loaded.extender.enabled, loaded.own_pods, loaded.leader.election) == (True, False, False)
    document = yaml.safe_load((EXTENDER / "kube-scheduler-configuration.yaml").read_text())
    (only,) = document["extenders"]
    assert only["urlPrefix"] == f"http://{loaded.extender.host}:{loaded.extender.port}"
    # A bind may be in doubt for longer than it may take: the API is asked what became of it.
    assert float(only["httpTimeout"].removesuffix("s")) >= 2 * loaded.bind_timeout_s


def test_no_container_has_a_privilege(rendered: str) -> None:
    for each in containers(rendered).values():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
        }  # fmt: skip
        assert each["resources"]["limits"]["memory"]


def test_streams_are_wanted_as_the_overlay_has_them(rendered: str) -> None:
    asked = variables(containers(rendered)["carico"])[COPIES]["configMapKeyRef"]
    assert asked["optional"] is True
    documents = {
        overlay: kubernetes.kubectl("kustomize", str(K8S / "overlays" / overlay)) for overlay in ("small", "ha")
    }  # fmt: skip
    found = {
        overlay: [
            each["data"][asked["key"]] for each in yaml.safe_load_all(document)
            if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", asked["name"])
        ]
        for overlay, document in documents.items()
    }  # fmt: skip
    (scheduler,) = pod(documents["ha"], "carico-scheduler")["containers"]
    assert found == {"small": [], "ha": [variables(scheduler)[COPIES]]}


def test_with_the_callout_the_extender_uses_a_schedulers_token() -> None:
    found = pod(kubernetes.kubectl("kustomize", str(BESIDE_THE_CALLOUT)))
    (carico,) = (each for each in found["containers"] if each["name"] == "carico")
    assert variables(carico)["CARICO_BUS_TOKEN_FILE"] == "/etc/carico/bus/token"
    assert "CARICO_BUS_NKEY" not in variables(carico)
    sources = next(each for each in found["volumes"] if each["name"] == "bus")["projected"]["sources"]
    assert not [each for each in sources if "secret" in each]
    overlay = kubernetes.kubectl("kustomize", str(K8S / "overlays/callout"))
    (auth,) = pod(overlay, "carico-auth")["containers"]
    accounts = auth_settings.AuthSettings(issuer="x", schedulers=variables(auth)["CARICO_AUTH_SCHEDULERS"]).accounts()
    schedulers = {account.name for account, role in accounts.items() if role is roles.Role.SCHEDULER}
    assert schedulers == {pod(overlay, "carico-scheduler")["serviceAccountName"], found["serviceAccountName"]}


def test_next_to_schedulers_that_share_the_work_the_extender_is_one_of_them() -> None:
    loaded = loaded_by(kubernetes.kubectl("kustomize", str(BESIDE_SHARED)))
    overlay = pod(kubernetes.kubectl("kustomize", str(K8S / "overlays/shared")), "carico-scheduler")
    (scheduler,) = overlay["containers"]
    assert variables(scheduler)["CARICO_SCHEDULER_SHARING"] == loaded.sharing.value == "shared"
    assert (loaded.extender.enabled, loaded.own_pods, loaded.leader.election) == (True, False, True)
    # Both find the Lease by the Pod's namespace and the program's name.
    assert (loaded.leader.namespace, loaded.leader.name) == ("", "")
    assert not [name for name in variables(scheduler) if name.startswith("CARICO_LEADER_")]


def test_both_images_are_named_where_an_operator_changes_them(rendered: str) -> None:
    document = yaml.safe_load((EXTENDER / "kustomization.yaml").read_text())
    named = {f"{image.get('newName', image['name'])}:{image['newTag']}" for image in document["images"]}
    assert {each["image"] for each in containers(rendered).values()} == named


@pytest.fixture
def namespace(real_control_plane: standalone.Standalone) -> pathlib.Path:
    """A kubeconfig of a cluster with the namespace, which stays: a dry run makes none, and looks for it."""
    kubeconfig = real_control_plane.kubeconfig
    kubernetes.kubectl("apply", "--filename", str(NAMESPACE), kubeconfig=kubeconfig)
    return kubeconfig


def test_an_api_server_accepts_it(rendered: str, namespace: pathlib.Path) -> None:
    arguments = ("apply", "--dry-run=server", "--validate=strict", "--filename", "-")
    said = kubernetes.kubectl(*arguments, given=rendered, kubeconfig=namespace)
    assert said.count("(server dry run)") == len(list(yaml.safe_load_all(rendered))) == 10


def test_next_to_schedulers_that_share_the_work_the_extender_may_read_their_lease(namespace: pathlib.Path) -> None:
    document = kubernetes.kubectl("kustomize", str(BESIDE_SHARED))
    kubernetes.kubectl("apply", "--filename", "-", given=document, kubeconfig=namespace)
    account = "system:serviceaccount:carico:kube-carico"

    def may(verb: str) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": account,
                "resourceAttributes": {
                    "group": "coordination.k8s.io", "resource": "leases", "name": "carico-scheduler",
                    "namespace": "carico", "verb": verb,
                },
            },
        }  # fmt: skip
        arguments = ("create", "--filename", "-", "--output", "jsonpath={.status.allowed}")
        return kubernetes.kubectl(*arguments, given=json.dumps(review), kubeconfig=namespace) == "true"

    try:
        assert (may("get"), may("update")) == (True, False)
    finally:
        kubernetes.kubectl("delete", "--filename", "-", given=document, kubeconfig=namespace)
