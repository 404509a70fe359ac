"""The tables of docs/evaluation.md are written from an evaluation's JSON."""

from typing import Any

from tests.tools.make import evaluation_page


def cell(job_s: float, overrun: float = 0.0) -> dict[str, Any]:
    """A scenario under one scheduler."""
    figures = {"job_s": job_s, "pod_mean_s": 5.5, "slowdown": 1.1, "overrun_node_s": overrun}
    return {"figures": {name: [mean, 0.1, 10] for name, mean in figures.items()}}


def number(contender: str, twin: str, value: float, mean: float) -> dict[str, Any]:
    """A published number next to the twin's."""
    return {
        "plan": "pi-100", "contender": contender, "job": "pi", "figure": "job_s", "value": value, "sd": 0.6,
        "where": "figure 5.1",
        "twin_contender": twin, "twin": [mean, 0.1, 10], "error": (mean - value) / value,
    }  # fmt: skip


def target(verdict: str, value: float | None) -> dict[str, Any]:
    """A target."""
    return {"name": f"one that is {verdict}", "value": value, "bound": 50.0, "unit": "s", "verdict": verdict}


TOTAL = {"job_s": 47.0, "slowdown": 1.2, "overrun_node_s": 0.0, "scenarios": 9, "unfinished": []}
FOUND = {
    "default": "footprint-0.77",
    "scenarios": {"pi-100": {"footprint-0.77": cell(12.1), "kube-100m": cell(9.3, 4.0), "oracle": cell(12.7)}},
    "best": {"pi-100": {"kube": "kube-100m", "constant": None, "oracle": "oracle"}},
    "summaries": {"footprint-0.77": TOTAL},
    "targets": [target("met", 47.05), target("missed", 60.0), target("unknown", None)],
    "calibration": [
        number("kube-100m", "kube-100m", 15.7, 15.4),
        number("carico", "footprint-0.77", 20.3, 15.6),
        number("carico", "paper", 20.3, 21.3),
    ],
    "shapes": [
        {"says": "CARICO is faster", "mode": "footprint-0.77", "reproduced": True, "better": False},
        {"says": "CARICO is faster", "mode": "paper", "reproduced": False, "better": False},
        {"says": "CARICO is slower", "mode": "footprint-0.77", "reproduced": False, "better": True},
        {"says": "requests of 1000m waste the cluster", "mode": "carico", "reproduced": False, "better": False},
    ],
    "ablation": [{"name": "as installed", "total": TOTAL, "job_ratio": 1.0, "slowdown_ratio": 1.0}],
    "faults": {"messages 1 s late": {"as installed": cell(41.9)}},
}


def test_the_page_has_the_evaluations_figures() -> None:
    page = evaluation_page.written(evaluation_page.PAGE.read_text(encoding="utf-8"), FOUND)
    for row in (
        "| one that is met | 47.05 s | 50 | met |",
        "| one that is missed | 60 s | 50 | **missed** |",
        "| one that is unknown | unknown s | 50 | unknown |",
        "| pi-100 | 12.1 / 5.50 / 1.100 | 9.3 / 5.50 / 1.100 / 4 (kube-100m) | - | 12.7 / 5.50 / 1.100 |",
        "footprint-0.77 (default)        47.00     1.200              0.0          9",
        "| pi-100, job time | 15.7 ± 0.6 / 15.4 (-2 %) |  |  |  | figure 5.1 |",
        "| pi-100, job time | 20.3 ± 0.6 | 15.6 (-23 %) | 21.3 (+5 %) | figure 5.1 |",
        "| CARICO is faster | yes | **no** |",
        "| CARICO is slower | better |  |",
        "| requests of 1000m waste the cluster | **no** |  |",
        "| as installed | 47.00 s | 1.200 | 1.000 | 1.000 | 0 |",
        "| messages 1 s late | 41.9 / 1.100 |",
    ):
        assert row in page


def test_writing_the_page_again_changes_nothing() -> None:
    once = evaluation_page.written(evaluation_page.PAGE.read_text(encoding="utf-8"), FOUND)
    assert evaluation_page.written(once, FOUND) == once
