"""A site for the recommender: VPA's CRD and the component's rights on a real API server, an aggregator, replicas."""

import contextlib
import json
import pathlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import yaml

from carico_aggregator import recommendations
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import free_ports
from tests.tools import kubernetes, service_process, waiting
from tests.tools.sites import nats_site, security_site
from tests.unit.aggregator import test_aggregator_usage as usages

ROOT = pathlib.Path(__file__).parents[3]
CRD = ROOT / "tests/fixtures/vpa/vpa-v1-crd-gen.yaml"
COMPONENT = ROOT / "deploy/k8s/components/recommender"
RBAC = COMPONENT / "rbac.yaml"
NAMESPACE = ROOT / "deploy/k8s/base/namespace.yaml"
VPAS = "/apis/autoscaling.k8s.io/v1/namespaces/vpa-shop/verticalpodautoscalers"
CLOCK = clocks.SystemClock()
NOW_NS = usages.NOW_NS + 3600 * 10**9


class Aggregator:
    """Answers with what it has learnt: `by_name` is the CPU of each class."""

    def __init__(self) -> None:
        self.by_name = {"ReplicaSet/vpa-shop/web": 0.5}

    async def answer(self, question: bytes) -> bytes:
        found = {name: usages.used(cpu, pods=8, seconds=100.0) for name, cpu in self.by_name.items()}
        return recommendations.answer(usages.known_of(usages.of_classes("node-1", found)), {}, question, NOW_NS)


@contextlib.contextmanager
def installed(admin: pathlib.Path, folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """The CRD, the component's rights and the namespace vpa-shop; yields a kubeconfig of the ServiceAccount."""
    for path in (CRD, NAMESPACE):
        kubernetes.kubectl("apply", "--server-side", "--filename", str(path), kubeconfig=admin)
    kubernetes.kubectl("apply", "--namespace", "carico", "--filename", str(RBAC), kubeconfig=admin)
    kubernetes.kubectl("wait", "--for=condition=Established", "--filename", str(CRD), kubeconfig=admin)
    kubernetes.kubectl("create", "namespace", "vpa-shop", kubeconfig=admin)
    try:
        token = kubernetes.kubectl("create", "token", "carico-recommender", "--namespace", "carico", kubeconfig=admin)
        document = yaml.safe_load(admin.read_text(encoding="utf-8"))
        document["users"] = [{"name": each["name"], "user": {"token": token.strip()}} for each in document["users"]]
        path = folder / "kubeconfig"
        path.write_text(json.dumps(document), encoding="utf-8")
        yield path
    finally:
        kubernetes.kubectl("delete", "--namespace", "carico", "--filename", str(RBAC), kubeconfig=admin)
        kubernetes.kubectl("delete", "--filename", str(CRD), kubeconfig=admin)
        kubernetes.kubectl("delete", "namespace", "vpa-shop", "--timeout=60s", kubeconfig=admin)


@contextlib.contextmanager
def admitting(admin: pathlib.Path, folder: pathlib.Path) -> Iterator[list[str]]:
    """The shipped configuration of the webhook, by address instead of by Service, for vpa-shop; yields its flags."""
    port = free_ports.choose_one()
    files = security_site.make_certificates(folder / "tls", "127.0.0.1")
    (found,) = [
        each
        for each in yaml.safe_load_all((COMPONENT / "webhook.yaml").read_text(encoding="utf-8"))
        if each["kind"] == "MutatingWebhookConfiguration"
    ]
    found["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port}/pods"}
    kubernetes.kubectl("apply", "--filename", "-", given=json.dumps(found), kubeconfig=admin)
    kubernetes.kubectl("label", "namespace", "vpa-shop", "carico.dev/learnt-requests=true", kubeconfig=admin)
    try:
        flags = ["--admission-port", str(port), "--admission-name", "127.0.0.1"]
        for name, file in (("cert", "tls.crt"), ("key", "tls.key"), ("ca", "ca.crt")):
            flags += [f"--admission-{name}", str(files / file)]
        yield flags
    finally:
        kubernetes.kubectl("delete", "mutatingwebhookconfiguration", found["metadata"]["name"], kubeconfig=admin)
        kubernetes.kubectl("label", "namespace", "vpa-shop", "carico.dev/learnt-requests-", kubeconfig=admin)


@contextlib.asynccontextmanager
async def learning(folder: pathlib.Path) -> AsyncIterator[tuple[Aggregator, str]]:
    """An aggregator's answers on a bus; yields it and the bus's address."""
    server = nats_site.NatsServer(folder / "nats").start()
    try:
        bus = await nats_bus.connect(buses.BusSettings(url=server.url), name="test", clock=CLOCK, owns_streams=False)
        aggregator = Aggregator()
        spec = buses.ServiceSpec(
            name="carico-aggregator", description="test", endpoints={"recommend": aggregator.answer}
        )
        await bus.serve(spec)
        try:
            yield aggregator, server.url
        finally:
            await bus.close()
    finally:
        server.stop()


@contextlib.contextmanager
def recommender(
    folder: pathlib.Path, url: str, kubeconfig: pathlib.Path, *more: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """One replica as a process."""
    flags = ["--bus-url", url, "--kubeconfig", str(kubeconfig), "--leader-namespace", "carico", "--interval-s", "1"]
    flags += more
    log = folder / "recommender.log"
    process = service_process.start(log, "carico_recommender", *flags)
    try:
        yield process
        process.terminate()
        assert process.wait(waiting.WAIT_S) == 0, log.read_text()
    finally:
        service_process.end(process)


def vpa(name: str, *policies: dict[str, Any], recommender: str = "carico", target: str = "web") -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "recommenders": [{"name": recommender}],
            "updatePolicy": {"updateMode": "Off"},
            "resourcePolicy": {"containerPolicies": list(policies)},
        },
    }
