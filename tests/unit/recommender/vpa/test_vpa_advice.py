"""What is recommended to a VerticalPodAutoscaler, and which conditions it gets."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico_core.domain import usage
from carico_core.wire.kubernetes import namespace_rules
from carico_recommender.vpa import advice as advices
from carico_recommender.vpa import objects
from tests.unit.recommender import learnt

Kind = advices.Kind
MIB, DAY_S = learnt.MIB, learnt.DAY_S


def advise(
    known: usage.Recommended | None, *policies: dict[str, Any], has: bool = False, one: objects.Autoscaler | None = None
) -> advices.Advice:
    return advices.advise(one or learnt.autoscaler(*policies), known, margin=0.15, has_recommendation=has)


def conditions(found: advices.Advice) -> dict[str, tuple[bool, str]]:
    return {each.kind.value: (each.is_true, each.reason) for each in found.conditions}


def only(found: advices.Advice) -> advices.Container:
    assert found.containers is not None
    (container,) = found.containers
    return container


def test_a_class_that_is_known_well_gets_amounts_for_its_container() -> None:
    found = advise(learnt.recommended())
    assert conditions(found) == {"RecommendationProvided": (True, "")}
    container = only(found)
    assert container.name == "main"
    assert container.target == container.uncapped == {"cpu": 0.23, "memory": 115 * MIB}
    # A day of history: VPA's multipliers are (1 + .001)^-2 and 2.
    assert container.lower == {"cpu": 0.115, "memory": 100 * MIB}
    assert container.upper == {"cpu": 0.46, "memory": 230 * MIB}


@given(
    cpu=st.floats(0.001, 100.0), memory=st.floats(MIB, 1e12), age_s=st.floats(0.0, 1e7),
    least=st.floats(0.0, 10.0), most=st.floats(0.0, 10.0),
)  # fmt: skip
def test_bounds_contain_the_target_within_the_policy(
    cpu: float, memory: float, age_s: float, least: float, most: float
) -> None:  # fmt: skip
    policy = {"minAllowed": {"cpu": f"{least:.3f}"}, "maxAllowed": {"cpu": f"{max(least, most):.3f}"}}
    container = only(advise(learnt.recommended(cpu=cpu, memory=memory, age_s=age_s), policy))
    for dim in ("cpu", "memory"):
        assert 0.0 < container.lower[dim] <= container.target[dim] <= container.upper[dim]
    if most >= 0.001:
        assert round(least, 3) <= container.target["cpu"] <= round(max(least, most), 3)
    assert container.uncapped["cpu"] == cpu


def test_with_little_history_only_requests_that_are_far_off_are_outside_of_the_bounds() -> None:
    container = only(advise(learnt.recommended(age_s=60.0)))
    assert container.lower["memory"] < 20 * MIB
    assert container.upper["memory"] > 1000 * container.target["memory"]


def test_limits_of_the_policy_change_all_but_the_uncapped_target() -> None:
    container = only(advise(learnt.recommended(), {"minAllowed": {"cpu": "300m"}, "maxAllowed": {"memory": "100M"}}))
    assert (container.target["cpu"], container.lower["cpu"], container.upper["cpu"]) == (0.3, 0.3, 0.46)
    assert (container.target["memory"], container.upper["memory"]) == (1e8, 1e8)
    assert container.uncapped == {"cpu": 0.23, "memory": 115 * MIB}


def rules_of(*limits: namespace_rules.Limit, **hard: float) -> namespace_rules.Rules:
    held = namespace_rules.LimitRange(namespace="shop", name="small", limits=limits)
    named = {name.replace("_", "."): amount for name, amount in hard.items()}
    quota = namespace_rules.Quota(namespace="shop", name="team", hard=named, used={})
    return namespace_rules.Rules(limit_ranges=(held,), quotas=(quota,))


def test_amounts_for_which_a_quota_would_refuse_pods_are_withheld() -> None:
    # 3 Pods of 230m, of which nothing is requested yet.
    rules = rules_of(requests_cpu=0.6)
    one, known = learnt.autoscaler(), learnt.recommended()
    found = advices.advise(one, known, margin=0.15, has_recommendation=False, rules=rules)
    assert found.containers is None
    assert conditions(found) == {
        "NamespaceRefuses": (True, "ResourceQuota"), "RecommendationProvided": (False, "ResourceQuota"),
    }  # fmt: skip
    message = "ResourceQuota team: with the 3 Pods that run, requests.cpu would be 690m of at most 600m"
    assert found.conditions[0].message == message
    # Amounts that are there stay; and what the Pods request already is no more than before.
    found = advices.advise(one, known, margin=0.15, has_recommendation=True, rules=rules)
    assert found.containers is None
    assert conditions(found)["RecommendationProvided"] == (True, "")
    known = dataclasses.replace(known, requested={"cpu": 0.23})
    assert only(advices.advise(one, known, margin=0.15, has_recommendation=True, rules=rules)).target["cpu"] == 0.23
    # Within the policy's bounds it fits.
    one = learnt.autoscaler({"maxAllowed": {"cpu": "200m"}})
    known = learnt.recommended()
    assert only(advices.advise(one, known, margin=0.15, has_recommendation=False, rules=rules)).target["cpu"] == 0.2


@pytest.mark.parametrize(
    ("gib", "changed", "policies", "refusal"),
    [
        # Limits are at least the requests, and rise with them.
        (6.0, {}, [], "with the 3 Pods that run, limits.memory would be at least 7Gi of at most 6Gi"),
        (1.5, {}, [], "one Pod takes at least 2Gi of limits.memory, of at most 1536Mi"),
        (7.0, {}, [], None),
        (6.0, {}, [{"containerName": "*", "controlledValues": "RequestsOnly"}], None),
        # Without a request there is no limit that rises.
        (6.0, {"requested": {}}, [], None),
        (6.0, {"requested": {"memory": 2048 * MIB}}, [], None),
    ],
)
def test_a_quota_of_limits_that_rise_with_the_requests_refuses(
    gib: float, changed: dict[str, Any], policies: list[dict[str, Any]], refusal: str | None
) -> None:
    hard, used = {"limits.memory": gib * 1024 * MIB}, {"limits.memory": 4096 * MIB}
    quota = namespace_rules.Quota(namespace="shop", name="team", hard=hard, used=used)
    known = learnt.recommended(memory=2048 * MIB)
    known = dataclasses.replace(known, **({"requested": {"memory": 1024 * MIB}} | changed))
    found = advices.advise(
        learnt.autoscaler(*policies), known, margin=0.15, has_recommendation=False,
        rules=namespace_rules.Rules(quotas=(quota,)),
    )  # fmt: skip
    said = found.find(Kind.NAMESPACE_REFUSES)
    assert (None if said is None else said.message.split(": ")[1]) == refusal
    assert (found.containers is None) is (refusal is not None)


def test_a_limit_range_that_contradicts_is_named_and_the_amounts_are_provided() -> None:
    rules = rules_of(namespace_rules.Limit(kind="Container", least={}, most={"memory": 64 * MIB}, limit={}))
    found = advices.advise(
        learnt.autoscaler(), learnt.recommended(), margin=0.15, has_recommendation=False, rules=rules
    )
    assert only(found).target["memory"] == 115 * MIB
    assert conditions(found) == {
        "NamespaceRefuses": (True, "LimitRange"), "RecommendationProvided": (True, ""),
    }  # fmt: skip


def test_amounts_that_no_node_gives_are_withheld_unless_the_policy_bounds_them() -> None:
    known = dataclasses.replace(learnt.recommended(cpu=4.193), node_gives={"cpu": 3.6, "memory": 7e9})
    found = advise(known)
    assert found.containers is None
    assert conditions(found) == {"RecommendationProvided": (False, "AboveNodes")}
    assert found.conditions[-1].message == "a Pod would request 4193m cpu, of at most 3600m on the largest node"
    assert only(advise(known, {"maxAllowed": {"cpu": "3500m"}})).target["cpu"] == 3.5
    assert only(advise(known, {"controlledResources": ["memory"]})).target == {"memory": 115 * MIB}


def test_only_controlled_resources_are_recommended() -> None:
    assert only(advise(learnt.recommended(), {"controlledResources": ["memory"]})).target == {"memory": 115 * MIB}


def test_another_controlled_resource_is_named_and_the_others_are_recommended() -> None:
    found = advise(learnt.recommended(), {"controlledResources": ["cpu", "nvidia.com/gpu"]})
    assert only(found).target == {"cpu": 0.23}
    assert conditions(found)["ConfigUnsupported"] == (True, "OtherResource")
    said = found.find(Kind.CONFIG_UNSUPPORTED)
    assert said is not None
    assert said.message.startswith("controlledResources: got nvidia.com/gpu, expected cpu or memory")
    nothing = advise(learnt.recommended(), {"controlledResources": ["nvidia.com/gpu"]})
    assert nothing.containers == ()
    assert conditions(nothing)["RecommendationProvided"] == (False, "NothingControlled")


def test_bounds_that_contradict_and_unknown_targets_get_nothing() -> None:
    for one in (
        learnt.autoscaler({"minAllowed": {"memory": "2Gi"}, "maxAllowed": {"memory": "1Gi"}}),
        learnt.autoscaler(kind="DaemonSet"),
    ):
        found = advise(learnt.recommended(), one=one, has=True)
        assert found.containers == ()
        assert conditions(found) == {
            "ConfigUnsupported": (True, "InvalidSpec"), "RecommendationProvided": (False, "InvalidSpec"),
        }  # fmt: skip


def test_each_container_gets_its_own_amounts_within_its_policy() -> None:
    parts = {
        name: usage.RecommendedContainer(
            requests={"cpu": cpu, "memory": mib * learnt.MIB},
            peaks={"cpu": cpu, "memory": mib * learnt.MIB / 1.15},
            cpu_bounds=(cpu / 2.3, cpu),
        )
        for name, cpu, mib in (("main", 0.2, 100), ("proxy", 0.05, 20))
    }
    known = dataclasses.replace(learnt.recommended(containers=("main", "proxy")), of_containers=parts)
    found = advise(known, {"containerName": "proxy", "maxAllowed": {"cpu": "40m"}}).containers
    assert found is not None
    assert [(each.name, each.target) for each in found] == [
        ("main", {"cpu": 0.2, "memory": 100 * learnt.MIB}), ("proxy", {"cpu": 0.04, "memory": 20 * learnt.MIB}),
    ]  # fmt: skip
    # Never below a peak that was seen.
    assert found[1].lower["memory"] <= 20 * learnt.MIB and found[0].uncapped == found[0].target
    assert only(advise(known, {"containerName": "main", "mode": "Off"})).name == "proxy"


def test_of_several_containers_that_are_not_known_all_but_one_must_be_off() -> None:
    known = learnt.recommended(containers=("main", "proxy"))
    found = advise(known)
    assert found.containers == ()
    assert conditions(found)["ConfigUnsupported"] == (True, "SeveralContainers")
    assert only(advise(known, {"containerName": "proxy", "mode": "Off"})).name == "main"
    off = advise(known, {"containerName": "*", "mode": "Off"})
    assert (off.containers, conditions(off)) == ((), {"RecommendationProvided": (False, "ContainersOff")})


def test_a_workload_that_is_gone_keeps_what_was_recommended_and_says_so() -> None:
    gone = advise(None, has=True)
    assert gone.containers is None
    assert conditions(gone) == {
        "NoPodsMatched": (True, "NotMeasured"), "LowConfidence": (True, "NotMeasured"),
        "RecommendationProvided": (True, ""),
    }  # fmt: skip
    never = advise(None)
    assert conditions(never) == {
        "NoPodsMatched": (True, "NotMeasured"), "RecommendationProvided": (False, "NotMeasured"),
    }  # fmt: skip


def test_a_class_between_two_runs_is_recommended_though_no_pod_runs() -> None:
    found = advise(learnt.recommended(running=0))
    assert conditions(found) == {"NoPodsMatched": (True, "NoPodsMatched"), "RecommendationProvided": (True, "")}
    assert only(found).target["cpu"] == 0.23


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("all_failed", "AllFailed"), ("two_kinds", "TwoKinds"), ("brief", "Brief"),
    ],
)  # fmt: skip
def test_what_must_not_be_applied_without_a_look_is_withheld(flag: str, reason: str) -> None:
    first = advise(learnt.recommended(flags=(flag,)))
    assert first.containers is None
    assert conditions(first) == {"RecommendationProvided": (False, reason)}
    later = advise(learnt.recommended(flags=(flag,)), has=True)
    assert later.containers is None
    assert conditions(later) == {"LowConfidence": (True, reason), "RecommendationProvided": (True, "")}


def test_of_memory_that_grows_less_than_today_is_withheld_and_more_is_recommended() -> None:
    known = dataclasses.replace(learnt.recommended(flags=("growing",)), requested={"memory": 200 * MIB})
    found = advise(known)
    assert found.containers is None
    assert conditions(found) == {"RecommendationProvided": (False, "Growing")}
    found = advise(dataclasses.replace(known, requested={"memory": 100 * MIB}))
    assert only(found).target["memory"] == 115 * MIB
    assert conditions(found) == {"LowConfidence": (True, "Growing"), "RecommendationProvided": (True, "")}


def test_memory_that_grows_withholds_nothing_of_other_resources_and_hides_no_fault_of_the_object() -> None:
    known = dataclasses.replace(learnt.recommended(flags=("growing",)), requested={"memory": 200 * MIB})
    found = advise(known, {"containerName": "*", "controlledResources": ["cpu"]})
    assert only(found).target == {"cpu": 0.23}
    off = advise(known, {"containerName": "*", "mode": "Off"})
    assert conditions(off) == {"RecommendationProvided": (False, "ContainersOff")}


def test_a_new_image_is_recommended_the_amounts_of_both_with_low_confidence() -> None:
    found = advise(learnt.recommended(flags=("image_changed",)))
    assert only(found).target["cpu"] == 0.23
    assert conditions(found) == {"LowConfidence": (True, "ImageChanged"), "RecommendationProvided": (True, "")}


def test_one_pod_is_recommended_with_low_confidence() -> None:
    found = advise(learnt.recommended(flags=("one_pod",), confidence="low"))
    assert only(found).target["cpu"] == 0.23
    assert conditions(found) == {"LowConfidence": (True, "FewPods"), "RecommendationProvided": (True, "")}


def test_a_flag_of_a_later_version_does_not_withhold_in_silence() -> None:
    assert conditions(advise(learnt.recommended(containers=()), has=False)) == {
        "RecommendationProvided": (False, "ContainersUnknown")
    }
