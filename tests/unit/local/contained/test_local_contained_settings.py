"""What a contained node's settings say of its agent and its kubelet."""

import dataclasses
import pathlib

import pytest

from carico_core.domain import errors
from carico_core.runtime.process import settings as reading
from carico_local.contained import settings, size
from carico_local.node import settings as node_settings

NODE = settings.ContainedNode(
    chosen=settings.ContainerSettings(kubeconfig="/x"), name="node-3", address="127.0.0.1",
    size=size.Size(real_cores=0.5, memory_bytes=2**30, free_bytes=2**30, without=""),
)  # fmt: skip


def test_an_agent_has_the_key_of_its_node(tmp_path: pathlib.Path) -> None:
    key = tmp_path / "agent-node-3.nk"
    with pytest.raises(errors.SettingsError, match=r"agent-node-3\.nk: there is no key for the agent of node-3"):
        settings.bus_key(tmp_path, "node-3")
    key.touch()
    node = dataclasses.replace(NODE, bus_key=settings.bus_key(tmp_path, "node-3"))
    assert settings.agent_flags(node) == [*settings.agent_flags(NODE), "--bus-nkey", str(key)]


def test_without_such_keys_the_agents_own_settings_say() -> None:
    assert not any("nkey" in flag for flag in settings.agent_flags(NODE))


@pytest.mark.parametrize("closed", [(), ("/bus", "/access")])
def test_the_kubelet_closes_the_same_folders(closed: tuple[str, ...]) -> None:
    """For probes, and for the parent of its containers where it has to start another."""
    node = dataclasses.replace(NODE, chosen=dataclasses.replace(NODE.chosen, closed=closed))
    argv = settings.kubelet_flags(node)
    chosen = reading.load(node_settings.NodeSettings, prefix="NODE", argv=argv, environ={}, program="carico-node")
    assert chosen.closed == closed
