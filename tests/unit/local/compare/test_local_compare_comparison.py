"""What trials say together: who is compared with whom, medians, and targets that can be missed."""

import dataclasses
import math
from typing import Any

import pytest

from carico_core.domain import errors
from carico_local.compare import comparison, contender, servers, trial
from carico_local.jobs import facts
from carico_local.jobs import job as jobs


def made(name: str, repeat: int, job_s: float, mean_s: float | None, **more: int) -> trial.Trial:
    pod_s = dict.fromkeys(("mean", "std", "min", "p50", "p95", "max"), mean_s)
    rest: dict[str, Any] = {"max_running_per_node": 4, "failed": 0, "bound_twice": 0, **more}
    return trial.Trial(contender=name, repeat=repeat, job_s=job_s, pod_s=pod_s, **rest)


def latency(p99_ms: float) -> dict[str, float]:
    return dict.fromkeys(servers.QUANTILES, p99_ms / 2.0) | {"p99": p99_ms}


def compared(*found: trial.Trial) -> dict[str, object]:
    names = dict.fromkeys(one.contender for one in found)
    report = comparison.report(found, [contender.parse(name, cores=4) for name in names], setting={})
    return {one["what"]: one["verdict"] for one in report["targets"]} | {"rows": report["contenders"]}


def test_contenders_say_what_their_pods_ask_for() -> None:
    ours = contender.parse("carico", cores=4)
    assert (ours.scheduler_name, ours.request_millicores, ours.agents, ours.is_kube) == ("carico", None, True, False)
    asking = contender.parse("carico-1091m", cores=4)
    assert (asking.scheduler_name, asking.request_millicores) == (ours.scheduler_name, 1091)
    half = contender.parse("kube-500m", cores=4)
    assert (half.scheduler_name, half.request_millicores, half.is_kube) == ("default-scheduler", 500, True)
    bare = contender.parse("kube-500m-bare", cores=4)
    assert (bare.agents, bare.is_kube) == (False, False)
    # Eight fill the node, and a ninth does not fit.
    assert contender.parse("constant-8", cores=4).request_millicores == 500
    seventh = contender.parse("constant-7", cores=4).request_millicores
    assert seventh is not None
    assert 7 * seventh <= 4000
    assert not contender.parse("constant-8", cores=4).is_kube


@pytest.mark.parametrize(
    "name", ["kube", "kube-0m", "kube-500", "constant-", "constant-0", "carico-bare", "", "KUBE-500m"]
)
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(errors.SettingsError, match="expected carico, kube-500m"):
        contender.parse(name, cores=4)


@pytest.mark.parametrize("name", ["kube-4001m", "kube-9000m-bare", "carico-4001m"])
def test_a_request_above_a_nodes_cores_is_refused(name: str) -> None:
    assert contender.parse(name.replace("4001", "4000").replace("9000", "4000"), cores=4).request_millicores == 4000
    with pytest.raises(errors.SettingsError, match="expected a request of at most 4000m: a node has 4 cores"):
        contender.parse(name, cores=4)


def test_a_contenders_pods_fill_a_kubelet() -> None:
    assert contender.parse("constant-8", cores=0.5).request_millicores == 62


def test_pods_of_a_contender_name_its_scheduler_and_request() -> None:
    job = jobs.Job(
        name="x", workload=jobs.Workload.PI, pods=1, scheduler_name="default-scheduler", request_millicores=250
    )  # fmt: skip
    spec = next(iter(jobs.manifests(job)))["spec"]
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["containers"][0]["resources"] == {"requests": {"cpu": "250m"}}
    plain = next(iter(jobs.manifests(jobs.Job(name="x", workload=jobs.Workload.PI, pods=1))))["spec"]
    assert plain["schedulerName"] == "carico"
    assert "resources" not in plain["containers"][0]


def test_medians_stand_against_the_targets() -> None:
    found = [made("carico", n, job_s, 6.0) for n, job_s in enumerate((99.0, 104.0, 300.0))]
    found += [made("kube-100m", 0, 120.0, 30.0), made("kube-500m", 0, 100.0, 7.0), made("kube-500m-bare", 0, 10.0, 1.0)]
    said = compared(*found)
    assert said["mean Pod time against a quarter of kube-100m's"] == "met"
    assert said["mean Pod time against kube-500m's"] == "met"
    # 104 against 1.05 x 100: the run without agents is no setting of kube-scheduler's to beat.
    assert said["job time against 1.05 x the best kube setting's"] == "met"
    slower = compared(made("carico", 0, 106.0, 8.0), *found[3:])
    assert slower["mean Pod time against a quarter of kube-100m's"] == "missed"
    assert slower["mean Pod time against kube-500m's"] == "missed"
    assert slower["job time against 1.05 x the best kube setting's"] == "missed"


def test_agents_cost_what_the_same_round_takes_longer_with_them() -> None:
    found = [made("kube-100m", 1, 102.0, 5.0), made("kube-100m-bare", 1, 100.0, 5.0), made("kube-100m", 2, 105.0, 5.0)]
    found += [made("kube-100m-bare", 2, 100.0, 5.0), made("kube-200m-bare", 1, 90.0, 5.0)]
    wanted = [contender.parse(name, cores=4) for name in ("kube-100m", "kube-100m-bare", "kube-200m-bare")]
    overhead = comparison.report(found, wanted, setting={})["agent_overhead"]
    assert overhead == {"kube-100m": {"mean": 0.035, "sd": pytest.approx(0.0212, abs=1e-4), "runs": 2}}


def test_servers_next_to_the_job_are_compared_with_those_of_idle_nodes() -> None:
    found = [dataclasses.replace(made("carico", 0, 10.0, 1.0), server_ms=latency(p99)) for p99 in (2.0, 3.1, 9.0)]
    wanted = [contender.parse("carico", cores=4)]
    for idle_ms, verdict in ((2.0, "missed"), (2.1, "met")):
        report = comparison.report(found, wanted, setting={}, idle_ms=[latency(p99) for p99 in (1.0, idle_ms, 9.0)])
        assert report["idle_server_ms"]["p99"] == idle_ms
        assert report["contenders"]["carico"]["server_ms"]["p50"] == pytest.approx(3.1 / 2.0)
        assert report["targets"][-1]["verdict"] == verdict
        assert report["contenders"]["carico"]["server_p99_ms"]["median"] == 3.1


@pytest.mark.parametrize(("text", "millicores"), [("100m", 100), ("0.5", 500), ("4", 4000), ("1e-1", 100)])
def test_what_servers_ask_for(text: str, millicores: int) -> None:
    assert servers.millicores(text, cores=4) == millicores


@pytest.mark.parametrize("text", ["", "100 m", "0", "-1", "0.1m", "4001m", "8", "1Gi", "1e999", "half"])
def test_what_no_server_could_ask_for_is_refused(text: str) -> None:
    with pytest.raises(errors.SettingsError, match=r"--servers-cpu: got .* expected CPU such as 100m .* 4 cores"):
        servers.millicores(text, cores=4)


def test_a_run_in_which_a_pod_failed_has_no_times() -> None:
    found = [made("carico", 1, 100.0, 6.0), made("carico", 2, 3.0, 1.0, failed=7), made("kube-500m", 1, 98.0, 7.0)]
    found += [made("kube-500m-bare", 1, 1.0, None, failed=9), made("kube-100m", 1, 2.0, 1.0, failed=1)]
    names = dict.fromkeys(one.contender for one in found)
    report = comparison.report(found, [contender.parse(name, cores=4) for name in names], setting={})
    ours, fast = report["contenders"]["carico"], report["contenders"]["kube-100m"]
    assert (ours["runs"], ours["failed"], ours["job_s"]["least"], ours["pod_mean_s"]["least"]) == (2, 7, 100.0, 6.0)
    assert (fast["job_s"]["median"], fast["pod_mean_s"]["median"], fast["failed"]) == (None, None, 1)
    assert report["agent_overhead"] == {}
    verdicts = {one["what"]: one["verdict"] for one in report["targets"]}
    assert verdicts["job time against 1.05 x the best kube setting's"] == "met"
    assert verdicts["mean Pod time against a quarter of kube-100m's"] == "unknown"


def test_what_was_not_run_is_unknown() -> None:
    said = compared(made("carico", 0, 50.0, None), made("kube-200m", 0, 100.0, 7.0))
    assert said["mean Pod time against kube-500m's"] == "unknown"
    assert said["job time against 1.05 x the best kube setting's"] == "met"
    assert "job time against 1.05 x the best kube setting's" not in compared(made("kube-200m", 0, 1.0, 1.0))


def test_a_trial_is_measured_by_what_was_seen() -> None:
    def pod(index: int, start_s: float, end_s: float, *nodes: str, phase: str = "Succeeded") -> facts.PodFacts:
        return facts.PodFacts(
            uid=str(index), name=str(index), workload="pi", created_s=0.0, phase=phase, nodes=list(nodes),
            started_s=start_s, finished_s=end_s, terminal_s=end_s + 0.5,
        )  # fmt: skip

    pods = [pod(0, 1.0, 4.0, "a"), pod(1, 2.0, 7.0, "a"), pod(2, 2.0, 6.0, "b", "a", phase="Failed")]
    found = trial.measure(pods, contender.parse("carico", cores=4), 1, submitted_s=0.5)
    assert found.job_s == 7.0
    assert found.pod_s["mean"] == 4.0
    assert found.max_running_per_node == 3
    assert (found.failed, found.bound_twice) == (1, 1)
    assert not math.isnan(found.job_s)
