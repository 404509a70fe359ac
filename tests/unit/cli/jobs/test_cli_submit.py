"""Which cluster a job goes to, and how long it is waited for."""

import asyncio
import contextlib
import dataclasses
import pathlib
import types
from collections.abc import AsyncGenerator, Mapping
from typing import cast

import click
import click.testing
import pytest

from carico_cli.clusters import which
from carico_cli.jobs import job_wait, submit
from carico_cli.live import addresses, connection
from carico_cli.shell import settings
from carico_core.domain import errors, names
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client, list_watch
from carico_core.runtime.process import clock as clocks
from carico_local.jobs import job as jobs
from carico_local.jobs import job_labels, observer
from tests.tools import carico_cli


def context(home: pathlib.Path, **environ: str) -> settings.Context:
    return settings.Context(home=home, environ=environ, plain=True)


def test_jobs_of_one_workload_are_one_class() -> None:
    now_ns = 1_795_464_420_022_769_835
    both = [submit.generated_name("pi", now_ns + more) for more in (0, 10**7)]
    assert len(set(both)) == 2
    assert {names.template_of(each) for each in both} == {"pi"}


def test_an_empty_name_is_refused_rather_than_generated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico_cli.run(monkeypatch, "submit", "pi", "--job", "") == 2
    assert "job name: got '', expected at most 50 of" in capsys.readouterr().err


def test_without_a_local_cluster_the_environment_says_where(tmp_path: pathlib.Path) -> None:
    environ = context(tmp_path, NATS_URL="nats://nats-server:4222", KUBECONFIG="/etc/k")
    found = submit._address(environ, which.Flags())
    assert (found.bus.url, found.kube.kubeconfig) == ("nats://nats-server:4222", "")


def test_advice_repeats_the_flags_that_were_given_and_not_what_the_environment_has(tmp_path: pathlib.Path) -> None:
    by_flags = which.Flags(nats_url="nats://x:1", kubeconfig="my file", kube_context="prod")
    found = submit._address(context(tmp_path), by_flags)
    assert found.carico("top") == "carico top --nats-url nats://x:1 --kubeconfig 'my file' --context prod"
    environ = context(tmp_path, NATS_URL="nats://x:1", KUBECONFIG="/etc/k")
    assert submit._address(environ, which.Flags()).carico("top") == "carico top"
    assert submit._address(environ, which.Flags(kube_context="prod")).carico("top") == "carico top --context prod"


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "no cluster runs on this machine"),
        ({"NATS_URL": "nats://x:1"}, "got only a NATS address"),
        ({"KUBECONFIG": "/etc/k"}, "no cluster runs on this machine"),
    ],
)
def test_where_nothing_says_which_cluster_it_is_refused(
    tmp_path: pathlib.Path, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(errors.SettingsError, match=said):
        submit._address(context(tmp_path, **environ), which.Flags())


def test_a_container_is_run_again_where_that_is_asked_for() -> None:
    job = jobs.Job(name="j", workload=jobs.Workload.PI, pods=1, restarts=True)
    assert next(jobs.manifests(job))["spec"]["restartPolicy"] == "OnFailure"
    batch = next(jobs.batch_manifests(job))["spec"]
    assert batch["template"]["spec"]["restartPolicy"] == "OnFailure"
    # The API server allows no limit per index together with it.
    assert "backoffLimitPerIndex" not in batch


@pytest.mark.parametrize(
    ("workload", "pods", "batch", "said"),
    [
        ("pi", 27, False, "job j on cluster nats:4222: 27 Pods created"),
        ("pi", 1, False, "job j on cluster nats:4222: 1 Pod created"),
        ("pi", 27, True, "job j on cluster nats:4222: 1 Job created; the Job controller creates 27 Pods"),
        (
            "mixed",
            27,
            True,
            "job j on cluster nats:4222: 2 Jobs created; the Job controller creates 27 Pods",
        ),
    ],
)
async def test_what_is_said_to_be_created_is_there(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    workload: str,
    pods: int,
    batch: bool,
    said: str,
) -> None:
    made: list[str] = []

    class Taker:
        async def request(self, method: str, path: str, *, body: object = None, params: object = None) -> object:
            if path == "/apis/batch/v1" and not batch:
                raise errors.NotFound(status=404, reason="NotFound", message="no batch", request=path)
            if method == "POST":
                made.append(path)
            return {}

    @contextlib.asynccontextmanager
    async def connect_to(address: addresses.Address, environ: object) -> AsyncGenerator[object, None]:
        yield types.SimpleNamespace(api=Taker())

    monkeypatch.setattr(connection, "connect_to", connect_to)
    job = jobs.Job(name="j", workload=jobs.Workload(workload), pods=pods)
    assert await submit._submit(REMOTE, job, wait=False, why_gone=lambda _: None, shortage=str) == 0
    assert capsys.readouterr().out == said + "\n"
    assert f"{len(made)} {'Job' if batch else 'Pod'}" in said


async def test_a_job_is_not_added_to_one_of_the_same_name(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken:
        async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> object:
            # Its Pods have other names, such as j-07, since there were more of them.
            assert method == "GET"
            return {"items": [{}] if (params or {}).get("labelSelector") == f"{job_labels.JOB_LABEL}=j" else []}

    @contextlib.asynccontextmanager
    async def connect_to(address: addresses.Address, environ: object) -> AsyncGenerator[object, None]:
        yield types.SimpleNamespace(api=Taken())

    monkeypatch.setattr(connection, "connect_to", connect_to)
    with pytest.raises(errors.SettingsError, match="--job: a job named 'j' exists already: choose another name"):
        await submit._submit(REMOTE, JOB, wait=False, why_gone=lambda _: None, shortage=str)


async def test_a_job_that_the_api_does_not_take_is_announced_while_it_is_submitted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(submit, "_SILENT_S", 0.0)
    said: list[str] = []

    class Full:
        async def request(self, method: str, path: str, *, body: object = None, params: object = None) -> object:
            # As on a full disk: nothing is accepted before there is room again.
            while method == "POST" and not said:
                await asyncio.sleep(0)
                said.extend(capsys.readouterr().err.splitlines())
            return {}

    @contextlib.asynccontextmanager
    async def connect_to(address: addresses.Address, environ: object) -> AsyncGenerator[object, None]:
        yield types.SimpleNamespace(api=Full())

    monkeypatch.setattr(connection, "connect_to", connect_to)
    why = "the disk of /x is full"
    assert await submit._submit(REMOTE, JOB, wait=False, why_gone=lambda _: None, shortage=lambda: why) == 0
    assert said == ["job j: still submitting: the disk of /x is full"]


NO_ANSWER = errors.ApiUnavailable("GET /api/v1/pods: no answer in time")
JOB = jobs.Job(name="j", workload=jobs.Workload.PI, pods=2)
REMOTE = addresses.Address(
    name="nats:4222", bus=buses.BusSettings(url="nats://nats:4222"), kube=api_client.KubeSettings()
)
LOCAL = dataclasses.replace(REMOTE, name="shop", is_local=True)
FLAGGED = dataclasses.replace(REMOTE, kube=api_client.KubeSettings(context="prod"), is_by_flag=True)
COMPOSED = dataclasses.replace(REMOTE, bus=buses.BusSettings(url="nats://nats-server:4222"))


class Api:
    """An API that sends prepared events, each at its second; `fails` is how it ends, if it does."""

    def __init__(
        self, clock: clocks.FakeClock, *events: tuple[float, list_watch.MirrorEvent], fails: Exception | None = None
    ) -> None:
        self._clock = clock
        self._events = list(events)
        self._fails = fails

    async def mirror(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncGenerator[list_watch.MirrorEvent, None]:
        """Those whose time has come, for ever."""
        while self._events or self._fails is None:
            if self._events and self._clock.monotonic_s() >= self._events[0][0]:
                yield self._events.pop(0)[1]
            await asyncio.sleep(0)
        raise self._fails


class Live(connection.ApiSession):
    """A session with such an API, whose clock goes on by a second each time it is asked."""

    def __init__(self, *events: tuple[float, list_watch.MirrorEvent], fails: Exception | None = None) -> None:
        class Clock(clocks.FakeClock):
            def monotonic_s(self) -> float:
                self.advance(1.0)
                return super().monotonic_s()

        self.clock = Clock()
        self.observer = observer.Observer(clock=self.clock)
        self.api = cast(api_client.KubeClient, Api(self.clock, *events, fails=fails))


def listed(*phases: str) -> list_watch.Listed:
    found = [
        {"metadata": {"name": f"j-{number}", "uid": f"u{number}", "labels": {job_labels.JOB_LABEL: "j"}},
         "spec": {}, "status": {"phase": phase}}
        for number, phase in enumerate(phases)
    ]  # fmt: skip
    return list_watch.Listed(objects=found, resource_version="1")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_wait, "_PROGRESS_EVERY_S", 0.0)


@pytest.mark.usefixtures("quick")
async def test_who_waits_hears_that_the_local_cluster_was_ended(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = dataclasses.replace(REMOTE, name="shop", is_local=True)
    live = Live((0.0, list_watch.Away(error=NO_ANSWER)))
    with pytest.raises(errors.ApiUnavailable, match="job j: 0 of 2 done, and its cluster was ended"):
        await job_wait.wait(
            live, JOB, why_gone=lambda s: submit._why_gone(context(tmp_path), gone, JOB, away_s=s), at=gone
        )
    assert capsys.readouterr().err == "job j: GET /api/v1/pods: no answer in time; still waiting\n"


@pytest.mark.usefixtures("quick")
async def test_a_cluster_elsewhere_that_is_gone_for_good_is_given_up_after_a_minute(tmp_path: pathlib.Path) -> None:
    live = Live((0.0, listed("Succeeded", "Running")), (5.0, list_watch.Away(error=NO_ANSWER)))
    with pytest.raises(errors.ApiUnavailable) as failed:
        await job_wait.wait(
            live, JOB, why_gone=lambda s: submit._why_gone(context(tmp_path), REMOTE, JOB, away_s=s), at=REMOTE
        )
    assert str(failed.value) == (
        "job j: 1 of 2 done, and its cluster's API has not answered for 60 s: was the cluster ended? If not, the job "
        "continues, and `kubectl get pods -l carico.dev/job=j` shows it"
    )


@pytest.mark.usefixtures("quick")
async def test_an_api_that_is_back_within_the_minute_is_waited_for_again(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    away = list_watch.Away(error=NO_ANSWER)
    live = Live(
        (0.0, away), (50.0, listed("Running", "Running")), (55.0, away), (105.0, listed("Succeeded", "Succeeded"))
    )
    asked = await job_wait.wait(
        live, JOB, why_gone=lambda s: submit._why_gone(context(tmp_path), REMOTE, JOB, away_s=s), at=REMOTE
    )
    assert asked == 0
    assert capsys.readouterr().err.splitlines() == [
        "job j: GET /api/v1/pods: no answer in time; still waiting", "job j: the API is back",
        "job j: GET /api/v1/pods: no answer in time; still waiting",
    ]  # fmt: skip


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("at", "explain", "doctor"),
    [
        (REMOTE, "carico explain {}", "carico doctor"),
        (LOCAL, "carico explain {} --name shop", "carico doctor --name shop"),
        (
            FLAGGED, "carico explain {} --nats-url nats://nats:4222 --context prod",
            "carico doctor --nats-url nats://nats:4222 --context prod",
        ),
        (COMPOSED, "docker compose run --rm carico explain {}", "docker compose run --rm carico doctor"),
    ],
)  # fmt: skip
async def test_who_waits_hears_once_where_a_job_stands_still(
    at: addresses.Address, explain: str, doctor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    live = Live(
        (0.0, listed("Pending", "Pending")), (200.0, listed("Running", "Pending")),
        (300.0, listed("Running", "Running")), (500.0, listed("Succeeded", "Succeeded")),
    )  # fmt: skip
    assert await job_wait.wait(live, JOB, why_gone=lambda _: None, at=at) == 0
    assert capsys.readouterr().err.splitlines() == [
        f"job j: no progress for 60 s: {waiting} without a node; `{explain.format(pod)}` says why, "
        f"`{doctor}` checks the cluster; still waiting"
        for waiting, pod in ((2, "j-0"), (1, "j-1"))
    ]


@pytest.mark.usefixtures("quick")
async def test_a_watch_that_ends_ends_the_waiting() -> None:
    live = Live(fails=errors.KubeconfigError("the token's file is gone"))
    with pytest.raises(errors.KubeconfigError, match="the token's file is gone"):
        await job_wait.wait(live, JOB, why_gone=lambda _: None, at=REMOTE)


class Refusing(Api):
    """Refuses Pods of the job for as long as there is a reason; each asking sees the next of them."""

    refused: list[str]

    async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> object:
        if not path.endswith("/events"):
            return {"metadata": {"uid": "u", "namespace": "default"}}
        message = self.refused.pop(0) if len(self.refused) > 1 else self.refused[0]
        return {"items": [{"metadata": {}, "lastTimestamp": "2026-01-01T00:00:00Z", "message": message}]}


@pytest.mark.usefixtures("quick")
async def test_who_waits_hears_once_what_refuses_the_pods(capsys: pytest.CaptureFixture[str]) -> None:
    live = Live()
    clock, ended = cast(clocks.FakeClock, live.clock), listed("Succeeded", "Succeeded")
    live.api = cast(api_client.KubeClient, api := Refusing(clock, (0.0, listed("Running")), (90.0, ended)))
    quota = 'Error creating: pods "j-1-{}" is forbidden: exceeded quota: q, requested: pods=1, used: pods={}'
    api.refused = [
        quota.format("aa", 1),
        quota.format("bb", 0),
        "Error creating: guard denied it",
        quota.format("c", 1),
    ]
    assert await job_wait.wait(live, JOB, why_gone=lambda _: None, at=REMOTE, batch=True) == 0
    assert len(api.refused) == 1
    there = "job j: 1 of 2 Pods do not exist, because the API refuses them"
    assert capsys.readouterr().err.splitlines() == [
        f"{there}: exceeded quota: q, requested: pods=1, used: pods=1; still waiting",
        f"{there}: guard denied it; still waiting",
    ]


@pytest.mark.usefixtures("quick")
async def test_who_may_not_read_events_waits_all_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    class Denying(Api):
        async def request(self, method: str, path: str, *, params: Mapping[str, str] | None = None) -> object:
            self.asked = True
            raise errors.Forbidden(status=403, reason="Forbidden", message="no", request=path)

    live = Live()
    clock, ended = cast(clocks.FakeClock, live.clock), listed("Failed", "Succeeded")
    live.api = cast(api_client.KubeClient, api := Denying(clock, (0.0, listed("Running")), (20.0, ended)))
    assert await job_wait.wait(live, JOB, why_gone=lambda _: None, at=REMOTE, batch=True) == 1
    assert api.asked
    assert "refuses" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("at", "environ", "of"),
    [
        (LOCAL, {}, " --name shop"),
        (REMOTE, {"NATS_URL": "nats://nats:4222"}, ""),
        (FLAGGED, {}, " --nats-url nats://nats:4222 --context prod"),
    ],
)
def test_the_commands_to_run_next_mean_the_same_cluster(
    at: addresses.Address, environ: dict[str, str], of: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    async def submitted(*_: object, **__: object) -> int:
        return 0

    monkeypatch.setattr(submit, "_submit", submitted)
    monkeypatch.setattr(submit, "_address", lambda *_: at)
    for flags, commands in (((), [f"  carico top{of}"]), (("--wait",), [])):
        words = ["pi", "--job", "j", *flags]
        ended = click.testing.CliRunner().invoke(submit.command, words, obj=context(tmp_path, **environ))
        assert ended.exit_code == 0
        assert ended.output.splitlines() == ["next:", *commands, f"  carico explain job j{of}"]


def test_in_compose_the_commands_to_run_next_are_those_of_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    async def submitted(*_: object, **__: object) -> int:
        return 0

    monkeypatch.setattr(submit, "_submit", submitted)
    monkeypatch.setattr(submit, "_address", lambda *_: COMPOSED)
    inside = context(tmp_path, NATS_URL="nats://nats-server:4222")
    ended = click.testing.CliRunner().invoke(submit.command, ["pi", "--job", "j"], obj=inside)
    assert ended.output.splitlines() == [
        "next:", "  docker compose run --rm carico top", "  docker compose run --rm carico explain job j",
    ]  # fmt: skip


def test_who_no_longer_waits_hears_that_the_job_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def interrupted(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(submit, "_submit", interrupted)
    monkeypatch.setattr(submit, "_address", lambda *_: dataclasses.replace(REMOTE, name="shop", is_local=True))
    # What click makes of it.
    with pytest.raises(click.Abort):
        submit.command.main(["pi", "--job", "j", "--wait"], obj=context(tmp_path), standalone_mode=False)
    said = "what was created of job j goes on: `carico explain job j --name shop`"
    assert capsys.readouterr().err.strip() == said
