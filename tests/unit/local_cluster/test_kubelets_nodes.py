"""Nodes as containers, on a docker command that fails: what is told of it."""

import ipaddress
import os
import pathlib

import pytest

from carico_core.domain import errors
from carico_local.kubelets import configuration, network, nodes
from carico_local.kubelets import engine as engines


def fleet(folder: pathlib.Path, *, exec_does: str) -> nodes.Fleet:
    docker = folder / "docker"
    docker.write_text(f'#!/bin/sh\n[ "$1" = exec ] || exit 0\ncat > /dev/null\n{exec_does}\n')
    docker.chmod(0o755)
    within = ipaddress.IPv4Network("172.31.0.0/24")
    return nodes.Fleet(
        engine=engines.Engine(environ={"PATH": f"{folder}:{os.environ['PATH']}"}), cluster="c", directory=folder,
        image="i", network=network.Network(name="n", addresses=within, gateway="172.31.0.1"),
        nodes=[configuration.Node(name="node-1", number=1, cpus=1.0, memory_bytes=2**30)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("exec_does", "said"),
    [
        ("echo no space left >&2; exit 1", "node-1 did not take a, b: no space left"),
        ("exit 1", "node-1 did not take a, b: no word why"),
        ("exec sleep 60", "node-1 did not take a, b: no answer within 0 s"),
    ],
)
def test_a_node_that_does_not_take_images_is_told_in_one_line(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, exec_does: str, said: str
) -> None:
    monkeypatch.setattr(engines, "TIMEOUT_S", 0.2 if "sleep" in exec_does else 60.0)
    with pytest.raises(errors.EnvironmentUnfit, match=said):
        fleet(tmp_path, exec_does=exec_does).load(["a", "b"])


def test_images_that_were_taken_are_no_news(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    fleet(tmp_path, exec_does=f'echo "$3" >> {tmp_path}/asked').load(["a", "b"])
    assert (tmp_path / "asked").read_text() == "carico-c-node-1\n"
    assert capfd.readouterr() == ("", "")
