"""kube-scheduler as an oracle: which nodes are feasible for a Pod, reported by an extender that refuses them all."""

import concurrent.futures
import dataclasses
import http.server
import itertools
import json
import pathlib
import signal
import subprocess
import time
from collections.abc import Mapping, Set
from typing import Any

import urllib3

from carico_local.cluster import processes
from carico_local.control_plane import commands, identity, standalone
from tests.tools import http_thread
from tests.tools.api import feasibility_cases as cases

DEADLINE_S = 180.0
# Each look reads all Pods, and kube-scheduler waits for the same CPU.
_LOOK_EVERY_S = 0.5
# What the scheduler's other watches may lag behind that of Pods, on a busy machine; and on one that stood still.
_SETTLE_S = 0.3
_SETTLE_AGAIN_S = 3.0
_IN_FLIGHT = 8


class Extender(http_thread.Server):
    """Answers kube-scheduler's filter calls with no node at all, and keeps what it was asked: nodes by Pod UID."""

    def __init__(self) -> None:
        self.asked: dict[str, frozenset[str]] = {}
        asked = self.asked

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Answers are small and in two writes: without this each waits 40 ms for the client's acknowledgement.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                names = body["NodeNames"] if "NodeNames" in body else body["nodenames"]
                asked.setdefault(body["Pod"]["metadata"]["uid"], frozenset(names))
                answer = json.dumps({"nodenames": [], "failedNodes": dict.fromkeys(names, "asked")}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        super().__init__(Handler)


@dataclasses.dataclass(kw_only=True)
class Api:
    """The API server, for the administrator."""

    url: str
    token: str
    pool: urllib3.PoolManager

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json",
        may_lack: bool = False,
    ) -> Any:  # fmt: skip
        """The answer; anything but 2xx is a failure of the test. With `may_lack`, 404 is an empty answer."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": content_type}
        data = None if body is None else json.dumps(body).encode()
        answer = self.pool.request(method, self.url + path, body=data, headers=headers, timeout=30.0)
        if may_lack and answer.status == 404:
            return {}
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.data.decode()[:2000]} for {body}"
        return json.loads(answer.data)


class Oracle:
    """A kube-scheduler on a control plane of its own."""

    def __init__(self, plane: standalone.Standalone, program: pathlib.Path, environ: Mapping[str, str]) -> None:
        self.extender = Extender()
        self.api = Api(
            url=plane.url, token=plane.identities.token(identity.COMPONENTS[identity.ADMIN]),
            pool=urllib3.PoolManager(
                maxsize=_IN_FLIGHT, retries=False,
                ca_certs=str(plane.identities.authority.pair.certificate),
            ),
        )  # fmt: skip
        self._pool = concurrent.futures.ThreadPoolExecutor(_IN_FLIGHT)
        for path, obj in cases.COMMON:
            self.api.request("POST", path, obj)
        self._log = plane.directory / "oracle.log"
        config = plane.directory / "oracle.json"
        config.write_text(json.dumps(self._configuration(plane)), encoding="utf-8")
        kubeconfig = plane.identities.kubeconfig(identity.SCHEDULER)
        argv = (
            str(program), f"--config={config}", f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}", "--bind-address=127.0.0.1",
            f"--secure-port={plane.network.ports[commands.SCHEDULER]}", f"--cert-dir={plane.directory / 'oracle'}",
        )  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(environ),
                preexec_fn=processes.end_with_parent(signal.SIGKILL),
            )  # fmt: skip

    def close(self) -> None:
        """Ends kube-scheduler and its extender."""
        self._process.kill()
        self._process.wait()
        self._pool.shutdown()
        self.extender.close()

    def make(self, case: cases.Case) -> None:
        """The case's cluster, as kube-scheduler is going to see it."""
        # One kind after another, and all of a kind at once.
        for _, alike in itertools.groupby(case.objects, key=lambda each: each[0].rpartition("/")[2]):
            list(self._pool.map(self._make_object, alike))
        list(self._pool.map(self._report, case.resized.items()))
        list(self._pool.map(self._end_pod, case.ended))
        list(self._pool.map(self._begin_to_end_pod, case.ending))

    def objects(self, path: str) -> list[cases.Object]:
        """All objects of a collection; none where the API does not serve it."""
        found: list[cases.Object] = self.api.request("GET", path, may_lack=True).get("items", [])
        return found

    def ask(self, case: cases.Case) -> dict[str, frozenset[str]]:
        """The feasible nodes by name of the Pod."""
        self._wait_for_nodes(case)
        made = list(self._pool.map(self._make_pod, case.pods))
        uids = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in made}
        self._wait_until_decided(case, set(uids))
        return {name: self.extender.asked.get(uid, frozenset()) for uid, name in uids.items()}

    def ask_again(self, case: cases.Case, names: Set[str]) -> dict[str, frozenset[str]]:
        """What it says of these Pods a while later: it looks at other objects by watches that may lag behind."""
        again = [pod for pod in case.pods if pod["metadata"]["name"] in names]
        list(self._pool.map(self._delete_pod, again))
        time.sleep(_SETTLE_AGAIN_S)
        made = list(self._pool.map(self._make_pod, again))
        uids = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in made}
        self._wait_until_decided(case, set(uids))
        return {name: self.extender.asked.get(uid, frozenset()) for uid, name in uids.items()}

    def clear(self, case: cases.Case) -> None:
        """Removes Pods and nodes; what else there is bears names of its case, and bears on no other."""
        pods = [f"/api/v1/namespaces/{namespace}/pods" for namespace in case.namespaces]
        list(self._pool.map(lambda path: self.api.request("DELETE", path, {"gracePeriodSeconds": 0}), pods))
        self.api.request("DELETE", "/api/v1/nodes")

    def _make_object(self, told: tuple[str, cases.Object]) -> None:
        path, obj = told
        self._complete(path, obj, self.api.request("POST", path, obj))

    def _report(self, told: tuple[tuple[str, str], cases.Object]) -> None:
        self._patch("/api/v1/namespaces/{}/pods/{}/status".format(*told[0]), {"status": told[1]})

    def _end_pod(self, key: tuple[str, str]) -> None:
        self._patch("/api/v1/namespaces/{}/pods/{}/status".format(*key), {"status": {"phase": "Succeeded"}})

    def _begin_to_end_pod(self, key: tuple[str, str]) -> None:
        # No kubelet ends it.
        self.api.request("DELETE", "/api/v1/namespaces/{}/pods/{}".format(*key), {"gracePeriodSeconds": 3600})

    def _make_pod(self, pod: cases.Object) -> cases.Object:
        found: cases.Object = self.api.request("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod)
        return found

    def _delete_pod(self, pod: cases.Object) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self.api.request("DELETE", path, {"gracePeriodSeconds": 0})

    def _complete(self, path: str, obj: cases.Object, made: cases.Object) -> None:
        """Brings what the API did not take at once: a new node is tainted, and a volume has no status."""
        if path == "/api/v1/nodes":
            self._patch(f"{path}/{obj['metadata']['name']}", {"spec": {"taints": obj["spec"]["taints"]}})
        if path == "/api/v1/persistentvolumes" and made["status"].get("phase") != obj["status"]["phase"]:
            self._patch(f"{path}/{obj['metadata']['name']}/status", {"status": obj["status"]})

    def _patch(self, path: str, body: Any) -> None:
        self.api.request("PATCH", path, body, content_type="application/merge-patch+json")

    def _wait_for_nodes(self, case: cases.Case) -> None:
        """Returns once kube-scheduler has all nodes: a Pod that tolerates all is offered those with room."""
        time.sleep(_SETTLE_S)
        namespace = case.pods[0]["metadata"]["namespace"]
        deadline_s = time.monotonic() + DEADLINE_S
        number = 0
        while time.monotonic() < deadline_s:
            number += 1
            spec = {
                "containers": [{"name": "c", "image": "pi"}], "tolerations": [{"operator": "Exists"}],
                "terminationGracePeriodSeconds": 0,
            }  # fmt: skip
            pod = {"metadata": {"name": f"scout-{number}", "namespace": namespace}, "spec": spec}
            made = self._make_pod(pod)
            self._wait_until_decided(case, {made["metadata"]["uid"]})
            if self.extender.asked.get(made["metadata"]["uid"]):
                return
            time.sleep(_SETTLE_S)
        raise AssertionError(f"kube-scheduler has no nodes: {processes.last_lines(self._log, 3)}")

    def _wait_until_decided(self, case: cases.Case, uids: set[str]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline_s:
            if uids <= {pod["metadata"]["uid"] for pod in self.objects("/api/v1/pods") if _is_decided(pod)}:
                return
            time.sleep(_LOOK_EVERY_S)
        raise AssertionError(f"{case.name}: Pods left undecided: {processes.last_lines(self._log, 3)}")

    def _configuration(self, plane: standalone.Standalone) -> dict[str, Any]:
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {
                "kubeconfig": str(plane.identities.kubeconfig(identity.SCHEDULER)), "qps": 5000, "burst": 10000,
            },
            "leaderElection": {"leaderElect": False},
            "percentageOfNodesToScore": 100,
            # Preemption would evict the case's Pods.
            "profiles": [{"plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}}}],
            "extenders": [
                {"urlPrefix": self.extender.url, "filterVerb": "filter", "nodeCacheCapable": True, "weight": 1}
            ],
        }  # fmt: skip


def _is_decided(pod: cases.Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)
