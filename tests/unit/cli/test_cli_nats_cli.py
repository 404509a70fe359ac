"""The nats CLI's saved context of a cluster, and the model's bytes as JSON."""

import io
import pathlib
import sys

import orjson
import pytest

from carico_cli.clusters import nats_cli
from carico_core.domain import errors
from tests.tools import carico_cli


def test_a_context_is_saved_and_removed(tmp_path: pathlib.Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert nats_cli.save(environ, "demo", "nats://127.0.0.1:1234") == "carico-demo"
    path = tmp_path / "nats" / "context" / "carico-demo.json"
    assert orjson.loads(path.read_bytes())["url"] == "nats://127.0.0.1:1234"
    nats_cli.remove(environ, "demo")
    assert not path.exists()
    nats_cli.remove(environ, "demo")


@pytest.mark.parametrize("text", ['{"description": "mine", "url": "nats://far"}', "{", "[]"])
def test_a_context_of_somebody_elses_stays(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "nats" / "context" / "carico-demo.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    nats_cli.remove({"XDG_CONFIG_HOME": str(tmp_path)}, "demo")
    assert path.read_text() == text


def test_a_context_that_cannot_be_saved_is_a_mistake_in_one_line(tmp_path: pathlib.Path) -> None:
    (tmp_path / "nats").write_text("a file where a folder should be")
    with pytest.raises(errors.SettingsError, match=r"carico-demo\.json cannot be written"):
        nats_cli.save({"XDG_CONFIG_HOME": str(tmp_path)}, "demo", "nats://127.0.0.1:1234")


GOLDEN = pathlib.Path(__file__).parents[2] / "fixtures" / "golden" / "v1" / "model.msgpack"


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
