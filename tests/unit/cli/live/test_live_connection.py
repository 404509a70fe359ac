"""Connecting to a cluster's bus: what is said where none answers."""

import re

import pytest

from carico_cli.live import addresses, connection
from carico_core.domain import errors
from carico_core.runtime.bus import port as buses
from carico_core.runtime.kube import api_client
from carico_core.runtime.process import clock as clocks


@pytest.mark.parametrize(("is_local", "look"), [(True, "`carico status --name shop`"), (False, "CARICO_BUS_")])
async def test_a_bus_that_does_not_answer_is_one_line_with_what_to_do(is_local: bool, look: str) -> None:
    at = addresses.Address(
        name="shop",
        bus=buses.BusSettings(url="nats://me:secret@127.0.0.1:1"),
        kube=api_client.KubeSettings(),
        is_local=is_local,
    )
    with pytest.raises(errors.BusUnavailable) as failed:
        async with connection.bus_of(at, clocks.SystemClock(), name="test", within_s=0.01):
            pass
    # The reason is there as soon as one attempt has failed.
    assert re.match(r"NATS at 127\.0\.0\.1:1: cannot connect within 0\.01 s(: .*)?; ", str(failed.value))
    assert "secret" not in str(failed.value)
    assert look in str(failed.value)
