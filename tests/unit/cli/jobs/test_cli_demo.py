"""`carico demo --compare`: the demo's own report is written, whatever becomes of the runs under kube-scheduler."""

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from carico_cli.jobs import compare, demo, demo_page
from carico_cli.output import report as report_folder
from carico_cli.shell import options, settings
from carico_core.domain import errors
from carico_local.cluster import machine, state
from carico_local.cluster import plan as plans
from carico_local.compare import trial
from carico_local.jobs import figures
from carico_local.jobs import job as jobs

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")
JOB = jobs.Job(name="demo", workload=jobs.Workload.PI, pods=4)


class Found:
    """Stands for what is known of the job and of the cluster."""

    ended_s = 1e9
    paths = None


@pytest.fixture
def ran(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> demo._Demo:
    """A demo whose job has ended; its figures and texts are left out."""
    monkeypatch.setattr(options, "request", lambda name, given: None)
    monkeypatch.setattr(state, "read", lambda paths: Found())
    monkeypatch.setattr(figures, "report", lambda found: {"job_s": 20.0})
    monkeypatch.setattr(demo_page, "page", lambda found: "<html>")
    monkeypatch.setattr(demo_page, "text", lambda found: "text")
    monkeypatch.setattr(report_folder, "stamp", lambda at_ns: {})
    context = settings.Context(home=tmp_path, environ={}, plain=True)
    made = demo._Demo(context, "shop", JOB, {"out": tmp_path, "snapshot": None, "compares": True})
    made._ran = plans.make_plan(plans.Options(name="shop", nodes=3), MACHINE), JOB
    return made


def runs_that_end(monkeypatch: pytest.MonkeyPatch, ends: list[BaseException | None]) -> list[str]:
    """Let runs under kube-scheduler end so, in order; return those that have begun."""
    begun: list[str] = []

    @contextlib.asynccontextmanager
    async def testbed(*_: Any) -> AsyncIterator[None]:
        yield None

    async def run(_: Any, contender: Any, *__: Any, **___: Any) -> trial.Trial:
        begun.append(contender.name)
        end = ends[len(begun) - 1]
        if end is not None:
            raise end
        return trial.Trial(
            contender=contender.name, repeat=1, job_s=30.0, pod_s={"mean": 5.0}, max_running_per_node=1, failed=0,
            bound_twice=0,
        )  # fmt: skip

    monkeypatch.setattr(compare, "open_testbed", testbed)
    monkeypatch.setattr(trial, "run", run)
    return begun


@pytest.mark.parametrize("end", [asyncio.CancelledError(), errors.EnvironmentUnfit("Pods have not ended")])
@pytest.mark.parametrize("ended", [0, 1])
def test_ctrl_c_or_a_run_that_fails_does_not_cost_the_report(
    ran: demo._Demo, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, end: BaseException, ended: int
) -> None:
    runs_that_end(monkeypatch, [*[None] * ended, end])
    with pytest.raises(type(end)):
        asyncio.run(ran._reported(Found(), Found()))  # type: ignore[arg-type]
    found = orjson.loads((tmp_path / "report.json").read_bytes())
    assert found["job_s"] == 20.0 and len(found["kube_scheduler"]) == ended
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("crashed", [False, True])
def test_nothing_runs_on_a_cluster_of_which_a_service_has_crashed(
    ran: demo._Demo, monkeypatch: pytest.MonkeyPatch, crashed: bool
) -> None:
    """Pods of the demo's job may still run there: kube-scheduler would be measured next to them."""
    begun = runs_that_end(monkeypatch, [None, None])
    ran._crashes += ["agent/node-1"] * crashed
    found = asyncio.run(ran._reported(Found(), Found()))  # type: ignore[arg-type]
    assert begun == ([] if crashed else ["kube-500m", "kube-100m"])
    assert [each["request_millicores"] for each in found["kube_scheduler"]] == ([] if crashed else [500, 100])


def test_what_to_run_next_names_the_cluster_that_is_kept(ran: demo._Demo, tmp_path: pathlib.Path) -> None:
    ran.wanted = plans.Options(name="shop")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/plan.json").write_text("{}")
    ran._context = settings.Context(home=tmp_path, environ={"CARICO_CLUSTER": "shop"}, plain=True)
    assert ran._next_steps(keep=True) == [
        f"xdg-open {tmp_path / 'report.html'}", "carico explain job demo --name shop", "carico top --name shop",
        "carico down --name shop",
    ]  # fmt: skip
