"""What is said of a comparison, in words and on its page."""

import pathlib

import pytest

from carico_cli.clusters import starting
from carico_cli.jobs import compare_page

SPREAD = {"median": 2.0, "least": 1.0, "most": 3.0}


def report(runs: int) -> dict[str, object]:
    row = {"runs": runs, "job_s": SPREAD, "pod_mean_s": SPREAD, "pod_p95_s": SPREAD, "max_running_per_node": 3}
    return {
        "setting": {
            "workload": "pi",
            "pods": 40,
            "pod_alone_s": 5.0,
            "nodes": 3,
            "cores": 4,
            "scale": 0.125,
            "bound_s": 21.7,
        },
        "contenders": {"carico": row},
        "idle_server_p99_ms": {"median": None},
    }


@pytest.mark.parametrize(("runs", "said"), [(1, "One run of each."), (5, "Medians of 5 runs in turn.")])
def test_one_run_is_no_median(runs: int, said: str) -> None:
    assert compare_page._sentence(report(runs)).endswith(f"bound 21.7 s. {said}")


def test_a_machine_without_psi_is_not_said_to_be_busy(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "PRESSURE", tmp_path / "cpu")
    assert starting.busy_machine() is None
    starting.PRESSURE.write_text("some avg10=62.50 avg60=20.00 avg300=9.00 total=1\n")
    assert "62 % of the time" in (starting.busy_machine() or "")
