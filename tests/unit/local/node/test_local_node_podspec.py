"""What a node reads of a Pod, and whether it takes it."""

from typing import Any

import pytest

from carico_local.node.containers import lifecycle, variables
from carico_local.node.pods import admission, kubelet
from carico_local.node.spec import pod as podspec
from carico_local.node.spec import sources


def pod(*, name: str = "p", metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "command": ["a"], "args": ["b"], **spec.pop("container", {})}
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "x"}, **(metadata or {})},
        "spec": {"nodeName": "node", "containers": [container], **spec},
    }


def test_limits_sum_only_where_every_container_has_one() -> None:
    limits = {"resources": {"limits": {"cpu": "500m", "memory": "64Mi"}}}
    assert podspec.parse(pod(container=limits)).limit_cores == 0.5
    assert podspec.parse(pod(container=limits)).limit_bytes == 64 * 2**20
    both = [{"name": "a", "command": ["x"], **limits}, {"name": "b", "command": ["x"]}]
    assert podspec.parse(pod(containers=both)).limit_cores is None


@pytest.mark.parametrize(
    ("deletion", "own", "expected"), [(None, None, 30.0), (None, 5, 5.0), (7, 5, 7.0), (0, 5, 1.0)]
)
def test_grace_is_the_deletions_else_the_pods_and_at_least_a_second(
    deletion: int | None, own: int | None, expected: float
) -> None:
    found = pod(metadata={"deletionGracePeriodSeconds": deletion}, terminationGracePeriodSeconds=own)
    assert podspec.parse(found).grace_s == expected


def mounting(mount: dict[str, Any]) -> dict[str, Any]:
    """A spec that mounts an emptyDir so."""
    mounts = [{"name": "v", "mountPath": "/v", **mount}]
    return {"volumes": [{"name": "v", "emptyDir": {}}], "container": {"volumeMounts": mounts}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"container": {"command": None, "args": None}}, "container 'c' has no command (emulated nodes pull no"),
        ({"container": {"command": None, "args": ["a"]}}, "`kubectl run` takes a command after `--command --` ("),
        ({"container": {"env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}}, "'E'"),
        ({"container": {"env": [{"name": "E", "valueFrom": {"fileKeyRef": {"key": "k"}}}]}}, "'E'"),
        ({"container": {"livenessProbe": {"udp": {"port": 1}}}}, "livenessProbe of container 'c' is not httpGet"),
        (
            {"container": {"livenessProbe": {"httpGet": {"port": "web"}}}},
            "livenessProbe of container 'c' names port 'web', which the container does not have",
        ),
        ({"container": {"readinessProbe": {"grpc": {"port": 9000}}}}, "readinessProbe of container 'c' is not httpGet"),
        ({"container": {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}}, "container 'c' has a preStop"),
        ({"container": {"lifecycle": {"postStart": {"exec": {}}}}}, "container 'c' has a postStart"),
        (
            {"initContainers": [{"name": "side", "command": ["a"], "restartPolicy": "Always"}]},
            "container 'side' has a restartPolicy of its own",
        ),
        ({"container": {"volumeDevices": [{"name": "v", "devicePath": "/d"}]}}, "volumeDevices"),
        *(
            ({"volumes": [{"name": "v", kind: source}]}, f"volume 'v' is of kind {kind}, not emptyDir")
            for kind, source in (
                ("configMap", {"name": "m"}),
                ("secret", {"secretName": "s"}),
                ("downwardAPI", {"items": []}),
                ("projected", {"sources": []}),
                ("hostPath", {"path": "/"}),
                ("ephemeral", {}),
                ("persistentVolumeClaim", {"claimName": "disk"}),
                ("nfs", {"server": "s"}),
            )
        ),
        *(
            ({field: value}, f"the Pod has {field}")
            for field, value in (
                ("activeDeadlineSeconds", 5),
                ("dnsConfig", {"searches": ["a"]}),
                ("hostAliases", [{"ip": "127.0.0.1", "hostnames": ["a"]}]),
                ("runtimeClassName", "gvisor"),
            )
        ),
        ({"container": {"lifecycle": {"stopSignal": "SIGUSR1"}}}, "container 'c' has a stopSignal"),
        ({"container": {"securityContext": {"privileged": True}}}, "container 'c' is privileged or adds"),
        (
            {"container": {"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}},
            "container 'c' is privileged or adds",
        ),
        (mounting({"readOnly": True}), "container 'c' mounts volume 'v' read-only"),
        (mounting({"subPathExpr": "$(A)"}), "container 'c' mounts volume 'v' with subPathExpr"),
    ],
)
def test_what_emulated_nodes_do_not_support_is_named(spec: dict[str, Any], words: str) -> None:
    (found,) = podspec.parse(pod(**spec)).unsupported
    assert words in found


@pytest.mark.parametrize(
    "spec",
    [
        {"securityContext": {"runAsUser": 0}, "container": {"securityContext": {"privileged": True}}},
        {
            "securityContext": {"runAsUser": 70000},
            "container": {"securityContext": {"capabilities": {"add": ["NET_BIND_SERVICE"]}}},
        },
        {
            "container": {
                "securityContext": {
                    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
                    "seccompProfile": {"type": "RuntimeDefault"}, "readOnlyRootFilesystem": True,
                }
            }
        },
        {"hostname": "web-0", "subdomain": "web", "shareProcessNamespace": True, "dnsPolicy": "ClusterFirst"},
    ],
)  # fmt: skip
def test_what_restricts_a_pod_or_is_so_on_every_machine_does_not_keep_it_from_running(spec: dict[str, Any]) -> None:
    assert podspec.parse(pod(**spec)).unsupported == ()


def test_objects_that_variables_come_from_are_named() -> None:
    container = {
        "envFrom": [{"configMapRef": {"name": "x"}, "prefix": "P_"}, {"secretRef": {"name": "s", "optional": True}}],
        "env": [{"name": "E", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
    }
    spec = podspec.parse(pod(container=container))
    assert spec.unsupported == ()
    assert spec.containers[0].reads_objects
    assert spec.containers[0].env_from == (
        sources.WholeRef(kind="configmap", name="x", prefix="P_", optional=False),
        sources.WholeRef(kind="secret", name="s", prefix="", optional=True),
    )
    key = sources.KeyRef(kind="secret", name="s", key="k", optional=False)
    assert spec.containers[0].env == (("E", None, key),)
    assert not podspec.parse(pod(container={"env": [{"name": "E", "value": "1"}]})).containers[0].reads_objects


def test_amounts_of_containers_are_variables() -> None:
    other = {"name": "o", "command": ["x"], "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "1Gi"}}}

    def ref(resource: str, **more: str) -> dict[str, Any]:
        return {"name": resource.replace(".", "_"), "valueFrom": {"resourceFieldRef": {"resource": resource, **more}}}

    env = [
        ref("limits.cpu"), ref("requests.cpu", containerName="o", divisor="1m"),
        ref("limits.memory", containerName="o", divisor="1Mi"), ref("requests.memory"),
    ]  # fmt: skip
    own = {"name": "c", "command": ["a"], "env": env}
    spec = podspec.parse(pod(containers=[own, other]))
    node = {"cpu": 3.5, "memory": 2.0**30}
    found = variables.environment(spec, spec.containers[0], base={}, pod_ip="", host_ip="", node=node)
    assert found == {"limits_cpu": "4", "requests_cpu": "250", "limits_memory": "1024", "requests_memory": "0"}


def test_mounts_of_empty_dirs_are_read_deepest_first() -> None:
    mounts = [{"name": "e", "mountPath": "/data/"}, {"name": "e", "mountPath": "/data/in", "subPath": "s"}]
    spec = podspec.parse(pod(volumes=[{"name": "e", "emptyDir": {}}], container={"volumeMounts": mounts}))
    assert [(mount.path, mount.sub_path) for mount in spec.containers[0].mounts] == [("/data/in", "s"), ("/data", "")]
    assert spec.unsupported == ()


def test_the_api_servers_own_token_volume_is_no_obstacle() -> None:
    mounts = [{"name": "kube-api-access-x", "mountPath": "/var/run/secrets", "readOnly": True}]
    volumes = [{"name": "kube-api-access-x", "projected": {}}]
    spec = podspec.parse(pod(volumes=volumes, container={"volumeMounts": mounts}))
    assert (spec.unsupported, spec.containers[0].mounts) == ((), ())


def test_variables_see_those_before_them_and_fields_of_the_pod() -> None:
    env = [
        {"name": "A", "value": "$(BASE)-$(LATER)"},
        {"name": "UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
        {"name": "LATER", "value": "$(UID)$$(UID)"},
    ]
    spec = podspec.parse(pod(container={"env": env}))
    found = variables.environment(spec, spec.containers[0], base={"BASE": "1"}, pod_ip="127.1.1.1", host_ip="h")
    assert found == {"BASE": "1", "A": "1-$(LATER)", "UID": "p", "APP": "x", "LATER": "p$(UID)"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "p"), ("metadata.namespace", "n"), ("metadata.uid", "p"),
        ("metadata.labels['app']", "x"), ("metadata.labels['none']", ""),
        ("metadata.annotations['a.b/c']", "1"), ("metadata.annotations['none']", ""),
    ],
)  # fmt: skip
def test_a_field_of_the_metadata_is_a_variable(path: str, expected: str) -> None:
    asked = pod(metadata={"annotations": {"a.b/c": "1"}})
    assert variables.field_value(podspec.parse(asked), path, pod_ip="1", host_ip="2") == expected


@pytest.mark.parametrize("broken", [{}, {"metadata": {}, "spec": {}}, {"metadata": None, "spec": None}])
def test_what_is_no_pod_is_a_value_error(broken: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        podspec.parse(broken)


ROOM = admission.Room(cores=4.0, memory_bytes=8 * 2**30, pods=3)


def rejection(found: dict[str, Any], others: list[dict[str, Any]]) -> str | None:
    reason = admission.rejection(found, podspec.parse(found), room=ROOM, labels={"disk": "ssd"}, others=others)
    return None if reason is None else reason.reason


def test_admission_is_by_pods_selector_and_requests() -> None:
    asks = {"resources": {"requests": {"cpu": "2"}}}
    assert rejection(pod(), []) is None
    assert rejection(pod(), [pod()] * 3) == "OutOfpods"
    assert rejection(pod(nodeSelector={"disk": "ssd"}), []) is None
    assert rejection(pod(nodeSelector={"disk": "hdd"}), []) == "NodeAffinity"
    assert rejection(pod(container=asks), [pod(container=asks)]) is None
    assert rejection(pod(container=asks), [pod(container=asks)] * 2) == "OutOfcpu"
    # A Pod that asks for nothing is taken where requests already exceed the node.
    assert rejection(pod(), [pod(container={"resources": {"requests": {"cpu": "3"}}})] * 2) is None


def test_admission_sums_cores_and_bytes_and_says_both() -> None:
    def asking(**requests: str) -> dict[str, Any]:
        return pod(container={"resources": {"requests": requests}})

    assert rejection(asking(memory="8Gi"), [pod()] * 2) is None
    assert rejection(asking(memory="4Gi"), [asking(memory="4Gi"), pod()]) is None
    assert rejection(asking(memory="1"), [asking(memory="8Gi")]) == "OutOfmemory"
    assert rejection(asking(cpu="700m"), [asking(cpu="1100m"), asking(cpu="2200m")]) is None
    found = asking(cpu="701m")
    spec, others = podspec.parse(found), [asking(cpu="3300m")]
    # As floats 0.1 + 0.2 is above 0.3.
    small = admission.Room(cores=0.3, memory_bytes=0.0, pods=3)
    tenth = asking(cpu="100m")
    assert admission.rejection(tenth, podspec.parse(tenth), room=small, labels={}, others=[asking(cpu="200m")]) is None
    refused = admission.rejection(found, spec, room=ROOM, labels={}, others=others)
    assert refused is not None
    assert refused.message.endswith("resource: cpu, requested: 701, used: 3300, capacity: 4000")


def test_start_latencies_have_the_published_quantiles_and_repeat() -> None:
    drawn = sorted(lifecycle.start_s(f"node/{n}", factor=1.0) for n in range(4000))
    assert drawn[2000] == pytest.approx(lifecycle.MEDIAN_S, rel=0.05)
    assert drawn[3600] == pytest.approx(lifecycle.P90_S, rel=0.05)
    assert lifecycle.start_s("node/1", factor=2.0) == 2 * lifecycle.start_s("node/1", factor=1.0)


def test_pod_addresses_are_loopback_distinct_and_reused_when_given_back() -> None:
    addresses = kubelet.PodAddresses("cluster/node")
    taken = [addresses.take(f"u{n}") for n in range(254)]
    assert len(set(taken)) == 254
    assert all(address.startswith("127.") for address in taken)
    addresses.give_back("u17")
    assert addresses.take("new") == taken[17]
    assert addresses.take("kept", "127.9.9.9") == "127.9.9.9"
