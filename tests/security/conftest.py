"""Buses that several files attack: started once, since no attack may change them."""

from collections.abc import Iterator

import pytest

from tests.security import bus_site, live_site


@pytest.fixture(scope="session", params=sorted(bus_site.RUNNING))
def bus(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[bus_site.Bus]:
    """A running bus, by each way of identities."""
    with bus_site.RUNNING[request.param](tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest.fixture(scope="session")
def honest(bus: bus_site.Bus) -> Iterator[bus_site.Honest]:
    """The honest side of the bus."""
    found = bus_site.Honest(bus)
    yield found
    found.close()


@pytest.fixture(scope="session", params=sorted(bus_site.RUNNING))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[live_site.LiveSite]:
    """A small cluster that binds Pods, by each way of identities; `live_site.STATIC` and `CALLOUT` choose one."""
    with live_site.running(tmp_path_factory.mktemp("live"), kind=request.param) as found:
        yield found
