"""Jobs as labelled Pods: sizes, manifests, submission; and what an observer makes of events."""

import asyncio
from typing import Any

import pytest

from carico_core.domain import errors
from carico_core.runtime.kube import list_watch
from carico_core.runtime.process import clock as clocks
from carico_local.jobs import job, job_labels, observer
from tests.tools import waiting

PI, TRAIN, MIXED = job.Workload.PI, job.Workload.TRAIN, job.Workload.MIXED


@pytest.mark.parametrize(
    ("workload", "seconds", "cores", "pods"),
    [(PI, None, 12, 132), (PI, 2.0, 12, 348), (TRAIN, None, 12, 17), (MIXED, None, 12, 113), (TRAIN, 300.0, 12, 12)],
)
def test_a_job_is_sized_to_a_minute(workload: job.Workload, seconds: float | None, cores: int, pods: int) -> None:
    assert job.sized(workload, seconds=seconds, cores=cores) == pods
    sized = job.Job(name="a", workload=workload, pods=pods, seconds=seconds)
    if seconds != 300.0:
        assert sized.total_work_s / cores + sized.mean_work_s == pytest.approx(60, abs=3)


def test_a_waiting_job_has_each_program_in_turn_and_is_sized_by_what_they_compute() -> None:
    waiting = job.Job(name="w", workload=job.Workload.WAITING, pods=4)
    assert [waiting.kind(index).value for index in range(4)] == ["io", "stages", "boot", "cache"]
    assert waiting.total_work_s == pytest.approx(4.0 + 14.0 + 6.4 + 9.0)
    assert waiting.mean_alone_s == pytest.approx((12.0 + 11.0 + 10.6 + 13.5) / 4)
    pods = job.sized(job.Workload.WAITING, seconds=None, cores=12)
    assert pods == round((60.0 - waiting.mean_alone_s) / (33.4 / 4) * 12)


def test_a_mixed_job_is_mostly_pi_and_its_seconds_are_those_of_pi() -> None:
    mixed = job.Job(name="m", workload=MIXED, pods=52, seconds=2.0)
    kinds = [mixed.kind(index) for index in range(mixed.pods)]
    assert kinds.count(TRAIN) == 2
    assert (mixed.work_s(PI), mixed.work_s(TRAIN)) == (2.0, 25.0)
    assert mixed.total_work_s == 50 * 2.0 + 2 * 25.0
    assert mixed.mean_work_s == 150.0 / 52


@pytest.mark.parametrize(
    ("fields", "flag"),
    [
        ({"name": "Not_Valid"}, "job name"),
        ({"name": "a" * 51}, "job name"),
        ({"pods": 0}, "--pods"),
        ({"pods": 10**6}, "--pods"),
        ({"seconds": 0.0}, "--seconds"),
        ({"seconds": float("nan")}, "--seconds"),
    ],
)
def test_a_job_without_sense_is_refused_by_the_name_of_its_flag(fields: dict[str, Any], flag: str) -> None:
    with pytest.raises(errors.SettingsError, match=f"^{flag}: got .*, expected"):
        job.Job(**{"name": "a", "workload": PI, "pods": 1, **fields})


class Api:
    """Takes Pods; the ones named in `taken` exist already."""

    def __init__(self, *taken: str) -> None:
        self.taken = set(taken)
        self.pods: list[dict[str, Any]] = []

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        await asyncio.sleep(0)
        name = body["metadata"]["name"]
        if name in self.taken:
            raise errors.Conflict(status=409, reason="AlreadyExists", message=name, request=f"{method} {path}")
        self.taken.add(name)
        self.pods.append(body)
        return body


async def test_every_pod_of_a_job_is_created_once_and_names_the_scheduler() -> None:
    api = Api()
    assert await job.submit(api, job.Job(name="j", workload=PI, pods=40, seconds=1.5)) == 40
    assert sorted(pod["metadata"]["name"] for pod in api.pods) == [f"j-{index:02d}" for index in range(40)]
    assert {pod["spec"]["schedulerName"] for pod in api.pods} == {"carico"}
    assert api.pods[0]["spec"]["containers"][0]["command"] == ["carico-workload", "pi", "--seconds", "1.5"]
    assert "resources" not in api.pods[0]["spec"]["containers"][0]


async def test_as_a_batch_job_a_kind_is_one_job_and_each_pod_is_tried_once() -> None:
    api = Api()
    assert await job.submit(api, job.Job(name="m", workload=MIXED, pods=27, seconds=2.0), batch=True) == 2
    kinds = {each["metadata"]["name"]: each["spec"] for each in api.pods}
    assert {name: spec["completions"] for name, spec in kinds.items()} == {"m-train": 2, "m-pi": 25}
    assert all(spec["parallelism"] == spec["completions"] and spec["backoffLimitPerIndex"] == 0
               for spec in kinds.values())  # fmt: skip
    template = kinds["m-pi"]["template"]
    assert template["metadata"]["labels"][job_labels.JOB_LABEL] == "m"
    assert template["metadata"]["annotations"][job_labels.WORK_ANNOTATION] == "2s"
    assert template["spec"]["schedulerName"] == "carico"


async def test_a_name_that_is_taken_is_a_conflict() -> None:
    with pytest.raises(errors.Conflict):
        await job.submit(Api("j-0"), job.Job(name="j", workload=PI, pods=3))


class Faulty(Api):
    """Is away for some requests in a row; what it was asked before its answer was lost, it has done."""

    def __init__(self, *, away: range, lost: int) -> None:
        super().__init__()
        self._asked = 0
        self._away, self._lost = away, lost

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        self._asked += 1
        number = self._asked
        if number in self._away:
            raise errors.ApiUnavailable(f"{method} {path}: refused")
        answer = await super().request(method, path, body=body)
        if number == self._lost:
            raise errors.ApiUnavailable(f"{method} {path}: the connection ended")
        return answer


async def test_a_job_is_submitted_whole_though_the_api_goes_away_in_the_middle() -> None:
    api = Faulty(away=range(3, 40), lost=2)
    assert await job.submit(api, job.Job(name="j", workload=PI, pods=20), ask_again_s=0.0) == 20
    assert sorted(pod["metadata"]["name"] for pod in api.pods) == [f"j-{index:02d}" for index in range(20)]


async def test_submission_fails_where_the_api_stays_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "ASKED_FOR_S", 0.05)
    api = Faulty(away=range(5, 10**6), lost=0)
    with pytest.raises(errors.ApiUnavailable, match="refused"):
        await job.submit(api, job.Job(name="j", workload=PI, pods=20), ask_again_s=0.0)


async def test_an_api_that_is_frozen_is_given_up_as_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "ASKED_FOR_S", 0.05)

    class Frozen(Api):
        async def request(self, method: str, path: str, *, body: Any = None) -> Any:
            await asyncio.Event().wait()

    with pytest.raises(errors.ApiUnavailable, match=r"no answer for 0\.05 s"):
        await job.submit(Frozen(), job.Job(name="j", workload=PI, pods=20))


def pod(phase: str, *, node: str = "", **terminated: Any) -> dict[str, Any]:
    state: dict[str, Any] = {"terminated": terminated} if terminated else {"running": {}} if phase == "Running" else {}
    return {
        "metadata": {"uid": "u", "name": "j-0", "labels": {job_labels.JOB_LABEL: "j", job_labels.WORKLOAD_LABEL: "pi"}},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "containerStatuses": [{"state": state}]},
    }


class Mirror:
    """Yield the given events, then nothing more."""

    def __init__(self, *events: Any) -> None:
        self._events = events

    async def mirror(self, path: str, *, params: Any = None) -> Any:
        for event in self._events:
            yield event
        await asyncio.Event().wait()


async def test_an_observer_keeps_each_node_a_pod_was_shown_on_and_the_processs_own_times() -> None:
    clock = clocks.FakeClock(wall_ns=5_000_000_000)
    seen = observer.Observer(clock=clock)
    told = Mirror(
        list_watch.Listed(objects=[pod("Pending")], resource_version="1"),
        list_watch.Changed(type="MODIFIED", object=pod("Running", node="node-1")),
        list_watch.Changed(type="MODIFIED", object=pod("Running", node="node-2")),
        list_watch.Changed(
            type="MODIFIED",
            object=pod(
                "Succeeded",
                node="node-2",
                reason="Completed",
                message='{"started_ns": 1000000000, "finished_ns": 3500000000}',
            ),
        ),
    )
    following = asyncio.ensure_future(seen.follow_pods(told))
    async with asyncio.timeout(waiting.WAIT_S):
        while not any(each.is_terminal for each in seen.of_job("j")):
            await asyncio.sleep(0)
    following.cancel()
    (found,) = seen.of_job("j")
    assert found.nodes == ["node-1", "node-2"]
    assert (found.started_s, found.finished_s, found.terminal_s) == (1.0, 3.5, 5.0)


async def test_a_pod_that_a_new_list_lacks_is_gone_and_damaged_last_words_are_none() -> None:
    seen = observer.Observer(clock=clocks.FakeClock())
    told = Mirror(
        list_watch.Listed(
            objects=[pod("Failed", node="n", reason="OOMKilled", message="no json")], resource_version="1"
        ),
        list_watch.Away(error=errors.ApiUnavailable("away")),
        list_watch.Listed(objects=[], resource_version="9"),
    )
    following = asyncio.ensure_future(seen.follow_pods(told))
    async with asyncio.timeout(waiting.WAIT_S):
        while not any(each.gone for each in seen.pods.values()):
            await asyncio.sleep(0)
    following.cancel()
    (found,) = seen.of_job("j")
    assert (found.reason, found.started_s, found.phase) == ("OOMKilled", None, "Failed")
    assert seen.api_away is None


def test_damaged_messages_from_the_bus_are_passed_over() -> None:
    seen = observer.Observer(clock=clocks.FakeClock())
    seen.on_capacity("carico.v1.capacity.node-1", b"{")
    seen.on_decision("carico.v1.decision.default.a", b"[]")
    assert not seen.capacities
    assert not seen.placed
