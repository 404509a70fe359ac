"""Unknown names in the environment are refused; those of services, Pods and Kubernetes are theirs."""

import pytest

from carico_cli.jobs import job_wait
from carico_cli.shell import settings
from carico_core.domain import errors
from carico_local.jobs import facts


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CARICO_AGNT_CEILING_CPU", "nearest: CARICO_AGENT_..."),
        ("CARICO_SCHEDULR_OWN_PODS", "nearest: CARICO_SCHEDULER_..."),
        ("CARICO_SHARD_DATA", "nearest: CARICO_SHARED_DATA"),
        ("CARICO_FOO", "unknown setting CARICO_FOO"),
        ("CARICO_AGENT", "nearest: CARICO_AGENT_"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(errors.SettingsError) as caught:
        settings.check({name: "1", "PATH": "/bin"})
    assert hint in str(caught.value)
    assert str(caught.value).count("\n") == 0


def test_what_others_read_is_theirs_and_raises_nothing() -> None:
    names = (
        "CARICO_AGENT_CEILING_CPU", "CARICO_BUS_URL", "CARICO_NODE_CGROUPS", "CARICO_TEST_SYSTEM", "CARICO_CLUSTER_RUN",
        "CARICO_NATS_SERVICE_HOST", "CARICO_NATS_PORT_4222_TCP_ADDR", "CARICO_NATS_PORT", "HOME",
    )  # fmt: skip
    settings.check(dict.fromkeys(names, "1"))


def test_each_pod_that_did_not_succeed_is_named_with_why() -> None:
    pods = [
        facts.PodFacts(uid="1", name="a", workload="pi", created_s=0.0, phase="Failed", reason="Error", nodes=["n1"]),
        facts.PodFacts(uid="2", name="b", workload="pi", created_s=0.0, phase="Running", gone=True, nodes=["n1"]),
        facts.PodFacts(uid="3", name="c", workload="pi", created_s=0.0, phase="Pending", gone=True),
    ]
    assert job_wait.unsuccessful("j", pods) == [
        "job j: Pod a failed on n1: Error",
        "job j: Pod b was deleted while Running on n1: by someone, or with its node",
        "job j: Pod c was deleted while Pending, not bound to a node: by someone, or with its node",
    ]
    killed = facts.PodFacts(
        uid="4", name="d", workload="pi", created_s=0.0, phase="Failed", reason="Error", nodes=["n1"],
        deleted_while="Running",
    )  # fmt: skip
    assert job_wait.unsuccessful("j", [killed]) == [
        "job j: Pod d was deleted while Running on n1: by someone, or with its node"
    ]
    assert job_wait.unsuccessful("j", pods * 4)[-1] == "job j: and 2 more that did not succeed"
