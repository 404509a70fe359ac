"""deploy/extender: what kubectl makes of it is what an API server accepts, and what the scheduler takes."""

import pathlib
from typing import Any

import pytest
import yaml

from carico_core.runtime import settings
from carico_local.control_plane import standalone
from carico_scheduler import settings as setting
from tests.tools import kubernetes

EXTENDER = pathlib.Path(__file__).parents[2] / "deploy/extender"
NAMESPACE = EXTENDER.parent / "k8s/base/namespace.yaml"
pytestmark = [pytest.mark.real_programs, pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S)]


@pytest.fixture(scope="module")
def rendered() -> str:
    """All objects as one document."""
    return kubernetes.kubectl("kustomize", str(EXTENDER))


def containers(document: str) -> dict[str, Any]:
    """The containers of the Deployment by name."""
    (made,) = (each for each in yaml.safe_load_all(document) if each["kind"] == "Deployment")
    return {each["name"]: each for each in made["spec"]["template"]["spec"]["containers"]}


def test_the_scheduler_takes_its_flags_and_variables(rendered: str) -> None:
    program, *flags = containers(rendered)["carico"]["command"]
    environ = {each["name"]: each.get("value", "10.0.0.1") for each in containers(rendered)["carico"]["env"]}
    loaded = settings.load(setting.SchedulerSettings, prefix="scheduler", argv=flags, environ=environ, program=program)
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


@pytest.fixture
def namespace(real_control_plane: standalone.Standalone) -> pathlib.Path:
    """A kubeconfig of a cluster with the namespace, which stays: a dry run makes none, and looks for it."""
    kubeconfig = real_control_plane.kubeconfig
    kubernetes.kubectl("apply", "--filename", str(NAMESPACE), kubeconfig=kubeconfig)
    return kubeconfig


def test_an_api_server_accepts_it(rendered: str, namespace: pathlib.Path) -> None:
    arguments = ("apply", "--dry-run=server", "--validate=strict", "--filename", "-")
    said = kubernetes.kubectl(*arguments, given=rendered, kubeconfig=namespace)
    assert said.count("(server dry run)") == len(list(yaml.safe_load_all(rendered))) == 9
