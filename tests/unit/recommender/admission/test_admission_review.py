"""What a new Pod gets by its class, and that whatever arrives, no Pod is refused."""

import base64
import copy
import dataclasses
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.domain import usage
from carico_core.wire.kubernetes import namespace_rules
from carico_core.wire.kubernetes.pods import pod_requests
from carico_recommender.admission import review
from tests.unit.recommender import learnt

Result = review.Result
SET = {"cpu": "230m", "memory": "115Mi"}


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Pod of the Deployment `web` as the API server shows it to a webhook: without name, UID and namespace."""
    return {
        "metadata": {
            "generateName": "web-5d9c7-",
            "creationTimestamp": None,
            "labels": {"pod-template-hash": "5d9c7"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d9c7", "uid": "o", "controller": True}],
        },
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def container(name: str = "main", /, **resources: dict[str, str]) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": resources}


def no_rules(_namespace: str) -> namespace_rules.Rules:
    return namespace_rules.NO_RULES


def ask(
    obj: Any, known: usage.Recommended | None = None, rules: namespace_rules.Rules = namespace_rules.NO_RULES
) -> tuple[Result, Any]:  # fmt: skip
    """Return what became of it, and the Pod with the patch."""
    found = known or learnt.recommended()
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": obj}})
    answer = review.answer(body, {found.name: found}.get, rules={"shop": rules}.__getitem__, dimensions=usage.DIMS)
    response = orjson.loads(answer.body)["response"]
    assert (response["uid"], response["allowed"]) == ("u", True)
    if "patch" not in response:
        return answer.result, obj
    assert response["patchType"] == "JSONPatch"
    return answer.result, patched(obj, orjson.loads(base64.b64decode(response["patch"])))


def patched(obj: Any, operations: list[dict[str, Any]]) -> Any:
    """Return `obj` with a JSON patch (RFC 6902)."""
    found = copy.deepcopy(obj)
    for each in operations:
        *path, last = [step.replace("~1", "/") for step in each["path"].split("/")[1:]]
        holder = found
        for step in path:
            holder = holder[int(step)] if isinstance(holder, list) else holder[step]
        if each["op"] == "remove":
            del holder[last]
        else:
            assert each["op"] == "add" or last in holder
            holder[last] = each["value"]
    return found


def test_the_only_container_gets_the_requests_of_its_class() -> None:
    result, found = ask(pod())
    assert result is Result.SET
    assert found["spec"]["containers"][0]["resources"] == {"requests": SET}
    assert found["metadata"]["annotations"] == {
        "carico.dev/learnt-requests": "cpu,memory", "carico.dev/learnt-requests-confidence": "medium",
    }  # fmt: skip
    # Nothing else.
    del found["metadata"]["annotations"]
    found["spec"]["containers"][0]["resources"] = {}
    assert found == pod()


def of_two() -> usage.Recommended:
    """A class whose Pods have two containers."""
    parts = {
        name: usage.RecommendedContainer(requests={"cpu": cpu, "memory": mib * learnt.MIB}, peaks={}, cpu_bounds=None)
        for name, cpu, mib in (("main", 0.2, 100), ("proxy", 0.05, 20))
    }
    return dataclasses.replace(learnt.recommended(), containers=("main", "proxy"), of_containers=parts)


def test_each_container_gets_its_own_requests() -> None:
    result, found = ask(pod(container("proxy"), container("main")), of_two())
    assert result is Result.SET
    wanted = [{"cpu": "50m", "memory": "20Mi"}, {"cpu": "200m", "memory": "100Mi"}]
    assert [each["resources"]["requests"] for each in found["spec"]["containers"]] == wanted
    assert "resources" not in found["spec"]
    # The proxy comes with a later webhook, and requests for itself.
    _, found = ask(pod(container("main")), of_two())
    assert found["spec"]["containers"][0]["resources"] == {"requests": wanted[1]}
    # One that the class does not have, as a mesh adds it: the Pod as a whole.
    _, found = ask(pod(container("main"), container("mesh")), of_two())
    assert found["spec"]["resources"] == {"requests": SET}


def test_a_new_image_does_not_interrupt_requests_and_says_how_sure_they_are() -> None:
    result, found = ask(pod(), learnt.recommended(flags=("image_changed",)))
    assert result is Result.SET
    assert found["metadata"]["annotations"][review.SURE] == "low, image_changed"
    _, found = ask(pod(), learnt.recommended(flags=("image_changed", "growing")))
    assert found["metadata"]["annotations"][review.SURE] == "low, image_changed, growing"
    assert ask(pod(), learnt.recommended(flags=("image_changed", "all_failed")))[0] is Result.FLAGGED


def test_a_request_that_no_node_gives_is_left_out_with_the_reason() -> None:
    known = dataclasses.replace(learnt.recommended(cpu=4.193), node_gives={"cpu": 3.6, "memory": 7e9})
    said = "a Pod would request 4193m cpu, of at most 3600m on the largest node"
    result, found = ask(pod(), known)
    assert result is Result.SET
    assert found["spec"]["containers"][0]["resources"] == {"requests": {"memory": "115Mi"}}
    annotations = found["metadata"]["annotations"]
    assert (annotations[review.ANNOTATION], annotations[review.LEFT_OUT]) == ("memory", said)
    # What the runtime takes counts, too.
    result, found = ask(pod(overhead={"cpu": "250m"}), dataclasses.replace(known, requests={"cpu": 3.4}))
    assert result is Result.ABOVE_NODES
    assert found["spec"]["containers"][0]["resources"] == {}
    assert list(found["metadata"]["annotations"]) == [review.LEFT_OUT]
    assert ask(pod(), dataclasses.replace(known, requests={"cpu": 3.6}))[0] is Result.SET


def quota(*scopes: str, used: float = 0.0, **hard: float) -> namespace_rules.Rules:
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    one = namespace_rules.Quota(
        namespace="shop", name="team", hard=named, used=dict.fromkeys(named, used),
        scopes=tuple(namespace_rules.Scope(name=each) for each in scopes),
    )  # fmt: skip
    return namespace_rules.Rules(quotas=(one,))


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        (quota("NotBestEffort", pods=3.0, used=3.0), "ResourceQuota team has 0 of pods left, and the Pod takes 1"),
        (quota("NotBestEffort", requests_cpu=1.0, used=0.8),
         "ResourceQuota team has 200m of requests.cpu left, and the Pod takes 230m"),
        (quota("NotBestEffort", "NotTerminating", pods=3.0, used=3.0),
         "ResourceQuota team has 0 of pods left, and the Pod takes 1"),
        (quota("NotBestEffort", limits_memory=1e12), "ResourceQuota team counts limits.memory, which is not set"),
    ],
)  # fmt: skip
def test_requests_for_which_a_quota_would_refuse_the_pod_are_left_out_with_the_reason(
    rules: namespace_rules.Rules, said: str
) -> None:
    result, found = ask(pod(), rules=rules)
    assert result is Result.QUOTA
    assert found["metadata"].pop("annotations") == {review.LEFT_OUT: said}
    assert found == pod()


@pytest.mark.parametrize(
    ("rules", "obj"),
    [
        (quota("NotBestEffort", pods=3.0, requests_cpu=1.0, used=0.5), pod()),
        # Without requests it is refused just as well.
        (quota(requests_cpu=1.0, used=1.0), pod()),
        (quota("NotBestEffort", pods=3.0, used=3.0), pod(container(requests={"cpu": "1"}))),
        # It counts other Pods.
        (quota("NotBestEffort", "Terminating", pods=3.0, used=3.0), pod()),
        (quota("NotBestEffort", "NotTerminating", pods=3.0, used=3.0), pod(activeDeadlineSeconds=60)),
        (quota("NotBestEffort", "PriorityClass", pods=3.0, used=3.0), pod()),
    ],
)
def test_any_other_quota_changes_nothing(rules: namespace_rules.Rules, obj: dict[str, Any]) -> None:
    assert ask(obj, rules=rules)[0] is Result.SET


def test_the_sum_of_the_containers_counts_for_a_quota() -> None:
    # Of the whole Pod 230m are learnt, of its containers 200m and 50m.
    two = pod(container("main"), container("proxy"))
    assert ask(two, of_two(), quota("NotBestEffort", requests_cpu=0.24))[0] is Result.QUOTA
    assert ask(two, of_two(), quota("NotBestEffort", requests_cpu=0.25))[0] is Result.SET


def test_what_the_runtime_takes_counts_for_a_quota() -> None:
    obj = pod(overhead={"cpu": "250m", "memory": "120Mi"})
    result, found = ask(obj, rules=quota("NotBestEffort", requests_cpu=0.47))
    assert result is Result.QUOTA
    left_out = found["metadata"]["annotations"][review.LEFT_OUT]
    assert left_out == "ResourceQuota team has 470m of requests.cpu left, and the Pod takes 480m"
    assert ask(obj, rules=quota("NotBestEffort", requests_cpu=0.48))[0] is Result.SET


def test_requests_are_raised_to_what_a_limit_range_asks_of_a_pod() -> None:
    limit = namespace_rules.Limit(kind="Pod", least={"cpu": 0.5}, most={}, limit={})
    held = namespace_rules.LimitRange(namespace="shop", name="least", limits=(limit,))
    rules = namespace_rules.Rules(limit_ranges=(held,))
    result, found = ask(pod(), rules=rules)
    assert result is Result.RAISED
    assert found["spec"]["containers"][0]["resources"] == {"requests": SET | {"cpu": "500m"}}
    assert found["metadata"]["annotations"][review.SURE] == "medium, raised to a LimitRange"
    _, found = ask(pod(container("main"), container("proxy")), of_two(), rules)
    assert [each["resources"]["requests"]["cpu"] for each in found["spec"]["containers"]] == ["400m", "100m"]


def test_what_is_stated_stays() -> None:
    both: list[dict[str, dict[str, str]]] = [{"requests": {"cpu": "2"}}, {"limits": {"cpu": "2"}}]
    for stated in both:
        result, found = ask(pod(container(**stated)))
        assert result is Result.SET
        resources = found["spec"]["containers"][0]["resources"]
        assert resources.get("limits") == stated.get("limits")
        assert resources["requests"] == {**stated.get("requests", {}), "memory": "115Mi"}
    whole = pod(container(requests={"cpu": "2"}, limits={"memory": "1Gi"}))
    assert ask(whole) == (Result.HAS_REQUESTS, whole)


def with_token(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A Pod that deploy/admission/burstable.yaml has given its token."""
    found = pod(*containers, **spec)
    found["metadata"]["annotations"] = {"carico.dev/token-request": "cpu"}
    found["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1m"}
    return found


def test_a_token_request_gives_way_to_a_learnt_one() -> None:
    result, found = ask(with_token())
    assert result is Result.SET
    assert found["spec"]["containers"][0]["resources"] == {"requests": SET}
    assert found["metadata"]["annotations"]["carico.dev/learnt-requests"] == "cpu,memory"
    # Asked again, it is no token any more.
    assert ask(found) == (Result.HAS_REQUESTS, found)
    two = with_token(container("a"), container("b"))
    result, found = ask(two)
    assert (result, found["spec"]["resources"]) == (Result.SET, {"requests": SET})
    # What is not learnt, or has no room, keeps the token.
    unknown = dataclasses.replace(learnt.recommended(), name="Job/shop/other")
    assert ask(with_token(), unknown) == (Result.NOT_LEARNT, with_token())
    result, found = ask(with_token(), rules=quota("NotBestEffort", requests_cpu=1.0, used=0.8))
    assert (result, found["spec"]) == (Result.QUOTA, with_token()["spec"])


@pytest.mark.parametrize(
    "stated",
    [
        {"requests": {"cpu": "2m"}},
        {"requests": {"cpu": "1m", "memory": "1Gi"}},
        {"requests": {"cpu": "1m"}, "limits": {"cpu": "1"}},
    ],
)
def test_what_is_more_than_a_token_stays(stated: dict[str, Any]) -> None:
    obj = with_token()
    obj["spec"]["containers"][0]["resources"] = stated
    _, found = ask(obj)
    assert found["spec"]["containers"][0]["resources"]["requests"]["cpu"] == stated["requests"]["cpu"]


def test_a_millicore_without_the_mark_is_the_pods_own() -> None:
    _, found = ask(pod(container(requests={"cpu": "1m"})))
    assert found["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1m", "memory": "115Mi"}


def test_only_the_chosen_resources_are_set() -> None:
    found = learnt.recommended()
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": pod()}})
    answer = review.answer(body, {found.name: found}.get, rules=no_rules, dimensions=("memory",))
    operations = orjson.loads(base64.b64decode(orjson.loads(answer.body)["response"]["patch"]))
    assert operations[0]["value"] == {"requests": {"memory": "115Mi"}}


def test_other_annotations_and_resources_stay() -> None:
    obj = pod(container(requests={"example.com/gpu": "1"}))
    obj["metadata"]["annotations"] = {"a": "b"}
    _, found = ask(obj)
    assert found["metadata"]["annotations"] == {
        "a": "b", review.ANNOTATION: "cpu,memory", review.SURE: "medium",
    }  # fmt: skip
    assert found["spec"]["containers"][0]["resources"]["requests"] == {"example.com/gpu": "1", **SET}


@pytest.mark.parametrize(
    "obj",
    [
        pod(container(), container("proxy")),
        pod(initContainers=[{"name": "mesh", "image": "i", "restartPolicy": "Always"}]),
    ],
    ids=["containers", "sidecar"],
)
def test_several_containers_get_resources_of_the_pod(obj: dict[str, Any]) -> None:
    result, found = ask(obj)
    assert result is Result.SET
    assert found["spec"]["resources"] == {"requests": SET}
    assert found["spec"]["containers"] == obj["spec"]["containers"]
    assert pod_requests.pod_requests(found) == {"cpu": 0.23, "memory": 115 * learnt.MIB}


def test_requests_of_one_of_several_containers_leave_the_pod_as_it_is() -> None:
    # A Pod-level request below the sum of its containers' would be refused.
    obj = pod(container(requests={"cpu": "1"}), container("proxy", limits={"memory": "1Gi"}))
    assert ask(obj) == (Result.HAS_REQUESTS, obj)


def test_a_later_webhook_that_adds_a_container_with_requests_gets_no_pod_refused() -> None:
    # Pod-level requests below the sum of the containers' would be refused.
    _, found = ask(pod(container(), container("proxy")))
    found["spec"]["containers"].append(container("mesh", requests={"cpu": "230m"}))
    # A Pod is measured with what is added to it, so what is large enough stays.
    assert ask(found) == (Result.HAS_REQUESTS, found)
    found["spec"]["containers"].append(container("another", requests={"cpu": "1m"}))
    again, left = ask(found)
    assert again is Result.HAS_REQUESTS
    assert left["spec"]["resources"] == {"requests": {"memory": "115Mi"}}
    assert left["metadata"]["annotations"] == {review.ANNOTATION: "memory", review.SURE: "medium"}
    left["spec"]["initContainers"] = [container("first", limits={"memory": "1Gi"})]
    _, bare = ask(left)
    assert not bare["spec"]["resources"]["requests"]
    assert not bare["metadata"]["annotations"]
    assert ask(bare) == (Result.HAS_REQUESTS, bare)


def test_a_later_webhook_that_adds_a_limit_gets_no_pod_refused() -> None:
    _, found = ask(pod())
    resources = found["spec"]["containers"][0]["resources"]
    resources["limits"] = {"cpu": "1", "memory": "64Mi"}
    _, left = ask(found)
    assert left["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "230m"}, "limits": resources["limits"]}
    assert left["metadata"]["annotations"] == {review.ANNOTATION: "cpu", review.SURE: "medium"}
    _, whole = ask(pod(container(), container("proxy")))
    whole["spec"]["resources"]["limits"] = {"memory": "64Mi"}
    assert ask(whole)[1]["spec"]["resources"] == {"requests": {"cpu": "230m"}, "limits": {"memory": "64Mi"}}


def test_an_annotation_of_somebody_else_leads_to_no_patch_that_cannot_be_applied() -> None:
    for said in ("example.com/gpu", "example.com/gpu,x,", "", "a" * 1000, 3, None):
        obj = pod(
            container(requests={"example.com/gpu": "2", "cpu": "1", "memory": "1Gi"}, limits={"example.com/gpu": "1"})
        )
        obj["metadata"]["annotations"] = {review.ANNOTATION: said}
        assert ask(obj) == (Result.HAS_REQUESTS, obj)


def test_what_does_not_contradict_stays_at_a_second_review() -> None:
    for obj in (pod(), pod(container(), container("proxy"))):
        _, found = ask(obj)
        assert ask(found) == (Result.HAS_REQUESTS, found)
    _, found = ask(pod())
    found["spec"]["containers"].append(container("mesh", requests={"cpu": "300m"}))
    assert ask(found) == (Result.HAS_REQUESTS, found)


@pytest.mark.parametrize(
    ("obj", "known", "expected"),
    [
        (pod(), learnt.recommended("ReplicaSet/shop/other"), Result.NOT_LEARNT),
        (pod(), learnt.recommended("ReplicaSet/elsewhere/web"), Result.NOT_LEARNT),
        (pod(), learnt.recommended(cpu=None, memory=None), Result.NOT_LEARNT),
        (pod(), learnt.recommended(flags=("one_pod",)), Result.FLAGGED),
        (pod(), learnt.recommended(flags=("a_flag_of_a_later_version",)), Result.FLAGGED),
        (pod(os={"name": "windows"}), learnt.recommended(), Result.WINDOWS),
        (pod(nodeName="node-1"), learnt.recommended(), Result.HAS_NODE),
        (pod(tolerations="x"), learnt.recommended(), Result.UNREADABLE),
        (None, learnt.recommended(), Result.UNREADABLE),
        ({"spec": {}}, learnt.recommended(), Result.NOT_LEARNT),
    ],
)
def test_what_is_not_known_well_or_cannot_be_read_stays_as_it_is(
    obj: Any, known: usage.Recommended, expected: Result
) -> None:
    assert ask(obj, known) == (expected, obj)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["spec", "metadata", "containers", "resources", "requests", "x"]), inner)
    ),
    max_leaves=12,
)


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "a/b"]), st.sampled_from(["1", "2Gi", "500m"]), max_size=3)
RESOURCES = st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS})


@given(
    whole=RESOURCES,
    parts=st.lists(RESOURCES, min_size=1, max_size=3),
    said=st.sampled_from([None, "cpu", "memory", "cpu,memory", "a/b"]),
)
def test_every_patch_can_be_applied_and_a_second_review_changes_no_more(
    whole: dict[str, Any], parts: list[dict[str, Any]], said: str | None
) -> None:
    obj = pod(*(container(str(number), **each) for number, each in enumerate(parts)), resources=whole)
    obj["metadata"]["annotations"] = {} if said is None else {review.ANNOTATION: said}
    # `patched` raises for a path that is not there.
    _, found = ask(obj)
    assert ask(ask(found)[1]) == (Result.HAS_REQUESTS, ask(found)[1])


@given(obj=JSON)
def test_whatever_a_pod_is_it_is_allowed(obj: Any) -> None:
    body = orjson.dumps({"request": {"uid": "u", "namespace": "shop", "object": obj}})
    found = learnt.recommended("image/shop/")
    answer = review.answer(body, {found.name: found}.get, rules=no_rules, dimensions=usage.DIMS)
    assert orjson.loads(answer.body)["response"]["allowed"] is True


DEEP = b'{"request": {"uid": ' + b"[" * 900 + b"]" * 900 + b"}}"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"request": 3}', b'{"request": {}}', b'{"request": {"uid": 3}}', DEEP]
)
def test_what_is_no_review_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="expected one of admission"):
        review.answer(body, lambda _: None, rules=no_rules, dimensions=usage.DIMS)
