"""Ports that are chosen before anybody listens on them."""

import itertools

import pytest

from carico_local import nats_server


def test_a_port_is_given_once_though_nothing_listens_on_it_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    # As two calls whose search begins at one place.
    monkeypatch.setattr(nats_server, "_calls", itertools.repeat(0))
    assert len({nats_server.free_port() for _ in range(5)}) == 5
