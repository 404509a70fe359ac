"""What several kinds of end-to-end tests share: one Docker engine a session, as there is one at a time on a machine."""

from collections.abc import Iterator

import pytest

from tests.tools import debian
from tests.tools.docker import docker_engine


@pytest.fixture(scope="session")
def docker() -> Iterator[docker_engine.Running]:
    """A running engine; skips, saying why, where none can be had."""
    why_not = debian.allowed()
    if why_not is not None:
        pytest.skip(why_not)
    with debian.opened(docker_engine.running()) as found:
        yield found
