"""Which cluster a job goes to."""

import pathlib

import pytest

from carico_cli import settings, submit
from carico_core.domain import errors
from carico_local import job as jobs


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
