"""The twin next to a recorded comparison on emulated nodes: the same cluster and job, every scheduler, errors stated.

The recording is of `carico compare` on a machine that other work shared: it shows the way, not what the nodes can do.
"""

import functools
import json
import math
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from carico_local.compare import comparison, contender, trial
from carico_twin import world
from carico_twin.evaluate import results, runs, study
from carico_twin.evaluate.comparisons import emulated, recorded
from carico_twin.schedulers import slots
from tests.tools import carico_cli

RECORDING = pathlib.Path(__file__).parents[4] / "fixtures" / "compare" / "emulated-3-nodes.json"
CHOSEN = ("--scenario", "pi-100", "--scheduler", "oracle", "--seeds", 1, "--jobs", 1)
Carico = Callable[..., int]


def row() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RECORDING.read_bytes())["contenders"]["carico"]
    return found


def trial_of(name: str, *, failed: int = 0) -> trial.Trial:
    pod_s = dict.fromkeys(("mean", "p95"), 9.0)
    return trial.Trial(
        contender=name, repeat=1, job_s=20.0, pod_s=pod_s, max_running_per_node=4, failed=failed, bound_twice=0
    )


@pytest.fixture
def carico(monkeypatch: pytest.MonkeyPatch) -> Carico:
    return functools.partial(carico_cli.run, monkeypatch)


@functools.cache
def found() -> recorded.Comparison:
    return recorded.read("compare.json", RECORDING.read_bytes())


@functools.cache
def document() -> dict[str, Any]:
    selection = study.Selection(seeds=2, emulated=found())
    return results.document(selection, [runs.run(task) for task in emulated.tasks(found(), selection.seed_list)])


def test_the_twin_has_the_recorded_cluster_and_job() -> None:
    plan = emulated.plan(found())
    assert [(each.cores, each.full_speed) for each in plan.hardware] == [(4.0, 1.0)] * 3
    (job,) = plan.jobs
    assert (job.pods, job.work.cpu_s, job.work.spread) == (36, 3.0, 0.0)


def test_every_recorded_scheduler_is_run_as_it_was() -> None:
    choices = {task.contender.name: task.contender.choice for task in emulated.tasks(found(), [1])}
    assert set(choices) == {"carico", "kube-100m", "kube-500m", "kube-500m-bare", "constant-8"}
    assert isinstance(choices["carico"], world.CaricoOptions)
    bare = choices["kube-500m-bare"]
    assert isinstance(bare, slots.KubeOptions)
    assert (bare.request_cores, bare.reserved_cores) == (0.5, 0.0)
    assert choices["constant-8"] == choices["kube-500m"]


def test_half_a_core_each_puts_eight_on_a_node_as_it_was_recorded() -> None:
    figures = {(each["contender"], each["figure"]): each for each in document()["emulated"]["figures"]}
    for name, most in (("kube-500m", 8), ("kube-100m", 12), ("constant-8", 8)):
        each = figures[name, recorded.MOST_RUNNING]
        assert each["emulated"]["median"] == most
        assert each["twin"][0] == most
        assert each["error"] == 0.0


def test_errors_are_of_the_recorded_median() -> None:
    for each in document()["emulated"]["figures"]:
        assert each["error"] == pytest.approx(each["twin"][0] / each["emulated"]["median"] - 1.0, abs=1e-5)
    assert document()["emulated"]["errors"]["kube-100m"]["job_s"] > 0.0


def test_no_twin_is_faster_than_its_cores() -> None:
    bound_s = 36 * 3.0 / 12
    for each in document()["emulated"]["figures"]:
        if each["figure"] == "job_s":
            assert each["twin"][0] > bound_s


def test_the_command_shows_them_side_by_side(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert carico("evaluate", "--compare-with", RECORDING, *CHOSEN, "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert "36 Pods of 3 s on 3 nodes of 4 cores: emulated at scale 0.125" in said
    row = next(line for line in said.splitlines() if line.startswith("kube-100m") and "job time" in line)
    assert "34.32" in row
    assert row.rstrip().endswith("%")
    assert "The twin compared with emulated nodes" not in said
    assert "compared with emulated nodes" in (tmp_path / "evaluation.html").read_text()
    assert not math.isnan(json.loads((tmp_path / "evaluation.json").read_bytes())["emulated"]["figures"][0]["error"])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--compare-with", "/nowhere.json"), "/nowhere.json: cannot be read (No such file or directory)"),
        (("--calibration", "--scenario", "pi-100"), "leave out --scenario"),
    ],
)
def test_a_wrong_wish_is_one_line(
    carico: Carico, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], said: str
) -> None:
    assert carico("evaluate", *argv) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("version",), 2, "compare.json, version: got 2, expected 1"),
        (("setting",), None, "compare.json, setting: got nothing, expected an object"),
        (("setting", "nodes"), 0, "setting.nodes: got 0, expected a whole number from 1 to 5000"),
        (("setting", "workload"), "train", "setting.workload: got 'train', expected 'pi'"),
        (("setting", "pod_alone_s"), "3", "setting.pod_alone_s: got '3', expected a number of at least 0.001"),
        (("setting", "pod_alone_s"), 10**400, "setting.pod_alone_s: got 1000000"),
        (("setting", "ceiling_cpu"), 7, "setting.ceiling_cpu: got 7, expected a number from 0.01 to 1"),
        (("contenders",), {}, "contenders: got {}, expected at least one scheduler"),
        (
            ("contenders",),
            {"carico-500m": row()},
            "contenders: got ['carico-500m'], expected one that can be compared (carico-500m: in the twin,",
        ),
        (("contenders", "nomad"), {}, "contenders: got 'nomad', expected carico, carico-500m"),
        (("contenders", "carico", "job_s", "median"), None, "carico.job_s.median: got nothing, expected a number"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(path: tuple[str, ...], value: object, said: str) -> None:
    whole = json.loads(RECORDING.read_bytes())
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(recorded.RecordedError) as caught:
        recorded.read("compare.json", json.dumps(whole).encode())
    assert said in str(caught.value)


def test_what_cannot_be_compared_is_left_out_with_the_reason(
    carico: Carico, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [trial_of("kube-500m"), trial_of("carico-1091m"), trial_of("kube-100m", failed=1)]
    wanted = [contender.parse(each.contender, cores=4) for each in trials]
    setting = json.loads(RECORDING.read_bytes())["setting"]
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(comparison.report(trials, wanted, setting=setting)))
    assert [each.name for each in recorded.read("compare.json", path.read_bytes()).rows] == ["kube-500m"]
    assert carico("evaluate", "--compare-with", path, *CHOSEN, "--out", tmp_path) == 0
    said = capsys.readouterr().out
    assert "left out: carico-1091m: in the twin, CARICO's Pods have no requests" in said
    assert "left out: kube-100m: it has no times: in each of its runs, a Pod failed" in said
    assert len(json.loads((tmp_path / "evaluation.json").read_bytes())["emulated"]["left_out"]) == 2


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"[" * 100_000, b"\xff\xfe"])
def test_what_is_no_comparison_is_refused(content: bytes) -> None:
    with pytest.raises(recorded.RecordedError, match=r"compare\.json, file: got"):
        recorded.read("compare.json", content)


def test_an_unknown_estimator_is_refused() -> None:
    whole = json.loads(RECORDING.read_bytes())
    whole["setting"]["estimator"] = "guess"
    with pytest.raises(Exception, match=r"setting\.estimator: got 'guess'"):
        emulated.tasks(recorded.read("compare.json", json.dumps(whole).encode()), [1])
