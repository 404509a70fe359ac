"""Which cluster a job goes to."""

import asyncio
import pathlib

import pytest

from carico_cli import session, settings, submit
from carico_core.domain import errors
from carico_core.runtime import clock as clocks
from carico_local import job as jobs
from carico_local import observer


def context(home: pathlib.Path, **environ: str) -> settings.Context:
    return settings.Context(home=home, environ=environ, plain=True)


def test_without_a_local_cluster_the_environment_says_where(tmp_path: pathlib.Path) -> None:
    found = submit._address(context(tmp_path, NATS_URL="nats://nats-server:4222", KUBECONFIG="/etc/k"), "demo")
    assert (found.bus.url, found.kube.kubeconfig) == ("nats://nats-server:4222", "/etc/k")


@pytest.mark.parametrize("environ", [{}, {"NATS_URL": "nats://x:1"}, {"KUBECONFIG": "/etc/k"}])
def test_where_nothing_says_it_the_missing_cluster_is_named(tmp_path: pathlib.Path, environ: dict[str, str]) -> None:
    with pytest.raises(errors.SettingsError, match="no cluster named 'demo'"):
        submit._address(context(tmp_path, **environ), "demo")


def test_a_container_is_run_again_where_that_is_asked_for() -> None:
    job = jobs.Job(name="j", workload=jobs.Workload.PI, pods=1, restarts=True)
    assert next(jobs.manifests(job))["spec"]["restartPolicy"] == "OnFailure"
    batch = next(jobs.batch_manifests(job))["spec"]
    assert batch["template"]["spec"]["restartPolicy"] == "OnFailure"
    # The API server allows no limit an index beside it.
    assert "backoffLimitPerIndex" not in batch


class Away(session.Session):
    """A session whose API has gone away."""

    def __init__(self) -> None:
        self.clock = clocks.FakeClock()
        self.observer = observer.Observer(clock=self.clock)
        self.observer.api_away = "GET /api/v1/pods: no answer in time"


async def never(_: object) -> None:
    await asyncio.Event().wait()


async def test_who_waits_hears_that_the_cluster_was_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live, looks = Away(), iter((True, True, False))
    monkeypatch.setattr(submit, "_PROGRESS_EVERY_S", 0.0)
    monkeypatch.setattr(live, "api", None, raising=False)
    monkeypatch.setattr(live.observer, "follow_pods", never)
    with pytest.raises(errors.ApiUnavailable, match="its cluster was ended"):
        await submit._wait(live, jobs.Job(name="j", workload=jobs.Workload.PI, pods=2), is_there=lambda: next(looks))
    assert capsys.readouterr().err == "job j: GET /api/v1/pods: no answer in time; waiting goes on\n"
