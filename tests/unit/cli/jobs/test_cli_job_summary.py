"""The lines about a job that has ended."""

from carico_cli.jobs import job_wait
from carico_local.jobs import facts


def pod(number: int, node: str | None, *, phase: str = "Succeeded", started_s: float | None = 101.0) -> facts.PodFacts:
    return facts.PodFacts(
        uid=str(number), name=f"j-{number}", workload="pi", created_s=100.0, phase=phase,
        nodes=[] if node is None else [node], started_s=started_s,
        finished_s=None if started_s is None else started_s + 4.0 + number, terminal_s=110.0,
    )  # fmt: skip


def test_a_job_is_summed_up_in_four_lines() -> None:
    pods = [pod(0, "node-10"), pod(1, "node-2", started_s=103.0), pod(2, None, phase="Failed", started_s=None)]
    assert job_wait.summary("j", pods) == [
        "job j: 2 of 3 Pods succeeded in 10.0 s",
        "  a Pod ran 4.5 s on average, 5.0 s at most",
        "  and waited 2.0 s on average, 3.0 s at most before it started",
        "  Pods by node: node-2 1, node-10 1",
    ]


def test_of_many_nodes_the_first_are_named() -> None:
    lines = job_wait.summary("j", [pod(number, f"node-{number}") for number in range(11)])
    assert lines[-1].endswith("node-7 1 and on 3 more nodes")


def test_a_job_that_never_ran_has_one_line() -> None:
    never = pod(0, None, phase="Pending", started_s=None)
    never.terminal_s = None
    assert job_wait.summary("j", [never]) == ["job j: 0 of 1 Pod succeeded"]
