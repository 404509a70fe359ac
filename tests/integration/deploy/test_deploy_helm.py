"""deploy/helm/carico: it is what `make chart` writes, renders what kustomize renders, and leaves nothing behind."""

import importlib
import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
import yaml

from carico_cli.reference import setting_catalogue
from carico_core.runtime.process import settings
from carico_local.control_plane import standalone
from tests.tools import kubernetes
from tests.tools.make.helm_chart import chart, combinations

pytestmark = [pytest.mark.real_programs, pytest.mark.timeout(kubernetes.BUILD_TIMEOUT_S)]
COMPONENTS = combinations.components()
# The defaults of each profile, and combinations that the chart was not made from: all components but one.
COMPARED = [
    *((profile, ()) for profile in combinations.PROFILES),
    *(
        (combinations.PROFILES[number % len(combinations.PROFILES)], tuple(set(COMPONENTS) - {left_out}))
        for number, left_out in enumerate(COMPONENTS)
    ),
]
# Not `carico`, so that all that names a namespace is seen.
ELSEWHERE = "elsewhere"
# Of a setting's default.
NAMES_A_NAMESPACE = re.compile(r"^carico/|\.carico\.svc|^kube-system,carico$")


@pytest.fixture(scope="module")
def helm() -> str:
    """The command."""
    return str(kubernetes.programs("helm")["helm"].path)


def run(
    helm: str, *arguments: str, kubeconfig: pathlib.Path | None = None, fails: bool = False
) -> str:  # fmt: skip
    """Output of helm, or its error where it must fail."""
    environ = {**os.environ, **kubernetes.BRIEF, "KUBECONFIG": str(kubeconfig or "/nonexistent")}
    done = subprocess.run([helm, *arguments], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def template(helm: str, *arguments: str, namespace: str = "carico", fails: bool = False) -> str:
    """The chart with these values."""
    about = ("--namespace", namespace, "--kube-version", "1.36.0")
    return run(helm, "template", "carico", str(chart.CHART), *about, *arguments, fails=fails)


def objects(document: str) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The objects of a document."""
    loaded = [each for each in yaml.load_all(document, Loader=yaml.CSafeLoader) if each is not None]
    found = {(each["kind"], each["metadata"]["name"]): each for each in loaded}
    assert len(found) == len(loaded)
    return found


def chosen(profile: str, components: Sequence[str]) -> list[str]:
    """The arguments that select a combination."""
    return [f"--set=profile={profile}", *(f"--set=components.{name}=true" for name in components)]


def secrets(document: str) -> set[str]:
    """The Secrets without which a Pod would not start."""
    found = re.findall(r"secretName: (\S+)|secret(?:Ref)?:\n\s+name: (\S+)", document)
    return {name for names in found for name in names if name}


def container(found: Mapping[tuple[str, str], Mapping[str, Any]], kind: str, name: str) -> Mapping[str, Any]:
    """The one container of a workload."""
    (one,) = found[kind, name]["spec"]["template"]["spec"]["containers"]
    assert isinstance(one, dict)
    return one


def variables(one: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a container; fails if one is set twice."""
    found = {each["name"]: each.get("value") for each in one["env"]}
    assert len(found) == len(one["env"])
    return found


def programs(
    found: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Iterator[tuple[str, Sequence[settings.Setting]]]:
    """The services that the chart runs, with the settings that each knows."""
    for program in setting_catalogue.PROGRAMS:
        if {("DaemonSet", program.name), ("Deployment", program.name)} & found.keys():
            declared = getattr(importlib.import_module(program.module), program.cls)
            yield program.name, settings.describe(declared, prefix=program.prefix)


def test_the_chart_is_what_make_chart_writes() -> None:
    texts = chart.made()
    found = {path.relative_to(chart.CHART).as_posix(): path.read_text(encoding="utf-8") for path in chart.written()}
    assert found.keys() == texts.keys(), "run `make chart` (python -m tests.tools.make.helm_chart)"
    assert [path for path, text in texts.items() if found[path] != text] == [], (
        "run `make chart` (python -m tests.tools.make.helm_chart)"
    )


@pytest.mark.parametrize(
    ("profile", "components"), COMPARED, ids=lambda each: each if isinstance(each, str) else len(each)
)
def test_it_renders_what_kustomize_renders(helm: str, profile: str, components: Sequence[str]) -> None:
    expected = combinations.rendered(combinations.sample(profile, components), chart.kustomized)
    rendered = objects(template(helm, *chosen(profile, components)))
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in expected}
    assert rendered.keys() == by_name.keys()
    for key, each in by_name.items():
        assert rendered[key] == each, key


def test_components_leave_what_a_stateful_set_cannot_change(helm: str) -> None:
    found = [objects(template(helm, *chosen("ha", names)))["StatefulSet", "carico-nats"] for names in ((), COMPONENTS)]
    # https://kubernetes.io/docs/concepts/workloads/controllers/statefulset: only these may be updated.
    for each in found:
        del each["spec"]["template"], each["spec"]["replicas"]
    assert found[0]["spec"]["volumeClaimTemplates"]
    assert found[0]["spec"] == found[1]["spec"]


def test_values_reach_the_pods(helm: str) -> None:
    rendered = objects(
        template(
            helm, "--set=image.repository=registry.example/carico", "--set=image.tag=1.2.3", "--set=nats.image=other:1",
            "--set=imagePullSecrets[0].name=mine", "--set=scheduler.replicas=2", "--set=components.web=true",
            "--set=agent.settings.CARICO_AGENT_CEILING_CPU=0.7",
            "--set=agent.settings.CARICO_AGENT_POD_EVENTS=kubernetes",
            "--set=aggregator.settings.CARICO_AGGREGATOR_HORIZON_S=1000000",
            "--set-string=web.settings.CARICO_WEB_HOSTS=a\\,b",
            "--set=agent.resources.limits.memory=1Gi",
        )
    )  # fmt: skip
    agent = container(rendered, "DaemonSet", "carico-agent")
    assert agent["image"] == "registry.example/carico:1.2.3"
    assert agent["resources"] == {"limits": {"memory": "1Gi"}}
    assert variables(agent)["CARICO_AGENT_CEILING_CPU"] == "0.7"
    assert variables(agent)["CARICO_AGENT_POD_EVENTS"] == "kubernetes"
    assert variables(container(rendered, "Deployment", "carico-aggregator"))["CARICO_AGGREGATOR_HORIZON_S"] == "1000000"
    assert variables(container(rendered, "Deployment", "carico-web"))["CARICO_WEB_HOSTS"] == "a,b"
    assert container(rendered, "StatefulSet", "carico-nats")["image"] == "other:1"
    assert rendered["Deployment", "carico-scheduler"]["spec"]["replicas"] == 2
    for (kind, name), each in rendered.items():
        if kind in ("DaemonSet", "Deployment", "StatefulSet"):
            assert each["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "mine"}], name


@pytest.mark.parametrize("profile", combinations.PROFILES)
@pytest.mark.parametrize("components", [(), COMPONENTS], ids=len)
def test_every_setting_of_the_schema_reaches_the_pods(
    helm: str, tmp_path: pathlib.Path, profile: str, components: Sequence[str]
) -> None:
    known = json.loads((chart.CHART / "values.schema.json").read_text())["properties"]
    settable = {
        name: [*each["properties"]["settings"]["properties"]]
        for name, each in known.items()
        if "settings" in each.get("properties", {})
    }
    values = {name: {"settings": dict.fromkeys(each, "given")} for name, each in settable.items()}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    rendered = objects(template(helm, *chosen(profile, components), f"--values={file}"))
    seen = 0
    for name, each in settable.items():
        for kind in ("DaemonSet", "Deployment"):
            if (kind, f"carico-{name}") in rendered:
                found = variables(container(rendered, kind, f"carico-{name}"))
                assert {variable for variable in each if found.get(variable) != "given"} == set()
                seen += 1
    assert seen >= 3


@pytest.mark.parametrize("components", [(), *((name,) for name in COMPONENTS)], ids="".join)
def test_defaults_name_the_namespace_with_each_component_alone(helm: str, components: Sequence[str]) -> None:
    rendered = objects(template(helm, *chosen("small", components), namespace=ELSEWHERE))
    assert named_elsewhere(rendered) >= 2


def named_elsewhere(rendered: Mapping[tuple[str, str], Mapping[str, Any]]) -> int:
    """How many settings, whose default names the usual namespace, name the other one; fails if one does not."""
    named = 0
    for name, known in programs(rendered):
        found = variables(container(rendered, "DaemonSet" if name == "carico-agent" else "Deployment", name))
        for setting in known:
            if NAMES_A_NAMESPACE.search(setting.default_text):
                named += 1
                # The default would apply silently.
                assert ELSEWHERE in found.get(setting.variable, ""), setting.variable
    return named


def test_in_another_namespace_nothing_names_the_usual_one(helm: str) -> None:
    rendered = objects(template(helm, *chosen("ha", COMPONENTS), namespace=ELSEWHERE))
    text = json.dumps(list(rendered.values()))
    assert re.findall(r"carico/carico|\.carico\.svc|\"namespace\": \"carico\"", text) == []
    assert f"tls://carico-nats.{ELSEWHERE}.svc:4222" in text
    assert f"carico-nats-2.carico-nats-peers.{ELSEWHERE}.svc:6222" in text
    auth = variables(container(rendered, "Deployment", "carico-auth"))
    assert auth["CARICO_AUTH_SCHEDULERS"] == f"{ELSEWHERE}/carico-scheduler,{ELSEWHERE}/kube-carico"
    assert named_elsewhere(rendered) >= 9


def test_a_service_knows_every_setting_that_it_gets(helm: str) -> None:
    for namespace in ("carico", ELSEWHERE):
        rendered = objects(template(helm, *chosen("ha", COMPONENTS), namespace=namespace))
        for name, known in programs(rendered):
            found = variables(container(rendered, "DaemonSet" if name == "carico-agent" else "Deployment", name))
            ours = {variable for variable in found if variable.startswith("CARICO_")}
            # A service with an unknown setting does not start.
            assert ours - {setting.variable for setting in known} == set(), name


@pytest.mark.parametrize(
    ("argument", "named"),
    [
        ("--set=profile=big", "profile"),
        ("--set=components.wbe=true", "wbe"),
        ("--set=scheduler.replicas=0", "replicas"),
        ("--set=agent.settings.CEILING_CPU=.7", "CEILING_CPU"),
        ("--set=agent.settings.CARICO_AGENT_CEILNG_CPU=.7", "CARICO_AGENT_CEILNG_CPU"),
        # Of another service: this one would not start with it.
        ("--set=scheduler.settings.CARICO_AGENT_CEILING_CPU=.7", "CARICO_AGENT_CEILING_CPU"),
        ("--set=agent.settings.CARICO_AGENT_DIMS[0]=cpu", "CARICO_AGENT_DIMS"),
        # Kubernetes gives it.
        ("--set=agent.settings.CARICO_AGENT_NODE=node-1", "CARICO_AGENT_NODE"),
        # Probes, Services and network policies go by the port.
        ("--set=scheduler.settings.CARICO_SCHEDULER_HTTP_PORT=9090", "CARICO_SCHEDULER_HTTP_PORT"),
        ("--set=web.settings.CARICO_WEB_HTTP_PORT=80", "CARICO_WEB_HTTP_PORT"),
        ("--set=recommender.settings.CARICO_RECOMMENDER_ADMISSION_PORT=9443", "CARICO_RECOMMENDER_ADMISSION_PORT"),
        # Rights go by the name.
        ("--set=recommender.settings.CARICO_RECOMMENDER_ADMISSION_WEBHOOK=x", "CARICO_RECOMMENDER_ADMISSION_WEBHOOK"),
        ("--set=scheduler.settings.CARICO_LEADER_NAME=x", "CARICO_LEADER_NAME"),
        ("--set=rescheduler.settings.CARICO_LEADER_NAMESPACE=x", "CARICO_LEADER_NAMESPACE"),
        ("--set=agent.resources.limit.memory=1Gi", "limit"),
    ],
)
def test_a_value_that_has_no_effect_is_refused(helm: str, argument: str, named: str) -> None:
    assert named in template(helm, argument, fails=True)


@pytest.fixture
def namespace(real_control_plane: standalone.Standalone) -> Iterator[pathlib.Path]:
    """The kubeconfig of a cluster with an empty namespace, which is removed."""
    kubeconfig = real_control_plane.kubeconfig
    kubernetes.kubectl("create", "namespace", ELSEWHERE, kubeconfig=kubeconfig)
    yield kubeconfig
    kubernetes.kubectl("delete", "namespace", ELSEWHERE, "--wait=false", kubeconfig=kubeconfig)


def left(kubeconfig: pathlib.Path) -> set[str]:
    """All objects of the release, and Helm's records of it."""
    kinds = (
        "daemonsets,deployments,statefulsets,services,configmaps,serviceaccounts,roles,rolebindings,networkpolicies,"
        "poddisruptionbudgets,clusterroles,clusterrolebindings,priorityclasses,mutatingwebhookconfigurations,"
        "validatingadmissionpolicies,validatingadmissionpolicybindings"
    )
    about = ("--namespace", ELSEWHERE, "--output=name")
    label = "--selector=app.kubernetes.io/managed-by=Helm"
    found = kubernetes.kubectl("get", kinds, *about, label, kubeconfig=kubeconfig)
    records = kubernetes.kubectl("get", "secrets", *about, "--selector=owner=helm", kubeconfig=kubeconfig)
    return {*found.split(), *records.split()}


def test_install_upgrade_and_uninstall_leave_nothing(helm: str, namespace: pathlib.Path) -> None:
    about = ("--namespace", ELSEWHERE)
    install = ("install", "carico", str(chart.CHART), *about)
    # The callout alone takes seeds away.
    for components in ((), COMPONENTS, sorted(set(COMPONENTS) - {"callout"})):
        refused = run(helm, *install, *chosen("small", components), kubeconfig=namespace, fails=True)
        missing = re.findall(r"Secret (.*) not found in namespace", refused)[0].split(", ")
        assert set(missing) == secrets(template(helm, *chosen("small", components)))
        assert f"NAMESPACE={ELSEWHERE} deploy/k8s/secrets.sh" in refused
    assert left(namespace) == set()
    for name in missing:
        kubernetes.kubectl("create", "secret", "generic", name, *about, kubeconfig=namespace)
    said = run(helm, *install, kubeconfig=namespace)
    assert f"kubectl -n {ELSEWHERE} rollout status deployment/carico-scheduler" in said
    small = left(namespace)
    assert len(small) == len(objects(template(helm, namespace=ELSEWHERE))) + 1
    assert {"deployment.apps/carico-scheduler", "clusterrole.rbac.authorization.k8s.io/carico-scheduler"} <= small
    upgrade = ("upgrade", "carico", str(chart.CHART), *about)
    larger = chosen("shared", ["web", "monitoring", "recommender", "rescheduler"])
    run(helm, *upgrade, *larger, kubeconfig=namespace)
    assert {"deployment.apps/carico-web", "configmap/carico-dashboards"} <= left(namespace)
    # What a service keeps there outlives an upgrade.
    journal = ("configmap", "carico-rescheduler", *about)
    kubernetes.kubectl("patch", *journal, '--patch={"data": {"paused": "true"}}', kubeconfig=namespace)
    run(helm, *upgrade, *larger, "--set=rescheduler.resources.limits.memory=2Gi", kubeconfig=namespace)
    assert kubernetes.kubectl("get", *journal, "--output=jsonpath={.data}", kubeconfig=namespace) == '{"paused":"true"}'
    # What a component had added goes with it.
    run(helm, *upgrade, "--reset-values", kubeconfig=namespace)
    assert _without_records(left(namespace)) == _without_records(small)
    run(helm, "uninstall", "carico", *about, "--wait", kubeconfig=namespace)
    assert left(namespace) == set()


def _without_records(found: set[str]) -> set[str]:
    return {name for name in found if not name.startswith("secret/")}
