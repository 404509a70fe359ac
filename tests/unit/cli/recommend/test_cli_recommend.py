"""`carico recommend`: tables in 80 columns, resources blocks, patches, which classes are meant, and mistakes."""

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
import yaml

from carico_cli.live import addresses
from carico_cli.recommend import asking, choosing, command, contradictions, manifests, picture, text
from carico_core.domain import amounts, errors
from carico_core.numerics import recommendation
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from tests.tools import carico_cli
from tests.tools.memory import memory_bus

MIB = 2.0**20
NOW_NS = 10**18
AT = addresses.Address(name="here", bus=buses.BusSettings(), kube=api_client.KubeSettings())


def row(pod_class: str = "ReplicaSet/shop/web", **changed: Any) -> dict[str, Any]:
    used = {"mean": 0.2, "p50": 0.2, "p90": 0.5, "p95": 0.5, "p99": 0.5, "peak": 0.6}
    values: dict[str, Any] = {
        "class": pod_class, "requests": {"cpu": 0.575, "memory": 115 * MIB}, "limits": {"memory": 115 * MIB},
        "confidence": "medium", "flags": [], "kinds": None, "cpu_bounds": [0.4, 0.55], "memory_risk": 0.1,
        "usage": {"cpu": used, "memory": {"mean": 50 * MIB, "peak": 100 * MIB}}, "further": {},
        "requested": {"cpu": 2.0}, "saves": {"cpu": 4.275}, "priority_class": "", "has_deadline": False,
        "crosses_namespaces": False, "containers": ["main"], "of_containers": {}, "node_gives": {},
        "pods": 9, "failed": 0, "running": 3, "images": 1, "nodes": 2, "nodes_at_least": False, "measured_s": 90.0,
        "since_ns": NOW_NS - 120 * 10**9, "last_ns": NOW_NS, "contradicts": [],
    }  # fmt: skip
    return values | changed


def test_the_table_fits_into_80_columns_and_names_what_is_flagged() -> None:
    rows = [
        row(), row(f"Job/default/{'long-name-' * 12}", flags=["one_pod"], requested={}, saves={}),
        row("app/default/other", flags=["one_pod", "image_changed"]),
    ]  # fmt: skip
    found = text.table(rows, now_ns=NOW_NS)
    assert max(map(len, found.splitlines())) <= 80
    assert "ReplicaSet/shop/web" in found and "575m" in found and "115Mi" in found and "2 min" in found
    assert "would request 8550m less CPU" in found
    assert found.count("medium !") == 2
    assert "the image has changed: the amounts are of the earlier one" in found


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ([0.4, 0.55], "CPU before the margin: 400m to 550m with 95% probability"),
        ([0.4, 0.6], "at least 400m (too few Pods for an upper end: 600m is the most seen) with 95% probability"),
    ],
)
def test_an_interval_that_ends_at_the_peak_has_no_upper_end(bounds: list[float], said: str) -> None:
    assert said in " ".join(text.detail(row(cpu_bounds=bounds), now_ns=NOW_NS).split())


def test_the_wide_table_has_whole_names_and_names_all_that_is_flagged() -> None:
    long = [f"Job/default/{'long-name-' * 8}{number}" for number in range(8)]
    rows = [row(name, flags=["one_pod"], contradicts=["LimitRange small"]) for name in long]
    narrow, wide = (" ".join(text.table(rows, now_ns=NOW_NS, wide=wide).split()) for wide in (False, True))
    assert "and 3 more (-o wide names all): measured on one Pod" in narrow
    assert "3 more are refused (-o wide names all)" in narrow
    assert "-o wide" not in wide and "~" not in wide
    assert wide.count("LimitRange small") == 8
    assert text.table(rows, now_ns=NOW_NS, wide=True).splitlines()[8].startswith(f"{long[7]}  ")


def test_the_view_of_one_class_has_its_distribution_and_the_two_kinds() -> None:
    found = text.detail(
        row(flags=["two_kinds"], kinds=[0.1, 1.0], further={"gpu": {"mean": 0.5, "sd": 0.1}}), now_ns=NOW_NS
    )  # fmt: skip
    assert max(map(len, found.splitlines())) <= 80
    cells = [line.split() for line in found.splitlines()]
    assert ["cpu", "2", "575m", "-", "200m", "200m", "500m", "500m", "500m", "600m"] in cells
    assert ["memory", "-", "115Mi", "115Mi", "50Mi", "-", "-", "-", "-", "100Mi"] in cells
    assert "measured for 90.0 s, all Pods added up" in " ".join(found.split())
    assert "CPU about 100m and 1" in " ".join(found.split()) and "GPUs" in found and "400m to 550m" in found


def test_little_memory_in_use_is_told_from_its_request(tmp_path: pathlib.Path) -> None:
    little = row(
        usage={"memory": {"mean": 2.18 * MIB, "peak": 2.26 * MIB}}, requests={"memory": 3 * MIB},
        limits={"memory": 3 * MIB}, distribution={"memory": [(2.18 * MIB, 1.0)]},
    )  # fmt: skip
    cells = [line.split() for line in text.detail(little, now_ns=NOW_NS).splitlines()]
    assert ["memory", "-", "3Mi", "3Mi", "2.2Mi", "-", "-", "-", "-", "2.3Mi"] in cells
    picture.draw(little, tmp_path / "little.svg")
    assert "peak, 2.3Mi" in (tmp_path / "little.svg").read_text(encoding="utf-8")
    parts = {"main": {"requests": {"memory": 3 * MIB}, "peaks": {"memory": 2.26 * MIB}}}
    cells = [line.split() for line in text.detail(little | {"of_containers": parts}, now_ns=NOW_NS).splitlines()]
    assert ["main", "-", "-", "3Mi", "2.3Mi"] in cells


def test_more_than_is_requested_today_is_said_to_be_more() -> None:
    assert "would request 500m more CPU" in text.table([row(saves={"cpu": -0.5})], now_ns=NOW_NS)


def test_what_is_less_than_a_step_of_a_request_is_not_saved() -> None:
    found = text.table([row(saves={"cpu": 0.0, "memory": 0.4 * MIB})], now_ns=NOW_NS)
    assert "would request" not in found
    found = text.table([row(saves={"cpu": 0.0, "memory": -2 * MIB})], now_ns=NOW_NS)
    assert "would request 2Mi more memory." in found


def test_a_resources_block_counts_pods_and_nodes() -> None:
    assert "# ReplicaSet/shop/web: 9 Pods on 2 nodes, confidence" in manifests.yaml_text(row())
    assert "# ReplicaSet/shop/web: 1 Pod on 1 node, confidence" in manifests.yaml_text(row(pods=1, nodes=1))


def test_a_resources_block_is_valid_yaml_and_says_what_is_wrong() -> None:
    found = manifests.yaml_text(row(flags=["all_failed"]))
    assert yaml.safe_load(found) == {
        "resources": {"requests": {"cpu": "575m", "memory": "115Mi"}, "limits": {"memory": "115Mi"}}
    }
    assert "# FLAGGED all_failed: almost all Pods have failed" in found


def test_every_flag_has_a_meaning() -> None:
    assert set(manifests.FLAGS) == {flag.value for flag in recommendation.Flag}


def test_a_patch_names_its_cluster() -> None:
    line = manifests.patch_text(row(), forced=False, is_cron_job=False, kubectl="carico use shop kubectl")
    assert line.startswith("carico use shop kubectl patch deployment web --namespace shop --patch ")


def patch_of(found: Mapping[str, Any], forced: bool = False, is_cron_job: bool = False) -> tuple[str, Any]:
    line = manifests.patch_text(found, forced=forced, is_cron_job=is_cron_job)
    head, _, body = line.partition(" --patch ")
    return head, json.loads(body.strip("'"))


@pytest.mark.parametrize(
    ("pod_class", "head", "path"),
    [
        ("ReplicaSet/shop/web", "kubectl patch deployment web --namespace shop", ("spec", "template", "spec")),
        ("StatefulSet/a/db", "kubectl patch statefulset db --namespace a", ("spec", "template", "spec")),
        ("Job/a/nightly", "kubectl patch cronjob nightly --namespace a",
         ("spec", "jobTemplate", "spec", "template", "spec")),
    ],
)  # fmt: skip
def test_a_patch_changes_the_template_of_the_owner(pod_class: str, head: str, path: tuple[str, ...]) -> None:
    found, body = patch_of(row(pod_class), is_cron_job=True)
    assert found == head
    for step in path:
        assert list(body) == [step]
        body = body[step]
    expected = {"requests": {"cpu": "575m", "memory": "115Mi"}, "limits": {"memory": "115Mi"}}
    assert body == {"containers": [{"name": "main", "resources": expected}]}


def of_two() -> dict[str, Any]:
    """A class whose Pods have two containers."""
    parts = {
        name: {
            "requests": {"cpu": cpu, "memory": mib * MIB}, "limits": {"memory": mib * MIB},
            "peaks": {"cpu": cpu, "memory": mib * MIB}, "cpu_bounds": [cpu, cpu],
        }
        for name, cpu, mib in (("main", 0.5, 100), ("proxy", 0.075, 15))
    }  # fmt: skip
    return row(containers=list(parts), of_containers=parts)


def test_each_container_gets_its_own_resources() -> None:
    containers = patch_of(of_two())[1]["spec"]["template"]["spec"]["containers"]
    assert containers[1] == {
        "name": "proxy", "resources": {"requests": {"cpu": "75m", "memory": "15Mi"}, "limits": {"memory": "15Mi"}},
    }  # fmt: skip
    assert yaml.safe_load(manifests.yaml_text(of_two())) == {"containers": containers}
    assert "proxy" in text.detail(of_two(), now_ns=NOW_NS)
    least = {"metadata": {"namespace": "shop", "name": "least"}}
    limit = {"type": "Container", "min": {"cpu": "100m"}}
    (said,) = contradictions.of_row(of_two(), [least | {"spec": {"limits": [limit]}}], [])
    assert said == "LimitRange least requires at least 100m cpu of a Container"


def test_several_containers_that_are_not_known_get_resources_of_the_whole_pod() -> None:
    found = row(containers=["main", "proxy"])
    body = patch_of(found)[1]["spec"]["template"]["spec"]
    assert set(body) == {"resources"}
    assert "Kubernetes 1.34" in manifests.yaml_text(found)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (row(flags=["one_pod"]), "measured on one Pod only.*--force"),
        (row("Job/default/pi"), "template of a Job cannot be changed"),
        (row("app/default/pi"), "no known owner"),
        # --force would not help.
        (row("app/default/pi", flags=["one_pod"]), "no known owner"),
        (row("Workflow/default/pi"), "no known owner"),
        (row(containers=[]), "no known owner"),
    ],
)
def test_what_must_not_or_cannot_be_patched_is_refused(found: Mapping[str, Any], expected: str) -> None:
    with pytest.raises(errors.SettingsError, match=expected):
        manifests.patch_text(found, forced=False, is_cron_job=False)


@pytest.mark.parametrize("name", ["x; touch y", "$(id)", "`id`", "x --all", "--all", "a\u00a0b", "x'y", "x\u202ey", ""])
def test_a_name_that_no_owner_can_have_is_no_word_of_a_command(name: str) -> None:
    """Who creates a Pod chooses the name of its owner, and an administrator runs the patch in a shell."""
    for found in (row(f"StatefulSet/shop/{name}"), row(f"ReplicaSet/{name}/web")):
        with pytest.raises(errors.SettingsError, match="no known owner"):
            manifests.patch_text(found, forced=True, is_cron_job=False)


def test_force_patches_what_is_flagged() -> None:
    assert patch_of(row(flags=["one_pod"]), forced=True)[0].startswith("kubectl patch deployment")


@pytest.mark.parametrize(
    ("value", "expected"), [(0.5751, "576m"), (0.575, "575m"), (1.1, "1100m"), (3.0, "3"), (0.0, "0m")]
)  # fmt: skip
def test_cores_are_rounded_up(value: float, expected: str) -> None:
    assert amounts.quantity("cpu", value) == expected


def limit_range(namespace: str = "shop", **limit: Any) -> dict[str, Any]:
    return {"metadata": {"name": "small", "namespace": namespace}, "spec": {"limits": [limit]}}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (limit_range(type="Container", max={"memory": "64Mi"}),
         ["LimitRange small allows at most 64Mi memory of a Container"]),
        (limit_range(type="Pod", min={"cpu": "1"}), ["LimitRange small requires at least 1 cpu of a Pod"]),
        (limit_range(type="Container", min={"cpu": "575m"}, max={"memory": "115Mi", "cpu": "1"}), []),
        (limit_range("other", type="Pod", min={"cpu": "1"}), []),
        (limit_range(type="PersistentVolumeClaim", min={"storage": "1Gi"}), []),
        (limit_range(type="Pod", min={"cpu": "what"}, max=None), []),
        ({"metadata": {"namespace": "shop"}}, []),
    ],
)  # fmt: skip
def test_a_limit_range_that_refuses_the_amounts_is_named(found: dict[str, Any], expected: list[str]) -> None:
    assert contradictions.of_row(row(), [found], []) == expected


def test_a_limit_of_a_container_says_nothing_about_several() -> None:
    found = limit_range(type="Container", max={"memory": "64Mi"})
    assert contradictions.of_row(row(containers=["a", "b"]), [found], []) == []


def test_rules_of_a_pod_are_compared_with_what_a_patch_gives_its_containers() -> None:
    # Their peaks, 100 and 15 MiB, were not at one time: of the Pod 110 MiB were.
    found = of_two() | {"requests": {"cpu": 0.55, "memory": 110 * MIB}, "limits": {"memory": 110 * MIB}}
    said = "LimitRange small allows at most 112Mi memory of a Pod"
    assert contradictions.of_row(found, [limit_range(type="Pod", max={"memory": "112Mi"})], []) == [said]
    said = "ResourceQuota team: one Pod takes 575m of requests.cpu, of at most 560m"
    assert contradictions.of_row(found | SMALL, [], [quota(requests_cpu="560m")]) == [said]
    assert contradictions.of_row(found, [limit_range(type="Pod", max={"memory": "115Mi"})], []) == []


def quota(*scopes: str, used: dict[str, str] | None = None, namespace: str = "shop", **hard: str) -> dict[str, Any]:
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    spec: dict[str, Any] = {"hard": named} | ({"scopes": list(scopes)} if scopes else {})
    return {"metadata": {"name": "team", "namespace": namespace}, "spec": spec, "status": {"used": used or {}}}


SMALL: dict[str, Any] = {"requested": {"cpu": 0.1}, "running": 3}


def scoped(operator: str, *values: str, scope: str = "PriorityClass") -> dict[str, Any]:
    """A quota that a Pod of 575m exceeds, for Pods of a scope."""
    found = quota(requests_cpu="500m")
    one = {"scopeName": scope, "operator": operator} | ({"values": list(values)} if values else {})
    found["spec"]["scopeSelector"] = {"matchExpressions": [one]}
    return found


URGENT: dict[str, Any] = {"priority_class": "urgent", "has_deadline": True, "crosses_namespaces": True}
PLAIN: dict[str, Any] = {"priority_class": "", "has_deadline": False, "crosses_namespaces": False}


# As podMatchesScopeFunc of pkg/quota/v1/evaluator/core/pods.go decides.
@pytest.mark.parametrize(
    ("found", "of_urgent", "of_plain"),
    [
        (quota("Terminating", requests_cpu="500m"), True, False),
        (quota("NotTerminating", requests_cpu="500m"), False, True),
        (quota("NotBestEffort", "Terminating", requests_cpu="500m"), True, False),
        (quota("BestEffort", "Terminating", pods="0"), False, False),
        (quota("CrossNamespacePodAffinity", requests_cpu="500m"), True, False),
        (quota("PriorityClass", requests_cpu="500m"), True, False),
        (scoped("Exists"), True, False),
        (scoped("DoesNotExist"), False, True),
        (scoped("In", "urgent", "high"), True, False),
        (scoped("In", "high"), False, False),
        (scoped("NotIn", "urgent"), False, True),
        (scoped("NotIn", "high"), True, True),
        (scoped("Exists", scope="NotTerminating"), False, True),
        (scoped("Exists", scope="CrossNamespacePodAffinity"), True, False),
        (scoped("What"), False, False),
    ],
)  # fmt: skip
def test_a_quota_with_scopes_counts_the_pods_that_kubernetes_counts(
    found: dict[str, Any], of_urgent: bool, of_plain: bool
) -> None:
    said = [bool(contradictions.of_row(row(**SMALL, **facts), [], [found])) for facts in (URGENT, PLAIN)]
    assert said == [of_urgent, of_plain]


def test_a_class_of_an_earlier_aggregator_has_neither_deadline_nor_priority_class() -> None:
    assert contradictions.of_row(row(**SMALL), [], [quota("NotTerminating", requests_cpu="500m")])
    assert not contradictions.of_row(row(**SMALL), [], [quota("Terminating", requests_cpu="500m")])


@pytest.mark.parametrize(
    ("found", "changed", "expected"),
    [
        # 3 Pods of 575m instead of 100m: 1425m more.
        (quota(requests_cpu="2", used={"requests.cpu": "700m"}), SMALL,
         ["ResourceQuota team: with the 3 Pods that run, requests.cpu would be 2125m of at most 2"]),
        (quota(cpu="2125m", used={"cpu": "700m"}), SMALL, []),
        (quota(requests_memory="100Mi"), SMALL,
         ["ResourceQuota team: one Pod takes 115Mi of requests.memory, of at most 100Mi"]),
        (quota(limits_memory="300Mi", used={"limits.memory": "290Mi"}), SMALL,
         ["ResourceQuota team: with the 3 Pods that run, limits.memory would be 345Mi of at most 300Mi"]),
        # A rollout creates a Pod before it deletes one, also where those that run fit once it is done.
        (quota(limits_memory="400Mi", used={"limits.memory": "290Mi"}), SMALL,
         ["ResourceQuota team: with one Pod more, which a rollout creates first, limits.memory would be 405Mi of at "
          "most 400Mi"]),
        (quota(limits_memory="400Mi", used={"limits.memory": "290Mi"}), SMALL | {"class": "StatefulSet/shop/web"}, []),
        # Their limits are at least that today.
        (quota(limits_memory="400Mi", used={"limits.memory": "290Mi"}), SMALL | {"requested": {"memory": 115 * MIB}},
         []),
        # They request 2 cores today: a quota that is exceeded already is less so.
        (quota(requests_cpu="1", used={"requests.cpu": "6"}), {}, []),
        # None runs: whether there is room is not a matter of this class alone.
        (quota(requests_cpu="2", used={"requests.cpu": "2"}), {"requested": {}, "running": 0}, []),
        # Pods without requests leave the one scope for the other.
        (quota("NotBestEffort", pods="4", used={"pods": "2"}), {"requested": {}, "running": 3},
         ["ResourceQuota team: with the 3 Pods that run, pods would be 5 of at most 4"]),
        (quota("BestEffort", pods="1"), SMALL, []),
        (quota("PriorityClass", requests_cpu="1m"), SMALL, []),
        (quota(namespace="other", requests_cpu="1m"), SMALL, []),
        (quota(services="1", requests_cpu="what"), SMALL, []),
        ({"metadata": {"namespace": "shop"}}, SMALL, []),
    ],
)  # fmt: skip
def test_a_quota_that_refuses_the_amounts_is_named_with_the_amount(
    found: dict[str, Any], changed: dict[str, Any], expected: list[str]
) -> None:
    assert contradictions.of_row(row(**changed), [], [found]) == expected


def test_an_amount_that_no_node_gives_is_named() -> None:
    found = row(node_gives={"cpu": 0.5, "memory": 1e9})
    said = ["a Pod would request 575m cpu, of at most 500m on the largest node"]
    assert contradictions.of_row(found, [], []) == said
    # Of several containers together: a patch gives each its own.
    found = of_two() | {"requests": {"cpu": 0.5, "memory": 110 * MIB}, "node_gives": {"cpu": 0.55}}
    assert contradictions.of_row(found, [], []) == [said[0].replace("500m", "550m")]


def test_a_request_above_the_limit_that_a_limit_range_sets_is_named() -> None:
    found = limit_range(type="Container", default={"cpu": "500m"})
    assert contradictions.of_row(row(), [found], []) == [
        "LimitRange small gives a container without a limit one of 500m cpu, below the request"
    ]


@pytest.mark.parametrize(("ratio", "is_named"), [("1.5", True), ("2", False)])
def test_a_limit_that_is_too_many_times_the_request_is_named(ratio: str, is_named: bool) -> None:
    # 575m are requested. Of memory the limit is the request.
    found = limit_range(
        type="Container", default={"cpu": "1", "memory": "1Gi"}, maxLimitRequestRatio={"cpu": ratio, "memory": "1.1"}
    )
    said = "LimitRange small gives a container without a limit one of 1 cpu, more than 1.5 times the request"
    assert contradictions.of_row(row(), [found], []) == ([said] if is_named else [])
    without = limit_range(type="Container", maxLimitRequestRatio={"cpu": ratio})
    assert contradictions.of_row(row(), [without], []) == []


class Api:
    """Answers with one LimitRange, and refuses to list quotas."""

    async def request(self, method: str, path: str) -> Any:
        if path.endswith("limitranges"):
            return {"items": [limit_range(type="Pod", min={"cpu": "1"})]}
        raise errors.Forbidden(status=403, reason="Forbidden", message="no right", request=f"{method} {path}")


async def test_what_may_not_be_listed_is_said() -> None:
    found = await asking.rules_of(Api())
    assert (len(found.limit_ranges), found.quotas) == (1, [])
    assert found.unchecked is not None and "resourcequotas" in found.unchecked


def test_what_a_limit_range_refuses_is_said_everywhere_and_not_patched() -> None:
    one = row(contradicts=["LimitRange small allows at most 64Mi memory of a Pod"])
    for shown in (text.table([one], now_ns=NOW_NS), text.detail(one, now_ns=NOW_NS), manifests.yaml_text(one)):
        assert "LimitRange small allows at most 64Mi" in " ".join(shown.split())
    with pytest.raises(errors.SettingsError, match=r"LimitRange small.*--force"):
        manifests.patch_text(one, forced=False, is_cron_job=False)


ROWS = [row("ReplicaSet/shop/web"), row("Job/shop/web"), row("Job/default/pi"), row("app/default/train")]
IMAGE = "docker.io/library/busybox:1.37"


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        ("web", ["ReplicaSet/shop/web", "Job/shop/web"]),
        ("deployment/web", ["ReplicaSet/shop/web"]),
        ("deploy/web", ["ReplicaSet/shop/web"]),
        ("job/web", ["Job/shop/web"]),
        ("cj/pi-28391040", ["Job/default/pi"]),
        ("train", ["app/default/train"]),
    ],
)
def test_a_workload_is_named_as_for_kubectl(workload: str, expected: list[str]) -> None:
    assert [each["class"] for each in choosing.of_workload(ROWS, workload, "carico recommend")] == expected


@pytest.mark.parametrize("workload", [IMAGE, f"image/{IMAGE}"])
def test_a_class_of_an_image_is_named_by_it(workload: str) -> None:
    assert choosing.of_workload([*ROWS, row(f"image/a/{IMAGE}")], workload, "")[0]["class"] == f"image/a/{IMAGE}"


def test_the_whole_name_of_a_class_is_refused_with_its_flag() -> None:
    with pytest.raises(errors.SettingsError, match=f"give it as --class {ROWS[0]['class']}$"):
        choose(workload=ROWS[0]["class"])


def test_a_mistyped_image_gets_the_nearest_one() -> None:
    with pytest.raises(errors.SettingsError, match=rf"got kind 'docker.io', .* app, .*image.*nearest: {IMAGE}"):
        choosing.of_workload([row(f"image/a/{IMAGE}")], IMAGE.replace("sy", "zy"), "")


def test_the_command_that_lists_classes_names_its_cluster() -> None:
    shop = dataclasses.replace(addresses.OF_SHELL, name="shop", is_local=True)
    with pytest.raises(errors.SettingsError, match="`carico recommend --name shop` lists"):
        choose(workload="zzz", at=shop)


def choose(**given: Any) -> list[command.Row]:
    values: dict[str, Any] = {"workload": None, "namespace": None, "pod_class": None, "has_namespace": lambda _: True}
    return command.chosen(ROWS, **values | given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"workload": "pj"}, r"no node has measured a workload of this name \(nearest: pi\)"),
        ({"workload": "zzz"}, "`carico recommend` lists"),
        ({"workload": "gadget/pi"}, "got kind 'gadget', expected a workload's"),
        ({"workload": ""}, "WORKLOAD: got '', expected NAME or KIND/NAME"),
        ({"workload": "job/"}, "WORKLOAD: got 'job/', expected NAME or KIND/NAME"),
        ({"pod_class": "pii"}, r"which no node has measured \(nearest: Job/\w+/pi"),
        ({"pod_class": "Job/default/pj"}, r"which no node has measured \(nearest: Job/default/pi"),
        ({"namespace": "Shop"}, "not a valid Kubernetes name"),
        (
            {"namespace": "shpo", "has_namespace": lambda _: False},
            r"there is no such namespace \(nearest: shop\); .* default, shop",
        ),
        ({"namespace": "empty"}, "no Pod of namespace 'empty' has been measured yet"),
        ({"namespace": "empty", "has_namespace": lambda _: None}, "has been measured yet"),
        ({"namespace": "shop", "workload": "pi"}, "no node has measured"),
    ],
)
def test_what_is_not_there_is_named_with_a_near_miss(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(errors.SettingsError, match=expected):
        choose(**given)


def test_a_namespace_and_a_class_choose_rows() -> None:
    assert [each["class"] for each in choose(namespace="shop")] == ["ReplicaSet/shop/web", "Job/shop/web"]
    assert [each["class"] for each in choose(pod_class="Job/default/pi")] == ["Job/default/pi"]
    assert choose() == ROWS


async def test_pages_are_asked_for_until_all_are_there() -> None:
    bus = memory_bus.MemoryBus()
    asked: list[Any] = []

    async def recommend(question: bytes) -> bytes:
        asked.append(orjson.loads(question))
        after = asked[-1].get("after", "")
        left = [each for each in (row("a/x/1"), row("a/x/2"), row("a/x/3")) if each["class"] > after]
        return orjson.dumps({"classes": left[:1], "learnt": 3, "complete": len(left) == 1})

    await bus.serve(buses.ServiceSpec(name="carico-aggregator", description="", endpoints={"recommend": recommend}))
    found = await asking.rows(bus, {"margin": 0.2}, AT)
    assert [each["class"] for each in found] == ["a/x/1", "a/x/2", "a/x/3"]
    assert asked[1] == {"margin": 0.2, "after": "a/x/1"}


async def test_without_an_aggregator_the_error_says_where_to_look() -> None:
    with pytest.raises(errors.BusUnavailable, match="no aggregator answers at here"):
        await asking.rows(memory_bus.MemoryBus(), {}, AT)


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("pi", "--class", "Job/default/pi"), "got both, expected one of them"),
        (("--percentile", "0"), "not in the range"),
        (("--margin", "-1"), "not in the range"),
        (("-o", "xml"), "not one of"),
        (("--name", "no-such-cluster"), "no-such-cluster"),
        (("--plot", "web.pdf"), "--plot: got 'web.pdf', expected a name that ends in .png or .svg"),
    ],
)
def test_mistakes_end_with_exit_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], expected: str
) -> None:
    assert carico_cli.run(monkeypatch, "recommend", *argv) == 2
    assert expected in capsys.readouterr().err


def test_nothing_measured_yet_says_how_long_to_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(asking, "ask", lambda at, rule: [])
    assert carico_cli.run(monkeypatch, "recommend", "--nats-url", "nats://127.0.0.1:1") == 2
    assert "about 10 s after its first Pod starts" in capsys.readouterr().err


def test_the_output_is_what_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    monkeypatch.setattr(asking, "ask", lambda at, rule: [row(margin=rule["margin"])])
    monkeypatch.setattr(asking, "rules", lambda at, environ: asking.Rules([], [], None))
    place = ("--nats-url", "nats://127.0.0.1:1")
    assert carico_cli.run(monkeypatch, "recommend", *place, "-o", "json", "--margin", "0.5") == 0
    assert json.loads(capsys.readouterr().out)["classes"][0]["margin"] == 0.5
    assert carico_cli.run(monkeypatch, "recommend", *place, "-o", "patch") == 0
    assert capsys.readouterr().out.startswith("kubectl patch deployment web")
    assert carico_cli.run(monkeypatch, "recommend", *place, "-o", "wide") == 0
    assert "ReplicaSet/shop/web  " in capsys.readouterr().out
    assert carico_cli.run(monkeypatch, "recommend", *place, "web") == 0
    assert "confidence medium" in capsys.readouterr().out


def test_of_several_classes_those_are_patched_that_can_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = [row("app/x/bare"), row("ReplicaSet/shop/web"), row("StatefulSet/x/db", flags=["one_pod"])]
    monkeypatch.setattr(asking, "ask", lambda at, rule: found)
    monkeypatch.setattr(asking, "rules", lambda at, environ: asking.Rules([], [], None))
    argv = ("recommend", "--nats-url", "nats://127.0.0.1:1", "-o", "patch")
    assert carico_cli.run(monkeypatch, *argv) == 1
    said = capsys.readouterr()
    (patched,) = said.out.splitlines()
    assert patched.startswith("kubectl patch deployment web")
    bare, flagged = said.err.splitlines()
    assert bare.startswith("carico: app/x/bare: no known owner with a Pod template")
    assert flagged.startswith("carico: StatefulSet/x/db: measured on one Pod only") and "--force" in flagged
    assert carico_cli.run(monkeypatch, *argv, "--force") == 1
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert carico_cli.run(monkeypatch, *argv, "--class", "app/x/bare") == 2


def test_a_picture_shows_what_is_used_requested_and_recommended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    known = {"cpu": [(0.1, 30.0), (0.5, 10.0)], "memory": [(100 * MIB, 40.0)]}
    monkeypatch.setattr(asking, "ask", lambda at, rule: [row()])
    monkeypatch.setattr(asking, "rules", lambda at, environ: asking.Rules([], [], None))
    monkeypatch.setattr(asking, "with_distribution", lambda at, rule, name: row(name, distribution=known))
    place = ("--nats-url", "nats://127.0.0.1:1")
    assert carico_cli.run(monkeypatch, "recommend", *place, "web", "--plot", str(tmp_path / "web.svg")) == 0
    drawn = (tmp_path / "web.svg").read_text(encoding="utf-8")
    for said in (
        "ReplicaSet/shop/web: 9 Pods, confidence medium", "requested today, 2", "recommended request, 575m",
        "recommended request, 115Mi", "peak, 600m", "peak, 100Mi", "CPU of a Pod, cores", "memory of a Pod, MiB",
    ):  # fmt: skip
        assert said in drawn, said


def test_a_picture_is_of_one_class(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(asking, "ask", lambda at, rule: [row("a/x/1"), row("a/x/2")])
    assert carico_cli.run(monkeypatch, "recommend", "--nats-url", "nats://127.0.0.1:1", "--plot", "all.svg") == 2
    assert "--plot: got 2 classes, expected one: name it with --class" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["table", "yaml", "json"])
def test_names_that_others_chose_do_not_command_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    found = row("image/x/\x1b[2J\x9b2J\u202e")
    monkeypatch.setattr(asking, "ask", lambda at, rule: [found])
    monkeypatch.setattr(asking, "rules", lambda at, environ: asking.Rules([], [], "\x1b[2J"))
    assert carico_cli.run(monkeypatch, "recommend", "--nats-url", "nats://127.0.0.1:1", "-o", output) == 0
    said = capsys.readouterr()
    assert "image/x/" in said.out
    assert (said.out + said.err).replace("\n", "").isprintable()
    monkeypatch.setattr(asking, "ask", lambda at, rule: [])
    monkeypatch.setattr(command, "NOTHING_YET", "\x1b[2J")
    assert carico_cli.run(monkeypatch, "recommend", "--nats-url", "nats://127.0.0.1:1") == 2
    assert capsys.readouterr().err == "carico: \\u001b[2J\n"


def test_the_name_of_a_class_is_no_formula(tmp_path: pathlib.Path) -> None:
    known = {"cpu": [(0.5, 1.0)], "memory": []}
    picture.draw(row("image/x/$\\frac$", distribution=known), tmp_path / "x.svg")
    assert "image/x/$\\frac$: 9 Pods" in (tmp_path / "x.svg").read_text(encoding="utf-8")


def test_a_picture_of_a_class_without_measurements_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    nothing: dict[str, list[object]] = {"cpu": [], "memory": []}
    monkeypatch.setattr(asking, "ask", lambda at, rule: [row()])
    monkeypatch.setattr(asking, "with_distribution", lambda at, rule, name: row(name, distribution=nothing))
    argv = ("--nats-url", "nats://127.0.0.1:1", "web", "--plot", str(tmp_path / "web.svg"))
    assert carico_cli.run(monkeypatch, "recommend", *argv) == 2
    assert "--plot: nothing has been measured of ReplicaSet/shop/web yet" in capsys.readouterr().err


def test_the_share_of_the_time_is_cumulated() -> None:
    assert picture.cumulated([(0.1, 3.0), (0.5, 1.0)]) == ([0.0, 0.1, 0.5], [0.0, 0.75, 1.0])
