"""What several kinds of end-to-end tests share: one Docker engine a session, as there is one at a time on a machine."""

from collections.abc import Iterator

import pytest

from carico_core.domain import errors
from tests.tools import debian, docker_engine


@pytest.fixture(scope="session")
def docker() -> Iterator[docker_engine.Running]:
    """A running engine; skips, saying why, where none can be had."""
    why_not = debian.allowed()
    if why_not is not None:
        pytest.skip(why_not)
    running = docker_engine.running()
    try:
        found = running.__enter__()
    except errors.EnvironmentUnfit as error:
        pytest.skip(f"not to be had here: {error}")
    try:
        yield found
    finally:
        running.__exit__(None, None, None)
