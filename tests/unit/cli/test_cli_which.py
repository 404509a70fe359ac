"""Which cluster a command means: by name, by address, by NATS_URL, or the default."""

import asyncio
import dataclasses
import pathlib

import pytest

from carico_cli.clusters import which
from carico_cli.live import connection
from carico_core.domain import errors
from carico_core.runtime.bus import nats_bus
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks
from carico_local.cluster import machine, plan, processes, state

ANY = api_client.KubeSettings()
MACHINE = machine.Machine(
    cpus=2.0, memory_available_bytes=2**35, memory_total_bytes=2**35, processor="test", kernel="6.18"
)
URL = "nats://127.0.0.1:4999"


@pytest.fixture
def shop(tmp_path: pathlib.Path) -> state.Paths:
    """A local cluster of that name at `URL`; it runs for who holds its lock."""
    paths = state.Paths(tmp_path / "shop")
    paths.root.mkdir()
    paths.plan.write_text("{}")
    made = plan.make_plan(plan.Wish(name="shop", nodes=1), MACHINE)
    found = state.ClusterState(
        plan=made, phase=state.Phase.READY, supervisor=processes.ProcessId(pid=1, start_ticks=1),
        started_ns=1, nats_url=URL, api_url="http://127.0.0.1:2", services=(), crashes=(), notes=(), failure=None,
    )  # fmt: skip
    state.write(paths, found)
    return paths


def test_an_address_of_the_environment_that_is_a_local_cluster_is_meant_by_its_name(shop: state.Paths) -> None:
    home = shop.root.parent
    with state.acquire(shop):
        found = which.chosen(home, {"NATS_URL": URL}, name=None, nats_url=None, wanted=ANY)()
        assert (found.name, found.is_local, found.kube.kubeconfig) == ("shop", True, str(shop.kubeconfig))
        assert "carico status --name shop" in found.look
        named = api_client.KubeSettings(kubeconfig="/another")
        assert not which.chosen(home, {"NATS_URL": URL}, name=None, nats_url=None, wanted=named)().is_local
    # One that does not run any more has given up its port.
    assert not which.chosen(home, {"NATS_URL": URL}, name=None, nats_url=None, wanted=ANY)().is_local


def test_a_cluster_that_is_being_ended_is_there_no_more(shop: state.Paths) -> None:
    found = state.read(shop)
    assert found is not None
    with state.acquire(shop):
        assert state.running(shop.root.parent, "shop") == (shop, found)
        state.write(shop, dataclasses.replace(found, phase=state.Phase.STOPPING))
        with pytest.raises(errors.SettingsError, match="'shop' does not run: `carico up --name shop`"):
            which.local(shop.root.parent, "shop")()


@pytest.mark.parametrize(("is_local", "look"), [(True, "`carico status --name shop`"), (False, "CARICO_BUS_")])
async def test_a_bus_that_lets_nobody_in_is_one_line_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, is_local: bool, look: str
) -> None:
    async def connect(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(nats_bus, "connect", connect)
    at = which.Address(
        name="shop", bus=buses.BusSettings(url="nats://me:secret@127.0.0.1:1"), kube=ANY, is_local=is_local
    )
    with pytest.raises(errors.BusUnavailable) as failed:
        async with connection.bus_of(at, clocks.SystemClock(), name="test", within_s=0.01):
            pass
    assert str(failed.value).startswith("NATS at 127.0.0.1:1: nothing that lets us in within 0.01 s; ")
    assert look in str(failed.value)


def test_a_flag_goes_before_the_environment(shop: state.Paths) -> None:
    home = shop.root.parent
    elsewhere = {"NATS_URL": "nats://elsewhere:4222"}
    with state.acquire(shop):
        assert which.chosen(home, elsewhere, name="shop", nats_url=None, wanted=ANY)().name == "shop"
    assert which.chosen(home, elsewhere, name=None, nats_url="x:1", wanted=ANY)().bus.url == "x:1"
    assert which.chosen(home, elsewhere, name=None, nats_url=None, wanted=ANY)().bus.url == "nats://elsewhere:4222"
    with pytest.raises(errors.SettingsError, match="got both"):
        which.chosen(home, {}, name="shop", nats_url=URL, wanted=ANY)


@pytest.mark.parametrize("url", ["foo:bar", "nats://foo:99999", "http://foo:1", "x:1,:2", "nats://[::1"])
def test_an_address_that_is_none_is_one_line_that_names_where_it_stands(url: str) -> None:
    nowhere = pathlib.Path("/nowhere")
    for environ, nats_url, said in (({}, url, "--nats-url"), ({"NATS_URL": url}, None, "NATS_URL")):
        with pytest.raises(errors.SettingsError, match=f"^{said}: got .* expected an address such as nats://"):
            which.chosen(nowhere, environ, name=None, nats_url=nats_url, wanted=ANY)


def test_without_any_it_is_the_default(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.SettingsError, match="no cluster named 'demo'"):
        which.chosen(tmp_path, {}, name=None, nats_url=None, wanted=ANY)()
