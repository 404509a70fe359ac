"""`carico targets` for Prometheus; the nats CLI's saved context of a cluster, and the model's bytes as JSON."""

import io
import pathlib
import sys
import types

import orjson
import pytest

from carico_cli.clusters import integrations
from carico_core.domain import errors
from carico_local.cluster import machine, plan, processes, state
from tests.tools import carico_cli

MACHINE = machine.Machine(cpus=2.0, memory_available_bytes=2**35, processor="test", kernel="6.18")

GOLDEN = pathlib.Path(__file__).parents[3] / "fixtures" / "golden" / "v1" / "model.msgpack"


def test_each_service_with_metrics_of_ours_is_a_target_of_its_kind() -> None:
    process = processes.ProcessId(pid=7, start_ticks=8)
    ports = {
        "nats": None, "api": 1, "kube-apiserver": 2, "kwok": 3, "scheduler": 4, "scheduler-2": 5, "aggregator": 6,
        "agent/node-1": 7, "node/node-1": None, "fleet": 8, "rescheduler": 9,
    }  # fmt: skip
    services = tuple(
        state.ServiceState(name=name, process=process, ready=True, restarts=0, http_port=port)
        for name, port in ports.items()
    )
    found = state.ClusterState(
        plan=plan.make_plan(plan.Options(name="x", nodes=1), MACHINE), phase=state.Phase.READY, supervisor=process,
        started_ns=1, nats_url="n", api_url="a", services=services, crashes=(), notes=(), failure=None,
    )  # fmt: skip
    jobs = {(each["labels"]["job"], each["labels"]["service"]): each["targets"] for each in integrations.targets(found)}
    assert jobs == {
        ("carico-scheduler", "scheduler"): ["127.0.0.1:4"],
        ("carico-scheduler", "scheduler-2"): ["127.0.0.1:5"],
        ("carico-aggregator", "aggregator"): ["127.0.0.1:6"],
        ("carico-agent", "agent/node-1"): ["127.0.0.1:7"],
        ("carico-fleet", "fleet"): ["127.0.0.1:8"],
        ("carico-rescheduler", "rescheduler"): ["127.0.0.1:9"],
    }


def test_a_context_is_saved_and_removed(tmp_path: pathlib.Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert integrations.save_context(environ, "demo", "nats://127.0.0.1:1234") == "carico-demo"
    path = tmp_path / "nats" / "context" / "carico-demo.json"
    assert orjson.loads(path.read_bytes())["url"] == "nats://127.0.0.1:1234"
    integrations.remove_context(environ, "demo")
    assert not path.exists()
    integrations.remove_context(environ, "demo")


@pytest.mark.parametrize("text", ['{"description": "mine", "url": "nats://far"}', "{", "[]"])
def test_a_context_of_somebody_elses_stays(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "nats" / "context" / "carico-demo.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    integrations.remove_context({"XDG_CONFIG_HOME": str(tmp_path)}, "demo")
    assert path.read_text() == text


def test_a_context_that_cannot_be_saved_is_a_mistake_in_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "nats").write_text("a file where a folder should be")
    with pytest.raises(errors.SettingsError, match=r"carico-demo\.json cannot be written"):
        integrations.save_context({"XDG_CONFIG_HOME": str(tmp_path)}, "demo", "nats://127.0.0.1:1234")


class Stdin(io.TextIOWrapper):
    """Standard input that holds these bytes."""

    def __init__(self, payload: bytes) -> None:
        super().__init__(io.BytesIO(payload))


def test_the_models_bytes_become_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(GOLDEN.read_bytes()))
    assert carico_cli.run(monkeypatch, "decode") == 0
    said = orjson.loads(capsys.readouterr().out)
    assert said["gram"] and set(said["dims"]) == set(said["gram"])


def test_other_bytes_are_a_mistake_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(b"{}"))
    assert carico_cli.run(monkeypatch, "decode") == 2
    err = capsys.readouterr().err
    assert "expected a message of carico.v1.model" in err and len(err.splitlines()) == 1


def test_input_without_end_is_a_mistake_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            assert size >= 0, "it would be read until memory is used up"
            return bytes(size)

    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=Endless()))
    assert carico_cli.run(monkeypatch, "decode") == 2
    err = capsys.readouterr().err
    assert "expected at most" in err and len(err.splitlines()) == 1
