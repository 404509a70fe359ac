"""What is said of a comparison, in words and on its page."""

import pathlib
from typing import Any

import pytest

from carico_cli.clusters import starting
from carico_cli.jobs import compare_page


def row(job_s: float, pod_s: float, *, runs: int = 5) -> dict[str, object]:
    spread = {
        name: {"median": value, "least": 0.9 * value, "most": 1.1 * value}
        for name, value in (("job_s", job_s), ("pod_mean_s", pod_s), ("pod_p95_s", 1.5 * pod_s))
    }
    return {
        **spread, "runs": runs, "max_running_per_node": 3, "failed": 0, "server_p99_ms": {"median": None},
        "server_ms": None,
    }  # fmt: skip


def report(runs: int = 5, **contenders: dict[str, object]) -> dict[str, Any]:
    rows = {name.replace("_", "-"): each for name, each in contenders.items()} or {"carico": row(20.0, 6.0, runs=runs)}
    trials = [
        {
            "contender": name,
            "failed": each["failed"],
            "job_s": each["job_s"]["median"],  # type: ignore[index]
            "pod_s": {"mean": each["pod_mean_s"]["median"]},  # type: ignore[index]
        }
        for name, each in rows.items()
    ]
    return {
        "setting": {
            "workload": "pi", "pods": 40, "pod_alone_s": 5.0, "nodes": 3, "cores": 4, "offered_cores": 4.0,
            "scale": 0.125, "bound_s": 21.7, "notes": ["a <b> note"],
        },
        "contenders": rows, "idle_server_p99_ms": {"median": None}, "idle_server_ms": None, "agent_overhead": {},
        "targets": [], "trials": trials, "ended_at_ns": 1_795_446_245_000_000_000, "carico_version": "0.1.0",
        "command": "carico compare --repeats 5",
    }  # fmt: skip


@pytest.mark.parametrize(("runs", "said"), [(1, "One run of each."), (5, "Medians of 5 runs in turn.")])
def test_one_run_is_no_median(runs: int, said: str) -> None:
    assert compare_page._sentence(report(runs)).endswith(f"bound 21.7 s. {said}")


def test_the_page_begins_with_the_result_and_one_picture_and_folds_the_rest() -> None:
    found = report(
        carico=row(63.0, 5.5), kube_100m=row(60.0, 31.0), kube_500m=row(66.0, 9.0), kube_1000m=row(90.0, 5.2),
        kube_100m_bare=row(59.0, 30.0),
    )  # fmt: skip
    page = compare_page.page(found)
    before, _, after = page.partition("<details>")
    said = (
        "The job took 63.0 s with 5.5 s a Pod under CARICO. kube-scheduler took 60.0 s with 31.0 s a Pod if each "
        "requests 100m CPU (its shortest job) and 90.0 s with 5.2 s a Pod if each requests 1000m CPU (its shortest "
        "Pods)."
    )
    assert said in before
    assert said in " ".join(compare_page.text(found).split())
    assert "23 November 2026" in before
    assert "CARICO 0.1.0; `carico compare --repeats 5`" in before
    assert "a &lt;b&gt; note" in before
    assert (before.count("<svg"), after.count("<svg"), page.count("<details>")) == (1, 1, 2)
    for words in ("kube-100m-bare", "reference 21.70", "alone on a node 5.00", "63.00", "5.50"):
        assert words in before.partition("<svg")[2], words


def test_the_result_is_short_where_one_setting_is_best_and_states_what_failed() -> None:
    best = report(carico=row(63.0, 5.5), kube_500m=row(60.0, 5.2), kube_100m=row(66.0, 31.0) | {"failed": 2})
    assert compare_page._result(best).endswith(
        "kube-scheduler at its best took 60.0 s with 5.2 s a Pod if each requests 500m CPU. 2 Pods failed."
    )
    only = report(kube_500m_bare=row(60.0, 5.2))
    assert compare_page._result(only) == "kube-scheduler took 60.0 s with 5.2 s a Pod if each requests 500m CPU."
    lost = report(carico=row(63.0, 5.5) | {"pod_mean_s": dict.fromkeys(("median", "least", "most"))})
    assert compare_page._result(lost) == "The job took 63.0 s with - s a Pod under CARICO."
    assert "not ended" in compare_page.page(lost)
    unknown = dict.fromkeys(("median", "least", "most"))
    undone = dict.fromkeys(("job_s", "pod_mean_s", "pod_p95_s"), unknown) | {"failed": 40}
    none = report(carico=row(1.0, 1.0) | undone)
    assert compare_page._result(none) == "40 Pods failed."
    assert "not ended" in compare_page.page(none)
    assert "-" in compare_page.text(none)


def test_a_machine_without_psi_is_not_said_to_be_busy(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "PRESSURE", tmp_path / "cpu")
    assert starting.busy_machine() is None
    starting.PRESSURE.write_text("some avg10=62.50 avg60=20.00 avg300=9.00 total=1\n")
    assert "62 % of the time" in (starting.busy_machine() or "")
